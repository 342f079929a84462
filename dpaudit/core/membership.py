"""The vocabulary of membership audits: units and observers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dpaudit.core.claim import Stated, covered_adjacencies, covered_observers

Unit = Literal["interaction", "user"]
Observer = Literal[
    "scores",
    "asked-rows",
    "own-list",
    "others-lists",
    "nearest-items",
    "factors",
    "asked-histories",
    "before-and-after",
]

# What each observer sees of a model.
OBSERVERS: Mapping[Observer, str] = {
    "scores": "the scores of the target's own (user, item) pairs",
    "asked-rows": "the scores of the target's own pairs, and of as many others as they ask for",
    "own-list": "the list shown to the target's user",
    "others-lists": "the lists shown to some other users",
    "nearest-items": "the items nearest to each item, by the cosine of the published factors",
    "factors": "the published factors of the items",
    "asked-histories": "the scores of items after histories that the attacker sends",
}
# Who sees a model before and after a deletion. The change tells what was deleted, however well it
# is forgotten, so that this observer is kept apart from those who judge how it is.
WITNESS: Observer = "before-and-after"
# Who asks a model of sequences what comes next, after histories of the attacker's choice.
HISTORIES: Observer = "asked-histories"
# Who asks a model for more scores than those of the targets' own pairs. Those that a claim about
# `scores` alone is about are not all that this observer sees together, so none covers it.
ROWS: Observer = "asked-rows"
# Those who see published factors, or what a search among them returns.
OF_FACTORS: tuple[Literal["nearest-items", "factors"], ...] = ("nearest-items", "factors")

# How a trained model forgets: the methods of `recommender.forget`, in words.
Unlearning = Literal["own", "retrain", "filter", "drop-rows", "fine-tune", "influence", "ascent"]
UNLEARNING: Mapping[Unlearning, str] = {
    "own": "its own method",
    "retrain": "a training without it",
    "filter": "leaving its parameters as they are",
    "drop-rows": "dropping the rows of users without interactions",
    "fine-tune": "a training that goes on without it",
    "influence": "a Newton step",
    "ascent": "ascending the loss of what is forgotten",
}

# The observers that a stated claim may name. `unfiltered-list` is `own-list` where lists include
# what their user has seen.
Covered = Literal[
    "scores",
    "asked-rows",
    "own-list",
    "unfiltered-list",
    "others-lists",
    "nearest-items",
    "factors",
    "asked-histories",
]
UNFILTERED: Covered = "unfiltered-list"
# The observers of a claim that names none. `own-list` is not among them: a list that leaves out
# what its user has seen reveals all of it to whoever sees the list, whatever the model learned.
RELEASED: tuple[Covered, ...] = (
    "scores",
    "asked-rows",
    UNFILTERED,
    "others-lists",
    *OF_FACTORS,
    "asked-histories",
)
# What each of these observers sees.
SEEN: Mapping[str, str] = {
    **dict[str, str](OBSERVERS.items()),
    WITNESS: "the scores of the target's own (user, item) pairs before and after the deletion",
    UNFILTERED: "the list shown to the target's user, if it leaves out nothing that the user has "
    "seen",
}

# The adjacency of two data sets that differ in the presence of one unit.
_PRESENCE: Mapping[str, str] = {"interaction": "rating-add-remove", "user": "user-add-remove"}


def covers(claim: Stated, unit: str, observer: str) -> bool:
    """Whether a claim's ε bounds what an observer learns about the presence of a unit.

    A claim about users covers one interaction only if its adjacency is `user-replace`, and a claim
    about interactions covers no user. It is assumed that what the claim treats as public does not
    depend on whether a target is present, and that ε bounds everything that the observer sees of a
    training together.

    Args:
        claim: the claim.
        unit: what is present or absent; no claim covers an unknown unit.
        observer: who observes it.
    """
    present = _PRESENCE.get(unit) in covered_adjacencies(claim)
    return present and observer in covered_observers(claim)
