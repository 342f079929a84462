"""The table of metrics: meaning, fields, the audits that produce them, and which may gate.

Whatever is printed, documented or enumerated of metrics is taken from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from dpaudit.record.bases import GAINS, OF_MODELS, OF_SUBMISSIONS

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
    "personal.epsilon",
    "personal.loss",
    "attack.auc",
    "attack.tpr",
    "attack.advantage",
    "leak",
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
# What a value of each unit is, and the largest one.
_UNITS: Mapping[Unit, tuple[str, float]] = {
    "share": ("a share", 1.0),
    "gain": ("a difference of shares", 1.0),
    "ε": ("an ε", math.inf),
    "rating": ("an error of ratings", math.inf),
    "nats": ("a divergence", math.inf),
    "items": ("a number of items", math.inf),
    "share or norm": ("a share or a norm", math.inf),
}
# The kinds of audits, with their names in messages.
Audit = Literal["on demand", "trained", "membership", "black box"]
_AUDITS: Mapping[Audit, str] = {
    "on demand": "models on demand",
    "trained": "trained models",
    "membership": "[membership]",
    "black box": "[defense]",
}
# The fields of a measurement by which a gate picks.
WhereKey = Literal[
    "epsilon", "model", "attack", "pair", "effort", "observer", "unit", "at", "basis"
]


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: the name in measurements, gates and plans.
        words: its meaning in one line.
        unit: the unit of its values; `gain` is a difference of shares; `share or norm` is for a
            share of users or the largest norm of their factors.
        audits: the kinds of audits that produce it, each with what it needs there.
        fields: the fields of each measurement besides model, ε and estimate.
        detail: the field that distinguishes measurements that are otherwise alike; None if there
            is none.
        optional: further fields that a measurement may have.
        larger: what a larger value is, of a metric that a `[[gate]]` may use: `worse` for leaks
            and errors, `better` for shares that measure utility and for an attacker's errors. None:
            no gate may use it.
        bases: the values of `basis` by which a gate may pick; the first unless its `where` has one.
        derived: whether its interval is a function of other joint intervals, so that it adds none
            to their family and only the model and ε identify it.
        signed: whether its values, such as differences, may be negative.
    """

    name: MetricName
    words: str
    unit: Unit
    audits: Mapping[Audit, str]
    fields: tuple[str, ...] = ()
    detail: str | None = None
    optional: tuple[str, ...] = ()
    larger: Literal["worse", "better"] | None = None
    bases: tuple[str, ...] = ()
    derived: bool = False
    signed: bool = False

    def range(self, width: float = math.inf, basis: str | None = None) -> tuple[float, float]:
        """Return the least and the largest value that it can have.

        Args:
            width: the largest error of a rating, if the scale is known.
            basis: what it is of, if `bases` has some; gains alone may be negative.
        """
        most = width if self.unit == "rating" else _UNITS[self.unit][1]
        signed = self.signed and (not self.bases or basis is None or basis in GAINS)
        return (-most if signed else 0.0), most

    def values(self, width: float = math.inf, basis: str | None = None) -> str:
        """Say what its values are, and their range; the arguments are those of `range`."""
        low, high = self.range(width, basis)
        within = f"of at least {low:g}" if high == math.inf else f"in [{low:g}, {high:g}]"
        return f"{_UNITS[self.unit][0]} {within}"

    @property
    def gateable(self) -> bool:
        """Whether a `[[gate]]` may use it."""
        return self.larger is not None

    @property
    def known(self) -> tuple[str, ...]:
        """Return every field that a measurement of the metric may have."""
        return (*self.fields, *self.optional)

    @property
    def sources(self) -> tuple[str, ...]:
        """Return which audits produce it, in words."""
        return tuple(f"{_AUDITS[audit]} {needs}".rstrip() for audit, needs in self.audits.items())

    @property
    def where(self) -> tuple[str, ...]:
        """Return the keys by which a gate on it may pick; none if it may not gate."""
        own = () if self.derived else self.known
        keys = (key for key in get_args(WhereKey) if key in {"model", "epsilon", *own})
        return tuple(keys) if self.gateable else ()


# What the audits that produce a metric need.
_ATTACKED: Mapping[Audit, str] = {"on demand": "with [[attack]]"}
_COMPARED: Mapping[Audit, str] = {"on demand": "with [[game]]", "trained": "with [[game]]"}
_RECOVERED: Mapping[Audit, str] = {"trained": "with [[attack]] on sensitive ratings"}
_OBSERVED: Mapping[Audit, str] = {"trained": "with [transcript]"}
_ASSUMED: Mapping[Audit, str] = {"trained": "whose claim assumes it"}
_PERSONAL: Mapping[Audit, str] = {"trained": "whose users have an ε of their own"}
_MEMBERS: Mapping[Audit, str] = {"membership": ""}
_RATED: Mapping[Audit, str] = {
    "on demand": "that predict ratings",
    "trained": "that predict ratings",
    "membership": "of models that predict ratings",
}
_LISTED: Mapping[Audit, str] = {
    "trained": "that rank",
    "membership": "of models that show lists",
}
# Of membership inference: who observes, and what a target is.
_SEEN = ("observer", "unit")
_GAME = ("unit", "event", "observer", "view", "shift", "theory", "control", "tried")
_TABLE = (
    Metric("attack.accuracy", "ε-Risk: share of hidden ratings that the attack recovers", "share",
           {**_ATTACKED, **_RECOVERED}, ("attack",), larger="worse"),
    Metric("utility.overlap", "ε-Utility: share of the noiseless list that the noised list keeps",
           "share", {"on demand": ""}, larger="better"),
    Metric("utility.rmse", "root mean squared error on held-out ratings", "rating", _RATED,
           larger="worse"),
    Metric("utility.mae", "mean absolute error on held-out ratings", "rating", _RATED,
           larger="worse"),
    Metric("utility.precision", "share of listed items that are held out", "share", _LISTED,
           larger="better"),
    Metric("utility.recall", "share of held-out items that are listed", "share", _LISTED,
           larger="better"),
    Metric("utility.ndcg", "normalised discounted cumulative gain of lists on held-out items",
           "share", _LISTED, larger="better"),
    Metric("utility.difference", "difference of an error or a share from that of another model",
           "rating", {"trained": "with train.against"}, ("against", "kind"), "kind", signed=True),
    Metric("reconstruction.rmse", "error of sensitive ratings recovered from a released model, or "
           "its improvement on a baseline", "rating", _RECOVERED, ("attack", "basis"), "basis",
           larger="better", bases=OF_MODELS, signed=True),
    Metric("reconstruction.mae", "mean absolute error of the same ratings, or its improvement on a "
           "baseline", "rating", _RECOVERED, ("attack", "basis"), "basis",
           larger="better", bases=OF_MODELS, signed=True),
    Metric("reconstruction.precision", "share of recovered items that are sensitive, or its "
           "improvement on a baseline", "share", _RECOVERED, ("attack", "basis"), "basis",
           larger="worse", bases=OF_MODELS, signed=True),
    Metric("reconstruction.recall", "share of sensitive items that are recovered, or its "
           "improvement on a baseline", "share", _RECOVERED, ("attack", "basis"), "basis",
           larger="worse", bases=OF_MODELS, signed=True),
    Metric("submissions.rmse", "error of sensitive ratings recovered from submissions, or its "
           "improvement on a baseline", "rating", _RECOVERED, ("attack", "basis"), "basis",
           larger="better", bases=OF_SUBMISSIONS, signed=True),
    Metric("submissions.mae", "mean absolute error of the same ratings, or its improvement on a "
           "baseline", "rating", _RECOVERED, ("attack", "basis"), "basis",
           larger="better", bases=OF_SUBMISSIONS, signed=True),
    Metric("epsilon", "certified lower bound on ε of a distinguishing game", "ε",
           {**_COMPARED, "membership": "", "black box": ""}, ("attack", "pair"), optional=_GAME,
           larger="worse"),
    Metric("sybil.accuracy", "share of hidden ratings that an attacker recovers with this effort",
           "share", {"on demand": "with [[sybil]]"}, ("attack", "effort"), larger="worse"),
    Metric("chain.divergence", "divergence of a published Markov chain from its stationary law "
           "after some steps, computed", "nats", {"on demand": "with [convergence]"},
           ("step", "states"), "states"),
    Metric("assumption.denominator", "share of a training's denominators below the bound that a "
           "published claim assumes, counted", "share", _ASSUMED, ("step",)),
    Metric("assumption.floor", "number of items whose estimated share of real submissions is below "
           "the minimum used, counted", "items", _OBSERVED, ("step",)),
    Metric("assumption.norm", "share of users whose factors have a norm above the one a published "
           "claim assumes, and the largest norm, counted", "share or norm", _ASSUMED,
           ("step", "part"), "part"),
    Metric("personal.epsilon", "quantile over users of the ε that a user's own budget and number "
           "of ratings leave", "ε", _PERSONAL, ("part",), "part"),
    Metric("personal.loss", "quantile over users and draws of four times what a user's ratings "
           "change in the log-density of the drawn model", "ε", _PERSONAL, ("part",), "part"),
    Metric("attack.auc", "AUC of an attack, expected over trainings: present against absent "
           "targets of membership inference, or real against fake submissions after the last round",
           "share", {"trained": "with [transcript]", "membership": ""}, ("attack",),
           optional=(*_SEEN, "step", "event"), larger="worse"),
    Metric("attack.tpr", "true-positive rate of membership inference at a false-positive rate, "
           "expected over trainings", "share", _MEMBERS, ("attack", *_SEEN, "at"),
           optional=("event",), larger="worse"),
    Metric("attack.advantage", "true- minus false-positive rate: of membership inference at a "
           "threshold chosen beforehand, where balanced accuracy is a half plus a half of it, or "
           "of a game at its best threshold", "gain", {**_COMPARED, "membership": ""}, ("attack",),
           optional=("pair", *_SEEN, "event"), larger="worse", signed=True),
    Metric("leak", "largest advantage of the games or membership inferences of a model, at least "
           "0: how much better than chance the strongest measured attack distinguishes the data "
           "sets",
           "gain", {**_COMPARED, "membership": ""}, ("attack",), optional=("pair", *_SEEN, "event"),
           larger="worse", derived=True),
    Metric("membership.roc", "ROC point of the strongest membership inference: true-positive rate "
           "at a false-positive rate", "share", _MEMBERS, ("attack", *_SEEN, "at")),
    Metric("membership.exposed", "quantile over targets of how much more often a target is found, "
           "at a false-positive rate of 1 % or the next measured, when present than when absent",
           "gain", _MEMBERS, ("attack", *_SEEN, "at"), signed=True),
    Metric("membership.group", "how much more often the present targets of a group are found, at "
           "the same false-positive rate, than its absent ones", "gain", _MEMBERS,
           ("attack", *_SEEN, "group"), "group", signed=True),
    Metric("game.kl", "divergence of a game's observations on D' from those on D", "nats",
           {"trained": "with [[game]]"}, ("attack", "pair", "estimator"), "estimator",
           larger="worse"),
    Metric("transcript.auc", "AUC of real against fake submissions after some rounds, with an "
           "interval over users", "share", _OBSERVED, ("attack", "step"), "items", ("items",)),
    Metric("transcript.tpr", "true-positive rate: share of real pairs found at a given "
           "false-positive rate", "share", _OBSERVED, ("attack", "step", "at")),
    Metric("transcript.power", "share of real, or of fake, pairs that a test at a given level "
           "calls real", "share", _OBSERVED, ("attack", "step", "at", "truth"), "truth"),
    Metric("transcript.exposed", "share of real pairs found at a given level, corrected for "
           "multiple tests", "share", _OBSERVED, ("attack", "step", "at", "correction"),
           "correction"),
    Metric("transcript.false", "share of fakes among the found pairs", "share", _OBSERVED,
           ("attack", "step", "at", "correction"), "correction"),
    Metric("transcript.kl", "divergence of real submissions from fakes, averaged over real pairs, "
           "or a part of it", "nats", _OBSERVED, ("step", "part"), "part", larger="worse"),
    Metric("transcript.rmse", "root mean squared error on held-out ratings after some rounds",
           "rating", _OBSERVED, ("step",)),
    Metric("transcript.roc", "ROC point: share of real pairs above the score that a given share of "
           "fakes exceeds", "share", _OBSERVED, ("attack", "step", "at")),
)  # fmt: skip
METRICS: Mapping[MetricName, Metric] = {metric.name: metric for metric in _TABLE}

# The metrics that a gate may name; a type checker takes any metric.
if TYPE_CHECKING:
    GateMetric = MetricName
else:
    GateMetric = Literal[tuple(metric.name for metric in _TABLE if metric.gateable)]
