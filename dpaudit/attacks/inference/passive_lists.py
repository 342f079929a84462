"""Infer a hidden purchase from changes of public related-items lists."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import PassiveAttack, places
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemList

Counts = NDArray[np.int64]


@parameters(frozen=True, config=STRICT)
class PassiveLists(PassiveAttack):
    """Infer a purchase from the related-items lists of items that the target is known to have.

    The attacker creates no account and changes nothing. When the target buys x, x becomes more
    similar to all items that the target has, so x tends to enter or rise in several of their lists
    at once. Purchases by other users move x in the lists of other items. The score of x is the
    number of observed lists that x entered, or in which it moved up, between two times.
    """

    name: ClassVar[str] = "passive-lists"
    title: ClassVar[str] = "Items that enter or rise in public related-items lists"
    source: ClassVar[str] = (
        "Calandrino, Kilzer, Narayanan, Felten & Shmatikov, You might also like: privacy risks of "
        "collaborative filtering, 2011, doi:10.1109/SP.2011.40, the attack on related-items lists"
    )

    def moves(self, before: ItemList, after: ItemList, item: int) -> NDArray[np.bool_]:
        """Mask of the observed lists that `item` entered or in which it moved up `(A,)`.

        Args:
            before: the observed lists at the first time `(A, N)`, best first.
            after: the same lists at the second time.
            item: the candidate.
        """
        # An absent item has place N, behind all others.
        return places(after.items, item) < places(before.items, item)

    def scores(self, before: ItemList, after: ItemList, item: int) -> Counts:
        """Score `item` from the first 0, 1, …, A observed lists `(A + 1,)`."""
        return np.append(0, np.cumsum(self.moves(before, after, item)))

    def guess(self, first: Counts, second: Counts, draw: float) -> NDArray[np.bool_]:
        """Whether to guess the first of two candidates, given their scores.

        Args:
            first: scores of the first candidate, of any shape.
            second: scores of the second.
            draw: a uniform draw in [0, 1) that breaks ties.
        """
        return (first > second) | ((first == second) & (draw < 0.5))
