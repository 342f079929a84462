"""The record of a run: every number with its interval, and all that is needed to make it again.

Reports are rendered from it alone; it holds no audited person's id or rating but where the config
asks for the details of a pair, or holds data itself.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from dpaudit.core.estimate import Estimate, Number, Probability

SCHEMA = 1
# The divergence itself, beside the parts that it consists of (`states` of `transcript.kl`).
WHOLE = "whole"
# What sensitive ratings are recovered from, and by how much one error is above another (`states` of
# `reconstruction.…` and `submissions.…`).
RELEASED, WITHOUT, MEANS = "released model", "model without them", "item means"
LEAK, BEYOND_MEANS = "leak", "better than item means"
BEYOND_WITHOUT = "better than without them"
SUBMITTED, BEYOND_RELEASED = "submissions", "better than released model"
# How many users' factors are longer than 1, and how long the longest are (`assumption.norm`).
Count = Annotated[int, Field(ge=0)]
Size = Annotated[Number, Field(ge=0)]
Positive = Annotated[Number, Field(gt=0)]
Outcome = Literal["pass", "fail", "inconclusive"]
Metric = Literal[
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


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class ClaimRecord(_Part):
    """A stated guarantee; the fields are those of `defenses.base.Claim`."""

    epsilon: Positive
    delta: Probability
    adjacency: str
    observer: str
    public: str
    source: str
    also: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()


class DataRecord(_Part):
    """The audited data in numbers.

    Attributes:
        digest: SHA-256 of the ratings.
        users: number of users.
        items: number of items.
        ratings: number of ratings.
        scale: least rating, greatest rating, step.
        trained: users whose ratings the similarity is built from.
        attacked: users who are attacked.
        links: links between users, each direction one; None where nobody's friends are known.
        sensitive: ratings that their users keep to themselves; None where nobody said so of any.
        repairs: what loading dropped, merged or changed, and how many of them.
    """

    digest: str
    users: Count
    items: Count
    ratings: Count
    scale: tuple[Number, Number, Number]
    trained: Count
    attacked: Count
    links: Count | None = None
    sensitive: Count | None = None
    repairs: dict[str, Count] = {}


class ModelRecord(_Part):
    """One audited recommender.

    Attributes:
        label: its name in this run.
        defense: the registered defense.
        title: what it is, in one line.
        variant: `nonprivate`, `published` or `corrected`.
        source: paper and equations.
        params: its hyper-parameters.
        top_k: length of the list shown to a user.
    """

    label: str
    defense: str
    title: str
    variant: str
    source: str
    params: dict[str, Any]
    top_k: Count


class PointRecord(_Part):
    """One ε of a model's sweep.

    Attributes:
        model: the model's label.
        epsilon: the ε that the noise is scaled to.
        sensitivity: the Δf in use; None where it is not known, or no noise is added.
        noise_scale: the Laplace scale Δf/ε; None where there is none.
        claim: what the variant guarantees here, if anything.
        chosen: the hyper-parameters that a grid search chose here; empty without one.
    """

    model: str
    epsilon: Positive
    sensitivity: Size | None
    noise_scale: Size | None
    claim: ClaimRecord | None
    chosen: dict[str, Any] = {}


class Control(_Part):
    """What a game found on a mutant of the mechanism, built to break the claim: a measured power.

    Attributes:
        mutant: how the mutant was made, in words.
        factor: by how much it breaks the claim: its noise is that of `factor` times the claimed ε,
            or a violation of so much is planted in it. A pair that does not exhaust the claim shows
            less.
        certified: the lower bound on ε that the same game, pair and score certified on it.
        found: whether that exceeds the claimed ε.
    """

    mutant: str
    factor: Size
    certified: Number
    found: bool


class Measurement(_Part):
    """One measured number.

    Attributes:
        metric: what was measured. `attack.accuracy`: ε-Risk, the share of hidden ratings that were
            recovered; `utility.overlap`: ε-Utility, the share of the noiseless top-k list that the
            noised list keeps; `utility.rmse`: root mean squared error on held-out ratings;
            `utility.mae`: mean absolute error on them; `utility.precision` and `….recall`: how much
            of a list is held out, and how much of what is held out is listed;
            `utility.difference`: by how much an error, or a share of hits,
            is above that of the model that `attack` names; `reconstruction.rmse` and `….mae`: the
            errors of sensitive ratings that are recovered, `….precision` and `….recall` the hits of
            sensitive items that are listed, or by how much one is better than another, and
            `submissions.rmse` and `….mae` those of some users, from what they submit;
            `epsilon`: the certified lower bound on ε of a distinguishing game;
            `campaign.accuracy`: how often an attacker with so many accounts, changes or watched
            lists reads a hidden rating; `chain.divergence`: how far the law of a chain's state
            after `step` steps is from the law that it tends to; `assumption.denominator`: the share
            of training's predictions in `step` whose denominator is smaller than the claim assumes;
            `assumption.floor`: how many items' shares were estimated below the least that is used;
            `assumption.norm`: the share of users whose factors are longer after `step` rounds than
            the claim assumes, or how long the longest are (`states`).
            `game.kl`: the divergence of what a game saw in D' from what it saw in D, in nats.
            Of the submissions of a federated training: `attack.auc`: how often the attacker takes
            a real pair of a user and an item for likelier than a fake one, after the last round;
            `transcript.auc` the same after `step` rounds, of users like these; `transcript.tpr`:
            the share of real pairs found at the false-positive rate `at`; `transcript.power`: the
            share of real or fake pairs (`states`) that a test at level `at` calls real;
            `transcript.exposed`: the share of real pairs found by all tests together at level `at`,
            corrected as `states` says; `transcript.false`: the share of fakes among what is found;
            `transcript.kl`: the divergence of real submissions from fakes, a mean over real pairs,
            in nats, or a part of it;
            `transcript.roc`: a point of the curve, the share of real pairs above the score that the
            share `at` of fakes exceeds; `transcript.rmse`: the error on held-out ratings.
        model: the model's label.
        epsilon: the ε of the sweep.
        attack: the attack's label, of `attack.…`, `campaign.accuracy`, `epsilon`, `transcript.…`.
        pair: the pair's name, of `epsilon`; with `(list)` where only the list was seen.
        estimate: the number.
        event: the event that certifies, chosen on other worlds.
        observer: who saw submissions, or messages to friends, of `epsilon`: a `recommender`, say.
        shift: by how much the exact prediction differs between the two data sets; None where a list
            was seen.
        theory: the ε of this pair by the law of the noise, or of the list, of `epsilon` where it is
            known; it judges nothing.
        effort: the accounts, planted ones included, changes or lists, of `campaign.accuracy`.
        step: the number of steps or rounds, of `chain.divergence`, `assumption.denominator`,
            `assumption.norm`, `attack.auc` and `transcript.…`.
        states: the states whose laws are compared, of `chain.divergence`; what it is about, of
            `assumption.norm` and `transcript.…`: items by popularity, a correction, a part of the
            divergence.
        at: the level or false-positive rate, of `transcript.…`.
        control: the least mutant that the same game found to break the claim, of `epsilon`, or the
            last that it did not find; None where none was tried.
        tried: every mutant that was tried, where there are several.
    """

    metric: Metric
    model: str
    epsilon: Number
    attack: str | None = None
    pair: str | None = None
    estimate: Estimate
    event: str | None = None
    observer: str | None = None
    shift: Number | None = None
    theory: Estimate | None = None
    effort: Count | None = None
    step: Count | None = None
    states: str | None = None
    at: Probability | None = None
    control: Control | None = None
    tried: tuple[Control, ...] = ()

    @property
    def controls(self) -> tuple[Control, ...]:
        """Every mutant that was tried."""
        return self.tried or ((self.control,) if self.control else ())


class PairRecord(_Part):
    """A pair of neighbouring data sets that a game was played on, in one sentence.

    `drift` says where outputs change from call to call, though the data are the same.
    """

    model: str
    pair: str
    summary: str
    drift: str | None = None


class GateRecord(_Part):
    """A threshold with its outcome.

    Attributes:
        rule: the threshold in words.
        outcome: `pass`, `fail` or `inconclusive`; the worst of its points.
        reason: why, with the deciding number.
    """

    rule: str
    outcome: Outcome
    reason: str


class Family(_Part):
    """The intervals of a run, which hold together with the stated confidence.

    Attributes:
        confidence: the simultaneous confidence.
        size: the number of intervals that share the error probability.
        alpha: each one's own level (Bonferroni).
    """

    confidence: Probability
    size: Annotated[int, Field(ge=1)]
    alpha: Probability

    @classmethod
    def of(cls, confidence: float, size: int) -> Self:
        """Every interval gets the same share of the error probability (Bonferroni)."""
        return cls(confidence=confidence, size=size, alpha=(1 - confidence) / size)


class Timing(_Part):
    """When the run was made, and how long it took; all else is the same when it is repeated."""

    started: str
    seconds: Number

    @classmethod
    def since(cls, started: datetime, clock: float) -> Self:
        """From when a run started, and `time.perf_counter()` as it stood then."""
        return cls(
            started=started.isoformat(timespec="seconds"),
            seconds=round(time.perf_counter() - clock, 3),
        )


class AuditResult(_Part):
    """The record of one run.

    Attributes:
        schema_version: version of this layout.
        tool: dpaudit's version.
        environment: versions of Python and the numeric libraries, and the type of machine.
        config: the config as checked, defaults included; environment variables unexpanded.
        data: the audited data in numbers; None where a mechanism's outputs alone were seen.
        family: the simultaneous confidence.
        models: the audited recommenders.
        attacks: the attacks' labels with their parameters.
        campaigns: the campaigns' labels with their parameters.
        pairs: the neighbouring data sets of the games.
        points: the sweep.
        measurements: the numbers.
        gates: the thresholds and their outcomes.
        outcome: the worst outcome of the gates, `pass` where there are none.
        timing: when, and how long.
    """

    schema_version: int = SCHEMA
    tool: str
    environment: dict[str, str]
    config: dict[str, Any]
    data: DataRecord | None
    family: Family
    models: list[ModelRecord]
    attacks: dict[str, dict[str, Any]]
    campaigns: dict[str, dict[str, Any]] = {}
    pairs: list[PairRecord]
    points: list[PointRecord]
    measurements: list[Measurement]
    gates: list[GateRecord] = []
    outcome: Outcome = "pass"
    timing: Timing


def worst(outcomes: list[Outcome]) -> Outcome:
    """`fail` before `inconclusive` before `pass`."""
    order: tuple[Outcome, ...] = ("fail", "inconclusive")
    return next((outcome for outcome in order if outcome in outcomes), "pass")
