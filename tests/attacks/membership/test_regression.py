"""The likelihood-ratio attack by regressions, against a direct computation and on its own law."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from membership_cases import FAMILY, half_judged  # type: ignore[import-not-found]
from numpy.typing import NDArray
from scipy.stats import multivariate_t

from dpaudit.attacks.base import Covariates, MembershipInference, Signals
from dpaudit.attacks.membership import regression
from dpaudit.attacks.membership.inference import ConjugateLira
from dpaudit.attacks.membership.regression import RegressionLira
from dpaudit.audits.membership.calibration import (
    Calibration,
    Curve,
    Division,
    Trials,
    certified,
    judged,
)

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
FORMS = (False, True)


@dataclass(frozen=True)
class Law:
    """f = a(x) + coin g(x) + σ(x) z, of which trainings share a part."""

    targets: int = 1500
    population: int = 500
    gap: float = 1.0
    common: float = 0.7
    features: int = 1
    seed: int = 0

    def trials(self, count: int) -> Trials:
        """Trainings with fair coins."""
        rng = np.random.default_rng(self.seed)
        size, shape = self.targets + self.population, (count, self.targets)
        x = rng.normal(size=(size, 2))
        present = rng.random(shape) < 0.5
        coins = np.concatenate((present, np.zeros((count, self.population), np.bool_)), axis=1)
        u = rng.normal(size=(size, self.features))
        z = np.sqrt(self.common) * u + np.sqrt(1 - self.common) * rng.normal(
            size=(count, size, self.features)
        )
        level, gap = 2 * x[:, 0] + x[:, 1] ** 2, self.gap * np.exp(0.5 * x[:, 0] - 0.5)
        spread = np.exp(0.6 * x[:, 1] - 0.4 * x[:, 0])
        f = (level + coins * gap)[:, :, None] + spread[:, None] * z
        known = Covariates(x[: self.targets], x[self.targets :])
        return Trials(f[:, : self.targets], f[:, self.targets :], present, None, known)


def found(trials: Trials, attack: MembershipInference, calibrating: int) -> tuple[float, float]:
    """The mean AUC and TPR at 1 % FPR where the first trainings calibrate."""
    judging = trials.of(np.arange(calibrating, len(trials)))
    scores = judging.scores(attack, trials.of(np.arange(calibrating)))
    curve = Curve(scores, judging.present)
    return float(curve.areas().mean()), float(curve.rates(0.01).mean())


@pytest.mark.parametrize("calibrating", [1, 2, 5])
def test_it_finds_more_than_the_conjugate_attack_where_its_own_law_holds(calibrating: int) -> None:
    trials = Law().trials(calibrating + 6)
    area, rate = found(trials, RegressionLira(), calibrating)
    other_area, other_rate = found(trials, ConjugateLira(), calibrating)
    assert area > other_area + 0.02
    assert rate > 1.3 * other_rate
    assert area > 0.8


def test_features_that_vary_together_are_best_taken_together() -> None:
    trials = Law(features=1).trials(8)
    noise = np.random.default_rng(1).normal(size=trials.features.shape)
    strange = np.random.default_rng(2).normal(size=trials.population.shape)
    # What the second feature shows is mostly the noise of the first.
    both = np.concatenate((trials.features + 3 * noise, noise), axis=2)
    beside = np.concatenate((trials.population + 3 * strange, strange), axis=2)
    noisy = Trials(both, beside, trials.present, None, trials.covariates)
    apart, joint = (found(noisy, RegressionLira(joint=form), 2)[0] for form in FORMS)
    assert joint > apart + 0.03


def direct(
    seen: Signals, reference: Signals, present: Mask, population: int
) -> tuple[Numbers, Numbers]:
    """Scores of one attacked training by loops and scipy, of all features taken together.

    With at least two of the attacker's trainings and fewer than four.
    """
    assert reference.covariates is not None
    assert reference.strangers is not None
    assert seen.strangers is not None
    x = np.concatenate(reference.covariates[:2])
    x = (x - x.mean(0)) / x.std(0)
    basis = [[1, *row, row[0] ** 2, row[0] * row[1], row[1] ** 2] for row in x.tolist()]
    known = np.concatenate((reference.features, reference.strangers), 1)
    spread = reference.features.std((0, 1))
    known, shown = known / spread, seen.features[0] / spread
    count, size, features = known.shape
    targets = size - population
    rows = [
        [*basis[i], *(value * (i < targets and present[t, i]) for value in basis[i])]
        for t in range(count)
        for i in range(size)
    ]
    a, y = np.array(rows), known.reshape(-1, features)
    ridge = np.diag([0, *[30.0] * 5] * 2)
    levels = np.linalg.solve(a.T @ a + ridge, a.T @ y)
    squares = (y - a @ levels) ** 2
    mean_square = squares.mean(0)
    logs = np.linalg.solve(a.T @ a + ridge, a.T @ np.log(squares / mean_square + 1e-6))
    logs[0] += np.euler_gamma + np.log(2)
    for _ in range(3):
        ratios = np.minimum(squares / mean_square / np.exp(a @ logs), 20)
        logs += np.linalg.solve(a.T @ a + ridge, a.T @ (ratios - 1) - ridge @ logs)
    deviation = np.sqrt(mean_square * np.exp(a @ logs))
    z = ((y - a @ levels) / deviation).reshape(count, size, features)
    share = np.where(np.eye(features), 1, 0.8)
    whole = share * sum(np.outer(v, v) for v in z.reshape(-1, features)) / (count * size)
    whole += 1e-6 * np.trace(whole) * np.eye(features)
    pairs = [(s, t) for s in range(count) for t in range(count) if s != t]
    common = share * np.mean([z[s].T @ z[t] / size for s, t in pairs], axis=0)
    within = whole - common
    freedom = (count - 1) * np.trace(within) ** 2 / (within**2).sum()
    own = ((z - z.mean(0)) ** 2).sum((0, 2))[:targets] / freedom
    own /= own.mean()
    spread_of = (np.minimum(own, 30).var() - 2 / freedom) / (1 + 2 / freedom)
    prior = 4 + 2 / max(spread_of, 1e-3)
    own = (prior + freedom * own) / (prior + freedom)
    weight = common @ np.linalg.inv(common + within / count)
    left = common - weight @ common + within
    scores = []
    for i in range(targets):
        logs_of = []
        for coin in (1, 0):
            row = np.array([*basis[i], *(coin * value for value in basis[i])])
            sigma = np.sqrt(mean_square * np.exp(row @ logs))
            # The density of f is that of z over σ.
            law = multivariate_t(weight @ z[:, i].mean(0), left * own[i], df=8)
            logs_of.append(law.logpdf((shown[i] - row @ levels) / sigma) - np.log(sigma).sum())
        scores.append(logs_of[0] - logs_of[1])
    return np.array(scores), common


@pytest.mark.parametrize("calibrating", [2, 3])
@pytest.mark.parametrize("features", [1, 2])
def test_it_is_the_ratio_of_student_densities_given_the_trainings(
    calibrating: int, features: int
) -> None:
    trials = Law(targets=40, population=20, features=features).trials(calibrating + 1)
    signals = signals_of(trials)
    mine = np.arange(len(trials)) < calibrating
    seen, reference, present = signals.of(~mine), signals.of(mine), trials.present[mine]
    expected, common = direct(seen, reference, present, 20)
    # No limit on what is common was reached.
    assert np.linalg.eigvalsh(common).min() > 0
    scores = RegressionLira(joint=True).score(seen, reference, present)
    np.testing.assert_allclose(scores[0], expected, rtol=1e-5, atol=1e-6)
    if features == 1:
        alone = RegressionLira().score(seen, reference, present)
        np.testing.assert_allclose(alone, scores, rtol=1e-12)


def signals_of(trials: Trials) -> Signals:
    """The signals of trainings; the fit is the first feature."""
    features, population = trials.features, trials.population
    return Signals(features, features[:, :, 0], population[:, :, 0], population, trials.covariates)


@pytest.mark.parametrize("common", [0.2, 0.8])
def test_one_training_learns_from_the_population_how_alike_trainings_are(common: float) -> None:
    trials = Law(targets=3000, population=3000, common=common).trials(2)
    known = np.concatenate((trials.features, trials.population), axis=1)
    x = np.concatenate((trials.covariates or ())[:2])
    basis = np.stack([np.ones(6000), *x.T, *(x.T**2), x.prod(1)], axis=1)
    laws = regression._Laws.of(known[:1], trials.present[:1], basis)
    effects = regression._Effects.of(laws, known[:1], trials.present[:1])
    estimate = effects.common_of(laws.mixed(known[1], 3000)) / effects.covariance
    assert estimate[0, 0] == pytest.approx(common, abs=0.05)


def scored(attack: MembershipInference, seen: Trials, reference: Trials) -> Numbers:
    return attack.score(signals_of(seen), signals_of(reference), reference.present)


@pytest.mark.parametrize("joint", FORMS)
@pytest.mark.parametrize("calibrating", [1, 3, 5])
def test_units_offsets_and_orders_change_nothing(joint: bool, calibrating: int) -> None:
    trials, attack = Law(targets=60, population=120, features=3).trials(8), RegressionLira(joint)
    rows, rng = np.arange(len(trials)), np.random.default_rng(0)
    seen, reference = trials.of(rows[calibrating:]), trials.of(rows[:calibrating])
    expected = scored(attack, seen, reference)
    factor = np.array([1e-3, 5.0, 1e6])
    moved = [
        replace(part, features=part.features * factor - 7, population=part.population * factor - 7)
        for part in (seen, reference)
    ]
    np.testing.assert_allclose(scored(attack, *moved), expected, rtol=1e-5, atol=1e-6)
    order = rng.permutation(60)
    mixed = scored(attack, seen.among(order), reference.among(order))
    np.testing.assert_allclose(mixed, expected[:, order], rtol=1e-6, atol=1e-8)
    turned = scored(attack, seen, reference.of(rng.permutation(calibrating)))
    np.testing.assert_allclose(turned, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("joint", FORMS)
@pytest.mark.parametrize("calibrating", [1, 3, 5])
def test_a_training_is_scored_by_itself_and_the_same_twice(joint: bool, calibrating: int) -> None:
    trials, attack = Law(targets=60, population=120, features=3).trials(8), RegressionLira(joint)
    rows = np.arange(len(trials))
    seen, reference = trials.of(rows[calibrating:]), trials.of(rows[:calibrating])
    expected = scored(attack, seen, reference)
    np.testing.assert_array_equal(scored(attack, seen.of(rows[1:2]), reference)[0], expected[1])
    np.testing.assert_array_equal(scored(attack, seen, reference), expected)


@pytest.mark.parametrize("joint", FORMS)
@pytest.mark.parametrize("calibrating", [1, 2, 5])
def test_a_model_without_a_leak_has_scores_at_chance_and_no_certificate(
    joint: bool, calibrating: int
) -> None:
    attack = RegressionLira(joint=joint)
    areas, bounds = [], []
    for seed in range(30):
        law = Law(targets=200, population=120, gap=0, features=2, seed=seed)
        trials = law.trials(calibrating + 1)
        parts = Division(np.arange(calibrating), np.array([calibrating]))
        one = judged(Calibration.of(trials, parts, seed), attack, [0.1], FAMILY, 0.0)
        areas.append(one.curve.areas()[0])
        level = {"delta": 0.0, "family": FAMILY, "seed": seed}
        bounds.append(certified(one.scores, one.present, one.guesses, **level).lower)
    # The AUC of n coins has a deviation of √(1/(3 n)).
    assert abs(np.mean(areas) - 0.5) < 4 / np.sqrt(3 * 150 * 30)
    assert max(areas) < 0.5 + 4 / np.sqrt(3 * 150)
    # At most one in twenty certifies by chance.
    assert sum(bound > 0 for bound in bounds) <= 4


def lists(count: int, targets: int, features: int) -> Trials:
    """Features of lists: nearly all are 0."""
    rng = np.random.default_rng(7)
    shape = count, targets + 30, features
    f = np.where(rng.random(shape) < 0.04, rng.random(shape), 0)
    x = rng.normal(size=(targets + 30, 2))
    present = rng.random((count, targets)) < 0.5
    return Trials(
        f[:, :targets], f[:, targets:], present, None, Covariates(x[:targets], x[targets:])
    )


def changed(trials: Trials, case: str) -> Trials:
    """Trials with something unusual."""
    features, population, known = trials.features, trials.population, trials.covariates
    none = np.empty((len(trials), 0, features.shape[2]))
    assert known is not None
    match case:
        case "no population":
            known = known._replace(population=np.empty((0, 2)))
            return Trials(features, none, trials.present, None, known)
        case "nothing known":
            return Trials(features, population, trials.present)
        case "all alike":
            known = Covariates(np.ones_like(known.targets), np.ones_like(known.population))
        case "constant":
            features, population = np.full_like(features, 0.1), np.full_like(population, 0.1)
        case "one constant":
            features, population = features.copy(), population.copy()
            features[:, :, -1] = population[:, :, -1] = 1e9
        case "twice":
            features, population = (
                np.concatenate((of, 3 * of - 1), axis=2) for of in (features, population)
            )
        case "coins":
            features = np.repeat(trials.present[:, :, None].astype(np.float64), 3, axis=2)
            population = np.zeros((len(trials), population.shape[1], 3))
        case "a constant population":
            population = np.zeros_like(population)
    return Trials(features, population, trials.present, None, known)


CASES = [
    "usual",
    "no population",
    "nothing known",
    "all alike",
    "constant",
    "one constant",
    "twice",
    "coins",
    "a constant population",
]


@pytest.mark.parametrize("joint", FORMS)
@pytest.mark.cases("case", CASES)
def test_unusual_features_have_finite_scores(joint: bool, case: str) -> None:
    attack = RegressionLira(joint=joint)
    for usual in (
        lists(9, 200, 2),
        Law(targets=30, population=20, features=8).trials(9),
        Law(targets=30, population=150, features=1).trials(9),
    ):
        trials = changed(usual, case)
        for calibrating in (1, 2, 6):
            judging = trials.of(np.arange(calibrating, 9))
            scores = judging.scores(attack, trials.of(np.arange(calibrating)))
            assert np.isfinite(scores).all()
            if case == "constant":
                assert not scores.any()
            if case == "coins":
                assert Curve(scores, judging.present).areas().min() == 1


@pytest.mark.parametrize("flag", [True, False])
def test_coins_that_all_fell_alike_tell_nothing(flag: bool) -> None:
    trials = Law(targets=30, population=20).trials(3)
    signals = signals_of(trials)
    scores = RegressionLira().score(signals, signals, np.full_like(trials.present, flag))
    assert not scores.any()


def test_a_rehearsal_chooses_it_where_it_is_better() -> None:
    trials = Law().trials(8)
    promises = {}
    for attack in (ConjugateLira(), RegressionLira()):
        one = half_judged(trials, attack, [0.01], FAMILY, 0.0, 1)
        promises[attack.name] = one.promise["tpr 0.01"], one.curve.rates(0.01).mean()
    mine, other = promises["regression-lira"], promises["conjugate-lira"]
    assert mine[0] > other[0]
    assert mine[1] > other[1]


def test_scores_of_surrogates_are_read_where_they_are_asked_for() -> None:
    rng = np.random.default_rng(4)
    level = rng.normal(size=600)
    present = rng.random((2, 600)) < 0.5
    # The level of a target is what a surrogate says of it, but for noise.
    features = (level + 0.3 * rng.normal(size=(2, 600)) + 0.5 * present)[:, :, None]
    plain = np.stack((rng.normal(size=600), rng.normal(size=600)), axis=1)
    areas = {}
    for surrogates in (False, True):
        for columns in (plain, np.column_stack((plain, level))):
            known = Covariates(columns, np.empty((0, columns.shape[1])), columns.shape[1] - 2)
            trials = Trials(features, np.empty((2, 0, 1)), present, None, known)
            attack = RegressionLira(surrogates=surrogates)
            scores = trials.of(np.array([1])).scores(attack, trials.of(np.array([0])))
            areas[surrogates, columns.shape[1]] = Curve(scores, present[1:]).areas()[0]
    assert areas[False, 2] == areas[False, 3] == areas[True, 2]
    assert areas[True, 3] > areas[False, 3] + 0.02
