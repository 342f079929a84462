"""The laws of released top-k lists and sets: their draws, log-probabilities and largest ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import InputError
from dpaudit.core.memory import check_memory
from dpaudit.core.releases import ListLaw
from dpaudit.core.streams import Streams
from dpaudit.defenses.top_k.chain import SetChain
from dpaudit.kernels.top_k import lists

Vector = NDArray[np.float64]
Items = NDArray[np.int32]
Scores = NDArray[np.float32]


class DrawnLaw(ListLaw, Protocol):
    """A law that lists can be drawn from."""

    def draw(self, streams: Streams) -> Items:
        """Draw the items of each trial `(W, k)`: best first if they are ranked, else increasing."""
        ...


@dataclass(frozen=True, eq=False)
class PointLaw:
    """The point mass at one list.

    Attributes:
        items: the list `(k,)`.
    """

    items: Items

    def draw(self, streams: Streams) -> Items:
        """Return the list in each trial `(W, k)`."""
        return np.tile(self.items, (len(streams), 1))

    def log_probability(self, items: Items) -> Vector:
        """Return 0 for the list and −inf for any other `(W,)`."""
        _check_length(items, len(self.items))
        return np.where((items == self.items).all(axis=1), 0.0, -np.inf)


@dataclass(frozen=True, eq=False)
class SwapLaw:
    """The law of the set that a chain releases; the order of the items of a row does not matter.

    Attributes:
        chain: the chain over sets.
        steps: the number of steps from `S_0`; None for the stationary law.
    """

    chain: SetChain
    steps: int | None

    @cached_property
    def states(self) -> Vector:
        """The law of the state `(J,)`."""
        return self.chain.stationary if self.steps is None else self.chain.law(self.steps)

    def draw(self, streams: Streams) -> Items:
        """Draw the set of each trial `(W, k)`: run the chain, or sample its stationary law."""
        states = np.empty(len(streams), np.int32)
        if self.steps is None:
            lists.pick(states, np.cumsum(self.states), streams.trials, 0, streams.key)
        else:
            up, down = self.chain.up, self.chain.down
            lists.chain_states(states, up, down, self.steps, streams.trials, 0, streams.key)
        return self.chain.sets.items(states)

    def log_probability(self, items: Items) -> Vector:
        """Return `ln Σ` of the probabilities of all states with that set `(W,)`."""
        sets = self.chain.sets
        order, k = sets.order, sets.k
        _check_length(items, k)
        place = places(order, items)
        rank = place + 1
        kept = (rank >= 1) & (rank <= k)
        # The rank left out is what the kept ranks lack of the sum 1 + … + k. The rank beyond k is
        # the one taken in.
        out = k * (k + 1) // 2 - np.where(kept, rank, 0).sum(axis=1)
        into = np.where(kept, 0, rank).sum(axis=1)
        whole = kept.all(axis=1)
        possible = all_distinct(place) & (whole | (kept.sum(axis=1) == k - 1))
        code = sets.code_of(np.where(whole, k, out), np.where(whole, k, into))
        codes, logs = self._logs
        place = np.minimum(np.searchsorted(codes, code), len(codes) - 1)
        return np.where(possible & (codes[place] == code), logs[place], -np.inf)

    @cached_property
    def _logs(self) -> tuple[NDArray[np.int64], Vector]:
        codes, place = np.unique(self.chain.sets.code, return_inverse=True)
        with np.errstate(divide="ignore"):
            return codes, np.log(np.bincount(place, self.states))


@dataclass(frozen=True, eq=False)
class PeelingLaw:
    """The law of an ordered list: items drawn by weight, one by one, without replacement.

    Attributes:
        candidates: the items that can be shown, increasing `(M,)`.
        log_weights: their log-weights `(M,)`; the largest is 0, and none is below −600.
        k: the length of a list.
    """

    candidates: Items
    log_weights: Vector
    k: int

    @cached_property
    def tree(self) -> Vector:
        """The weights as a `kernels.top_k.lists.sum_tree`."""
        return lists.sum_tree(np.exp(self.log_weights))

    def draw(self, streams: Streams) -> Items:
        """Draw the list of each trial `(W, k)`."""
        place = np.empty((len(streams), self.k), np.int32)
        lists.peeling(place, self.tree, streams.trials, 0, streams.key)
        return self.candidates[place]

    def log_probability(self, items: Items) -> Vector:
        """Return `Σ_t ln(w_t / (Z − Σ_{s<t} w_s))` of each ordered row `(W,)`."""
        _check_length(items, self.k)
        place = places(self.candidates, items)
        possible = all_distinct(place)
        logs = np.full(len(items), -np.inf)
        values = np.empty(int(possible.sum()))
        lists.peeling_log_law(values, place[possible].astype(np.int32), self.tree)
        logs[possible] = values
        return logs


@dataclass(frozen=True, eq=False)
class JointLaw:
    """The law of a set with probability proportional to the product of its weights.

    The order of the items of a row does not matter.

    Attributes:
        candidates: the items that can be shown, increasing `(M,)`.
        log_weights: their log-weights `(M,)`.
        k: the size of a set.
    """

    candidates: Items
    log_weights: Vector
    k: int

    @cached_property
    def sums(self) -> Vector:
        """`kernels.top_k.lists.symmetric_sums` of the weights.

        Raises:
            ConfigError: they do not fit the memory.
        """
        size = len(self.log_weights)
        check_memory(
            "the law of a set",
            f"the length of the list ({self.k:,}) times the number of items ({size:,})",
            8 * (self.k + 1) * (size + 1),
            "lower params.top_k, raise data.least_raters, use params.mechanism = 'peeling'",
        )
        return lists.symmetric_sums(self.log_weights, self.k)

    def draw(self, streams: Streams) -> Items:
        """Draw the set of each trial `(W, k)`."""
        place = np.empty((len(streams), self.k), np.int32)
        lists.weighted_sets(place, self.sums, streams.trials, 0, streams.key)
        return self.candidates[place]

    def log_probability(self, items: Items) -> Vector:
        """Return `Σ_{i∈S} ln w_i − ln e_k(w)` `(W,)`."""
        _check_length(items, self.k)
        place = places(self.candidates, items)
        logs = self.log_weights[place].sum(axis=1) - self.sums[self.k, 0]
        return np.where(all_distinct(place), logs, -np.inf)


def places(candidates: Items, items: Items) -> NDArray[np.int64]:
    """Return each item's index in `candidates`, −1 if absent, in the shape of `items`."""
    top = int(max(candidates.max(), items.max(initial=0)))
    place = np.full(top + 2, -1, np.int64)
    place[candidates] = np.arange(len(candidates))
    return place[np.where(items < 0, top + 1, items)]


def all_distinct(place: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether a row's places are distinct and none is −1 `(W,)`."""
    ordered = np.sort(place, axis=1)
    return (ordered[:, 0] >= 0) & (np.diff(ordered, axis=1) > 0).all(axis=1)


def _check_length(items: Items, k: int) -> None:
    if items.shape[1:] != (k,):
        raise InputError(
            f"items has shape {items.shape}, and a list has {k} items: use rows of {k} items"
        )


def extreme_lists(scores: Scores, item: int, k: int) -> NDArray[np.int32]:
    """Return the two lists on which a change of one item's weight matters most `(2, k)`.

    Each factor of the probability ratio that contains the weight is further from 1 the smaller the
    sum of the other weights. So the lists are the item followed by the heaviest others, and the
    heaviest others without the item.
    """
    order = np.argsort(-scores, kind="stable").astype(np.int32)
    others = order[(order != item) & np.isfinite(scores[order])]
    return np.stack((np.append(np.int32(item), others[: k - 1]), others[:k]))


def largest_ratio(laws: Sequence[ListLaw], lists: NDArray[np.int32]) -> float:
    """Return the largest `|ln P'(list)/P(list)|` of two laws over these lists `(n, k)`."""
    before, after = (law.log_probability(lists) for law in laws)
    possible = ~(np.isneginf(before) & np.isneginf(after))
    return float(abs(after[possible] - before[possible]).max())
