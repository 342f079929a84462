"""Users and server of a federated training against a plain training in double precision."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.core.errors import NoModelError
from dpaudit.core.streams import Streams
from dpaudit.data import Ratings, Scale
from dpaudit.defenses.factors import joined, width
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.defenses.federated.settings import Candidates, FakeGradientsSettings
from dpaudit.defenses.federated.training import AdaDelta, FederatedTraining

STARS = Scale()
N, M = 14, 9
Exact = NDArray[np.float64]
SMALL: dict[str, Any] = {"dimensions": 3, "rounds": 6, "offset": 3.0, "spread": 0.5}
ONE_IN_A_MILLION = 1e-6


def drawn(seed: int = 0) -> Ratings:
    """The first user rated nothing; nobody rated the last item."""
    source = np.random.default_rng(seed)
    rated = source.random((N, M)) < 0.4
    rated[0] = rated[:, -1] = False
    user, item = np.nonzero(rated)
    value = source.integers(1, 6, len(user)).astype(np.float32)
    return Ratings.build(user, item, value, N, M, STARS)


def trial(index: int = 0) -> Streams:
    return Streams(Streams.first(1, "test", 1).key, np.array([index], np.int64))


def silent(defense: FakeGradients, apart: bool | NDArray[np.bool_] = False) -> FederatedTraining:
    """A training whose submissions have no noise."""
    users = np.full(N, apart) if isinstance(apart, bool) else apart
    training = FederatedTraining(defense, defense.prepare(drawn()), trial(), apart=users)
    training.sigma = 0.0
    return training


@pytest.mark.cases(("dimensions", "size"), [(1, 16), (16, 16), (17, 32), (40, 64), (128, 128)])
def test_a_row_of_factors_has_room(dimensions: int, size: int) -> None:
    assert width(dimensions) == size
    defense = FakeGradients(1.0, dimensions=dimensions, spread=2.0)
    training = FederatedTraining(defense, defense.prepare(drawn()), trial())
    for factors, count in ((training.clients.factors, N), (training.server.factors, M)):
        assert factors.shape == (count, size)
        assert factors[:, :dimensions].all()
        assert not factors[:, dimensions:].any()
    assert not training.server.fakes.any()


def test_initial_factors_have_their_law_and_users_and_items_share_none() -> None:
    from scipy.stats import kstest

    defense = FakeGradients(1.0, dimensions=16, spread=0.3)
    prepared = defense.prepare(drawn())
    trainings = [FederatedTraining(defense, prepared, trial(w)) for w in range(60)]
    users = np.concatenate([training.clients.factors.ravel() for training in trainings])
    items = np.concatenate([training.server.factors.ravel() for training in trainings])
    for factors in (users, items):
        assert kstest(factors.astype(np.float64) / 0.3, "norm").pvalue > ONE_IN_A_MILLION
        assert kstest(factors.astype(np.float64) / 0.33, "norm").pvalue < ONE_IN_A_MILLION
    together = np.corrcoef(users[: len(items)], items)[0, 1]
    assert abs(together) * math.sqrt(len(items)) < 5


# AdaDelta.


@dataclass
class PlainAdaDelta:
    """Zeiler 2012, Algorithm 1, as printed: RMS[·] = √(E[·²] + ε)."""

    memory: float
    rate: float = 1.0
    squares: Exact | float = 0.0
    steps: Exact | float = 0.0

    def moved(self, factors: Exact, slope: Exact) -> Exact:
        self.squares = self.memory * self.squares + (1 - self.memory) * slope**2
        step = -np.sqrt(self.steps + 1e-6) / np.sqrt(self.squares + 1e-6) * slope
        self.steps = self.memory * self.steps + (1 - self.memory) * step**2
        return factors + self.rate * step


@pytest.mark.cases(
    ("memory", "rate", "decades", "rounding"),
    [(0.0, 1, 0, 5e-4), (0.5, 1, 1, 1e-6), (0.95, 1, 2, 1e-6), (0.95, 0.1, 2, 1e-6)],
)
def test_steps_are_those_of_adadelta(
    memory: float, rate: float, decades: int, rounding: float
) -> None:
    source = np.random.default_rng(0)
    factors = source.normal(size=(5, 16)).astype(np.float32)
    exact, plain = factors.astype(np.float64), PlainAdaDelta(memory, rate)
    adapt = AdaDelta(FakeGradients(1.0, memory=memory, learning_rate=rate), factors)
    for _ in range(30):
        slope = (
            source.normal(size=(5, 16)) * 10.0 ** source.integers(-decades, decades + 1, (5, 16))
        ).astype("f4")
        adapt.step(factors, slope)
        exact = plain.moved(exact, slope.astype(np.float64))
        np.testing.assert_allclose(factors, exact, rtol=1e-5, atol=rounding)
    before = factors.copy()
    adapt.step(factors, np.zeros_like(factors))
    np.testing.assert_array_equal(factors, before)


# Warner's response.


def asked(shares: tuple[float, ...], n: int) -> Candidates:
    """`n` users who have every item as a candidate; these shares of them rated the items."""
    m = len(shares)
    users, items = (part.astype(np.int32) for part in np.divmod(np.arange(n * m), m))
    zeros = np.zeros(n * m, np.float32)
    return Candidates(
        start=np.arange(n + 1, dtype=np.int64) * m,
        users=users,
        items=items,
        values=zeros + 3,
        made_up=zeros + 1,
        real=users < np.array(shares)[items] * n,
        n_items=m,
        scale=STARS,
    )


@pytest.mark.long
def test_the_response_is_unbiased_with_its_stated_variance() -> None:
    from scipy.stats import chi2

    shares, n, trials, p = (0.2, 0.5, 0.75), 400, 1500, 0.75
    defense = FakeGradients(1.0, truth=p, dimensions=1)
    candidates = asked(shares, n)
    estimates = np.array(
        [FederatedTraining(defense, candidates, trial(w)).server.shares for w in range(trials)]
    )
    variance = p * (1 - p) / ((2 * p - 1) ** 2 * n)
    mean, spread = estimates.mean(0), estimates.var(0, ddof=1)
    error = math.sqrt(variance / trials)
    # False failures: 3 · 3e-7 of the means, 3 · 2 · 1e-7 of the variances.
    assert (abs(mean - shares) < 5.1 * error).all()
    low, high = chi2.ppf([1e-7, 1 - 1e-7], trials - 1) / (trials - 1)
    assert (low < spread / variance).all()
    assert (spread / variance < high).all()
    # An error of 0.01 in the probability of a true answer is detected,
    off = (p - 1 + (p - 0.01) * np.array(shares) + (1 - p + 0.01) * (1 - np.array(shares))) / (
        2 * p - 1
    )
    assert abs(mean - off).max() > 5.1 * error
    # and so is the variance of raters that are redrawn in each trial.
    assert (spread / (variance + 0.25 / n) < low).any()
    assert abs(np.corrcoef(estimates.T) - np.eye(3)).max() < 5.1 / math.sqrt(trials)


def test_shares_below_the_least_are_raised_to_it_and_counted() -> None:
    from scipy.stats import binom

    # No user rated the items: an estimate is below 0.05 if fewer than 0.275 n answer yes. The last
    # item has no candidates and is not counted.
    n, trials, p, least = 41, 400, 0.75, 0.05
    defense = FakeGradients(1.0, truth=p, dimensions=1, least_share=least)
    whole = asked((0.0, 0.0, 0.0, 0.0), n)
    candidates = replace(whole.only(whole.items < 3), n_items=4)
    floored = []
    for w in range(trials):
        server = FederatedTraining(defense, candidates, trial(w)).server
        assert (server.shares >= least).all()
        assert server.floored == (server.shares[:3] == least).sum()
        assert server.shares[3] == least
        floored.append(server.floored)
    chance = float(binom.cdf(math.ceil((least * (2 * p - 1) + 1 - p) * n) - 1, n, 1 - p))
    low, high = binom.ppf([5e-7, 1 - 5e-7], 3 * trials, chance)
    assert low <= sum(floored) <= high
    assert not low <= 3 * trials * 0.5 <= high


def test_true_answers_tell_the_share_exactly_and_others_ask_nothing() -> None:
    shares = (0.25, 0.5, 1.0)
    candidates = asked(shares, 40)
    kinds: list[tuple[FakeGradients, Any]] = [
        (FakeGradients(1.0, truth=1.0), shares),
        (FakeGradients(1.0, fakes="zero", density=0.75), 0.25),
        (FakeGradients(1.0, fakes="two-valued", density=0.75), 0.25),
        (FakeGradients(1.0, fakes="rating", density=0.75), 1.0),
        (FakeGradients(1.0, "corrected", density=0.75), 0.25),
        (FakeGradients(math.inf, "nonprivate", density=0.75), 1.0),
    ]
    for defense, expected in kinds:
        server = FederatedTraining(defense, candidates, trial()).server
        np.testing.assert_allclose(server.shares, np.broadcast_to(expected, 3))
        assert server.floored == 0


# A whole round.


@dataclass
class Plain:
    """A training without noise, user by user and item by item."""

    defense: FakeGradientsSettings
    candidates: Candidates
    shares: Exact
    left: Exact
    right: Exact
    fakes: Exact = field(init=False)

    def __post_init__(self) -> None:
        self.fakes = np.zeros_like(self.right)
        self.user_steps = PlainAdaDelta(self.defense.memory)
        self.item_steps = PlainAdaDelta(self.defense.memory)

    def gradient(self, i: int, j: int, rating: float) -> Exact:
        error = rating - self.defense.offset - self.left[i] @ self.right[j]
        slope: Exact = -error * self.left[i]
        return slope

    def submissions(self, order: NDArray[np.int32]) -> Exact:
        candidates, shown = self.candidates, []
        for p in order:
            i, j = int(candidates.users[p]), int(candidates.items[p])
            if candidates.real[p]:
                shown.append(self.gradient(i, j, float(candidates.values[p])))
            elif self.defense.fakes == "rating":
                shown.append(self.gradient(i, j, float(candidates.made_up[p])))
            else:
                shown.append(self.fakes[j])
        rows = np.array(shown)
        if self.defense.variant == "corrected":
            fakes = self.fakes[candidates.items[order]]
            for i in range(candidates.n_users):
                mine = candidates.users[order] == i
                norm = np.linalg.norm((rows - fakes)[mine])
                if norm > self.defense.clip_norm:
                    rows[mine] = fakes[mine] + (rows - fakes)[mine] * self.defense.clip_norm / norm
        return rows

    def run_round(self, order: NDArray[np.int32]) -> None:
        candidates, defense = self.candidates, self.defense
        shown, items = self.submissions(order), self.candidates.items[order]
        slopes = np.zeros_like(self.right)
        for j in range(candidates.n_items):
            n, pi = int((items == j).sum()), self.shares[j]
            if not n:
                continue
            mean = (shown[items == j].sum(0) - (1 - pi) * n * self.fakes[j]) / (pi * n)
            slopes[j] = mean + defense.decay * self.right[j]
            if defense.fakes == "delayed-mean" and defense.variant != "nonprivate":
                cut = max(1.0, float(np.linalg.norm(mean)) / defense.fake_clip_norm)
                self.fakes[j] = mean / cut
        self.right = self.item_steps.moved(self.right, slopes)
        for i in range(candidates.n_users):
            self.learn(i)
        self.left = self.user_steps.moved(self.left, self.slopes)

    def learn(self, i: int) -> None:
        candidates = self.candidates
        if i == 0:
            self.slopes = self.defense.decay * self.left
        mine = np.flatnonzero((candidates.users == i) & candidates.real)
        for p in mine:
            v = self.right[candidates.items[p]]
            error = float(candidates.values[p]) - self.defense.offset - self.left[i] @ v
            self.slopes[i] = self.slopes[i] - error * v / len(mine)


def beside(training: FederatedTraining) -> Plain:
    d = training.defense.dimensions
    left, right = (
        factors[:, :d].astype(np.float64)
        for factors in (training.clients.factors, training.server.factors)
    )
    shares = training.server.shares
    return Plain(training.defense, training.candidates, shares, left, right)


MODELS = [
    FakeGradients(1.0, **SMALL),
    FakeGradients(1.0, **SMALL, fake_clip_norm=0.2, decay=0.0),
    FakeGradients(1.0, **SMALL, batch_size=3, density=0.75),
    FakeGradients(1.0, **SMALL, fakes="zero"),
    FakeGradients(1.0, **SMALL, fakes="rating", batch_size=4),
    FakeGradients(1.0, "corrected", **SMALL),
    FakeGradients(1.0, "corrected", **SMALL, batch_size=3, clip_norm=0.3, memory=0.5),
    FakeGradients(1.0, "corrected", **SMALL, fakes="zero", clip_norm=100.0),
    FakeGradients(math.inf, "nonprivate", **SMALL),
    FakeGradients(math.inf, "nonprivate", **SMALL, batch_size=2),
    FakeGradients(1.0, **(SMALL | {"dimensions": 17})),
]
NAMES = [f"{k}-{model.variant}-{model.fakes}" for k, model in enumerate(MODELS)]


@pytest.mark.cases("defense", MODELS, ids=NAMES)
@pytest.mark.cases("apart", [False, True])
def test_rounds_without_noise_are_those_of_a_plain_training(
    defense: FakeGradients, apart: bool
) -> None:
    training = silent(defense, apart)
    plain, d = beside(training), defense.dimensions
    start = plain.right.copy()
    for _ in range(defense.rounds):
        sent = training.submit()
        shown = plain.submissions(sent.order)
        if apart:
            np.testing.assert_array_equal(sent.apart, sent.order)
            np.testing.assert_allclose(sent.shown[:, :d], shown, atol=2e-4)
        training.learn(sent)
        plain.run_round(sent.order)
        np.testing.assert_allclose(training.server.fakes[:, :d], plain.fakes, atol=2e-4)
        np.testing.assert_allclose(training.server.factors[:, :d], plain.right, atol=2e-5)
        np.testing.assert_allclose(training.clients.factors[:, :d], plain.left, atol=2e-5)
        for factors in (training.server.factors, training.server.fakes):
            assert not factors[:, d:].any()
    # The steps are large: one that is left out, or taken twice, exceeds the tolerance.
    assert training.done == defense.rounds
    assert abs(plain.right - start).max() > 5e-3
    norms = np.linalg.norm(training.server.fakes, axis=1)
    assert (norms <= defense.fake_clip_norm * (1 + 1e-6)).all()
    assert norms.any() == (defense.fakes == "delayed-mean" and defense.variant != "nonprivate")


@pytest.mark.cases("apart", ["nobody", "some", "everybody"])
@pytest.mark.cases("defense", MODELS, ids=NAMES)
def test_who_is_shown_changes_nothing_but_the_noise(defense: FakeGradients, apart: str) -> None:
    chosen = {
        "nobody": np.zeros(N, bool),
        "some": np.arange(N) % 3 == 1,
        "everybody": np.ones(N, bool),
    }
    users = chosen[apart]
    whole, part = silent(defense), silent(defense, users)
    for _ in range(3):
        sent, same = part.submit(), whole.submit()
        np.testing.assert_array_equal(sent.order, same.order)
        np.testing.assert_array_equal(sent.counts, same.counts)
        np.testing.assert_array_equal(
            sent.apart, sent.order[users[part.candidates.users[sent.order]]]
        )
        assert len(sent.shown) == len(sent.apart)
        np.testing.assert_allclose(sent.sums, same.sums, atol=1e-4)
        part.learn(sent)
        whole.learn(same)
        np.testing.assert_allclose(part.server.factors, whole.server.factors, atol=1e-5)


def test_with_true_answers_and_no_noise_the_fake_is_the_mean_gradient() -> None:
    defense = FakeGradients(1.0, **SMALL, truth=1.0, fake_clip_norm=1e6)
    training = silent(defense)
    candidates = training.candidates
    raters = np.bincount(candidates.items[candidates.real], minlength=M)
    assert raters[-1] == 0
    for _ in range(4):
        u = training.clients.factors.astype(np.float64)
        v = training.server.factors.astype(np.float64)
        error = candidates.values - 3 - (u[candidates.users] * v[candidates.items]).sum(1)
        gradients = -error[:, None] * u[candidates.users]
        mean = np.zeros_like(v)
        np.add.at(mean, candidates.items[candidates.real], gradients[candidates.real])
        mean /= np.maximum(raters, 1)[:, None]
        before = training.server.fakes.astype(np.float64)
        training.run_round()
        known = raters > 0
        np.testing.assert_allclose(training.server.fakes[known], mean[known], atol=1e-5)
        # It is not the mean of all submissions, nor the mean of the previous round.
        assert abs(before - mean)[known].max() > 1e-3
    # No user rated the last item, so its share is `least_share` and its fake does not change.
    assert (candidates.items == M - 1).any()
    np.testing.assert_allclose(training.server.fakes[-1], 0, atol=1e-6)


def test_an_item_for_which_nobody_submits_stays_as_it_is() -> None:
    defense = FakeGradients(math.inf, "nonprivate", **SMALL)
    training = silent(defense)
    before = training.server.factors.copy()
    for _ in range(3):
        training.run_round()
    np.testing.assert_array_equal(training.server.factors[-1], before[-1])
    assert (training.server.factors[:-1, :3] != before[:-1, :3]).all()


@pytest.mark.cases("batch", [1, 3, 1000, None])
def test_each_user_submits_a_batch_of_its_candidates(batch: int | None) -> None:
    defense = FakeGradients(1.0, batch_size=batch, dimensions=2)
    training = silent(defense)
    candidates = training.candidates
    expected = candidates.counts if batch is None else np.minimum(candidates.counts, batch)
    assert (expected < candidates.counts).any() == (batch in {1, 3})
    orders = []
    for _ in range(4):
        sent = training.submit()
        assert len(set(sent.order.tolist())) == len(sent.order)
        assert (np.diff(candidates.users[sent.order]) >= 0).all()
        np.testing.assert_array_equal(
            np.bincount(candidates.users[sent.order], minlength=N), expected
        )
        np.testing.assert_array_equal(
            sent.counts, np.bincount(candidates.items[sent.order], minlength=M)
        )
        orders.append(tuple(sent.order.tolist()))
        training.learn(sent)
    assert len(set(orders)) == (4 if batch in {1, 3} else 1)


def test_who_submits_does_not_depend_on_the_ratings() -> None:
    defense = FakeGradients(1.0, "corrected", batch_size=2, dimensions=2)
    ratings = drawn()
    fewer = ratings.only(ratings.item != 3)
    orders: list[list[list[int]]] = []
    for learned in (ratings, fewer):
        training = FederatedTraining(defense, defense.prepare(learned, ratings), trial())
        orders.append([])
        for _ in range(4):
            sent = training.submit()
            orders[-1].append(sent.order.tolist())
            training.learn(sent)
    assert orders[0] == orders[1]


# Noise.


def standard_sums(
    defense: FakeGradients, apart: NDArray[np.bool_], trials: int, wrong: float = 1.0
) -> Exact:
    """The noise in the items' sums of one round over `σ √n`, `(W, M d)`; F is some constant."""
    candidates = defense.prepare(drawn())
    fakes = np.random.default_rng(0).normal(size=(M, 16)).astype(np.float32)
    noises = []
    for w in range(trials):
        sums = []
        for noisy in (True, False):
            training = FederatedTraining(defense, candidates, trial(w), apart=apart)
            training.server.fakes[:, :3] = fakes[:, :3]
            sigma, training.sigma = training.sigma, wrong * training.sigma * noisy
            sent = training.submit()
            sums.append(sent.sums[:, :3].astype(np.float64))
        there = (sent.counts > 0)[:, None]
        deviation = sigma * np.sqrt(np.maximum(sent.counts, 1))[:, None]
        assert there.all() or not (sums[0] - sums[1])[~there[:, 0]].any()
        noises.append(np.where(there, (sums[0] - sums[1]) / deviation, np.nan).ravel())
    return np.array(noises)


@pytest.mark.parametrize(
    "defense",
    [MODELS[0], *(pytest.param(MODELS[number], marks=pytest.mark.long) for number in (2, 5, 6))],
)
def test_noise_drawn_as_a_sum_has_the_law_of_noise_drawn_one_by_one(defense: FakeGradients) -> None:
    from scipy.stats import chi2, kstest

    trials = 400
    for apart in (np.zeros(N, bool), np.arange(N) % 2 == 0, np.ones(N, bool)):
        z = standard_sums(defense, apart, trials)
        law = z[~np.isnan(z)]
        # False failures of all 12 cases: 2.4e-7 here, 2e-7 + 3e-8 + 2e-7 below.
        assert kstest(law, "norm").pvalue > 2e-8
        z = z[:, ~np.isnan(z).any(0)]  # only items that have submissions in every trial
        assert z.shape[1] >= 6
        low, high = chi2.ppf([3e-10, 1 - 3e-10], trials)
        assert (low < (z**2).sum(0)).all()
        assert ((z**2).sum(0) < high).all()
        assert (abs(z.mean(0)) * math.sqrt(trials) < 6.5).all()
        apart_from_itself = abs(np.corrcoef(z.T) - np.eye(z.shape[1]))
        assert apart_from_itself.max() * math.sqrt(trials) < 6.6
        # Half the variance is detected, in the law and in every sum.
        less = z / math.sqrt(2)
        assert kstest(law / math.sqrt(2), "norm").pvalue < 2e-8
        assert ((less**2).sum(0) < low).mean() > 0.5


@pytest.mark.usefixtures("unrounded")
def test_noise_is_scaled_by_sigma() -> None:
    defense = MODELS[0]
    for apart in (np.zeros(N, bool), np.ones(N, bool)):
        once, twice = (standard_sums(defense, apart, 2, wrong) for wrong in (1.0, 2.0))
        np.testing.assert_allclose(twice, 2 * once, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("unrounded")
def test_rounds_users_and_trials_share_no_noise() -> None:
    defense = FakeGradients(1.0, **SMALL, fakes="zero")
    candidates, everybody = defense.prepare(drawn()), np.ones(N, bool)
    noise = []
    for w in (0, 1, 2**33):
        noisy = FederatedTraining(defense, candidates, trial(w), apart=everybody)
        for _ in range(4):
            sigma, noisy.sigma = noisy.sigma, 0.0
            quiet = noisy.submit().shown[:, :3].astype(np.float64)
            noisy.sigma = sigma
            sent = noisy.submit()
            noise.append((sent.shown[:, :3] - quiet).ravel() / sigma)
            noisy.learn(sent)
    rows = np.array(noise)
    assert rows.shape == (12, 3 * len(candidates))
    # 66 correlations beyond 5.6 deviations: 1e-6.
    assert abs(np.corrcoef(rows) - np.eye(12)).max() * math.sqrt(rows.shape[1]) < 5.6
    assert len(np.unique(np.round(rows, 4))) > 0.8 * rows.size


def test_two_valued_submissions_are_drawn_one_by_one_for_everybody() -> None:
    defense = FakeGradients(1.0, **SMALL, fakes="two-valued")
    training = FederatedTraining(defense, defense.prepare(drawn()), trial())
    assert training.sigma == 0
    sent = training.submit()
    np.testing.assert_array_equal(sent.apart, sent.order)
    assert ((sent.shown != 0).sum(1) == 1).all()
    np.testing.assert_allclose(abs(sent.shown).max(1), defense.level, rtol=1e-6)
    sums = np.zeros((M, 16))
    np.add.at(sums, training.candidates.items[sent.order], sent.shown)
    np.testing.assert_allclose(sent.sums, sums, rtol=1e-5)
    assert not sent.shown[:, 3:].any()


# Made-up ratings.


def test_ratings_are_made_up_once_or_in_each_round() -> None:
    from scipy.stats import chisquare

    once, anew = (
        FakeGradients(1.0, **SMALL, fakes="rating", made_up=when) for when in ("once", "each-round")
    )
    candidates = asked((0.5,) * 20, 60)
    first, second = (FederatedTraining(defense, candidates, trial()) for defense in (once, anew))
    seen = []
    for _ in range(5):
        np.testing.assert_array_equal(first.made_up(), candidates.made_up - 3)
        np.testing.assert_array_equal(second.made_up(), second.made_up())
        seen.append(second.made_up())
        submitted = second.submitted()
        np.testing.assert_array_equal(submitted[candidates.real], 0)  # they rated 3
        np.testing.assert_array_equal(submitted[~candidates.real], seen[-1][~candidates.real])
        first.run_round()
        second.run_round()
    values, times = np.unique(np.array(seen), return_counts=True)
    np.testing.assert_array_equal(values, [-2, -1, 0, 1, 2])
    assert chisquare(times).pvalue > ONE_IN_A_MILLION
    assert chisquare(times + np.array([0, 0, 0, 0, 0.25 * times[4]])).pvalue < ONE_IN_A_MILLION
    rounds = np.corrcoef(np.array(seen))
    assert abs(rounds - np.eye(5)).max() * math.sqrt(len(candidates)) < 5.3


def test_ratings_are_made_up_of_a_normal_law() -> None:
    from scipy.stats import kstest

    users, items = np.nonzero(np.random.default_rng(3).random((60, 80)) < 0.3)
    values = np.full(len(users), 4, np.float32)
    ratings = Ratings.build(users, items, values, 60, 80, STARS)
    drawn_ratings = []
    for defense in (
        FakeGradients(1.0, fakes="rating", made_up_mean=2.5, offset=1.0),
        FakeGradients(1.0, fakes="rating", made_up_mean=2.5, offset=1.0, made_up="each-round"),
    ):
        candidates = defense.prepare(ratings)
        training = FederatedTraining(defense, candidates, trial())
        first = training.made_up()
        training.run_round()
        once = defense.made_up == "once"
        assert np.array_equal(first, training.made_up()) is once
        drawn_ratings.append(first if once else training.made_up())
        assert len(first) > 1000
        assert kstest(drawn_ratings[-1], "norm", (1.5, 1)).pvalue > ONE_IN_A_MILLION
        assert kstest(drawn_ratings[-1], "norm", (2.5, 1)).pvalue < ONE_IN_A_MILLION
        uniform = FakeGradients(1.0, fakes="rating").prepare(ratings)
        assert set(uniform.made_up) == set(STARS.values)
        np.testing.assert_array_equal(candidates.items, uniform.items)
        np.testing.assert_array_equal(candidates.values, uniform.values)
    assert abs(np.mean((drawn_ratings[0] - 1.5) * (drawn_ratings[1] - 1.5))) < 0.16


# Results of training.


def test_models_predict_by_the_factors_and_are_joined_in_order() -> None:
    defense = FakeGradients(1.0, **SMALL)
    candidates = defense.prepare(drawn())
    trainings = [FederatedTraining(defense, candidates, trial(w)) for w in range(3)]
    for training in trainings:
        training.run_round()
    users, items = np.array([0, 5, 13], np.int32), np.array([8, 0, 4], np.int32)
    expected = [
        np.clip(
            3 + (f.clients.factors[users] * f.server.factors[items]).sum(1, dtype=np.float64), 1, 5
        )
        for f in trainings
    ]
    models = joined([training.models() for training in trainings])
    assert models.trials == 3
    np.testing.assert_allclose(models.predict(users, items), expected, atol=1e-5)
    public = models.public(np.empty(0, np.int32))
    assert public.factors.shape == (3, M, 4)
    assert not public.factors[:, :, -1].any()
    assert public.mean == 3


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_a_training_that_leaves_the_range_of_numbers_names_the_round() -> None:
    defense = FakeGradients(1.0, **SMALL)
    training = FederatedTraining(defense, defense.prepare(drawn()), trial())
    training.run_round()
    training.sigma = 1e39
    with pytest.raises(NoModelError, match=r"fake-gradients: .* after round 2: .*raise epsilon"):
        training.run_round()
