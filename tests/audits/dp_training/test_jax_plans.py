"""Trainings with jax-privacy: an honest one, one with less noise than stated, and other plans."""

from __future__ import annotations

import importlib
from dataclasses import replace
from functools import partial
from typing import Any

import dpsgd  # type: ignore[import-not-found]
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

from dpaudit.audits.dp_training import checks
from dpaudit.audits.dp_training.runs import Trainer
from dpaudit.core.errors import ConfigError

plans = pytest.importorskip("jax_privacy.experimental.execution_plan")
# Other tests of this process fork, and no fork of theirs computes with jax, which warns of each.
vars(importlib.import_module("jax._src.xla_bridge"))["_at_fork_handler_installed"] = True
# jax-privacy 2.0.0 calls what a later optax renames.
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
script = partial(dpsgd.script, "jax_privacy_training", STEPS=16, RATE=1 / 16)
ratings = partial(dpsgd.ratings, 600, users=60, items=80)


def test_an_honest_training_keeps_every_check_that_can_be_made() -> None:
    found = dpsgd.examined(script().train, ratings(), far=1)
    outcomes = {verdict.check: verdict.outcome for verdict in found.verdicts}
    assert outcomes.pop("clipping") == "not tested"
    assert set(outcomes.values()) == {"holds"}, outcomes
    assert found.stated == pytest.approx(found.law.epsilon, rel=0.01)


def test_noise_that_is_less_than_the_plan_states_is_found() -> None:
    def train(interactions: Any, seed: int, watch: Any) -> Any:
        def halved(plan: Any) -> Any:
            sampled = PoissonSampledDpEvent(1 / 16, GaussianDpEvent(2.0))
            return watch(replace(plan, dp_event=SelfComposedDpEvent(sampled, 16)))

        return script().train(interactions, seed, halved)

    run = Trainer(train, "train", 3, 1e-5).run(ratings())
    assert dpsgd.failing(checks.noise(run.steps, dpsgd.law(run))) == {"noise-size"}
    assert checks.measured_size(run.steps).value == pytest.approx(0.5, rel=0.02)


def test_a_training_ends_where_its_next_batch_is_drawn() -> None:
    run = Trainer(script().train, "train", 3, 1e-5).run(ratings(), steps=2)
    assert (len(run.steps), run.final) == (2, "")


def test_a_plan_of_more_bands_is_refused() -> None:
    def train(interactions: Any, seed: int, watch: Any) -> None:
        options = {"epsilon": None, "delta": None, "noise_multiplier": 1.0, "noise_seed": 1}
        watch(plans.BandMFExecutionPlanConfig.default(2, 8, 2, sampling_prob=0.1, **options).plan)

    with pytest.raises(ConfigError, match="plans with one band"):
        Trainer(train, "train", 3, 1e-5).run(ratings())
