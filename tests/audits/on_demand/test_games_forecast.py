"""Forecasts of a config's games, from the share of the mechanism's ε that a pair shows."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpaudit.auditor.kind import Forecast
from dpaudit.auditor.run import run_audit
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.on_demand.games import forecast
from dpaudit.bounds.planning import detectable_epsilon, trials_needed
from dpaudit.core.errors import InputError

BASE: dict[str, Any] = {
    "seed": 5,
    "data": {"synthetic": {"n_users": 60, "n_items": 50, "mean_per_user": 25, "seed": 1}},
    "model": [
        {"label": "published", "epsilon": [1, 3], "params": {"top_k": 5}},
        {"label": "corrected", "variant": "corrected", "params": {"top_k": 5}},
        {"label": "exact", "variant": "nonprivate", "params": {"top_k": 5}},
    ],
    "audit": {"trials": 50},
    "game": [{"pair": "support-threshold", "trials": 600}, {"pair": "tight", "trials": 900}],
}


def config(**changes: Any) -> OnDemandConfig:
    return OnDemandConfig.model_validate(BASE | changes)


def by_place(rows: list[Forecast]) -> dict[tuple[str, str, float], Forecast]:
    return {(row.model, row.pair, row.claimed): row for row in rows}


def test_a_forecast_for_every_game_at_every_claim() -> None:
    """A forecast counts all trials and the shift of the run's own pair."""
    rows = by_place(forecast(config()))
    assert list(rows) == [
        ("published", "support-threshold", 1.0),
        ("published", "support-threshold", 3.0),
        ("published", "tight", 1.0),
        ("published", "tight", 3.0),
        ("corrected", "support-threshold", 1.0),
        ("corrected", "tight", 1.0),
    ]
    assert {row.trials for row in rows.values()} == {1200, 1800}
    assert all(row.needed is None and 0 < row.seconds < math.inf for row in rows.values())
    record = run_audit(config())
    alpha = record.family.alpha
    measured = [
        measurement for measurement in record.measurements if measurement.metric == "epsilon"
    ]
    for measurement in measured:
        if measurement.model == "exact":
            continue
        assert measurement.pair is not None
        assert measurement.shift is not None
        row = rows[measurement.model, measurement.pair, measurement.epsilon]
        point = next(
            point
            for point in record.points
            if (point.model, point.epsilon) == (measurement.model, measurement.epsilon)
        )
        assert point.sensitivity is not None
        shows = min(1.0, measurement.shift / point.sensitivity)
        least = detectable_epsilon(measurement.epsilon, row.trials, alpha)
        assert row.detectable == (least / shows if shows else math.inf)
        # The label test leaves out some trials of classes of fixed size.
        assert row.trials > measurement.estimate.n > 0.85 * row.trials
    # The threshold pair moves a prediction ten times the published Δf: it shows all of its ε.
    full = rows["published", "support-threshold", 1.0]
    assert full.detectable == detectable_epsilon(1.0, 1200, alpha)
    assert rows["corrected", "support-threshold", 1.0].detectable > full.detectable


def test_the_trials_that_a_factor_needs() -> None:
    rows = by_place(forecast(config(), factor=2.0))
    alpha = run_audit(config()).family.alpha
    expected = trials_needed(1.0, 2.0, confidence=1 - alpha, game="laplace", method="label test")
    assert rows["published", "support-threshold", 1.0].needed == expected
    # A pair that shows a tenth of the ε cannot show twice the claim.
    assert rows["published", "tight", 1.0].needed == math.inf
    finer = by_place(forecast(config(), factor=1.2))["published", "support-threshold", 1.0].needed
    assert finer is not None
    assert finer > expected


def test_the_gates_say_what_is_wanted_unless_a_factor_does() -> None:
    gate = {"metric": "epsilon", "max": "claim", "where": {"model": "published"}}
    gates = [{**gate, "detectable": 3.0}, {**gate, "detectable": 2.0}]
    strictest = by_place(forecast(config(gate=gates)))
    assert strictest["published", "support-threshold", 1.0].needed == (
        by_place(forecast(config(), factor=2.0))["published", "support-threshold", 1.0].needed
    )
    assert by_place(forecast(config(gate=gates), factor=3.0))[
        "published", "support-threshold", 1.0
    ].needed != (strictest["published", "support-threshold", 1.0].needed)


def test_minutes_replace_the_trials_in_proportion() -> None:
    rows = forecast(config(), minutes=1e-4)
    assert sum(row.seconds for row in rows) == pytest.approx(60 * 1e-4, rel=0.02)
    shares = {row.pair: row.trials for row in rows}
    assert shares["tight"] == pytest.approx(1.5 * shares["support-threshold"], abs=2)
    least, most = (forecast(config(), minutes=minutes)[0] for minutes in (1e-12, 1e12))
    assert (least.trials, least.detectable) == (2, math.inf)
    assert most.trials == 200_000_000
    assert most.detectable < 1.01


def test_nothing_claimed_or_no_game_is_an_empty_forecast() -> None:
    assert forecast(config(game=[])) == []
    assert forecast(config(game=[]), minutes=1.0) == []
    assert forecast(config(model=BASE["model"][2]), minutes=1.0, factor=2.0) == []


@pytest.mark.cases("value", [-1.0, 0.0, math.inf, math.nan])
def test_what_is_out_of_range_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="minutes = "):
        forecast(config(), minutes=value)
    with pytest.raises(InputError, match="factor = "):
        forecast(config(), factor=value)


def test_lists_show_the_share_of_the_claim_that_their_law_says() -> None:
    model = {"epsilon": [1], "params": {"top_k": 5}}
    models = [
        {**model, "defense": "top-k", "label": "published"},
        {**model, "defense": "top-k", "label": "corrected", "variant": "corrected"},
    ]
    lists = config(model=models, game={"pair": "last-ranked", "trials": 600})
    published, corrected = forecast(lists, factor=3.0)
    record = run_audit(lists)
    full = detectable_epsilon(1.0, 1200, record.family.alpha)
    assert published.detectable == full  # some lists are possible on one data set only
    truth = record.measurements[-1].theory
    assert truth is not None
    assert corrected.detectable == pytest.approx(full / truth.value)
    assert corrected.needed is not None
    assert published.needed is not None
    assert corrected.needed > published.needed


def test_a_list_of_predictions_is_forecast_beside_their_values() -> None:
    games = [{"pair": "support-threshold"}, {"pair": "support-threshold", "observe": "list"}]
    model = {"epsilon": [1], "params": {"top_k": 5}}
    values, places = forecast(config(model=model, game=games))
    assert (values.pair, places.pair) == ("support-threshold", "support-threshold (list)")
    assert values.detectable <= places.detectable < math.inf
