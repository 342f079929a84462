"""Bounds from the counts of one attack: reference figures, exact coverage, closed forms."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpaudit.bounds.frequentist.intervals import best_split, clopper_pearson_epsilon, rate_limits
from dpaudit.bounds.outcomes import Counts
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

ORACLES = json.loads(
    (Path(__file__).parents[2] / "oracles" / "epsilon_bounds.json").read_text("utf-8")
)["threshold"]


def rows(method: str) -> list[dict[str, Any]]:
    oracles = [row for row in ORACLES if row["method"] == method]
    assert len(oracles) == 28
    return oracles


def counts(row: dict[str, Any]) -> Counts:
    return Counts(row["TP"], row["FP"], row["FN"], row["TN"])


@pytest.mark.cases("row", rows("clopper_pearson"))
def test_clopper_pearson_oracle(row: dict[str, Any]) -> None:
    estimate = clopper_pearson_epsilon(counts(row), delta=row["delta"], alpha=row["alpha"])
    assert estimate.lower == pytest.approx(row["eps_lower"], abs=1e-9)
    assert (estimate.kind, estimate.upper, estimate.n) == ("frequentist", math.inf, 2000)


def test_error_free_by_hand() -> None:
    """All of 50 against none of 80: limits (α(1 − s))^(1/50) and 1 − (αs)^(1/80)."""
    perfect = Counts(50, 0, 0, 80)
    for split in (0.1, 0.5, 0.9):
        tpr, fpr = (0.05 * (1 - split)) ** (1 / 50), 1 - (0.05 * split) ** (1 / 80)
        assert rate_limits(perfect, alpha=0.05, split=split) == pytest.approx((tpr, fpr), rel=1e-12)
        for delta in (0.0, 0.1):
            expected = max(math.log((tpr - delta) / fpr), math.log((1 - fpr - delta) / (1 - tpr)))
            estimate = clopper_pearson_epsilon(perfect, delta=delta, split=split)
            assert estimate.lower == pytest.approx(expected, rel=1e-12)
            assert estimate.value == math.inf


def test_points_and_stated_confidence() -> None:
    some = Counts(60, 20, 40, 180)
    estimate = clopper_pearson_epsilon(some, delta=0.1, alpha=0.1)
    assert estimate.value == pytest.approx(math.log(0.5 / 0.1))
    assert (estimate.alpha, estimate.confidence, estimate.n) == (0.1, 0.9, 300)
    # The complement is the more informative event.
    assert clopper_pearson_epsilon(Counts(90, 50, 10, 50)).value == pytest.approx(math.log(5))
    assert clopper_pearson_epsilon(Counts(10, 50, 90, 50)).value == 0
    assert clopper_pearson_epsilon(Counts(0, 7, 5, 0)).lower == 0


PRESENT, ABSENT = 14, 9


def exceeding(bound: Callable[[Counts], float], truth: Callable[[float, float], float]) -> float:
    """The largest probability, by enumeration over a grid of rates, of a bound above the truth."""
    table = np.array(
        [
            [bound(Counts(tp, fp, PRESENT - tp, ABSENT - fp)) for fp in range(ABSENT + 1)]
            for tp in range(PRESENT + 1)
        ]
    )
    grid = np.linspace(0.02, 0.98, 33)
    worst = 0.0
    for p in grid:
        for q in grid:
            weights: NDArray[np.float64] = np.outer(
                stats.binom.pmf(np.arange(PRESENT + 1), PRESENT, p),
                stats.binom.pmf(np.arange(ABSENT + 1), ABSENT, q),
            )
            worst = max(worst, float(weights[table > truth(p, q) + 1e-12].sum()))
    return worst


@pytest.mark.long
@pytest.mark.parametrize("split", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_exact_coverage(alpha: float, split: float) -> None:
    delta = 0.02

    def true_epsilon(p: float, q: float) -> float:
        ratio = max((p - delta) / q, (1 - q - delta) / (1 - p))
        return max(0.0, math.log(ratio)) if ratio > 0 else 0.0

    def bound(c: Counts) -> Estimate:
        return clopper_pearson_epsilon(c, delta=delta, alpha=alpha, split=split)

    assert exceeding(lambda c: bound(c).lower, true_epsilon) <= alpha
    # The points would be caught.
    assert exceeding(lambda c: bound(c).value, true_epsilon) > 0.45


@pytest.mark.cases(
    ("rate_present", "rate_absent", "present", "absent", "delta"),
    [(1.0, 0.0, 200, 200, 0.0), (0.5, 0.01, 1000, 1000, 1e-5), (0.7, 0.3, 100, 5000, 0.1)],
)
def test_best_split(
    rate_present: float, rate_absent: float, present: int, absent: int, delta: float
) -> None:
    split = best_split(rate_present, rate_absent, present, absent, delta=delta)
    tp, fp = round(rate_present * present), round(rate_absent * absent)
    expected = Counts(tp, fp, present - tp, absent - fp)

    def at(share: float) -> float:
        return clopper_pearson_epsilon(expected, delta=delta, split=share).lower

    assert at(split) >= max(at(share) for share in np.linspace(0.01, 0.99, 99)) - 1e-12
    assert at(split) > at(0.5)


def test_best_split_of_a_useless_attack_and_of_mirrored_rates() -> None:
    assert best_split(0.5, 0.5, 100, 100) == 0.5
    # A rare event deserves the larger share on its denominator; the complement the smaller.
    rare, common = best_split(0.3, 0.01, 500, 500), best_split(0.99, 0.7, 500, 500)
    assert rare > 0.5
    assert common == pytest.approx(1 - rare, abs=1e-9)


BAD: list[tuple[str, Callable[[], object]]] = [
    ("delta", lambda: clopper_pearson_epsilon(Counts(1, 1, 1, 1), delta=1.0)),
    ("delta", lambda: clopper_pearson_epsilon(Counts(1, 1, 1, 1), delta=math.nan)),
    ("alpha", lambda: clopper_pearson_epsilon(Counts(1, 1, 1, 1), alpha=0.0)),
    ("alpha", lambda: clopper_pearson_epsilon(Counts(1, 1, 1, 1), alpha=math.nan)),
    ("split", lambda: clopper_pearson_epsilon(Counts(1, 1, 1, 1), split=1.0)),
    ("split", lambda: clopper_pearson_epsilon(Counts(1, 1, 1, 1), split=math.nan)),
    ("rate_present", lambda: best_split(1.1, 0.1, 5, 5)),
    ("rate_absent", lambda: best_split(0.1, math.nan, 5, 5)),
    ("absent", lambda: best_split(0.1, 0.1, 5, 0)),
    ("delta", lambda: best_split(0.1, 0.1, 5, 5, delta=2)),
    ("alpha", lambda: best_split(0.1, 0.1, 5, 5, alpha=2)),
]


@pytest.mark.cases(("name", "call"), BAD)
def test_bad_input_is_refused(name: str, call: Callable[[], object]) -> None:
    with pytest.raises(InputError, match=f"^{name} = "):
        call()


@pytest.mark.parametrize("swapped", [False, True])
def test_counts_beyond_what_double_precision_tells_are_refused(swapped: bool) -> None:
    # 1 − 2/10^18 is 1 in double precision, so that the complement certified an infinite ε.
    counts = (10**18, 1, 2, 10**18)
    with pytest.raises(InputError, match=r"t[pn] is above 10\^9"):
        Counts(*(counts[::-1] if swapped else counts))


def test_the_largest_counts_are_certified_as_their_complement() -> None:
    n = 10**9
    counts, mirrored = Counts(n, 0, 0, n), Counts(n - 3, 0, 3, n)
    expected = math.log(n / math.log(40))  # the largest rate with no hit in n at level 1/40
    assert clopper_pearson_epsilon(counts).lower == pytest.approx(expected, abs=1e-6)
    assert clopper_pearson_epsilon(mirrored).lower == pytest.approx(expected, abs=1e-6)
