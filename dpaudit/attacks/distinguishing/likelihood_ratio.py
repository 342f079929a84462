"""Distinguish data sets by the likelihood ratio of a release, or by an item's place in a list."""

from __future__ import annotations

from typing import Annotated, ClassVar

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
