"""The table of metrics: one entry has all that is printed, documented, judged or planned of one.

The order is that of columns in reports, of `dpaudit list metrics` and of the documentation.
Packages add entries under the entry point group `dpaudit.metrics`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import StringConstraints

from dpaudit.core import registry
from dpaudit.core.claim import LONGER, LONGEST
from dpaudit.core.errors import ConfigError
from dpaudit.core.messages import quoted
from dpaudit.record.bases import OF_ATTRIBUTES, OF_MODELS, OF_SUBMISSIONS
from dpaudit.record.metric import ATTACKS, FIELDS, NAME, Column, Metric

# A metric's name. A record may have one that no installed package describes.
MetricName = Annotated[str, StringConstraints(pattern=NAME)]

# What the audits that produce a metric need.
_Audits = Mapping[str, str]
_ATTACKED: _Audits = {"on_demand": "with [[attack]]"}
_COMPARED: _Audits = {"on_demand": "with [[game]]", "trained": "with [[game]]"}
_RECOVERED: _Audits = {"trained": "with [[attack]] on sensitive ratings"}
_OBSERVED: _Audits = {"trained": "with [transcript]"}
_ASSUMED: _Audits = {"trained": "whose claim assumes it"}
_PERSONAL: _Audits = {"trained": "whose users have an ε of their own"}
_MEMBERS: _Audits = {"membership": ""}
_FORGETTING: _Audits = {"membership": "with forget in a [[recommender]]"}
_RATED: _Audits = {
    "on_demand": "that predict ratings",
    "trained": "that predict ratings",
    "membership": "of models that predict ratings",
}
_GUESSED: _Audits = {"attributes": ""}
_SHOWN: _Audits = {"membership": "of models that show lists"}
_LISTED: _Audits = {"trained": "that rank", **_SHOWN}
# Of membership inference: who observes, and what a target is.
_SEEN = ("observer", "unit")
_GAME = ("unit", "event", "observer", "view", "shift", "theory", "control", "tried")
_RUN = " for the attacks that were run"
_LAW = " if the noise has the law that its code states"
_OF_A_USER = (
    "'ε of a user' is ε_u of Liu, Wang & Smola 2015, which depends on the user's budget and "
    "number of ratings. By an exact draw whose predictions stay in the range or are clipped to "
    "it, removing all ratings of the user costs at most a quarter of ε_u, and replacing them "
    "by those of x a quarter of ε_u + ε_x, which is at most half of the user's budget times ε "
    "if models use budgets. A temperature below 1 is counted.",
    "'loss of a user' is four times what the ratings of a user change in the log-density at "
    "the drawn models, so on the scale of ε_u. It is what happened, not what may happen: no "
    "claim covers a user by it. It lies above ε_u where predictions leave the range that the "
    "claim assumes.",
)
_TABLE = (
    Metric("epsilon", "certified lower bound on ε of a distinguishing game", "ε",
           {**_COMPARED, "membership": "", "mechanism": ""}, ("attack", "pair"), optional=_GAME,
           by="pair", larger="worse", role="attack", section="games", quantity="certified ε, pair"),
    Metric("attack.accuracy", "ε-Risk: share of hidden ratings that the attack recovers", "share",
           {**_ATTACKED, **_RECOVERED}, ("attack",), by="attack", larger="worse", role="recovery",
           columns=(Column("accuracy: {attack}"),), quantity="accuracy of attack", orders=True,
           note=("Attack accuracy is ε-Risk, the share of hidden ratings that the attack "
                 "recovered.",)),
    Metric("assumption.denominator", "share of a training's denominators below the bound that a "
           "published claim assumes, counted", "share", _ASSUMED, ("step",), role="assumption",
           columns=(Column("below C, step {step}", "percent", brief=False),),
           quantity="share of denominators below C",
           note=("The claim of Wang & Tang 2017 assumes Σ_j |s_ij| ≥ C in every prediction of "
                 "training, which nothing enforces. 'below C' is the share of predictions that "
                 "violate this, counted in some rows. 0 % says nothing about other rows, noise or "
                 "data.",)),
    Metric("assumption.norm", "share of users whose factors have a norm above the one a published "
           "claim assumes, and the largest norm, counted", "share or norm", _ASSUMED,
           ("step", "part"), "part", role="assumption",
           columns=(Column("users longer than 1", "percent", LONGER, brief=False),
                    Column("longest user", "number", LONGEST, brief=False)),
           quantity="length of users' factors,",
           note=("The claims of Meng et al. 2018 assume that no user's factors are longer than 1, "
                 "which nothing enforces. 'users longer than 1' is the share of users with ratings "
                 "whose factors are longer than 1 at the end of one training, and 'longest user' "
                 "is the greatest length. 0 % says nothing about earlier rounds, other noise or "
                 "data.",)),
    Metric("assumption.floor", "number of items whose estimated share of real submissions is below "
           "the minimum used, counted", "items", _OBSERVED, ("step",), role="assumption",
           columns=(Column("items at the floor", "number", brief=False),),
           quantity="items whose share is floored",
           note=("'items at the floor' is the number of items whose estimated share of real "
                 "submissions is below the minimum that is used in its place, a mean over "
                 "trainings.",)),
    Metric("personal.epsilon", "quantile over users of the ε that a user's own budget and number "
           "of ratings leave", "ε", _PERSONAL, ("part",), "part",
           columns=(Column("ε of a user", "number", brief=False),), quantity="ε of a user,",
           note=_OF_A_USER),
    Metric("personal.loss", "quantile over users and draws of four times what a user's ratings "
           "change in the log-density of the drawn model", "ε", _PERSONAL, ("part",), "part",
           columns=(Column("loss of a user", "number", brief=False),), quantity="loss of a user,",
           note=_OF_A_USER),
    Metric("utility.overlap", "ε-Utility: share of the noiseless list that the noised list keeps",
           "share", {"on_demand": ""}, larger="better", role="utility",
           columns=(Column("overlap@{top_k}"), Column("difference", "rest", brief=False)),
           quantity="overlap@k",
           note=("Overlap is ε-Utility, the share of the noiseless top-k list that the private "
                 "list keeps; difference = 1 − overlap.",)),
    Metric("utility.ndcg", "normalised discounted cumulative gain of lists on held-out items",
           "share", _LISTED, larger="better", role="utility", columns=(Column("nDCG"),),
           quantity="nDCG of lists"),
    Metric("utility.popular", "the same gain of lists of the most popular items, on the same "
           "held-out items", "share", _MEMBERS, columns=(Column("nDCG of the most popular",
           "number", brief=False),), quantity="nDCG of the most popular items"),
    Metric("utility.group", "the same gain of the lists of a group's users", "share", _MEMBERS,
           ("group",), "group", section="group utility",
           quantity="nDCG of lists of group"),
    Metric("utility.precision", "share of listed items that are held out", "share", _LISTED,
           larger="better", role="utility", columns=(Column("precision"),),
           quantity="precision of lists"),
    Metric("utility.recall", "share of held-out items that are listed", "share", _LISTED,
           larger="better", role="utility", columns=(Column("recall"),),
           quantity="recall of lists"),
    Metric("utility.hits", "share of users whose list shows a held-out item", "share",
           _SHOWN, larger="better", role="utility", columns=(Column("hit rate", brief=False),),
           quantity="hit rate of lists"),
    Metric("utility.mrr", "mean reciprocal rank of the first held-out item of a list", "share",
           _SHOWN, larger="better", role="utility", columns=(Column("MRR", brief=False),),
           quantity="reciprocal rank of lists"),
    Metric("utility.coverage", "share of all items that a list shows", "share",
           _SHOWN, larger="better", role="utility", columns=(Column("coverage", brief=False),),
           quantity="coverage of lists"),
    Metric("utility.rmse", "root mean squared error on held-out ratings", "rating", _RATED,
           larger="worse", role="utility", columns=(Column("rmse"),), quantity="rmse"),
    Metric("utility.mae", "mean absolute error on held-out ratings", "rating", _RATED,
           larger="worse", role="utility", columns=(Column("mae", brief=False),), quantity="mae"),
    Metric("utility.difference", "difference of an error or a share from that of another model",
           "rating", {"trained": "with train.against"}, ("against", "kind"), "kind", signed=True,
           role="utility", section="comparison", quantity="difference from"),
    Metric("reconstruction.rmse", "error of sensitive ratings recovered from a released model, or "
           "its improvement on a baseline", "rating", _RECOVERED, ("attack", "basis"), "basis",
           larger="better", bases=OF_MODELS, signed=True, role="recovery",
           section="recovery from models", quantity="rmse of sensitive ratings by"),
    Metric("reconstruction.mae", "mean absolute error of the same ratings, or its improvement on a "
           "baseline", "rating", _RECOVERED, ("attack", "basis"), "basis",
           larger="better", bases=OF_MODELS, signed=True, role="recovery",
           section="recovery from models", quantity="mae of sensitive ratings by"),
    Metric("reconstruction.precision", "share of recovered items that are sensitive, or its "
           "improvement on a baseline", "share", _RECOVERED, ("attack", "basis"), "basis",
           larger="worse", bases=OF_MODELS, signed=True, role="recovery",
           section="recovery from models", quantity="precision of sensitive items by"),
    Metric("reconstruction.recall", "share of sensitive items that are recovered, or its "
           "improvement on a baseline", "share", _RECOVERED, ("attack", "basis"), "basis",
           larger="worse", bases=OF_MODELS, signed=True, role="recovery",
           section="recovery from models", quantity="recall of sensitive items by"),
    Metric("submissions.rmse", "error of sensitive ratings recovered from submissions, or its "
           "improvement on a baseline", "rating", _RECOVERED, ("attack", "basis"), "basis",
           larger="better", bases=OF_SUBMISSIONS, signed=True, role="recovery",
           section="recovery from submissions", quantity="rmse of sensitive ratings by"),
    Metric("submissions.mae", "mean absolute error of the same ratings, or its improvement on a "
           "baseline", "rating", _RECOVERED, ("attack", "basis"), "basis",
           larger="better", bases=OF_SUBMISSIONS, signed=True, role="recovery",
           section="recovery from submissions", quantity="mae of sensitive ratings by"),
    Metric("sybil.accuracy", "share of hidden ratings that an attacker recovers with this effort",
           "share", {"on_demand": "with [[sybil]]"}, ("attack", "effort"), larger="worse",
           samples="sybil.trials", role="recovery", section="sybil",
           quantity="accuracy of Sybil attack", orders=True),
    Metric("chain.divergence", "divergence of a published Markov chain from its stationary law "
           "after some steps, computed", "nats", {"on_demand": "with [convergence]"},
           ("step", "states"), "states", section="chains", quantity="divergence of the chain,"),
    Metric("attack.auc", "AUC of an attack: present against absent "
           "targets of membership inference, or real against fake submissions after the last round",
           "share", {"trained": "with [transcript]", "membership": ""}, ("attack",),
           optional=(*_SEEN, "step", "event"), larger="worse", mirror=1.0,
           samples="transcript.trials", role="attack", section=ATTACKS, columns=(Column("AUC"),),
           quantity="area of attack"),
    Metric("attack.tpr", "true-positive rate of membership inference at a false-positive rate that "
           "is pooled over targets, so it is no single person's own rate", "share", _MEMBERS,
           ("attack", *_SEEN, "at"),
           optional=("event",), larger="worse", role="attack", section=ATTACKS,
           columns=(Column("TPR at {at} FPR"),), quantity="true positives of attack", orders=True),
    Metric("attack.advantage", "true- minus false-positive rate: of membership inference "
           "at a false-positive rate chosen beforehand, where balanced accuracy is a half plus a "
           "half of it, or of a game at its best threshold; the upper end of one training holds "
           "for every threshold", "gain",
           {**_COMPARED, "membership": ""}, ("attack",),
           optional=("pair", *_SEEN, "event"), larger="worse", signed=True, assumes=_RUN,
           mirror=0.0, role="attack", columns=(Column("advantage"),),
           quantity="advantage of attack"),
    Metric("leak", "largest advantage of the games or membership inferences of a model, at least "
           "0: how much better than chance the strongest measured attack distinguishes the data "
           "sets", "gain", {**_COMPARED, "membership": ""}, ("attack",),
           optional=("pair", *_SEEN, "event"), larger="worse", derived=True, assumes=_RUN,
           columns=(Column("leak"),), quantity="leak, to attack"),
    Metric("membership.roc", "ROC point of the strongest membership inference: true-positive rate "
           "at a false-positive rate", "share", _MEMBERS, ("attack", *_SEEN, "at"),
           section="curves", quantity="curve of attack"),
    Metric("membership.exposed", "quantile over targets of how much more often a target is found, "
           "at a false-positive rate of 1 % or the next measured, when present than when absent",
           "gain", _MEMBERS, ("attack", *_SEEN, "at"), signed=True, section="exposure",
           quantity="exposure to attack"),
    Metric("membership.group", "how much more often the present targets of a group are found, at "
           "the same false-positive rate, than its absent ones", "gain", _MEMBERS,
           ("attack", *_SEEN, "group"), "group", signed=True, role="attack", section="exposure",
           quantity="exposure to attack, group"),
    Metric("membership.blind", "AUC for the coins of what no model can tell: 0.5, or the audit has "
           "a fault", "share", _MEMBERS, ("attack", "unit"), optional=("observer",),
           section="blind baseline", quantity="blind baseline,"),
    Metric("attributes.advantage", "how many more guesses of an attribute of users are right, with "
           "classes counting alike, from the model's answers than from those of the same model "
           "trained without the user, than from the raw history, or than by a guess", "gain",
           _GUESSED, ("attribute", "observer", "basis"), larger="worse", bases=OF_ATTRIBUTES,
           signed=True, assumes=_RUN, role="attack", section="attributes",
           quantity="advantage of guesses,"),
    Metric("attributes.auc", "AUC of guesses of an attribute of users, mean over its classes if "
           "there are more than two", "share", _GUESSED, ("attribute", "basis"),
           optional=("observer",), section="attributes", quantity="AUC of guesses,"),
    Metric("attributes.accuracy", "share of right guesses of an attribute of users", "share",
           _GUESSED, ("attribute", "basis"), optional=("observer",), section="attributes",
           quantity="accuracy of guesses,"),
    Metric("game.kl", "divergence of a game's observations on D' from those on D", "nats",
           {"trained": "with [[game]]"}, ("attack", "pair", "estimator"), "estimator",
           larger="worse", assumes=_LAW, alone=True, section="divergence of games",
           quantity="divergence by"),
    Metric("transcript.tpr", "true-positive rate: share of real pairs found at a given "
           "false-positive rate", "share", _OBSERVED, ("attack", "step", "at"), alone=True,
           section="transcripts", columns=(Column("found at {at} false positives"),),
           quantity="true positives of attack"),
    Metric("transcript.power", "share of real, or of fake, pairs that a test at a given level "
           "calls real", "share", _OBSERVED, ("attack", "step", "at", "truth"), "truth", alone=True,
           section="transcripts",
           columns=(Column("{truth} pairs called real by single tests at {at}"),),
           quantity="power of single tests of attack"),
    Metric("transcript.exposed", "share of real pairs found at a given level, corrected for "
           "multiple tests", "share", _OBSERVED, ("attack", "step", "at", "correction"),
           "correction", alone=True, section="transcripts",
           columns=(Column("found, {correction} at {at}"),), quantity="real pairs found by attack"),
    Metric("transcript.false", "share of fakes among the found pairs", "share", _OBSERVED,
           ("attack", "step", "at", "correction"), "correction", alone=True, section="transcripts",
           columns=(Column("fakes among these, {correction}"),),
           quantity="fakes among those found by attack"),
    Metric("transcript.auc", "AUC of real against fake submissions after some rounds, with an "
           "interval over users", "share", _OBSERVED, ("attack", "step"), "items", ("items",),
           alone=True, role="attack", section="transcripts", columns=(Column("area, {items}"),),
           quantity="area of attack", orders=True),
    Metric("transcript.kl", "divergence of real submissions from fakes, averaged over real pairs, "
           "or a part of it", "nats", _OBSERVED, ("step", "part"), "part", larger="worse",
           assumes=_LAW, samples="transcript.trials", alone=True,
           section="divergence of submissions", quantity="divergence of real submissions,"),
    Metric("transcript.rmse", "root mean squared error on held-out ratings after some rounds",
           "rating", _OBSERVED, ("step",), alone=True, section="curves", quantity="rmse by round"),
    Metric("transcript.roc", "ROC point: share of real pairs above the score that a given share of "
           "fakes exceeds", "share", _OBSERVED, ("attack", "step", "at"), alone=True,
           section="curves", quantity="curve of attack"),
)  # fmt: skip


def _deletion() -> Iterable[Metric]:
    """Yield the names by which gates judge models that forget, and no others."""
    metrics = {metric.name: metric for metric in _TABLE}
    for name in ("attack.advantage", "attack.auc", "epsilon"):
        yield replace(
            metrics[name],
            name=f"deletion.{name.removeprefix('attack.')}",
            restricts=name,
            words=f"name in gates of {name} of models that forget, and of no others",
            audits=_FORGETTING,
            fields=("attack", *_SEEN),
            optional=("pair",),
        )


_OWN: Mapping[str, Metric] = {metric.name: metric for metric in (*_TABLE, *_deletion())}


def table() -> Mapping[str, Metric]:
    """Return every metric by its name: dpaudit's own, then those of installed packages."""
    return _with_plugins(tuple(sys.path))


def entry(name: str) -> Metric:
    """Return the entry of a metric; one that says nothing if no installed package describes it."""
    # Records of dpaudit's own metrics import no plug-in.
    metric = _OWN.get(name) or table().get(name)
    return metric or Metric(
        name, "a metric of a package that is not installed", "–", {}, optional=FIELDS
    )


def ordered(names: Iterable[str]) -> list[Metric]:
    """Return the entries of some metrics, each once, in the order of the table."""
    places = {name: place for place, name in enumerate(_OWN)}
    some = dict.fromkeys(names)
    return [entry(name) for name in sorted(some, key=lambda name: places.get(name, len(places)))]


def gateable(name: str) -> str:
    """Return the name of a metric that a gate may use.

    Raises:
        ValueError: there is no such metric, or no gate may use it; names those that are meant.
    """
    able = [metric.name for metric in table().values() if metric.gateable]
    if name in able:
        return name
    said = (
        f"no gate may use {name!r}"
        if name in table()
        else f"there is no metric {quoted(name, 100)}"
    )
    # What its name ends with, such as auc, is close to no name as a whole.
    ends = [known for known in able if known.rpartition(".")[2] == name.lower()]
    meant = f"; did you mean {' or '.join(map(repr, ends))}?" if ends else ""
    raise ValueError(f"{said}{meant or registry.suggestion(name, able)}")


@functools.cache
def _with_plugins(path: tuple[str, ...]) -> Mapping[str, Metric]:
    """Return the table on this import path.

    Raises:
        ConfigError: an entry point names no metric, or one of another name or of dpaudit's.
    """
    metrics = dict(_OWN)
    for name, metric in registry.every("metrics").items():
        if name in _OWN or metric.name != name:
            raise ConfigError(
                f"the entry point {name!r} of dpaudit.metrics names the metric {metric.name!r}: "
                "give both one name, which no metric of dpaudit's own has"
            )
        metrics[name] = metric
    return metrics
