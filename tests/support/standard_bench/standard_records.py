"""The records of the standard bench: each mechanism with its claim and its truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from standard_mechanisms import (  # type: ignore[import-not-found]
    EPSILON,
    HASHES,
    Run,
    bit_log_ratio,
    both,
    gridded,
    laplace,
    noisy_max,
    prefix_sum,
    rappor,
    sparse_vector,
    truncated_geometric,
)

from dpaudit.audits.mechanism.audit import Neighbours

LYU = "Lyu, Su & Li 2017, arXiv:1603.01699"
DING = "Ding et al. 2018, arXiv:1805.10277"
SHADOW = "Wang et al. 2019, Proving differential privacy with shadow execution, arXiv:1903.12254"
RAPPOR = "Erlingsson, Pihur & Korolova 2014, arXiv:1407.6981"
GEOMETRIC = "Balcer & Vadhan 2018, arXiv:1709.05396, Algorithm 4.8"


@dataclass(frozen=True)
class Mechanism:
    """A mechanism with its claim and its true guarantee.

    Attributes:
        name: its name on the bench.
        run: n independent outputs `(n, ...)` from the data `(length,)`.
        claimed_epsilon: the ε that it is said to have.
        truth: the least ε that it has at this length.
        correct: whether the claim holds.
        neighbours: the adjacency of both.
        length: of the data; for `any-value`, the number of values.
        source: where it is from.
        note: what is wrong with it, or why its truth is what it is.
    """

    name: str
    run: Run
    claimed_epsilon: float
    truth: float
    correct: bool
    neighbours: Neighbours
    length: int
    source: str
    note: str

    @property
    def rounded(self) -> Run:
        """The mechanism with outputs on a coarse grid, as it is audited."""
        return partial(gridded, run=self.run)


_HALF = EPSILON / 2
_SVT_1 = partial(
    sparse_vector, threshold=0.5, threshold_scale=1 / _HALF, query_scale=2 / _HALF, cutoff=1
)
_SVT_2 = partial(
    sparse_vector, threshold_scale=1 / _HALF, query_scale=2 / _HALF, cutoff=1, redraw=True
)
_SVT_3 = partial(
    sparse_vector, threshold_scale=1 / _HALF, query_scale=1 / _HALF, cutoff=1, values=True
)
_SVT_4 = partial(
    sparse_vector, threshold_scale=4 / EPSILON, query_scale=4 / (3 * EPSILON), cutoff=1
)
_SVT_5 = partial(sparse_vector, threshold_scale=1 / _HALF, query_scale=0.0, cutoff=None)
_SVT_6 = partial(sparse_vector, threshold_scale=1 / _HALF, query_scale=1 / _HALF, cutoff=None)
_SVT_NUMERICAL = partial(
    sparse_vector,
    threshold_scale=3 / EPSILON,
    query_scale=12 / EPSILON,
    cutoff=2,
    values=True,
    value_scale=6 / EPSILON,
)


def _exact(
    name: str, run: Run, epsilon: float, neighbours: Neighbours, length: int, source: str, note: str
) -> Mechanism:
    """A mechanism whose claim is its truth."""
    return Mechanism(name, run, epsilon, epsilon, True, neighbours, length, source, note)


def _wrong(
    name: str, run: Run, truth: float, neighbours: Neighbours, length: int, source: str, note: str
) -> Mechanism:
    """A mechanism that claims ε = 0.1 wrongly."""
    return Mechanism(name, run, EPSILON, truth, False, neighbours, length, source, note)


MECHANISMS = (
    _exact("laplace", laplace, EPSILON, "one-differs", 1, "Dwork et al. 2006", "1/scale"),
    _exact(
        "laplace-parallel",
        partial(laplace, scale=200.0, copies=20),
        EPSILON,
        "one-differs",
        1,
        "Bichsel et al. 2021",
        "20 releases of ε = 0.005",
    ),
    _exact(
        "truncated-geometric",
        truncated_geometric,
        math.log(9 / 8),
        "one-differs",
        1,
        GEOMETRIC,
        "ln(1 + 2^-3)",
    ),
    _exact("noisy-hist-1", laplace, EPSILON, "one-differs", 5, f"{DING}, Algorithm 9", "1/scale"),
    _wrong(
        "noisy-hist-2",
        partial(laplace, scale=EPSILON),
        1 / EPSILON,
        "one-differs",
        5,
        f"{DING}, Algorithm 10",
        "the scale is ε in place of 1/ε",
    ),
    _exact(
        "noisy-max-1",
        partial(noisy_max, noise="laplace"),
        EPSILON,
        "all-differ",
        5,
        f"{DING}, Algorithm 5",
        "in the limit of a gap that grows",
    ),
    _exact(
        "noisy-max-2",
        partial(noisy_max, noise="exponential"),
        EPSILON,
        "all-differ",
        5,
        f"{DING}, Algorithm 6",
        "attained by a gap of 2",
    ),
    _wrong(
        "noisy-max-3",
        partial(noisy_max, noise="laplace", value=True),
        5 * EPSILON / 2,
        "all-differ",
        5,
        f"{DING}, Algorithm 7",
        "shows the largest value: ε/2 for each answer",
    ),
    _wrong(
        "noisy-max-4",
        partial(noisy_max, noise="exponential", value=True),
        math.inf,
        "all-differ",
        5,
        f"{DING}, Algorithm 8",
        "shows the largest value, of which no output lies below",
    ),
    _exact(
        "svt-1",
        _SVT_1,
        EPSILON,
        "all-differ",
        10,
        f"{LYU}, Algorithm 1",
        "(*) with |B| = 1: ε/2 + 2·ε/4, from length 5 on",
    ),
    _exact(
        "svt-2",
        _SVT_2,
        EPSILON,
        "all-differ",
        10,
        f"{LYU}, Algorithm 2",
        "as svt-1: with cutoff 1 the redrawn threshold is never used",
    ),
    _wrong(
        "svt-3",
        _SVT_3,
        10 * EPSILON / 2,
        "all-differ",
        10,
        f"{LYU}, Algorithm 3",
        "shows the value: (**) with the density f in place of 1 - F is attained where the value "
        "and so the threshold lie below all answers; no ε at all lengths",
    ),
    _wrong(
        "svt-4",
        _SVT_4,
        7 * EPSILON / 4,
        "all-differ",
        10,
        f"{LYU}, Algorithm 4",
        "(*) with |B| = 1: ε/4 + 2·3ε/4, from length 3 on",
    ),
    _wrong(
        "svt-5",
        _SVT_5,
        math.inf,
        "all-differ",
        10,
        f"{LYU}, Algorithm 5",
        "no noise on the answers: (0, 1) and (1, 0) differ in support",
    ),
    _wrong(
        "svt-6",
        _SVT_6,
        10 * EPSILON / 2,
        "all-differ",
        10,
        f"{LYU}, Algorithm 6",
        "no cutoff: (**) is the limit for half the answers far above the threshold that are said "
        "to be below, one up, and half the other way round; no ε at all lengths",
    ),
    _exact(
        "svt-numerical",
        _SVT_NUMERICAL,
        EPSILON,
        "all-differ",
        10,
        SHADOW,
        "(*) with |B| = 2 and two Laplace values: ε/3 + 4·ε/12 + 2·ε/6, from length 9 on",
    ),
    Mechanism(
        "svt-34-parallel",
        partial(both, one=_SVT_3, other=_SVT_4),
        2 * EPSILON,
        27 * EPSILON / 4,
        False,
        "all-differ",
        10,
        "Bichsel et al. 2021",
        "svt-3 and svt-4 on the same answers: the sum of both is the limit for nine answers Q far "
        "above the threshold, one up, and the tenth, one down, whose value lies between",
    ),
    _exact("prefix-sum", prefix_sum, EPSILON, "one-differs", 10, SHADOW, "one value moves"),
    _wrong(
        "prefix-sum-all",
        prefix_sum,
        10 * EPSILON,
        "all-differ",
        10,
        "Bichsel et al. 2021",
        "the mechanism is right; its claim is for one value that moves, not for all",
    ),
    _exact(
        "rappor",
        partial(rappor, f=0.75, p=0.45, q=0.55),
        2 * HASHES * bit_log_ratio(0.75, 0.45, 0.55),
        "any-value",
        4,
        RAPPOR,
        "attained by two values whose filters share no bit",
    ),
    _exact(
        "rappor-one-time",
        partial(rappor, f=0.95),
        2 * HASHES * bit_log_ratio(0.95),
        "any-value",
        4,
        RAPPOR,
        "attained by two values whose filters share no bit",
    ),
)
