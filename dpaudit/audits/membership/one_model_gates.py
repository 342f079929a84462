"""Limits on what is left of an attack on one trained model once the features are accounted for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpaudit.audits.membership.observational import Corrected
from dpaudit.core.estimate import Estimate
from dpaudit.core.rounding import at_least, at_most
from dpaudit.record.result import GateRecord, Outcome


@dataclass(frozen=True)
class Limits:
    """The largest numbers allowed; None for no limit.

    Attributes:
        auc: of the AUC.
        tpr: of the true-positive rate, at every false-positive rate.
        epsilon: of ε.
    """

    auc: float | None = None
    tpr: float | None = None
    epsilon: float | None = None

    @property
    def named(self) -> list[str]:
        """The limits that are given."""
        return [name for name in ("auc", "tpr", "epsilon") if getattr(self, name) is not None]

    def count(self, rates: int) -> int:
        """Return how many numbers are judged, at this many false-positive rates."""
        return len(self.named) + (rates - 1) * (self.tpr is not None)

    def judge(self, corrected: Corrected) -> list[GateRecord]:
        """Judge each limit on the whole interval of its number.

        Args:
            corrected: the numbers; if they are refused, every outcome is inconclusive.
        """
        return list(self._judged(corrected))

    def _judged(self, corrected: Corrected) -> Iterator[GateRecord]:
        for name in self.named:
            limit = float(getattr(self, name))
            for label, estimate in _numbers(name, corrected):
                outcome: Outcome = "inconclusive"
                reason = corrected.refused or "too few pairs for this rate: give more"
                if estimate is not None and name == "epsilon":
                    outcome, reason = _of_epsilon(estimate, limit, corrected)
                elif estimate is not None:
                    outcome, reason = _of_rate(estimate, limit, mirror=name == "auc")
                yield GateRecord(
                    id=f"one-model/{name}/{label}",
                    rule=f"{label} <= {limit:g}, {corrected.condition}",
                    outcome=outcome,
                    reason=reason,
                )


def _numbers(name: str, corrected: Corrected) -> list[tuple[str, Estimate | None]]:
    if name == "auc":
        return [("corrected AUC", corrected.auc)]
    if name == "epsilon":
        return [("ε", corrected.epsilon)]
    if corrected.tpr is None:
        return [("corrected TPR", None)]
    return [(f"corrected TPR at {rate:g}", value) for rate, value in corrected.tpr.items()]


def _of_rate(estimate: Estimate, limit: float, *, mirror: bool) -> tuple[Outcome, str]:
    """Judge an AUC, whose reverse attack counts too, or a rate."""
    low, high = at_least(estimate.lower, 3), at_most(estimate.upper, 3)
    interval = f"{estimate.value:.3f} [{low}, {high}]"
    most = max(estimate.upper, 1 - estimate.lower) if mirror else estimate.upper
    if estimate.lower > limit:
        return "fail", f"{interval} lies above"
    if most <= limit:
        return "pass", f"{interval} lies below"
    if estimate.upper <= limit:
        return "inconclusive", f"{interval}: the reverse attack may have {most:.3g}"
    return "inconclusive", f"{interval} straddles it: more rows narrow it"


def _of_epsilon(estimate: Estimate, limit: float, corrected: Corrected) -> tuple[Outcome, str]:
    """Judge a lower bound on ε, which passes only if a larger leak would have been found."""
    planted, word = corrected.planted, "certified " if corrected.equal else ""
    certified = f"{word}ε >= {at_least(estimate.lower, 2)}"
    if estimate.lower > limit:
        return "fail", certified
    if estimate.value > limit:
        return "inconclusive", (
            f"{certified}, but the right guesses suggest {estimate.value:.3g}: give more rows"
        )
    if planted is None:
        return "inconclusive", f"{certified}, and it was not tried what would be found"
    often = f"{planted.hits} of {planted.runs} times"
    if planted.found:
        return "pass", f"{certified}, and {planted.mutant} in these rows is found {often}"
    return "inconclusive", (
        f"{certified}, and {planted.mutant} in these rows is found only {often}: give more rows"
    )
