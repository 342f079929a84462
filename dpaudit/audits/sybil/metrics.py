"""What attackers with accounts reach."""

from __future__ import annotations

from dpaudit.record.fields import ATTACK, Field
from dpaudit.record.metric import Metric
from dpaudit.record.values import Count

EFFORT = Field(
    "effort",
    "the number of accounts (fake ones created before training included), changes or lists of a "
    "Sybil attack",
    Count,
    where=True,
    place="effort {effort}",
    labelled=True,
)

METRICS = (
    Metric("sybil.accuracy", "share of hidden ratings that an attacker recovers with this effort",
           "share", {"on_demand": "with [[sybil]]"}, (ATTACK, EFFORT), larger="worse",
           samples="sybil.trials", role="recovery", section="sybil",
           quantity="accuracy of Sybil attack", orders=True),
)  # fmt: skip
