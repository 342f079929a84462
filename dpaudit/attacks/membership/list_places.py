"""Two laws of a list of items, fitted to lists of worlds trained to compare."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import InputError

Lists = NDArray[np.int32]
Exact = NDArray[np.float64]

# Added to the lists with an item and to those without it, so that no frequency is 0 or 1.
_SMOOTH = 0.5
# So many lists at each place are added to those that have an item: places are many and lists few.
_PLACES = 8.0


@dataclass(frozen=True, eq=False)
class PlaceRatio:
    """The log-likelihood ratio of two laws of a list, as if items stood in it independently.

    Of n lists of length k let c_ip have item i in place p, and c_i = Σ_p c_ip. Then

        P(i in no place) = (n − c_i + ½) / (n + 1),
        P(i in place p) = (c_i + ½) / (n + 1) · (c_ip + 8) / (c_i + 8 k),

    and the score sums over the items that any of the lists has.

    Attributes:
        items: the items that were seen, increasing `(S,)`.
        base: the log-ratio of a list that has none of them.
        gains: what is added to it for each place that each item may have `(k, S)`.
    """

    items: Lists
    base: float
    gains: Exact

    @classmethod
    def fit(cls, absent: Lists, present: Lists) -> PlaceRatio:
        """The laws with the smoothed frequencies of lists `(n, k)` seen in worlds D and D'.

        Raises:
            InputError: there is no list of either, or their lengths differ.
        """
        for lists, world in ((absent, "absent"), (present, "present")):
            if not len(lists):
                raise InputError(f"{world} has no list: give at least 1 to fit")
        if absent.shape[1] != present.shape[1]:
            raise InputError(
                f"absent has lists of {absent.shape[1]} items and present of {present.shape[1]}: "
                "show as many in both"
            )
        items = np.unique(np.concatenate([absent, present]))
        (out, placed), (out_after, placed_after) = (
            _logs(lists, items) for lists in (absent, present)
        )
        out = out_after - out
        return cls(items, float(out.sum()), placed_after - placed - out)

    def score(self, features: Lists) -> Exact:
        """Large where world D' is likelier `(W,)`; items that were never seen say nothing."""
        total = np.full(len(features), self.base)
        for gains, shown in zip(self.gains, features.T, strict=True):
            place = np.minimum(np.searchsorted(self.items, shown), len(self.items) - 1)
            total += np.where(self.items[place] == shown, gains[place], 0.0)
        return total


def _logs(lists: Lists, items: Lists) -> tuple[Exact, Exact]:
    """The log-probability of each item in no place `(S,)`, and in each place `(k, S)`."""
    n, k = lists.shape
    counts = np.zeros((k, len(items)))
    for place, shown in enumerate(lists.T):
        counts[place] = np.bincount(np.searchsorted(items, shown), minlength=len(items))
    inside = counts.sum(0)
    out = np.log((n - inside + _SMOOTH) / (n + 2 * _SMOOTH))
    some = np.log((inside + _SMOOTH) / (n + 2 * _SMOOTH))
    return out, some + np.log((counts + _PLACES) / (inside + k * _PLACES))
