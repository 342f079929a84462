"""Shares of α and Holm's procedure against closed forms and simulation."""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from dpaudit.bounds.multiplicity import Holm, holm, split
from dpaudit.core.errors import InputError


@pytest.fixture
def lazy_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """statsmodels collects garbage in every call, which takes 26 ms; 6000 calls need not."""
    monkeypatch.setattr(gc, "collect", lambda: 0)


def test_split_shares() -> None:
    assert split(0.05, 1) == 0.05
    assert split(0.05, 20) == pytest.approx(0.0025)


@pytest.mark.long
def test_holm_by_hand() -> None:
    # Sorted .005, .01, .03, .04 against .05/4, .05/3, .05/2, .05: the third and all after it fail.
    result = holm([0.01, 0.04, 0.03, 0.005], 0.05)
    assert result.rejected == (True, False, False, True)
    assert result.adjusted == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.02], 0.05) == Holm((True,), (0.02,))
    assert holm([0.6, 0.7], 0.05).adjusted == (1.0, 1.0)
    # Two at .025 and .05: one step down rejects what the union bound alone would not.
    assert holm([0.025, 0.05], 0.05).rejected == (True, True)


@pytest.mark.usefixtures("lazy_collection")
def test_holm_is_the_closed_test() -> None:
    """Holm rejects a claim if Bonferroni rejects every intersection that has it."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        p = rng.beta(0.3, 2, 5)
        result = holm(list(p), 0.1)
        for i in range(5):
            others = [j for j in range(5) if j != i]
            sets = (
                [i, *rest] for size in range(5) for rest in itertools.combinations(others, size)
            )
            adjusted = max(min(1.0, len(s) * p[s].min()) for s in sets)
            assert result.adjusted[i] == pytest.approx(adjusted)
            assert result.rejected[i] == (adjusted <= 0.1)
        reference = multipletests(p, 0.1, method="holm")
        assert result.rejected == tuple(reference[0])


@pytest.mark.usefixtures("lazy_collection")
def test_holm_familywise_error() -> None:
    """7 true claims whose p-values depend on each other in the worst way, and 3 false ones.

    Of p_i = (U + i/7) mod 1 the least is uniform on [0, 1/7], so a true claim is rejected with
    probability α exactly once the false ones are. False failure: 1e-6 by the binomial law, 5e-7 on
    either side. Power: the union bound alone, α/10 each, errs too rarely to pass, and no correction
    too often.
    """
    alpha, n = 0.2, 6000
    rng = np.random.default_rng(11)
    p = np.concatenate([(rng.random((n, 1)) + np.arange(7) / 7) % 1, np.full((n, 3), 1e-9)], axis=1)
    wrong = sum(any(holm(list(row), alpha).rejected[:7]) for row in p)
    low, high = (int(stats.binom.ppf(level, n, alpha)) for level in (5e-7, 1 - 5e-7))
    assert low <= wrong <= high
    assert (p[:, :7].min(axis=1) <= split(alpha, 10)).sum() < low
    assert (p[:, :7].min(axis=1) <= alpha).sum() > high


@pytest.mark.cases(
    ("call", "field"),
    [
        (lambda: split(0.0, 2), "alpha"),
        (lambda: split(0.05, 0), "size"),
        (lambda: split(0.05, True), "size"),
        (lambda: split(0.05, 1.5), "size"),  # type: ignore[arg-type]
        (lambda: holm([], 0.05), "p_values"),
        (lambda: holm([0.1, math.nan], 0.05), "p_values[1]"),
        (lambda: holm([-0.1], 0.05), "p_values[0]"),
        (lambda: holm([0.1], math.nan), "alpha"),
    ],
)
def test_bad_input_is_refused(call: Callable[[], object], field: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value).startswith(field)
