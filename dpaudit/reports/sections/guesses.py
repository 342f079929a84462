"""What an attacker reaches who sees no release: the baselines of the charts."""

from __future__ import annotations

import sys

from dpaudit.record.result import AuditResult

Guess = tuple[str, float]  # what is guessed, and how often that is right
COIN: Guess = ("guess (1 of 2)", 0.5)


def of_attacks(result: AuditResult) -> list[Guess]:
    """Return how often a uniform guess is the hidden rating that the attacks look for."""
    return [of_value(result)] if result.attacks else []


def of_value(result: AuditResult) -> Guess:
    """Return a guess among the values of the scale; a purchase is there or not."""
    if result.data is None:
        return COIN
    low, high, step = result.data.scale
    # The scale of a record that somebody wrote may have no end.
    values = round(min((high - low) / step, sys.maxsize)) + 1 if high > low else 2
    return f"guess (1 of {values})", 1 / values
