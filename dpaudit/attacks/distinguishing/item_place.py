"""The distinguisher that looks where one item stands in a list."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import Distinguisher, Readable
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemInDoubt, ItemList


@parameters(frozen=True, config=STRICT)
class ItemPlace(Distinguisher):
    """Tell world D' from world D by the place of one item in the list that a user is shown.

    No law is needed: where a change moves one item's prediction and no other, the item's place is
    what it moves most.
    """

    name: ClassVar[str] = "item-place"
    title: ClassVar[str] = "Place of one item in the list that is shown"
    source: ClassVar[str] = (
        "Calandrino, Kilzer, Narayanan, Felten & Shmatikov, You might also like: privacy risks of "
        "collaborative filtering, 2011, doi:10.1109/SP.2011.40, whose attacks watch such places"
    )

    reads: ClassVar[tuple[Readable, ...]] = ((ItemList, ItemInDoubt),)

    def score(self, release: ItemList, knowledge: ItemInDoubt) -> NDArray[np.float64]:
        """How far from the list's end the item stands in each world, 0 where it is not in it."""
        found = release.items == knowledge.item
        return (found * np.arange(found.shape[1], 0, -1)).sum(1).astype(np.float64)
