"""The estimated cost of a run: every stage, its tasks and trials, without running them all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scratch_package import install  # type: ignore[import-not-found]

from dpaudit.auditor.plan import Plan
from dpaudit.auditor.run import cost_of
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError
from dpaudit.execution.sampling import Cost, Sample
from dpaudit.execution.tasks import Progress

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
    cost = cost_of(Plan(Config.model_validate(VALUES)), Progress(), 4.0)
    trials = {stage.stage: stage.trials for stage in cost.stages}
    assert trials == {
        "m: attack a": 3000,
        "m: lists": 3000,
        "m: held-out ratings": 3000,
        "m: game tight": 2 * 2 * 100_000_000,
        "m: Sybil attack s": 2 * 10,
    }
    seconds = {stage.stage: stage.seconds or 0.0 for stage in cost.stages}
    assert all(one > 0 for one in seconds.values())
    assert cost.seconds == pytest.approx(sum(seconds.values()))
    assert cost.controlled == seconds["m: game tight"]
    assert not cost.untimed
    assert not cost.once


def test_memory_grows_with_the_workers() -> None:
    cost = Cost([Sample("a", 2, 20, 4.0)], base=1000, task=10)
    assert [cost.memory(workers) for workers in (1, 4)] == [1010, 1040]


def test_what_is_not_timed_is_in_no_sum() -> None:
    game = Sample("b", 1, 5, None, limit=2.0, controlled=True)
    cost = Cost([Sample("a", 2, 20, 4.0, once=True), game], base=1000, task=10)
    assert (cost.seconds, cost.controlled) == (4.0, 0.0)
    assert cost.untimed == [game]
    assert cost.once


def test_a_black_box_cannot_be_estimated() -> None:
    box = {"target": "m:f", "d": 0, "d_prime": 1, "epsilon": 1.0, "kind": "python"}
    with pytest.raises(ConfigError, match="cannot be estimated"):
        cost_of(Plan(Config.model_validate({"defense": box})), Progress(), 4.0)


def test_a_kind_of_another_package_estimates_its_own_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
from dpaudit.execution.sampling import Cost
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
    assert cost_of(Plan(Config.model_validate({"own": 7})), Progress(), 4.0).memory(2) == 9
