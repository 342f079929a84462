"""The names by which gates judge models that forget, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpaudit.core.membership import UNLEARNING, WITNESS
from dpaudit.record import shared
from dpaudit.record.fields import ATTACK, PAIR


def _told_afterwards(number: Mapping[str, Any]) -> bool:
    """Whether who is told a number sees the model after the deletion alone."""
    return number.get("observer") != WITNESS


METRICS = tuple(
    replace(
        metric,
        name=f"deletion.{metric.name.removeprefix('attack.')}",
        restricts=metric.name,
        trait="forget",
        states=tuple(UNLEARNING),
        judges=_told_afterwards,
        words=f"name in gates of {metric.name} of models that forget, and of no others",
        audits={"membership": "with forget in a [[recommender]]"},
        fields=(ATTACK, *shared.SEEN),
        optional=(PAIR,),
        places=(),
    )
    for metric in (shared.ATTACK_ADVANTAGE, shared.ATTACK_AUC, shared.EPSILON)
)
