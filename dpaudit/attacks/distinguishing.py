"""Distinguish data sets by a release: its likelihood ratio, its bits, or the place of an item."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import Distinguisher, Readable, places
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import (
    ItemInDoubt,
    ItemList,
    LaplacePair,
    ListPair,
    NoisedSteps,
    Predictions,
    StepsPair,
)


@parameters(frozen=True, config=STRICT)
class LikelihoodRatio(Distinguisher):
    """Distinguish data set D' from D by the most powerful test (Neyman & Pearson 1933).

    For independent Laplace noise of scale b, `f` in D and `f'` in D',

        L = Σ_j (|A_j − f_j| − |A_j − f'_j|) / b.

    L has atoms: every output beyond both f and f' has the same ratio. Rounding errors of the two
    distances would split equal ratios, and so separate outputs that are equally likely. Therefore
    each coordinate is computed as `±clip(2A − f − f', −d, d)` with `d = |f' − f|`, which is exact
    at its ends, and sums are rounded to a grid.

    For a list of items with known distributions P in D and P' in D', L = ln P'(list) − ln P(list).

    For training steps whose noise is independent given what was shown before, L is the sum over the
    steps. A clamped number has the log-ratio of the tail probabilities, and normal noise has
    L = Σ_j (f'_j − f_j)(2 A_j − f_j − f'_j) / 2s².

    Attributes:
        grid: the step of the grid of log-likelihood ratios.
    """

    grid: Annotated[float, Field(ge=1e-12, le=1)] = 2.0**-8

    name: ClassVar[str] = "likelihood-ratio"
    title: ClassVar[str] = "Likelihood-ratio test between two neighbouring data sets"
    source: ClassVar[str] = (
        "Neyman & Pearson, On the problem of the most efficient tests of statistical hypotheses, "
        "1933, doi:10.1098/rsta.1933.0009"
    )
    rank: ClassVar[int] = 1

    reads: ClassVar[tuple[Readable, ...]] = (
        (ItemList, ListPair),
        (Predictions, LaplacePair),
        (NoisedSteps, StepsPair),
    )

    def score(
        self,
        release: Predictions | ItemList | NoisedSteps,
        knowledge: LaplacePair | ListPair | StepsPair,
    ) -> NDArray[np.float64]:
        """Return the log-likelihood ratio of each trial, rounded to the grid `(W,)`; larger for D'.

        It is `−inf` or `inf` for an output that is possible in only one data set.
        """
        match release, knowledge:
            case ItemList() | Predictions(), ListPair():
                return self._of_lists(release.items, knowledge)
            case Predictions(), LaplacePair():
                return self._of_predictions(release, knowledge)
            case NoisedSteps(), StepsPair():
                return self._of_steps(release.shown, knowledge)
        raise TypeError(
            f"{type(release).__name__} has no law of the kind {type(knowledge).__name__}"
        )

    def _of_lists(self, items: NDArray[np.int32], knowledge: ListPair) -> NDArray[np.float64]:
        present = knowledge.present.log_probability(items)
        absent = knowledge.absent.log_probability(items)
        impossible = np.isneginf(absent)
        if np.any(impossible & np.isneginf(present)):
            raise ValueError("a list was released that neither law allows")
        ratio = np.where(impossible, np.inf, present - np.where(impossible, 0.0, absent))
        return np.rint(ratio / self.grid) * self.grid

    def _of_predictions(self, release: Predictions, knowledge: LaplacePair) -> NDArray[np.float64]:
        shift = knowledge.present - knowledge.absent
        middle = knowledge.present + knowledge.absent
        # |A − f| − |A − f'| = sign(f' − f) · clip(2A − f − f', −|f' − f|, |f' − f|)
        twice = np.clip(2 * release.values.astype(np.float64) - middle, -abs(shift), abs(shift))
        away = (np.sign(shift) * twice).sum(1)
        if knowledge.noise_scale == 0:
            return np.where(away == 0, 0.0, np.copysign(np.inf, away))
        return np.rint(away / knowledge.noise_scale / self.grid) * self.grid

    def _of_steps(self, shown: NDArray[np.float64], pair: StepsPair) -> NDArray[np.float64]:
        shift = pair.present - pair.absent
        away = 2 * shown - pair.absent - pair.present
        nearer = np.sign(shift) * np.clip(away, -abs(shift), abs(shift))
        if not pair.scale.any():  # without noise
            side = nearer.sum(1)
            return np.where(side == 0, 0.0, np.copysign(np.inf, side))
        if pair.gaussian:
            total = (shift * away / (2 * pair.scale**2)).sum(1)
        else:
            ratios = nearer / pair.scale
            if np.isfinite(pair.bound):
                # Clamping in single precision may give slightly less than the bound.
                inside = abs(shown) < min(pair.bound, float(np.float32(pair.bound)))
                ratios = np.where(inside, ratios, self._of_atoms(shown, pair))
            total = ratios.sum(1)
        return np.rint(total / self.grid) * self.grid

    def _of_atoms(self, shown: NDArray[np.float64], pair: StepsPair) -> NDArray[np.float64]:
        """Log-ratios of clamped numbers: `ln P(f' + noise beyond) − ln P(f + noise beyond)`."""

        def log_tail(exact: NDArray[np.float64]) -> NDArray[np.float64]:
            # P(Lap > z) = e^{−z}/2 for z >= 0, else 1 − e^{z}/2
            z = (pair.bound - np.sign(shown) * exact) / pair.scale
            return np.where(z >= 0, -z - np.log(2), np.log1p(-np.exp(np.minimum(z, 0)) / 2))

        return log_tail(pair.present) - log_tail(pair.absent)


@parameters(frozen=True, config=STRICT)
class ItemPlace(Distinguisher):
    """Distinguish data set D' from D by the place of one item in the list that a user is shown.

    This needs no distribution of the list. If D and D' differ in the prediction of one item only,
    that item's place changes most.
    """

    name: ClassVar[str] = "item-place"
    title: ClassVar[str] = "Place of one item in a shown list"
    source: ClassVar[str] = (
        "Calandrino, Kilzer, Narayanan, Felten & Shmatikov, You might also like: privacy risks of "
        "collaborative filtering, 2011, doi:10.1109/SP.2011.40, whose attacks observe such places"
    )
    rank: ClassVar[int] = 2

    reads: ClassVar[tuple[Readable, ...]] = ((ItemList, ItemInDoubt),)

    def score(self, release: ItemList, knowledge: ItemInDoubt) -> NDArray[np.float64]:
        """Return k − place of the item in each trial's list of k, with 0 if absent `(W,)`."""
        place = places(release.items, knowledge.item)
        return (release.items.shape[1] - place).astype(np.float64)


Reals = NDArray[np.float64]
Marks = NDArray[np.bool_]

# Relative error of the noise source's logarithm.
_SLACK = 2.0**-20


@parameters(frozen=True, config=STRICT)
class FloatBits(Distinguisher):
    """Check for each released number whether any draw of the noise source gives its bits.

    A floating-point sum `f + s z` can take only values that some possible draw z gives. Knowing f
    in D and f' in D', the attacker inverts it: z must lie within half a unit in the last place of
    `(A − f)/s`. If this interval has no number of the source's precision, or no magnitude
    `−ln(k/2^bits)` with an integer k, D cannot have released A (Mironov 2012). The score is the
    number of released values that are impossible in D, minus the number impossible in D'. It is
    always 0 if releases are rounded to a grid that is coarse compared with the spacing of draws.

    Attributes:
        precision: precision of the source's draws: `double`, as for numpy and for dpaudit's noise
            that privacy claims depend on, or `single`.
        bits: number of random bits of a Laplace draw's magnitude; 53 for numpy.
    """

    precision: Literal["single", "double"] = "double"
    bits: Annotated[int, Field(ge=8, le=1000)] = 319

    name: ClassVar[str] = "float-bits"
    title: ClassVar[str] = "Which of two data sets could have released these bits"
    source: ClassVar[str] = (
        "Mironov, On significance of the least significant bits for differential privacy, 2012, "
        "doi:10.1145/2382196.2382264"
    )

    reads: ClassVar[tuple[Readable, ...]] = ((Predictions, LaplacePair), (NoisedSteps, StepsPair))

    def score(
        self, release: Predictions | NoisedSteps, knowledge: LaplacePair | StepsPair
    ) -> Reals:
        """Return the number of values impossible in D minus those impossible in D' `(W,)`."""
        match release, knowledge:
            case Predictions(), LaplacePair():
                shown, gaussian = release.values.astype(np.float64), False
                scale = np.full(shown.shape[1], knowledge.noise_scale)
                kept = np.ones(shown.shape, np.bool_)
            case NoisedSteps(), StepsPair():
                shown, scale, gaussian = release.shown, knowledge.scale, knowledge.gaussian
                # A clamped number does not determine the noise.
                kept = abs(shown) < knowledge.bound
            case _:
                raise TypeError(
                    f"{type(release).__name__} has no noise of the kind {type(knowledge).__name__}"
                )
        kept &= (scale > 0) & (knowledge.absent != knowledge.present)
        grid = np.broadcast_to(np.asarray(knowledge.grid, np.float64), scale.shape)
        impossible = [
            ~self.possible(shown, exact, scale, grid, gaussian) & kept
            for exact in (knowledge.absent, knowledge.present)
        ]
        return (impossible[0].sum(1) - impossible[1].sum(1)).astype(np.float64)

    def possible(
        self, shown: Reals, exact: Reals, scale: Reals, grid: Reals, gaussian: bool
    ) -> Marks:
        """Whether some noise draw gives the released number; arrays broadcast.

        Args:
            shown: the released numbers.
            exact: the numbers without noise.
            scale: the noise scale.
            grid: the step of the public grid of releases; 0 for unrounded single-precision sums.
            gaussian: whether the noise is normal.
        """
        # Only the sum is rounded, not the product: single precision uses fused multiply-adds.
        spacing = np.spacing(abs(shown).astype(np.float32)).astype(np.float64)
        half = np.where(grid > 0, grid, spacing) / 2
        safe = np.where(scale > 0, scale, 1.0)
        low, high = (shown - half - exact) / safe, (shown + half - exact) / safe
        possible = self._has_float(low, high)
        if not gaussian:
            possible &= self._has_magnitude(low, high)
        return possible

    def _has_float(self, low: Reals, high: Reals) -> Marks:
        """Whether a number of the source's precision lies in [low, high]."""
        if self.precision == "double":
            return np.ones(low.shape, np.bool_)
        above = low.astype(np.float32)
        above = np.where(above < low, np.nextafter(above, np.float32(np.inf)), above)
        return np.asarray(above <= high)

    def _has_magnitude(self, low: Reals, high: Reals) -> Marks:
        """Whether a number in [low, high] has magnitude `−ln(k/2^bits)` with an odd k."""
        least = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(abs(low), abs(high)))
        most = np.maximum(abs(low), abs(high))
        with np.errstate(over="ignore"):
            smallest = np.exp2(self.bits) * np.exp(-most) * (1 - _SLACK)
            largest = np.exp2(self.bits) * np.exp(-least) * (1 + _SLACK)
            first = 2 * np.ceil((smallest - 1) / 2) + 1
        return np.asarray((first <= largest) | (smallest >= 2.0**53))


@dataclass(frozen=True)
class NumpyLaplaceBits:
    """Score outputs `f + rng.laplace(scale=s)` of numpy's generators by their possible bits.

    numpy draws `s ln(2U)` or `−s ln(2 − 2U)` with U a multiple of 2^-53, so few sums are possible.
    The five values of U nearest to the required one are tried. This is a score for `dpaudit.audit`
    of a mechanism whose exact results and scale are known.

    Attributes:
        absent: f in D.
        present: f in D'.
        scale: s.
    """

    absent: float
    present: float
    scale: float

    def __call__(self, outputs: Sequence[float] | Reals) -> Reals:
        """Return 1 for outputs impossible only in D, -1 for only in D', else 0, `(n,)`."""
        shown = np.asarray(outputs, np.float64).reshape(-1)
        return np.array(
            [self._possible(x, self.present) - self._possible(x, self.absent) for x in shown],
            np.float64,
        )

    def _possible(self, shown: float, exact: float) -> bool:
        away = (shown - exact) / self.scale
        # U = j/2^53: 2U = e^away on the left, 2 − 2U = e^−away on the right.
        half = 2.0**52 * math.exp(-abs(away))
        nearest = round(half if away <= 0 else 2.0**53 - half)
        return any(
            exact + self.scale * self._drawn(j * 2.0**-53) == shown
            for j in range(max(1, nearest - 2), min(nearest + 3, 2**53))
        )

    @staticmethod
    def _drawn(u: float) -> float:
        # Same order of operations as numpy, to reproduce its rounding.
        return -math.log(2.0 - u - u) if u >= 0.5 else math.log(u + u)
