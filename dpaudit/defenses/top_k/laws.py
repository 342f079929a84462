"""The laws of released top-k lists and sets: their draws, log-probabilities and largest ratios.

**The birth-death chain over top-k sets** of Park & Acharya 2011, sections 4.2 to 4.5. Candidates
are ranked 1 … M by decreasing score, with ties broken by the lower item. `S_0` holds the ranks
1 … k. Every other set swaps one of the last `N1` ranks of S_0 for a rank beyond k. The score f(S)
of a set is the sum of its items' scores, and `φ(S) = exp(f(S)/U_r)` (Proposition 4.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError, InputError
from dpaudit.core.memory import check_memory
from dpaudit.core.releases import ListLaw
from dpaudit.core.streams import Streams
from dpaudit.defenses.base import ExactScores
from dpaudit.kernels import top_k as kernels

Enumeration = Literal["meant", "printed"]
Rates = Literal["printed", "halved"]
UpperBound = float | Literal["paper-rule", "largest-rate"]
Vector = NDArray[np.float64]
Ranks = NDArray[np.int64]


def ranked(exact: ExactScores) -> NDArray[np.int32]:
    """Return the candidates by decreasing score, ties broken by the lower item, `(M,)`."""
    candidates = exact.candidates
    return candidates[np.argsort(-exact.scores[candidates], kind="stable")]


def meant_swaps(items: int, k: int, left: int, right: int) -> tuple[Ranks, Ranks]:
    """Return the swaps as the text of section 4.4 describes them.

    They use windows of `N1 = left` ranks up to k and `N2 = right` ranks beyond k. Set j ≥ 1 leaves
    out rank `k − j1 + 1` and takes in rank `k + j2`,

        j1 = (⌊(j−1)/N2⌋ mod N1) + 1,    j2 = ⌊(j−1)/(N1·N2)⌋·N2 + ((j−1) mod N2) + 1.

    After N1·N2 sets the right window moves on by N2 ranks. A last, incomplete window is omitted. No
    set occurs twice.

    Returns:
        The ranks left out and taken in by every state `(J,)`; both `k` for `S_0`, which swaps none.
    """
    j = np.arange((items - k) // right * left * right)
    out = k - j // right % left
    into = k + j // (left * right) * right + j % right + 1
    return np.append(k, out), np.append(k, into)


def printed_swaps(items: int, k: int, left: int, right: int) -> tuple[Ranks, Ranks]:
    """Return the swaps by the printed formula of section 4.4.

    `S_1` is that of the text. `S_{j+1}` for j ≥ 1 has

        j1 = (⌊(j−1)/N2⌋ + 1) − ⌊(⌊(j−1)/N2⌋ + 1)/N1⌋,   j2 = ⌊(j−1)/(N1·N2)⌋·N2 + (j − ⌊j/N2⌋).

    The formula repeats sets (`S_2 = S_1`), and j1 and j2 exceed their windows. The sequence ends
    before the first rank left out that is not in 1 … k, or rank taken in that is not in k+1 … M.

    Returns:
        As `meant_swaps`, except that several states may have the same set.
    """
    if items == k:
        return np.array([k]), np.array([k])
    j = np.arange(1, 2 * left * items + 3)
    row = (j - 1) // right + 1
    out = k - (row - row // left) + 1
    into = k + (j - 1) // (left * right) * right + j - j // right
    outside = (out < 1) | (out > k) | (into <= k) | (into > items)
    end = int(np.argmax(outside))
    return np.append([k, k], out[:end]), np.append([k, k + 1], into[:end])


@dataclass(frozen=True, eq=False)
class SwapSets:
    """The sets of a chain's states, each `S_0` with at most one item swapped.

    Attributes:
        order: the candidates by rank `(M,)`.
        k: the number of items of a set.
        out: the rank that each state leaves out `(J,)`, counted from 1.
        into: the rank that each state takes in `(J,)`; equal to `out` if nothing is swapped.
    """

    order: NDArray[np.int32]
    k: int
    out: Ranks
    into: Ranks

    def items(self, states: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return the items of these states' sets, increasing, `(W, k)`."""
        kinds, place = np.unique(states, return_inverse=True)
        ranks = np.tile(np.arange(1, self.k + 1), (len(kinds), 1))
        ranks[np.arange(len(kinds)), self.out[kinds] - 1] = self.into[kinds]
        rows: NDArray[np.int32] = np.sort(self.order[ranks - 1], axis=1)
        return rows[place]

    def totals(self, scores: NDArray[np.float32]) -> Vector:
        """Return the sum of the scores of every state's set `(J,)`, from all items' `scores`."""
        ranked_scores = scores[self.order].astype(np.float64)
        best = ranked_scores[: self.k].sum()
        totals: Vector = best - ranked_scores[self.out - 1] + ranked_scores[self.into - 1]
        return totals

    @property
    def code(self) -> Ranks:
        """`code_of` every state's set `(J,)`."""
        return self.code_of(self.out, self.into)

    def code_of(self, out: Ranks, into: Ranks) -> Ranks:
        """Return a number that identifies the set with these ranks swapped."""
        return out * (len(self.order) + 1) + into


def swap_sets(
    order: NDArray[np.int32], k: int, enumeration: Enumeration, left: int, right: int
) -> SwapSets:
    """Build the sets of an enumeration; `order` is that of `ranked`, `left` N1, `right` N2."""
    swaps = meant_swaps if enumeration == "meant" else printed_swaps
    return SwapSets(order, k, *swaps(len(order), k, left, right))


@dataclass(frozen=True, eq=False)
class SetChain:
    """The chain in discrete time, eq. (34), which starts in `S_0`.

    Attributes:
        sets: the set that each state releases.
        up: `λ_j Δt` `(J,)`, 0 for the last state.
        down: `μ_j Δt` `(J,)`, 0 for the first state.
        log_stationary: the logarithm of the stationary law `(J,)`.
    """

    sets: SwapSets
    up: Vector
    down: Vector
    log_stationary: Vector

    @property
    def stationary(self) -> Vector:
        """The stationary law `(J,)`."""
        law: Vector = np.exp(self.log_stationary)
        return law

    def law(self, steps: int) -> Vector:
        """Return the law of the state after this number of steps `(J,)`, exact up to rounding."""
        return self.laws([steps])[0]

    def laws(self, steps: Sequence[int]) -> Vector:
        """Return the laws after these numbers of steps, which must not decrease, `(S, J)`."""
        law = np.zeros(len(self.up))
        law[0] = 1.0
        rows, done = np.empty((len(steps), len(law))), 0
        for row, count in zip(rows, steps, strict=True):
            kernels.chain_law(law, self.up, self.down, count - done)
            row[:], done = law, count
        return rows

    def explored(self, steps: int, top: int) -> Vector:
        """Return the probability of each number of visited states, at most `top`.

        The chain moves between neighbouring states from state 0, so it visits them in their order.
        The probability that it reaches state j within `steps` is that of a chain that stops at j
        to be there.

        Returns:
            The probabilities of 1, 2, …, `top` visited states, or of as many as the chain has.
        """
        reached = np.ones(min(top, len(self.up)))
        for state in range(1, len(reached)):
            up, down = self.up[: state + 1].copy(), self.down[: state + 1].copy()
            up[state] = down[state] = 0.0
            reached[state] = replace(self, up=up, down=down).law(steps)[state]
        return -np.diff(reached, append=0.0)

    def divergence_of(self, laws: Vector, top: int | None = None) -> Vector:
        """Return `KL(π_t ‖ π)` of laws after some steps from the stationary law, in nats `(S,)`.

        Args:
            laws: the laws after the steps `(S, J)`.
            top: compare the laws given that the state is one of the first `top`; None for all
                states.
        """
        laws, log_limit = laws[:, :top], self.log_stationary[:top]
        laws = laws / laws.sum(axis=1, keepdims=True)
        log_limit = log_limit - np.logaddexp.reduce(log_limit)
        # 0 ln 0 = 0
        log_laws = np.log(np.where(laws > 0, laws, 1.0))
        divergence: Vector = np.maximum((laws * (log_laws - log_limit)).sum(axis=1), 0.0)
        return divergence


def set_chain(
    sets: SwapSets, log_phi: Vector, epsilon: float, rates: Rates, u_s: UpperBound
) -> SetChain:
    """Build the chain over these sets.

    Its rates are `λ_j = (φ_{j+1}/φ_j)^a` and `μ_{j+1} = 1/λ_j`, so the stationary law is
    `∝ φ^{2a}`. The printed rates, eq. (31), have `a = ε/2`. Their law is `φ^ε`, eq. (32), and not
    the `φ^{ε/2}` of eq. (28), which `a = ε/4` (`halved`) gives.

    **Proposition 4.1** says that `Δt ≤ 1/U_s` satisfies eq. (36) if φ does not increase with j and
    `φ_j/φ_{j+1} ≤ U_s/2`. For `q = φ_{j−1}/φ_j` in [1, U_s/2], `λ_j + μ_j ≤ 1 + q^{ε/2}`, with
    equality if `φ_{j+1} = φ_j`. The condition `1 + (U_s/2)^{ε/2} ≤ U_s` holds for every U_s ≥ 2 iff
    ε ≤ 2, and for a given U_s > 2 iff `ε ≤ 2 ln(U_s − 1)/ln(U_s/2)`, which is 2.56 for U_s = 20.
    For larger ε the proposition is false (its proof writes ε for ε/2 in the rates and then drops
    it). With `halved` both bounds on ε double.

    Args:
        sets: the sets of the states.
        log_phi: `ln φ` of every state `(J,)`.
        epsilon: ε.
        rates: see above.
        u_s: `U_s = 1/Δt`; `paper-rule` is `10 φ(S_0)/φ(S_1)`, `largest-rate` is the least U_s that
            satisfies eq. (36).

    Raises:
        ConfigError: eq. (36) does not hold, so the chain would stay in a state with a negative
            probability.
    """
    exponent = epsilon / {"printed": 2, "halved": 4}[rates]
    rise = exponent * np.diff(log_phi)
    log_up, log_down = np.append(rise, -np.inf), np.append(-np.inf, -rise)
    # ln max_j (λ_j + μ_j), the logarithm of the least U_s that satisfies eq. (36).
    least = float(np.logaddexp(log_up, log_down).max()) if len(log_up) > 1 else 0.0
    if u_s == "largest-rate":
        log_u = least
    elif u_s == "paper-rule":
        log_u = math.log(10) - (float(log_phi[1] - log_phi[0]) if len(log_phi) > 1 else 0.0)
    else:
        log_u = math.log(u_s)
    if log_u < least - 1e-12:
        shown = f"{math.exp(log_u):.5g}" if u_s == "paper-rule" else f"{u_s:g}"
        enough = f"{1.0001 * math.exp(least):.5g}" if least < 700 else f"e^{least + 1:.6g}"
        raise ConfigError(
            f"with epsilon = {epsilon:g} and u_s = {shown} the chain would stay in a state with a "
            f"negative probability: set u_s to at least {enough}, or to 'largest-rate'"
        )
    log_law = 2 * exponent * log_phi
    log_law -= np.logaddexp.reduce(log_law)
    return SetChain(sets, np.exp(log_up - log_u), np.exp(log_down - log_u), log_law)


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
            kernels.pick(states, np.cumsum(self.states), streams.trials, 0, streams.key)
        else:
            up, down = self.chain.up, self.chain.down
            kernels.chain_states(states, up, down, self.steps, streams.trials, 0, streams.key)
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
        """The weights as a `kernels.top_k.sum_tree`."""
        return kernels.sum_tree(np.exp(self.log_weights))

    def draw(self, streams: Streams) -> Items:
        """Draw the list of each trial `(W, k)`."""
        place = np.empty((len(streams), self.k), np.int32)
        kernels.peeling(place, self.tree, streams.trials, 0, streams.key)
        return self.candidates[place]

    def log_probability(self, items: Items) -> Vector:
        """Return `Σ_t ln(w_t / (Z − Σ_{s<t} w_s))` of each ordered row `(W,)`."""
        _check_length(items, self.k)
        place = places(self.candidates, items)
        possible = all_distinct(place)
        logs = np.full(len(items), -np.inf)
        values = np.empty(int(possible.sum()))
        kernels.peeling_log_law(values, place[possible].astype(np.int32), self.tree)
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
        """`kernels.top_k.symmetric_sums` of the weights.

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
        return kernels.symmetric_sums(self.log_weights, self.k)

    def draw(self, streams: Streams) -> Items:
        """Draw the set of each trial `(W, k)`."""
        place = np.empty((len(streams), self.k), np.int32)
        kernels.weighted_sets(place, self.sums, streams.trials, 0, streams.key)
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
