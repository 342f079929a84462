"""The server's view of a federated training and the ground truth, by brute force."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.core.releases import Round
from dpaudit.core.streams import Streams
from dpaudit.data import Ratings, Scale
from dpaudit.defenses.federated.fake_gradients import Distances, FakeGradients, TrainingTranscript
from dpaudit.defenses.federated.settings import Candidates
from dpaudit.defenses.federated.training import FederatedTraining

STARS = Scale()
N, M, D = 24, 10, 3
Exact = NDArray[np.float64]
SMALL: dict[str, Any] = {"dimensions": D, "rounds": 8, "offset": 3.0, "spread": 0.7}
TRIAL = Streams.first(4, "transcript", 1)
EVERYBODY = np.ones(N, np.bool_)
SOME = np.arange(N) % 3 == 1

MODELS = {
    "published": FakeGradients(20.0, **SMALL),
    "batch": FakeGradients(20.0, **SMALL, batch_size=3),
    "zero": FakeGradients(20.0, **SMALL, fakes="zero"),
    "zero batch": FakeGradients(20.0, **SMALL, fakes="zero", batch_size=4),
    "delay": FakeGradients(20.0, **SMALL, delay=2),
    "rating": FakeGradients(20.0, **SMALL, fakes="rating"),
    "each round": FakeGradients(20.0, **SMALL, fakes="rating", made_up="each-round", batch_size=5),
    "corrected": FakeGradients(20.0, "corrected", **SMALL),
    "corrected batch": FakeGradients(120.0, "corrected", **SMALL, clip_norm=0.3, batch_size=3),
    "nonprivate": FakeGradients(math.inf, "nonprivate", **SMALL),
    "two-valued": FakeGradients(20.0, **SMALL, fakes="two-valued"),
}
NORMAL = [name for name, model in MODELS.items() if model.noisy]


def drawn() -> Ratings:
    """The first user rated nothing; nobody rated the last item."""
    source = np.random.default_rng(2)
    rated = source.random((N, M)) < 0.4
    rated[0] = rated[:, -1] = False
    user, item = np.nonzero(rated)
    value = source.integers(1, 6, len(user)).astype(np.float32)
    return Ratings.build(user, item, value, N, M, STARS)


@dataclass(frozen=True)
class State:
    """Users, items and fakes as a round begins."""

    left: Exact
    right: Exact
    fakes: Exact

    @classmethod
    def of(cls, training: FederatedTraining) -> State:
        server = training.server
        both = training.clients.factors, server.factors, server.fakes
        return cls(*(factors[:, :D].astype(np.float64) for factors in both))

    def gradients(self, candidates: Candidates, rows: NDArray[np.intp], values: Exact) -> Exact:
        u, v = self.left[candidates.users[rows]], self.right[candidates.items[rows]]
        slopes: Exact = -(values - 3 - (u * v).sum(1))[:, None] * u
        return slopes


def outcome(
    defense: FakeGradients, users: NDArray[np.bool_] = EVERYBODY
) -> tuple[TrainingTranscript, list[tuple[Round, Distances | None]], list[State]]:
    """A transcript, and the states of the same training run separately."""
    candidates = defense.prepare(drawn())
    transcript = defense.transcript(candidates, TRIAL, users)
    beside, states = FederatedTraining(defense, candidates, TRIAL, apart=users), []
    rounds = list(transcript.rounds())
    for seen, _ in rounds:
        states.append(State.of(beside))
        sent = beside.submit()
        mine = users[candidates.users[sent.apart]]
        np.testing.assert_array_equal(seen.shown, sent.shown[mine, :D])
        beside.learn(sent)
    assert len(rounds) == defense.rounds
    np.testing.assert_array_equal(transcript.models().items[0], beside.models().items[0])
    return transcript, rounds, states


def rows_of(
    transcript: TrainingTranscript, candidates: Candidates, users: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """The candidate of each pair."""
    rows = np.flatnonzero(users[candidates.users])
    assert len(rows) == len(transcript.pairs) == len(transcript.real)
    return rows


@pytest.mark.cases("users", [EVERYBODY, SOME], ids=["everybody", "some"])
@pytest.mark.cases("name", MODELS)
def test_pairs_are_the_observed_users_candidates(name: str, users: NDArray[np.bool_]) -> None:
    defense = MODELS[name]
    candidates = defense.prepare(drawn())
    transcript, rounds, _ = outcome(defense, users)
    rows, pairs = rows_of(transcript, candidates, users), transcript.pairs
    np.testing.assert_array_equal(pairs.users, candidates.users[rows])
    np.testing.assert_array_equal(pairs.items, candidates.items[rows])
    np.testing.assert_array_equal(transcript.real, candidates.real[rows])
    assert pairs.dimensions == D
    assert pairs.sigma == defense.sigma(candidates)
    assert (pairs.sigma > 0) is (name in NORMAL)
    assert pairs.level == (defense.level if name == "two-valued" else None)
    server = FederatedTraining(defense, candidates, TRIAL).server
    np.testing.assert_array_equal(pairs.shares, server.shares)
    # Candidates of all users count, observed or not.
    counts_of = [int((candidates.items == item).sum()) for item in range(M)]
    np.testing.assert_array_equal(pairs.candidates, counts_of)
    assert transcript.floored == server.floored
    for seen, _ in rounds:
        assert (np.diff(pairs.users[seen.place]) >= 0).all()
        assert len(set(seen.place.tolist())) == len(seen.place)
        counts = candidates.counts[users]
        submitted = counts if defense.batch_size is None else np.minimum(counts, defense.batch_size)
        times = np.bincount(pairs.users[seen.place], minlength=N)[users]
        np.testing.assert_array_equal(times, submitted)
        for part in (seen.shown, seen.gradients):
            assert part.shape == (len(seen.place), D)
        assert seen.factors.shape == seen.fakes.shape == (M, D)
        assert (seen.made_up is None) is (defense.fakes != "rating")


def test_everybody_is_observed_unless_it_is_said_who() -> None:
    defense = MODELS["batch"]
    candidates = defense.prepare(drawn())
    transcript = defense.transcript(candidates, TRIAL)
    assert len(transcript.pairs) == len(candidates)
    nobody = defense.transcript(candidates, TRIAL, np.zeros(N, np.bool_))
    assert len(nobody.pairs) == 0
    assert all(len(seen.place) == 0 for seen, _ in nobody.rounds())


@pytest.mark.cases("users", [EVERYBODY, SOME], ids=["everybody", "some"])
@pytest.mark.cases("name", MODELS)
def test_gradients_are_the_truth_of_rated_pairs_and_a_stand_ins_of_others(
    name: str, users: NDArray[np.bool_]
) -> None:
    defense = MODELS[name]
    candidates = defense.prepare(drawn())
    transcript, rounds, states = outcome(defense, users)
    rows = rows_of(transcript, candidates, users)
    cut_once = cut_more = False
    longest = {True: 0.0, False: 0.0}
    for (seen, _), state in zip(rounds, states, strict=True):
        np.testing.assert_array_equal(seen.factors, state.right)
        np.testing.assert_array_equal(seen.fakes, state.fakes)
        mine = rows[seen.place]
        expected = state.gradients(candidates, mine, candidates.values[mine].astype(np.float64))
        if defense.variant == "corrected":
            fakes = state.fakes[candidates.items[mine]]
            away = expected - fakes
            for user in np.flatnonzero(users):
                of_user = candidates.users[mine] == user
                rated = float((away[of_user & candidates.real[mine]] ** 2).sum())
                for row in np.flatnonzero(of_user):
                    # The gradient of an item that the user has not rated would count as well.
                    own_too = 0.0 if candidates.real[mine[row]] else float((away[row] ** 2).sum())
                    cut = defense.clip_norm / max(math.sqrt(rated + own_too), defense.clip_norm)
                    if own_too:
                        # If only rated items counted for clipping, some would be longer.
                        alone = defense.clip_norm / max(math.sqrt(rated), defense.clip_norm)
                        cut_more |= alone * math.sqrt(own_too) > 1.05 * defense.clip_norm
                    cut_once |= bool(cut < 0.9)
                    expected[row] = fakes[row] + cut * away[row]
            # No gradient, of a real pair or of a fake, is farther from F than clip_norm.
            lengths = np.linalg.norm(seen.gradients.astype(np.float64) - fakes, axis=1)
            for label in (True, False):
                these = lengths[candidates.real[mine] == label]
                assert these.max() <= defense.clip_norm
                longest[label] = max(longest[label], these.max())
        np.testing.assert_allclose(seen.gradients, expected, atol=3e-5)
    assert cut_once is cut_more is (defense.variant == "corrected")
    if defense.variant == "corrected":
        # Some gradients are nearly that far, so the test is not vacuous.
        assert min(longest.values()) > 0.8 * defense.clip_norm
    assert abs(states[-1].left - states[0].left).max() > 1e-3


def expected_mean(
    transcript: TrainingTranscript, seen: Round, real: NDArray[np.bool_] | None = None
) -> Exact:
    """What is submitted without noise, `(n, d)`."""
    where = (transcript.real if real is None else real)[seen.place, None]
    fakes = seen.fakes[transcript.pairs.items[seen.place]]
    absent = fakes if seen.made_up is None else seen.made_up
    submissions: Exact = np.where(where, seen.gradients, absent).astype(np.float64)
    return submissions


@pytest.mark.cases("name", NORMAL)
def test_what_is_shown_is_gradient_or_fake_with_the_stated_noise(name: str) -> None:
    from scipy.stats import kstest

    defense = MODELS[name]
    for users in (EVERYBODY, SOME):
        transcript, rounds, _ = outcome(defense, users)
        sigma = transcript.pairs.sigma
        z, swapped = (
            np.concatenate([
                (seen.shown - expected_mean(transcript, seen, real)).ravel() / sigma
                for seen, _ in rounds
            ])
            for real in (transcript.real, ~transcript.real)
        )  # fmt: skip
        assert z.size > 300
        # 18 cases: 5e-7, and 4e-7.
        assert kstest(z, "norm").pvalue > 3e-8
        assert abs((z**2).sum() - z.size) < 5.9 * math.sqrt(2 * z.size)
        # Other noise, and the gradient in place of the fake, are detected.
        assert abs((2 * z**2).sum() - z.size) > 5.9 * math.sqrt(2 * z.size)
        assert (swapped**2).sum() > (z**2).sum() + 5.9 * math.sqrt(2 * z.size) or sigma > 0.5


@pytest.mark.parametrize("name", ["rating", "each round"])
def test_what_is_made_up_is_a_gradient_of_a_rating_on_the_scale(name: str) -> None:
    defense = MODELS[name]
    candidates = defense.prepare(drawn())
    transcript, rounds, states = outcome(defense)
    rows = rows_of(transcript, candidates, EVERYBODY)
    before: Exact | None = None
    anew = False
    for (seen, distances), state in zip(rounds, states, strict=True):
        assert distances is None
        assert not seen.fakes.any()
        assert seen.made_up is not None
        mine = rows[seen.place]
        options = np.array([
            state.gradients(candidates, mine, np.full(len(mine), value)) for value in STARS.values
        ])  # fmt: skip
        away = abs(options - seen.made_up).max(2)
        nearest = STARS.values[away.argmin(0)]
        assert away.min(0).max() < 3e-5
        if name == "rating":
            np.testing.assert_array_equal(nearest, candidates.made_up[mine])
        else:
            ratings = np.full(len(candidates), np.nan)
            ratings[mine] = nearest
            if before is not None:
                both = ~np.isnan(before + ratings)
                anew |= bool((before != ratings)[both].any())
            before = ratings
    assert anew is (name == "each round")


def test_two_valued_submissions_show_one_coordinate() -> None:
    defense = FakeGradients(400.0, **(SMALL | {"spread": 2.0}), fakes="two-valued")
    transcript, rounds, _ = outcome(defense)
    level = transcript.pairs.level
    assert level is not None
    total = np.zeros((2, D))
    squares, count = np.zeros(2), np.zeros(2, int)
    for seen, distances in rounds:
        assert distances is None
        assert ((seen.shown != 0).sum(1) == 1).all()
        np.testing.assert_allclose(abs(seen.shown).max(1), level, rtol=1e-6)
        # The mean of a real submission is the gradient clipped to ±1 by coordinate, of a fake 0.
        real = transcript.real[seen.place]
        mean = np.where(real[:, None], np.clip(seen.gradients, -1, 1), 0)
        for k, of in enumerate((real, ~real)):
            total[k] += (np.sign(seen.gradients) * (seen.shown - mean))[of].sum(0)
            squares[k] += level**2 / D * of.sum()
            count[k] += of.sum()
        assert (abs(seen.gradients) > 1).any()
    assert count.min() > 300
    # Six sums beyond 5.2 deviations: 1e-6. Unclipped gradients would be detected.
    assert (abs(total) < 5.2 * np.sqrt(squares)[:, None]).all()
    uncut = sum(
        (abs(seen.gradients) - np.clip(abs(seen.gradients), 0, 1))[transcript.real[seen.place]].sum(
            0
        )
        for seen, _ in rounds
    )
    assert (uncut > 10.4 * math.sqrt(squares[0])).any()


@pytest.mark.cases("users", [EVERYBODY, SOME], ids=["everybody", "some"])
@pytest.mark.cases("name", ["published", "zero", "delay", "nonprivate"])
def test_distances_are_those_over_all_ratings(name: str, users: NDArray[np.bool_]) -> None:
    defense = MODELS[name]
    candidates = defense.prepare(drawn())
    _, rounds, states = outcome(defense, users)
    rated = np.flatnonzero(candidates.real)
    items = candidates.items[rated]
    before: Exact | None = None
    for (_, distances), state in zip(rounds, states, strict=True):
        assert distances is not None
        g = state.gradients(candidates, rated, candidates.values[rated].astype(np.float64))
        mean = np.zeros((M, D))
        for j in set(items.tolist()):
            mean[j] = g[items == j].mean(0)

        def squared(vectors: Exact) -> float:
            return float((vectors**2).sum(1).mean())

        fakes = state.fakes[items]
        assert distances.scatter == pytest.approx(squared(g - mean[items]), rel=1e-4)
        assert distances.apart == pytest.approx(squared(mean[items] - fakes), rel=1e-4)
        assert distances.scatter + distances.apart == pytest.approx(squared(g - fakes), rel=1e-4)
        # With fakes = 'zero' or delayed steps, F does not estimate the previous round's mean.
        if before is None or name in {"zero", "delay"}:
            assert distances.delay == distances.estimate == 0
        else:
            # Gradients change little from round to round, so the relative rounding error is larger.
            delay = squared((mean - before)[items])
            assert distances.delay == pytest.approx(delay, rel=1e-3)
            assert distances.estimate == pytest.approx(squared(fakes - before[items]), rel=1e-4)
            assert delay > 0
        before = mean


@pytest.mark.cases(
    "name", ["batch", "zero batch", "corrected", "corrected batch", "two-valued", "rating"]
)
def test_where_a_fake_is_no_f_or_users_cut_or_send_some_there_are_no_distances(name: str) -> None:
    _, rounds, _ = outcome(MODELS[name])
    assert all(distances is None for _, distances in rounds)


# So tight a bound that every user is cut in every round.
CUT = FakeGradients(20.0, "corrected", **SMALL, clip_norm=1e-3, fakes="zero")


@pytest.mark.cases("name", ["corrected", "corrected batch", "two-valued", "cut"])
@pytest.mark.cases("users", [EVERYBODY, SOME], ids=["everybody", "some"])
def test_no_training_has_a_larger_divergence_than_clipping_allows(
    name: str, users: NDArray[np.bool_]
) -> None:
    defense = {**MODELS, "cut": CUT}[name]
    transcript, rounds, _ = outcome(defense, users)
    total, pairs = np.zeros(len(transcript.pairs)), transcript.pairs
    for seen, _ in rounds:
        if pairs.level is None:
            apart = seen.gradients - seen.fakes[pairs.items[seen.place]]
            total[seen.place] += (apart.astype(float) ** 2).sum(1) / (2 * pairs.sigma**2)
            continue
        tilt = np.clip(seen.gradients, -1, 1) * D / pairs.level
        coins = [np.where(t > -1, (1 + t) * np.log1p(np.maximum(t, -1 + 1e-16)), 0)
                 for t in (tilt, -tilt)]  # fmt: skip
        total[seen.place] += (coins[0] + coins[1]).mean(1) / 2
    mean = total[transcript.real].mean()
    assert 0 < mean <= transcript.most * (1 + 1e-5)
    if name == "cut":
        assert mean == pytest.approx(transcript.most, rel=1e-3)


@pytest.mark.cases("name", ["published", "zero", "rating"])
def test_nothing_bounds_the_divergence_of_unclipped_gradients(name: str) -> None:
    assert math.isinf(outcome(MODELS[name])[0].most)
