"""The table of metrics: their meaning, the fields of their measurements, and which may gate."""

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
    "utility.ndcg",
    "utility.difference",
    "reconstruction.rmse",
    "reconstruction.mae",
    "reconstruction.precision",
    "reconstruction.recall",
    "submissions.rmse",
    "submissions.mae",
    "epsilon",
    "sybil.accuracy",
    "chain.divergence",
    "assumption.denominator",
    "assumption.floor",
    "assumption.norm",
    "attack.auc",
    "attack.tpr",
    "attack.advantage",
    "membership.roc",
    "membership.exposed",
    "membership.group",
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
Unit = Literal["share", "gain", "ε", "rating", "nats", "items", "share or norm"]


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: the name in measurements, gates and plans.
        words: its meaning in one line.
        unit: the unit of its values; `gain` is a difference of shares, -1 to 1; `share or norm` is
            for a share of users or the largest norm of
            their factors.
        fields: the fields of each measurement besides model, ε and estimate.
        detail: the field that distinguishes measurements that are otherwise alike; None if there
            is none.
        optional: further fields that a measurement may have.
        larger: what a larger value is, of a metric that a `[[gate]]` may use: `worse` for leaks
            and errors, `better` for shares that measure utility. None: no gate may use it.
    """

    name: MetricName
    words: str
    unit: Unit
    fields: tuple[str, ...] = ()
    detail: str | None = None
    optional: tuple[str, ...] = ()
    larger: Literal["worse", "better"] | None = None

    @property
    def gateable(self) -> bool:
        """Whether a `[[gate]]` may use it."""
        return self.larger is not None

    @property
    def known(self) -> tuple[str, ...]:
        """Return every field that a measurement of the metric may have."""
        return (*self.fields, *self.optional)


# Of membership inference: who observes, and what a target is.
_SEEN = ("observer", "unit")
_GAME = ("unit", "event", "observer", "shift", "theory", "control", "tried")
_TABLE = (
    Metric("attack.accuracy", "ε-Risk: share of hidden ratings that the attack recovers", "share",
           ("attack",), larger="worse"),
    Metric("utility.overlap", "ε-Utility: share of the noiseless list that the noised list keeps",
           "share", larger="better"),
    Metric("utility.rmse", "root mean squared error on held-out ratings", "rating", larger="worse"),
    Metric("utility.mae", "mean absolute error on held-out ratings", "rating"),
    Metric("utility.precision", "share of listed items that are held out", "share"),
    Metric("utility.recall", "share of held-out items that are listed", "share"),
    Metric("utility.ndcg", "normalised discounted cumulative gain of lists on held-out items",
           "share"),
    Metric("utility.difference", "difference of an error or a share from that of another model",
           "rating", ("against", "kind"), "kind"),
    Metric("reconstruction.rmse", "error of sensitive ratings recovered from a released model, or "
           "its improvement on a baseline", "rating", ("attack", "basis"), "basis"),
    Metric("reconstruction.mae", "mean absolute error of the same ratings, or its improvement on a "
           "baseline", "rating", ("attack", "basis"), "basis"),
    Metric("reconstruction.precision", "share of recovered items that are sensitive, or its "
           "improvement on a baseline", "share", ("attack", "basis"), "basis"),
    Metric("reconstruction.recall", "share of sensitive items that are recovered, or its "
           "improvement on a baseline", "share", ("attack", "basis"), "basis"),
    Metric("submissions.rmse", "error of sensitive ratings recovered from submissions, or its "
           "improvement on a baseline", "rating", ("attack", "basis"), "basis"),
    Metric("submissions.mae", "mean absolute error of the same ratings, or its improvement on a "
           "baseline", "rating", ("attack", "basis"), "basis"),
    Metric("epsilon", "certified lower bound on ε of a distinguishing game", "ε",
           ("attack", "pair"), optional=_GAME, larger="worse"),
    Metric("sybil.accuracy", "share of hidden ratings that an attacker recovers with this effort",
           "share", ("attack", "effort"), larger="worse"),
    Metric("chain.divergence", "divergence of a published Markov chain from its stationary law "
           "after some steps, computed", "nats", ("step", "states"), "states"),
    Metric("assumption.denominator", "share of a training's denominators below the bound that a "
           "published claim assumes, counted", "share", ("step",)),
    Metric("assumption.floor", "number of items whose estimated share of real submissions is below "
           "the minimum used, counted", "items", ("step",)),
    Metric("assumption.norm", "share of users whose factors have a norm above the one a published "
           "claim assumes, and the largest norm, counted", "share or norm", ("step", "part"),
           "part"),
    Metric("attack.auc", "AUC of an attack, expected over trainings: present against absent "
           "targets of membership inference, or real against fake submissions after the last round",
           "share", ("attack",), optional=(*_SEEN, "step", "event"), larger="worse"),
    Metric("attack.tpr", "true-positive rate of membership inference at a false-positive rate, "
           "expected over trainings", "share", ("attack", *_SEEN, "at"), optional=("event",),
           larger="worse"),
    Metric("attack.advantage", "true- minus false-positive rate of membership inference at a "
           "threshold chosen beforehand; balanced accuracy is a half plus a half of it", "gain",
           ("attack", *_SEEN), optional=("event",), larger="worse"),
    Metric("membership.roc", "ROC point of the strongest membership inference: true-positive rate "
           "at a false-positive rate", "share", ("attack", *_SEEN, "at")),
    Metric("membership.exposed", "quantile over targets of how much more often a target is found, "
           "at a false-positive rate of 1 % or the next measured, when present than when absent",
           "gain", ("attack", *_SEEN, "at")),
    Metric("membership.group", "how much more often the present targets of a group are found, at "
           "the same false-positive rate, than its absent ones", "gain",
           ("attack", *_SEEN, "group"), "group"),
    Metric("game.kl", "divergence of a game's observations on D' from those on D", "nats",
           ("attack", "pair", "estimator"), "estimator"),
    Metric("transcript.auc", "AUC of real against fake submissions after some rounds, with an "
           "interval over users", "share", ("attack", "step"), "items", ("items",)),
    Metric("transcript.tpr", "true-positive rate: share of real pairs found at a given "
           "false-positive rate", "share", ("attack", "step", "at")),
    Metric("transcript.power", "share of real, or of fake, pairs that a test at a given level "
           "calls real", "share", ("attack", "step", "at", "truth"), "truth"),
    Metric("transcript.exposed", "share of real pairs found at a given level, corrected for "
           "multiple tests", "share", ("attack", "step", "at", "correction"), "correction"),
    Metric("transcript.false", "share of fakes among the found pairs", "share",
           ("attack", "step", "at", "correction"), "correction"),
    Metric("transcript.kl", "divergence of real submissions from fakes, averaged over real pairs, "
           "or a part of it", "nats", ("step", "part"), "part"),
    Metric("transcript.rmse", "root mean squared error on held-out ratings after some rounds",
           "rating", ("step",)),
    Metric("transcript.roc", "ROC point: share of real pairs above the score that a given share of "
           "fakes exceeds", "share", ("attack", "step", "at")),
)  # fmt: skip
METRICS: Mapping[MetricName, Metric] = {metric.name: metric for metric in _TABLE}
