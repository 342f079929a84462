"""The vocabulary of membership audits: units and observers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dpaudit.core.claim import Stated, covered_adjacencies, covered_observers

Unit = Literal["interaction", "user"]
Observer = Literal["scores", "own-list", "others-lists", "factors"]

# What each observer sees.
OBSERVERS: Mapping[Observer, str] = {
    "scores": "the scores of the target's own (user, item) pairs",
    "own-list": "the list shown to the target's user",
    "others-lists": "the lists shown to some other users",
    "factors": "the published factors of the items",
}

# Whom a stated claim may be about: `unfiltered-list` is `own-list` of lists that leave out nothing
# that their user has seen.
Covered = Literal["scores", "own-list", "unfiltered-list", "others-lists", "factors"]
UNFILTERED: Covered = "unfiltered-list"
# The released model, which a stated claim is about unless it says otherwise. A list that leaves out
# what its user has seen shows all of it to whoever sees the list, whatever the model learned.
RELEASED: tuple[Covered, ...] = ("scores", UNFILTERED, "others-lists", "factors")
# What all of them see.
SEEN: Mapping[str, str] = {
    **dict[str, str](OBSERVERS.items()),
    UNFILTERED: "the list shown to the target's user, if it leaves out nothing that the user has "
    "seen",
}

# The adjacency of two data sets that differ in the presence of one unit.
_PRESENCE: Mapping[str, str] = {"interaction": "rating-add-remove", "user": "user-add-remove"}


def covers(claim: Stated, unit: str, observer: str) -> bool:
    """Whether a claim's ε bounds what an observer learns about the presence of a unit.

    A claim about a user says as much about one interaction only if its ε is for replaced users. A
    claim about an interaction says nothing as strong about a user. What the claim treats as public
    must not tell the coin of a target, and ε must bound all that the observer sees of a training
    together.

    Args:
        claim: the claim.
        unit: what is present or absent; of a unit that is not known nothing is covered.
        observer: who observes it.
    """
    present = _PRESENCE.get(unit) in covered_adjacencies(claim)
    return present and observer in covered_observers(claim)
