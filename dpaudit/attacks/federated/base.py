"""Attacks of the server on a federated training: which submissions are real, and which are fakes.

A fake is `F_t + N(0, σ²I)`, with `F_t` known to the server before the round and the noise drawn
anew. So the residuals `r = x − F_t` of a fake pair are independent draws of `N(0, σ²I)`, whatever
the other pairs are and however `F_t` depends on earlier rounds: all p-values but those of a known
gradient rest on that alone. A two-valued fake is ± the level in one coordinate, each drawn evenly,
and `F_t` is zero. Gradients of made-up ratings have a mean that the server does not know: there
are no p-values then, but those of the ideal attacker who knows it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.transcripts import Floats, Indices, Pairs, Round, Verdicts
from dpaudit.kernels.likelihood import minus_logs

About = Literal["zero", "fake"]
Numbers = NDArray[np.float64]

# Below the least p-value that a double holds: logarithms stay finite.
_LEAST = 1e-300


class Residuals(ABC):
    """A observer of what is left of each submission when something is subtracted.

    Attributes:
        pairs: who is observed.
        scale: σ, or 1 where there is no noise: scores still order.
        count: the submissions of each pair so far `(P,)`.
    """

    def __init__(self, pairs: Pairs, about: About, *, any_level: bool = False) -> None:
        """Of a law that is known with normal noise, and with `any_level` of two values too."""
        self.pairs = pairs
        self.scale = pairs.sigma or 1.0
        self.count = np.zeros(len(pairs), np.int32)
        self._about = about
        self._known = any_level if pairs.level is not None else pairs.sigma > 0
        self._zeros = np.zeros((len(pairs.shares), pairs.dimensions), np.float32)

    def see(self, round_: Round) -> None:
        """Take in one round."""
        fakes = round_.fakes
        self._known = self._known and round_.made_up is None
        if self._about == "zero":
            # A fake that is not zero is no draw of the law about zero.
            self._known = self._known and not fakes.any()
            fakes = self._zeros
        self.fold(round_.place, round_.shown, fakes)

    def verdicts(self) -> Verdicts:
        """The judgement, without p-values where the law of a fake is not known."""
        scores, p_values = self.judge()
        return Verdicts(scores, p_values if self._known else None)

    @abstractmethod
    def fold(self, place: Indices, shown: Floats, fakes: Floats) -> None:
        """Take in `shown − fakes` of the pairs in `place`."""

    @abstractmethod
    def judge(self) -> tuple[Numbers, Numbers]:
        """Scores and p-values `(P,)`."""


def log_score(p_values: Numbers) -> Numbers:
    """`−ln p`, at most 691, so that it orders and stays finite."""
    score = np.empty(p_values.shape)
    # Where p-values are fractions many sums are equal, and what breaks ties must not be a machine.
    minus_logs(np.maximum(p_values, _LEAST).reshape(-1), score.reshape(-1))
    return score


def fisher(p_values: Numbers) -> tuple[Numbers, Numbers]:
    """Scores and p-values of pairs from those of their coordinates `(P, d)`, each `(P,)`.

    `−2 Σ ln p ~ χ²_2d` for independent uniform p-values; for conservative ones that law gives
    conservative ones (Fisher, Statistical Methods for Research Workers, 1932, section 21.1).
    """
    from scipy import special

    score: Numbers = 2 * log_score(p_values).sum(1)
    return score, special.chdtrc(2 * p_values.shape[1], score)
