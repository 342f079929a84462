"""The distinguisher that uses the place of one item in a list."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import Distinguisher, Readable, places
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemInDoubt, ItemList


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
