"""Federated training with fake gradients: claims, clipping, and what the server sees."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from dpaudit.attacks.distinguishing import LikelihoodRatio
from dpaudit.auditor.games import DistinguishingGame, GameScores
from dpaudit.audits.trained.pairs import DataPair, trained_game
from dpaudit.bounds.accounting import noise_multiplier
from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.bounds.gdp import gaussian_epsilon
from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import Streams
from dpaudit.data import Ratings, Scale
from dpaudit.data.neighbors import RatingRemoved, RatingReplaced, UserRemoved, UserReplaced, apply
from dpaudit.data.ratings import from_profiles
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.defenses.federated.training import FederatedTraining

STARS = Scale()
Exact = NDArray[np.float64]
ONE_IN_A_MILLION = 1e-6


def drawn(seed: int = 0, n_users: int = 9, n_items: int = 8) -> Ratings:
    source = np.random.default_rng(seed)
    rated = source.random((n_users, n_items)) < 0.5
    rated[:, :2] = True
    user, item = np.nonzero(rated)
    value = source.integers(1, 6, len(user)).astype(np.float32)
    return Ratings.build(user, item, value, n_users, n_items, STARS)


# Claims and noise.


def test_claims_state_what_they_take_as_public() -> None:
    published = FakeGradients(2.0, delta=1e-6, clip_norm=3.5).claim()
    corrected = FakeGradients(2.0, "corrected", delta=1e-6).claim()
    signs = FakeGradients(2.0, fakes="two-valued").claim()
    assert published is not None
    assert corrected is not None
    assert signs is not None
    assert (published.epsilon, published.delta) == (2, 1e-6)
    assert (published.adjacency, published.observer) == ("rating-add-remove", "recommender")
    assert published.assumes == ("no gradient longer than 3.5, not enforced",)
    assert "response" in published.public
    assert (corrected.epsilon, corrected.delta) == (2, 1e-6)
    assert (corrected.adjacency, corrected.observer) == ("user-replace", "recommender")
    assert "gradient" not in corrected.public
    assert "response" not in corrected.public
    assert (signs.epsilon, signs.delta, signs.adjacency) == (2, 0, "rating-add-remove")
    for claim in (published, corrected, signs):
        assert "candidates" in claim.public
    assert FakeGradients(math.inf, "nonprivate").claim() is None


@pytest.mark.cases("rounds", [1, 30])
@pytest.mark.cases("epsilon", [0.5, 8.0])
def test_sigma_keeps_the_claim_and_hardly_more(epsilon: float, rounds: int) -> None:
    given_: dict[str, Any] = {"rounds": rounds, "clip_norm": 2.5, "delta": 1e-6}
    published = FakeGradients(epsilon, **given_)
    corrected = FakeGradients(epsilon, "corrected", **given_)
    candidates = published.prepare(drawn())
    one, both = published.sigma(candidates), corrected.sigma(candidates)
    assert one == 2.5 * noise_multiplier(epsilon, delta=1e-6, compositions=rounds)
    assert both == pytest.approx(2 * one, rel=1e-3)
    for sigma, shift in ((one, 2.5), (both, 2 * 2.5)):
        spent = gaussian_epsilon(shift * math.sqrt(rounds) / sigma, 1e-6)
        assert epsilon * 0.999 < spent <= epsilon
        assert gaussian_epsilon(1.01 * shift * math.sqrt(rounds) / sigma, 1e-6) > epsilon


@pytest.mark.long
def test_the_amplified_reading_has_the_noise_of_sampled_rounds() -> None:
    ratings = drawn()
    whole = FakeGradients(4.0, rounds=1, batch_size=3)
    amplified = replace(whole, amplified=True)
    candidates = whole.prepare(ratings)
    share = 3 / candidates.counts.min()
    assert share < 1
    sigma = amplified.sigma(candidates)
    assert sigma == noise_multiplier(4.0, delta=1e-5, compositions=1, sampling=share)
    assert sigma < 0.95 * whole.sigma(candidates)
    # Without batches, or with batches of all candidates, there is no amplification.
    for batch in (None, 1000):
        same = replace(amplified, batch_size=batch)
        assert same.sigma(candidates) == whole.sigma(candidates)


def test_submissions_without_normal_noise_have_no_sigma() -> None:
    candidates = FakeGradients(1.0).prepare(drawn())
    for defense in (FakeGradients(math.inf, "nonprivate"), FakeGradients(1.0, fakes="two-valued")):
        assert defense.sigma(candidates) == 0
        assert not defense.noisy
    signs = FakeGradients(6.0, fakes="two-valued", rounds=3, dimensions=5)
    assert signs.level == pytest.approx(5 * (math.exp(2) + 1) / (math.exp(2) - 1))


@pytest.mark.cases(
    ("parameters", "words"),
    [
        ({"epsilon": math.inf}, r"epsilon = inf scales no noise.*'nonprivate'"),
        ({"epsilon": 1e-4}, "epsilon"),
        ({"variant": "corrected", "fakes": "rating"}, r"fakes = 'rating'.*use 'delayed-mean'"),
        ({"variant": "corrected", "fakes": "two-valued"}, r"'two-valued'.*use 'delayed-mean'"),
        ({"variant": "corrected", "amplified": True}, r"amplified.*published.*remove it"),
        ({"variant": "nonprivate", "amplified": True}, r"amplified.*published.*remove it"),
        ({"fakes": "two-valued", "amplified": True}, r"amplified.*normal noise: remove it"),
        ({"fakes": "zero", "made_up_mean": 0.0}, r"made_up_mean.*fakes = 'rating'.*remove it"),
        ({"density": 1.0}, "density"),
        ({"density": -0.1}, "density"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": 129}, "dimensions"),
        ({"rounds": 0}, "rounds"),
        ({"batch_size": 0}, "batch_size"),
        ({"clip_norm": 0.0}, "clip_norm"),
        ({"clip_norm": math.nan}, "clip_norm"),
        ({"delta": 0.0}, "delta"),
        ({"truth": 0.5}, "truth"),
        ({"memory": 1.0}, "memory"),
        ({"least_share": 0.0}, "least_share"),
        ({"fake_clip_norm": 0.0}, "fake_clip_norm"),
        ({"fakes": "mean"}, "fakes"),
        ({"seed": -1}, "seed"),
        ({"rounds": 2.5}, "rounds"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_parameters_are_refused(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        FakeGradients(**({"epsilon": 1.0} | parameters))


def test_a_model_without_privacy_has_no_fakes() -> None:
    ratings = drawn()
    plain = FakeGradients(math.inf, "nonprivate", density=0.9).prepare(ratings)
    assert plain.real.all()
    assert len(plain) == len(ratings)
    assert len(FakeGradients(1.0, density=0.5).prepare(ratings)) > len(ratings)


def test_there_must_be_something_to_learn_from() -> None:
    none = np.empty(0, np.int32)
    empty = Ratings.build(none, none, none.astype(np.float32), 2, 2, STARS)
    with pytest.raises(ConfigError, match="use more data"):
        FakeGradients(1.0).prepare(empty)


@pytest.mark.long
def test_it_learns_what_was_planted() -> None:
    source = np.random.default_rng(3)
    left, right = source.normal(0, 1.0, (200, 2)), source.normal(0, 1.0, (40, 2))
    full = np.clip(3 + left @ right.T, 1, 5)
    pick = source.random(full.shape)
    parts = []
    for part in (pick < 0.5, pick > 0.9):
        user, item = np.nonzero(part)
        parts.append(Ratings.build(user, item, full[part].astype(np.float32), 200, 40, STARS))
    train, test = parts
    shared: dict[str, Any] = {"dimensions": 2, "offset": 3.0, "decay": 0.01, "rounds": 250}
    errors = {}
    for name, model in {
        "plain": FakeGradients(math.inf, "nonprivate", **shared),
        "quiet": FakeGradients(1e6, **shared, truth=1.0),
        "corrected": FakeGradients(1e6, "corrected", **shared, clip_norm=20.0),
        "zero": FakeGradients(1e6, fakes="zero", **shared),
        "rating": FakeGradients(1e6, fakes="rating", **shared),
        "loud": FakeGradients(1.0, "corrected", **shared),
    }.items():
        models = model.train(model.prepare(train), Streams.first(1, "test", 1))
        errors[name] = float(
            np.sqrt(((models.predict(test.user, test.item) - test.value) ** 2).mean())
        )
    assert test.value.std() > 1
    assert max(errors[name] for name in ("plain", "quiet", "corrected")) < 0.5
    # Made-up ratings are used like real ones, and the noise exceeds a user's clipped submissions.
    assert errors["rating"] > errors["quiet"] + 0.2
    assert errors["loud"] > 0.8


# Clipping in the corrected form.

CUTS = {
    "dimensions": st.sampled_from([1, 3, 16, 17, 40, 128]),
    "offset": st.sampled_from([0.0, 3.0, -1e3, 1e6]),
    "spread": st.sampled_from([0.0, 1e-3, 0.5, 10.0]),
    "clip_norm": st.sampled_from([1e-3, 0.5, 1.0, 1e3]),
    "epsilon": st.sampled_from([0.1, 4.0, 1e6]),
    "batch_size": st.sampled_from([None, 2]),
    "fakes": st.sampled_from(["delayed-mean", "zero"]),
}


def distances(training: FederatedTraining) -> tuple[Exact, Exact]:
    """Each user's distance from the fakes in a noiseless round, and its rounding error `(N,)`.

    A submission is rounded to single precision, where it is the fake that is large.
    """
    sigma, training.sigma = training.sigma, 0.0
    candidates, fakes = training.candidates, training.server.fakes.astype(np.float64)
    sent = training.submit()
    training.sigma = sigma
    items, users = candidates.items[sent.order], candidates.users[sent.order]
    away = sent.shown.astype(np.float64) - fakes[items]
    assert not away[~candidates.real[sent.order]].any()
    rounded = 2.0**-24 * abs(sent.shown.astype(np.float64))
    squares = [
        np.bincount(users, (part**2).sum(1), minlength=candidates.n_users)
        for part in (away, rounded)
    ]
    return np.sqrt(squares[0]), np.sqrt(squares[1])


@pytest.mark.long
@settings(max_examples=60, deadline=None, derandomize=True)
@given(parameters=st.fixed_dictionaries(CUTS), seed=st.integers(0, 50))
def test_no_user_is_farther_from_the_fakes_than_the_bound(
    parameters: dict[str, Any], seed: int
) -> None:
    defense = FakeGradients(**parameters, variant="corrected", rounds=4)
    candidates = defense.prepare(drawn(seed, 6, 7))
    everybody = np.ones(candidates.n_users, np.bool_)
    training = FederatedTraining(
        defense, candidates, Streams.first(seed, "cut", 1), apart=everybody
    )
    for _ in range(defense.rounds):
        largest, rounding = distances(training)
        assert (largest <= defense.clip_norm + rounding).all()
        if training.done == 0:  # F is 0, so only clipping rounds
            assert (largest <= defense.clip_norm).all()
        training.run_round()


@pytest.mark.parametrize("batch", [None, 2])
def test_the_cut_binds_and_leaves_short_gradients_whole(batch: int | None) -> None:
    ratings = drawn()
    everybody = np.ones(9, np.bool_)
    far: dict[str, Any] = {"offset": 0.0, "spread": 1.0, "dimensions": 4, "batch_size": batch}
    streams = Streams.first(2, "cut", 1)

    def after(defense: FakeGradients) -> tuple[Exact, FederatedTraining]:
        training = FederatedTraining(defense, defense.prepare(ratings), streams, apart=everybody)
        for _ in range(3):
            training.sigma = 0.0
            training.run_round()
        return distances(training)[0], training

    cut, _ = after(FakeGradients(1.0, "corrected", clip_norm=0.5, **far))
    assert (cut > 0.5 * (1 - 1e-4)).sum() >= 8  # a user may submit two fakes
    whole, _ = after(FakeGradients(1.0, "corrected", clip_norm=1e3, truth=1.0, **far))
    published, _ = after(FakeGradients(1.0, **far, least_share=0.5, truth=1.0))
    # Nothing enforces clip_norm in the published form.
    assert published.max() > 2
    assert whole.max() > 2


def test_all_of_a_users_submissions_are_cut_by_one_factor() -> None:
    defense = FakeGradients(1.0, "corrected", clip_norm=0.5, dimensions=4, spread=1.0)
    candidates = defense.prepare(drawn())
    everybody = np.ones(9, np.bool_)
    training = FederatedTraining(defense, candidates, Streams.first(2, "cut", 1), apart=everybody)
    training.run_round()
    training.sigma = 0.0
    items = training.server.factors.copy()
    fakes = training.server.fakes[candidates.items]
    sent = training.submit()
    whole = training.clients.gradients(sent.order, training.clients.values, items) - fakes
    shares = np.einsum("nf,nf->n", sent.shown - fakes, whole) / np.einsum("nf,nf->n", whole, whole)
    np.testing.assert_allclose(sent.shown, fakes + shares[:, None] * whole, atol=1e-5)
    for user in range(9):
        mine = (candidates.users == user) & candidates.real
        np.testing.assert_allclose(shares[mine], shares[mine][0], rtol=1e-4)
        assert 0 < shares[mine][0] < 1
        np.testing.assert_allclose(
            shares[(candidates.users == user) & ~candidates.real], 0, atol=1e-6
        )


# The submissions of the users in whom two data sets differ.

TINY: dict[str, Any] = {"dimensions": 2, "rounds": 4, "offset": 3.0, "spread": 1.0}


def pairs(ratings: Ratings) -> dict[str, Ratings]:
    mine = ratings.profile(4)
    opposed = np.where(mine.values > 3, 1, 5).astype(np.float32)
    first = int(mine.items[0])
    return {
        "replaced": apply(ratings, RatingReplaced(4, first, float(opposed[0]))),
        "removed": apply(ratings, RatingRemoved(4, first)),
        "user": apply(ratings, UserReplaced(4, mine.items, opposed)),
        "fewer": apply(ratings, UserReplaced(4, mine.items[1:2], opposed[1:2])),
        "gone": apply(ratings, UserRemoved(4)),
    }


def seen(
    defense: FakeGradients, after: Ratings, trained: int, trials: int, purpose: str = "watch"
) -> tuple[Exact, Exact, Exact, float]:
    """Submissions, and noiseless submissions on D and on D' `(K, W, C)`; the noise's deviation."""
    before = drawn()
    both = defense.prepare(before), defense.prepare(after, before)
    steps = list(defense.observe(*both, both[trained], Streams.first(6, purpose, trials)))
    assert len(steps) == defense.rounds
    shown = np.array([step.shown for step, _ in steps])
    absent, present = (
        np.array([getattr(pair, side) for _, pair in steps]) for side in ("absent", "present")
    )
    sigma = defense.sigma(both[trained])
    for _, pair in steps:
        assert pair.gaussian
        assert math.isinf(pair.bound)
        np.testing.assert_array_equal(pair.scale, np.full(shown.shape[1:], sigma))
    return shown, absent, present, sigma


OBSERVED = [
    FakeGradients(100.0, **TINY),
    FakeGradients(100.0, **TINY, fakes="zero", batch_size=3),
    FakeGradients(300.0, "corrected", **TINY),
    FakeGradients(300.0, "corrected", **TINY, batch_size=3, density=0.75),
]


@pytest.mark.long
@pytest.mark.parametrize("change", ["removed", "user", "gone"])
@pytest.mark.parametrize("defense", OBSERVED, ids=["published", "batch", "corrected", "fewer"])
def test_what_is_shown_has_its_stated_law_in_the_trial_that_is_trained(
    defense: FakeGradients, change: str
) -> None:
    from scipy.stats import chi2, kstest

    trials = 40
    for trained in (0, 1):
        shown, absent, present, sigma = seen(defense, pairs(drawn())[change], trained, trials)
        here, there = (absent, present) if trained == 0 else (present, absent)
        z = (shown - here) / sigma
        assert z.size > 500
        # 24 cases: 2.4e-7, and 9e-8 of each of the next two.
        assert kstest(z.ravel(), "norm").pvalue > 1e-8
        assert abs((z**2).sum() / chi2.mean(z.size) - 1) < 5.9 * math.sqrt(2 / z.size)
        assert abs(z.mean()) * math.sqrt(z.size) < 5.9
        # The noise is independent of the noiseless submissions.
        other = (shown - there) / sigma
        expected = ((here - there) / sigma) ** 2
        assert expected.sum() > 300
        assert (other**2).sum() - z.size > 0.5 * expected.sum()
        assert ((other**2).sum() / z.size - 1) > 5.9 * math.sqrt(2 / z.size)


@pytest.mark.cases("change", ["replaced", "user", "fewer", "gone"])
@pytest.mark.cases("defense", OBSERVED, ids=["published", "batch", "corrected", "fewer"])
def test_without_noise_the_trained_trial_is_shown_as_it_is(
    defense: FakeGradients, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeGradients, "sigma", lambda self, candidates: 0.0)
    longer = replace(defense, rounds=12)
    for trained in (0, 1):
        shown, *sides, _ = seen(longer, pairs(drawn())[change], trained, 2)
        np.testing.assert_allclose(shown, sides[trained], atol=1e-6)
        assert abs(shown - sides[1 - trained]).max() > 1e-2


def test_a_change_moves_the_users_other_submissions_from_the_second_round_on() -> None:
    before = drawn()
    after = pairs(before)["replaced"]
    for fakes in ("delayed-mean", "zero"):
        defense = FakeGradients(100.0, **(TINY | {"rounds": 40, "fakes": fakes}))
        _, absent, present, _ = seen(defense, after, 0, 3)
        candidates = defense.prepare(before)
        mine = candidates.users == 4
        moved = abs(present - absent).reshape(40, 3, -1, 2).max(3)
        items, real = candidates.items[mine], candidates.real[mine]
        changed = items == before.profile(4).items[0]
        assert (moved[:, :, changed] > 1e-3).all()
        assert not moved[0][:, ~changed].any()
        others = moved[:, :, real & ~changed]
        assert (others[5:] > 0).mean() > 0.99
        assert (others[1] > 0).any()
        assert (others[-1] > 1e-3).mean() > 0.8
        assert (moved[:, :, ~real] == 0).all()


def test_a_new_users_trials_are_shown_the_same_whatever_is_observed_beside() -> None:
    after = pairs(drawn())["user"]
    whole = seen(OBSERVED[2], after, 1, 5)
    before = drawn()
    both = OBSERVED[2].prepare(before), OBSERVED[2].prepare(after, before)
    streams = Streams.first(6, "watch", 5)
    part = Streams(streams.key, np.array([3, 1]))
    for k, (step, pair) in enumerate(OBSERVED[2].observe(*both, both[1], part)):
        np.testing.assert_array_equal(step.shown, whole[0][k][[3, 1]])
        np.testing.assert_array_equal(pair.absent, whole[1][k][[3, 1]])
        np.testing.assert_array_equal(pair.present, whole[2][k][[3, 1]])
    # The values lie on a grid, so a few agree by chance.
    assert len(np.unique(whole[0])) > 0.9 * whole[0].size


@pytest.mark.cases("change", ["replaced", "removed", "user", "fewer", "gone"])
@pytest.mark.cases("batch", [None, 2])
def test_two_users_of_the_corrected_form_are_two_bounds_apart_at_most(
    change: str, batch: int | None
) -> None:
    far: dict[str, Any] = TINY | {"offset": 0.0, "clip_norm": 0.5, "batch_size": batch, "rounds": 6}
    after = pairs(drawn())[change]
    _, absent, present, _ = seen(FakeGradients(3.0, "corrected", **far), after, 0, 8)
    moved = np.linalg.norm(present - absent, axis=2)
    assert moved.max() <= 1.0
    assert moved.max() > 0.02
    _, absent, present, _ = seen(FakeGradients(3.0, **far), after, 0, 8)
    assert np.linalg.norm(present - absent, axis=2).max() > 1.0


def test_two_opposed_users_can_be_two_bounds_apart() -> None:
    ratings = from_profiles([[(0, 5.0)], [(0, 4.0), (1, 2.0)]], 2, STARS)
    after = apply(ratings, RatingReplaced(0, 0, 1.0))
    defense = FakeGradients(1.0, "corrected", dimensions=1, offset=3.0, clip_norm=0.01, rounds=1)
    both = defense.prepare(ratings), defense.prepare(after, ratings)
    ((_, pair),) = defense.observe(*both, both[0], Streams.first(1, "test", 20))
    moved = np.linalg.norm(pair.present - pair.absent, axis=1)
    np.testing.assert_allclose(moved, 0.02, rtol=1e-4)


def test_what_cannot_be_observed_is_refused() -> None:
    before = drawn()
    after = pairs(before)["removed"]
    streams = Streams.first(1, "test", 2)
    for defense in (
        FakeGradients(1.0, fakes="rating"),
        FakeGradients(1.0, fakes="two-valued"),
        FakeGradients(math.inf, "nonprivate"),
    ):
        both = defense.prepare(before), defense.prepare(after, before)
        with pytest.raises(ConfigError, match=r"needs submissions.*use a private variant"):
            next(defense.observe(*both, both[0], streams))
    defense = FakeGradients(1.0, rounds=1)
    candidates, alone = defense.prepare(before), defense.prepare(pairs(before)["gone"])
    with pytest.raises(ConfigError, match=r"different candidates.*same public data"):
        next(defense.observe(candidates, alone, candidates, streams))
    with pytest.raises(ConfigError, match="are the same"):
        next(defense.observe(candidates, candidates, candidates, streams))
    # A different stand-in for an unrated item is no difference of the data sets.
    stand_in = np.where(candidates.real, candidates.values, 6 - candidates.values)
    same = replace(candidates, values=stand_in)
    with pytest.raises(ConfigError, match="are the same"):
        next(defense.observe(candidates, same, candidates, streams))


# Games.


def certified(scores: GameScores, delta: float) -> float:
    bound, _ = label_epsilon(scores.absent, scores.present, delta=delta, alpha=ONE_IN_A_MILLION)
    return bound.lower


def opposed() -> DataPair:
    """One user's ratings go from one end of the scale to the other."""
    ratings = from_profiles(
        [[(0, 5.0), (1, 5.0)], [(0, 4.0), (1, 2.0)], [(1, 4.0), (2, 1.0)]], 3, STARS
    )
    ones = UserReplaced(0, np.array([0, 1], np.int32), np.ones(2, np.float32))
    return DataPair(ratings, apply(ratings, ones), ratings, "one user")


def server(defense: FakeGradients, pair: DataPair) -> DistinguishingGame[Any]:
    """A game in which the server is the observer."""
    return trained_game(defense, pair, LikelihoodRatio(), "recommender")


GAME: dict[str, Any] = {
    "dimensions": 2,
    "rounds": 2,
    "offset": 3.0,
    "spread": 1.0,
    "clip_norm": 0.5,
}


@pytest.mark.long
def test_the_corrected_claim_is_not_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    near: dict[str, Any] = GAME | {"spread": 0.1, "clip_norm": 0.01}
    defense, trials = FakeGradients(2.0, "corrected", **near), 700
    pair = opposed()
    scores = server(defense, pair).run(trials=trials, seed=1)
    # A false alarm has the rate 1e-6.
    assert certified(scores, defense.delta) <= 2
    # The mean log-ratios differ by at most μ², μ = 2 G √K/σ, and these users nearly reach that.
    square = 4 * 0.01**2 * 2 / defense.sigma(defense.prepare(pair.before)) ** 2
    apart = (scores.present.mean() - scores.absent.mean()) / square
    assert 0.7 < apart < 1 + 5 * math.sqrt(2 / trials / square)
    quiet = FakeGradients.sigma
    monkeypatch.setattr(FakeGradients, "sigma", lambda self, c: quiet(self, c) / 8)
    scores = server(defense, pair).run(trials=300, seed=1)
    assert certified(scores, defense.delta) > 2


@pytest.mark.long
def test_the_published_claim_is_exceeded_where_gradients_are_longer_than_its_bound() -> None:
    ratings = opposed().before
    pair = DataPair(ratings, apply(ratings, RatingRemoved(0, 0)), ratings, "one rating")
    # The observer knows the initial factors, and the game computes the user's gradients from them.
    defense = FakeGradients(1.0, **(GAME | {"offset": 0.0}))
    scores = server(defense, pair).run(trials=400, seed=1)
    assert certified(scores, defense.delta) > 2
    # With a clip_norm that is not exceeded, the same pair keeps the claim.
    honest = replace(defense, clip_norm=40.0)
    scores = server(honest, pair).run(trials=400, seed=1)
    assert certified(scores, honest.delta) <= 1


# Streams.


def test_trained_trials_are_the_federations() -> None:
    defense = FakeGradients(5.0, **TINY, batch_size=2)
    candidates = defense.prepare(drawn())
    streams = Streams.first(3, "test", 4)
    models = defense.train(candidates, streams)
    for w, trial in enumerate(streams.blocks(1)):
        training = FederatedTraining(defense, candidates, trial)
        for _ in range(defense.rounds):
            training.run_round()
        np.testing.assert_array_equal(models.items[w], training.models().items[0])
        np.testing.assert_array_equal(models.users[w], training.models().users[0])


def test_no_two_draws_share_a_step_of_the_noise_source(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpaudit.kernels import noise
    from dpaudit.kernels.federated import submissions as federated

    used: list[int] = []

    def observe(module: Any, name: str, place: int) -> None:
        inner = getattr(module, name)

        def observed(*arguments: Any) -> None:
            if name != "submit" or arguments[9] > 0:  # σ
                used.append(int(arguments[place]))
            inner(*arguments)

        monkeypatch.setattr(module, name, observed)

    observe(noise, "uniform", 2)
    observe(noise, "normal", 2)
    observe(federated, "submit", 11)
    begins, rounds = 2, TINY["rounds"]
    anew: dict[str, Any] = {"fakes": "rating", "made_up": "each-round"}
    cases: list[tuple[FakeGradients, int, int]] = [
        (FakeGradients(1.0, **TINY), 0, begins + 1 + 2 * rounds),
        (FakeGradients(1.0, **TINY, batch_size=2), 3, begins + 1 + 3 * rounds),
        (FakeGradients(1.0, "corrected", **TINY), 3, begins + 2 * rounds),
        (FakeGradients(1.0, **TINY, fakes="two-valued", batch_size=2), 0, begins + 2 * rounds),
        (FakeGradients(1.0, **TINY, **anew, batch_size=2), 3, begins + 4 * rounds),
    ]
    for defense, observed_users, count in cases:
        used.clear()
        candidates = defense.prepare(drawn())
        apart = np.arange(candidates.n_users) < observed_users
        training = FederatedTraining(defense, candidates, Streams.first(1, "test", 1), apart=apart)
        for _ in range(rounds):
            training.run_round()
        assert len(set(used)) == len(used) == count
