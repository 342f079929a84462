"""The Langevin chain for the posterior of a matrix factorisation.

Sixteen trials run at once; a large model is trained one trial at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.claim import Variant
from dpaudit.core.errors import NoModelError
from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import FIRST, FactorBlock, FactorRows, Floats, SingleModel, visits
from dpaudit.defenses.training_checks import end_step
from dpaudit.kernels import noise
from dpaudit.kernels.factorization import single_model as factor_model
from dpaudit.kernels.factorization import sixteen_models as kernels
from dpaudit.kernels.lane_noise import Source
from dpaudit.kernels.lanes import LANES

Exact = NDArray[np.float64]

# The cause and remedy in the message about a diverged chain.
_DIVERGED = "its steps grow instead of shrinking; lower params.learning_rate"

# Number of ratings, or of users with all items, whose predictions are tested at a time.
_ROWS = 2**12
# The most predictions that are tested at a time: 512 MiB.
_CELLS = 2**27

# Steps of the noise source reserved for a draw. It uses two for its start, one for each epoch, two
# for the noise due at the end, and three for each epoch if precisions are drawn.
STEPS = 2**20


@dataclass(frozen=True, eq=False)
class SampledRows:
    """The prepared data of a posterior sampler.

    Attributes:
        rows: the ratings.
        weights: `w_u` of each user `(N,)`.
    """

    rows: FactorRows
    weights: Exact


@dataclass(frozen=True, eq=False)
class FactorDraw:
    """The final states of the chains of up to 16 trials.

    Attributes:
        users: the users' factors, then their bias, `(N, d + 1, L)`. L is 16, or 1 for models that
            are trained one at a time.
        items: the items' factors, then their bias, `(M, d + 1, L)`.
        precisions: λ of the users' and of the items' coordinates, `(2, d + 1, L)`.
        count: the number of lanes that are trials.
    """

    users: NDArray[np.float32]
    items: NDArray[np.float32]
    precisions: Exact
    count: int

    def take(self, other: FactorDraw, lanes: NDArray[np.intp]) -> None:
        """Replace the trials in these lanes by those of another draw."""
        self.users[:, :, lanes] = other.users[:, :, lanes]
        self.items[:, :, lanes] = other.items[:, :, lanes]
        self.precisions[:, :, lanes] = other.precisions[:, :, lanes]

    def in_range(
        self, rows: FactorRows, bounds: tuple[float, float], rated: bool
    ) -> NDArray[np.bool_]:
        """Return whether each trial's predictions, of all or only rated pairs, are in range."""
        low, high = bounds
        good = np.ones(self.count, bool)
        step = _ROWS if rated else max(1, min(_ROWS, _CELLS // rows.n_items))
        for w in range(self.count):
            left, right = self.users[:, :, w], self.items[:, :, w]
            for start in range(0, len(rows) if rated else rows.n_users, step):
                some = slice(start, start + step)
                if rated:
                    shown = self._rated(rows, some, w)
                else:
                    u = left[some]
                    shown = u[:, :-1] @ right[:, :-1].T
                    shown += u[:, -1:]
                    shown += right[:, -1]
                    shown += rows.mean
                good[w] &= bool((shown >= low).all() and (shown <= high).all())
        return good

    def squared_errors(self, rows: FactorRows, bounds: tuple[float, float]) -> Exact:
        """Return Σ_i (r_ui − r̂_ui)² of each user and trial `(N, W)`, with r̂ clipped to bounds."""
        errors = np.zeros((rows.n_users, self.count))
        for w in range(self.count):
            for start in range(0, len(rows), _ROWS):
                some = slice(start, start + _ROWS)
                shown = np.clip(self._rated(rows, some, w).astype(np.float64), *bounds)
                np.add.at(errors[:, w], rows.users[some], (rows.values[some] - shown) ** 2)
        return errors

    def _rated(self, rows: FactorRows, some: slice, w: int) -> Floats:
        """Return the predictions of some rows by one trial `(n,)`."""
        u, v = self.users[rows.users[some], :, w], self.items[rows.items[some], :, w]
        shown: Floats = (u[:, :-1] * v[:, :-1]).sum(1) + u[:, -1] + v[:, -1]
        shown += rows.mean
        return shown


@dataclass(frozen=True, eq=False)
class FactorChain:
    """Stochastic gradient Langevin dynamics for a posterior.

    At a temperature of 1 the log-density is, up to a constant,

        −factor · (Σ_u w_u Σ_i (r_ui − r̂_ui)² + Σ_k (λ_k Σ_u u_k² + μ_k Σ_i v_k²)).

    At another temperature it is divided by the temperature. Every λ_k and μ_k is `decay`, or, with
    c = factor/temperature,

        λ_k ~ Gamma(α, β),  u_k | λ_k ~ N(0, 1/(2cλ_k)),  and likewise for μ_k and the items.

    Then the density has a factor λ_k^{1/2} e^{−cλ_k u_k²} for each user, so that given all else

        λ_k ~ Gamma(α + N/2, β + c Σ_u u_k²),

    where β is a rate. λ_k is drawn anew before each epoch (Gibbs), after the noise due to the
    factors has been added. Users without ratings are left out of the sum and of N, and are drawn
    from N(0, 1/(2cλ_k)) at the end. The law is the same, and the chain has fewer coordinates.

    Attributes:
        data: the ratings and `w_u`.
        factor: see above.
        temperature: 0 for plain descent.
        decay: λ if no Gamma law is given.
        gamma: α and β of the Gamma law; None for fixed precisions.
        dimensions: d.
        spread: the standard deviation of the initial factors.
        sizes: the step size of each epoch.
        bounds: the range of r̂ outside which the likelihood is flat.
        biases: whether the model has biases.
        variant: the defense's variant.
        name: the defense's name, for messages.
    """

    data: SampledRows
    factor: float
    temperature: float
    decay: float
    gamma: tuple[float, float] | None
    dimensions: int
    spread: float
    sizes: Sequence[float]
    bounds: tuple[float, float]
    biases: bool
    variant: Variant
    name: str

    def draw(self, streams: Streams, attempt: int = 0) -> FactorDraw:
        """Run the chains of up to 16 trials; each attempt uses other noise.

        Raises:
            ConfigError: an epoch needs more noise than a step of the noise source has.
            NoModelError: the chain diverged.
        """
        rows, start = self.data.rows, attempt * STEPS
        first = FIRST + start
        settling = first + len(self.sizes)
        block = FactorBlock.drawn(rows, self.dimensions, self.spread, streams, start)
        due = [np.zeros(rows.n_users), np.zeros(rows.n_items)]
        precisions = np.full((2, self.dimensions + 1, LANES), self.decay)
        for t, size in enumerate(self.sizes):
            if self.gamma is not None:
                step = settling + 2 + 3 * t
                self._settle(block, due, step, streams)
                precisions = self._precisions(block, self.gamma, step + 2, streams)
            self._pass(block, due, size, precisions, first + t, streams)
            end_step(self.variant, self.name, t + 1, "epoch", _DIVERGED, block.users, block.items)
        self._settle_rest(block, due, precisions, settling, streams)
        return FactorDraw(block.users, block.items, precisions, block.count)

    @cached_property
    def touches(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The number of ratings of each user `(N,)` and of each item `(M,)`."""
        rows = self.data.rows
        return np.diff(rows.start), np.bincount(rows.items, minlength=rows.n_items)

    def langevin(
        self, size: float, users: Floats, items: Floats, variance: float
    ) -> kernels.Langevin:
        """Return the steps of an epoch with these drifts, and this variance of the noise."""
        # A step of η moves by η/2 · 2 · factor · R · w_u e v: one rating stands for all R.
        gains = (size * self.factor * self.data.weights).astype(np.float32)
        bounds = np.float32(self.bounds[0]), np.float32(self.bounds[1])
        return kernels.Langevin(gains, users, items, bounds, variance)

    def drifts(self, size: float) -> tuple[Floats, Floats]:
        """Return the share by which the prior shrinks each user and item at each of their rows.

        If precisions are drawn, it is the share for a precision of 1, and the kernel caps the
        product with the precision at 1.
        """
        shared, most = (1.0, np.inf) if self.gamma is not None else (self.decay, 1.0)
        users, items = (
            np.minimum(size * self.factor * shared / np.maximum(n, 1), most).astype(np.float32)
            for n in self.touches
        )
        return users, items

    def leave_to_prior(self, sides: Sequence[Floats], due: Sequence[Exact]) -> None:
        """Set users and items without ratings to 0, and their due variance to the prior's.

        No step changes them, so their law is the prior N(0, T/(2 factor λ)), with λ = 1 if
        precisions are drawn.

        Args:
            sides: the users' factors and biases `(N, d + 1, L)`, and the items'.
            due: the variance of the noise due to each user and to each item.
        """
        shared = 1.0 if self.gamma is not None else self.decay
        for side, left, n in zip(sides, due, self.touches, strict=True):
            side[n == 0] = 0
            left[n == 0] = self.temperature / (2 * self.factor * shared)

    def _pass(
        self,
        block: FactorBlock,
        due: Sequence[Exact],
        size: float,
        precisions: Exact,
        step: int,
        streams: Streams,
    ) -> None:
        users, items = (np.repeat(drift, LANES) for drift in self.drifts(size))
        rows = self.data.rows
        variance = float(np.float32(size / len(rows)) * np.float32(self.temperature))
        langevin = self.langevin(size, users, items, variance)
        sides = precisions.astype(np.float32).reshape(2, -1)
        kernels.sample(
            rows.visits,
            block.models(rows.mean),
            langevin,
            kernels.Pending(*due),
            Source(step, block.trials, streams.key),
            self.biases,
            (sides[0], sides[1]) if self.gamma is not None else None,
        )

    def _settle(
        self, block: FactorBlock, due: Sequence[Exact], step: int, streams: Streams
    ) -> None:
        """Add the noise that is due to either side."""
        for place, (side, left) in enumerate(zip((block.users, block.items), due, strict=True)):
            source = Source(step + place, block.trials, streams.key)
            kernels.settle(side.reshape(-1), self.dimensions, left, source)
            if not self.biases:
                side[:, self.dimensions] = 0

    def _settle_rest(
        self,
        block: FactorBlock,
        due: Sequence[Exact],
        precisions: Exact,
        step: int,
        streams: Streams,
    ) -> None:
        """Add the noise that is still due; draw users and items without ratings from the prior."""
        sides = (block.users, block.items)
        self.leave_to_prior(sides, due)
        self._settle(block, due, step, streams)
        if self.gamma is not None:
            for side, scale, n in zip(sides, precisions, self.touches, strict=True):
                side[n == 0] /= np.sqrt(scale).astype(np.float32)

    def _precisions(
        self, block: FactorBlock, gamma: tuple[float, float], step: int, streams: Streams
    ) -> Exact:
        """Draw λ and μ given all factors `(2, d + 1, 16)`."""
        from scipy.special import gammaincinv

        full = self.dimensions + 1
        trials = np.pad(streams.trials, (0, LANES - len(streams)), "edge")
        draws = np.empty((LANES, 4 * full), np.float32)
        noise.uniform(draws, trials, step, streams.key)
        # Two uniform numbers of 23 bits make one of 46 bits, still within (0, 1).
        coarse, fine = draws.astype(np.float64).reshape(LANES, 2, 2, full).transpose(1, 2, 3, 0)
        levels = coarse + (fine - 0.5) * 2.0**-23
        precisions = np.empty((2, full, LANES))
        for place, side in enumerate((block.users, block.items)):
            rated = side[self.touches[place] > 0]
            squares = np.square(rated, dtype=np.float64).sum(0)
            # λ_k ~ Gamma(α + N/2, β + c Σ_u u_k²)
            shape = gamma[0] + len(rated) / 2
            rate = gamma[1] + self.factor / self.temperature * squares
            precisions[place] = gammaincinv(shape, levels[place]) / rate
        if not self.biases:
            precisions[:, -1] = 1
        return precisions


def accepted(
    draw: Callable[[int], FactorDraw],
    rows: FactorRows,
    bounds: tuple[float, float],
    rated: bool,
    retries: int,
    name: str,
) -> FactorDraw:
    """Draw up to 16 trials, and repeat each while its predictions are out of range.

    Args:
        draw: maps the number of an attempt to its draws.
        rows: the ratings.
        bounds: the range.
        rated: test only the rated pairs instead of all.
        retries: how often a draw is repeated.
        name: the defense's name, for messages.

    Raises:
        NoModelError: no draw of a trial was accepted.
    """
    draws = draw(0)
    done = draws.in_range(rows, bounds, rated)
    tried, passed = len(done), int(done.sum())
    for attempt in range(1, retries + 1):
        if done.all():
            return draws
        again = draw(attempt)
        good = again.in_range(rows, bounds, rated) & ~done
        tried, passed = tried + int((~done).sum()), passed + int(good.sum())
        draws.take(again, np.flatnonzero(good))
        done |= good
    if not done.all():
        raise NoModelError(
            f"{name}: {passed} of {tried} draws kept every prediction in range, fewer than one for "
            f"each trial with params.retries = {retries}: raise it or params.margin, lower "
            "params.dimensions, or set params.accept = 'any' or the variant 'corrected'"
        )
    return draws


def draw_single(chain: FactorChain, streams: Streams, attempt: int = 0) -> FactorDraw:
    """Run the chain of the only trial of `streams`; each attempt uses other noise.

    Args:
        chain: a chain with more than `TOGETHER` dimensions and no Gamma law.
        streams: one trial.
        attempt: the number of the attempt.

    Raises:
        ConfigError: an epoch needs more noise than a step of the noise source has.
        NoModelError: the chain diverged.
    """
    rows, size = chain.data.rows, chain.dimensions
    start = attempt * STEPS
    model = SingleModel.drawn(rows, size, chain.spread, streams, start)
    due = kernels.Pending(np.zeros(rows.n_users), np.zeros(rows.n_items))
    visited, trial = visits(rows, size), int(streams.trials[0])
    parts = model.parts(rows.mean)
    for t, step_size in enumerate(chain.sizes):
        variance = chain.temperature * step_size / len(rows)
        langevin = chain.langevin(step_size, *chain.drifts(step_size), variance)
        step = FIRST + start + t
        factor_model.sample(visited, parts, langevin, due, step, trial, streams.key, chain.biases)
        end_step(chain.variant, chain.name, t + 1, "epoch", _DIVERGED, *parts[:4])
    return _settled(chain, model, due, FIRST + start + len(chain.sizes), streams)


def _settled(
    chain: FactorChain, model: SingleModel, due: Sequence[Exact], step: int, streams: Streams
) -> FactorDraw:
    """Add the noise that is still due; draw users and items without ratings from the prior."""
    sides = model.joined()
    chain.leave_to_prior(sides, due)
    for place, (side, left) in enumerate(zip(sides, due, strict=True)):
        draws = np.empty((1, side.size), np.float32)
        noise.normal(draws, streams.trials, step + place, streams.key)
        deviation = np.sqrt(left).astype(np.float32)[:, None, None]
        side[:] += deviation * draws.reshape(side.shape)
        if not chain.biases:
            side[:, -1] = 0
    precisions = np.full((2, chain.dimensions + 1, 1), chain.decay)
    return FactorDraw(sides[0], sides[1], precisions, 1)
