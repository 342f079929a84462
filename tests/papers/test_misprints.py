"""Formulas that are false as printed, where the paper's own proof or text has the right one.

The catalogue holds no entry for a misprint: nobody claims what is printed. docs/claims/pa11.md and
docs/claims/wt17.md state the verdicts.
"""

from __future__ import annotations

import math

import pytest
from inclusion import INCLUSION  # type: ignore[import-not-found]

from dpaudit.defenses.top_k.laws import meant_swaps, printed_swaps
from dpaudit.defenses.training_checks import step_sizes

# Section 4.4 of Park & Acharya 2011: M, k, N1 and N2.
SETS = 1682, 10, 2, 3
# ξ of Wang & Tang's run.
EXPONENT = 0.3


def test_the_logarithm_of_the_printed_score_changes_by_more_than_one() -> None:
    """Park & Acharya 2011, Proposition 4.2 (37): `φ = exp(1/U_r) f`; the proof: `exp(f/U_r)`."""
    for k, changes in ((1, 1.609), (2, 1.099), (3, 0.847)):
        lowest = k * 1.0
        assert math.log((lowest + 4) / lowest) == pytest.approx(changes, abs=5e-4)
        # As in the proof.
        assert 4 / 5 <= 1


def test_the_printed_enumeration_repeats_sets_and_stops_early() -> None:
    """Park & Acharya 2011, section 4.4: at least ⌊(M−k)/(N1 N2)⌋·N1·N2 sets; the text is right."""
    items, k, left, right = SETS
    promised = (items - k) // (left * right) * left * right
    assert promised == 1668
    out, into = printed_swaps(*SETS)
    # S_1, then (j1, j2) for j = 1, 2, …
    pairs = list(zip((k - out + 1).tolist(), (into - k).tolist(), strict=True))
    assert pairs[1:11] == [
        (1, 1), (1, 1), (1, 2), (1, 2), (1, 3), (1, 4), (1, 4), (2, 8), (2, 9), (2, 9)
    ]  # fmt: skip
    assert len(pairs) - 1 == 61
    assert len(set(pairs[1:])) == 40
    out, into = meant_swaps(*SETS)
    meant = set(zip(out.tolist(), into.tolist(), strict=True)) - {(k, k)}
    assert len(meant) >= promised


def test_the_printed_step_sizes_have_a_finite_sum() -> None:
    """Wang & Tang 2017, Algorithm 2, line 6: `η_{t+1} = η_t/t^ξ`; section 4.1: `η_t = η_1 t^−ξ`."""
    count = 100
    sizes = step_sizes(1.0, EXPONENT, "printed", count)
    # From here on each step is less than half the one before, so the rest adds less than the last.
    assert count**-EXPONENT < 0.5
    assert math.fsum(sizes) == pytest.approx(4.3197, abs=5e-5)
    assert sizes[-1] < 1e-40
    assert math.fsum(step_sizes(1.0, EXPONENT, "text", 10_000)) > 100 * math.fsum(sizes)


def test_the_prior_s_term_without_the_indicator_has_another_mean() -> None:
    """Wang & Tang 2017, eq. (11) and Algorithm 2, line 5: λS/H; eq. (9) has the indicator."""
    means = [1 / inclusion for inclusion in INCLUSION.values()]
    assert min(means) > 1.05
    assert any(f"{mean:.2f}" == "2.25" for mean in means)
