from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpaudit.auditor.run import run_audit
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.data.folds import split_users
from dpaudit.data.neighbors import RatingReplaced
from dpaudit.data.ratings import Scale
from dpaudit.data.readers.load import load
from dpaudit.defenses.base import PredictionPair
from dpaudit.defenses.item_item.similarities import SlopeOne
from dpaudit.execution.workers import Workers
from dpaudit.record.result import AuditResult, GateRecord
from dpaudit.record.values import Control

BASE: dict[str, Any] = {
    "seed": 5,
    "data": {"synthetic": {"n_users": 120, "n_items": 90, "mean_per_user": 30, "seed": 1}},
    "model": [
        {"label": "published", "epsilon": [1, 30], "params": {"top_k": 5}},
        {"label": "exact", "variant": "nonprivate", "params": {"top_k": 5}},
    ],
    "attack": [{"label": "one"}, {"label": "list", "params": {"observe": "list"}}],
    "audit": {"trials": 600},
    "game": {"pair": "support-threshold", "trials": 2000},
}


def run(threads: int = 1, **changes: Any) -> AuditResult:
    return run_audit(OnDemandConfig.model_validate(BASE | changes), workers=Workers(threads))


def test_no_ratings_are_not_replaced_by_those_of_the_config() -> None:
    config = OnDemandConfig.model_validate(BASE)
    ratings = load(config.data)
    with pytest.raises(DataError, match="the data hold no ratings"):
        run_audit(config, ratings=ratings.only(ratings.user < 0))


def numbers(result: AuditResult) -> str:
    return json.dumps(result.model_dump(mode="json", exclude={"timing"}))


@pytest.fixture(scope="module")
def result() -> AuditResult:
    return run()


@pytest.mark.long
def test_the_same_seed_gives_the_same_record_on_any_number_of_threads(result: AuditResult) -> None:
    assert numbers(run(threads=2)) == numbers(result)
    assert result.kind == "on_demand"
    assert numbers(run(seed=6)) != numbers(result)


@pytest.mark.long
def test_ratings_of_users_with_many_weigh_more_where_each_is_drawn_equally_often() -> None:
    """Their noise n Δf/ε is larger, so drawing them more often lowers the accuracy only."""
    nearest = {"params": {"reader": "round"}}
    record = run(
        model=[{"label": "published", "epsilon": 10}],
        attack=[{"label": "users", **nearest}, {"label": "ratings", "draw": "ratings", **nearest}],
        audit={"trials": 200_000},
        game=[],
    )
    assert {label: attack["draw"] for label, attack in record.attacks.items()} == {
        "users": "users",
        "ratings": "ratings",
    }
    shares = {
        measurement.attack: measurement.estimate
        for measurement in record.measurements
        if measurement.metric == "attack.accuracy"
    }
    assert shares["ratings"].upper < shares["users"].lower
    (point,) = record.points
    train = OnDemandConfig.model_validate(BASE)
    _, users = split_users(load(train.data), train.split.test_share, train.seed)
    sizes = np.array([len(user) for user in users if len(user) >= 20])
    assert point.noise_scale
    exact = 1 - np.exp(-1 / (2 * sizes * point.noise_scale))
    for label, weights in (("users", np.ones(len(sizes))), ("ratings", sizes)):
        assert shares[label].lower < np.average(exact, weights=weights) < shares[label].upper


def test_another_point_of_the_sweep_does_not_move_the_others(result: AuditResult) -> None:
    wider = run(model=[{"label": "published", "epsilon": [30, 3], "params": {"top_k": 5}}])

    def at(record: AuditResult, epsilon: float) -> list[float]:
        return [
            measurement.estimate.value
            for measurement in record.measurements
            if (measurement.model, measurement.epsilon) == ("published", epsilon)
        ]

    assert at(wider, 30.0) == at(result, 30.0)


def test_without_noise_everything_is_recovered_and_kept(result: AuditResult) -> None:
    exact = [measurement for measurement in result.measurements if measurement.model == "exact"]
    values = {
        (measurement.metric, measurement.attack): measurement.estimate for measurement in exact
    }
    assert values["attack.accuracy", "one"].value == 1
    assert values["attack.accuracy", "list"].value == 1
    assert values["utility.overlap", None].value == 1
    assert values["epsilon", "likelihood-ratio"].value == math.inf
    assert values["attack.accuracy", "one"].lower < 1


def test_the_family_holds_every_interval(result: AuditResult) -> None:
    family = result.family
    assert len(result.measurements) == family.size == 3 * (2 + 2 + 1)
    assert family.alpha == pytest.approx(0.05 / 15)
    for measurement in result.measurements:
        assert measurement.estimate.alpha == family.alpha
        assert (
            measurement.estimate.lower <= measurement.estimate.value <= measurement.estimate.upper
        )


def test_the_record_says_what_was_audited(result: AuditResult) -> None:
    assert result.data is not None
    assert result.data.users == 120
    assert result.data.trained + result.data.attacked == 120
    points = {(point.model, point.epsilon): point for point in result.points}
    assert points["published", 1.0].sensitivity == pytest.approx(0.4)
    assert points["published", 30.0].noise_scale == pytest.approx(0.4 / 30)
    claim = points["published", 1.0].claim
    assert claim is not None
    assert (claim.epsilon, claim.adjacency) == (1.0, "rating-add-remove")
    assert points["exact", math.inf].claim is None
    text = result.model_dump_json()
    assert AuditResult.model_validate_json(text).model_dump_json() == text


def test_the_published_noise_is_certified_to_leak_more_than_claimed(result: AuditResult) -> None:
    bound = next(
        measurement
        for measurement in result.measurements
        if (measurement.metric, measurement.model, measurement.epsilon)
        == ("epsilon", "published", 1.0)
    )
    assert bound.estimate.lower > 1
    assert bound.shift == pytest.approx(4)


def test_constructed_pairs_follow_the_scale_of_the_data() -> None:
    """On the scale 0..100 the threshold pair moves a prediction by 100, not by the 4 of 1..5."""
    scale = {"minimum": 0, "maximum": 100, "step": 1}
    data = {"synthetic": BASE["data"]["synthetic"] | {"scale": scale, "noise": 20}}
    record = run(data=data, attack=[])
    bound = next(
        measurement for measurement in record.measurements if measurement.metric == "epsilon"
    )
    assert bound.shift == pytest.approx(100)
    assert bound.estimate.lower > bound.epsilon == 1


def test_a_claim_for_replaced_ratings_is_run_on_replaced_ratings() -> None:
    """On this scale the published Δf is large enough: nothing above the claim is certified."""
    model = {"epsilon": 1, "params": {"top_k": 5, "adjacency": "rating-replace"}}
    games = [{"pair": pair, "trials": 2000} for pair in ("beside", "data")]
    record = run(model=model, attack=[], game=games)
    bounds = [measurement for measurement in record.measurements if measurement.metric == "epsilon"]
    assert len(bounds) == 2
    assert all(bound.estimate.lower <= 1 for bound in bounds)
    assert bounds[0].shift == pytest.approx(4 / 11)


def test_purchases_have_no_rating_error() -> None:
    data = BASE["data"] | {"binarize": 1}
    model = {"defense": "cosine", "epsilon": 3, "params": {"top_k": 5}}
    record = run(data=data, model=model, game={"pair": "tight", "trials": 500})
    metrics = [measurement.metric for measurement in record.measurements]
    assert metrics == ["attack.accuracy"] * 2 + ["utility.overlap", "epsilon"]
    assert record.family.size == 4


def test_a_pair_from_the_data(result: AuditResult) -> None:
    record = run(game={"pair": "data", "trials": 500, "candidates": 20})
    bounds = [measurement for measurement in record.measurements if measurement.metric == "epsilon"]
    assert all(bound.shift is not None and bound.shift > 0 for bound in bounds)
    assert re.search(r"of (2\d|3\d|40) ratings added", record.pairs[0].summary)


@pytest.mark.cases(
    ("changes", "words"),
    [
        ({"model": {"params": {"min_ratings": 60, "top_k": 5}}}, "none of the 24 attacked users"),
        ({"model": {"params": {"top_k": 89}}}, "too few for params.min_ratings = 20"),
        ({"model": {"defense": "cosine", "params": {"top_k": 5}}}, "data.binarize"),
        ({"data": BASE["data"] | {"binarize": 1}}, "use the defense 'cosine'"),
        (
            {"data": BASE["data"] | {"binarize": 1}, "model": {"defense": "top-k"}, "attack": []},
            "top-k needs ratings",
        ),
    ],
)
def test_data_that_do_not_fit_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError) as caught:
        run(**{"game": [], **changes})
    assert words in str(caught.value)


def test_the_split_is_by_user() -> None:
    ratings = load(OnDemandConfig.model_validate(BASE).data)
    train, attacked = split_users(ratings, 0.2, 1)
    assert len(attacked) == 24
    assert len(train) + sum(len(profile) for profile in attacked) == len(ratings)
    again, _ = split_users(ratings, 0.2, 1)
    other, _ = split_users(ratings, 0.2, 2)
    assert again.digest == train.digest != other.digest


LISTS: dict[str, Any] = {
    **BASE,
    "model": [
        {
            "label": "published",
            "defense": "top-k",
            "epsilon": [0.1, 10],
            "params": {"top_k": 5, "u_s": "largest-rate", "iterations": 50},
        },
        {
            "label": "corrected",
            "defense": "top-k",
            "variant": "corrected",
            "epsilon": [1],
            "params": {"top_k": 5},
        },
        {"label": "exact", "defense": "top-k", "variant": "nonprivate", "params": {"top_k": 5}},
    ],
    "attack": [],
    "game": {"pair": "last-ranked", "trials": 2000},
    "convergence": {"steps": [0, 5, 50], "users": 6},
}


def run_lists(threads: int = 1, **changes: Any) -> AuditResult:
    return run_audit(OnDemandConfig.model_validate(LISTS | changes), workers=Workers(threads))


@pytest.mark.long
def test_a_gate_judges_what_lists_tell_of_hidden_ratings() -> None:
    gates = [{"metric": "attack.accuracy", "max": limit} for limit in (0.9, 0.01)]
    record = run_lists(attack=[{}], game=[], convergence=None, gate=gates, audit={"trials": 200})
    assert [gate.outcome for gate in record.gates] == ["pass", "fail"]
    assert set(record.attacks) == {"list-ideal"}
    measurements = [m for m in record.measurements if m.metric == "attack.accuracy"]
    assert len(measurements) == 4
    assert {m.estimate.kind for m in measurements} == {"frequentist"}


def test_lists_are_audited_by_their_law() -> None:
    record = run_lists()
    assert numbers(run_lists(threads=2)) == numbers(record)
    by_key = {(m.metric, m.model, m.epsilon): m for m in record.measurements if m.step is None}
    assert {metric for metric, _, _ in by_key} == {"utility.overlap", "epsilon"}
    assert len(by_key) == record.family.size == 8
    # Some sets are possible on one data set only, so the true ε is infinite.
    broken = by_key["epsilon", "published", 0.1]
    assert broken.estimate.lower > 1
    assert broken.theory is not None
    assert broken.theory.value == math.inf
    assert (broken.attack, broken.pair, broken.shift) == ("likelihood-ratio", "last-ranked", None)
    assert broken.control is None  # the game itself found the violation
    held = by_key["epsilon", "corrected", 1.0]
    assert held.theory is not None
    assert held.estimate.lower <= held.theory.value <= 1
    # The same game certified a violation on a copy with too little noise.
    assert held.control is not None
    assert held.control.found
    assert held.control.certified > 1
    assert by_key["utility.overlap", "exact", math.inf].estimate.value == 1
    assert by_key["utility.overlap", "published", 0.1].estimate.value >= 0.8  # one of five swapped
    assert all(point.sensitivity is point.noise_scale is None for point in record.points)
    claim = record.points[0].claim
    assert claim is not None
    assert (claim.observer, claim.adjacency) == ("list", "entry-replace")
    text = record.model_dump_json()
    assert AuditResult.model_validate_json(text).model_dump_json() == text


def test_gates_on_lists_use_the_share_that_a_pair_shows() -> None:
    where = {"model": "corrected", "epsilon": 1}
    rules = [
        {"metric": "epsilon", "max": "claim", "detectable": 2, "where": where},
        {"metric": "epsilon", "max": "claim", "detectable": 1.001, "where": where},
        {"metric": "epsilon", "max": "claim", "detectable": 2, "where": {"model": "published"}},
        {"metric": "utility.overlap", "min": 0.75, "where": {"model": "published"}},
    ]
    record = run_lists(gate=rules)
    outcomes = [gate.outcome for gate in record.gates]
    assert outcomes == ["pass", "inconclusive", "fail", "pass"]
    held = next(m for m in record.measurements if m.model == "corrected" and m.metric == "epsilon")
    assert [(control.factor, control.found) for control in held.tried] == [
        (1.001, False),
        (1.5, False),
        (2.0, True),
    ]
    assert held.control == held.tried[2]
    assert "finds noise for ε = 2" in record.gates[0].reason
    assert "cannot find 1.001; " in record.gates[1].reason


def test_a_gate_passes_only_on_a_pair_whose_control_was_found() -> None:
    """The damped form has no threshold, so its pair shows no violation; another pair passes."""
    model = {"label": "m", "variant": "corrected", "epsilon": [1], "params": {"top_k": 5}}
    gate = {"metric": "epsilon", "max": "claim", "detectable": 1.5}

    def judged(*pairs: str) -> tuple[GateRecord, dict[str | None, Control | None]]:
        games = [{"pair": pair, "trials": 20_000} for pair in pairs]
        record = run(model=model, attack=[], game=games, gate=gate, audit={"trials": 20})
        controls = {m.pair: m.control for m in record.measurements if m.metric == "epsilon"}
        return record.gates[0], controls

    silent, controls = judged("support-threshold")
    assert silent.outcome == "inconclusive"
    assert "misses noise for ε = 4 (certified ε at least 0)" in silent.reason
    passed, controls = judged("support-threshold", "tight")
    assert passed.outcome == "pass"
    assert "tight: certified ε at least 0.9" in passed.reason
    assert "finds noise for ε = 1.5" in passed.reason
    control = controls["tight"]
    assert control is not None
    assert (control.factor, control.found) == (1.5, True)
    assert 1 < control.certified <= 1.5


@pytest.mark.long
def test_convergence_is_computed_and_takes_no_confidence() -> None:
    with_it, without = run_lists(), run_lists(convergence=None)
    measurements = [m for m in with_it.measurements if m.metric == "chain.divergence"]
    assert [m for m in with_it.measurements if m not in measurements] == without.measurements
    assert with_it.family == without.family
    assert {(m.model, m.epsilon) for m in measurements} == {("published", 0.1), ("published", 10.0)}
    assert {(m.step, m.detail) for m in measurements} == {
        (step, states)
        for step in (0, 5, 50)
        for states in ("explored states, at most 10", "all states")
    }
    assert all(m.estimate.kind == "exact" and m.estimate.n == 0 for m in measurements)
    assert all("mean of 6 users" in m.estimate.method for m in measurements)


def test_a_list_of_predictions_is_a_game_of_its_own() -> None:
    record = run(
        model={"epsilon": [1, 300], "params": {"top_k": 5}},
        attack=[],
        game=[
            {"pair": "support-threshold", "trials": 4000},
            {"pair": "support-threshold", "observe": "list", "trials": 4000},
            {"pair": "data", "observe": "list", "trials": 500, "candidates": 5},
        ],
    )
    games = {(m.pair, m.epsilon): m for m in record.measurements if m.metric == "epsilon"}
    values, places = games["support-threshold", 1.0], games["support-threshold (list)", 1.0]
    assert (values.attack, places.attack) == ("likelihood-ratio", "item-place")
    assert places.estimate.lower > 1
    assert places.theory is not None
    assert values.theory is not None
    # The list reveals no more than the prediction from which it is made.
    assert places.estimate.lower < places.theory.value < values.theory.value
    assert places.shift is None
    summaries = {pair.pair: pair.summary for pair in record.pairs}
    listed = summaries["support-threshold (list)"]
    assert listed.startswith(f"{summaries['support-threshold']}; 5 items ")
    data = games["data (list)", 1.0]
    assert data.theory is not None
    assert data.control is not None
    assert data.estimate.lower <= data.theory.value


def test_a_list_of_which_the_claim_does_not_speak_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A rating of the target's own moves every prediction; the claim covers one.
    original = SlopeOne.pair

    def pair(self: SlopeOne, name: str, scale: Scale) -> PredictionPair:
        pair = original(self, name, scale)
        profile = pair.ratings.profile(pair.target)
        change = RatingReplaced(pair.target, int(profile.items[0]), 1.0)
        return replace(pair, change=change)

    monkeypatch.setattr(SlopeOne, "pair", pair)
    game = {"pair": "support-threshold", "observe": "list", "trials": 500}
    with pytest.raises(ConfigError, match=r"covers 1: .*params\.outputs"):
        run(attack=[], game=game)


@pytest.mark.long
def test_movielens_follows_the_closed_form(real_data: Path) -> None:
    """The paper's Figure 1(b): accuracy E[1 − q], q = exp(−1/(2b)), b = nΔf/ε, over the users."""
    path = real_data / "ml-100k" / "u.data"
    if not path.is_file():
        pytest.skip("there is no ml-100k/u.data in DPAUDIT_DATA")
    sweep = [0.1, 0.3, 1, 3, 5, 10, 20, 30, 100, 300, 1000]
    config = OnDemandConfig.model_validate(
        {
            "data": {"format": "movielens-100k", "path": str(path)},
            "model": {"epsilon": sweep, "params": {"delta_r": 5}},
            "attack": {"params": {"reader": "round"}},
            "audit": {"trials": 20_000},
        }
    )
    ratings = load(config.data)
    assert (len(ratings), ratings.n_users, ratings.n_items) == (100_000, 943, 1682)
    _, attacked = split_users(ratings, config.split.test_share, config.seed)
    n = np.array([len(profile) for profile in attacked])
    result = run_audit(config, workers=Workers(2))
    measured = [
        measurement
        for measurement in result.measurements
        if measurement.metric == "attack.accuracy"
    ]
    # Eleven comparisons share a false-failure rate of 1e-6: exact binomial quantiles.
    tail = 1e-6 / len(sweep) / 2
    noticed = 0
    for measurement in measured:
        expected = float(np.mean(1 - np.exp(-measurement.epsilon / (2 * n * 0.5))))
        trials, count = (
            measurement.estimate.n,
            round(measurement.estimate.value * measurement.estimate.n),
        )
        assert binom.ppf(tail, trials, expected) <= count <= binom.isf(tail, trials, expected)
        for wrong in (expected - 0.02, expected + 0.02):
            low, high = binom.ppf(tail, trials, wrong), binom.isf(tail, trials, wrong)
            noticed += bool(0 < wrong < 1 and not low <= count <= high)
    # An error of 2 percentage points would be noticed at every ε, on at least one side.
    assert noticed >= len(sweep)
