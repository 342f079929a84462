"""Wang & Tang 2017: the catalogue's games, and the defenses of section 3.

Of descent with Laplace noise, `OneStepGame` is on the first step on data of any size, and
`BatchGame` on training with mini-batches that the observer does not know.

`RowsGame` is on exact draws of a few rows of a similarity posterior on ratings of any size. Rows
are independent given the ratings, and each depends only on the ratings of its item's raters. So the
rows of items with few raters can be drawn exactly, even if the whole matrix cannot. An observer of
the whole matrix sees these rows too, so their ε is a lower bound on the matrix's.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing import LikelihoodRatio
from dpaudit.auditor.games import CERTAIN, GameScores
from dpaudit.audits.trained.pairs import DataPair
from dpaudit.claims.games import DataGame, StepsGame, graded, scored
from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity
from dpaudit.defenses.neighborhood.similarity import Floats, SimilarityData, Slope, moved_rows
from dpaudit.defenses.training_checks import lane_blocks
from dpaudit.kernels import exact_noise, lanes, noise


def published(neighbors: int, epsilon: float = 1.0, **params: Any) -> SgdSimilarity:
    """Return Algorithm 1 with initial similarities that have `|S_i| I_u = 10`, the default C."""
    set_ = {"steps": 1, "start": 1 / neighbors, "more_than": 0, **params}
    return SgdSimilarity(epsilon=epsilon, **set_)


def whole_users(epsilon: float = 1.0, **params: Any) -> SgdSimilarity:
    """Return the corrected form, which protects whole users, with one step."""
    return SgdSimilarity(
        epsilon=epsilon, variant="corrected", steps=1, start=0.5, more_than=0, **params
    )


@dataclass(frozen=True, eq=False)
class OneStepGame(StepsGame):
    """Observer `iterates` of a single full-batch step.

    All trials start from the same similarities, so the two gradients are computed once and not in
    every trial. Each observed step comes from a training with its own noise. The exact ε of the
    pair has a closed form.
    """

    defense: SgdSimilarity

    def run(self, trials: int, seed: int) -> GameScores:
        """Train and score.

        Raises:
            ValueError: there is more than one step, or a mini-batch.
        """
        before, after = self.prepared()
        rows = list(gradients(self.defense, before, after))
        attack = LikelihoodRatio()

        def score(trained: SimilarityData, every: Streams) -> NDArray[np.float64]:
            parts = []
            for streams in lane_blocks(every):
                total = np.zeros(len(streams))
                for item, moved, pair in rows:
                    row, following = (
                        iterate[moved] for iterate in self.defense.iterates(trained, item, streams)
                    )
                    shown = self.defense.revealed(before, row, following, 1)[:, : len(streams)].T
                    total += np.clip(attack.score(NoisedSteps(shown), pair), -CERTAIN, CERTAIN)
                parts.append(np.clip(total, -CERTAIN, CERTAIN))
            return np.concatenate(parts)

        truth = one_step_epsilon(self.defense, self.data)
        return scored(score, (before, after), "steps", trials, seed, truth)


def gradients(
    defense: SgdSimilarity, before: SimilarityData, after: SimilarityData
) -> Iterator[tuple[int, NDArray[np.int64], StepsPair]]:
    """Yield each row that differs: its item, the coordinates that change, and both gradients there.

    Raises:
        ValueError: there is more than one step, or a mini-batch.
    """
    if defense.steps != 1 or defense.sampling_rate != 1:
        raise ValueError(
            "the gradients have a closed form only for one step on all ratings: set steps and "
            "sampling_rate to 1"
        )
    streams = Streams.first(0, "law", 1)
    for item in moved_rows(before, after).tolist():
        row = next(defense.iterates(before, item, streams))
        old, new = (
            defense.slope(data, 1).of(data, item, row)[0][:, 0].astype(np.float64)
            for data in (before, after)
        )
        moved = np.flatnonzero(old != new)
        scale = np.full(len(moved), defense.noise_scale(1, before.scale, before.n_items))
        yield item, moved, StepsPair(old[moved], new[moved], scale, gaussian=False)


def one_step_epsilon(defense: SgdSimilarity, pair: DataPair) -> Estimate:
    """Return the ε of one full-batch step: the gradient's L1 shift over the noise's scale.

    The noise is independent on every coordinate, and an output can lie beyond both gradients on all
    coordinates at once.

    Raises:
        ValueError: there is more than one step, or a mini-batch.
    """
    before, after = (defense.prepare(ratings, pair.public) for ratings in (pair.before, pair.after))
    epsilon = sum(
        float((abs(steps.present - steps.absent) / steps.scale).sum())
        for _, _, steps in gradients(defense, before, after)
    )
    return Estimate.exact(epsilon, "Laplace noise on the gradient, L1 shift")


@dataclass(frozen=True, eq=False)
class BatchGame(StepsGame):
    """Observer `iterates` of steps on one rating, or one user, drawn uniformly.

    The law of a step's noised gradient g is a mixture over the n units that can be drawn. With
    noise of scale b and the units' gradients `m_1 … m_n`,

        ln p(g) = ln (1/n) Σ_k exp(Σ_c (|g_c| − |g_c − m_kc|)/b) + terms that D and D' share.

    The score is the sum of `ln p'/p` over the steps, on a grid: the exact likelihood ratio.
    """

    def run(self, trials: int, seed: int) -> GameScores:
        """Train and score."""
        before, after = self.prepared()
        for data in (before, after):
            drawn = self.defense.sampling_rate * self._count(data)
            if not math.isclose(drawn, 1):
                raise ValueError(
                    f"a mini-batch has {drawn:g} of {self._count(data)} units: make it 1 by "
                    "sampling_rate, as the mixture's density is known for one"
                )

        def score(trained: SimilarityData, streams: Streams) -> NDArray[np.float64]:
            return np.concatenate(
                [self._score(before, after, trained, part) for part in lane_blocks(streams)]
            )

        return scored(score, (before, after), "batches", trials, seed, self.truth)

    def _count(self, data: SimilarityData) -> int:
        """Number of units to draw from: users in the corrected mechanism, else ratings."""
        users = self.defense.variant == "corrected"
        return len(data.profiles.start) - 1 if users else len(data.places)

    def _score(
        self,
        before: SimilarityData,
        after: SimilarityData,
        trained: SimilarityData,
        streams: Streams,
    ) -> NDArray[np.float64]:
        items = range(trained.n_items)
        iterates = [
            [row.copy() for row in self.defense.iterates(trained, item, streams)] for item in items
        ]
        total = np.zeros(lanes.LANES)
        for t in range(1, self.defense.steps + 1):
            rows = [iterate[t - 1] for iterate in iterates]
            shown = [
                self.defense.revealed(before, iterate[t - 1], iterate[t], t) for iterate in iterates
            ]
            total += self._log_density(after, rows, shown, t)
            total -= self._log_density(before, rows, shown, t)
        return graded(total[: len(streams)])

    def _log_density(
        self, data: SimilarityData, rows: list[Floats], shown: list[NDArray[np.float64]], t: int
    ) -> NDArray[np.float64]:
        """Return `ln p` of the step from `rows`, up to terms without gradients, `(16,)`."""
        slope = self.defense.slope(data, t)
        scale = self.defense.noise_scale(t, data.scale, data.n_items)
        losses: dict[int, NDArray[np.float64]] = defaultdict(lambda: np.zeros(lanes.LANES))
        for item, (row, noised) in enumerate(zip(rows, shown, strict=True)):
            entries = data.entries(item)
            for k, user in enumerate(data.raters.column[entries]):
                taken = np.zeros((entries.stop - entries.start, lanes.LANES), np.float32)
                taken[k] = 1
                mean = slope.of(data, item, row, taken)[0]
                unit = int(user) if self.defense.variant == "corrected" else entries.start + k
                losses[unit] += (abs(noised) - abs(noised - mean)).sum(0) / scale
        # Users without ratings have gradient 0.
        idle = self._count(data) - len(losses)
        mixed = np.logaddexp.reduce(list(losses.values()), axis=0)
        return np.logaddexp(mixed, math.log(idle)) if idle else mixed


Numbers = NDArray[np.float64]

# Trials per block, which no draw depends on, and the largest number of proposals per trial.
_BLOCK, _MOST_ATTEMPTS = 2048, 5000
# The least acceptance rate of a game that is quick enough, and the proposals that estimate it.
_ACCEPTED, _PROPOSALS = 0.1, 500
# The probability that the normalisers' intervals miss them, and the least denominator.
_MISSED, _TINY = 1e-9, 1e-30


@dataclass(frozen=True, eq=False)
class RaterLoss:
    """The loss `k (clip(y, low, high) − x_i)²` of one rater of a row, `y = Σ s_j x_j / Σ |s_j|`.

    Attributes:
        places: indices of the rater's other items among the row's neighbours `(n,)`.
        values: `x_j` of these items `(n,)`.
        target: `x_i`.
        low: lower clipping bound of y.
        high: upper clipping bound of y.
    """

    places: NDArray[np.int64]
    values: Numbers
    target: float
    low: float
    high: float

    def of(self, s: Numbers) -> Numbers:
        """Return the loss for k = 1 of the rows `s` `(W, N)` of W trials `(W,)`."""
        mine = s[:, self.places]
        y = (mine * self.values).sum(1) / np.maximum(abs(mine).sum(1), _TINY)
        losses: Numbers = (np.clip(y, self.low, self.high) - self.target) ** 2
        return losses

    def range(self) -> tuple[float, float]:
        """Return the least and the largest loss for k = 1: y takes any value in `± max |x_j|`."""
        most = float(abs(self.values).max())
        low, high = max(self.low, -most), min(self.high, most)
        nearest = min(max(self.target, low), high)
        return (nearest - self.target) ** 2, max(
            (low - self.target) ** 2, (high - self.target) ** 2
        )


@dataclass(frozen=True, eq=False)
class SeenRow:
    """The row of an item that the target user rates in D' only.

    Attributes:
        size: number of the row's neighbours, the other items of its raters.
        others: losses of the raters in both data sets.
        target: loss of the target user, who rates the item in D' only.
    """

    size: int
    others: tuple[RaterLoss, ...]
    target: RaterLoss

    def loss(self, s: Numbers, *, present: bool) -> Numbers:
        """Return the loss for k = 1 on D' or on D of the rows `s` `(W, N)` of W trials `(W,)`."""
        total = np.zeros(len(s))
        for rater in (*self.others, self.target) if present else self.others:
            total += rater.of(s)
        return total


def seen_rows(
    before: SimilarityData, after: SimilarityData, slope: Slope, user: int
) -> list[SeenRow]:
    """Return the rows of the items that `user` rates in D' only; other raters are the same."""
    profiles = before.profiles
    mine = slice(int(profiles.start[user]), int(profiles.start[user + 1]))
    theirs = slice(int(after.profiles.start[user]), int(after.profiles.start[user + 1]))
    return [
        _row(before, after, slope, user, int(item))
        for item in np.setdiff1d(after.profiles.column[theirs], profiles.column[mine])
    ]


def _row(
    before: SimilarityData, after: SimilarityData, slope: Slope, user: int, item: int
) -> SeenRow:
    sides = [(before, int(u)) for u in before.raters.column[before.entries(item)]]
    sides.append((after, user))
    known: dict[int, int] = {}
    raters = []
    for data, rater in sides:
        mine = slice(int(data.profiles.start[rater]), int(data.profiles.start[rater + 1]))
        items, values = data.profiles.column[mine], data.centred[mine].astype(np.float64)
        others = items != item
        if others.any():
            places = [known.setdefault(int(j), len(known)) for j in items[others]]
            raters.append(
                RaterLoss(
                    np.array(places, np.int64),
                    values[others],
                    float(values[~others][0]),
                    slope.flat_from,
                    slope.flat_to,
                )
            )
    return SeenRow(len(known), tuple(raters[:-1]), raters[-1])


@dataclass(frozen=True, eq=False)
class RowsGame(DataGame):
    """Observer `public` of a posterior sampler on ratings: the rows of the target user's new items.

    A row's law has density `∝ exp(−k Σ_u e_ui²)` on its directions, under the normal prior. With
    `h = −k e²` of the target user its log-ratio is `h − ln E_D[e^h]`, so the score is the negative
    mean of the target user's squared errors.

    Attributes:
        user: the target user, who rates in D' only items that they do not rate in D.
    """

    user: int = field(kw_only=True)

    instead: ClassVar[str] = "; exact draws of rows of its law"

    def run(self, trials: int, seed: int) -> GameScores:
        """Draw from both laws, and score by the target user's mean squared error.

        Raises:
            ConfigError: a user has so many ratings that N_k binds.
            RunError: 5000 proposals of a row were rejected.
        """
        rows, weight = self._rows

        def errors(dataset: str) -> Numbers:
            streams = Streams.first(seed, f"rows/{dataset}", trials)
            parts = streams.blocks(_BLOCK)
            return np.concatenate(
                [draw_errors(rows, weight, part, present=dataset == "present") for part in parts]
            )

        absent, present = errors("absent"), errors("present")
        return GameScores(
            graded(-absent.mean(1)), graded(-present.mean(1)), rows_epsilon(rows, weight, absent)
        )

    def drawable(self) -> bool:
        """Whether the estimated acceptance rate of every row is at least one in ten.

        Raises:
            ConfigError: a user has so many ratings that N_k binds.
        """
        rows, weight = self._rows
        streams = Streams.first(0, "proposals", _PROPOSALS)
        for row in rows:
            draws = np.empty((_PROPOSALS, row.size), np.float32)
            noise.normal(draws, streams.trials, 0, streams.key)
            losses = row.loss(draws.astype(np.float64), present=True)
            if np.exp(-weight * losses).mean() < _ACCEPTED:
                return False
        return True

    @cached_property
    def _rows(self) -> tuple[list[SeenRow], float]:
        """The observed rows, and k."""
        before, after = self.prepared()
        most = int(max(np.diff(data.profiles.start).max() for data in (before, after))) - 1
        if most > self.defense.neighbors:
            raise ConfigError(
                f"a user has {most} neighbours of an item, and params.neighbors = "
                f"{self.defense.neighbors} would leave some out: raise it"
            )
        slope = self.defense.slope(before)
        rows = seen_rows(before, after, slope, self.user)
        weight = self.defense.factor(before.scale) / (2 * self.defense.temperature)
        return rows, weight


def draw_errors(rows: list[SeenRow], weight: float, streams: Streams, *, present: bool) -> Numbers:
    """Draw rows from their law and return the target user's squared errors `(W, R)`.

    Rejection sampling (von Neumann): normal proposals, accepted with probability `exp(−k ℓ)`.

    Raises:
        RunError: 5000 proposals of a row were rejected.
    """
    ends = np.cumsum([row.size for row in rows])
    errors = np.full((len(streams), len(rows)), np.nan)
    left = np.arange(len(streams))
    for attempt in range(_MOST_ATTEMPTS):
        trials = streams.trials[left]
        draws = np.empty((len(left), int(ends[-1])), np.float32)
        noise.normal(draws, trials, 2 * attempt, streams.key)
        limits = np.empty((len(left), len(rows)), np.float64)
        exact_noise.laplace(limits, trials, 2 * attempt + 1, streams.key)
        for r, (row, end) in enumerate(zip(rows, ends, strict=True)):
            s = draws[:, end - row.size : end].astype(np.float64)
            # P(E >= x) = e^−x for an exponential E, the absolute value of a Laplace draw.
            accepted = weight * row.loss(s, present=present) <= abs(limits[:, r])
            new = accepted & np.isnan(errors[left, r])
            errors[left[new], r] = row.target.of(s[new])
        left = np.flatnonzero(np.isnan(errors).any(1))
        if not len(left):
            return errors
    raise RunError(
        f"{_MOST_ATTEMPTS} proposals of a row of the exact law were not accepted: use items with "
        "fewer raters or a smaller epsilon"
    )


def rows_epsilon(rows: list[SeenRow], weight: float, absent: Numbers) -> Estimate:
    """Return the ε of all rows together, `sup |Σ_i h_i − ln E_D[e^{h_i}]|` with `h = −k e²`.

    The suprema have closed forms, since a rater's prediction takes any value in `± max |x_j|`. Each
    expectation is estimated from draws, with an interval by Hoeffding 1963.

    Args:
        rows: the rows.
        weight: k.
        absent: the target user's squared errors in draws from the law on D `(W, R)`.
    """
    ends = np.array([row.target.range() for row in rows])
    top, bottom = np.exp(-weight * ends).T
    mean = np.exp(-weight * absent).mean(0)
    reach = (top - bottom) * math.sqrt(math.log(2 * len(rows) / _MISSED) / (2 * len(absent)))

    def epsilon(shift: Numbers) -> tuple[float, float]:
        constants = np.log(np.clip(mean + shift, bottom, top))
        up = float((np.log(top) - constants).sum())
        return up, float((constants - np.log(bottom)).sum())

    (up, down), (more, less), (fewer, greater) = map(epsilon, (0 * reach, -reach, reach))
    return Estimate(
        value=max(up, down),
        lower=max(fewer, less),
        upper=max(more, greater),
        confidence=1 - _MISSED,
        alpha=_MISSED,
        n=len(absent),
        method="range of the target user's errors, normalisers by draws",
        kind="assumes-law",
    )
