"""The likelihood-ratio distinguisher for predictions with Laplace noise, and for lists."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.parts import STRICT, Part
from dpaudit.releases import ItemList, LaplacePair, ListPair, Predictions


@parameters(frozen=True, config=STRICT)
class LikelihoodRatio(Part):
    """Tell world D' from world D by the most powerful test (Neyman & Pearson 1933).

    For independent Laplace noise of scale b, `f` in D and `f'` in D',

        L = Σ_j (|A_j − f_j| − |A_j − f'_j|) / b.

    L has atoms: every output beyond both f and f' has the same ratio. Floating-point rounding of
    the two distances would tell equal ratios apart, and thereby worlds that the mechanism does not.
    Each coordinate is therefore computed as `±clip(2A − f − f', −d, d)` with `d = |f' − f|`, exact
    at its ends, and sums are compared on a grid.

    For a list of items whose laws P in D and P' in D' are known, L = ln P'(list) − ln P(list).

    Attributes:
        grid: the step of the grid of log-ratios.
    """

    grid: Annotated[float, Field(gt=0, le=1)] = 2.0**-8

    name: ClassVar[str] = "likelihood-ratio"
    title: ClassVar[str] = "Likelihood-ratio test between two neighbouring data sets"
    source: ClassVar[str] = (
        "Neyman & Pearson, On the problem of the most efficient tests of statistical hypotheses, "
        "1933, doi:10.1098/rsta.1933.0009"
    )

    def score(
        self, release: Predictions | ItemList, knowledge: LaplacePair | ListPair
    ) -> NDArray[np.float64]:
        """The log-likelihood ratio of each world on the grid `(W,)`; large speaks for D'.

        It is `−inf` or `inf` for an output that only one data set can have.
        """
        if isinstance(knowledge, ListPair):
            return self._of_lists(release.items, knowledge)
        if isinstance(release, ItemList):
            raise TypeError("a list without values has no Laplace law: give the ListPair")
        return self._of_predictions(release, knowledge)

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
