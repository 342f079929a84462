"""The games: what is drawn in a trial, and what does not change the outcome."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from executors import on_threads  # type: ignore[import-not-found]
from numpy.typing import NDArray
from scipy import stats

from dpaudit.attacks.distinguishing import ItemPlace, LikelihoodRatio
from dpaudit.attacks.inference import LinearIdeal
from dpaudit.audits.on_demand.games import entry_game, prediction_game, shifts
from dpaudit.audits.on_demand.measures import (
    BLOCK,
    _shown_items,
    choose,
    draw_trials,
    hidden_items,
    run_held_out,
    run_overlap,
    run_risk,
)
from dpaudit.audits.on_demand.search import search_pair
from dpaudit.audits.on_demand.subject import OnDemandModel
from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.config.model import Model
from dpaudit.core.errors import DataError
from dpaudit.core.releases import Profile, SeesItems, SeesTop
from dpaudit.core.streams import Streams, stream_key
from dpaudit.data.neighbors import RatingAdded, RatingReplaced, apply
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.defenses.item_item.recommender import ItemItem
from dpaudit.defenses.item_item.similarities import Cosine, Similarity, SlopeOne
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.kernels import noise

STARS, PURCHASES = Scale(), Scale(1, 1, 1)
TRIALS = 300_000


def random_ratings(seed: int, users: int, items: int, scale: Scale) -> Ratings:
    rng = np.random.default_rng(seed)
    profiles = []
    for _ in range(users):
        chosen = rng.permutation(items)[: int(rng.integers(5, items - 8))]
        profiles.append([(int(i), float(rng.choice(scale.values))) for i in chosen])
    return from_profiles(profiles, items, scale)


def uniform_over(counts: NDArray[np.int64], rate: float) -> bool:
    """Whether each cell's count lies between its binomial quantiles, `rate` over all cells."""
    n, cells = int(counts.sum()), len(counts)
    low, high = (
        stats.binom.ppf(rate / cells / 2, n, 1 / cells),
        stats.binom.isf(rate / cells / 2, n, 1 / cells),
    )
    return bool(((counts >= low) & (counts <= high)).all())


def shifted(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The counts with 2 percentage points of the whole moved from the last cell to the first."""
    moved = counts.copy()
    step = int(0.02 * counts.sum())
    moved[0] += step
    moved[-1] -= step
    return moved


# What is drawn.


@pytest.mark.long
def test_plan_draws_users_and_the_rest_uniformly() -> None:
    # Rate 1e-6 over 5 tables.
    drawn = draw_trials(3, "x", TRIALS, 7)
    assert drawn.draws.shape == (TRIALS, 3)
    assert ((drawn.draws >= 0) & (drawn.draws < 1)).all()
    tables = [np.bincount(drawn.user, minlength=7)]
    tables += [np.bincount(choose(drawn.draws[:, i], 10), minlength=10) for i in range(3)]
    # Independent: user, first and second draw together.
    joint = (drawn.user * 3 + choose(drawn.draws[:, 0], 3)) * 2 + choose(drawn.draws[:, 1], 2)
    tables.append(np.bincount(joint, minlength=42))
    for table in tables:
        assert uniform_over(table, 1e-6 / 5)
        assert not uniform_over(shifted(table), 1e-6 / 5)


@pytest.mark.long
def test_plan_joins_two_draws_of_23_bits() -> None:
    # Rate 1e-6 over 6 tables.
    drawn = draw_trials(3, "x", TRIALS, 2**40)
    words = np.empty((TRIALS, 8), np.float32)
    noise.uniform(words, np.arange(TRIALS), 0, stream_key(3, "x/trials"))
    whole = (words.astype(np.float64) * 2**23).astype(np.int64)
    number = whole[:, ::2] * 2**23 + whole[:, 1::2]
    expected = (number + 0.5) / 2**46  # 47 bits: exact
    np.testing.assert_array_equal(drawn.draws, expected[:, 1:])
    np.testing.assert_array_equal(drawn.user, number[:, 0] >> 6)
    assert 2.0**-47 <= expected.min() < expected.max() <= 1 - 2.0**-47
    # The lower half is as uniform as the upper, so a choice among 2^40 things is too.
    for column in range(3):
        for part in (number[:, column] >> 23, number[:, column] & (2**23 - 1)):
            table = np.bincount(choose(part / 2**23, 16), minlength=16)
            assert uniform_over(table, 1e-6 / 6)
            assert not uniform_over(shifted(table), 1e-6 / 6)


def test_a_trial_is_the_same_whatever_their_number() -> None:
    short, long = draw_trials(3, "x", 1000, 7), draw_trials(3, "x", 5000, 7)
    np.testing.assert_array_equal(short.user, long.user[:1000])
    np.testing.assert_array_equal(short.draws, long.draws[:1000])
    np.testing.assert_array_equal(short.key, long.key)
    assert (draw_trials(4, "x", 1000, 7).draws != short.draws).mean() > 0.99
    assert (draw_trials(3, "y", 1000, 7).draws != short.draws).mean() > 0.99
    assert (draw_trials(3, "y", 1000, 7).key != short.key).any()


def test_blocks_hold_every_trial_once_with_its_user() -> None:
    drawn = draw_trials(1, "x", 5000, 3)
    seen = []
    for user, streams in drawn.blocks():
        assert 0 < len(streams) <= BLOCK
        assert (drawn.user[streams.trials] == user).all()
        np.testing.assert_array_equal(streams.key, drawn.key)
        seen.append(streams.trials)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(5000))


def test_users_need_enough_ratings_and_enough_other_items() -> None:
    profiles = [Profile(np.arange(k, dtype=np.int32), np.ones(k, np.float32)) for k in (2, 3, 5, 6)]
    params = {"min_ratings": 3, "top_k": 4}
    model = Model.model_validate({"defense": "slope-one", "epsilon": 1, "params": params})
    served = OnDemandModel(model, from_profiles([[(0, 1.0)]], 10), profiles)
    assert [len(user) for user in served.users()] == [3, 5]


MINE = np.array([1, 4, 5, 8, 11], np.int32)
PROFILE = Profile(MINE, np.array([1, 5, 3, 2, 4], np.float32))


@pytest.mark.long
def test_hidden_ratings_are_uniform() -> None:
    drawn = draw_trials(5, "x", TRIALS, 1).draws
    hidden = hidden_items(PROFILE, 14, False, drawn)
    assert np.isin(hidden, MINE).all()
    table = np.bincount(np.searchsorted(MINE, hidden), minlength=5)
    assert uniform_over(table, 1e-6)
    assert not uniform_over(shifted(table), 1e-6)


@pytest.mark.long
def test_hidden_purchases_are_half_bought_and_uniform_in_each_kind() -> None:
    # Rate 1e-6 over 3 tables.
    hidden = hidden_items(PROFILE, 14, True, draw_trials(6, "x", TRIALS, 1).draws)
    missing = np.setdiff1d(np.arange(14), MINE)
    bought = np.isin(hidden, MINE)
    tables = [
        np.array([bought.sum(), (~bought).sum()]),
        np.bincount(np.searchsorted(MINE, hidden[bought]), minlength=5),
        np.bincount(np.searchsorted(missing, hidden[~bought]), minlength=9),
    ]
    for table in tables:
        assert uniform_over(table, 1e-6 / 3)
        assert not uniform_over(shifted(table), 1e-6 / 3)


@pytest.mark.long
@pytest.mark.parametrize("item", [0, 7, 13, 4])
def test_shown_items_are_uniform_and_never_the_hidden_one(item: int) -> None:
    # Items 0, 7 and 13 are candidates themselves (first, middle, last); 4 is not. Rate 1e-6 in all.
    candidates = np.setdiff1d(np.arange(14), MINE).astype(np.int32)
    hidden = np.full(TRIALS, item, np.int32)
    shown = _shown_items(candidates, hidden, draw_trials(7, "x", TRIALS, 1).draws[:, 2])
    assert shown.shape == (TRIALS, 1)
    rest = np.setdiff1d(candidates, [item])
    assert np.isin(shown, rest).all()
    table = np.bincount(np.searchsorted(rest, shown[:, 0]), minlength=len(rest))
    assert uniform_over(table, 1e-6 / 4)
    assert not uniform_over(shifted(table), 1e-6 / 4)


# The outcome.


def setup(family: str) -> tuple[list[ItemItem], Any, list[Profile]]:
    scale = STARS if family == "slope-one" else PURCHASES
    ratings = random_ratings(2, 14, 24, scale)
    defenses: list[ItemItem] = [
        SlopeOne(epsilon=e, min_ratings=4, min_co_ratings=2, top_k=5)
        if family == "slope-one"
        else Cosine(epsilon=e, min_ratings=4, top_k=5)
        for e in (1.0, 30.0, 1000.0)
    ]
    profiles = [ratings.profile(user) for user in range(14)]
    return defenses, defenses[0].prepare(ratings), profiles


@pytest.mark.cases("family", ["slope-one", "cosine"])
@pytest.mark.cases("observe", ["one", "list"])
def test_risk_does_not_depend_on_threads_trials_or_the_other_defenses(
    family: str, observe: Any
) -> None:
    defenses, model, profiles = setup(family)
    attack = LinearIdeal(observe=observe)

    def run(trials: int, threads: int, parts: list[ItemItem]) -> NDArray[np.bool_]:
        return run_risk(
            parts, model, profiles, attack, trials=trials, seed=9, executor=on_threads(threads)
        )

    one = run(4000, 1, defenses)
    assert one.shape == (3, 4000)
    np.testing.assert_array_equal(one, run(4000, 2, defenses))
    np.testing.assert_array_equal(one[:, :700], run(700, 2, defenses))
    np.testing.assert_array_equal(one[1:2], run(4000, 1, defenses[1:2]))
    assert one[2].mean() > one[0].mean() + 0.1


def test_utilities_do_not_depend_on_threads_or_trials() -> None:
    defenses, model, profiles = setup("slope-one")
    for run in (run_overlap, run_held_out):
        one = run(defenses, model, profiles, trials=3000, seed=9)
        np.testing.assert_array_equal(
            one, run(defenses, model, profiles, trials=3000, seed=9, executor=on_threads(2))
        )
        np.testing.assert_array_equal(
            one[:, :500], run(defenses, model, profiles, trials=500, seed=9, executor=on_threads(2))
        )
        assert ((one >= 0) & (one <= 1)).all()


@pytest.mark.long
def test_plan_draws_users_in_proportion_to_their_weights() -> None:
    # Rate 1e-6 over 2 tables. Equal weights draw as none do.
    weights = np.array([3, 1, 5, 2])
    drawn = draw_trials(3, "x", TRIALS, 4, weights)
    table = np.bincount(drawn.user, minlength=4)
    low = stats.binom.ppf(1e-6 / 16, TRIALS, weights / 11)
    high = stats.binom.isf(1e-6 / 16, TRIALS, weights / 11)
    assert ((low <= table) & (table <= high)).all()
    # The further draws are uniform given the user.
    assert uniform_over(np.bincount(choose(drawn.draws[drawn.user == 1, 0], 5)), 1e-6 / 2)
    flat = draw_trials(3, "x", 5000, 4, np.full(4, 1))
    np.testing.assert_array_equal(flat.user, draw_trials(3, "x", 5000, 4).user)


@pytest.mark.long
@pytest.mark.parametrize("draw", ["users", "ratings"])
def test_risk_is_the_mean_of_the_closed_form(draw: Any) -> None:
    """Slope One, one prediction: a trial has its user's n and its rating's place on the scale."""
    defenses, model, profiles = setup("slope-one")
    # Users with few and many ratings, or the two means would be the same.
    profiles = [
        Profile(p.items[: 4 if i % 2 else None], p.values[: 4 if i % 2 else None])
        for i, p in enumerate(profiles)
    ]
    weights = [len(p) if draw == "ratings" else 1 for p in profiles]
    rows = run_risk(defenses, model, profiles, LinearIdeal(), trials=TRIALS // 3, seed=1, draw=draw)
    rate = 1e-6 / len(defenses)
    for part, row in zip(defenses, rows, strict=True):
        p = []
        for profile in profiles:
            b = len(profile) * part.noise_scale(STARS)
            q = np.exp(-1 / (2 * b))
            ends = np.isin(profile.values, [1, 5])
            p.append(np.where(ends, 1 - q / 2, 1 - q).mean())
        # Trials are independent with mean p, so the count is binomial in p: quantiles, rate 1e-6.
        for shift in (0.0, -0.02, 0.02):
            mean = float(np.average(p, weights=weights)) + shift
            if not 0 < mean < 1:
                continue
            low = stats.binom.ppf(rate / 2, len(row), mean)
            high = stats.binom.isf(rate / 2, len(row), mean)
            assert bool(low <= row.sum() <= high) is (shift == 0)


def test_overlap_without_noise_is_one_and_falls_to_chance() -> None:
    ratings = random_ratings(2, 14, 24, STARS)
    parts: list[ItemItem] = [
        SlopeOne(epsilon=1, variant="nonprivate", min_ratings=4, min_co_ratings=2, top_k=5),
        SlopeOne(epsilon=1e-5, min_ratings=4, min_co_ratings=2, top_k=5),
    ]
    profiles = [ratings.profile(user) for user in range(14)]
    model = parts[0].prepare(ratings)
    kept = [run_overlap([part], model, profiles, trials=20_000, seed=1)[0] for part in parts]
    assert (kept[0] == 1).all()
    # Pure noise keeps a share k/m of the list, with m unrated items, averaged over uniform users.
    # Normal quantile of a mean of 20 000 shares, rate 1e-6.
    chance = np.mean([5 / (24 - len(profile)) for profile in profiles])
    limit = stats.norm.isf(5e-7) * kept[1].std() / np.sqrt(20_000)
    assert abs(kept[1].mean() - chance) < limit
    assert limit < 0.02


def test_held_out_error_is_that_of_the_prediction_from_the_rest() -> None:
    ratings = random_ratings(2, 14, 24, STARS)
    part = SlopeOne(epsilon=np.inf, variant="nonprivate", min_ratings=4, min_co_ratings=2, top_k=5)
    model = part.prepare(ratings)
    profile = ratings.profile(0)
    errors = run_held_out([part], model, [profile], trials=4000, seed=1)[0]
    expected = {}
    for item, value in zip(profile.items, profile.values, strict=True):
        shown = np.clip(part.exact_held_out(model, profile, int(item)), 1, 5)
        expected[int(item)] = float(abs(shown - value) / 4)
    values = np.array(sorted(expected.values()))
    nearest = values[abs(errors[:, None] - values).argmin(1)]
    np.testing.assert_allclose(errors, nearest, atol=1e-5)
    # Uniform over the user's ratings: the mean of 4000, rate 1e-6.
    limit = stats.norm.isf(5e-7) * values.std() / np.sqrt(4000)
    assert abs(errors.mean() - values.mean()) < limit


# The distinguishing game.


def bound(part: ItemItem, pair: str, alpha: float, trials: int = 8000) -> float:
    case = part.pair(pair, PURCHASES if isinstance(part, Cosine) else STARS)
    game = prediction_game(part, part.prepare(case.ratings), case, LikelihoodRatio())
    scores = game.run(trials=trials, seed=11)
    estimate, _ = label_epsilon(scores.absent, scores.present, alpha=alpha)
    return estimate.lower


def test_published_noise_is_falsified_and_the_corrected_is_not() -> None:
    # Each bound errs with probability 1e-7: rate 1e-6 over the 10 bounds that must not exceed the
    # true ε.
    alpha = 1e-7
    assert bound(SlopeOne(epsilon=1), "support-threshold", alpha) > 3
    assert bound(Cosine(epsilon=1), "tight", alpha) > 3
    assert bound(SlopeOne(epsilon=1, delta_r=5), "support-threshold", alpha) > 3
    # A form, a pair, and its true ε by the closed form (φ = 10, Δr = 4): s goes from S/(m + φ) to
    # (S + 4)/(m + 1 + φ) for `damped`, over Δf = 4/11.
    cases: list[tuple[Similarity, str, float]] = [
        ("cut", "support-threshold", 1),
        ("shrunk", "opposite", 1),
        ("damped", "tight", 1),
        ("damped", "support-threshold", (44 / 21 - 40 / 20) * 11 / 4),
        ("damped", "opposite", (-36 / 21 + 40 / 20) * 11 / 4),
    ]
    outcome: list[tuple[ItemItem, str, float]] = [
        (SlopeOne(epsilon=1, variant="corrected", similarity=form), pair, true)
        for form, pair, true in cases
    ]
    # The target is in the data: 1/√((1+β)(2+β)) over Δf = 1/(1+β).
    plain = Cosine(epsilon=1, variant="corrected", similarity="plain")
    outcome.append((plain, "tight", np.sqrt(0.5)))
    outcome.append((Cosine(epsilon=1, variant="corrected"), "tight", 11 / np.sqrt(132)))
    # A replaced rating: 4/(φ+1) over the published 4/φ, and 4/φ over its own Δf.
    replaced = SlopeOne(epsilon=1, adjacency="rating-replace")
    outcome.append((replaced, "beside", 10 / 11))
    shrunk = SlopeOne(
        epsilon=1, variant="corrected", similarity="shrunk", adjacency="rating-replace"
    )
    outcome.append((shrunk, "alone", 1))
    for part, pair, true in outcome:
        lower = bound(part, pair, alpha)
        assert max(0.0, 0.8 * true - 0.3) <= lower <= true
        assert lower > 0.5 or true < 0.7


def test_a_list_is_not_covered_by_the_claim_for_so_many_predictions() -> None:
    """A top-k list depends on every noised prediction; the claim is about stated items only.

    Where all U predictions shift by ω = Δf, the largest lies below the old centre with
    probabilities ½^U and (½e^-ε)^U: the true ε of the top-1 list is U ε.
    """
    # Six unrated items, all predicted as the user's one rating, which is replaced: ω = Δf = 4.
    part = SlopeOne(
        epsilon=1, variant="corrected", adjacency="rating-replace", min_ratings=1, top_k=1
    )
    ratings = from_profiles([[(0, 1.0)], [(k, 3.0) for k in range(1, 7)]], 7, STARS)
    model = part.prepare(ratings)
    before = part.exact(model, ratings.profile(0))
    after = part.exact_after(model, RatingReplaced(0, 0, 5.0), 0)
    claim = part.claim()
    assert claim is not None
    assert "which items" in claim.public

    def certified(observer: SeesItems | SeesTop) -> float:
        scores = [
            part.release(exact, Streams.first(0, trial, 40_000), observer).values[:, 0]
            for trial, exact in (("a", before), ("b", after))
        ]
        absent, present = (values.astype(np.float64) for values in scores)
        return label_epsilon(absent, present, alpha=5e-7)[0].lower

    # Bounds at level 5e-7: rate 1e-6 for both.
    assert 3 < certified(SeesTop(1)) <= 6
    assert certified(SeesItems(np.full((40_000, 1), 3, np.int32))) <= claim.epsilon


def test_a_game_is_reproducible_and_its_trials_share_nothing() -> None:
    part = SlopeOne(epsilon=1)
    case = part.pair("support-threshold", STARS)
    game = prediction_game(part, part.prepare(case.ratings), case, LikelihoodRatio())

    def run(trials: int, seed: int) -> Any:
        return game.run(trials=trials, seed=seed)

    long, short = run(4000, 1), run(1000, 1)
    np.testing.assert_array_equal(short.absent, long.absent[:1000])
    np.testing.assert_array_equal(short.present, long.present[:1000])
    assert shifts(game.pair).sum() == pytest.approx(4)
    assert (run(4000, 2).absent != long.absent).mean() > 0.5
    # Were the noise shared, the two scores of a trial would be strongly dependent. Both are ±10 or
    # between; correlation times √n is standard normal, two-sided 1e-6.
    correlation = np.corrcoef(long.absent, long.present)[0, 1]
    assert abs(correlation) * np.sqrt(4000) < stats.norm.isf(5e-7)


def test_streams_of_two_purposes_differ() -> None:
    first, second = Streams.first(1, "game/absent", 5), Streams.first(1, "game/present", 5)
    assert (first.key != second.key).any()
    np.testing.assert_array_equal(first.trials, np.arange(5))
    assert (Streams.first(2**40 + 1, "game/absent", 5).key != first.key).any()


@pytest.mark.parametrize("family", ["slope-one", "cosine"])
def test_the_searched_pair_is_an_addition_by_another_user(family: str) -> None:
    scale = STARS if family == "slope-one" else PURCHASES
    ratings = random_ratings(2, 14, 24, scale)
    part: ItemItem = (
        SlopeOne(epsilon=1, min_ratings=4, min_co_ratings=2)
        if family == "slope-one"
        else Cosine(epsilon=1, min_ratings=4)
    )
    model = part.prepare(ratings)
    users = np.arange(14)

    def shift(pair: Any) -> float:
        before = part.exact(model, ratings.profile(pair.target)).scores[pair.items[0]]
        after = apply(pair.ratings, pair.change)
        anew = part.exact(part.prepare(after), after.profile(pair.target)).scores[pair.items[0]]
        return float(abs(anew - before))

    few, many = (search_pair(part, model, users, candidates=count, seed=4) for count in (5, 200))
    for pair in (few, many):
        assert isinstance(pair.change, RatingAdded)
        assert pair.change.user != pair.target
        assert pair.items == (pair.change.item,)
        assert pair.items[0] not in ratings.profile(pair.target).items
        assert pair.items[0] not in ratings.profile(pair.change.user).items
        assert pair.change.value in {scale.minimum, scale.maximum}
        assert "added" in pair.summary
    assert shift(many) >= shift(few) > 0
    assert shift(many) <= replace_corrected(part).sensitivity(scale) * (1 + 1e-5)


def replace_corrected(part: ItemItem) -> ItemItem:
    if isinstance(part, Cosine):
        return Cosine(epsilon=1, variant="corrected", similarity="plain", min_ratings=4)
    return SlopeOne(
        epsilon=1, variant="corrected", similarity="cut", min_ratings=4, min_co_ratings=2
    )


def test_the_searched_pair_replaces_a_rating_where_the_claim_is_about_that() -> None:
    ratings = random_ratings(2, 14, 24, STARS)
    for form in ("cut", "shrunk", "damped"):
        part = SlopeOne(
            epsilon=1,
            variant="corrected",
            similarity=form,
            adjacency="rating-replace",
            min_ratings=4,
            min_co_ratings=2,
        )
        model = part.prepare(ratings)

        def shift(pair: Any, part: SlopeOne = part) -> float:
            after = apply(pair.ratings, pair.change)
            before, anew = (
                part.exact(part.prepare(data), data.profile(pair.target)).scores[pair.items[0]]
                for data in (pair.ratings, after)
            )
            return float(abs(anew - before))

        few, many = (
            search_pair(part, model, np.arange(14), candidates=count, seed=4) for count in (5, 200)
        )
        for pair in (few, many):
            assert isinstance(pair.change, RatingReplaced)
            assert pair.change.user != pair.target
            assert pair.items == (pair.change.item,)
            assert pair.items[0] not in ratings.profile(pair.target).items
            theirs = ratings.profile(pair.change.user)
            old = theirs.values[theirs.items == pair.items[0]]
            assert len(old) == 1
            assert pair.change.value in {1.0, 5.0} - {float(old[0])}
            assert "replaced" in pair.summary
        assert shift(many) >= shift(few) > 0
        assert shift(many) > 0.1 * part.sensitivity(STARS)
        assert shift(many) <= part.sensitivity(STARS) * (1 + 1e-5)


def test_a_search_without_a_possible_candidate_is_refused() -> None:
    # Everybody has rated everything: nothing can be added, and nothing that is rated is shown.
    full = from_profiles([[(k, 5.0) for k in range(6)]] * 3, 6, STARS)
    # All users rated the same four of six items: an addition is possible, a replacement is not.
    alike = from_profiles([[(k, 5.0) for k in range(4)]] * 3, 6, STARS)
    for ratings, adjacency, possible in (
        (full, "rating-add-remove", False),
        (full, "rating-replace", False),
        (alike, "rating-add-remove", True),
        (alike, "rating-replace", False),
    ):
        part = SlopeOne(
            epsilon=1,
            adjacency=adjacency,  # type: ignore[arg-type]
            min_ratings=4,
        )
        model = part.prepare(ratings)
        if possible:
            pair = search_pair(part, model, np.arange(3), candidates=20, seed=1)
            assert pair.items[0] in {4, 5}
            continue
        with pytest.raises(DataError, match=r"game\.candidates"):
            search_pair(part, model, np.arange(3), candidates=20, seed=1)


# Lists.


def test_a_list_drawn_by_its_law_is_scored_by_the_ratio_of_the_laws() -> None:
    part = TopK(epsilon=1.0, variant="corrected", top_k=3)
    pair = part.pair("among-best", STARS)
    scores = entry_game(part, pair, LikelihoodRatio()).run(trials=3000, seed=1)
    lists = part.release_list(pair.before, Streams.first(1, "entry/absent", 3000)).items
    laws = [part.law(row).log_probability(lists) for row in (pair.before, pair.after)]
    np.testing.assert_allclose(scores.absent, laws[1] - laws[0], atol=2.0**-9)
    short = entry_game(part, pair, LikelihoodRatio()).run(trials=500, seed=1)
    np.testing.assert_array_equal(short.present, scores.present[:500])
    truth = part.pair_epsilon(pair)
    assert truth is not None
    assert abs(scores.absent).max() <= abs(scores.present).max() + truth <= 2 * truth + 0.01


def test_a_list_possible_in_one_trial_alone_is_certain() -> None:
    part = TopK(epsilon=0.1, top_k=3)
    pair = part.pair("last-ranked", STARS)
    scores = entry_game(part, pair, LikelihoodRatio()).run(trials=4000, seed=1)
    assert (scores.present == 1e300).any()
    assert np.isfinite(scores.absent).all()
    bound, _ = label_epsilon(scores.absent, scores.present, alpha=0.01, confidence=0.99, seed=1)
    assert bound.lower > 1 > part.epsilon


def test_the_overlap_of_drawn_lists_is_that_of_their_law() -> None:
    # Summed over every set of three candidates.
    ratings = random_ratings(2, 14, 20, STARS)
    parts = [
        TopK(epsilon=e, variant="corrected", min_ratings=4, min_co_ratings=2, top_k=3)
        for e in (5.0, 60.0)
    ]
    users = [ratings.profile(user) for user in range(14)]
    profiles = [profile for profile in users if len(profile) >= 9][:1]
    model = parts[0].prepare(ratings)
    trials = 20_000
    kept = run_overlap(parts, model, profiles, trials=trials, seed=3)
    again = run_overlap(parts[1:], model, profiles, trials=trials, seed=3, executor=on_threads(2))
    np.testing.assert_array_equal(kept[1:], again)
    for part, row in zip(parts, kept, strict=True):
        exact = part.exact(model, profiles[0])
        sets = np.array(list(combinations(exact.candidates.tolist(), 3)), np.int32)
        weight = np.exp(part.law(exact).log_probability(sets))
        best = exact.candidates[np.argsort(-exact.scores[exact.candidates], kind="stable")][:3]
        share = np.isin(sets, best).mean(1)
        expected = float((weight * share).sum())
        # A mean of values in [0, 1]: Hoeffding, 1e-6 over two.
        error = np.sqrt(np.log(2 / 5e-7) / (2 * trials))
        assert abs(row.mean() - expected) < error < 0.03
    assert kept[1].mean() > kept[0].mean() + 0.1


def test_a_change_that_changes_nothing_is_refused() -> None:
    defense = SlopeOne(epsilon=1.0, adjacency="rating-replace")
    pair = defense.pair(next(iter(defense.pairs())), STARS)
    assert isinstance(pair.change, RatingReplaced)
    user, item = pair.change.user, pair.change.item
    profile = pair.ratings.profile(user)
    same = float(profile.values[profile.items == item][0])
    alike = replace(pair, change=RatingReplaced(user, item, same))
    model = defense.prepare(pair.ratings)
    attack = LikelihoodRatio()
    with pytest.raises(DataError, match="already: choose another rating"):
        prediction_game(defense, model, alike, attack)
    with pytest.raises(DataError, match="already: choose another rating"):
        prediction_game(defense, model, alike, ItemPlace(), "list")
    lists = TopK(epsilon=1.0, variant="corrected")
    row = lists.pair("last-ranked", STARS)
    with pytest.raises(DataError, match=r"no entry .* differs"):
        entry_game(lists, replace(row, after=row.before), attack)
