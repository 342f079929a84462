"""Attacks on one model, corrected for features: shifts certify nothing, leaks do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom, norm, poisson

from dpaudit.audits.membership.observational import Corrected, Observed

ROWS = 1000
Shift = tuple[np.ndarray, np.ndarray, np.ndarray]


def shifted(kind: str, seed: int, n: int = ROWS) -> Shift:
    """Return features, members, and the log-odds by the features: the best blind attack."""
    rng = np.random.default_rng(seed)
    # Half of the audits have as many members as others.
    member = rng.permutation(n) < n // 2 if seed % 2 else rng.random(n) < 0.5
    x = rng.normal(0, 1, (n, 2))
    if kind == "mean":
        x[member] += (0.6, 0.3)
        return x, member, x @ np.array([0.6, 0.3])
    if kind == "scale":
        x[member] *= (1.5, 1.2)
        return x, member, x**2 @ np.array([1 - 1 / 1.5**2, 1 - 1 / 1.2**2]) / 2
    if kind == "mixture":
        far = rng.choice([-1.5, 1.5], n) + 0.6 * rng.normal(0, 1, n)
        x[:, 0] = np.where(member & (rng.random(n) < 0.5), far, x[:, 0])
        law = [norm.pdf(x[:, 0], at, spread) for at, spread in ((0, 1), (1.5, 0.6), (-1.5, 0.6))]
        return x, member, np.log(0.5 + (law[1] + law[2]) / (4 * law[0]))
    if kind == "time":
        # Members are older and more active, and items become more popular in time.
        time = np.where(member, rng.beta(1, 2, n), rng.beta(2, 1.5, n))
        activity = rng.poisson(np.where(member, 8, 6))
        popularity = rng.poisson(np.exp(1.5 + 1.2 * time))
        odds = beta.logpdf(time, 1, 2) - beta.logpdf(time, 2, 1.5)
        odds += poisson.logpmf(activity, 8) - poisson.logpmf(activity, 6)
        return np.column_stack((time, np.log1p(activity), np.log1p(popularity))), member, odds
    return x, member, x[:, 0]


def corrected(shift: Shift, leak: float, seed: int) -> Corrected:
    """Audit scores that depend on the features, and with a leak on the membership."""
    x, member, odds = shift
    noise = np.random.default_rng((seed, 1)).normal(0, 1, len(member))
    scores = odds + (leak * member + noise if leak else 0.0)
    return Observed(scores, member, x, seed, 0.05).corrected((0.1,))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["mean", "scale", "mixture", "time"])
def test_a_shift_without_a_leak_certifies_nothing(kind: str) -> None:
    """The scores are the best attack that the features allow."""
    audits = [corrected(shifted(kind, seed), 0.0, seed) for seed in range(6)]
    able = [audit for audit in audits if audit.auc and audit.epsilon]
    assert len(able) == len(audits)
    # At a rate of 1e-3 false though 5 % are.
    most = binom.isf(1e-3, len(able), 0.05)
    assert sum(audit.epsilon.lower > 0 for audit in able if audit.epsilon) <= most
    assert sum(audit.auc.lower > 0.5 for audit in able if audit.auc) <= most


@pytest.mark.long
@pytest.mark.parametrize("kind", ["none", "mean"])
def test_a_leak_is_certified_beside_a_mild_shift(kind: str) -> None:
    for seed in range(2):
        audit = corrected(shifted(kind, seed), 2.0, seed)
        assert audit.epsilon is not None
        assert audit.epsilon.lower > 0.5
        assert audit.auc is not None
        assert audit.auc.lower > 0.75
        assert audit.tpr is not None
        assert (rate := audit.tpr[0.1]) is not None
        assert rate.lower > 0.1


def test_groups_without_overlap_are_refused_with_the_number() -> None:
    x, member, _ = shifted("none", 0)
    audit = corrected((x + 6 * member[:, None], member, x[:, 0]), 2.0, 0)
    assert audit.refused is not None
    assert "almost surely are members, or are none" in audit.refused
    assert (audit.auc, audit.epsilon, audit.tpr) == (None, None, None)


def test_too_many_features_are_refused_with_the_rows_they_need() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(200) % 2 == 0
    audit = Observed(rng.random(200), member, rng.random((200, 6)), 0, 0.05).corrected((0.1,))
    assert audit.refused is not None
    assert "200 rows are too few for the 46 coefficients of 6 features: give 920" in audit.refused


def test_too_few_of_a_kind_are_refused() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(2000) % 50 == 0
    audit = Observed(rng.random(2000), member, rng.random((2000, 1)), 0, 0.05).corrected((0.1,))
    assert audit.refused is not None
    assert "40 members or others are too few" in audit.refused
