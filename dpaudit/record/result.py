"""The record of a run: every number with its interval, and all that is needed to make it again.

Reports are rendered from it alone; it holds no audited person's id or rating but where the config
asks for the details of a pair, or holds data itself.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from dpaudit.core.estimate import Estimate, Number, Probability
from dpaudit.record.metrics import METRICS, MetricName

SCHEMA = 2
# The divergence itself, beside the parts that it consists of (`part` of `transcript.kl`).
WHOLE = "whole"
# What sensitive ratings are recovered from, and by how much one error is above another (`basis` of
# `reconstruction.…` and `submissions.…`).
RELEASED, WITHOUT, MEANS = "released model", "model without them", "item means"
LEAK, BEYOND_MEANS = "leak", "better than item means"
BEYOND_WITHOUT = "better than without them"
SUBMITTED, BEYOND_RELEASED = "submissions", "better than released model"
Count = Annotated[int, Field(ge=0)]
Size = Annotated[Number, Field(ge=0)]
Positive = Annotated[Number, Field(gt=0)]
Outcome = Literal["pass", "fail", "inconclusive"]


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
        epsilon: the ε that it has in place of the claimed one, if the pair shows all of it.
        certified: the lower bound on ε that the same game, pair and score certified on it.
        found: whether that exceeds the claimed ε.
    """

    mutant: str
    factor: Size
    epsilon: Size
    certified: Number
    found: bool


class Measurement(_Part):
    """One measured number; which of the fields it has its metric decides (`record/metrics.py`).

    Attributes:
        metric: what was measured.
        model: the model's label.
        epsilon: the ε of the sweep.
        estimate: the number.
        attack: the attack's label.
        pair: the pair's name; with `(list)` where only the list was seen.
        effort: the accounts, planted ones included, changes or lists of a campaign.
        step: after how many steps or rounds.
        at: the level of tests, or the false-positive rate.
        against: the label of the model that is compared with.
        kind: the error or share that is compared.
        basis: from what sensitive ratings are recovered, or how much better than from what else.
        states: the states whose laws are compared.
        part: which part of a divergence, or which number of an assumption, it is.
        estimator: how a divergence was estimated.
        truth: whether the pairs that a test is asked about are real or fake.
        correction: how tests are corrected for one another.
        items: of items of which popularity.
        event: the event that certifies, chosen on other trials.
        observer: who saw submissions, or messages to friends: a `recommender`, say.
        shift: by how much the exact prediction differs between the two data sets; None where a list
            was seen.
        theory: the ε of this pair by the law of the noise, or of the list, where it is known; it
            judges nothing.
        control: the least mutant that the same game found to break the claim, or the last that it
            did not find; None where none was tried.
        tried: every mutant that was tried, where there are several.
    """

    metric: MetricName
    model: str
    epsilon: Number
    estimate: Estimate
    attack: str | None = None
    pair: str | None = None
    effort: Count | None = None
    step: Count | None = None
    at: Probability | None = None
    against: str | None = None
    kind: str | None = None
    basis: str | None = None
    states: str | None = None
    part: str | None = None
    estimator: str | None = None
    truth: str | None = None
    correction: str | None = None
    items: str | None = None
    event: str | None = None
    observer: str | None = None
    shift: Number | None = None
    theory: Estimate | None = None
    control: Control | None = None
    tried: tuple[Control, ...] = ()

    @model_validator(mode="after")
    def _fields_of_the_metric(self) -> Self:
        metric = METRICS[self.metric]
        given = {name for name in _OPTIONAL if getattr(self, name) not in (None, ())}
        lacking = [name for name in metric.fields if name not in given]
        foreign = sorted(given - set(metric.known))
        if lacking:
            raise ValueError(f"{self.metric} of {self.model!r} does not say its {lacking[0]}")
        if foreign:
            raise ValueError(f"{self.metric} of {self.model!r} has no {foreign[0]}")
        return self

    @model_serializer(mode="wrap")
    def _own_fields(self, every: SerializerFunctionWrapHandler) -> dict[str, Any]:
        foreign = set(_OPTIONAL) - set(METRICS[self.metric].known)
        return {name: value for name, value in every(self).items() if name not in foreign}

    @property
    def detail(self) -> str | None:
        """What tells it from others of its metric that agree in all else."""
        name = METRICS[self.metric].detail
        found: str | None = getattr(self, name) if name else None
        return found

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from all others of a record."""
        return (
            self.metric, self.model, self.epsilon, self.attack, self.against, self.pair,
            self.observer, self.effort, self.step, self.detail, self.at,
        )  # fmt: skip

    @property
    def controls(self) -> tuple[Control, ...]:
        """Every mutant that was tried."""
        return self.tried or ((self.control,) if self.control else ())


_OPTIONAL = tuple(
    name
    for name in Measurement.model_fields
    if name not in {"metric", "model", "epsilon", "estimate"}
)


def measured(
    metric: MetricName,
    model: str,
    epsilon: float,
    estimate: Estimate,
    *,
    detail: str | None = None,
    **fields: Any,
) -> Measurement:
    """A measurement whose `detail` stands in the field that its metric has for it."""
    name = METRICS[metric].detail
    if detail is not None and name is not None:
        fields[name] = detail
    return Measurement(metric=metric, model=model, epsilon=epsilon, estimate=estimate, **fields)


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
