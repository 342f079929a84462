"""What tells attributes of users."""

from __future__ import annotations

from dpaudit.record.bases import OF_ATTRIBUTES
from dpaudit.record.fields import BASIS, OBSERVER, Field
from dpaudit.record.metric import Metric
from dpaudit.record.shared import IN_RUN

ATTRIBUTE = Field("attribute", "the attribute of users that is guessed", where=True)
_GUESSED = {"attributes": ""}
_PLACES = ("{attribute}", "{observer}", "{basis}")

METRICS = (
    Metric("attributes.advantage", "how many more guesses of an attribute of users are right, with "
           "classes counting alike, from the model's answers than from those of the same model "
           "trained without the user, than from the raw history, or than by a guess", "gain",
           _GUESSED, (ATTRIBUTE, OBSERVER, BASIS), larger="worse", bases=OF_ATTRIBUTES,
           signed=True, assumes=IN_RUN, role="attack", section="attributes",
           quantity="advantage of guesses,", places=_PLACES),
    Metric("attributes.auc", "AUC of guesses of an attribute of users, mean over its classes if "
           "there are more than two", "share", _GUESSED, (ATTRIBUTE, BASIS),
           optional=(OBSERVER,), section="attributes", quantity="AUC of guesses,", places=_PLACES),
    Metric("attributes.accuracy", "share of right guesses of an attribute of users", "share",
           _GUESSED, (ATTRIBUTE, BASIS), optional=(OBSERVER,), section="attributes",
           quantity="accuracy of guesses,", places=_PLACES),
)  # fmt: skip
