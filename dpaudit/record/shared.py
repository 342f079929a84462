"""Metrics that several kinds of audit produce; each says in its own table what they need there."""

from __future__ import annotations

from dpaudit.record import fields
from dpaudit.record.metric import ATTACKS, Column, Metric

VIEW = fields.Field(
    "view",
    "what the observer saw, if more claims are about it than about the observer: `unfiltered-list` "
    "of own lists that leave out nothing that their user has seen",
    key=False,
)

# Who observes membership inference, and what a target is.
SEEN = (fields.OBSERVER, fields.UNIT)
_GAME = (*SEEN, fields.EVENT, VIEW, fields.SHIFT, fields.THEORY, fields.CONTROL, fields.TRIED)
# Which statement a number of trainings is for, and against whom.
ABOUT = (fields.STATEMENT, fields.ATTACKER)
# What a passing gate leaves open.
IN_RUN = " for the attacks that were run"
BY_LAW = " if the noise has the law that its code states"

EPSILON = Metric(
    "epsilon", "certified lower bound on ε of a distinguishing game", "ε",
    fields=(fields.ATTACK, fields.PAIR),
    optional=_GAME, by="pair", larger="worse", role="attack", section="games",
    quantity="certified ε, pair",
    places=("{attack}", "{pair}"))  # fmt: skip
ATTACK_ACCURACY = Metric(
    "attack.accuracy", "ε-Risk: share of hidden ratings that the attack recovers", "share",
    fields=(fields.ATTACK,), by="attack", larger="worse", role="recovery",
    columns=(Column("accuracy: {attack}"),), quantity="accuracy of attack", orders=True,
    note=("Attack accuracy is ε-Risk, the share of hidden ratings that the attack "
          "recovered.",))  # fmt: skip


def _of_lists(label: str, words: str) -> Metric:
    return Metric(
        f"utility.{label.lower()}", words, "share", optional=(fields.STATEMENT,), larger="better",
        role="utility",
        columns=(Column(label),), quantity=f"{label} of lists")  # fmt: skip


UTILITY_NDCG = _of_lists("nDCG", "normalised discounted cumulative gain of lists on held-out items")
UTILITY_PRECISION = _of_lists("precision", "share of listed items that are held out")
UTILITY_RECALL = _of_lists("recall", "share of held-out items that are listed")
UTILITY_RMSE = Metric(
    "utility.rmse", "root mean squared error on held-out ratings", "rating",
    optional=(fields.STATEMENT,), larger="worse", role="utility", columns=(Column("rmse"),),
    quantity="rmse")  # fmt: skip
UTILITY_MAE = Metric(
    "utility.mae", "mean absolute error on held-out ratings", "rating",
    optional=(fields.STATEMENT,), larger="worse", role="utility",
    columns=(Column("mae", brief=False),), quantity="mae")  # fmt: skip
ATTACK_AUC = Metric(
    "attack.auc", "AUC of an attack: present against absent "
    "targets of membership inference, or real against fake submissions after the last round",
    "share", fields=(fields.ATTACK,),
    optional=(fields.STEP, *SEEN, fields.EVENT, *ABOUT), larger="worse", mirror=1.0,
    samples="transcript.trials", role="attack", section=ATTACKS, columns=(Column("AUC"),),
    quantity="area of attack")  # fmt: skip
ATTACK_ADVANTAGE = Metric(
    "attack.advantage", "true- minus false-positive rate: of membership inference "
    "at a false-positive rate chosen beforehand, where balanced accuracy is a half plus a "
    "half of it, or of a game at its best threshold; the upper end of one training holds "
    "for every threshold", "gain", fields=(fields.ATTACK,),
    optional=(fields.PAIR, *SEEN, fields.EVENT, *ABOUT), larger="worse", signed=True,
    assumes=IN_RUN, mirror=0.0, role="attack", columns=(Column("advantage"),),
    quantity="advantage of attack")  # fmt: skip
LEAK = Metric(
    "leak", "largest advantage of the games or membership inferences of a model, at least "
    "0: how much better than chance the strongest measured attack distinguishes the data "
    "sets", "gain", fields=(fields.ATTACK,),
    optional=(fields.PAIR, *SEEN, fields.EVENT, *ABOUT), larger="worse", derived=True,
    assumes=IN_RUN, columns=(Column("leak"),), quantity="leak, to attack")  # fmt: skip
