"""Audits of who is in the data of trained models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dpaudit.auditor.gate import Trainings
from dpaudit.auditor.kind import NamedKind, listed, without
from dpaudit.audits.deletion.config import compared
from dpaudit.audits.membership.config import MembershipConfig, default_calibrating
from dpaudit.audits.membership.trainings import judged_trainings
from dpaudit.config.gate import Gate
from dpaudit.record.metrics import entry
from dpaudit.record.result import STRONGEST, AuditResult, Measurement

# The keys that decide none of the numbers that are compared: each names its observer and its rate,
# δ is that of the bound, and numbers of groups may not gate.
_NAMED = ("observers", "rates", "delta", "groups", "stop", "surrogates")
# Who sees lists.
_LISTED = ("own-list", "others-lists")


class MembershipAudits(NamedKind):
    """Audits of who is in the data of trained models."""

    name = "membership"
    config = MembershipConfig
    words = "[membership]"
    samples = "membership.trainings"
    audited = "dpaudit.audits.membership.measures:MemberModels"
    measured = ("dpaudit.audits.membership.measures:MembershipInferences",)
    shown = "dpaudit.audits.membership.sections:MembershipSections"

    def remedy(self, number: Measurement) -> str:
        """Name the trainings, and of a bound on ε, whose coins both have, the targets too."""
        return f"use more {self.samples}{' or targets' * (number.metric == 'epsilon')}"

    def trainings(self, result: AuditResult, gates: Sequence[Gate]) -> Trainings:
        """Return the judged trainings."""
        return judged_trainings(result, gates)

    def decisions(self, config: Any) -> Iterable[str]:
        """Say what numbers of trainings decide of the gates about the next one."""
        from dpaudit.audits.membership.decisions import decisions

        return decisions(config)

    def about(self, result: AuditResult, number: Measurement) -> dict[str, Any]:
        """Return what a number is about: held-out data, targets and coins, and who attacks.

        The seed, the number of trainings and how many calibrate say which of them calibrate, and
        with which coins. What is useful has no attacker, so none of these decides it. A run that
        stopped early has other trainings than its config says.
        """
        facts, table = super().about(result, number), without(result.config.get("membership"))
        metric, units, trainings = entry(number.metric), table.get("units"), table.get("trainings")
        useful = metric.role == "utility"
        shown = useful or number.observer in _LISTED
        unread = {
            "interactions": units == ["user"],
            "users": units == ["interaction"],
            "trainings": useful,
            "calibrating": useful,
            "k": not shown or metric.unit == "rating",
        }
        asked = without(table, *_NAMED, *(key for key, one in unread.items() if one))
        if isinstance(units, list):
            asked["units"] = sorted(map(str, units))
        if "interactions" in asked and asked["interactions"] is None and result.data:
            # A default that was fitted to the data.
            others = table.get("users", 0) if "user" in (units or ()) else 0
            asked["interactions"] = result.data.attacked - others
        if isinstance(trainings, int) and not useful:
            usual = table.get("calibrating") in (None, default_calibrating(trainings))
            asked["calibrating"] = None if usual else table["calibrating"]
        where = "stopped", number.model, number.epsilon
        stops = [one for one in result.findings if (one.about, one.model, one.epsilon) == where]
        asked["stop"] = [one.text for one in stops]
        if number.attack == STRONGEST:
            attacks = result.attacks.items()
            facts["attack"] = {name: without(table, "title", "source") for name, table in attacks}
        if number.metric == "epsilon" and facts["delta"] is None:
            asked["delta"] = table.get("delta")
        # Numbers of the training that ships judge it, and all others calibrate.
        for key in ("calibrating",) if number.statement == "this-model" else ("ships",):
            asked.pop(key, None)
        for model in listed(result.config.get("recommender")):
            if model.get("label") == number.model:
                facts["recommender"] = compared(model)
        return {**without(facts, "audit", "top_k"), "membership": asked}


KIND = MembershipAudits()
