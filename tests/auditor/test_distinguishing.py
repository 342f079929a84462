"""Games of a config: what their mutants say, and what is said where a mutant cannot be run."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.auditor.run import run_audit
from dpaudit.config.schema import Config
from dpaudit.core.errors import RunError
from dpaudit.defenses.item_item.similarities import SlopeOne
from dpaudit.record.result import AuditResult

VALUES: dict[str, Any] = {
    "seed": 3,
    "data": {"synthetic": {"n_users": 40, "n_items": 50, "mean_per_user": 25}},
    "model": {
        "label": "m",
        "defense": "slope-one",
        "variant": "corrected",
        "epsilon": 1.0,
        "params": {"top_k": 5},
    },
    "game": {"pair": "tight", "trials": 2000},
    "audit": {"trials": 20},
    "gate": {"metric": "epsilon", "max": "claim", "detectable": 1.5},
}


def run(monkeypatch: pytest.MonkeyPatch, fails_from: float) -> AuditResult:
    """Audit a defense that cannot be run with the noise of an ε of at least `fails_from`."""
    release = SlopeOne.release_items

    def failing(self: SlopeOne, *arguments: Any) -> Any:
        if self.epsilon >= fails_from:
            raise RunError("no memory is left")
        return release(self, *arguments)

    monkeypatch.setattr(SlopeOne, "release_items", failing)
    return run_audit(Config.model_validate(VALUES))


@pytest.mark.long
def test_a_gate_does_not_pass_by_mutants_that_could_not_be_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = run(monkeypatch, 100.0)
    assert honest.outcome == "go"
    assert not honest.findings
    monkeypatch.undo()
    result = run(monkeypatch, 1.2)
    assert result.outcome == "undecided"
    (first, *_) = result.findings
    assert first.about == "control"
    assert first.text.startswith("Game tight: ")
    assert "cannot be run on noise for ε = 1.5 (no memory is left)" in first.text
    bounds = [
        [
            measurement.estimate
            for measurement in one.measurements
            if measurement.metric == "epsilon"
        ]
        for one in (honest, result)
    ]
    assert bounds[0] == bounds[1]
