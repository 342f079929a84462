"""From signals to scores: the judged half chooses nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from membership_cases import FAMILY, half_judged  # type: ignore[import-not-found]
from numpy.typing import NDArray

from dpaudit.attacks.base import Covariates, MembershipInference, Numbers, Signals
from dpaudit.audits.membership.calibration import (
    Calibration,
    Curve,
    Division,
    Judged,
    Trials,
    best_guesses,
    division,
    few,
    judged,
    ranks,
    rivals,
)
from dpaudit.audits.membership.config import default_calibrating
from dpaudit.config.tables import battery
from dpaudit.core.errors import RunError

BATTERY = battery(MembershipInference)

Mask = NDArray[np.bool_]
ATTACKS: dict[str, MembershipInference] = {attack.label: attack.create("x") for attack in BATTERY}
RATES = (0.1, 0.25)


def trials(seed: int = 0, count: int = 16, targets: int = 40, shift: float = 1.0) -> Trials:
    rng = np.random.default_rng(seed)
    present = rng.random((count, targets)) < 0.5
    features = rng.normal(size=(count, targets, 2)) + shift * present[:, :, None]
    return Trials(features, rng.normal(size=(count, 12, 2)), present)


SEED = 3


def halves_of(count: int, seed: int = SEED) -> tuple[list[int], list[int]]:
    """The indices of the trainings of both halves."""
    numbers = np.arange(float(count))[:, None, None]
    sample = Trials(numbers, numbers, np.zeros((count, 1), np.bool_))
    first, second = (
        half.features[:, 0, 0].astype(int)
        for half in (sample.of(rows) for rows in division(count, (count + 1) // 2, seed))
    )
    return first.tolist(), second.tolist()


def test_trainings_that_were_seen_calibrate() -> None:
    parts = division(30, 9, SEED, 6)
    assert set(range(6)) <= set(parts.calibrating.tolist())
    assert len(parts.calibrating) == 9
    assert sorted([*parts.calibrating, *parts.judged]) == list(range(30))


@pytest.mark.cases("count", [8, 9, 64])
def test_the_seed_divides_the_trainings_and_not_their_parity_or_order(count: int) -> None:
    first, second = halves_of(count)
    assert sorted(first + second) == list(range(count))
    assert len(first) == (count + 1) // 2
    drawn = np.array([np.isin(np.arange(count), halves_of(count, seed)[0]) for seed in range(400)])
    # Every training, and every training of the half that another one is in: 5 deviations.
    share = len(first) / count
    together = share * (len(first) - 1) / (count - 1)
    assert abs(drawn.mean(0) - share).max() < 5 * 0.5 / 20
    assert abs((drawn[:, :-1] & drawn[:, 1:]).mean(0) - together).max() < 5 * 0.5 / 20


CALIBRATING, JUDGED = halves_of(16)


@pytest.mark.cases("name", ATTACKS)
def test_trainings_without_a_model_score_alike_and_change_no_other_score(name: str) -> None:
    seen, reference = trials(1), trials(2)
    whole = seen.scores(ATTACKS[name], reference)
    kept, known = np.array([0, 2, 3, 5, 9]), np.arange(1, 16, 2)
    for part, there in ((seen, kept), (reference, known)):
        lost = np.setdiff1d(np.arange(16), there)
        part.features[lost] = part.population[lost] = np.nan
    scores = seen.scores(ATTACKS[name], trials(2))
    np.testing.assert_array_equal(scores[kept], whole[kept])
    assert len(np.unique(np.delete(scores, kept, axis=0))) == 1
    # The attacker leaves out what has no model.
    scores = seen.scores(ATTACKS[name], reference)
    expected = seen.of(kept).scores(ATTACKS[name], reference.of(known))
    np.testing.assert_array_equal(scores[kept], expected)
    reference.features[1:] = np.nan
    assert not seen.scores(ATTACKS[name], reference).any()
    assert np.isfinite(half_judged(seen, ATTACKS[name], RATES, FAMILY, 0.0, SEED).scores).all()


@dataclass(frozen=True)
class Recording(MembershipInference):
    """Returns a given score, and keeps what it was given."""

    value: float
    name: ClassVar[str] = "recording"
    title: ClassVar[str] = "Recording"
    source: ClassVar[str] = "2026"
    given: ClassVar[list[tuple[Signals, Signals, Mask]]] = []

    def score(self, seen: Signals, reference: Signals, present: Mask) -> Numbers:
        self.given.append((seen, reference, present))
        return np.full(seen.fit.shape, self.value)


def test_an_attack_sees_no_coin_of_the_trainings_that_it_attacks() -> None:
    sample, Recording.given[:] = trials(), []
    half_judged(sample, Recording(0.0), RATES, FAMILY, 0.0, SEED)
    *rehearsals, final = Recording.given
    calibrating, judging = np.array(CALIBRATING), np.array(JUDGED)
    parts = np.array_split(calibrating, 4)
    expected = [(part, np.setdiff1d(calibrating, part, assume_unique=True)) for part in parts]
    for (seen, reference, present), (attacked, indices) in zip(
        (*rehearsals, final), (*expected, (judging, calibrating)), strict=True
    ):
        np.testing.assert_array_equal(seen.features, sample.features[attacked])
        in_order = np.array([index for index in calibrating if index in indices])
        np.testing.assert_array_equal(reference.features, sample.features[in_order])
        np.testing.assert_array_equal(present, sample.present[in_order])
        assert seen.population.shape == (len(attacked), 12)


@pytest.mark.parametrize("calibrating", [0, 1])
def test_with_fewer_than_two_calibrating_trainings_other_targets_choose(calibrating: int) -> None:
    sample, Recording.given[:] = trials(count=3), []
    parts = Calibration.of(sample, division(len(sample), calibrating, SEED), SEED)
    judged(parts, Recording(0.0), RATES, FAMILY, 0.0)
    assert len(parts.others) == 10
    assert sorted([*parts.others, *parts.targets]) == list(range(40))
    for seen, reference, present in Recording.given:
        # The coins of judged targets in judged trainings are never given.
        assert present.shape[1] in (len(parts.others), seen.fit.shape[1])
        if not calibrating:
            np.testing.assert_array_equal(reference.features, parts.choosing.features)
            np.testing.assert_array_equal(present, parts.choosing.present)
        else:
            assert len(reference.features) == 1
    judging = parts.judged
    flipped = replace(parts, judged=replace(judging, present=~judging.present))
    attack = ATTACKS["global-threshold"]
    first, second = (judged(one, attack, RATES, FAMILY, 0.0) for one in (parts, flipped))
    np.testing.assert_array_equal(first.scores, second.scores)
    assert (first.best_rate, first.guesses, first.promise) == (
        second.best_rate,
        second.guesses,
        second.promise,
    )


@pytest.mark.cases(
    ("trainings", "calibrating"),
    [(1, 0), (2, 1), (3, 2), (4, 2), (8, 2), (24, 5), (64, 13), (999, 16)],
)
def test_five_of_24_trainings_calibrate(trainings: int, calibrating: int) -> None:
    assert default_calibrating(trainings) == calibrating


@pytest.mark.cases("label", ATTACKS)
def test_the_judged_half_chooses_nothing(label: str) -> None:
    sample = trials()
    judging = np.isin(np.arange(16), JUDGED)
    expected = half_judged(sample, ATTACKS[label], RATES, FAMILY, 1e-3, SEED)
    flipped = replace(sample, present=sample.present ^ judging[:, None])
    attacked = half_judged(flipped, ATTACKS[label], RATES, FAMILY, 1e-3, SEED)
    # Other coins: the same scores, in the same direction.
    np.testing.assert_array_equal(attacked.scores, expected.scores)
    np.testing.assert_array_equal(attacked.present, ~expected.present)
    other = trials(9)
    mixed = replace(
        sample,
        features=np.where(judging[:, None, None], other.features, sample.features),
        population=np.where(judging[:, None, None], other.population, sample.population),
        present=np.where(judging[:, None], other.present, sample.present),
    )
    for one in (attacked, half_judged(mixed, ATTACKS[label], RATES, FAMILY, 1e-3, SEED)):
        assert (one.best_rate, one.guesses) == (expected.best_rate, expected.guesses)
        assert one.promise == expected.promise


@pytest.mark.cases("label", ATTACKS)
def test_scores_of_a_training_do_not_depend_on_other_judged_trainings(label: str) -> None:
    sample, other = trials(), trials(9)
    last = np.arange(16) == JUDGED[-1]
    changed = replace(
        sample,
        features=np.where(last[:, None, None], other.features, sample.features),
        population=np.where(last[:, None, None], other.population, sample.population),
    )
    attacked, expected = (
        half_judged(part, ATTACKS[label], RATES, FAMILY, 0, SEED) for part in (changed, sample)
    )
    np.testing.assert_array_equal(attacked.scores[:-1], expected.scores[:-1])


def test_the_promise_is_what_the_rehearsal_showed() -> None:
    sample, attack = trials(), ATTACKS["lira"]
    result = half_judged(sample, attack, RATES, FAMILY, 1e-4, SEED)
    calibrating = sample.of(np.array(CALIBRATING))
    rehearsed = np.empty(calibrating.present.shape)
    for part, exam in calibrating.rehearsals():
        rehearsed[part] = exam.scores(attack)
    scores = ranks(rehearsed)
    last = np.array([6, 7])
    expected = calibrating.of(last).scores(attack, calibrating.of(np.arange(6)))
    np.testing.assert_array_equal(scores[last], ranks(expected))
    curve = Curve(scores, calibrating.present)
    epsilon, guesses = best_guesses(scores, calibrating.present, delta=1e-4, family=FAMILY)
    assert (result.best_rate, result.guesses) == (curve.best_rate(), guesses)
    assert result.promise == {
        "epsilon": epsilon,
        "auc": curve.areas().mean(),
        "advantage": curve.advantages(curve.best_rate()).mean(),
        "tpr 0.1": curve.rates(0.1).mean(),
        "tpr 0.25": curve.rates(0.25).mean(),
    }


# The direction of log-odds is known.
@pytest.mark.cases("label", [label for label in ATTACKS if label != "low-rank"])
def test_every_attack_finds_a_leak_in_any_direction(label: str) -> None:
    for sign in (1, -1):
        sample = trials(1, 32, 60)
        sample = replace(
            sample, features=sign * sample.features, population=sign * sample.population
        )
        attacked = half_judged(sample, ATTACKS[label], RATES, FAMILY, 0, SEED)
        curve = Curve(attacked.scores, attacked.present)
        assert curve.areas().mean() > 0.7
        # The threshold of the rehearsal still divides present from absent targets.
        assert curve.advantages(attacked.best_rate).mean() > 0.25


@pytest.mark.cases("label", ATTACKS)
@pytest.mark.cases("kind", ["noise", "constant", "zero", "huge", "rare", "coin"])
@pytest.mark.cases("population", [0, 12])
def test_the_smallest_game_gives_finite_scores(label: str, kind: str, population: int) -> None:
    """8 trainings and 20 targets; a half of a half has 2 trainings."""
    for seed in range(5):
        sample = trials(seed, 8, 20)
        features, present = sample.features, sample.present
        present[:, 0], present[:, 1] = True, False
        if kind in {"constant", "zero"}:
            features = np.full_like(features, 0.1 if kind == "constant" else 0)
        if kind == "huge":
            features = features * 1e38
        if kind == "rare":  # for the first time in the judged half
            features = np.zeros_like(features)
            features[halves_of(8)[1][0], 4] = 3e38
        if kind == "coin":
            features = np.repeat(present[:, :, None].astype(float), 2, axis=2)
        sample = Trials(features, sample.population[:, :population] * 0 + features.mean(), present)
        attacked = half_judged(sample, ATTACKS[label], RATES, FAMILY, 0, SEED)
        assert np.isfinite(attacked.scores).all()
        if kind in {"constant", "zero"}:
            assert (Curve(attacked.scores, attacked.present).areas() == 0.5).all()


@pytest.mark.cases("value", [np.nan, np.inf, -np.inf])
def test_an_attack_without_finite_scores_is_named(value: float) -> None:
    with pytest.raises(RunError, match=r"attack 'recording' .*correct its method"):
        half_judged(trials(), Recording(value), RATES, FAMILY, 0, SEED)


def test_rivals_are_the_best_by_their_promise_the_first_of_equals_first() -> None:
    none = np.zeros((0, 0))
    scored = {
        label: Judged(
            none, none.astype(bool), np.arange(0), 0.0, (0.5, 0.5), {"auc": auc, "epsilon": epsilon}
        )
        for label, auc, epsilon in (("a", 0.6, 0), ("b", 0.8, 0), ("c", 0.8, 0), ("d", 0.5, 0))
    }
    assert rivals(scored, "auc", 3) == ["b", "c", "a"]
    assert rivals(scored, "epsilon", 3) == ["a", "b", "c"]


def test_an_attack_that_a_short_rehearsal_undervalues_is_among_the_rivals() -> None:
    """Targets differ more than presence changes them: more trainings help one attack far more."""
    rng, targets = np.random.default_rng(0), 1200
    base = rng.normal(0, 3, targets)
    present = rng.random((8, targets)) < 0.5
    features = base + 0.6 * present + rng.normal(0, 0.15, present.shape)
    sample = Trials(features[:, :, None], np.zeros((8, 0, 1)), present)
    calibration = Calibration.of(sample, Division(np.arange(2), np.arange(2, 8)), SEED)
    scored = {
        label: judged(calibration, attack, [0.01], FAMILY, 0) for label, attack in ATTACKS.items()
    }
    rates = {label: one.curve.rates(0.01).mean() for label, one in scored.items()}
    # One that estimates how alike trainings are is not undervalued.
    best = rivals(scored, "tpr 0.01", 1)[0]
    assert best == "regression-lira"
    assert rates[best] > 0.95 * max(rates.values())
    scored = {label: one for label, one in scored.items() if "regression" not in label}
    chosen = rivals(scored, "tpr 0.01", few(2))
    assert max(scored, key=lambda label: rates[label]) in chosen
    assert rates[chosen[0]] < max(rates.values()) / 2


def gap(delta: float, epsilon: float, absent: Any, present: Any) -> float:
    """The largest P(A) − e^ε Q(A) − δ over the events that a planted score is large or small."""
    cuts = np.quantile(np.concatenate((absent, present)), np.linspace(0.001, 0.999, 999))
    below = [np.searchsorted(np.sort(scores), cuts) / len(scores) for scores in (absent, present)]
    ends = [(1 - below[1], 1 - below[0]), (below[0], below[1])]
    return max(float((p - np.exp(epsilon) * q).max()) for p, q in ends) - delta


@pytest.mark.cases(
    ("noise", "delta"), [("Gaussian", 0.05), ("Gaussian", 0.2), ("Laplace", 0.0), ("Laplace", 0.2)]
)
def test_a_planted_leak_has_its_epsilon_and_no_less(noise: Any, delta: float) -> None:
    sample = trials(count=200, targets=2000)
    mutant = sample.mutant(noise, 1.0, delta, seed=3, run=0)
    shown, coins = mutant.features[:, :, 0], sample.present
    assert gap(delta, 1.0, shown[~coins], shown[coins]) == pytest.approx(0, abs=0.01)
    assert gap(delta, 0.8, shown[~coins], shown[coins]) > 0.01


def test_a_planted_leak_stands_in_place_of_the_answers() -> None:
    """Nothing of the model is left, so that it is no larger than what is planted."""
    sample = trials(count=16, targets=500)
    sample.features[3] = np.nan
    mutant = sample.mutant("Gaussian", 1.0, 1e-5, seed=3, run=0)
    assert mutant.features.shape == sample.features.shape
    assert mutant.population.shape == sample.population.shape
    assert mutant.ended.tolist() == sample.ended.tolist() == [0, 1, 2, *range(4, 16)]
    other = trials(count=16, targets=500, shift=9.0)
    other.features[3] = np.nan
    np.testing.assert_array_equal(
        mutant.features, other.mutant("Gaussian", 1.0, 1e-5, seed=3, run=0).features
    )


def test_runs_of_a_planted_leak_share_no_noise() -> None:
    sample = trials(count=8, targets=100)
    runs = [sample.mutant("Laplace", 1.0, 0.0, seed=3, run=run).features for run in range(3)]
    assert np.unique(np.concatenate([one[:, :, 1].ravel() for one in runs])).size == 3 * 8 * 100


@pytest.mark.cases("noise", ["Gaussian", "Laplace", "randomised response"])
def test_planted_leaks_are_found_by_every_attack_that_reads_features(noise: Any) -> None:
    mutant = trials(count=16, targets=200, shift=0.0).mutant(noise, 40.0, 1e-5, seed=4, run=0)
    for label, attack in ATTACKS.items():
        assert half_judged(mutant, attack, (), FAMILY, 0.0, SEED).promise["auc"] > 0.95, label


@pytest.mark.cases("warp", ["none", "offset", "scale", "bend"])
def test_what_a_model_may_do_to_all_scores_of_a_training_hides_no_level(warp: str) -> None:
    """Targets differ more than presence changes them, so each has to be compared with itself."""
    rng, targets = np.random.default_rng(1), 1000
    present = rng.random((8, targets)) < 0.5
    level = rng.normal(0, 3, targets)
    scores = level + 0.6 * present + rng.normal(0, 0.15, present.shape)
    others = rng.normal(0, 3, 200) + rng.normal(0, 0.15, (8, 200))
    moves = {
        "none": lambda values, by: values,
        "offset": lambda values, by: values + 30 * by,
        "scale": lambda values, by: values * np.exp(by),
        "bend": lambda values, by: np.tanh(values * np.exp(by / 2) / 3),
    }
    by = rng.normal(size=(8, 1))
    sample = Trials(
        moves[warp](scores, by)[:, :, None], moves[warp](others, by)[:, :, None], present
    ).comparable
    calibration = Calibration.of(sample, Division(np.arange(3), np.arange(3, 8)), SEED)
    one = judged(calibration, ATTACKS["conjugate-lira"], [0.01], FAMILY, 0)
    assert one.curve.rates(0.01).mean() > 0.6


def test_a_training_without_a_model_has_no_comparable_features() -> None:
    sample = trials()
    features = sample.features.copy()
    features[3] = np.nan
    comparable = replace(sample, features=features).comparable
    assert comparable.ended.tolist() == [t for t in range(len(sample)) if t != 3]
    assert comparable.features.shape[2] == 2 * sample.features.shape[2]
    assert np.isfinite(comparable.features[comparable.ended]).all()


def test_what_is_known_of_targets_goes_with_them() -> None:
    rng = np.random.default_rng(1)
    known = Covariates(rng.normal(size=(40, 2)), rng.normal(size=(12, 2)))
    sample, which = replace(trials(), covariates=known), np.array([30, 2, 7])
    parts = (
        sample.of(np.array([3, 1])).comparable.among(which),
        sample.mutant("Gaussian", 1.0, 1e-5, 1, 0).among(which),
        Calibration.of(sample, Division(np.arange(0), np.array([2])), SEED).choosing,
    )
    for part, targets in zip(parts, (which, which, None), strict=True):
        assert part.covariates is not None
        assert len(part.covariates.targets) == part.present.shape[1]
        np.testing.assert_array_equal(part.covariates.population, known.population)
        if targets is not None:
            np.testing.assert_array_equal(part.covariates.targets, known.targets[targets])
    attack = Recording(0.0)
    attack.given.clear()
    sample.scores(attack, sample)
    (seen, _, _) = attack.given.pop()
    assert seen.covariates is known
    np.testing.assert_array_equal(seen.strangers, sample.population)


def test_features_that_are_all_alike_stay_so() -> None:
    alike = Trials(np.ones((2, 5, 1)), np.ones((2, 3, 1)), np.zeros((2, 5), np.bool_)).comparable
    assert np.ptp(alike.features, axis=1).max() == 0
