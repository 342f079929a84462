"""Attacks by the server of a federated training: distinguish real submissions from fakes.

A fake is `F_t + N(0, σ²I)` with fresh noise, where the server knows `F_t` before the round. So the
residuals `r = x − F_t` of a fake pair are independent draws of `N(0, σ²I)`, whatever the other
pairs submit and however `F_t` depends on earlier rounds. All p-values except those of a known
gradient assume only this. A two-valued fake is ± the level in one coordinate, with coordinate and
sign uniform, and `F_t` is zero. If fakes are gradients of made-up ratings, the server does not know
their mean; then only the ideal attacker, who knows it, has p-values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.transcripts import Floats, Indices, Round, UserItemPairs, Verdicts
from dpaudit.kernels.likelihood import minus_logs

About = Literal["zero", "fake"]
Numbers = NDArray[np.float64]

# The lower bound of p-values, so that logarithms are finite.
_LEAST = 1e-300


class Residuals(ABC):
    """A reader of the residuals of submissions, about zero or about the broadcast fakes.

    Attributes:
        any_level: whether p-values are also valid for two-valued submissions.
        pairs: the observed pairs.
        scale: σ, or 1 without noise, where scores still rank pairs.
        count: number of submissions of each pair so far `(P,)`.
    """

    any_level: ClassVar[bool] = False

    def __init__(self, pairs: UserItemPairs, about: About) -> None:
        """Set up a reader without rounds.

        Args:
            pairs: the observed pairs.
            about: what is subtracted: nothing (`zero`) or the broadcast F_t (`fake`).
        """
        self.pairs = pairs
        self.scale = pairs.sigma or 1.0
        self.count = np.zeros(len(pairs), np.int32)
        self._about = about
        self._known = self.any_level if pairs.level is not None else pairs.sigma > 0
        self._zeros = np.zeros((len(pairs.shares), pairs.dimensions), np.float32)

    def see(self, round_: Round) -> None:
        """Process one round."""
        fakes = round_.fakes
        self._known = self._known and round_.made_up is None
        if self._about == "zero":
            # A non-zero fake does not follow the distribution about zero.
            self._known = self._known and not fakes.any()
            fakes = self._zeros
        self.fold(round_.place, round_.shown, fakes)

    def verdicts(self) -> Verdicts:
        """Return scores, with p-values if the distribution of fakes is known."""
        scores, p_values = self.judge()
        return Verdicts(scores, p_values if self._known else None)

    @abstractmethod
    def fold(self, place: Indices, shown: Floats, fakes: Floats) -> None:
        """Process the residuals `shown − fakes` of the pairs in `place`."""

    @abstractmethod
    def judge(self) -> tuple[Numbers, Numbers]:
        """Return scores and p-values, each `(P,)`."""


def log_score(p_values: Numbers) -> Numbers:
    """Return `−ln p`, at most 691, so that it is finite."""
    score = np.empty(p_values.shape)
    # Discrete p-values give many equal sums; the machine's rounding must not break such ties.
    minus_logs(np.maximum(p_values, _LEAST).reshape(-1), score.reshape(-1))
    return score


def fisher(p_values: Numbers) -> tuple[Numbers, Numbers]:
    """Combine p-values of coordinates `(P, d)` to scores and p-values of pairs, each `(P,)`.

    `−2 Σ ln p ~ χ²_2d` for independent uniform p-values; if they are conservative, so is the result
    (Fisher, Statistical Methods for Research Workers, 1932, section 21.1).
    """
    from scipy import special

    score: Numbers = 2 * log_score(p_values).sum(1)
    return score, special.chdtrc(2 * p_values.shape[1], score)
