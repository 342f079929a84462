"""What a check says of a training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dpaudit.audits.dp_training.transcript import Place

Outcome = Literal["fails", "holds", "not tested"]
# The error probability of each check: how often it accuses a training that keeps its claim.
ALPHA = 1e-5
# The normal quantiles of this level, and of the power of 95 % with which a least fault is caught.
CAUGHT = 4.26 + 1.64


@dataclass(frozen=True)
class Verdict:
    """What a check says.

    Attributes:
        check: the check's name.
        outcome: whether the training fails it.
        text: what was seen, in one sentence.
        epsilon: the ε that this implies at the claim's δ, from below; 0 if it implies none.
        least: the least fault that the check catches, in words.
        remedy: what to do, where it fails or was not tested.
        place: the line that is to blame; None if it is not known.
    """

    check: str
    outcome: Outcome
    text: str
    epsilon: float = 0.0
    least: str = ""
    remedy: str = ""
    place: Place | None = None

    @property
    def fails(self) -> bool:
        """Whether the training fails the check."""
        return self.outcome == "fails"

    def at(self, place: Place | None) -> Verdict:
        """Return it with the line that is to blame."""
        return replace(self, place=place)


def not_tested(check: str, why: str, remedy: str = "") -> Verdict:
    """Return that a check could not be made, and why."""
    return Verdict(check, "not tested", why, remedy=remedy)


def failing(verdicts: Sequence[Verdict]) -> set[str]:
    """Return the names of the checks that fail."""
    return {verdict.check for verdict in verdicts if verdict.fails}
