"""Errors of held-out ratings of models that serve on demand, and gates on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.auditor.run import run_audit
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.on_demand.measures import run_held_out
from dpaudit.audits.on_demand.subject import OnDemandModel
from dpaudit.bounds.frequentist.means import betting_mean
from dpaudit.data.readers.load import load
from dpaudit.record.result import AuditResult, Measurement

BASE: dict[str, Any] = {
    "seed": 4,
    "data": {
        "synthetic": {"n_users": 40, "n_items": 30, "mean_per_user": 15, "minimum_per_user": 9}
    },
    "audit": {"trials": 400},
    "model": {"epsilon": [1, 20], "params": {"top_k": 3, "min_ratings": 8}},
    "gate": [{"metric": "utility.mae", "max": 3.9}],
}


def of(record: AuditResult, metric: str) -> list[Measurement]:
    return [measurement for measurement in record.measurements if measurement.metric == metric]


def test_a_gated_mean_error_is_that_of_the_same_trials() -> None:
    config = OnDemandConfig.model_validate(BASE)
    record = run_audit(config)
    (sweep,) = OnDemandModel.of(config, load(config.data))
    errors = run_held_out(
        sweep.predicting, sweep.prepared, sweep.users(extra=1), trials=400, seed=4
    )
    for shares, absolute, squared in zip(
        errors, of(record, "utility.mae"), of(record, "utility.rmse"), strict=True
    ):
        bet = betting_mean(shares, record.family.alpha, 0.95)
        estimate = absolute.estimate
        assert (estimate.value, estimate.lower, estimate.upper) == pytest.approx(
            (4 * bet.value, 4 * bet.lower, 4 * bet.upper)
        )
        assert estimate.kind == "frequentist"
        assert squared.estimate.value == pytest.approx(4 * np.sqrt((shares**2).mean()))
        assert estimate.value < squared.estimate.value
    assert [gate.outcome for gate in record.gates] == ["pass"]


def test_without_its_gate_the_mean_error_widens_nothing() -> None:
    record = run_audit(OnDemandConfig.model_validate({**BASE, "gate": []}))
    assert not of(record, "utility.mae")
    assert record.family.size == 4  # two values of ε: overlap and rmse
    gated = OnDemandConfig.model_validate({**BASE, "audit": {"trials": 20}})
    assert run_audit(gated).family.size == 6
