"""The top-k mechanisms: their laws, and their privacy losses on neighbouring data."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy import stats

from dpaudit.core.errors import ConfigError, DataError, InputError
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import RatingReplaced, apply
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.defenses.base import ExactScores
from dpaudit.defenses.top_k import bounds as list_bounds
from dpaudit.defenses.top_k.defense import TopK

STARS = Scale()
WIDTH = 4.0
Vector = NDArray[np.float64]
Items = NDArray[np.int32]
CORRECTED = ("joint", "peeling")


def defense_of(**parameters: Any) -> TopK:
    return TopK(**{"epsilon": 1.0, "top_k": 3, **parameters})


def corrected(mechanism: str, **parameters: Any) -> TopK:
    return defense_of(variant="corrected", mechanism=mechanism, **parameters)


def row(scores: Any, defense: TopK) -> ExactScores:
    return ExactScores(np.array(scores, np.float32), defense.sensitivity(STARS))


def outcomes(exact: ExactScores, defense: TopK) -> Items:
    """Return every list or set that the mechanism may release."""
    ordered = defense.form in {None, "peeling"}
    every = itertools.permutations if ordered else itertools.combinations
    return np.array(list(every(exact.candidates.tolist(), defense.top_k)), np.int32)


def logs(exact: ExactScores, defense: TopK) -> Vector:
    return defense.law(exact).log_probability(outcomes(exact, defense))


def loss(before: ExactScores, after: ExactScores, defense: TopK) -> float:
    """The largest |ln P'/P| over all outcomes."""
    return float(abs(logs(after, defense) - logs(before, defense)).max())


SCORES = [3.2, -np.inf, 4.5, 1.0, 4.5, -np.inf, 5.0, 2.25]
EVERY = [
    defense_of(variant="nonprivate"),
    defense_of(left_window=2, right_window=1),
    defense_of(left_window=3, right_window=3, enumeration="printed"),
    defense_of(mechanism="exact", rates="halved"),
    corrected("joint"),
    corrected("peeling"),
    corrected("joint", adjacency="rating-replace"),
    corrected("peeling", epsilon=5.0),
]


@pytest.mark.cases("defense", EVERY)
def test_a_law_is_that_of_what_is_released(defense: TopK) -> None:
    exact = row(SCORES, defense)
    rows, n = outcomes(exact, defense), 20_000
    law = np.exp(logs(exact, defense))
    assert law.sum() == pytest.approx(1, abs=1e-10)
    shown = defense.release_list(exact, Streams.first(3, "x", n)).items
    assert shown.shape == (n, 3)
    assert shown.dtype == np.int32
    place = {tuple(items): i for i, items in enumerate(rows.tolist())}
    numbers = np.bincount([place[tuple(items)] for items in shown.tolist()], minlength=len(rows))
    # Each count is binomial: a false-failure rate of 1e-6 over all cells and both sides.
    tail = 1e-6 / (2 * len(rows))
    assert (numbers >= stats.binom.ppf(tail, n, law)).all()
    assert (numbers <= stats.binom.isf(tail, n, law)).all()
    if defense.variant != "nonprivate":
        off = np.roll(law, 1)
        low, high = stats.binom.ppf(tail, n, off), stats.binom.isf(tail, n, off)
        assert not ((numbers >= low) & (numbers <= high)).all()


@pytest.mark.cases("defense", EVERY)
def test_impossible_lists_have_no_probability(defense: TopK) -> None:
    law = defense.law(row(SCORES, defense))
    wrong = [[2, 4, 4], [1, 2, 4], [2, 4, 8], [2, 4, 5000], [-1, 2, 4], [6, 6, 6], [4, 6, 6]]
    assert np.isneginf(law.log_probability(np.array(wrong, np.int32))).all()
    best = law.log_probability(np.array([[6, 2, 4]], np.int32))
    assert np.isfinite(best).all()
    assert law.log_probability(np.empty((0, 3), np.int32)).shape == (0,)
    with pytest.raises(InputError, match="rows of 3 items"):
        law.log_probability(np.array([[2, 4]], np.int32))


def test_corrected_laws_are_those_of_their_weights() -> None:
    for mechanism in CORRECTED:
        defense = corrected(mechanism, epsilon=2.0)
        exact = row(SCORES, defense)
        rows = outcomes(exact, defense)
        weight = np.exp(defense.weight_rate(WIDTH, 6) * exact.scores.astype(np.float64))
        if mechanism == "joint":
            expected = weight[rows].prod(axis=1)
            expected /= expected.sum()
        else:
            used = np.cumsum(weight[rows], axis=1) - weight[rows]
            expected = (weight[rows] / (weight.sum() - used)).prod(axis=1)
        np.testing.assert_allclose(np.exp(logs(exact, defense)), expected, rtol=1e-9)


def test_without_privacy_the_best_are_shown_best_first() -> None:
    defense = defense_of(epsilon=math.inf, variant="nonprivate")
    shown = defense.release_list(row(SCORES, defense), Streams.first(1, "x", 5)).items
    assert shown.tolist() == [[6, 2, 4]] * 5


# The corrected mechanisms: one entry of C changes.


@pytest.mark.long
@pytest.mark.parametrize("mechanism", CORRECTED)
@pytest.mark.parametrize(("items", "k"), [(2, 1), (5, 1), (5, 2), (5, 3), (5, 4), (6, 3)])
def test_one_entry_never_tells_more_than_epsilon(mechanism: str, items: int, k: int) -> None:
    rng = np.random.default_rng(items * 10 + k)
    for epsilon in (0.1, 1.0, 6.0):
        defense = corrected(mechanism, top_k=k, epsilon=epsilon)
        worst = 0.0
        for trial in range(36):
            scores = rng.uniform(1, 5, items) if trial % 3 else rng.choice([1.0, 5.0], items)
            place, value = int(rng.integers(items)), float(rng.choice([1.0, 5.0, 3.0]))
            other = scores.copy()
            other[place] = value
            worst = max(worst, loss(row(scores, defense), row(other, defense), defense))
        assert 0.3 * epsilon < worst <= epsilon * (1 + 1e-9)


@pytest.mark.cases("mechanism", CORRECTED)
@pytest.mark.cases(("items", "k"), [(2, 1), (5, 1), (5, 2), (5, 3), (5, 4), (6, 3)])
def test_the_bound_is_attained_and_by_which_rows(mechanism: str, items: int, k: int) -> None:
    # The other entries take every combination of low, middle and high: none beats the two rows.
    defense = corrected(mechanism, top_k=k, epsilon=1.5)
    attained = {}
    for others in itertools.combinations_with_replacement([1.0, 3.0, 5.0], items - 1):
        ends = [row([end, *others], defense) for end in (1.0, 5.0)]
        attained[others] = loss(ends[0], ends[1], defense)
    best, worst = (5.0,) * (items - 1), (1.0,) * (items - 1)
    assert max(attained.values()) == pytest.approx(1.5, rel=1e-9)
    assert max(attained[best], attained[worst]) == pytest.approx(1.5, rel=1e-9)


@pytest.mark.long
def test_bounds_for_a_part_of_the_width() -> None:
    # One entry moves by at most d < Δr, from anywhere: brute force over positions and others.
    rate, d = 0.7, 1.5
    for mechanism, bound in (
        ("joint", list_bounds.joint_loss),
        ("peeling", list_bounds.peeling_loss),
    ):
        for items, k in ((4, 1), (4, 2), (5, 3), (4, 3)):
            defense = corrected(mechanism, top_k=k)
            claimed = bound(rate * WIDTH, rate * d, items, k)
            # Weights depend on λ · score, so scores are scaled to get the wanted rate.
            stretch = rate / defense.weight_rate(WIDTH, items)
            worst = 0.0
            for start in (1.0, 2.0, 3.5):
                for others in itertools.product([1.0, 2.5, 5.0], repeat=items - 1):
                    ends = [
                        row(stretch * np.array([end, *others]), defense)
                        for end in (start, start + d)
                    ]
                    worst = max(worst, loss(ends[0], ends[1], defense))
            assert worst == pytest.approx(claimed, rel=1e-5)
            # The bound for the whole width with Δr replaced by d is too small.
            assert bound(rate * d, rate * d, items, k) < 0.999 * worst


def test_rates_in_closed_form() -> None:
    # joint: H = 1 + (e^ε − 1) M / max(k, M − k); peeling where one draw decides: M/(M − 1).
    for epsilon in (1e-6, 0.1, 1.0, 4.0):
        for mechanism, share in (("joint", 1672 / 1682), ("peeling", 1681 / 1682)):
            rate = corrected(mechanism, top_k=10, epsilon=epsilon).weight_rate(WIDTH, 1682)
            assert rate == pytest.approx(math.log1p(math.expm1(epsilon) / share) / WIDTH, rel=1e-8)
            # The textbook's scale is 2kΔr/ε.
            assert 1 / rate < 2 * 10 * WIDTH / epsilon / 19
    late = corrected("peeling", top_k=10, epsilon=10.0).weight_rate(WIDTH, 1682)
    total = sum(math.log1p(math.expm1(late * WIDTH) / (1682 - t)) for t in range(10))
    assert total == pytest.approx(10)
    assert 1 / late == pytest.approx(0.502, abs=1e-3)
    for epsilon in (1e3, 1e6):  # no overflow
        rate = corrected("joint", epsilon=epsilon).weight_rate(WIDTH, 1682)
        assert rate == pytest.approx(epsilon / WIDTH, rel=0.01)


@pytest.mark.cases("mechanism", CORRECTED)
@pytest.mark.cases("epsilon", [0.5, 1.0, 8.0])
def test_the_worst_pairs_reach_epsilon(mechanism: str, epsilon: float) -> None:
    defense = corrected(mechanism, top_k=10, epsilon=epsilon)
    reached = {}
    for name in defense.pairs():
        pair = defense.pair(name, STARS)
        assert (pair.before.scores != pair.after.scores).sum() == 1
        assert len(pair.before.scores) == 40
        assert pair.before.scores.min() == 1
        assert pair.after.scores[0] == 5
        order = np.argsort(-pair.before.scores[1:], kind="stable").astype(np.int32) + 1
        lists = np.array([[0, *order[:9]], order[:10]], np.int32)
        if mechanism == "joint":
            lists.sort(axis=1)
        law = [defense.law(exact).log_probability(lists) for exact in (pair.before, pair.after)]
        reached[name] = float(abs(law[1] - law[0]).max())
    assert set(reached) == {"last-ranked", "among-best", "among-worst"}
    assert 0.999 * epsilon < max(reached.values()) <= epsilon * (1 + 1e-9)


@pytest.mark.long
@pytest.mark.parametrize("mechanism", CORRECTED)
def test_releases_show_nearly_epsilon(mechanism: str) -> None:
    # Whether the raised item is shown (joint), or shown first (peeling): ln P'/P = ε = 1.
    defense, n = corrected(mechanism, top_k=10), 400_000
    pair = defense.pair("among-best", STARS)
    bounds = []
    for trial, exact in (("absent", pair.before), ("present", pair.after)):
        items = defense.release_list(exact, Streams.first(9, trial, n)).items
        bounds.append(int((items if mechanism == "joint" else items[:, :1]).__eq__(0).sum()))
    # The log ratio of two binomial counts is nearly normal; 4.9 standard errors are 1e-6.
    error = 4.9 * math.sqrt(sum(1 / count - 1 / n for count in bounds))
    assert abs(math.log(bounds[1] / bounds[0]) - 1) < error < 0.12


# The corrected mechanisms: one rating in the data changes.


def dense_data(seed: int) -> Ratings:
    rng = np.random.default_rng(seed)
    profiles = []
    for user in range(5):
        items = rng.permutation(7)[: 3 if user == 0 else int(rng.integers(2, 7))]
        profiles.append([(int(i), float(rng.choice([1.0, 5.0, 3.0]))) for i in items])
    return from_profiles(profiles, 7, STARS)


@pytest.mark.long
@pytest.mark.parametrize("mechanism", CORRECTED)
@pytest.mark.parametrize(("k", "phi"), [(1, 1), (2, 1), (3, 3)])
def test_one_rating_never_tells_more_than_epsilon(mechanism: str, k: int, phi: int) -> None:
    defense = corrected(
        mechanism,
        top_k=k,
        min_ratings=3,
        min_co_ratings=phi,
        adjacency="rating-replace",
        epsilon=2.0,
    )
    worst = 0.0
    for seed in range(6):
        data = dense_data(seed)
        model = defense.prepare(data)
        before = defense.exact(model, data.profile(0))
        for user, item, old in zip(data.user, data.item, data.value, strict=True):
            for value in {1.0, 5.0} - {float(old)}:
                change = RatingReplaced(int(user), int(item), value)
                after = defense.exact_after(model, change, 0)
                moved = after.scores[after.candidates] - before.scores[before.candidates]
                # The user's own ratings, and others' ratings of items that the user rated, move all
                # entries in one direction.
                assert (moved >= -1e-5).all() or (moved <= 1e-5).all()
                worst = max(worst, loss(before, after, defense))
    assert 0.1 * 2.0 < worst <= 2.0 * (1 + 1e-5)


def test_the_rate_for_ratings_covers_both_kinds_of_move() -> None:
    for mechanism, bound in (
        ("joint", list_bounds.joint_loss),
        ("peeling", list_bounds.peeling_loss),
    ):
        defense = corrected(mechanism, top_k=10, adjacency="rating-replace")
        # T = 20, φ = 10: ω = 4/20 and 10 entries of it: λ = ε/2. δ = 4/11 binds for one entry.
        assert defense.weight_rate(WIDTH, 1682) == pytest.approx(0.5)
        one = corrected(mechanism, top_k=1, min_ratings=1000, adjacency="rating-replace")
        rate = one.weight_rate(WIDTH, 1682)
        assert bound(rate * 4, rate * 4 / 11, 1682, 1) == pytest.approx(1)
        assert rate > 2


@pytest.mark.parametrize("mechanism", CORRECTED)
def test_an_own_rating_reaches_most_of_epsilon(mechanism: str) -> None:
    defense = corrected(mechanism, top_k=10, adjacency="rating-replace", epsilon=0.5)
    pair = defense.pair("own-rating", STARS)
    moved = pair.after.scores[pair.after.candidates] - pair.before.scores[pair.before.candidates]
    assert moved[:10] == pytest.approx(np.full(10, WIDTH / 20), abs=1e-5)
    assert (moved[10:] < 0.06 * WIDTH / 20).all()
    lists = pair.before.candidates[None, :10]
    law = [defense.law(exact).log_probability(lists)[0] for exact in (pair.before, pair.after)]
    assert 0.8 * 0.5 < law[1] - law[0] <= 0.5


# The published mechanism.


@pytest.mark.cases("mechanism", ["chain", "exact"])
@pytest.mark.cases("enumeration", ["meant", "printed"])
@pytest.mark.cases("rates", ["printed", "halved"])
def test_the_published_sets_tell_an_item_raised_from_the_last_rank(
    mechanism: str, enumeration: str, rates: str
) -> None:
    defense = TopK(epsilon=0.1, mechanism=mechanism, enumeration=enumeration, rates=rates)  # type: ignore[arg-type]
    pair = defense.pair("last-ranked", STARS)
    assert len(pair.before.scores) == 40
    before, after = (
        defense.release_list(exact, Streams.first(2, "x", 2000)).items
        for exact in (pair.before, pair.after)
    )
    assert (after == 0).any(axis=1).all()
    without = ~(before == 0).any(axis=1)
    assert without.mean() > 0.9
    assert np.isneginf(defense.law(pair.after).log_probability(before[without])).all()
    assert np.isfinite(defense.law(pair.before).log_probability(before)).all()


def test_only_one_item_differs_from_the_best_set() -> None:
    defense = TopK(epsilon=0.1)
    exact = defense.pair("last-ranked", STARS).before
    shown = defense.release_list(exact, Streams.first(2, "x", 2000)).items
    best = defense_of(epsilon=math.inf, variant="nonprivate", top_k=10)
    top = best.release_list(exact, Streams.first(2, "x", 1)).items[0]
    assert set(np.isin(shown, top).sum(axis=1)) == {9, 10}


# Parameters, claim and errors.


@pytest.mark.cases(
    ("parameters", "words"),
    [
        ({"epsilon": 1e-7}, "epsilon"),
        ({"epsilon": math.inf}, "nonprivate"),
        ({"epsilon": 2e6}, "1e6"),
        ({"mechanism": "joint"}, "chain, exact"),
        ({"variant": "corrected", "mechanism": "chain"}, "joint, peeling"),
        ({"variant": "nonprivate", "mechanism": "chain"}, "remove it"),
        ({"adjacency": "rating-replace"}, "corrected"),
        ({"adjacency": "rating-add-remove"}, "adjacency"),
        ({"left_window": 4}, "left_window"),
        ({"u_s": 0.0}, "u_s"),
        ({"u_s": "fast"}, "u_s"),
        ({"u_s": math.inf}, "u_s"),
        ({"rating_bound": -1.0}, "rating_bound"),
        ({"iterations": 0}, "iterations"),
        ({"iterations": 1.5}, "iterations"),
        ({"top_k": 0}, "top_k"),
        ({"nothing": 1}, "nothing"),
        *(
            ({"variant": variant, name: value}, f"{name} belongs to the published")
            for variant in ("corrected", "nonprivate")
            for name, value in {
                "enumeration": "printed",
                "rates": "halved",
                "left_window": 1,
                "right_window": 1,
                "iterations": 10,
                "u_s": "largest-rate",
                "rating_bound": 5.0,
            }.items()
        ),
    ],
)
def test_bad_parameters_are_refused_by_name(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        defense_of(**parameters)


def test_claims() -> None:
    assert defense_of(variant="nonprivate").claim() is None
    for defense in (
        defense_of(),
        corrected("joint"),
        corrected("peeling", adjacency="rating-replace"),
    ):
        claim = defense.claim()
        assert claim is not None
        assert (claim.epsilon, claim.delta, claim.observer) == (1.0, 0.0, "list")
        assert claim.adjacency == defense.adjacency
        assert ("2011" in claim.source) is (defense.variant == "published")


def test_what_scores_are_measured_by() -> None:
    assert defense_of().sensitivity(STARS) == 5
    assert defense_of(rating_bound=10.0).sensitivity(STARS) == 10
    assert corrected("joint").sensitivity(STARS) == 4
    assert defense_of(variant="nonprivate").sensitivity(STARS) == 0
    with pytest.raises(ConfigError, match="rating_bound"):
        defense_of().sensitivity(Scale(-4, 0, 1))


@pytest.mark.cases("defense", EVERY)
def test_rows_are_completed_and_clipped(defense: TopK) -> None:
    rng = np.random.default_rng(0)
    profiles = [
        [(int(i), float(rng.choice([1.0, 5.0]))) for i in rng.permutation(40)[:25]]
        for _ in range(30)
    ]
    data = from_profiles(profiles, 40, STARS)
    model = defense.prepare(data)
    exact = defense.exact(model, data.profile(0))
    assert len(exact.candidates) == 15
    assert exact.sensitivity == defense.sensitivity(STARS)
    shown = exact.scores[exact.candidates]
    assert ((shown >= 1) & (shown <= 5)).all()
    raw = defense.completion.exact(model, data.profile(0)).scores
    np.testing.assert_array_equal(shown, np.clip(raw[exact.candidates], 1, 5))
    change = RatingReplaced(7, int(data.profile(7).items[0]), 3.0)
    after = defense.exact_after(model, change, 0)
    anew = defense.exact(defense.prepare(apply(data, change)), data.profile(0))
    np.testing.assert_allclose(after.scores, anew.scores, atol=1e-5)
    few = from_profiles([[(0, 3.0)], [(0, 2.0), (1, 2.0)]], 3, STARS)
    with pytest.raises(DataError, match="min_ratings"):
        defense.exact(defense.prepare(few), few.profile(0))
    with pytest.raises(DataError, match="purchases"):
        defense.prepare(from_profiles([[(0, 1.0)]], 3, Scale(1, 1, 1)))


@pytest.mark.cases("defense", EVERY)
def test_a_list_needs_enough_candidates(defense: TopK) -> None:
    exact = row([3.0, -np.inf, 2.0], defense)
    with pytest.raises(ConfigError, match=r"a list of 3 items .* 2 unrated"):
        defense.release_list(exact, Streams.first(1, "x", 2))
    with pytest.raises(ConfigError, match="top_k"):
        defense.law(exact)
    whole = row([3.0, 1.0, 2.0], defense)
    shown = defense.release_list(whole, Streams.first(1, "x", 50)).items
    assert (np.sort(shown, axis=1) == [0, 1, 2]).all()


def test_peeling_refuses_an_epsilon_whatever_the_scores_are() -> None:
    # A refusal that depends on the scores tells one row from the other.
    for epsilon, refused in ((1e5, True), (100.0, False)):
        defense = corrected("peeling", epsilon=epsilon)
        for scores in (np.full(12, 3.0), np.linspace(1, 5, 12)):
            if refused:
                with pytest.raises(ConfigError, match="lower epsilon or use 'joint'"):
                    defense.law(row(scores, defense))
            else:
                defense.law(row(scores, defense))


def test_peeling_refuses_weights_beyond_double_precision() -> None:
    defense = corrected("peeling", epsilon=1e5)
    with pytest.raises(ConfigError, match=r"epsilon = 100000 .*'joint'"):
        defense.law(row(SCORES, defense))
    joint = corrected("joint", epsilon=1e5)
    assert (
        joint.release_list(row(SCORES, joint), Streams.first(1, "x", 3)).items.tolist()
        == [[2, 4, 6]] * 3
    )


@pytest.mark.cases("defense", EVERY)
def test_a_trial_is_a_function_of_its_index_alone(defense: TopK) -> None:
    exact = row(SCORES, defense)
    streams = Streams.first(5, "x", 999)
    whole = defense.release_list(exact, streams).items
    blocks = [Streams(streams.key, streams.trials[i : i + 100]) for i in range(0, 999, 100)]
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda block: defense.release_list(exact, block).items, blocks))
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    other = defense.release_list(exact, Streams.first(6, "x", 999)).items
    assert np.array_equal(other, whole) is (defense.variant == "nonprivate")
