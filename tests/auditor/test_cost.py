"""The estimated cost of a run: every stage, its tasks and trials, without running them all."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from scratch_package import install  # type: ignore[import-not-found]

from dpaudit.auditor.cost import Cost
from dpaudit.auditor.run import cost_of
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError
from dpaudit.execution.sampling import Sample, Sampler
from dpaudit.execution.tasks import Task

VALUES: dict[str, Any] = {
    "seed": 3,
    "data": {"synthetic": {"n_users": 40, "n_items": 50, "mean_per_user": 25}},
    "model": {"label": "m", "defense": "slope-one", "epsilon": [2, 20], "params": {"top_k": 5}},
    "attack": {"name": "linear-ideal", "label": "a"},
    "game": {"pair": "tight", "trials": 100_000_000},
    "audit": {"trials": 3000},
    "sybil": {"efforts": [2], "trials": 10, "label": "s"},
}


@pytest.mark.long
def test_every_stage_is_counted_and_none_is_run_to_its_end() -> None:
    cost = cost_of(Config.model_validate(VALUES))
    trials = {stage.stage: stage.trials for stage in cost.stages}
    assert trials == {
        "m: attack a": 3000,
        "m: lists": 3000,
        "m: held-out ratings": 3000,
        "m: game tight": 2 * 2 * 100_000_000,
        "m: Sybil attack s": 2 * 10,
    }
    assert all(stage.seconds > 0 for stage in cost.stages)
    assert cost.seconds == pytest.approx(sum(sample.seconds for sample in cost.samples))
    games = [stage.seconds for stage in cost.stages if stage.stage == "m: game tight"]
    assert cost.controlled == pytest.approx(sum(games))


def test_memory_grows_with_the_workers() -> None:
    cost = Cost([Sample("a", 2, 20, 4.0), Sample("a", 1, 5, 1.0)], base=1000, task=10)
    assert [cost.memory(workers) for workers in (1, 4)] == [1010, 1040]
    assert cost.stages == [Sample("a", 3, 25, 5.0)]


def test_a_black_box_cannot_be_estimated() -> None:
    box = {"target": "m:f", "d": 0, "d_prime": 1, "epsilon": 1.0, "kind": "python"}
    with pytest.raises(ConfigError, match="cannot be estimated"):
        cost_of(Config.model_validate({"defense": box}))


def test_a_kind_of_another_package_estimates_its_own_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
from dpaudit.auditor.cost import Cost
from dpaudit.auditor.kind import AuditKind
from dpaudit.config.schema import Config

class OwnConfig(Config):
    title = "own"
    marks = frozenset({"own"})
    own: int
    @property
    def audited(self):
        from typing import NamedTuple
        class Audited(NamedTuple):
            label: str
            epsilon: list
        return [Audited("own", [1.0])]

class Own(AuditKind):
    name = "own"
    config = OwnConfig
    def subject(self):
        raise AssertionError("is not audited")
    def measures(self):
        return ()
    def cost(self, config, sampled):
        return Cost([], base=config.own, task=1)

KIND = Own()
"""
    install(tmp_path, monkeypatch, code, {"dpaudit.audits": "own = scratch:KIND"})
    assert cost_of(Config.model_validate({"own": 7})).memory(2) == 9


def test_a_task_that_takes_long_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 30.0, 30.0, 31.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    sampler = Sampler()
    assert sampler.take("stage", [Task(str, 1, 1), Task(str, 2, 1)])
    assert sampler.samples == [Sample("stage", 2, 2, 60.0)]


def test_a_sampler_runs_the_first_task_and_counts_the_others() -> None:
    called: list[int] = []

    def work(number: int) -> str:
        called.append(number)
        return ""

    sampler = Sampler()
    assert sampler.take("stage", (Task(work, number, 4) for number in range(5)))
    assert called == [0, 0]  # the first time loads what others share
    [sample] = sampler.samples
    assert (sample.stage, sample.tasks, sample.trials) == ("stage", 5, 20)
    assert not sampler.take("nothing", [])
