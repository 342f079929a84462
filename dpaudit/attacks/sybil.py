"""Infer a hidden rating or purchase from releases to accounts, and from public lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import Category, PassiveAttack, SybilAttack, places
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemList

Indices = NDArray[np.int64]
Table = NDArray[np.float64]

# Log-likelihoods with a relative difference below this are equal up to rounding.
_SAME = 1e-9


@parameters(frozen=True, config=STRICT)
class Averaging(SybilAttack):
    """Recover one hidden rating of a target from releases to accounts that the attacker controls.

    The attacker knows everything but the hidden rating. So they can compute the noiseless
    predictions of their accounts for each candidate value, and guess the most likely value. Every
    release has fresh noise, which many releases average out.

    The paper's categories: in the `immediate` attack the accounts add ratings before the learning
    phase; in the `dynamic` attack one account changes its own row of the completed matrix after the
    learning phase and gets a fresh release after each change; the `combined` attack does both.

    Attributes:
        category: see above.
        observe: `values` reads the noised prediction of the hidden item, `list` only the list.
        reads: what is read from a list: the `place` of the hidden item, or only its `membership`. A
            set always gives only membership.
        fake_accounts: the largest number of accounts created before the learning phase.
        calibration: trials per candidate value for learning the distribution of a list.
    """

    category: Category = "dynamic"
    observe: Literal["values", "list"] = "values"
    reads: Literal["place", "membership"] = "place"
    fake_accounts: Annotated[int, Field(ge=0, le=1000)] = 20
    calibration: Annotated[int, Field(ge=10, le=1_000_000)] = 1000

    name: ClassVar[str] = "sybil"
    title: ClassVar[str] = "Fake accounts before or after the learning phase, maximum likelihood"
    source: ClassVar[str] = (
        "Park & Acharya, Differentially Private Recommendation Systems: Practical Implementation "
        "and Interpretation, 2011, §4.1 (the categories; the inference is ours)"
    )

    @property
    def creates_accounts(self) -> bool:
        """Whether fake accounts may be created before the learning phase."""
        return self.category != "dynamic"

    def on_sets(self) -> Self:
        """Return the attack on lists without order, of which it reads only membership."""
        return replace(self, reads="membership")

    def outcomes(self, items: NDArray[np.int32], item: int) -> Indices:
        """Return the place of `item` in each list `(W, k)`, k if absent, `(W,)`.

        With `membership`, return 0 if it is present and 1 if absent.
        """
        place = places(items, item)
        return place if self.reads == "place" else (place == items.shape[1]).astype(np.int64)

    def row(
        self,
        scores: NDArray[np.float32],
        item: int,
        threshold: float,
        count: int,
        ends: tuple[float, float],
    ) -> NDArray[np.float32]:
        """Return a row of the completed matrix in which `item` competes with rivals at `threshold`.

        To read the place, `count` rivals have the entry `threshold`. To read membership,
        `count − 1` entries at the upper end fill all places but the last, for which the item has
        one rival. All other entries are at the lower end.

        Args:
            scores: the account's row `(M,)`, `−inf` where it rated the item.
            item: the hidden item; its entry is unchanged, as it is to be inferred.
            threshold: the rivals' entry.
            count: the length of the list.
            ends: the lowest and the highest entry.
        """
        others = np.flatnonzero(np.isfinite(scores) & (np.arange(len(scores)) != item))
        row = scores.copy()
        row[others] = ends[0]
        sure = count - 1 if self.reads == "membership" else 0
        row[others[:sure]] = ends[1]
        row[others[sure:count]] = np.clip(threshold, *ends)
        return row

    def guess(self, log_likelihood: Table, releases: Indices, draw: float) -> Indices:
        """Return the most likely candidate after each number of releases `(E,)`.

        Ties are broken uniformly at random; after 0 releases all candidates tie.

        Args:
            log_likelihood: log-likelihood of each release under each candidate `(W, C)`.
            releases: numbers of releases, each 0 to W, `(E,)`.
            draw: a uniform draw in [0, 1).
        """
        width = log_likelihood.shape[1]
        total = np.vstack([np.zeros(width), np.cumsum(log_likelihood, 0)])[releases]
        best = total.max(1, keepdims=True)
        # −inf, an impossible candidate, never ties with a finite maximum.
        tied = total >= best - _SAME * (1 + abs(best))
        rank = (draw * tied.sum(1)).astype(np.int64)
        return (np.cumsum(tied, 1) > rank[:, None]).argmax(1)

    @staticmethod
    def thresholds(exact: Table) -> Table:
        """Return the midpoints between adjacent distinct noiseless predictions of the candidates.

        The shape is `(C − 1,)` if all C differ. If all are equal, return their common value `(1,)`.
        """
        values = np.unique(exact)
        return values if len(values) == 1 else (values[1:] + values[:-1]) / 2

    @staticmethod
    def laplace_log_likelihood(shown: Table, exact: Table, noise_scale: float) -> Table:
        """Return `−|A − f(v)|/b` of each shown value under each candidate `(W, C)`.

        Up to a constant. Without noise the nearest candidates get 0 and the others `−inf`.

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

    @staticmethod
    def learned_log_likelihood(seen: Indices, trials: Indices) -> Table:
        """Return log-likelihoods of observed outcomes under each candidate, from trials `(W, C)`.

        Outcomes are ordinal. They are grouped into at most 2C bins of about equal frequency over
        all candidates, since more bins reduce accuracy; each bin's count has ½ added.

        Args:
            seen: the outcomes `(W,)`.
            trials: outcomes of the known mechanism under each candidate `(C, N)`. Candidates use
                the same noise, which reduces the variance of their likelihood ratios.
        """
        pooled, bins = np.sort(trials, axis=None), 2 * len(trials)
        # Upper ends of the bins: the k/(2C)-quantiles, k < 2C.
        at = np.arange(1, bins) * len(pooled) // bins - 1
        edges = np.unique(pooled[np.maximum(at, 0)])
        counts = np.stack(
            [np.bincount(np.searchsorted(edges, row), minlength=len(edges) + 1) for row in trials]
        )
        law = np.log(counts + 0.5) - np.log(counts.sum(1, keepdims=True) + 0.5 * counts.shape[1])
        return law.T[np.searchsorted(edges, seen)]


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

    def scores(self, before: ItemList, after: ItemList, item: int) -> Indices:
        """Score `item` from the first 0, 1, …, A observed lists `(A + 1,)`."""
        return np.append(0, np.cumsum(self.moves(before, after, item)))

    def guess(self, first: Indices, second: Indices, draw: float) -> NDArray[np.bool_]:
        """Whether to guess the first of two candidates, given their scores.

        Args:
            first: scores of the first candidate, of any shape.
            second: scores of the second.
            draw: a uniform draw in [0, 1) that breaks ties.
        """
        return (first > second) | ((first == second) & (draw < 0.5))
