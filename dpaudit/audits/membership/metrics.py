"""What tells who is in the data of trained models."""

from __future__ import annotations

from dpaudit.record import shared
from dpaudit.record.fields import AT, ATTACK, EVENT, OBSERVER, STATEMENT, UNIT, Field
from dpaudit.record.metric import ATTACKS, Column, Metric
from dpaudit.record.shared import ABOUT, SEEN

GROUP = Field("group", "the group of targets")
_MEMBERS = {"membership": ""}
_LISTED = {"membership": "of models that show lists"}
# A true-positive rate is named with its false-positive rate.
_AT_RATE = ("{attack}", "{unit} ({observer})", "{at:g} false positives")
_OF_STATEMENT = (*_AT_RATE, "{statement}", "attacker {attacker}")

METRICS = (
    shared.EPSILON.of("membership"),
    shared.UTILITY_NDCG.of("membership", "of models that show lists"),
    Metric("utility.popular", "the same gain of lists of the most popular items, on the same "
           "held-out items", "share", _MEMBERS, columns=(Column("nDCG of the most popular",
           "number", brief=False),), quantity="nDCG of the most popular items"),
    Metric("utility.group", "the same gain of the lists of a group's users", "share", _MEMBERS,
           (GROUP,), detail="group", section="group utility",
           quantity="nDCG of lists of group"),
    shared.UTILITY_PRECISION.of("membership", "of models that show lists"),
    shared.UTILITY_RECALL.of("membership", "of models that show lists"),
    Metric("utility.hits", "share of users whose list shows a held-out item", "share",
           _LISTED, optional=(STATEMENT,), larger="better", role="utility",
           columns=(Column("hit rate", brief=False),),
           quantity="hit rate of lists"),
    Metric("utility.mrr", "mean reciprocal rank of the first held-out item of a list", "share",
           _LISTED, optional=(STATEMENT,), larger="better", role="utility",
           columns=(Column("MRR", brief=False),),
           quantity="reciprocal rank of lists"),
    Metric("utility.coverage", "share of all items that a list shows", "share",
           _LISTED, optional=(STATEMENT,), larger="better", role="utility",
           columns=(Column("coverage", brief=False),),
           quantity="coverage of lists"),
    shared.UTILITY_RMSE.of("membership", "of models that predict ratings"),
    shared.UTILITY_MAE.of("membership", "of models that predict ratings"),
    shared.ATTACK_AUC.of("membership"),
    Metric("attack.tpr", "true-positive rate of membership inference at a false-positive rate that "
           "is pooled over targets, so it is no single person's own rate", "share", _MEMBERS,
           (ATTACK, AT, *SEEN),
           optional=(EVENT, *ABOUT), larger="worse", role="attack", section=ATTACKS,
           columns=(Column("TPR at {at} FPR"),), quantity="true positives of attack", orders=True,
           places=_OF_STATEMENT),
    shared.ATTACK_ADVANTAGE.of("membership"),
    shared.LEAK.of("membership"),
    Metric("membership.roc", "ROC point of the strongest membership inference: true-positive rate "
           "at a false-positive rate", "share", _MEMBERS, (ATTACK, AT, *SEEN),
           section="curves", quantity="curve of attack", places=_AT_RATE),
    Metric("membership.exposed", "quantile over targets of how much more often a target is found, "
           "at a false-positive rate of 1 % or the next measured, when present than when absent",
           "gain", _MEMBERS, (ATTACK, AT, *SEEN), signed=True, section="exposure",
           quantity="exposure to attack", places=_AT_RATE),
    Metric("membership.group", "how much more often the present targets of a group are found, at "
           "the same false-positive rate, than its absent ones", "gain", _MEMBERS,
           (ATTACK, *SEEN, GROUP), detail="group", signed=True, role="attack", section="exposure",
           quantity="exposure to attack, group"),
    Metric("membership.reconstructed", "share of hidden interactions on lists that are made from "
           "published factors and from what else the user has: of those that the model was trained "
           "on, less that of others; or of one group of them. And share of published vectors of "
           "users whose holder is named, less that of a guess", "gain", _MEMBERS, (ATTACK, *SEEN),
           optional=(GROUP,), signed=True, section="reconstruction",
           quantity="reconstructed from"),
    Metric("membership.blind", "AUC for the coins of what remembers no target: 0.5, or the audit "
           "has a fault; but that of how popular a user's list is, which may explain an attack",
           "share", _MEMBERS, (ATTACK, UNIT), optional=(OBSERVER,),
           section="blind baseline", quantity="blind baseline,",
           places=("{attack}", "{unit}", "{observer}")),
)  # fmt: skip
