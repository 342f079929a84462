"""Histories that are sent to a trained model of sequences, which scores what follows them."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


class Histories(NamedTuple):
    """Histories, and the items whose scores after each of them are asked.

    Attributes:
        sent: the items of each history in order `(n, h)`; -1 fills it up in front.
        items: the items that are asked after each `(n, q)`.
    """

    sent: NDArray[np.int32]
    items: NDArray[np.int32]


@runtime_checkable
class AnswersHistories(Protocol):
    """A trained model that can be asked what follows any history."""

    def scores_after(
        self, histories: NDArray[np.int32], items: NDArray[np.int32]
    ) -> NDArray[np.floating]:
        """Score items as those that come next `(n, q)`; NaN for what it does not know.

        Args:
            histories: the items of each history in order `(n, h)`; -1 fills it up in front.
            items: the items that are scored after each history `(n, q)`.
        """
        ...
