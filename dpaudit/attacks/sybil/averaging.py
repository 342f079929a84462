"""Reading a hidden rating off many releases that an attacker had made for accounts of his own."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import SybilAttack
from dpaudit.core.plugin import STRICT

Indices = NDArray[np.int64]
Table = NDArray[np.float64]

Category = Literal["immediate", "dynamic", "combined"]

# Log-likelihoods that differ by less than this share of their size are equal up to rounding.
_SAME = 1e-9


@parameters(frozen=True, config=STRICT)
class Campaign(SybilAttack):
    """Recover one hidden rating of a target from releases to accounts that the attacker controls.

    The attacker knows all but the hidden rating, so he knows the noiseless predictions that his
    accounts have for each of its candidate values, and takes the most likely value. Every release
    has fresh noise, so it is the number of releases that defeats the noise.

    The paper's categories: in the `immediate` attack accounts change the ratings before the
    learning phase; in the `dynamic` attack one account changes its own row of the completed matrix
    after it, and is shown a fresh release after each change; the `combined` attack does both.

    Attributes:
        category: see above.
        observe: `values` reads the noised prediction of the hidden item, `list` only the list.
        reads: what is read off a list: the `place` of the hidden item, or its `membership` alone,
            which is all that a set has, whatever is said here.
        helpers: the most accounts planted before the learning phase.
        calibration: worlds drawn for each candidate value to learn the law of a list.
    """

    category: Category = "dynamic"
    observe: Literal["values", "list"] = "values"
    reads: Literal["place", "membership"] = "place"
    helpers: Annotated[int, Field(ge=0, le=1000)] = 20
    calibration: Annotated[int, Field(ge=10, le=1_000_000)] = 1000

    name: ClassVar[str] = "campaign"
    title: ClassVar[str] = "Attacker's accounts, before or after the learning phase, likelihoods"
    source: ClassVar[str] = (
        "Park & Acharya, Differentially Private Recommendation Systems: Practical Implementation "
        "and Interpretation, 2011, §4.1 (the categories; the inference is ours)"
    )

    @property
    def plants(self) -> bool:
        """Whether accounts may be planted before the learning phase."""
        return self.category != "dynamic"

    def outcomes(self, items: NDArray[np.int32], item: int) -> Indices:
        """What is read off each list `(W, k)`: the place of `item` in it, k if absent, `(W,)`.

        Of `membership` the places are all 0 and absence is 1.
        """
        found = items == item
        absent: Indices = np.where(found.any(1), 0, 1)
        if self.reads == "membership":
            return absent
        return np.where(absent == 0, found.argmax(1), items.shape[1])

    def row(
        self,
        scores: NDArray[np.float32],
        item: int,
        threshold: float,
        count: int,
        ends: tuple[float, float],
    ) -> NDArray[np.float32]:
        """A row of the completed matrix in which `item` competes with rivals at `threshold`.

        For the place in a list of `count`, all its places are contested by as many rivals. For
        membership, all places but one are taken by entries at the upper end, and the item has one
        rival for the last. All else is at the lower end.

        Args:
            scores: the account's row `(M,)`, `−inf` where it rated the item.
            item: the hidden item; its entry stays, it is what is to be learned.
            threshold: the rivals' entry.
            count: the length of the list.
            ends: the least and the greatest entry.
        """
        others = np.flatnonzero(np.isfinite(scores) & (np.arange(len(scores)) != item))
        row = scores.copy()
        row[others] = ends[0]
        sure = count - 1 if self.reads == "membership" else 0
        row[others[:sure]] = ends[1]
        row[others[sure:count]] = np.clip(threshold, *ends)
        return row

    def guess(self, log_likelihood: Table, releases: Indices, draw: float) -> Indices:
        """The most likely candidate after each number of releases `(E,)`.

        Candidates that are as likely as the best are drawn from uniformly; so are all of them
        after 0 releases.

        Args:
            log_likelihood: of each release under each candidate `(W, C)`.
            releases: numbers of releases, 0 to W each, `(E,)`.
            draw: a uniform draw in [0, 1).
        """
        width = log_likelihood.shape[1]
        total = np.vstack([np.zeros(width), np.cumsum(log_likelihood, 0)])[releases]
        best = total.max(1, keepdims=True)
        # −inf, an impossible candidate, is never as likely as a finite best.
        tied = total >= best - _SAME * (1 + abs(best))
        rank = (draw * tied.sum(1)).astype(np.int64)
        return (np.cumsum(tied, 1) > rank[:, None]).argmax(1)


def thresholds(exact: Table) -> Table:
    """The middles between neighbouring noiseless predictions of the candidates `(C − 1,)`.

    One value for all where the candidates do not differ.
    """
    values = np.unique(exact)
    return values if len(values) == 1 else (values[1:] + values[:-1]) / 2


def laplace_log_likelihood(shown: Table, exact: Table, noise_scale: float) -> Table:
    """`−|A − f(v)|/b` of each shown value under each candidate, up to a constant `(W, C)`.

    Without noise the nearest candidates have 0 and the others `−inf`.

    Args:
        shown: noised predictions of one item `(W,)`.
        exact: its noiseless prediction under each candidate `(C,)`.
        noise_scale: the Laplace scale `b`.
    """
    distance = abs(shown[:, None] - exact)
    if noise_scale > 0:
        return -distance / noise_scale
    nearest = distance <= distance.min(1, keepdims=True) * (1 + _SAME)
    return np.where(nearest, 0.0, -np.inf)


def learned_log_likelihood(seen: Indices, worlds: Indices) -> Table:
    """The log-likelihood of each seen outcome under each candidate, learned from worlds `(W, C)`.

    Outcomes are ordered numbers. They are joined to at most 2C bins of about equal frequency over
    all candidates, since every bin costs accuracy; each bin's frequency has ½ added.

    Args:
        seen: the outcomes `(W,)`.
        worlds: outcomes of the known mechanism under each candidate `(C, N)`. Candidates share the
            worlds' noise, which takes most of the chance out of their ratios.
    """
    pooled, bins = np.sort(worlds, axis=None), 2 * len(worlds)
    # Upper ends of the bins: the k/(2C)-quantiles, k < 2C.
    at = np.arange(1, bins) * len(pooled) // bins - 1
    edges = np.unique(pooled[np.maximum(at, 0)])
    counts = np.stack(
        [np.bincount(np.searchsorted(edges, row), minlength=len(edges) + 1) for row in worlds]
    )
    law = np.log(counts + 0.5) - np.log(counts.sum(1, keepdims=True) + 0.5 * counts.shape[1])
    return law.T[np.searchsorted(edges, seen)]
