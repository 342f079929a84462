"""The table of metrics: what each is, which fields its measurements have, and what may gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

MetricName = Literal[
    "attack.accuracy",
    "utility.overlap",
    "utility.rmse",
    "utility.mae",
    "utility.precision",
    "utility.recall",
    "utility.difference",
    "reconstruction.rmse",
    "reconstruction.mae",
    "reconstruction.precision",
    "reconstruction.recall",
    "submissions.rmse",
    "submissions.mae",
    "epsilon",
    "campaign.accuracy",
    "chain.divergence",
    "assumption.denominator",
    "assumption.floor",
    "assumption.norm",
    "attack.auc",
    "game.kl",
    "transcript.auc",
    "transcript.tpr",
    "transcript.power",
    "transcript.exposed",
    "transcript.false",
    "transcript.kl",
    "transcript.rmse",
    "transcript.roc",
]
Unit = Literal["share", "ε", "rating", "nats", "length"]


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: as measurements, gates and plans have it.
        words: what it is, in one line.
        unit: of its numbers; `length` of a share of users or their longest factors.
        fields: what each measurement says beside its model, ε and estimate.
        detail: the field that tells apart several numbers that agree in all else; None where there
            are none.
        optional: fields that it may leave out.
        gateable: whether a `[[gate]]` may judge it.
    """

    name: MetricName
    words: str
    unit: Unit
    fields: tuple[str, ...] = ()
    detail: str | None = None
    optional: tuple[str, ...] = ()
    gateable: bool = False

    @property
    def known(self) -> tuple[str, ...]:
        """Every field that a measurement of it may have."""
        return (*self.fields, *self.optional)


_GAME = ("event", "observer", "shift", "theory", "control", "tried")
_TABLE = (
    Metric("attack.accuracy", "ε-Risk: share of hidden ratings that the attack recovers", "share",
           ("attack",), gateable=True),
    Metric("utility.overlap", "ε-Utility: share of the noiseless list that the noised list keeps",
           "share", gateable=True),
    Metric("utility.rmse", "root mean squared error on held-out ratings", "rating", gateable=True),
    Metric("utility.mae", "mean absolute error on held-out ratings", "rating"),
    Metric("utility.precision", "share of a list that is held out", "share"),
    Metric("utility.recall", "share of what is held out that is listed", "share"),
    Metric("utility.difference", "by how much an error or a share is above that of another model",
           "rating", ("against", "kind"), "kind"),
    Metric("reconstruction.rmse", "error of sensitive ratings recovered from a released model, or "
           "by how much it is better than another", "rating", ("attack", "basis"), "basis"),
    Metric("reconstruction.mae", "the same, mean absolute", "rating", ("attack", "basis"), "basis"),
    Metric("reconstruction.precision", "share of a recovered list that is sensitive, or by how "
           "much it is better than another", "share", ("attack", "basis"), "basis"),
    Metric("reconstruction.recall", "share of sensitive items that are recovered, likewise",
           "share", ("attack", "basis"), "basis"),
    Metric("submissions.rmse", "error of sensitive ratings recovered from what users submit, or by "
           "how much it is better than another", "rating", ("attack", "basis"), "basis"),
    Metric("submissions.mae", "the same, mean absolute", "rating", ("attack", "basis"), "basis"),
    Metric("epsilon", "certified lower bound on ε of a distinguishing game", "ε",
           ("attack", "pair"), optional=_GAME, gateable=True),
    Metric("campaign.accuracy", "share of hidden ratings that an attacker of so much effort reads",
           "share", ("attack", "effort"), gateable=True),
    Metric("chain.divergence", "divergence of a published chain from its stationary law after some "
           "steps, computed", "nats", ("step", "states"), "states"),
    Metric("assumption.denominator", "share of a training's denominators below what a published "
           "claim assumes, counted", "share", ("step",)),
    Metric("assumption.floor", "items whose share of real submissions was estimated below the "
           "least that is used, counted", "share", ("step",)),
    Metric("assumption.norm", "share of users whose factors are longer than a published claim "
           "assumes, and the longest, counted", "length", ("step", "part"), "part"),
    Metric("attack.auc", "how often the attacker takes a real submission for likelier than a fake, "
           "after the last round", "share", ("attack", "step"), gateable=True),
    Metric("game.kl", "divergence of what a game saw in D' from what it saw in D", "nats",
           ("attack", "pair", "estimator"), "estimator"),
    Metric("transcript.auc", "the same area after some rounds, of users like these", "share",
           ("attack", "step"), "items", ("items",)),
    Metric("transcript.tpr", "share of real pairs found at a false-positive rate", "share",
           ("attack", "step", "at")),
    Metric("transcript.power", "share of real or of fake pairs that a test at a level calls real",
           "share", ("attack", "step", "at", "truth"), "truth"),
    Metric("transcript.exposed", "share of real pairs found by all tests together at a level",
           "share", ("attack", "step", "at", "correction"), "correction"),
    Metric("transcript.false", "share of fakes among what is found", "share",
           ("attack", "step", "at", "correction"), "correction"),
    Metric("transcript.kl", "divergence of real submissions from fakes, a mean over real pairs, or "
           "a part of it", "nats", ("step", "part"), "part"),
    Metric("transcript.rmse", "root mean squared error on held-out ratings after some rounds",
           "rating", ("step",)),
    Metric("transcript.roc", "a point of the curve: share of real pairs above the score that a "
           "share of fakes exceeds", "share", ("attack", "step", "at")),
)  # fmt: skip
METRICS: Mapping[MetricName, Metric] = {metric.name: metric for metric in _TABLE}
