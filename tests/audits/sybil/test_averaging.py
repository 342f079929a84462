"""Sybil attacks on data for which the accuracy of every effort is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from executors import on_threads  # type: ignore[import-not-found]
from numpy.typing import NDArray
from scipy import stats

from dpaudit.attacks.inference import Averaging
from dpaudit.audits.sybil.averaging import (
    AccountPlanner,
    FakeAccounts,
    SybilScores,
    _HiddenRating,
    run_sybil,
)
from dpaudit.core.errors import ConfigError, DataError, InputError
from dpaudit.core.releases import ItemList, Observer, Profile
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import (
    RatingAdded,
    RatingChange,
    RatingRemoved,
    RatingReplaced,
    apply,
    without,
)
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.defenses.base import ExactScores, ItemModel, OnDemandDefense
from dpaudit.defenses.item_item.recommender import ItemItem
from dpaudit.defenses.item_item.similarities import Cosine, SlopeOne
from dpaudit.defenses.top_k.defense import TopK

STARS, PURCHASES = Scale(), Scale(1, 1, 1)
Z = float(stats.norm.isf(5e-7))  # two sides: a rate of 1e-6
PHI, SIZE = 3, 3


def alone(scale: Scale = STARS) -> Ratings:
    """Ten targets with SIZE + 1 items each and none in common, so every m_k + 1 is 1."""
    rng = np.random.default_rng(1)
    values = rng.choice(scale.values, (10, SIZE + 1))
    profiles = [
        [(u * (SIZE + 1) + k, float(v)) for k, v in enumerate(row)] for u, row in enumerate(values)
    ]
    return from_profiles(profiles, 10 * (SIZE + 1), scale)


def mixed(seed: int, scale: Scale = STARS, users: int = 14, items: int = 16) -> Ratings:
    rng = np.random.default_rng(seed)
    profiles = []
    for _ in range(users):
        chosen = rng.permutation(items)[: int(rng.integers(4, 9))]
        profiles.append([(int(i), float(rng.choice(scale.values))) for i in chosen])
    return from_profiles(profiles, items, scale)


def slope_one(epsilon: float = np.inf, **more: Any) -> SlopeOne:
    given = {"variant": "nonprivate" if np.isinf(epsilon) else "published"} | more
    return SlopeOne(epsilon=epsilon, min_ratings=SIZE, min_co_ratings=PHI, top_k=2, **given)


def cosine(epsilon: float = np.inf, **more: Any) -> Cosine:
    given = {"variant": "nonprivate" if np.isinf(epsilon) else "published"} | more
    return Cosine(epsilon=epsilon, min_ratings=SIZE, top_k=2, **given)


def run(
    defense: Any, ratings: Ratings, attack: Averaging, efforts: list[int], trials: int, **more: Any
) -> SybilScores:
    return run_sybil(
        defense, ratings, attack, efforts=efforts, trials=trials, **({"seed": 1} | more)
    )


def near(rate: float, expected: float, n: int) -> bool:
    return bool(abs(rate - expected) <= Z * np.sqrt(expected * (1 - expected) / n))


# Without noise.


@pytest.mark.long
@pytest.mark.parametrize("category", ["immediate", "combined"])
def test_without_noise_enough_helpers_and_one_release_recover_every_rating(category: Any) -> None:
    # One co-rater, so φ fake accounts take every pair across the threshold. Rate 1e-6.
    scores = run(
        slope_one(), alone(), Averaging(category=category, fake_accounts=6), [1, 3, 4, 9], 200
    )
    assert (scores.planted == PHI).all()
    assert scores.correct[2:].all()
    for guesses in scores.correct[:2]:
        assert near(guesses.mean(), 0.2, 200)
    np.testing.assert_allclose(scores.signal, 1 / (PHI + 1), rtol=1e-6)


@pytest.mark.long
def test_with_one_helper_less_nothing_is_learned() -> None:
    attack = Averaging(category="immediate", fake_accounts=PHI - 1)
    scores = run(slope_one(), alone(), attack, [1, 50], 200)
    assert (scores.planted == 0).all()
    assert (scores.signal == 0).all()
    assert near(scores.correct[1].mean(), 0.2, 200)


@pytest.mark.long
@pytest.mark.parametrize("observe", ["values", "list"])
def test_dynamic_fails_where_combined_succeeds(observe: Any) -> None:
    dynamic = Averaging(category="dynamic", observe=observe, calibration=50, fake_accounts=6)
    combined = replace(dynamic, category="combined")
    efforts = [PHI + 1 if observe == "values" else PHI + 4]
    assert near(run(slope_one(), alone(), dynamic, efforts, 100).correct.mean(), 0.2, 100)
    assert run(slope_one(), alone(), combined, efforts, 100).correct.all()


@pytest.mark.cases("reads", ["place", "membership"])
@pytest.mark.cases("seed", [1, 2])
def test_without_noise_four_thresholds_recover_every_rating(reads: Any, seed: int) -> None:
    # `damped` reveals every rating without fake accounts: four cuts separate five candidates.
    part = slope_one(similarity="damped")
    attack = Averaging(category="dynamic", observe="list", reads=reads, calibration=50)
    scores = run(part, mixed(seed), attack, [1, 2, 3, 4, 40], 60)
    assert scores.correct[3:].all()
    assert not scores.correct[:3].all(1).any()


def test_without_noise_one_list_tells_whether_something_was_bought() -> None:
    attack = Averaging(category="dynamic", observe="list", calibration=50)
    scores = run(cosine(), mixed(3, PURCHASES), attack, [1], 200)
    # Only a purchase that changes no similarity remains hidden.
    assert scores.correct[0, scores.signal > 1e-6].all()
    assert (scores.signal > 1e-6).mean() > 0.9


def parted(fake_accounts: int) -> int:
    """Number of targets whose noiseless list differs between the least and greatest rating."""
    ratings, part = mixed(5, users=30), slope_one(similarity="shrunk")
    model, count = part.prepare(ratings), 0
    attack = Averaging(category="immediate", observe="list", fake_accounts=fake_accounts)
    for user in range(ratings.n_users):
        item = int(ratings.profile(user).items[0])
        game = _HiddenRating(part, attack, model, user, item, (0, "x"))
        exact = game._exact(game.accounts())
        streams = Streams.first(0, "x", 1)
        lists = [part.release_list(one, streams).items for one in (exact[0], exact[-1])]
        count += attack.outcomes(lists[0], item)[0] != attack.outcomes(lists[1], item)[0]
    return count


@pytest.mark.long
def test_helpers_of_immediate_lists_aim_at_the_cut() -> None:
    assert parted(0) < 15
    assert parted(15) == 30


# With noise.


@pytest.mark.long
def test_one_release_has_the_closed_form() -> None:
    # d = 1/(φ+1), q = exp(−d/(2b)): 1 − q inside the scale and 1 − q/2 at its ends. Rate 1e-6.
    ratings, trials = alone(), 500
    part = slope_one(20.0)
    attack = Averaging(category="combined", fake_accounts=PHI)
    scores = run(part, ratings, attack, [PHI + 1], trials)
    q = np.exp(-1 / (PHI + 1) / (2 * part.noise_scale(STARS)))
    end = np.isin(ratings.value, [1, 5]).mean()
    expected = end * (1 - q / 2) + (1 - end) * (1 - q)
    assert near(scores.correct.mean(), expected, trials)
    wrong = end * (1 - q**2 / 2) + (1 - end) * (1 - q**2)
    assert not near(scores.correct.mean(), wrong, trials)


@pytest.mark.long
def test_many_releases_agree_with_an_independent_simulation() -> None:
    ratings, trials, releases = alone(PURCHASES), 600, 9
    part = cosine(0.5)
    scores = run(
        part, ratings, Averaging(category="immediate", fake_accounts=0), [releases], trials
    )
    # Nobody else has any of the items: not bought 0, bought 1/√(1·1).
    np.testing.assert_allclose(scores.signal, 1.0, rtol=1e-6)
    rng = np.random.default_rng(2)
    b = part.noise_scale(PURCHASES)
    shown = b * rng.laplace(size=(200_000, releases))
    expected = float((abs(shown).sum(1) < abs(shown - 1).sum(1)).mean())
    assert near(scores.correct.mean(), expected, trials)
    # The mean of nine draws is worse than their median; the test would notice it.
    assert expected > float((shown.mean(1) < 0.5).mean()) + 0.01
    assert not near(scores.correct.mean(), expected - 0.1, trials)


@pytest.mark.long
@pytest.mark.parametrize("observe", ["values", "list"])
def test_more_effort_does_not_hurt(observe: Any) -> None:
    attack = Averaging(category="combined", observe=observe, fake_accounts=PHI)
    scores = run(slope_one(20.0), alone(), attack, [4, 8, 16, 32, 64], 150)
    rates = scores.correct.mean(1)
    # A difference of two frequencies, rate 1e-6 over 4 pairs.
    assert (np.diff(rates) > -float(stats.norm.isf(2.5e-7)) * np.sqrt(0.5 / 150)).all()
    assert rates[-1] > 0.9 > rates[0] + 0.1


# The accounts.


@pytest.mark.cases(
    ("part", "scale"),
    [
        (slope_one(), STARS),
        (slope_one(5.0, variant="corrected", similarity="shrunk"), STARS),
        (slope_one(5.0, variant="corrected"), STARS),
        (cosine(), PURCHASES),
        (cosine(5.0, variant="corrected"), PURCHASES),
    ],
)
@pytest.mark.cases("seed", [1, 2, 3])
def test_exact_predictions_and_signal_are_those_of_the_data(
    part: ItemItem, scale: Scale, seed: int
) -> None:
    ratings = mixed(seed, scale)
    user = int(np.flatnonzero(np.diff(ratings.by_user.start) > SIZE + 1)[0])
    item = int(ratings.profile(user).items[1])
    attack = Averaging(category="combined", fake_accounts=5)
    game = _HiddenRating(part, attack, part.prepare(ratings), user, item, (0, "x"))
    accounts = game.accounts()
    assert len(accounts.observer) == SIZE
    assert np.isin(accounts.observer.items, ratings.profile(user).items).all()
    assert item not in accounts.observer.items
    rest = apply(ratings, RatingRemoved(user, item)).with_users(accounts.planted)
    exact = game._exact(accounts)
    values = part.candidates(scale)
    for prediction, value in zip(exact, values, strict=True):
        trial = apply(rest, RatingAdded(user, item, float(value))) if value else rest
        expected = part.exact(part.prepare(trial), accounts.observer)
        np.testing.assert_allclose(prediction.scores, expected.scores, atol=1e-6)
    step = (exact[-1].scores[item] - exact[0].scores[item]) / (len(values) - 1)
    assert accounts.signal == pytest.approx(step, abs=1e-6)
    # Nothing but the prediction of the hidden item tells the candidates apart.
    kept = np.arange(ratings.n_items) != item
    for other in exact[1:]:
        np.testing.assert_array_equal(other.scores[kept], exact[0].scores[kept])


def summands(form: str, m: NDArray[np.int64], h: int) -> NDArray[np.float64]:
    """The signal's summands of the docstring, m without the target."""
    n = m + h + 1
    if form == "cut":
        return (n > PHI) / n
    return 1 / np.maximum(n, PHI) if form == "shrunk" else 1 / (n + PHI)


@pytest.mark.cases("form", ["cut", "shrunk", "damped"])
@pytest.mark.cases("seed", range(4))
def test_signal_is_the_largest_of_all_profiles(form: Any, seed: int) -> None:
    ratings = mixed(seed, users=20)
    part = slope_one(1.0, variant="corrected", similarity=form)
    user = int(np.argmax(np.diff(ratings.by_user.start)))
    profile = ratings.profile(user)
    item = int(profile.items[2])
    hidden = apply(ratings, RatingRemoved(user, item))
    target = without(profile, item)
    planter = AccountPlanner(part, part.prepare(hidden), target, item)
    accounts = planter.choose(Averaging(category="combined", fake_accounts=8))
    raters = [set(hidden.user[hidden.item == k]) for k in range(ratings.n_items)]
    m = np.array([len(raters[item] & raters[k]) for k in target.items])
    fake_accounts = len(accounts.planted)

    def best(h: int) -> float:
        chosen = combinations(range(len(m)), SIZE)
        return max(float(summands(form, m[list(c)], h).mean()) for c in chosen)

    assert accounts.signal == pytest.approx(best(fake_accounts), rel=1e-6)
    # Where noise dominates, the choice minimises the forecast h + 9.4 (b/d)².
    noise = part.noise_scale(STARS)
    forecast = [h + 9.4 * (noise / best(h)) ** 2 if best(h) else np.inf for h in range(9)]
    assert fake_accounts == int(np.argmin(forecast))
    if form != "cut":
        assert fake_accounts == 0


def test_helpers_values_are_on_the_scale_and_leave_rivals_alone() -> None:
    ratings = mixed(5, users=30)
    part = slope_one()
    attack = Averaging(category="immediate", observe="list", fake_accounts=8)
    checked = 0
    for user in range(ratings.n_users):
        profile = ratings.profile(user)
        item = int(profile.items[0])
        hidden, target = apply(ratings, RatingRemoved(user, item)), without(profile, item)
        accounts = AccountPlanner(part, part.prepare(hidden), target, item).choose(attack)
        checked += check_fake_accounts(part, hidden, item, accounts)
    assert checked > 5


@pytest.mark.parametrize("observe", ["values", "list"])
def test_accounts_do_not_depend_on_the_hidden_rating(observe: Any) -> None:
    part, attack = (
        slope_one(50.0),
        Averaging(category="immediate", observe=observe, fake_accounts=8),
    )
    ratings = mixed(5, users=30)
    item, values = int(ratings.profile(4).items[2]), ratings.profile(4).values
    accounts = []
    for value in STARS.values[STARS.values != values[2]]:
        trial = apply(ratings, RatingReplaced(4, item, float(value)))
        accounts.append(
            _HiddenRating(part, attack, part.prepare(trial), 4, item, (0, "x")).accounts()
        )
    for other in accounts[1:]:
        np.testing.assert_array_equal(other.observer.items, accounts[0].observer.items)
        np.testing.assert_array_equal(other.observer.values, accounts[0].observer.values)
        assert len(other.planted) == len(accounts[0].planted)
        for account, first in zip(other.planted, accounts[0].planted, strict=True):
            np.testing.assert_array_equal(account.values, first.values)
        assert other.signal == accounts[0].signal


def check_fake_accounts(part: SlopeOne, hidden: Ratings, item: int, accounts: FakeAccounts) -> bool:
    if not accounts.planted:
        return False
    expected = np.sort(np.append(accounts.observer.items, item))
    for account in accounts.planted:
        np.testing.assert_array_equal(account.items, expected)
        assert np.isin(account.values, STARS.values).all()
    before = part.exact(part.prepare(hidden), accounts.observer).scores
    after = part.exact(part.prepare(hidden.with_users(accounts.planted)), accounts.observer).scores
    kept = np.arange(hidden.n_items) != item
    np.testing.assert_array_equal(before[kept], after[kept])
    return True


# The game.


@pytest.mark.long
def test_outcomes_do_not_depend_on_threads_or_further_trials() -> None:
    attack = Averaging(category="combined", observe="list", calibration=50, fake_accounts=4)
    one = run(slope_one(20.0), mixed(1), attack, [3, 30], 60)
    many = run(slope_one(20.0), mixed(1), attack, [3, 30], 60, executor=on_threads(3))
    more = run(slope_one(20.0), mixed(1), attack, [3, 30], 75)
    for other in (many, more):
        np.testing.assert_array_equal(one.correct, other.correct[:, :60])
        np.testing.assert_array_equal(one.planted, other.planted[:60])
    assert (
        run(slope_one(20.0), mixed(1), attack, [3, 30], 60, seed=2).correct != one.correct
    ).any()


def test_smaller_efforts_are_the_same_in_a_longer_sybil() -> None:
    attack = Averaging(category="dynamic", observe="values")
    short = run(slope_one(20.0), mixed(1), attack, [1, 5], 60)
    long = run(slope_one(20.0), mixed(1), attack, [1, 5, 50], 60)
    np.testing.assert_array_equal(short.correct, long.correct[:2])


@dataclass(frozen=True)
class SetsOnly(OnDemandDefense):
    """A defense that releases sets, increasing, and no values."""

    inner: SlopeOne
    epsilon: float = np.inf
    min_ratings: int = SIZE
    top_k: int = 2

    def claim(self) -> None:
        return

    def observers(self) -> dict[str, Observer[ExactScores]]:
        return {}

    def pairs(self) -> dict[str, str]:
        return {}

    def similarities(self) -> SlopeOne:
        return self.inner

    def prepare(self, ratings: Ratings) -> ItemModel:
        return self.inner.prepare(ratings)

    def exact(self, model: ItemModel, profile: Profile) -> ExactScores:
        return self.inner.exact(model, profile)

    def exact_after(self, model: ItemModel, change: RatingChange, target: int) -> ExactScores:
        return self.inner.exact_after(model, change, target)

    def release_list(self, exact: ExactScores, streams: Streams) -> ItemList:
        return ItemList(np.sort(self.inner.release_list(exact, streams).items, axis=1))


def test_a_defense_of_sets_is_run_by_membership() -> None:
    part = SetsOnly(slope_one())
    attack = Averaging(
        category="combined", observe="list", reads="membership", calibration=50, fake_accounts=4
    )
    assert run(part, alone(), attack, [PHI + 4], 40).correct.all()
    with pytest.raises(ConfigError, match="observe"):
        run(part, alone(), Averaging(), [4], 10)


@pytest.mark.long
@pytest.mark.parametrize("variant", ["nonprivate", "corrected", "published"])
def test_top_k_is_run(variant: Any) -> None:
    given: dict[str, Any] = {"epsilon": np.inf if variant == "nonprivate" else 40.0}
    if variant == "published":
        given["u_s"] = "largest-rate"
    part = TopK(variant=variant, min_ratings=SIZE, min_co_ratings=PHI, top_k=2, **given)
    attack = Averaging(
        category="combined", observe="list", reads="membership", calibration=50, fake_accounts=4
    )
    scores = run(part, alone(), attack, [PHI, PHI + 4], 30)
    assert (scores.planted == PHI).all()
    assert near(scores.correct[0].mean(), 0.2, 30)
    if variant == "nonprivate":
        assert scores.correct[1].all()


@pytest.mark.cases("efforts", [[], [0, 1], [2, 2], [3, 1]])
def test_wrong_efforts_are_refused(efforts: list[int]) -> None:
    with pytest.raises(InputError, match="efforts"):
        run(slope_one(), alone(), Averaging(), efforts, 10)


def test_data_without_long_profiles_are_refused() -> None:
    with pytest.raises(DataError, match="min_ratings"):
        run(replace(slope_one(), min_ratings=SIZE + 1), alone(), Averaging(), [1], 10)
