"""Observed pairs and verdicts for tests of attacks on federated submissions."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import SubmissionTest
from dpaudit.core.releases import Round, UserItemPairs, Verdicts

ITEMS = 3


def observed_pairs(
    count: int, size: int, sigma: float, level: float | None = None
) -> UserItemPairs:
    """Return pairs of as many users, each with one of three items."""
    users = np.arange(count, dtype=np.int32)
    shares, candidates = np.full(ITEMS, 0.5), np.full(ITEMS, count)
    return UserItemPairs(users, users % ITEMS, size, sigma, level, shares, candidates)


def verdicts_of(attack: SubmissionTest, pairs: UserItemPairs, rounds: Iterable[Round]) -> Verdicts:
    """Return the verdicts on all rounds; earlier verdicts, which change nothing, are asked too."""
    reader = attack.reader(pairs)
    for round_ in rounds:
        reader.see(round_)
        reader.verdicts()
    return reader.verdicts()


def p_values_of(verdicts: Verdicts) -> NDArray[np.float64]:
    """Return the p-values, which must be known."""
    assert verdicts.p_values is not None
    return verdicts.p_values
