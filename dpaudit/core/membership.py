"""The vocabulary of membership audits: units and observers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

Unit = Literal["interaction", "user"]
Observer = Literal["scores", "own-list", "others-lists", "factors"]

# What each observer sees.
OBSERVERS: Mapping[Observer, str] = {
    "scores": "the scores of the target's own (user, item) pairs",
    "own-list": "the list shown to the target's user",
    "others-lists": "the lists shown to some other users",
    "factors": "the published factors of the items",
}

# The adjacencies under which two data sets that differ in one unit are neighbours. A replaced user
# may have one interaction less.
_NEIGHBOURS: Mapping[str, str] = {
    "rating-add-remove": "interaction",
    "user-replace": "interaction",
    "user-add-remove": "user",
}


class Stated(Protocol):
    """A guarantee's adjacency and observers; a `Claim` or its record."""

    @property
    def adjacency(self) -> str:
        """Which data sets count as neighbours."""
        ...

    @property
    def observer(self) -> str:
        """Who sees the release."""
        ...

    @property
    def also(self) -> Sequence[str]:
        """Further observers."""
        ...


def covers(claim: Stated, unit: str, observer: str) -> bool:
    """Whether a claim's ε bounds what an observer learns about the presence of a unit.

    A claim about a user says as much about one interaction only if its ε is for replaced users,
    as removing an interaction is removing the user and adding another. A claim about an interaction
    says nothing as strong about a user. What the claim treats as public must not tell the coin of a
    target, and ε must bound all that the observer sees of a training together.

    Args:
        claim: the claim.
        unit: what is present or absent.
        observer: who observes it.
    """
    seen = {claim.observer, *claim.also}
    if seen & {"public", "iterates"}:
        # Others' lists follow from the released model and others' data; the user's own scores and
        # list may use the user's data again.
        seen |= {"others-lists", "factors"}
    return _NEIGHBOURS.get(claim.adjacency) == unit and observer in seen
