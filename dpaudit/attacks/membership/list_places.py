"""Distributions of a list of items in D and D', fitted to the lists of shadow models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import InputError

Lists = NDArray[np.int32]
Exact = NDArray[np.float64]

# Pseudo-count of lists with an item and of lists without it, so that no frequency is 0 or 1.
_SMOOTH = 0.5
# Pseudo-count of each place of an item, since there are many places and few lists.
_PLACES = 8.0


@dataclass(frozen=True, eq=False)
class PlaceRatio:
    """The log-likelihood ratio of two distributions of a list, with items taken as independent.

    Let c_ip of n lists of length k have item i in place p, and c_i = Σ_p c_ip. Then

        P(i in no place) = (n − c_i + ½) / (n + 1),
        P(i in place p) = (c_i + ½) / (n + 1) · (c_ip + 8) / (c_i + 8 k),

    and the score is the sum over all items that occurred in the fitted lists.

    Attributes:
        items: the items that occurred, increasing `(S,)`.
        base: the log-ratio of a list with none of them.
        gains: the change of the log-ratio by each item in each place `(k, S)`.
    """

    items: Lists
    base: float
    gains: Exact

    @classmethod
    def fit(cls, absent: Lists, present: Lists) -> PlaceRatio:
        """Fit smoothed frequencies to lists `(n, k)` of data sets D and D'.

        Raises:
            InputError: a data set has no list, or the lengths of lists differ.
        """
        for lists, trial in ((absent, "absent"), (present, "present")):
            if not len(lists):
                raise InputError(f"{trial} has no list: give at least 1 to fit")
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
        """Return scores, larger where D' is more likely `(W,)`; unknown items are ignored."""
        total = np.full(len(features), self.base)
        for gains, shown in zip(self.gains, features.T, strict=True):
            place = np.minimum(np.searchsorted(self.items, shown), len(self.items) - 1)
            total += np.where(self.items[place] == shown, gains[place], 0.0)
        return total


def _logs(lists: Lists, items: Lists) -> tuple[Exact, Exact]:
    """Log-probabilities that each item is in no place `(S,)`, and in each place `(k, S)`."""
    n, k = lists.shape
    counts = np.zeros((k, len(items)))
    for place, shown in enumerate(lists.T):
        counts[place] = np.bincount(np.searchsorted(items, shown), minlength=len(items))
    inside = counts.sum(0)
    out = np.log((n - inside + _SMOOTH) / (n + 2 * _SMOOTH))
    some = np.log((inside + _SMOOTH) / (n + 2 * _SMOOTH))
    return out, some + np.log((counts + _PLACES) / (inside + k * _PLACES))
