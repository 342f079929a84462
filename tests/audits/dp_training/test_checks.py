"""Checks of one transcript: faults that are planted are found, and honest trainings pass."""

from __future__ import annotations

import math
from typing import Any

import dpsgd  # type: ignore[import-not-found]
import numpy as np
import pytest

from dpaudit.audits.dp_training import checks
from dpaudit.audits.dp_training.transcript import Vector
from dpaudit.audits.dp_training.verdict import Verdict


def verdicts(seed: int, **planted: Any) -> dict[str, Verdict]:
    training = dpsgd.transcript(seed, **planted)
    said = checks.of_transcript(training, dpsgd.law(training), None)
    return {verdict.check: verdict for verdict in said}


def scaled(factor: float) -> Any:
    return lambda rng, step, summed: factor * rng.standard_normal(len(summed))


def reused(rng: np.random.Generator, step: int, summed: Vector) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(len(summed))


def on_touched(rng: np.random.Generator, step: int, summed: Vector) -> np.ndarray:
    noise: np.ndarray = rng.standard_normal(len(summed)) * (summed != 0)
    return noise


def at_first(rng: np.random.Generator, step: int, summed: Vector) -> np.ndarray:
    return rng.standard_normal(len(summed)) * (step == 0)


def twice(rng: np.random.Generator, step: int, summed: Vector) -> np.ndarray:
    half = rng.standard_normal(len(summed) // 2).astype(np.float32)
    return np.concatenate([half, half])


def uniform(rng: np.random.Generator, step: int, summed: Vector) -> np.ndarray:
    return rng.uniform(-math.sqrt(3), math.sqrt(3), len(summed))


@pytest.mark.long
@pytest.mark.cases(
    ("check", "planted", "number"),
    [
        ("clipping", {"excess": 0.5, "largest": 30.0}, True),
        ("noise-missing", {"noise": at_first}, True),
        ("noise-missing", {"noise": on_touched}, True),
        ("noise-repeated", {"noise": twice}, True),
        ("noise-reused", {"noise": reused}, True),
        ("noise-scale", {"by_batch": True}, True),
        ("noise-size", {"noise": scaled(0.5)}, True),
        ("noise-size", {"noise": scaled(0.95)}, True),
        ("noise-shape", {"noise": uniform}, False),
        ("batch-rate", {"rows": lambda rng: rng.binomial(1000, 1 / 8)}, True),
        ("batch-shape", {"rows": lambda rng: 62}, False),
        ("steps-counted", {"counted": 8}, True),
    ],
)
def test_a_planted_fault_is_found(check: str, planted: dict[str, Any], number: bool) -> None:
    for seed in range(3):
        found = verdicts(seed, **planted)
        assert check in dpsgd.failing(found.values())
        assert (found[check].epsilon > 0) == number
        assert found[check].remedy


@pytest.mark.long
def test_honest_trainings_and_their_prefixes_are_not_accused() -> None:
    for seed in range(60):
        assert dpsgd.failing(verdicts(seed, steps=1 + seed).values()) == set()


def test_more_noise_and_smaller_batches_are_no_fault() -> None:
    small = {"noise": scaled(1.3), "rows": lambda rng: rng.binomial(1000, 1 / 32)}
    assert dpsgd.failing(verdicts(0, **small).values()) == set()


def test_what_was_not_seen_is_not_tested() -> None:
    unclipped = verdicts(0, largest=0.5)["clipping"]
    assert unclipped.outcome == "not tested"
    assert "no gradient exceeded the norm" in unclipped.text
    assert verdicts(0, counted=None)["steps-counted"].outcome == "not tested"
    assert verdicts(0, rows=lambda rng: None)["batch-rate"].outcome == "not tested"
    broken = verdicts(0, noise=reused)
    assert broken["noise-size"].outcome == broken["noise-shape"].outcome == "not tested"


@pytest.mark.long
def test_halved_noise_implies_the_epsilon_of_halved_noise() -> None:
    training = dpsgd.transcript(1, noise=scaled(0.5))
    law = dpsgd.law(training)
    size = checks.measured_size(training.steps)
    assert size.lower < 0.5 < size.upper
    found = {v.check: v for v in checks.of_transcript(training, law, None)}
    half = law.changed(noise=0.5).epsilon
    assert found["noise-size"].epsilon == pytest.approx(half, rel=0.1)
    assert found["noise-size"].epsilon < half


def test_enlarged_weights_show_that_clipping_is_missing() -> None:
    training, stress = dpsgd.transcript(0, largest=0.5), dpsgd.transcript(0, excess=30.0)
    assert checks.clipping(training, dpsgd.law(training), stress).fails


def test_a_seed_that_decides_no_noise_is_found() -> None:
    one, two = dpsgd.transcript(0), dpsgd.transcript(1)
    assert checks.seeds(one, two).outcome == "holds"
    fixed = [dpsgd.transcript(seed, noise=reused) for seed in (0, 1)]
    verdict = checks.seeds(*fixed)
    assert verdict.fails
    assert verdict.epsilon == math.inf
