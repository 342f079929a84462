"""Transcripts as the auditor runs them: divergences, observed pairs, closed forms of detection."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
from detection_laws import energy_power, ratio_auc, sequence_kl  # type: ignore[import-not-found]
from numpy.typing import NDArray
from scipy import stats

from dpaudit.attacks.base import SubmissionTest
from dpaudit.attacks.federated.gradient_ratio import GradientRatio
from dpaudit.attacks.federated.residuals import Energy, TwoSample, ZeroMean
from dpaudit.audits.federated.transcripts import Checkpoint, Finding, Truth, run_transcript
from dpaudit.core.releases import Round, UserItemPairs, Verdicts
from dpaudit.core.streams import Streams
from dpaudit.data import Ratings, Scale
from dpaudit.defenses.federated.fake_gradients import Distances, FakeGradients

Exact = NDArray[np.float64]
N, M, D = 24, 10, 3
STARS = Scale()
SMALL: dict[str, Any] = {"dimensions": D, "rounds": 8, "offset": 3.0, "spread": 0.7}
TRIAL = Streams.first(4, "transcript", 1)
MODELS = {
    "published": FakeGradients(20.0, **SMALL),
    "batch": FakeGradients(20.0, **SMALL, batch_size=3),
    "zero": FakeGradients(20.0, **SMALL, fakes="zero"),
    "rating": FakeGradients(20.0, **SMALL, fakes="rating", batch_size=4),
    "corrected": FakeGradients(20.0, "corrected", **SMALL, clip_norm=0.3),
    "two-valued": FakeGradients(20.0, **SMALL, fakes="two-valued", batch_size=5),
}
NONPRIVATE = FakeGradients(math.inf, "nonprivate", **SMALL)


def drawn() -> Ratings:
    source = np.random.default_rng(2)
    user, item = np.nonzero(source.random((N, M)) < 0.4)
    value = source.integers(1, 6, len(user)).astype(np.float32)
    return Ratings.build(user, item, value, N, M, STARS)


def transcript(defense: FakeGradients, users: NDArray[np.bool_] | None = None) -> Any:
    return defense.transcript(defense.prepare(drawn()), TRIAL, users)


def run(
    given: Any,
    attacks: dict[str, SubmissionTest] | None = None,
    steps: Any = (2, 5, 8),
    asked: Any = None,
    seed: int = 1,
) -> list[Checkpoint]:
    asked = steps if asked is None else asked
    return list(run_transcript(given, attacks or {}, steps, asked, seed))


def kept(round_: Round) -> Round:
    """A copy of a round, whose arrays are not overwritten."""
    names = ("place", "shown", "factors", "fakes", "gradients", "made_up")
    arrays: dict[str, Any] = {name: copy(getattr(round_, name)) for name in names}
    return Round(**arrays)


# Divergences.


def divergence_of(pairs: UserItemPairs, round_: Round, row: int) -> float:
    """Of one submission, in nats."""
    g = round_.gradients[row].astype(np.float64)
    if pairs.level is not None:
        # One of 2 d outcomes; for a fake both signs are equally likely.
        slope = np.clip(g, -1, 1) * len(g) / pairs.level
        return float(sum(
            p * math.log(2 * p) for s in slope.tolist() for p in ((1 + s) / 2, (1 - s) / 2) if p
        )) / len(g)  # fmt: skip
    item = pairs.items[round_.place[row]]
    fake = round_.fakes[item] if round_.made_up is None else round_.made_up[row]
    return float(sequence_kl(g[None], fake[None].astype(np.float64), pairs.sigma))


@pytest.mark.cases("users", [None, np.arange(N) % 3 == 1], ids=["everybody", "some"])
@pytest.mark.cases("name", MODELS)
def test_divergences_are_sums_over_the_rounds_so_far(name: str, users: Any) -> None:
    given = transcript(MODELS[name], users)
    total, expected = np.zeros(len(given.pairs)), {}
    for step, (round_, _) in enumerate(given.rounds(), 1):
        for row, pair in enumerate(round_.place.tolist()):
            total[pair] += divergence_of(given.pairs, round_, row)
        expected[step] = total.copy()
    outcome = run(transcript(MODELS[name], users))
    assert [checkpoint.step for checkpoint in outcome] == [2, 5, 8]
    for checkpoint in outcome:
        # The last checkpoint must not overwrite the divergences of an earlier one.
        np.testing.assert_allclose(
            checkpoint.divergence, expected[checkpoint.step], rtol=1e-4, atol=1e-7
        )
        assert checkpoint.seen == {}
    assert (outcome[0].divergence <= outcome[2].divergence).all()
    assert outcome[0].divergence.sum() < outcome[2].divergence.sum()


@pytest.mark.parametrize("name", ["published", "zero"])
def test_parts_of_the_divergence_add_up_to_its_mean_over_all_ratings(name: str) -> None:
    given = transcript(MODELS[name])
    one: list[Distances] = [distances for _, distances in transcript(MODELS[name]).rounds()]
    for checkpoint in run(given):
        parts = checkpoint.parts
        assert parts is not None
        mean = checkpoint.divergence[given.real].mean(dtype=np.float64)
        assert parts.scatter + parts.apart == pytest.approx(mean, rel=1e-4)
        for part in ("scatter", "apart", "delay", "estimate"):
            total = sum(getattr(distances, part) for distances in one[: checkpoint.step])
            assert getattr(parts, part) == pytest.approx(total / (2 * given.pairs.sigma**2))
        assert parts.scatter > 0.01 * mean
        # Fakes of other pairs, or of other rounds, have other means.
        others = checkpoint.divergence[~given.real].mean(dtype=np.float64)
        assert others != pytest.approx(mean, rel=1e-3)
        # Fakes of mean zero estimate no previous mean, so these parts are 0.
        assert ((parts.delay, parts.estimate) == (0, 0)) is (name == "zero")
        if name == "zero" and checkpoint.step == 8:
            assert parts.apart > 0.05 * mean


@pytest.mark.cases("name", ["batch", "rating", "corrected", "two-valued"])
def test_where_fakes_are_each_users_own_cut_or_of_some_there_are_no_parts(name: str) -> None:
    assert all(checkpoint.parts is None for checkpoint in run(transcript(MODELS[name])))


def test_a_training_without_noise_is_run_and_claims_no_divergence() -> None:
    given = transcript(NONPRIVATE)
    outcome = run(given)
    assert [checkpoint.step for checkpoint in outcome] == [2, 5, 8]
    assert all(checkpoint.parts is None for checkpoint in outcome)
    assert given.real.all()


# Which pairs are observed, and when.


@dataclass
class Noted:
    """A reader that keeps all rounds."""

    pairs: UserItemPairs
    rounds: list[Round] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)

    def see(self, round_: Round) -> None:
        self.rounds.append(kept(round_))

    def verdicts(self) -> Verdicts:
        self.asked.append(len(self.rounds))
        scores = np.full(len(self.pairs), 100.0 * len(self.rounds))
        return Verdicts(scores, None)


@dataclass
class Passive(SubmissionTest):
    """An attack that makes one such reader."""

    pairs: int | None = None
    readers: list[Noted] = field(default_factory=list)

    @property
    def most_pairs(self) -> int | None:
        return self.pairs

    def reader(self, pairs: UserItemPairs) -> Noted:
        self.readers.append(Noted(pairs))
        return self.readers[-1]


def test_attackers_of_all_are_shown_every_round_as_it_is() -> None:
    given, attack = transcript(MODELS["rating"]), Passive()
    rounds = [kept(round_) for round_, _ in transcript(MODELS["rating"]).rounds()]
    outcome = run(given, {"all": attack})
    [noted] = attack.readers
    assert noted.pairs is given.pairs
    assert len(noted.rounds) == len(rounds)
    for seen, round_ in zip(noted.rounds, rounds, strict=True):
        for name, array in vars(round_).items():
            np.testing.assert_array_equal(getattr(seen, name), array)
    for checkpoint in outcome:
        np.testing.assert_array_equal(checkpoint.seen["all"].rows, np.arange(len(given.pairs)))


@pytest.mark.cases("name", MODELS)
@pytest.mark.cases("count", [20, 37, 100_000])
def test_attackers_of_some_are_shown_their_own_pairs_alone(name: str, count: int) -> None:
    given, attack = transcript(MODELS[name]), Passive(count)
    rounds = [kept(round_) for round_, _ in transcript(MODELS[name]).rounds()]
    outcome = run(given, {"some": attack})
    [noted] = attack.readers
    rows = outcome[0].seen["some"].rows
    # As many real as fake, in the order of the pairs.
    counts = [int((given.real[rows] == label).sum()) for label in (True, False)]
    assert counts == [min(count // 2, int((given.real == x).sum())) for x in (True, False)]
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(noted.pairs.users, given.pairs.users[rows])
    np.testing.assert_array_equal(noted.pairs.items, given.pairs.items[rows])
    for same in ("dimensions", "sigma", "level", "shares", "candidates"):
        assert getattr(noted.pairs, same) is getattr(given.pairs, same)
    for seen, round_ in zip(noted.rounds, rounds, strict=True):
        # Places index the attack's own pairs; mapped back, they are the pairs that submitted.
        mine = np.isin(round_.place, rows)
        np.testing.assert_array_equal(rows[seen.place], round_.place[mine])
        for part in ("shown", "gradients", "made_up"):
            whole = getattr(round_, part)
            if whole is None:
                assert getattr(seen, part) is None
            else:
                np.testing.assert_array_equal(getattr(seen, part), whole[mine])
        np.testing.assert_array_equal(seen.fakes, round_.fakes)
        np.testing.assert_array_equal(seen.factors, round_.factors)
    for checkpoint in outcome:
        assert len(checkpoint.seen["some"].verdicts.scores) == len(rows)


def test_which_pairs_are_observed_is_decided_by_the_seed_alone() -> None:
    def rows(seed: int, name: str = "batch", **others: SubmissionTest) -> list[int]:
        attacks: dict[str, SubmissionTest] = {**others, "some": Passive(30)}
        checkpoints = run(transcript(MODELS[name]), attacks, seed=seed)
        chosen: list[int] = checkpoints[-1].seen["some"].rows.tolist()
        return chosen

    assert rows(1) == rows(1, energy=Energy()) == rows(1, "zero")
    assert rows(1) != rows(2)
    assert len({tuple(rows(seed)) for seed in range(8)}) == 8


def test_attackers_are_asked_where_it_is_said_and_nowhere_else() -> None:
    attacks = {"all": Passive(), "some": Passive(20)}
    outcome = run(transcript(MODELS["batch"]), dict(attacks), [1, 2, 3, 6, 8], asked=[2, 8])
    assert [checkpoint.step for checkpoint in outcome] == [1, 2, 3, 6, 8]
    assert [set(checkpoint.seen) for checkpoint in outcome] == [
        set(),
        {*attacks},
        set(),
        set(),
        {*attacks},
    ]
    for attack in attacks.values():
        assert attack.readers[0].asked == [2, 8]
        assert len(attack.readers[0].rounds) == 8
    # Each verdict uses only the rounds up to its checkpoint.
    assert outcome[1].seen["all"].verdicts.scores[0] == 200
    assert outcome[4].seen["all"].verdicts.scores[0] == 800
    assert all(len(checkpoint.divergence) for checkpoint in outcome)


# Closed forms: fixed gradients and fakes.


class Fixed:
    """Every pair has its own user and submits in every round, all for one item.

    Real ones are `N(g_t, σ²)`, fakes `N(F_t, σ²)`.
    """

    def __init__(
        self, real: NDArray[np.bool_], gradients: Exact, fakes: Exact, sigma: float, seed: int
    ) -> None:
        count = len(real)
        self.real, self._seed = real, seed
        self._gradients, self._fakes = gradients, fakes
        self.pairs = UserItemPairs(
            users=np.arange(count, dtype=np.int32),
            items=np.zeros(count, np.int32),
            dimensions=gradients.shape[1],
            sigma=sigma,
            level=None,
            shares=np.full(1, 0.5),
            candidates=np.full(1, count),
        )

    def rounds(self) -> Iterator[tuple[Round, None]]:
        source, count = np.random.default_rng(self._seed), len(self.real)
        for gradient, fake in zip(self._gradients, self._fakes, strict=True):
            noise = self.pairs.sigma * source.standard_normal((count, len(fake)))
            shown = np.where(self.real[:, None], gradient, fake) + noise
            yield (
                Round(
                    np.arange(count, dtype=np.int32),
                    shown.astype(np.float32),
                    np.zeros((1, len(fake)), np.float32),
                    fake[None].astype(np.float32),
                    np.tile(gradient, (count, 1)).astype(np.float32),
                ),
                None,
            )


COUNT, SIGMA, ALPHA = 3000, 0.7, 1e-6
ROUNDS = (10, 100, 400)
RATIO, DETECTOR = "known", "energy"
BOTH: dict[str, SubmissionTest] = {RATIO: GradientRatio(), DETECTOR: Energy()}


@cache
def fixed(k: int, mu: float) -> tuple[Fixed, Checkpoint]:
    """k rounds whose real and fake means are at total distance μ; half of the pairs are real."""
    source = np.random.default_rng(k)
    fakes = source.standard_normal((k, D))
    away = source.standard_normal((k, D))
    away *= mu * SIGMA / np.linalg.norm(away)
    given = Fixed(np.arange(2 * COUNT) % 2 == 0, fakes + away, fakes, SIGMA, k + 1)
    [checkpoint] = run(given, BOTH, steps=[k])
    return given, checkpoint


def findings(given: Fixed, checkpoint: Checkpoint) -> dict[tuple[str, Any, Any, Any], Finding]:
    truth = Truth(given.pairs, given.real, 1 - ALPHA)
    return {
        (finding.metric, finding.attack, finding.detail, finding.at): finding
        for finding in truth.findings(checkpoint, last=False)
    }


def inside(count: int, n: int, rate: float) -> bool:
    """Whether a count of n trials is consistent with this rate; wrong with probability 1e-6."""
    low, high = (float(law(5e-7, n, rate)) for law in (stats.binom.ppf, stats.binom.isf))
    return low <= count <= high


@pytest.mark.cases("k", ROUNDS)
def test_the_known_ratio_has_the_area_of_its_normal_law(k: int) -> None:
    mu = 1.5
    given, outcome = fixed(k, mu)
    scores = outcome.seen[RATIO].verdicts.scores
    # Every pair is in one comparison only, so the comparisons are independent.
    right = int((scores[given.real] > scores[~given.real]).sum())
    for other, holds in ((mu, True), (mu * math.sqrt(2), False), (mu / math.sqrt(2), False)):
        assert inside(right, COUNT, float(ratio_auc(other))) is holds
    area = findings(given, outcome)["transcript.auc", RATIO, None, None].estimate
    # The interval is one of 1 − 1e-6 for many users.
    truth = stats.norm.cdf(mu / math.sqrt(2))
    assert area.lower <= truth <= area.upper
    assert area.upper - area.lower < 0.08
    assert not area.lower <= stats.norm.cdf(mu) <= area.upper
    assert not area.lower <= 0.5 <= area.upper


@pytest.mark.cases("k", ROUNDS)
def test_the_energy_detector_has_the_power_of_the_noncentral_law(k: int) -> None:
    # μ is such that about half are found; longer sequences need a larger one.
    mu, level = math.sqrt(2.5 * math.sqrt(2 * k * D)), 0.01
    given, outcome = fixed(k, mu)
    by_key = findings(given, outcome)
    caught, false = (
        by_key["transcript.power", DETECTOR, name, level].estimate for name in ("real", "fake")
    )
    power = float(energy_power(mu, k * D, level))
    assert 0.2 < power < 0.8
    assert power == pytest.approx(
        stats.ncx2.sf(stats.chi2.isf(level, k * D), k * D, mu**2), rel=1e-9
    )
    hits = round(caught.value * COUNT)
    assert inside(hits, COUNT, power)
    for other in (mu * math.sqrt(2), mu / math.sqrt(2)):
        assert not inside(hits, COUNT, float(energy_power(other, k * D, level)))
    assert inside(round(false.value * COUNT), COUNT, level)
    assert not inside(round(false.value * COUNT), COUNT, 3 * level)
    assert caught.lower <= power <= caught.upper
    assert false.lower <= level <= false.upper
    # An attack that knows the gradients misses none at this distance.
    assert by_key["transcript.power", RATIO, "real", level].estimate.value > power + 0.2


@pytest.mark.cases("k", ROUNDS)
def test_the_mean_divergence_is_half_the_squared_distance(k: int) -> None:
    given, outcome = fixed(k, 1.5)
    whole = findings(given, outcome)["transcript.kl", None, "whole", None].estimate
    assert whole.value == pytest.approx(1.5**2 / 2, rel=1e-4)
    # All pairs have the same divergence, so it does not vary between users.
    assert whole.upper - whole.lower < 1e-6


def test_real_submissions_of_the_fakes_law_are_not_told_from_fakes() -> None:
    source = np.random.default_rng(8)
    fakes = source.standard_normal((12, D))
    attacks: dict[str, SubmissionTest] = {
        "z": ZeroMean(statistic="z"),
        "t": ZeroMean(),
        "sign": ZeroMean(statistic="sign"),
        "hotelling": ZeroMean(statistic="hotelling", pairs=800),
        "ks": TwoSample(pairs=800),
        "energy": Energy(),
        "differences": Energy(rounds="difference"),
        "model": GradientRatio(knows="model"),
    }
    for away, detection in ((0.0, False), (0.4, True)):
        real = np.arange(2000) % 2 == 0
        given = Fixed(real, fakes + away, fakes, SIGMA, 9)
        [outcome] = run(given, attacks, steps=[12])
        by_key = findings(given, outcome)
        areas = {label: by_key["transcript.auc", label, None, None].estimate for label in attacks}
        apart = {label: area.lower > 0.5 for label, area in areas.items()}
        # Intervals of 1 − 1e-6 each, for many users.
        for area in areas.values():
            assert detection or area.lower <= 0.5 <= area.upper
            assert area.upper - area.lower < 0.25
        # A user's direction cannot be learned from one pair, and differences barely show a shift.
        assert all(apart[label] for label in ("z", "t", "sign", "energy", "ks")) is detection, areas
        exposed = by_key["transcript.exposed", "z", "Holm", 0.05].estimate.value
        assert (exposed > 0.05) is detection
