"""What a check says of a training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from dpaudit.audits.dp_training.transcript import Place

Outcome = Literal["fails", "holds", "not tested"]
# What to do where a check fails.
_REMEDIES: Mapping[str, str] = {
    "clipping": "clip the gradient of each row over all parameters to the norm C, before the sum",
    "sum": "clip what the claim is about as one: a row, or all rows of a user; compute what rows "
    "share from public data, or privately",
    "noise-missing": "add noise to every coordinate in every step",
    "noise-repeated": "draw noise for each coordinate of each parameter",
    "noise-reused": "draw noise afresh in each step, from a generator that is not seeded again",
    "noise-seed": "draw the noise from the operating system's entropy, or from a secret seed",
    "noise-scale": "divide by a number that does not depend on the batch, or by none",
    "noise-size": "scale the noise by the noise multiplier times the norm C, or state less noise",
    "noise-shape": "draw Gaussian noise, of which the accountant knows the law",
    "batch-rate": "give the accountant the rate with which batches are drawn",
    "batch-shape": "draw each row of a batch by itself (Poisson sampling)",
    "steps-counted": "let the accountant count every step that adds noise",
    "transcript": "decide, normalise and publish by public data or by noised sums alone",
    "number": "divide by a constant that does not depend on the data, or declare n public",
}


@dataclass(frozen=True)
class Verdict:
    """What a check says.

    Attributes:
        check: the check's name.
        outcome: whether the training fails it.
        text: what was seen, in one sentence.
        epsilon: the ε that this implies at the claim's δ, from below; 0 if it implies none.
        least: the least fault that the check catches, in words; empty if it was not made.
        remedy: what to do; empty if nothing is.
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


def failed(check: str, text: str, epsilon: float = 0.0) -> Verdict:
    """Return that a training fails a check, with the ε that this implies."""
    return Verdict(check, "fails", text, epsilon, remedy=_REMEDIES[check])


def held(check: str, text: str, least: str) -> Verdict:
    """Return that a training keeps what a check asks, with the least fault that it catches."""
    return Verdict(check, "holds", text, least=least)


def judged(check: str, fault: bool, text: str, least: str, epsilon: float = math.inf) -> Verdict:
    """Return `failed` if there is a fault, which implies an infinite ε by default, else `held`."""
    return failed(check, text, epsilon) if fault else held(check, text, least)


def not_tested(check: str, why: str, remedy: str = "") -> Verdict:
    """Return that a check could not be made, and why."""
    return Verdict(check, "not tested", why, remedy=remedy)
