"""Social ranking: its sets, a round against plain sums, its noise, and what is observed of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpaudit.bounds.gdp import gaussian_mu
from dpaudit.core.errors import ConfigError, DataError, DpauditError, NoModelError
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import RatingAdded, RatingRemoved, UserReplaced, apply
from dpaudit.data.ratings import Friends, Ratings, Scale
from dpaudit.defenses.social.ranking import PrivSRRanking, RankingTraining
from dpaudit.defenses.social.rows import RankingRows

PURCHASES = Scale(1, 1, 1)
N, M = 12, 9
ONE_IN_A_MILLION = 1e-6
Exact = NDArray[np.float64]


def purchases(held: NDArray[np.bool_], sensitive: NDArray[np.bool_], links: Any) -> Ratings:
    user, item = np.nonzero(held)
    left, right = np.nonzero(links)
    return Ratings.build(
        user, item, np.ones(len(user), np.float32), len(held), held.shape[1], PURCHASES,
        sensitive=sensitive[user, item], friends=Friends.build(left, right, len(held)),
    )  # fmt: skip


def drawn(seed: int = 0) -> Ratings:
    """The first user holds nothing; the second has no friends; nobody holds the last item."""
    source = np.random.default_rng(seed)
    held = source.random((N, M)) < 0.35
    held[0] = held[:, -1] = False
    held[1, 0] = True
    links = source.random((N, N)) < 0.2
    np.fill_diagonal(links, False)
    links[1] = False
    return purchases(held, source.random((N, M)) < 0.3, links)


def trial(index: int = 0, purpose: str = "test") -> Streams:
    return Streams(Streams.first(1, purpose, 1).key, np.array([index], np.int64))


def defense_of(**parameters: Any) -> PrivSRRanking:
    given = {"epsilon": 1.0, "dimensions": 3, "rounds": 4, "spread": 0.5, "learning_rate": 0.1}
    return PrivSRRanking(**{**given, **parameters})


def started(
    defense: PrivSRRanking, ratings: Ratings, index: int = 0, observed: Any = None
) -> RankingTraining:
    rows = defense.prepare(ratings)
    users = None if observed is None else np.array(observed, np.int32)
    return RankingTraining(defense, rows, trial(index), users)


def sets(ratings: Ratings, social: bool) -> list[tuple[set[int], set[int], set[int]]]:
    """P_i, F_i and N_i in the words of section 5.4."""
    held = [set(ratings.profile(i).items.tolist()) for i in range(ratings.n_users)]
    shared = [
        set(ratings.item[(ratings.user == i) & ~ratings.kept_private].tolist())
        for i in range(ratings.n_users)
    ]
    links = ratings.friends
    assert links is not None
    parts = []
    for i, mine in enumerate(held):
        friends = links.friend[links.users == i] if social else []
        offered = set().union(*(shared[f] for f in friends)) - mine
        parts.append((mine, offered, set(range(ratings.n_items)) - mine - offered))
    return parts


def triples(held: set[int], friends: set[int], others: set[int]) -> list[tuple[int, int]]:
    above = [(j, k) for j in held for k in (friends or others)]
    return above + [(j, k) for j in friends for k in others]


def weights(pairs: list[list[tuple[int, int]]], left: Exact, right: Exact) -> Exact:
    a = np.zeros((len(left), len(right)))
    for i, mine in enumerate(pairs):
        for j, k in mine:
            psi = 1 / (1 + math.exp(left[i] @ (right[j] - right[k])))
            a[i, j] += psi
            a[i, k] -= psi
    return a


@pytest.mark.parametrize("social", [True, False])
def test_sets_are_what_users_hold_and_what_friends_share(social: bool) -> None:
    ratings = drawn()
    rows = defense_of(social=social).prepare(ratings)
    expected = sets(ratings, social)
    assert any(friends for _, friends, _ in expected) is social
    kept = 0
    for i, (owned, friends, _) in enumerate(expected):
        held, near = rows.sets.of_user(i)
        places = rows.sets.places[rows.sets.held_start[i] : rows.sets.held_start[i + 1]]
        assert held.tolist() == sorted(owned)
        assert near.tolist() == sorted(owned | friends)
        np.testing.assert_array_equal(near[places], held)
        mine = ratings.item[(ratings.user == i) & ratings.kept_private]
        assert np.flatnonzero(rows.kept_by(i)).tolist() == mine.tolist()
        kept += len(mine)
    assert rows.keepers[1].sum() == kept > 3
    assert (rows.keepers.sum(0) == N).all()
    some = rows.sets.of_users(np.array([7, 3], np.int32))
    for place, i in enumerate((7, 3)):
        for one, other in zip(some.of_user(place), rows.sets.of_user(i), strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_friends_share_and_settings_are_public() -> None:
    ratings, defense = drawn(), defense_of()
    links = ratings.friends
    assert links is not None
    row = next(r for r in np.flatnonzero(~ratings.kept_private) if ratings.user[r] in links.friend)
    after = apply(ratings, RatingRemoved(int(ratings.user[row]), int(ratings.item[row])))
    user = ratings.user[row]

    def near(rows: RankingRows) -> list[list[int]]:
        return [rows.sets.of_user(i)[1].tolist() for i in range(N) if i != user]

    same, recomputed = near(defense.prepare(after, ratings)), near(defense.prepare(after))
    assert near(defense.prepare(ratings)) == same
    assert same != recomputed
    # A user who no longer holds a private item still keeps private whether they hold it.
    row = np.flatnonzero(ratings.kept_private)[0]
    user, item = int(ratings.user[row]), int(ratings.item[row])
    after = apply(ratings, RatingRemoved(user, item))
    assert defense.prepare(after, ratings).kept_by(user)[item]
    assert not defense.prepare(after).kept_by(user)[item]


def test_ratings_and_unknown_friends_are_refused() -> None:
    ratings = drawn()
    with pytest.raises(DataError, match=r"ratings on 1\.\.5"):
        defense_of().prepare(replace(ratings, scale=Scale()))
    with pytest.raises(ConfigError, match=r"data\.trust"):
        defense_of().prepare(replace(ratings, friends=None))
    assert len(defense_of(social=False).prepare(replace(ratings, friends=None)).sets.held) == len(
        ratings
    )


@pytest.mark.parametrize("social", [True, False])
def test_rounds_are_those_of_algorithm_2(social: bool) -> None:
    ratings = drawn()
    defense = defense_of(variant="nonprivate", social=social, triples="all", decay=0.05)
    training = started(defense, ratings)
    u, v = (side[:, :3].astype(np.float64) for side in (training.users, training.items))
    pairs = [triples(*mine) for mine in sets(ratings, social)]
    for _ in range(5):
        v = v + 0.1 * (weights(pairs, u, v).T @ u - 0.1 * v)
        u = u + 0.1 * (weights(pairs, u, v) @ v - 0.1 * u)
        training.run_round()
    np.testing.assert_allclose(training.users[:, :3], u, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(training.items[:, :3], v, rtol=1e-4, atol=1e-5)
    assert not training.users[:, 3:].any()
    assert abs(u).max() > 0.6


def test_drawn_triples_are_those_of_both_steps_of_a_round_and_new_in_the_next() -> None:
    ratings = drawn()
    defense = defense_of(variant="nonprivate", triples=3, learning_rate=1e-3, decay=0)
    training = started(defense, ratings)
    slopes = []
    for _ in range(2):
        u, v = training.users.copy(), training.items.copy()
        sums = training.submit().sums
        # Σ_j s_ij = 0, as each triple adds and subtracts the same amount.
        np.testing.assert_allclose(sums.sum(0), 0, atol=1e-5)
        training.learn(sums)
        moved = (training.users - u)[:, :3] / 1e-3
        np.testing.assert_allclose((training.items - v) / 1e-3, sums, atol=2e-4)
        # With small steps Σ_i u_i · (∂J/∂u_i) = Σ_j v_j · (∂J/∂v_j), only for the same triples.
        assert (moved * u[:, :3]).sum() == pytest.approx((sums * v).sum(), rel=0.05, abs=0.02)
        slopes.append(moved)
    assert abs(slopes[0] - slopes[1]).max() > 0.1


@pytest.mark.long
def test_a_full_round_is_the_mean_of_rounds_of_drawn_triples() -> None:
    ratings, trials = drawn(), 4000
    whole = started(defense_of(variant="nonprivate", triples="all", start="constant"), ratings)
    means = np.zeros((M, 16))
    squares = np.zeros((M, 16))
    defense = defense_of(variant="nonprivate", triples=1, start="constant")
    rows = defense.prepare(ratings)
    for index in range(trials):
        sums = RankingTraining(defense, rows, trial(index)).submit().sums
        means += sums / trials
        squares += sums.astype(np.float64) ** 2 / trials
    # A user's two kinds of triples have the same weight, however many there are of each.
    expected = np.zeros((M, 16))
    for i, (held, friends, others) in enumerate(sets(ratings, True)):
        for upper, lower in ((held, friends or others), (friends, others)):
            for j in upper:
                for k in lower:
                    psi = 0.5 / (len(upper) * len(lower))
                    expected[j] += psi * whole.users[i]
                    expected[k] -= psi * whole.users[i]
    error = np.sqrt(np.maximum(squares - means**2, 1e-12) / trials)
    # 9 items at 5.6 deviations fail at about 1e-6 each; 5 % more weight is detected.
    assert (abs(means - expected) < 5.6 * error + 1e-6).all()
    assert (abs(means - 1.05 * expected) > 5.6 * error).any()


# Noise.


def test_published_noise_is_that_of_the_paper() -> None:
    ratings = drawn()
    defense = defense_of(beta=0.25, epsilon=0.5, dimensions=4)
    rows = defense.prepare(ratings)
    noise = defense.noise(rows)
    kept = np.bincount(ratings.item[ratings.kept_private], minlength=M)
    # (√(2K)/ε)²/n, ε_s = (1 + β) ε and ε_n = (1 + 1/β) ε.
    np.testing.assert_allclose(noise.submitted[0], 8 / 2.5**2 / (N - kept))
    np.testing.assert_allclose(noise.submitted[1, kept > 0], 8 / 0.625**2 / kept[kept > 0])
    assert (kept == 0).any()
    expected = 8 / 2.5**2 + np.where(kept > 0, 8 / 0.625**2, 0)
    np.testing.assert_allclose(noise.summed(rows), expected)
    assert noise.shared


def pure_noise(defense: PrivSRRanking, ratings: Ratings, observed: Any, trials: int) -> Exact:
    """The sums of submissions if all factors are 0 `(W, M, d)`."""
    sums = [
        started(defense, ratings, w, observed).submit().sums[:, : defense.dimensions]
        for w in range(trials)
    ]
    return np.stack(sums).astype(np.float64)


@pytest.mark.long
@pytest.mark.usefixtures("unrounded")
@pytest.mark.parametrize("observed", [None, [1, 4, 7], list(range(N))])
def test_shares_add_up_to_laplace_noise_however_they_are_drawn(observed: Any) -> None:
    ratings = drawn()
    defense = defense_of(spread=0.0, beta=0.5, dimensions=16)
    kept = np.bincount(ratings.item[ratings.kept_private], minlength=M) > 0
    sums = pure_noise(defense, ratings, observed, 400)
    # Lap(√K/ε_n) alone, or with Lap(√K/ε_s) of the same h: Lap(√(K/ε_n² + K/ε_s²)).
    scale = np.where(kept, math.sqrt(16 / 9 + 16 / 2.25), 4 / 3)
    unit = (sums / scale[None, :, None]).ravel()
    assert len(unit) == 400 * M * 16
    assert stats.kstest(unit, "laplace").pvalue > ONE_IN_A_MILLION
    assert stats.kstest(unit / 1.1, "laplace").pvalue < ONE_IN_A_MILLION
    # The normal law of the same variance is detected, and so is one item's scale for all items.
    assert stats.kstest(unit / math.sqrt(2), "norm").pvalue < ONE_IN_A_MILLION
    assert stats.kstest((sums / scale[0]).ravel(), "laplace").pvalue < ONE_IN_A_MILLION


@pytest.mark.usefixtures("unrounded")
def test_given_what_all_share_a_users_noise_is_normal() -> None:
    ratings = drawn()
    defense = defense_of(spread=0.0, beta=0.5, dimensions=16)
    seen = [started(defense, ratings, w, [1, 4, 7]).submit() for w in range(150)]
    unit = np.concatenate([(s.shown[:, :, :16] / s.deviations).ravel() for s in seen])
    assert stats.kstest(unit.astype(np.float64), "norm").pvalue > ONE_IN_A_MILLION
    assert stats.kstest(1.05 * unit.astype(np.float64), "norm").pvalue < ONE_IN_A_MILLION
    # Users share the h of an item and coordinate, so deviations of two users have a fixed ratio.
    ratio = np.stack([s.deviations[0] / s.deviations[1] for s in seen])
    assert ratio.std((0, 2)).max() < 1e-6
    squares = np.concatenate([s.deviations[0].ravel() ** 2 for s in seen])
    variance = (
        defense_of(beta=0.5, dimensions=16)
        .noise(defense_of().prepare(ratings))
        .of_users(defense_of().prepare(ratings), np.array([1], np.int32))
    )
    h = squares / np.tile(np.repeat(variance[0], 16), 150)
    assert stats.kstest(h, "expon").pvalue > ONE_IN_A_MILLION
    assert stats.kstest(1.1 * h, "expon").pvalue < ONE_IN_A_MILLION


@pytest.mark.long
@pytest.mark.usefixtures("unrounded")
@pytest.mark.parametrize(("summation", "insiders"), [("local", 1), ("secure", 1), ("secure", 4)])
@pytest.mark.parametrize("observed", [None, [2, 5]])
def test_corrected_noise_keeps_the_claim(summation: str, insiders: int, observed: Any) -> None:
    ratings = drawn()
    defense = defense_of(
        variant="corrected", summation=summation, rounds=9, clip_norm=0.7, spread=0.0,
        dimensions=16, delta=1e-4, insiders=insiders,
    )  # fmt: skip
    sigma = 2 * 0.7 * 3 / gaussian_mu(1.0, 1e-4)
    # Under a secure summation, the sum without the insiders' shares has variance σ².
    spread = sigma * math.sqrt(N / (N - insiders) if summation == "secure" else N)
    unit = (pure_noise(defense, ratings, observed, 400) / spread).ravel()
    assert stats.kstest(unit, "norm").pvalue > ONE_IN_A_MILLION
    assert stats.kstest(1.05 * unit, "norm").pvalue < ONE_IN_A_MILLION
    assert gaussian_mu(1.0, 1e-4) == pytest.approx(2 * 0.7 * 3 / sigma)


@pytest.mark.parametrize("triples_", ["all", 4])
def test_corrected_submissions_are_cut_as_one(
    triples_: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratings = drawn()
    signal = defense_of(variant="nonprivate", triples=triples_, spread=2.0)
    quiet = defense_of(variant="corrected", triples=triples_, spread=2.0, clip_norm=0.5)
    none = signal.noise(signal.prepare(ratings))
    monkeypatch.setattr(PrivSRRanking, "noise", lambda self, rows: none)
    everybody = np.arange(N, dtype=np.int32)
    whole, cut = (
        started(defense, ratings, observed=everybody).submit().shown.astype(np.float64)
        for defense in (signal, quiet)
    )
    norms = np.sqrt((whole**2).sum((1, 2)))
    after = np.sqrt((cut**2).sum((1, 2)))
    assert (after <= 0.5).all()
    assert (norms > 0.5).sum() > 5
    np.testing.assert_allclose(after, np.minimum(norms, 0.5), rtol=2e-5)
    np.testing.assert_allclose(cut * norms[:, None, None], whole * after[:, None, None], atol=1e-4)


# What is observed.


def pairs_of_trials() -> dict[str, tuple[Ratings, Ratings]]:
    ratings = drawn()
    user = 4
    free = np.setdiff1d(np.arange(M), ratings.profile(user).items)
    ones = np.ones(len(free), np.float32)
    return {
        "published": (ratings, apply(ratings, RatingAdded(user, int(free[0]), 1.0))),
        "corrected": (ratings, apply(ratings, UserReplaced(user, free.astype(np.int32), ones))),
    }


@pytest.mark.long
@pytest.mark.parametrize("everybody", [False, True])
@pytest.mark.parametrize(
    ("variant", "summation"),
    [("published", "local"), ("corrected", "local"), ("corrected", "secure")],
)
@pytest.mark.usefixtures("unrounded")
@pytest.mark.parametrize("trained", [0, 1])
def test_what_is_seen_has_the_law_that_is_stated(
    everybody: bool, variant: Any, summation: Any, trained: int
) -> None:
    # Little noise, so that the two data sets are far apart.
    epsilon = 50.0 if variant == "published" else 5000.0
    defense = defense_of(
        variant=variant,
        summation=summation,
        triples="all",
        epsilon=epsilon,
        rounds=3,
        clip_norm=3.0,
    )
    before, after = pairs_of_trials()[variant]
    rows = [defense.prepare(before), defense.prepare(after, before)]
    observe = defense.observe_items if everybody else defense.observe
    seen = list(observe(rows[0], rows[1], rows[trained], Streams.first(3, "watch", 200)))
    assert len(seen) == 3
    target, other = [], []
    for release, law in seen:
        assert release.shown.shape == law.absent.shape == (200, M * 3)
        assert law.gaussian is not (everybody and variant == "published")
        means = (law.absent, law.present)
        target.append((release.shown - means[trained]) / law.scale)
        other.append((release.shown - means[1 - trained]) / law.scale)
    name = "norm" if seen[0][1].gaussian else "laplace"
    for part in target:
        assert stats.kstest(part.ravel(), name).pvalue > ONE_IN_A_MILLION
    # The means of the wrong data set, or a scale that is 10 % off, are detected.
    everything = np.concatenate(target).ravel()
    assert stats.kstest(1.1 * everything, name).pvalue < ONE_IN_A_MILLION
    assert stats.kstest(np.concatenate(other).ravel(), name).pvalue < ONE_IN_A_MILLION


def five_friends_items() -> tuple[Ratings, Ratings]:
    """The first user holds item 0, or 0 and 1; their friend holds and shares items 2 to 6."""
    held = np.zeros((2, 9), np.bool_)
    held[0, 0] = True
    held[1, 2:7] = True
    links = np.array([[False, True], [False, False]])
    before = purchases(held, np.zeros_like(held), links)
    return before, apply(before, RatingAdded(0, 1, 1.0))


def test_a_purchase_moves_its_item_by_the_number_of_friends_items_and_these_by_one() -> None:
    before, after = five_friends_items()
    for spread in (1.0, 0.3):
        defense = defense_of(
            triples="all", dimensions=1, spread=spread, start="constant", rounds=1, beta=1.0
        )
        rows = defense.prepare(before), defense.prepare(after, before)
        _, law = next(defense.observe(*rows, rows[0], Streams.first(0, "x", 2)))
        moved = law.present - law.absent
        expected = spread * np.array([0, 5, -1, -1, -1, -1, -1, 0, 0])
        np.testing.assert_allclose(moved, np.tile(expected, (2, 1)), atol=1e-6)
        # No item is private, so the noise is Lap(√K/ε_n), ε_n = 2ε.
        _, law = next(defense.observe_items(*rows, rows[0], Streams.first(0, "x", 2)))
        np.testing.assert_allclose(law.scale, 0.5)
        np.testing.assert_allclose(law.present - law.absent, np.tile(expected, (2, 1)), atol=1e-6)


def test_what_has_no_known_law_is_refused() -> None:
    before, after = pairs_of_trials()["published"]

    def observe(defense: PrivSRRanking, data: tuple[Ratings, Ratings], items: bool = False) -> Any:
        rows = defense.prepare(data[0]), defense.prepare(data[1], data[0])
        way = defense.observe_items if items else defense.observe
        return next(way(*rows, rows[0], Streams.first(0, "x", 1)))

    with pytest.raises(ConfigError, match="has none"):
        observe(defense_of(variant="nonprivate", triples="all"), (before, after))
    with pytest.raises(ConfigError, match=r"a mixture.*params\.triples = 'all'"):
        observe(defense_of(), (before, after))
    with pytest.raises(ConfigError, match="one user must differ"):
        observe(defense_of(triples="all"), (before, before))
    row = np.flatnonzero(before.kept_private)[0]
    after = apply(before, RatingRemoved(int(before.user[row]), int(before.item[row])))
    for variant in ("published", "corrected"):
        for items in (False, True):
            assert observe(defense_of(triples="all", variant=variant), (before, after), items)
    defense = defense_of(triples="all")
    rows = defense.prepare(before), defense.prepare(after)
    with pytest.raises(ConfigError, match="the same public data"):
        next(defense.observe(*rows, rows[0], Streams.first(0, "x", 1)))


def test_claims_name_what_counts_as_public() -> None:
    for variant, adjacency in (("published", "rating-add-remove"), ("corrected", "user-replace")):
        claim = defense_of(variant=variant).claim()
        assert claim is not None
        assert (claim.adjacency, claim.observer) == (adjacency, "recommender")
        assert "what users share with friends " in claim.public


def test_a_training_that_diverges_is_stopped() -> None:
    defense = defense_of(
        variant="nonprivate", triples="all", learning_rate=10.0, decay=10.0, rounds=100
    )
    with pytest.raises(NoModelError, match=r"after round \d+: .*params\.learning_rate"):
        defense.train(defense.prepare(drawn()), Streams.first(0, "x", 1))
    none = np.empty(0, np.int32)
    with pytest.raises(DpauditError, match="no ratings"):
        defense_of().prepare(Ratings.build(none, none, none.astype(np.float32), 2, 2, PURCHASES))


def test_models_rank_what_a_user_does_not_hold() -> None:
    ratings = drawn()
    defense = defense_of(variant="nonprivate", rounds=30)
    models = defense.train(defense.prepare(ratings), Streams.first(0, "x", 3))
    users, items = (part.ravel().astype(np.int32) for part in np.indices((N, M)))
    scores = models.predict(users, items).reshape(3, N, M)
    public = models.public(items)
    assert public.factors.shape == (3, M, 4)
    assert public.mean == 0
    assert not public.factors[:, :, -1].any()
    factors = np.stack([u[:, :3] for u in models.users])
    np.testing.assert_allclose(
        factors @ public.factors[:, :, :3].transpose(0, 2, 1), scores, atol=1e-5
    )
    lists = models.top(np.array([5, 0], np.int32), 4, ratings.by_user)
    assert lists.shape == (3, 2, 4)
    for w in range(3):
        for place, user in enumerate((5, 0)):
            left = np.setdiff1d(np.arange(M), ratings.profile(user).items)
            order = left[np.argsort(-scores[w, user, left], kind="stable")][:4]
            assert lists[w, place].tolist() == order.tolist()
