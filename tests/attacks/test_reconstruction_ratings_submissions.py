from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.attacks.reconstruction import FromSubmissions, Reconstruction
from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import ItemFactors, Learning, Submissions
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Friends, Ratings, Scale
from dpaudit.defenses.social.privsr import PrivSR

Numbers = NDArray[np.float64]

N, M, D = 25, 12, 3
GIVEN: dict[str, Any] = {
    "dimensions": D,
    "rounds": 40,
    "learning_rate": 0.01,
    "decay": 0.5,
    "offset": 3.0,
    "spread": 0.3,
}


def drawn(seed: int = 0, linked: bool = False) -> Ratings:
    source = np.random.default_rng(seed)
    rated = source.random((N, M)) < 0.6
    rated[:, :3] = True
    user, item = np.nonzero(rated)
    left, right = np.nonzero(np.triu(source.random((N, N)) < 0.3, 1) & linked)
    return Ratings.build(
        user,
        item,
        source.integers(1, 6, len(user)).astype(np.float32),
        N,
        M,
        Scale(),
        sensitive=source.random(len(user)) < 0.3,
        friends=Friends.build(left, right, N),
    )


def part(epsilon: float = math.inf, **given: Any) -> PrivSR:
    variant = "nonprivate" if math.isinf(epsilon) else "published"
    whole: dict[str, Any] = {"variant": variant, "social": 0.0} | GIVEN | given
    return PrivSR(epsilon, **whole)


Seen = tuple[Submissions, ItemFactors, Ratings, Numbers]


def seen_of(defense: PrivSR, ratings: Ratings, trials: int = 1, seed: int = 1) -> list[Seen]:
    """The attack's result in each trial, and the true ratings."""
    shared = ratings.only(~ratings.kept_private)
    parts = []
    for trial in Streams.first(seed, "x", trials).blocks(1):
        prepared = defense.prepare(ratings)
        seen, models = defense.submissions(prepared, trial, np.ones(N, np.bool_))
        release = models.public(np.arange(M, dtype=np.int32))
        truth = ratings.value[ratings.kept_private].astype(np.float64)
        parts.append((seen, release, shared, truth))
    return parts


def rmse(shown: Numbers, truth: Numbers) -> float:
    return float(np.sqrt(np.mean((shown - truth) ** 2)))


def error(attack: FromSubmissions, defense: PrivSR, trials: int = 3) -> float:
    """Root mean squared error over all trials."""
    read = [
        (attack.read(seen, release, shared)[1], truth)
        for seen, release, shared, truth in seen_of(defense, drawn(), trials)
    ]
    return rmse(*(np.concatenate(side) for side in zip(*read, strict=True)))


@pytest.mark.cases("linked", [False, True])
@pytest.mark.cases("start", ["normal", "constant"])
@pytest.mark.cases("rounds", ["all", "difference"])
def test_without_noise_everything_is_recovered(linked: bool, start: Any, rounds: Any) -> None:
    defense = part(start=start, social=0.001 if linked else 0.0)
    [(seen, release, shared, truth)] = seen_of(defense, drawn(linked=linked))
    model, read = FromSubmissions(rounds=rounds).read(seen, release, shared)
    assert np.abs(read - truth).max() < 0.1
    # The model alone does not reveal them.
    assert rmse(model, truth) > 0.5


@pytest.mark.long
def test_a_cut_of_all_that_a_user_submits_hides_nothing_by_itself() -> None:
    defense = part(1e6, variant="corrected", clip_norm=0.5, spread=1.0, rounds=20)
    [(seen, release, shared, truth)] = seen_of(defense, drawn())
    away = abs(FromSubmissions().read(seen, release, shared)[1] - truth)
    # For a few users the fit stops in a local minimum.
    assert np.median(away) < 0.02
    assert np.mean(away < 0.5) > 0.9
    # Both bounds are active, so an attacker who ignored them would make errors.
    blind = replace(seen, learning=replace(seen.learning, clip=math.inf, ball=math.inf))
    away = abs(FromSubmissions().read(blind, release, shared)[1] - truth)
    assert np.median(away) > 0.3


def test_with_much_noise_it_is_the_reconstruction() -> None:
    # The learning rate is so small that V stays near its start, whatever the noise.
    defense = part(1e-3, learning_rate=1e-9)
    [(seen, release, shared, _)] = seen_of(defense, drawn())
    kept = drawn().kept_private
    expected = Reconstruction().reconstruct(
        release, shared, drawn().user[kept], drawn().item[kept]
    )[0]
    model, read = FromSubmissions().read(seen, release, shared)
    np.testing.assert_array_equal(model, expected)
    assert np.abs(read - expected).max() < 0.02
    # With noise a thousandth of it, it is not.
    [(seen, release, shared, _)] = seen_of(part(1.0, learning_rate=1e-9), drawn())
    model, read = FromSubmissions().read(seen, release, shared)
    assert np.abs(read - model).max() > 0.1


@pytest.mark.long
def test_what_the_recommender_drew_and_more_rounds_are_worth_something() -> None:
    defense = part(2.0, learning_rate=1e-3)
    with_h, without = (error(FromSubmissions(knows=knows), defense) for knows in ("h", "scale"))
    assert 0.05 < with_h < 0.9 * without
    few = error(FromSubmissions(), part(2.0, learning_rate=1e-3, rounds=10))
    assert with_h < 0.8 * few


@pytest.mark.long
def test_errors_of_many_rounds_fall_like_their_root() -> None:
    # u and V stay where they are, so that each round says the same; the prior is weak. Some 200
    # errors on either side give the ratio 1/4 a deviation of 0.018: a rate below 1e-6.
    def of(rounds: int) -> float:
        defense = part(
            100.0,
            learning_rate=1e-9,
            spread=1.0,
            start="constant",
            rounds=rounds,
            noise_kind="equal",
        )
        return error(FromSubmissions(knows="h"), defense, trials=4)

    few, many = of(15), of(240)
    assert 0.16 < many / few < 0.36


def test_the_estimate_is_the_most_probable_one_of_a_line() -> None:
    # One factor that never moves: x_t = 2 (v u − r) u + noise is one normal law in r.
    source = np.random.default_rng(5)
    rounds, u, v, truth = 6, 0.8, 0.5, 4.0
    deviations = source.uniform(0.5, 2, (rounds, 1, 1)).astype(np.float32)
    shown = 2 * (u * v - (truth - 3)) * u + deviations * source.normal(size=deviations.shape)
    seen = Submissions(
        users=np.zeros(1, np.int32),
        items=np.zeros(1, np.int32),
        shared=np.array([np.nan]),
        shown=shown.astype(np.float32),
        deviations=deviations,
        usual=np.ones(1),
        factors=np.full((rounds, 2, 1), v, np.float32),
        learning=Learning(rate=0.0, decay=0.0, offset=3.0, start=u, spread=0.0),
    )
    shared = Ratings.build(
        np.array([1, 2]), np.array([0, 1]), np.array([5.0, 2.0], np.float32), 3, 2, Scale()
    )
    release = ItemFactors(np.array([[[v, 0.0], [v, 0.0]]], np.float32), 3.0)
    guess, read = FromSubmissions().read(seen, release, shared)
    before = Reconstruction()
    doubt = before.left_out(release, shared)
    weights = (2 * u) ** 2 / deviations[:, 0, 0].astype(np.float64) ** 2
    values = 3 + u * v - shown[:, 0, 0] / (2 * u)
    expected = (guess[0] / doubt + (weights * values).sum()) / (1 / doubt + weights.sum())
    assert read[0] == pytest.approx(np.clip(expected, 1, 5), abs=1e-4)


def test_each_rating_left_out_is_fitted_without_it() -> None:
    [(_, release, shared, _)] = seen_of(part(), drawn())
    attack = Reconstruction(average=False, ridge=0.7)
    factors = release.factors[0].astype(np.float64)
    squares = []
    for row in range(len(shared)):
        mine = (shared.user == shared.user[row]) & (np.arange(len(shared)) != row)
        v = factors[shared.item[mine], :-1]
        y = shared.value[mine] - release.mean - factors[shared.item[mine], -1]
        u = np.linalg.solve(v.T @ v + 0.7 * np.eye(D), v.T @ y)
        item = factors[shared.item[row]]
        squares.append((shared.value[row] - release.mean - item[-1] - item[:-1] @ u) ** 2)
    assert attack.left_out(release, shared) == pytest.approx(np.mean(squares), rel=1e-6)
    # Residuals of ratings in the fit would be smaller.
    assert np.mean(squares) > 1.05 * np.mean(
        (
            attack.reconstruct(release, shared, shared.user, shared.item)[0]
            - np.clip(shared.value, 1, 5)
        )
        ** 2
    )


# Differences of rounds.


def noised(seen: Submissions, scale: float, once: bool) -> Submissions:
    """What was submitted without noise, with normal noise that is drawn once or anew."""
    source = np.random.default_rng(3)
    draws = source.normal(size=seen.shown.shape)
    added = scale * (np.broadcast_to(draws[:1], draws.shape) if once else draws)
    return replace(
        seen,
        shown=(seen.shown + added).astype(np.float32),
        deviations=np.full_like(seen.deviations, scale),
        usual=np.full(len(seen.usual), scale),
        learning=replace(seen.learning, fresh=not once),
    )


@pytest.mark.long
def test_differences_show_all_of_noise_that_is_kept_and_less_of_noise_drawn_anew() -> None:
    [(seen, release, shared, truth)] = seen_of(part(spread=0.6, rounds=80), drawn())

    def of(rounds: Any, *, once: bool) -> float:
        return rmse(
            FromSubmissions(rounds=rounds).read(noised(seen, 3.0, once), release, shared)[1], truth
        )

    assert of("difference", once=True) < 0.05
    assert of("all", once=True) > 0.5
    assert of("all", once=False) < 0.9 * of("difference", once=False)


def test_differences_of_fresh_noise_carry_no_more_than_what_they_are_made_of() -> None:
    # Of x = mean + noise with independent noise, the best that is made of all differences has the
    # precision J'D'(DΣD')⁻¹DJ, and x itself J'Σ⁻¹J: the first is never more.
    source = np.random.default_rng(2)
    for _ in range(50):
        rounds = int(source.integers(2, 9))
        slopes = source.normal(size=(rounds, 2))
        noise = np.diag(source.uniform(0.1, 3, rounds))
        take = np.diff(np.eye(rounds), axis=0)
        whole = slopes.T @ np.linalg.inv(noise) @ slopes
        apart = slopes.T @ take.T @ np.linalg.inv(take @ noise @ take.T) @ take @ slopes
        assert np.linalg.eigvalsh(whole - apart).min() > -1e-9
        # Differences do not contain a constant mean.
        still = np.ones((rounds, 1))
        assert np.abs(take @ still).max() == 0
        assert np.linalg.eigvalsh(whole - apart).max() > 1e-6


# Values that the attack must not use.


def test_hidden_ratings_are_not_looked_at() -> None:
    ratings = drawn()
    [(seen, release, shared, _)] = seen_of(part(5.0), ratings)
    kept = ratings.kept_private
    assert np.isnan(seen.shared).tolist() == kept.tolist()
    np.testing.assert_array_equal(seen.shared[~kept], ratings.value[~kept])
    # Only the submissions contain them; without these the model's guess remains.
    nothing = replace(seen, deviations=np.full_like(seen.deviations, 1e6), usual=seen.usual * 1e6)
    guess, read = FromSubmissions().read(nothing, release, shared)
    np.testing.assert_allclose(read, guess, atol=1e-3)


def test_users_are_read_one_by_one_in_their_order() -> None:
    [(seen, release, shared, _)] = seen_of(part(2.0), drawn())
    attack = FromSubmissions()
    whole = attack.read(seen, release, shared)
    users = seen.users[seen.kept]
    some = np.unique(users)[[1, 4]].astype(np.int32)
    np.testing.assert_array_equal(
        attack.read(seen.of_users(some), release, shared), whole[:, np.isin(users, some)]
    )
    nobody = attack.read(seen.of_users(np.zeros(0, np.int32)), release, shared)
    assert nobody.shape == (2, 0)


def test_one_round_has_no_differences() -> None:
    [(seen, release, shared, _)] = seen_of(part(1.0, rounds=1), drawn())
    with pytest.raises(ConfigError, match=r"params\.rounds = 'difference' .* one round has none"):
        FromSubmissions(rounds="difference").read(seen, release, shared)
    # One round suffices to read all submissions, two rounds to read differences.
    assert np.isfinite(FromSubmissions().read(seen, release, shared)).all()
    [(seen, release, shared, _)] = seen_of(part(1.0, rounds=2), drawn())
    assert np.isfinite(FromSubmissions(rounds="difference").read(seen, release, shared)).all()
