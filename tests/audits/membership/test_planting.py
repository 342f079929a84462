"""Planted leaks: their size for who knows every law, their coins, and what gates' rules say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from dpaudit.audits.membership.calibration import Curve, Division, Trials
from dpaudit.audits.membership.controls import planted_size
from dpaudit.audits.membership.planting import FORMS, Background, Leak, PassControl, Reading
from dpaudit.config.gate import Gate
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Measurement
from dpaudit.record.values import SEEDS, Census

RATE, TARGETS = 0.01, 4000


def widths(law: str) -> np.ndarray[Any, Any]:
    """The spreads of targets and population."""
    unit = np.random.default_rng(6).normal(size=TARGETS + 500)
    return np.exp(0.7 * unit) if law == "own spreads" else np.ones_like(unit)


def trials(law: str, *, trainings: int = 16, own: float = 0.0, features: int = 1) -> Trials:
    """Scores of targets with levels of their own; `own` is a leak of the model itself."""
    rng = np.random.default_rng(5)
    shape = trainings, TARGETS + 500, features
    noise = rng.standard_t(4, shape) if law == "heavy tails" else rng.normal(size=shape)
    shown = 3 * rng.normal(size=shape[1:]) + widths(law)[:, None] * noise
    present = rng.random((trainings, TARGETS)) < 0.5
    shown[:, :TARGETS] += own * present[:, :, None]
    return Trials(shown[:, :TARGETS], shown[:, TARGETS:], present)


@pytest.mark.cases(
    ("metric", "at", "limit", "factor", "size"),
    [
        ("attack.tpr", 0.01, 0.1, 2.0, 0.2),
        ("attack.tpr", 0.01, 0.1, 3.0, 0.3),
        # Odds above chance: s/(1 − s), doubled.
        ("attack.tpr", 0.01, 0.5, 2.0, 0.01 + 0.99 * (2 * 0.49 / 0.5) / (1 + 2 * 0.49 / 0.5)),
        ("attack.auc", None, 0.6, 2.0, 0.5 + 0.5 * 0.5 / 1.5),
        ("attack.advantage", None, 0.2, 2.0, 1 / 3),
    ],
)
def test_the_size_is_a_factor_of_the_limit_or_of_its_odds(
    metric: str, at: float | None, limit: float, factor: float, size: float
) -> None:
    assert planted_size(metric, at, limit, factor) == pytest.approx(size)


@pytest.mark.cases(
    ("law", "form"),
    [(law, form) for law in ("normal", "heavy tails", "own spreads") for form in FORMS],
)
def test_who_knows_every_law_reaches_the_planted_rate(law: str, form: Any) -> None:
    of = trials(law)
    background, leak = (
        Background.of(of, ordered=True, own=True),
        Leak("attack.tpr", RATE, 0.2, form),
    )
    shown = of.comparable.features[:, :, 0]
    planted = background.planted(leak, [1.0], 3, 0, len(of))
    # Who knows levels and spreads; what absent targets show is real, and that of others is drawn.
    scores = (planted.features[:, :, 0] - shown.mean(0)) / widths(law)[:TARGETS]
    rates = []
    for row, coins, absent in zip(scores, planted.present, ~of.present, strict=True):
        rates += Curve(row[None, absent], coins[None, absent]).rates(RATE).tolist()
    assert np.mean(rates) == pytest.approx(0.2, abs=0.045)


def test_nothing_of_the_models_own_leak_is_left() -> None:
    of = trials("normal", own=30.0)
    background = Background.of(of, ordered=True, own=True)
    shown = background.drawn(np.random.default_rng(0), len(of))[0][:, :TARGETS, 0]
    away = shown[of.present].mean() - shown[~of.present].mean()
    assert abs(away) < 0.05 * shown.std()
    leak = Leak("attack.tpr", RATE, 0.2, "all")
    planted = background.planted(leak, [1.0], 1, 0, len(of))
    assert abs(np.corrcoef(planted.present.ravel(), of.present.ravel())[0, 1]) < 0.01


def test_runs_have_streams_of_their_own() -> None:
    background = Background.of(trials("normal", trainings=4), ordered=True, own=True)
    leak = Leak("attack.tpr", RATE, 0.2, "all")
    one, again, other = (background.planted(leak, [1.0], 1, run, 4) for run in (0, 0, 1))
    assert np.array_equal(one.features, again.features)
    assert np.array_equal(one.present, again.present)
    assert not np.array_equal(one.present, other.present)


@pytest.mark.cases("features", [1, 2, 5])
def test_several_features_move_no_more_than_one(features: int) -> None:
    of = trials("normal", features=features)
    background = Background.of(of, ordered=True, own=True)
    for moves in ([1.0] + [0.0] * (features - 1), [1.0] * features):
        # Of independent features the distance is that of all together.
        steps = background._step(Leak("attack.auc", None, 0.7, "all"), np.array(moves))
        assert np.linalg.norm(steps) == pytest.approx(np.sqrt(2) * 0.5244, rel=0.02)


@pytest.mark.cases("form", list(FORMS))
def test_of_lists_the_answer_flips(form: Any) -> None:
    rng = np.random.default_rng(2)
    shown = np.where(rng.random((6, 3000)) < 0.05, rng.choice([1.0, 0.5, 0.3], (6, 3000)), 0.0)
    features = np.stack((shown, rng.random(shown.shape)), axis=2)
    present = rng.random(shown.shape) < 0.5
    background = Background.of(Trials(features, features[:, :0], present), ordered=False, own=True)
    planted = background.planted(Leak("attack.tpr", RATE, 0.3, form), [1.0, 0.0], 1, 0, 6)
    first = planted.features[:, :, 0] == 1
    share, least = first[planted.present].mean(), first[~planted.present].mean()
    # q + (1 − q) b, for the share q and the b of absent targets that are shown first anyway.
    q = (0.3 - RATE) / (1 - RATE) if form == "all" else 0.3 - RATE
    assert share == pytest.approx(q + (1 - q) * least, abs=0.03)
    flips = first & planted.present
    targets = flips.any(0).mean()
    assert (targets > 0.45) == (form == "all")


@pytest.mark.cases(
    ("trainings", "own", "known"),
    [(1, True, False), (2, True, False), (3, True, True), (1, False, True)],
)
def test_the_spread_between_trainings_takes_three(trainings: int, own: bool, known: bool) -> None:
    background = Background.of(trials("normal", trainings=trainings), ordered=True, own=own)
    assert background.known == known
    if known:
        leak = Leak("attack.tpr", RATE, 0.2, "all")
        planted = background.planted(leak, [1.0], 1, 0, trainings + 5)
        assert np.isfinite(planted.features).all()
        assert planted.present.shape == (trainings + 5, TARGETS)
    else:
        assumed = background.assumed(1)
        assert assumed.known
        assert assumed.planted(Leak("attack.tpr", RATE, 0.2, "all"), [1.0], 1, 0, 9).features.size


@pytest.mark.cases(
    ("metric", "size", "form"),
    [(m, s, f) for m, s in (("attack.auc", 0.667), ("attack.advantage", 0.4)) for f in FORMS],
)
def test_areas_and_advantages_are_those_of_who_knows_every_law(
    metric: str, size: float, form: Any
) -> None:
    of = trials("normal")
    background = Background.of(of, ordered=True, own=True)
    planted = background.planted(Leak(metric, None, size, form), [1.0], 2, 0, len(of))
    levels = of.comparable.features[:, :, 0].mean(0)
    # Answers that move change the scale of their training.
    fits = [
        np.polynomial.Polynomial.fit(levels[~coins], row[~coins], 1)
        for row, coins in zip(planted.features[:, :, 0], planted.present, strict=True)
    ]
    away = planted.features[:, :, 0] - np.stack([fit(levels) for fit in fits])
    away /= away[~planted.present & ~of.present].std()
    if form == "few":
        # Who knows the targets that move takes their other answers for absent ones.
        moved = ((away > 3.5) & planted.present).mean(0) > 0.25
        away = np.where(moved, np.where(away > 3.5, 99.0, -99.0), away)
    reached = []
    for row, coins, absent in zip(away, planted.present, ~of.present, strict=True):
        curve = Curve(row[None, absent], coins[None, absent])
        reached += (curve.areas() if metric == "attack.auc" else curve.best_advantages()).tolist()
    # The largest of all thresholds is a little above the advantage.
    assert np.mean(reached) == pytest.approx(size, abs=0.035)


def test_a_limit_of_what_a_guess_finds_plants_nothing() -> None:
    one, asked = control(lambda calibrating, call: 0.0)
    low = Gate(metric="attack.tpr", of="this-model", max=0.004)
    assert not list(one.planted(number(0.0), [low]))
    assert not asked


def test_heavy_tails_move_further_than_normal_ones() -> None:
    leak = Leak("attack.tpr", RATE, 0.2, "all")
    steps = [
        Background.of(trials(law), ordered=True, own=True)._step(leak, np.ones(1))[0]
        for law in ("normal", "heavy tails")
    ]
    assert steps[0] == pytest.approx(1.485, abs=0.06)
    # A part of the tails is taken for targets that vary more than others.
    assert 1.6 < steps[1] < (student.isf(RATE, 4) - student.isf(0.2, 4)) / np.sqrt(2)


def number(value: float) -> Measurement:
    census = Census(values=(value,), lower=(value - 0.01,), upper=(value + 0.01,), alpha=0.01)
    return Measurement(
        metric="attack.tpr",
        model="m",
        epsilon=1.0,
        estimate=Estimate.exact(value, "known"),
        attack="strongest",
        at=RATE,
        observer="scores",
        unit="interaction",
        statement="this-model",
        census=census,
    )


def control(found: Any, trainings: int = 3) -> tuple[PassControl, list[frozenset[str]]]:
    """A control whose attacks find what `found` says of so many calibrating trainings."""
    asked: list[frozenset[str]] = []

    def measured(of: Trials, divisions: Any, labels: Any) -> Reading:
        asked.append(frozenset(labels))
        value = found(len(divisions[0].calibrating), len(asked))
        tells = np.where(of.present[divisions[0].judged], value, np.nan)
        return Reading(number(value), ["best", "b", "c", "d", "e", "f"], tells)

    background = Background.of(trials("normal", trainings=trainings), ordered=True, own=True)
    parts = [Division(np.arange(trainings - 1), np.array([trainings - 1]))]
    return PassControl(
        measured, background, parts, ["best", "b", "c", "d", "e", "f"], 6, [1.0], 1, 0.05
    ), asked


GATE = Gate(metric="attack.tpr", of="this-model", max=0.1)


def test_a_leak_that_is_caught_holds_and_runs_choose_among_what_promises_most() -> None:
    one, asked = control(lambda calibrating, call: 0.15)
    records = list(one.planted(number(0.02), [GATE]))
    assert [(r.form, r.caught, r.runs, r.holds) for r in records] == [
        ("all", SEEDS, SEEDS, True),
        ("few", SEEDS, SEEDS, True),
    ]
    assert records[0].leak == pytest.approx(0.2)
    assert asked[0] == {"best", "b", "c", "d", "e", "f"}
    assert set(asked[1:SEEDS]) == {frozenset(["best", "b", "c", "d"])}


def test_one_miss_of_twenty_is_allowed_and_two_are_not() -> None:
    for misses, holds in ((1, True), (2, False)):
        one, _ = control(lambda calibrating, call, m=misses: 0.05 if call <= m else 0.15)
        first = next(iter(one.planted(number(0.02), [GATE])))
        assert first.holds == holds


def test_a_missed_leak_names_the_trainings_that_catch_it() -> None:
    one, _ = control(lambda calibrating, call: 0.15 if calibrating >= 9 else 0.03)
    first = next(iter(one.planted(number(0.02), [GATE])))
    assert (first.holds, first.caught, first.runs, first.decides) == (False, 0, 2, 9)
    never, _ = control(lambda calibrating, call: 0.03)
    assert next(iter(never.planted(number(0.02), [GATE]))).decides is None


def test_nothing_is_planted_where_the_rule_does_not_pass() -> None:
    one, asked = control(lambda calibrating, call: 0.15)
    assert not list(one.planted(number(0.3), [GATE]))
    assert not asked


def test_two_trainings_plant_nothing_and_forecast() -> None:
    one, _ = control(lambda calibrating, call: 0.15 if calibrating >= 5 else 0.03, trainings=2)
    first = next(iter(one.planted(number(0.02), [GATE])))
    assert (first.runs, first.holds, first.decides) == (0, False, 5)


def test_the_learning_curve_has_paired_gains() -> None:
    one, _ = control(lambda calibrating, call: calibrating / 100, trainings=7)
    of = trials("normal", trainings=7)
    tells = np.where(of.present[[6]], 0.06, np.nan)
    steps = one.learning(of, Reading(number(0.06), [], tells))
    # From 5 to 6 it is less than half a doubling.
    assert [(s.calibrating, s.value) for s in steps] == [(2, 0.02), (3, 0.03), (6, 0.06)]
    assert steps[-1].gain == pytest.approx(0.03)
    assert steps[-1].lower == pytest.approx(0.03)
