"""The ε of normal steps by their law, and divergences estimated from scores."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from executors import on_threads  # type: ignore[import-not-found]
from numpy.typing import NDArray
from scipy import stats
from threadpoolctl import threadpool_limits

from dpaudit.attacks.distinguishing import LikelihoodRatio
from dpaudit.auditor.games import DistinguishingGame, GameScores
from dpaudit.audits.trained.games import score_divergences, steps_law
from dpaudit.audits.trained.pairs import DataPair, target_pair, trained_game
from dpaudit.bounds.gdp import gaussian_delta, gaussian_epsilon
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import NoisedSteps, PreparedPair, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import RatingReplaced, UserReplaced, apply
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.defenses.federated.training import FederatedTraining
from dpaudit.defenses.observers import step_observer
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.kernels.lanes import LANES

STARS = Scale()
DELTA, SEED = 1e-3, 5
GRID = 2.0**-8
WAYS = ["mean log-ratio", "normal plug-in", "nearest neighbours"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


# The law of the steps.


def pair_of(before: Ratings, after: Ratings) -> DataPair:
    return DataPair(before, after, before, "two data sets")


def replaced(user: int = 0) -> DataPair:
    """One rating of few goes from one end of the scale to the other."""
    ratings = from_profiles([[(0, 1.0)], [(0, 4.0), (2, 2.0)], [(1, 3.0), (2, 5.0)]], 5, STARS)
    item = int(ratings.profile(user).items[0])
    return pair_of(ratings, apply(ratings, RatingReplaced(user, item, 5.0)))


def submitted(defense: FakeGradients, pair: DataPair) -> DistinguishingGame[Any]:
    """The game of the server."""
    return trained_game(defense, pair, LikelihoodRatio(), "recommender")


TRAININGS = 2 * LANES


def mixture_excess(epsilon: float, mu: NDArray[np.float64]) -> float:
    """How far the mean profile of normals at μ is above δ, of their probabilities."""
    above, below = (stats.norm.cdf(side * mu / 2 - epsilon / mu) for side in (1, -1))
    return float(np.mean(above - math.exp(epsilon) * below)) - DELTA


def mixture_epsilon(mu: NDArray[np.float64]) -> float:
    """The ε of a mean of profiles, by halving."""
    low, high = 0.0, 1e3
    with np.errstate(over="ignore"):
        for _ in range(100):
            middle = (low + high) / 2
            if middle < 700 and mixture_excess(middle, mu) > 0:
                low = middle
            else:
                high = middle
    return low


class Stated:
    """Steps whose means are `shifts` apart and whose noise has these scales, trial by trial.

    `shifts (2, steps, TRAININGS, coordinates)`: in trainings on the first data set, on the second.
    """

    def __init__(self, shifts: NDArray[np.float64], scale: NDArray[np.float64]) -> None:
        self.shifts, self.scale = shifts, scale
        self.seen = [0, 0]

    @property
    def game(self) -> DistinguishingGame[Any]:
        """The game on two data sets that are not looked at."""
        pair: PreparedPair[Any] = PreparedPair(object(), object())
        return DistinguishingGame(step_observer(self.observe, "steps"), pair, LikelihoodRatio())

    def observe(
        self, before: Any, after: Any, trained: Any, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        assert before is not after
        assert trained in (before, after)
        which = int(trained is after)
        first = self.seen[which]
        self.seen[which] += len(streams)
        for shift in self.shifts[which][:, first : self.seen[which]]:
            absent = np.full(shift.shape, 7.0)
            yield NoisedSteps(absent), StepsPair(absent, absent + shift, self.scale, gaussian=True)


def is_of_all_trainings(estimate: Estimate, trainings: int) -> None:
    """A value without an interval: what it rests on is a sample of distances."""
    assert estimate.upper == estimate.value
    assert (estimate.lower, estimate.confidence, estimate.alpha) == (0, 0, 1)
    assert (estimate.n, estimate.kind) == (trainings, "assumes-law")


@pytest.mark.parametrize("larger", [0, 1])
def test_epsilon_is_that_of_the_mean_profile_of_either_data_set(larger: int) -> None:
    source = np.random.default_rng(0)
    # Data sets, steps, trials, coordinates, each with a scale of its own.
    shifts = source.normal(size=(2, 6, TRAININGS, 3))
    shifts[larger] *= 1.2
    scale = np.array([0.5, 2.0, 9.0])
    stated = Stated(shifts, scale)
    estimate = steps_law(stated.game, delta=DELTA, seed=1, trainings=TRAININGS).epsilon
    assert stated.seen == [TRAININGS, TRAININGS]
    mu = np.array([
        [
            math.sqrt(sum((shifts[k, t, w, c] / scale[c]) ** 2 for t in range(6) for c in range(3)))
            for w in range(TRAININGS)
        ]
        for k in range(2)
    ])  # fmt: skip
    assert estimate.value == pytest.approx(mixture_epsilon(mu[larger]), rel=1e-6)
    is_of_all_trainings(estimate, TRAININGS)
    # ε is where the mean of the exact curves passes δ.
    curve = np.mean([gaussian_delta(estimate.value, float(one)) for one in mu[larger]])
    assert curve == pytest.approx(DELTA, rel=1e-6)
    # The other data set, half of the trainings, one normal of the mean of μ or of μ², the
    # largest μ, and μ for μ², would be noticed.
    one = mu[larger]
    for other in (
        mixture_epsilon(mu[1 - larger]),
        mixture_epsilon(one[:LANES]),
        gaussian_epsilon(float(one.mean()), DELTA),
        gaussian_epsilon(float((one**2).mean() ** 0.5), DELTA),
        gaussian_epsilon(float(one.max()), DELTA),
        mixture_epsilon(one**2),
    ):
        assert estimate.value != pytest.approx(other, rel=5e-3)


def test_where_every_training_is_as_far_apart_epsilon_is_that_of_one_normal() -> None:
    shifts = np.full((2, 4, TRAININGS, 1), 0.3)
    shifts[0] /= 2
    estimate = steps_law(
        Stated(shifts, np.ones(1)).game, delta=DELTA, seed=1, trainings=TRAININGS
    ).epsilon
    assert estimate.value == pytest.approx(gaussian_epsilon(0.6, DELTA), rel=1e-8)
    is_of_all_trainings(estimate, TRAININGS)


def test_steps_that_show_nothing_have_no_epsilon() -> None:
    for delta in (0.0, DELTA):
        stated = Stated(np.zeros((2, 2, 64, 1)), np.ones(1))
        estimate = steps_law(stated.game, delta=delta, seed=1).epsilon
        assert (estimate.lower, estimate.value, estimate.upper) == (0, 0, 0)
        assert stated.seen == [64, 64]
        assert estimate.n == 64


def test_epsilon_of_the_first_round_by_brute_force() -> None:
    # One rating differs: by (r' − r) u, u the initial factors of its user, and no cut.
    defense = FakeGradients(2.0, fakes="zero", dimensions=3, rounds=1, spread=0.9, delta=DELTA)
    pair = replaced()
    estimate = steps_law(
        submitted(defense, pair), delta=DELTA, seed=SEED, trainings=TRAININGS
    ).epsilon
    wanted = []
    for name, data in (("absent", pair.before), ("present", pair.after)):
        prepared = defense.prepare(data)
        trials = Streams.first(SEED, f"law/{name}", TRAININGS).blocks(1)
        users = [
            FederatedTraining(defense, prepared, trial).clients.factors[0, :3] for trial in trials
        ]
        squares = [float((u.astype(float) ** 2).sum()) for u in users]
        mu = 4 * np.sqrt(squares) / defense.sigma(prepared)
        assert mu.max() > 1.3 * mu.min()
        wanted.append(mixture_epsilon(mu))
    assert estimate.value == pytest.approx(max(wanted), rel=1e-4)
    # The two data sets have different trials.
    assert max(wanted) > 1.001 * min(wanted)
    is_of_all_trainings(estimate, TRAININGS)
    other = steps_law(
        submitted(defense, pair), delta=DELTA, seed=SEED + 1, trainings=TRAININGS
    ).epsilon
    assert other.value != estimate.value
    game = submitted(defense, pair)
    more = steps_law(
        game, delta=DELTA, seed=SEED, trainings=TRAININGS, executor=on_threads(3)
    ).epsilon
    assert more == estimate


@pytest.mark.parametrize("fakes", ["zero", "delayed-mean"])
def test_epsilon_of_all_rounds_is_that_of_what_users_would_submit(fakes: Any) -> None:
    defense = FakeGradients(
        3.0, fakes=fakes, dimensions=2, rounds=6, spread=0.9, offset=3.0, clip_norm=3.0, delta=DELTA
    )
    pair, _ = target_pair(replaced().before, "user-replace", 1)
    before, after = (defense.prepare(data, pair.public) for data in (pair.before, pair.after))
    wanted = []
    for name, trained in (("absent", before), ("present", after)):
        squares: list[float] = []
        for streams in Streams.first(SEED, f"law/{name}", TRAININGS).blocks(LANES):
            total = np.zeros(len(streams))
            for shown, law in defense.observe(before, after, trained, streams):
                away = law.present - law.absent
                assert shown.shown.shape == away.shape
                total += np.einsum("wc,wc->w", away, away) / defense.sigma(before) ** 2
            squares += total.tolist()
        wanted.append(mixture_epsilon(np.sqrt(squares)))
    whole = steps_law(submitted(defense, pair), delta=DELTA, seed=SEED, trainings=TRAININGS)
    estimate = whole.epsilon
    assert estimate.value == pytest.approx(max(wanted), rel=1e-6)
    assert max(wanted) > (1 + 1e-4) * min(wanted)
    # Of the trainings on D', the last.
    assert whole.divergences == pytest.approx(np.array(squares) / 2, rel=1e-6)
    assert math.isinf(defense.steps_mu(before))
    is_of_all_trainings(estimate, TRAININGS)


def alone(rounds: int, **changes: Any) -> tuple[FakeGradients, DataPair]:
    """One user's only rating moves between the scale's ends, around 0: gradients are opposite."""
    given: dict[str, Any] = {
        "dimensions": 1, "spread": 0.5, "offset": 3.0, "clip_norm": 1e-3, "delta": DELTA,
        "rounds": rounds, "fakes": "zero", "decay": 0.0,
    }  # fmt: skip
    return FakeGradients(1.5, "corrected", **(given | changes)), replaced()


# In a few trainings of several rounds, a factor near 0 changes sign on one data set only, so that
# the submissions on both are the same from then on.
@pytest.mark.parametrize(("rounds", "near"), [(1, 1e-3), (7, 1e-2)])
def test_the_corrected_claim_is_reached_where_all_deviations_are_full(
    rounds: int, near: float
) -> None:
    defense, pair = alone(rounds)
    before, after = (defense.prepare(data, pair.public) for data in (pair.before, pair.after))
    streams = Streams.first(SEED, "law/absent", LANES)
    squares = np.zeros(LANES)
    for _, law in defense.observe(before, after, before, streams):
        squares += (((law.present - law.absent) / law.scale) ** 2).sum(1)
    full = np.array([gaussian_epsilon(float(mu), DELTA) for mu in np.sqrt(squares)])
    assert (full > 1.5 * (1 - 1e-3)).sum() >= LANES - 2
    assert full.max() <= 1.5
    whole = steps_law(submitted(defense, pair), delta=DELTA, seed=SEED)
    estimate = whole.epsilon
    # Clipping bounds the divergence, and is nearly reached.
    most = defense.steps_mu(before) ** 2 / 2
    assert (1 - 1e-3) * most < whole.divergences.max() <= most
    # σ is within 1e-4 of the least that keeps ε, and vectors are cut 1e-5 short of the bound.
    assert 1.5 * (1 - near) < estimate.value <= 1.5
    claim = defense.claim()
    assert claim is not None
    assert (claim.epsilon, claim.delta) == (1.5, DELTA)


@pytest.mark.long
@pytest.mark.parametrize("fakes", ["zero", "delayed-mean"])
@pytest.mark.parametrize("batch", [None, 1])
def test_the_corrected_claim_holds_for_users_who_change_wholly(fakes: Any, batch: Any) -> None:
    defense, _ = alone(9, dimensions=3, clip_norm=0.2, fakes=fakes, batch_size=batch, spread=1.0)
    data = [[(0, 1.0), (1, 5.0), (2, 2.0)], [(0, 4.0), (2, 2.0)], [(1, 3.0), (3, 5.0)]]
    ratings = from_profiles(data, 6, STARS)
    turned = np.array([5.0, 1.0, 5.0], np.float32)
    change = UserReplaced(0, ratings.profile(0).items, turned)
    game = submitted(defense, pair_of(ratings, apply(ratings, change)))
    estimate = steps_law(game, delta=DELTA, seed=SEED).epsilon
    assert 0.1 < estimate.value <= 1.5


def sums(rounds: int, **changes: Any) -> DistinguishingGame[Any]:
    """The public observer's game of a social training that starts from one value."""
    given: dict[str, Any] = {"noise_kind": "equal", "spread": 0.5} | changes
    part = PrivSR(2.0, dimensions=1, social=0.0, rounds=rounds, start="constant", **given)
    return trained_game(part, replaced(), LikelihoodRatio(), "iterates")


@pytest.mark.long
def test_one_step_with_laplace_noise_has_the_epsilon_of_its_distances() -> None:
    seen = sums(1)
    estimate = steps_law(seen, delta=0.0, seed=SEED, trainings=8).epsilon
    # 2 (r' − r) u, with noise Lap(2Δ/ε): the share u of ε, as it goes from end to end.
    assert estimate.value == pytest.approx(2.0 * 0.5, rel=1e-6)
    assert estimate.kind == "assumes-law"
    assert estimate.upper == estimate.value
    # With one kind of submissions only it is that kind's ε.
    kinds = sums(1, noise_kind="personal", beta=0.5)
    other = steps_law(kinds, delta=0.0, seed=SEED, trainings=8).epsilon
    assert other.value == pytest.approx((1 + 1 / 0.5) * 2.0 * 0.5, rel=1e-6)
    # No trial shows more, and some show as much.
    scores = seen.run(trials=400, seed=1)
    largest = max(abs(scores.present).max(), abs(scores.absent).max())
    assert largest == pytest.approx(1.0, abs=GRID)


@pytest.mark.long
def test_several_steps_with_laplace_noise_have_no_epsilon() -> None:
    seen = sums(2, learning_rate=0.1)
    assert math.isinf(steps_law(seen, delta=0.0, seed=SEED, trainings=8).epsilon.value)
    # V is unbounded, and so is what the second step shows: it exceeds that of two fixed steps.
    scores = seen.run(trials=500, seed=1)
    assert max(abs(scores.present).max(), abs(scores.absent).max()) > 3 * 2 * 1.0


# Divergences from scores.


def scored(source: np.random.Generator, mu: float, n: int) -> GameScores:
    """Log-likelihood ratios of N(0, 1) and N(μ, 1), on the grid."""
    present, absent = (
        np.rint((sign * mu**2 / 2 + mu * source.standard_normal(n)) / GRID) * GRID
        for sign in (1, -1)
    )
    return GameScores(absent, present)


def misses(estimates: list[Estimate], truth: float, width: float = 1.0) -> int:
    """How many intervals of this share of their width do not hold the truth."""
    return sum(
        truth > e.value + width * (e.upper - e.value)
        or truth < e.value - width * (e.value - e.lower)
        for e in estimates
    )


# At the least μ a score has some ten values: what makes them distinct must not count.
@pytest.mark.cases(("mu", "runs"), [(1.5, 150), (0.7, 150), (0.02, 60)])
def test_all_three_estimates_cover_the_divergence(mu: float, runs: int) -> None:
    source, truth = np.random.default_rng(3), mu**2 / 2
    tried = [
        score_divergences(scored(source, mu, 600), seed=run, alpha=0.05) for run in range(runs)
    ]
    # At a rate of 1e-6 over the three though 5 % miss.
    limit = stats.binom.isf(3e-7, runs, 0.05)
    for name in WAYS:
        estimates = [by_name[name] for by_name in tried]
        assert misses(estimates, truth) <= limit, name
        assert all(e.alpha == 0.05 for e in estimates)
        # Half the width, and a divergence half as large, are noticed.
        assert mu < 0.5 or misses(estimates, truth, 0.5) > limit, name
        assert mu < 1 or misses(estimates, truth / 2) > limit, name


def test_the_mean_log_ratio_is_of_the_scores_as_they_are() -> None:
    scores = scored(np.random.default_rng(4), 1.0, 200)
    estimates = score_divergences(scores, seed=1, alpha=0.1)
    low, high = stats.t.interval(0.9, 199, scores.present.mean(), stats.sem(scores.present))
    mean = estimates["mean log-ratio"]
    assert (mean.value, mean.lower, mean.upper) == pytest.approx(
        (scores.present.mean(), max(0, low), high)
    )
    again = score_divergences(scores, seed=1, alpha=0.1)
    assert again == estimates
    other = score_divergences(scores, seed=2, alpha=0.1)
    assert other["mean log-ratio"] == mean
    near, there = (by_name["nearest neighbours"].value for by_name in (estimates, other))
    # Which noise is added matters less than which trials were drawn.
    assert 0 < abs(near - there) < (estimates["nearest neighbours"].upper - near) / 2


def test_the_divergence_is_that_of_the_second_data_set_from_the_first() -> None:
    # No log-ratios, but numbers whose two divergences differ. Rate 1e-6 for each interval.
    source = np.random.default_rng(7)
    scores = GameScores(source.standard_normal(3000), 0.5 * source.standard_normal(3000))
    estimates = score_divergences(scores, seed=0, alpha=1e-6)
    there, back = (0.25 - 1) / 2 + math.log(2), (4 - 1) / 2 - math.log(2)
    for name in WAYS[1:]:
        assert estimates[name].lower <= there <= estimates[name].upper < back


def test_scores_that_are_all_the_same_show_no_divergence() -> None:
    same = np.zeros(300)
    estimates = score_divergences(GameScores(same, same), seed=0, alpha=1e-6)
    assert list(estimates) == WAYS
    for estimate in estimates.values():
        assert estimate.lower == 0
        assert estimate.value < 0.5
    # Two separate atoms are distinguished.
    apart = score_divergences(GameScores(same, same + 1), seed=0, alpha=1e-6)
    assert all(estimate.lower > 0.5 for estimate in apart.values())


@pytest.mark.cases(("trials", "names"), [(1, []), (2, WAYS[:1]), (4, WAYS[:2]), (12, WAYS)])
def test_what_too_few_trials_cannot_show_is_left_out(trials: int, names: list[str]) -> None:
    estimates = score_divergences(scored(np.random.default_rng(6), 1.0, trials), seed=0, alpha=0.05)
    assert list(estimates) == names


@pytest.mark.parametrize("adjacency", ["user-add-remove", "user-replace"])
def test_clipped_descent_bounds_the_divergence_of_its_iterates(adjacency: Any) -> None:
    """All K rounds of a user who is clipped, by the noise of a round; both vectors may be full."""
    pair = replaced()
    chosen: dict[str, Any] = {"dimensions": 2, "epochs": 3, "clip_norm": 0.5, "delta": DELTA}
    defense = SgdFactors(1.0, "corrected", adjacency=adjacency, **chosen)
    before, after = (defense.prepare(data, pair.public) for data in (pair.before, pair.after))
    squares = np.zeros(LANES)
    for _, law in defense.observe(before, after, after, Streams.first(SEED, "law", LANES)):
        squares += (((law.present - law.absent) / law.scale) ** 2).sum(1)
    most = defense.steps_mu(before)
    assert most == 2 * 0.5 * math.sqrt(3) / defense.noise_deviation(before.n_items)
    assert 0 < math.sqrt(squares.max()) <= most
    assert math.isinf(SgdFactors(1.0, "published", dimensions=2).steps_mu(before))
