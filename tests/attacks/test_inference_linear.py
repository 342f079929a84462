"""The linear ideal adversary against closed forms (Park & Acharya 2011, Theorems 3.3 and 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpaudit.attacks.inference import LinearIdeal
from dpaudit.core.releases import Profile, SeesItems, SeesTop, SideInformation, TopList
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import RatingReplaced, apply
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.defenses.base import ExactScores
from dpaudit.defenses.item_item.recommender import ItemItem
from dpaudit.defenses.item_item.similarities import Cosine, SlopeOne

STARS, HALVES, PURCHASES = Scale(), Scale(0.5, 5, 0.5), Scale(1, 1, 1)
TRIALS = 200_000


def random_ratings(seed: int, users: int, items: int, scale: Scale) -> Ratings:
    rng = np.random.default_rng(seed)
    profiles = []
    for _ in range(users):
        chosen = rng.permutation(items)[: int(rng.integers(3, items - 3))]
        profiles.append([(int(i), float(rng.choice(scale.values))) for i in chosen])
    return from_profiles(profiles, items, scale)


def one_row(item: int, trials: int) -> NDArray[np.int32]:
    return np.full(trials, item, np.int32)


def truth_of(profile: Profile, item: int, candidates: NDArray[np.float32]) -> int:
    value = profile.values[profile.items == item]
    return int(np.flatnonzero(candidates == value[0])[0]) if len(value) else 0


# Without noise.


@pytest.mark.cases("scale", [STARS, HALVES])
@pytest.mark.cases("form", ["cut", "shrunk"])
@pytest.mark.cases("reader", ["round", "round-clip", "bayes"])
def test_without_noise_every_rating_is_recovered(scale: Scale, form: Any, reader: Any) -> None:
    ratings = random_ratings(1, 12, 14, scale)
    part = SlopeOne(
        epsilon=1, variant="nonprivate", similarity=form, min_ratings=1, min_co_ratings=2
    )
    model = part.prepare(ratings)
    recovered = 0
    for user in range(ratings.n_users):
        profile = ratings.profile(user)
        exact = part.exact(model, profile)
        free = exact.candidates
        for item in profile.items:
            truth = truth_of(profile, int(item), scale.values)
            side = part.side_information(model, profile, one_row(int(item), len(free)))
            streams = Streams.first(0, "x", len(free))
            shown = part.release(exact, streams, SeesItems(free[:, None]))
            attack = LinearIdeal(reader=reader)
            assert (attack.infer(shown, side, part.noise_scale(scale)) == truth).all()
            for combine in ("median", "mean"):
                whole = replace(attack, observe="list", combine=combine)
                top = part.release(exact, streams, SeesTop(min(3, len(free))))
                assert (whole.infer(top, side, 0.0) == truth).all()
            recovered += 1
    assert recovered == len(ratings)


def test_without_noise_clipped_terms_leave_only_equal_candidates() -> None:
    ratings = random_ratings(2, 12, 10, STARS)
    part = SlopeOne(
        epsilon=1, variant="nonprivate", similarity="damped", min_ratings=1, min_co_ratings=1
    )
    model = part.prepare(ratings)
    exactly, confused = 0, 0
    for user in range(ratings.n_users):
        profile = ratings.profile(user)
        exact = part.exact(model, profile)
        free = exact.candidates
        for item in profile.items:
            truth = truth_of(profile, int(item), STARS.values)
            side = part.side_information(model, profile, one_row(int(item), len(free)))
            shown = part.release(exact, Streams.first(0, "x", len(free)), SeesItems(free[:, None]))
            guess = LinearIdeal().infer(shown, side, 0.0)
            terms = side.terms[0, free]
            same = abs(terms[np.arange(len(free)), guess] - terms[:, truth]) < 1e-4
            assert same.all()
            unique = (abs(terms - terms[:, [truth]]) < 1e-4).sum(1) == 1
            assert (guess[unique] == truth).all()
            exactly += int(unique.sum())
            confused += int((~unique).sum())
    assert exactly > 100
    assert confused > 0


@pytest.mark.parametrize("form", ["plain", "damped"])
def test_without_noise_every_purchase_with_a_similarity_is_recovered(form: Any) -> None:
    ratings = random_ratings(3, 12, 12, PURCHASES)
    part = Cosine(epsilon=1, variant="nonprivate", similarity=form, min_ratings=1)
    model = part.prepare(ratings)
    checked = [0, 0]
    for user in range(ratings.n_users):
        profile = ratings.profile(user)
        exact = part.exact(model, profile)
        for item in range(12):
            bought = int(item in profile.items)
            free = np.setdiff1d(exact.candidates, [item]).astype(np.int32)
            side = part.side_information(model, profile, one_row(item, len(free)))
            streams = Streams.first(0, "x", len(free))
            shown = part.release(exact, streams, SeesItems(free[:, None]))
            similar = model.row(item)[free] > 0
            for reader in ("round", "round-clip", "bayes"):
                guess = LinearIdeal(reader=reader).infer(shown, side, 0.0)
                assert (guess[similar] == bought).all()
            checked[bought] += int(similar.sum())
    assert min(checked) > 50


# What the adversary knows.


def arrays(side: SideInformation) -> list[NDArray[Any]]:
    return [side.known, side.terms, side.shown, side.place, side.candidates]


@pytest.mark.cases("form", ["cut", "shrunk", "damped"])
def test_side_information_does_not_depend_on_the_hidden_rating(form: Any) -> None:
    ratings = random_ratings(4, 10, 12, STARS)
    part = SlopeOne(epsilon=1, variant="corrected", similarity=form, min_ratings=1)
    model = part.prepare(ratings)
    user = 2
    profile = ratings.profile(user)
    item, other = (int(i) for i in profile.items[:2])
    hidden = one_row(item, 3)
    known = part.side_information(model, profile, hidden)
    for value in STARS.values:
        if value == profile.values[0]:
            continue
        changed = apply(ratings, RatingReplaced(user, item, float(value)))
        edited = changed.profile(user)
        for a, b in zip(
            arrays(known), arrays(part.side_information(model, edited, hidden)), strict=True
        ):
            np.testing.assert_array_equal(a, b)
        # The user's rating enters no similarity of an item that can be shown: the side information
        # about shown items is the same if built from the changed data.
        anew = part.side_information(part.prepare(changed), edited, hidden)
        shown = known.shown[0].any(1)
        assert shown.sum() == 12 - len(profile)
        np.testing.assert_allclose(anew.known[:, shown], known.known[:, shown], atol=1e-9)
        np.testing.assert_allclose(anew.terms[:, shown], known.terms[:, shown], atol=1e-9)
    # Another rating of the user does matter, so the comparison is not vacuous.
    moved = apply(ratings, RatingReplaced(user, other, 6.0 - float(profile.values[1])))
    if profile.values[1] != 3:
        again = part.side_information(model, moved.profile(user), hidden)
        assert (again.known != known.known).any()


def check_inversion(part: ItemItem, ratings: Ratings, hidden: NDArray[np.int32]) -> None:
    """Under the true value the stated distribution is the mechanism's: shown items and centres."""
    model, profile = part.prepare(ratings), ratings.profile(1)
    exact = part.exact(model, profile)
    side = part.side_information(model, profile, hidden)
    assert side.ratings == len(profile)
    for trial, item in enumerate(hidden):
        row, truth = side.place[trial], truth_of(profile, int(item), side.candidates)
        shown = side.shown[row, :, truth]
        np.testing.assert_array_equal(np.flatnonzero(shown), exact.candidates)
        whole = (side.known[row] + side.terms[row, :, truth]) / len(profile)
        np.testing.assert_allclose(whole[shown], exact.scores[shown], atol=1e-5)


def test_side_information_inverts_the_prediction() -> None:
    """Eq. (23): n f_j = known_j + term_j(r)."""
    stars, purchases = (random_ratings(5, 10, 12, scale) for scale in (STARS, PURCHASES))
    for form in ("cut", "shrunk", "damped"):
        part = SlopeOne(
            epsilon=1, variant="corrected", similarity=form, min_ratings=1, min_co_ratings=2
        )
        check_inversion(part, stars, stars.profile(1).items.copy())
    # With purchases, the hidden item may also be one not bought; it is shown then.
    every = np.arange(12, dtype=np.int32)
    check_inversion(Cosine(epsilon=1, min_ratings=1), purchases, every)
    check_inversion(Cosine(epsilon=1, variant="corrected", min_ratings=1), purchases, every)


@pytest.mark.parametrize("scale", [STARS, PURCHASES])
def test_a_hidden_item_is_shown_only_if_it_is_not_rated(scale: Scale) -> None:
    ratings = random_ratings(5, 10, 12, scale)
    part: ItemItem = SlopeOne(epsilon=1, min_ratings=1)
    if scale is PURCHASES:
        part = Cosine(epsilon=1, min_ratings=1)
    profile = ratings.profile(1)
    hidden = profile.items.copy()
    if scale is PURCHASES:  # of purchases, also one that was not made is hidden
        hidden = np.arange(12, dtype=np.int32)
    free = np.setdiff1d(np.arange(12), profile.items)
    side = part.side_information(part.prepare(ratings), profile, hidden)
    assert side.shown.shape == (len(np.unique(hidden)), 12, len(side.candidates))
    for trial, item in enumerate(hidden):
        for c, value in enumerate(side.candidates):
            # Whether the user rated it must not enter: it would reveal the answer.
            expected = np.union1d(free, [item]) if value == 0 else np.setdiff1d(free, [item])
            shown = side.shown[side.place[trial], :, c]
            np.testing.assert_array_equal(np.flatnonzero(shown), expected)


# How estimates are made and combined, by hand: n = 2, terms 1 … 5 for every item, x_j = 2 A_j.


def joined(attack: LinearIdeal, x: Sequence[float], excluded: Sequence[int] = ()) -> int:
    shown = np.ones((1, len(x), 5), bool)
    shown[0, 0, list(excluded)] = False  # of the first item
    side = SideInformation(
        ratings=2,
        known=np.zeros((1, len(x))),
        terms=np.tile(np.arange(1.0, 6.0), (1, len(x), 1)),
        shown=shown,
        place=np.zeros(1, np.int64),
        candidates=np.arange(1, 6, dtype=np.float32),
        frequency=np.full(5, 0.2),
    )
    values = np.array([x], np.float32) / np.float32(2)
    release = TopList(np.arange(len(x), dtype=np.int32)[None], values)
    return int(attack.infer(release, side, 1.0)[0])


@pytest.mark.cases(
    ("reader", "combine", "x", "expected"),
    [
        ("round-clip", "median", [3.4], 2),
        ("round-clip", "median", [3.6], 3),
        ("round-clip", "median", [99.0], 4),
        ("round-clip", "median", [-99.0], 0),
        ("round", "median", [5.4], 4),
        ("round", "median", [5.6], -1),
        ("round", "median", [0.6], 0),
        ("round", "median", [0.4], -1),
        ("round-clip", "median", [9.0, 2.0, 1.0], 1),
        ("round-clip", "median", [9.0, 9.0, 1.0], 4),
        ("round-clip", "median", [5.0, 4.0, 2.0, 1.0], 1),  # the lower of the two in the middle
        ("round", "median", [9.0, 8.0, -9.0, 2.0, 3.0], 2),  # off the scale on either side
        ("round", "median", [9.0, 8.0, 7.0, 2.0, 3.0], -1),
        ("round", "median", [-9.0, -8.0, 3.0], -1),
        ("round-clip", "mean", [9.0, 2.0, 1.0], 3),
        ("round-clip", "mean", [9.0, 9.0, 9.0], 4),
        ("round", "mean", [9.0, 9.0, 9.0], -1),
        ("round", "mean", [9.0, 2.0, 1.0], 3),
    ],
)
def test_readings_are_joined_as_stated(
    reader: Any, combine: Any, x: list[float], expected: int
) -> None:
    attack = LinearIdeal(reader=reader, observe="list", combine=combine)
    assert joined(attack, x) == expected
    # Values that a listed item excludes are not guessed; other guesses are unchanged.
    for excluded in range(5):
        guess = joined(attack, x, [excluded])
        assert guess != excluded
        assert expected in {guess, excluded}
    only = joined(attack, x, [0, 1, 2, 4])
    assert only == (-1 if expected == -1 else 3)


# Accuracy against the closed forms.


def instance(n: int, scale: Scale) -> Ratings:
    """User 0 rates n items, each value of the scale in turns; others co-rate item n with them."""
    values = scale.values
    profiles = [[(k, float(values[k % len(values)])) for k in range(n)]]
    for user in range(4):
        row = [(k, float(values[(k + user) % len(values)])) for k in range(n)]
        profiles.append([*row, (n, float(values[user]))])
    return from_profiles(profiles, n + 1, scale)


def hits(part: ItemItem, ratings: Ratings, item: int, *attacks: LinearIdeal) -> list[int]:
    """Counts of correct inferences of user 0's rating of `item` from the last item's prediction."""
    trials = TRIALS
    model, profile = part.prepare(ratings), ratings.profile(0)
    exact = part.exact(model, profile)
    side = part.side_information(model, profile, one_row(item, trials))
    seen = SeesItems(np.full((trials, 1), ratings.n_items - 1, np.int32))
    release = part.release(exact, Streams.first(5, f"risk {part}", trials), seen)
    truth = (
        int(item in profile.items)
        if ratings.scale.width == 0
        else truth_of(profile, item, side.candidates)
    )
    b = part.noise_scale(ratings.scale)
    return [int((attack.infer(release, side, b) == truth).sum()) for attack in attacks]


def plausible(count: int, n: int, p: float, rate: float) -> bool:
    """Whether a binomial count lies between its quantiles at `rate / 2` on either side."""
    low, high = stats.binom.ppf(rate / 2, n, p), stats.binom.isf(rate / 2, n, p)
    return bool(low <= count <= high)


def check(counts: Sequence[tuple[int, float]], n: int = TRIALS) -> None:
    """Check that counts agree with their probabilities; an error of 2 percentage points fails.

    False-failure rate 1e-6 over all of them (Bonferroni, binomial quantiles), were values not
    rounded; the grid, b/512 at most, moves a probability by 1/2048 at most for each threshold, less
    than half a standard error of these shares where they are near ½.
    """
    rate = 1e-6 / len(counts)
    for count, p in counts:
        assert plausible(count, n, p, rate), (count / n, p)
        for wrong in (p - 0.02, p + 0.02):
            if 0 < wrong < 1:
                assert not plausible(count, n, wrong, rate), (count / n, wrong)


EPSILONS = (0.3, 1, 3, 6, 10, 20, 30, 60, 100, 300)


@pytest.mark.parametrize(
    ("n", "scale", "delta_r", "phi"),
    [(20, STARS, 5.0, 10), (7, STARS, None, 3), (40, HALVES, None, 10)],
)
@pytest.mark.long
def test_slope_one_accuracy(n: int, scale: Scale, delta_r: float | None, phi: int) -> None:
    # 10 values of ε, the least, a middle and the largest rating, both readers: 60 comparisons.
    ratings = instance(n, scale)
    middle = len(scale.values) // 2
    counts = []
    for epsilon in EPSILONS:
        part = SlopeOne(epsilon=epsilon, min_ratings=n, min_co_ratings=phi, delta_r=delta_r)
        width = delta_r or scale.width
        b = n * max(width / n * (1 + 2 / phi), width / phi) / epsilon  # eq. (11), n = T
        assert n * part.noise_scale(scale) == pytest.approx(b)
        q = np.exp(-scale.step / (2 * b))
        for item, end in ((0, True), (middle, False), (len(scale.values) - 1, True)):
            free, clip = hits(part, ratings, item, LinearIdeal(reader="round"), LinearIdeal())
            counts += [(free, 1 - q), (clip, 1 - q / 2 if end else 1 - q)]
    assert any(p < 0.05 for _, p in counts)
    assert any(p > 0.95 for _, p in counts)
    check(counts)


@pytest.mark.long
@pytest.mark.parametrize(("variant", "n"), [("published", 6), ("published", 15), ("corrected", 6)])
def test_cosine_accuracy(variant: Any, n: int) -> None:
    """The accuracy is `1 − ½ exp(−s/(2b))`, b = nΔf/ε, whether bought or not."""
    # User 0 holds items 0 … n−1; another user shares items 0, 1 and holds n (not bought) and n + 1,
    # the predicted item.
    mine = [(k, 1.0) for k in range(n)]
    others = [[(0, 1.0), (1, 1.0), (n, 1.0), (n + 1, 1.0)], [(0, 1.0), (n + 1, 1.0)], mine[2:]]
    ratings = from_profiles([mine, *others], n + 2, PURCHASES)
    counts = []
    for epsilon in EPSILONS if variant == "published" else [e for e in EPSILONS if e <= 150]:
        part = Cosine(epsilon=epsilon, variant=variant, min_ratings=n, damping=2)
        b = n * part.sensitivity(PURCHASES) / epsilon
        model = part.prepare(ratings)
        for item in (0, 1, n):
            s = model.row(item)[n + 1]
            assert s > 0.1
            p = 1 - 0.5 * np.exp(-s / (2 * b))
            counts.append((hits(part, ratings, item, LinearIdeal())[0], p))
    assert any(p < 0.55 for _, p in counts)
    assert any(p > 0.95 for _, p in counts)
    check(counts)


def test_cosine_without_similarity_carries_nothing() -> None:
    n = 6
    mine = [(k, 1.0) for k in range(n)]
    ratings = from_profiles([mine, [(0, 1.0), (n, 1.0)], mine], n + 1, PURCHASES)
    part = Cosine(epsilon=100, min_ratings=n)
    assert part.prepare(ratings).row(3)[n] == 0
    check([(hits(part, ratings, 3, LinearIdeal())[0], 0.5)])


# The Bayes reader.


def both_guesses(
    epsilon: float, readers: tuple[LinearIdeal, LinearIdeal]
) -> tuple[NDArray[np.int64], NDArray[np.int64], SideInformation]:
    ratings = instance(8, STARS)
    part = SlopeOne(epsilon=epsilon, min_ratings=8)
    model, profile = part.prepare(ratings), ratings.profile(0)
    side = part.side_information(model, profile, np.arange(20_000, dtype=np.int32) % 5)
    seen = SeesItems(np.full((20_000, 1), 8, np.int32))
    release = part.release(part.exact(model, profile), Streams.first(2, "b", 20_000), seen)
    first, second = (reader.infer(release, side, part.noise_scale(STARS)) for reader in readers)
    return first, second, side


@pytest.mark.cases("epsilon", [0.01, 1, 10, 100])
def test_bayes_with_one_prediction_and_uniform_prior_is_round_clip(epsilon: float) -> None:
    bayes, clip, _ = both_guesses(epsilon, (LinearIdeal(reader="bayes"), LinearIdeal()))
    np.testing.assert_array_equal(bayes, clip)
    assert len(np.unique(bayes)) > 1


def test_population_prior_tends_to_the_most_frequent_rating() -> None:
    population = LinearIdeal(reader="bayes", prior="population")
    guess, clip, side = both_guesses(1e-4, (population, LinearIdeal()))
    # The user's 8 ratings 1 2 3 4 5 1 2 3, then four users' 1 … 5 in turns and ratings of item 8.
    counts = np.zeros(5)
    table = instance(8, STARS)
    for value in table.value:
        counts[int(value) - 1] += 1
    np.testing.assert_allclose(side.frequency, counts / counts.sum())
    assert (guess == counts.argmax()).all()
    # Hidden ratings are 1 … 5 in equal parts here, so this reader has accuracy 1/5. The clipped one
    # always guesses the ends: half its answers are 1, half 5 (normal quantile, rate 1e-6).
    assert np.isin(clip, [0, 4]).mean() > 0.999
    assert abs((clip == 0).mean() - 0.5) < 4.9 * 0.5 / np.sqrt(len(clip))
    # With little noise the prior does not matter.
    sure, near, _ = both_guesses(1e4, (population, LinearIdeal()))
    np.testing.assert_array_equal(sure, near)


def many_lists(
    family: str, epsilon: float, trials: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], dict[str, NDArray[np.int64]]]:
    """Lists of a user whose hidden rating is drawn from the uniform prior.

    The other ratings and the published count n are the same whatever it is: that is the adversary's
    model. Returns the posterior probabilities by a naive density, the true indices, the guesses.
    """
    hidden, scale = 4, STARS if family == "slope-one" else PURCHASES
    if family == "slope-one":
        part: ItemItem = SlopeOne(
            epsilon=epsilon,
            variant="corrected",
            min_ratings=3,
            min_co_ratings=2,
            top_k=3,
            outputs=9,
        )
        values = [4, 2, 5, 3]
    else:
        part = Cosine(epsilon=epsilon, variant="corrected", min_ratings=3, damping=1, outputs=9)
        values = [1, 1, 1, 1]
    model = part.prepare(random_ratings(8, 12, 12, scale))
    profile = Profile(np.array([1, 4, 6, 9], np.int32), np.array(values, np.float32))
    b = part.noise_scale(scale)
    readers = {
        "bayes": LinearIdeal(reader="bayes", observe="list"),
        "median": LinearIdeal(observe="list"),
        "mean": LinearIdeal(observe="list", combine="mean"),
    }
    candidates = part.candidates(scale)
    per_candidate = trials // len(candidates)
    truth = np.repeat(np.arange(len(candidates)), per_candidate)
    posterior, guesses = [], {name: [np.empty(0, np.int64)] for name in readers}
    side = part.side_information(model, profile, one_row(hidden, per_candidate))
    # The naive law, from the model alone: f_j = (Σ_k others + term of the hidden) / n.
    similar = np.stack([model.row(item) for item in range(12)], axis=1)
    others = np.setdiff1d(profile.items, [hidden])
    for index, value in enumerate(candidates):
        terms = np.zeros((12, len(candidates)))
        for c, v in enumerate(candidates):
            for item, r in zip(profile.items, values, strict=True):
                if item != hidden:
                    terms[:, c] += naive_term(family, r, similar[:, item])
            terms[:, c] += naive_term(family, float(v), similar[:, hidden])
        centre = terms / 4
        possible = np.ones((12, len(candidates)), bool)
        possible[others] = False
        possible[hidden] = candidates == 0
        actual = ExactScores(
            np.where(possible[:, index], centre[:, index], -np.inf).astype(np.float32),
            part.sensitivity(scale),
        )
        if value > 0:  # rated: this is the mechanism's own distribution
            mine = np.where(profile.items == hidden, value, profile.values)
            whole = part.exact(model, Profile(profile.items, mine.astype(np.float32)))
            np.testing.assert_allclose(actual.scores, whole.scores, rtol=1e-5)
        release = part.release(
            actual, Streams.first(4, f"list {family} {index}", per_candidate), SeesTop(3)
        )
        log = np.zeros((per_candidate, len(candidates)))
        for item in range(12):
            place = release.items == item
            listed = place.any(1)
            at = np.where(listed, (release.values * place).sum(1), release.values[:, -1])
            at = at[:, None].astype(np.float64)
            log += np.where(
                listed[:, None],
                np.where(possible[item], stats.laplace.logpdf(at, centre[item], b), -np.inf),
                np.where(possible[item], stats.laplace.logcdf(at, centre[item], b), 0.0),
            )
        weight = np.exp(log - log.max(1, keepdims=True))
        posterior.append(weight / weight.sum(1, keepdims=True))
        for name, reader in readers.items():
            guesses[name].append(reader.infer(release, side, b))
    joined = {name: np.concatenate(parts) for name, parts in guesses.items()}
    return np.concatenate(posterior), truth, joined


def naive_term(family: str, value: float, similarity: NDArray[np.float64]) -> NDArray[np.float64]:
    """`clip(r + s)` of damped Slope One, `p · s` of cosine."""
    if family == "cosine":
        return value * similarity
    return np.minimum(np.maximum(value + similarity, 1), 5)


@pytest.mark.parametrize(
    ("family", "epsilons"), [("slope-one", (3.0, 30.0, 150.0)), ("cosine", (3.0, 12.0, 40.0))]
)
@pytest.mark.long
def test_bayes_on_lists_is_calibrated_and_at_least_as_accurate(
    family: str, epsilons: tuple[float, ...]
) -> None:
    better = 0
    for epsilon in epsilons:
        posterior, truth, guesses = many_lists(family, epsilon, 75_000)
        hit = guesses["bayes"] == truth
        # The largest posterior of the naive density, up to ties of 1e-9.
        chosen = posterior[np.arange(len(truth)), guesses["bayes"]]
        np.testing.assert_allclose(chosen, posterior.max(1), rtol=1e-6)
        # Calibration: hit − posterior has mean 0 given the list. Rate 1e-6 over 2 families and 3
        # values of ε, two-sided normal quantile for a mean of 75 000 terms in [−1, 1].
        z = stats.norm.isf(1e-6 / 6 / 2)
        gap = hit - chosen
        limit = z * gap.std() / np.sqrt(len(gap))
        assert abs(gap.mean()) < limit
        assert abs(gap.mean() + 0.02) > limit
        assert abs(gap.mean() - 0.02) > limit
        for name in ("median", "mean"):
            # The Bayes reader is optimal: one-sided, same rate, paired on the same lists.
            more = hit.astype(float) - (guesses[name] == truth)
            spread = z * more.std() / np.sqrt(len(more))
            assert more.mean() >= -spread
            better += int(more.mean() > spread)
    assert better >= 2  # and it is strictly better somewhere, so the comparison has power


READERS = [
    LinearIdeal(reader="round", observe="list"),
    LinearIdeal(reader="round", observe="list", combine="mean"),
    LinearIdeal(observe="list"),
    LinearIdeal(observe="list", combine="mean"),
    LinearIdeal(reader="bayes", observe="list"),
    LinearIdeal(reader="bayes", observe="list", prior="population"),
]


@pytest.mark.cases("reader", READERS, ids=str)
@pytest.mark.cases("epsilon", [1.0, 30.0])
def test_an_item_on_the_list_was_not_bought(reader: LinearIdeal, epsilon: float) -> None:
    rng = np.random.default_rng(0)
    ratings = from_profiles(
        [[(int(i), 1.0) for i in rng.permutation(40)[:12]] for _ in range(20)], 40, PURCHASES
    )
    part = Cosine(epsilon=epsilon, min_ratings=5, top_k=10)
    model, profile = part.prepare(ratings), ratings.profile(0)
    exact = part.exact(model, profile)
    hidden = rng.choice(exact.candidates, 2000).astype(np.int32)
    side = part.side_information(model, profile, hidden)
    release = part.release(exact, Streams.first(0, "x", 2000), SeesTop(10))
    for noise_scale in (part.noise_scale(PURCHASES), 0.0):
        guess = reader.infer(release, side, noise_scale)
        listed = (release.items == hidden[:, None]).any(1)
        assert listed.mean() > 0.1
        assert not (guess[listed] == 1).any()
        if reader.reader != "round":
            assert (guess[listed] == 0).all()
    # An attack that ignores the hidden item's place would guess "bought" even if it is listed.
    if epsilon == 1 and reader.reader != "round":
        blind = replace(side, shown=np.ones_like(side.shown))
        assert (reader.infer(release, blind, part.noise_scale(PURCHASES))[listed] == 1).any()
