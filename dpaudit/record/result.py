"""The record of a run: every number with its interval, and all that is needed to reproduce it.

Reports are rendered from the record alone. It contains ids or ratings of audited users only if the
config asks for the details of a pair or contains data itself.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import BaseModel, ConfigDict, Field, model_validator

from dpaudit.core.estimate import Estimate, Number, Probability
from dpaudit.core.membership import covers
from dpaudit.core.messages import show
from dpaudit.record.bases import GAINS
from dpaudit.record.metric import Metric
from dpaudit.record.metrics import MetricName, entry, field_names, traits
from dpaudit.record.values import (
    TRACE,
    Census,
    Control,
    Count,
    LearningStep,
    PlantedLeak,
    Positive,
    Record,
    Size,
)

State = Literal["active", "expired", "unused"]


def _day(value: Any) -> Any:
    """Refuse what pydantic would read as a day: numbers of seconds, and moments."""
    if isinstance(value, datetime) or not isinstance(value, date | str):
        raise ValueError(f"{show(value)} is no day: write it as 2027-01-31")
    return value


def _words(most: int) -> Any:
    return pydantic.StringConstraints(strip_whitespace=True, min_length=1, max_length=most)


class Waiver(BaseModel):
    """A waiver of one finding: a `[[waiver]]` of a config or of a file of waivers.

    Attributes:
        id: the id of the claim or gate, as in the record and in the output of `dpaudit gate`.
        owner: who answers for it.
        statement: why the finding is accepted.
        expires: the last day on which it holds, in UTC.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=10_000)

    id: Annotated[str, _words(1000)]
    owner: Annotated[str, _words(200)]
    statement: Annotated[str, _words(2000)]
    expires: Annotated[date, pydantic.BeforeValidator(_day)]


class WaiverRecord(Waiver):
    """A waiver with its state on one day.

    Attributes:
        judged: the day, in UTC. Like `timing` it is not the same when a run is repeated, nor are
            the states and the outcome that follow from it.
        state: `expired` after its last day, and this stops the run; else `active` if its claim is
            false or its gate does not pass, and `unused` if not.
    """

    judged: date
    state: State


def judged(waivers: Iterable[Waiver], needed: Collection[str], day: date) -> list[WaiverRecord]:
    """Return waivers with their states.

    Args:
        waivers: the waivers; earlier states are dropped.
        needed: the ids of false claims, and of gates that do not pass.
        day: the day, in UTC.
    """
    return [
        WaiverRecord(
            **waiver.model_dump(include=set(Waiver.model_fields)),
            judged=day,
            state=_state(waiver, needed, day),
        )
        for waiver in waivers
    ]


def accepted(waivers: Iterable[WaiverRecord]) -> dict[str, WaiverRecord]:
    """Return the active waivers by the id of the finding that they accept."""
    return {waiver.id: waiver for waiver in waivers if waiver.state == "active"}


def today() -> date:
    """Return the day in UTC."""
    return datetime.now(UTC).date()


def _state(waiver: Waiver, needed: Collection[str], day: date) -> State:
    if day > waiver.expires:
        return "expired"
    return "active" if waiver.id in needed else "unused"


SCHEMA = 4
# `part` of `transcript.kl` for the whole divergence, not one of its parts.
WHOLE = "whole"
# The label of the membership inference attack that does best in the calibrating trainings.
STRONGEST = "strongest"
# A moment in UTC.
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\+00:00$"
# The most fields of a measurement, and traits of a model.
_MOST = 50
Ratings = Annotated[int, Field(ge=1, le=10**9)]
Outcome = Literal["pass", "fail", "inconclusive"]
RunOutcome = Literal["go", "stop", "undecided", "no decision"]
Verdict = Literal["false", "survived", "not tested"]
Untested = Literal["no claim", "no game", "no power", "doubt", "finding"]


class ClaimRecord(Record):
    """A stated guarantee; the fields are those of `core.claim.Claim`."""

    epsilon: Positive
    delta: Probability
    adjacency: str
    observer: str
    public: str
    source: str
    also: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()


class DataRecord(Record):
    """The audited data in numbers.

    Attributes:
        digest: SHA-256 of the ratings.
        users: number of users.
        items: number of items.
        ratings: number of ratings.
        scale: minimum rating, maximum rating, step.
        trained: number of users whose ratings the similarity is built from.
        attacked: number of attacked users.
        links: number of directed links between users; None if the data have no links.
        sensitive: number of ratings that their users keep private; None if the data do not say.
        repairs: what loading dropped, merged, changed or doubts, with the number of cases.
        per_user: median and 90 % quantile of the number of ratings of a user whom models learn
            from; None below 20 such users, where a quantile is close to somebody's own number.
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
    per_user: tuple[Ratings, Ratings] | None = None


class ModelRecord(Record):
    """One audited recommender.

    Attributes:
        label: its name in this run.
        defense: the name of the registered defense.
        title: one line that describes the defense.
        variant: `nonprivate`, `published` or `corrected`.
        source: paper and equations.
        params: its hyper-parameters.
        top_k: length of the list shown to a user.
        saved: SHA-256 digests of the models of judged trainings that are kept, by the names of
            their folders.
    """

    label: str
    defense: str
    title: str
    variant: str
    source: str
    params: dict[str, Any]
    top_k: Count
    saved: dict[str, str] = {}


class PointRecord(Record):
    """One ε of a model's sweep.

    Attributes:
        model: the model's label.
        epsilon: the ε that the noise is scaled to.
        sensitivity: the Δf in use; None if it is unknown or no noise is added.
        noise_scale: the Laplace scale Δf/ε; None if no noise is added.
        claim: the guarantee of the variant at this ε, if any.
        chosen: the hyper-parameters that a grid search chose at this ε; empty without a search.

    A trait that decides which gates judge the model, such as a deletion, is an attribute too
    (`Metric.trait`); None if the model has it not.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str | None]

    model: str
    epsilon: Positive
    sensitivity: Size | None
    noise_scale: Size | None
    claim: ClaimRecord | None
    chosen: dict[str, Any] = {}

    @model_validator(mode="after")
    def _known_traits(self) -> Self:
        known = traits()
        # A record may have a trait that no installed package describes.
        given = {k: v for k, v in self.__pydantic_extra__.items() if v is not None or k in known}
        for name, value in given.items():
            if value is not None and (not value or (name in known and value not in known[name])):
                raise ValueError(f"{name} = {value!r} is none of {', '.join(known.get(name, ()))}")
        if len(given) > _MOST:
            raise ValueError(f"a model has {len(given)} traits, more than {_MOST}")
        self.__pydantic_extra__ = dict.fromkeys(known) | given
        return self

    @property
    def traits(self) -> dict[str, str]:
        """Its traits by name."""
        extra = self.__pydantic_extra__.items()
        return {name: value for name, value in extra if value is not None}


class Measurement(Record):
    """One measured number, with the fields of its metric (`record/fields.py`).

    Each field is an attribute; one that the metric does not have, or that has no value, is None.

    Attributes:
        metric: what was measured.
        model: the model's label.
        epsilon: the ε of the sweep.
        estimate: the number.
        census: what each judged training showed, of a number that every training has.
        planted: what the rules of gates say of trainings with a planted leak.
        learning: what its attacks find with fewer trainings of their own, fewest first.
    """

    model_config = ConfigDict(extra="allow")

    metric: MetricName
    model: str
    epsilon: Number
    estimate: Estimate
    census: Census | None = None
    planted: tuple[PlantedLeak, ...] = ()
    learning: tuple[LearningStep, ...] = ()

    @model_validator(mode="wrap")
    @classmethod
    def _with_fields(cls, values: Any, handler: pydantic.ModelWrapValidatorHandler[Self]) -> Self:
        """Read the fields of the metric, and refuse others."""
        number = handler(values)
        extra = number.__pydantic_extra__ or {}
        if len(extra) > _MOST:
            raise ValueError(f"a measurement has {len(extra)} fields, more than {_MOST}")
        given = {name: value for name, value in extra.items() if value not in (None, ())}
        metric, where = entry(number.metric, given), f"{number.metric} of {number.model!r}"
        lacking = [name for name in metric.required if name not in given]
        foreign = sorted(given.keys() - {field.name for field in metric.known})
        if lacking:
            raise ValueError(f"{where} lacks its {lacking[0]}")
        if foreign:
            raise ValueError(f"{where} cannot have {foreign[0]}")
        number.__pydantic_extra__ = {
            field.name: field.read(given[field.name]) if field.name in given else field.empty
            for field in metric.known
        }
        return number

    def __getattr__(self, name: str) -> Any:
        """Return a field that only other metrics have: None."""
        if not name.startswith("_") and name in field_names():
            return (self.__pydantic_extra__ or {}).get(name)
        return super().__getattr__(name)  # type: ignore[misc]

    @pydantic.model_serializer(mode="wrap")
    def _without_empty(self, handler: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        parts = ("census", "planted", "learning")
        empty = {name for name in parts if not getattr(self, name)}
        return {name: value for name, value in fields.items() if name not in empty}

    @property
    def described(self) -> Metric:
        """Its metric, with the fields that it has if no installed package describes it."""
        return entry(self.metric, self.__pydantic_extra__ or ())

    @property
    def fields(self) -> dict[str, Any]:
        """Its metric, model and ε, with the fields of its metric: what gates pick by."""
        own = self.__pydantic_extra__ or {}
        return {"metric": self.metric, "model": self.model, "epsilon": self.epsilon, **own}

    @property
    def detail(self) -> str | None:
        """Return the value of the metric's `detail` field, if it has one."""
        return self.fields.get(entry(self.metric).detail or "")

    @property
    def key(self) -> tuple[Any, ...]:
        """Return the key that is unique among the measurements of a record."""
        # A maximum may be attained elsewhere in the next run.
        apart = ((name, self.fields.get(name)) for name in self.described.apart)
        return (self.metric, self.model, self.epsilon, *apart)

    def exceeds(self, claim: ClaimRecord) -> bool:
        """Return whether it certifies more than a claim that is about what it measures."""
        above = self.metric == "epsilon" and self.estimate.lower > claim.epsilon
        return above and self.tests(claim)

    def tests(self, claim: ClaimRecord) -> bool:
        """Return whether the claim is about the target and the observer of a membership game."""
        seen = self.view or self.observer or ""
        return self.unit is None or covers(claim, self.unit, seen)

    @property
    def place(self) -> str:
        """Return the model, the ε, and what else distinguishes it, in words."""
        return ", ".join([self.model, f"ε = {self.epsilon:g}", *self.described.place(self.fields)])

    @property
    def larger(self) -> Literal["worse", "better"] | None:
        """Return what a larger value is: as its metric says, but gains of an attacker are worse."""
        return "worse" if self.basis in GAINS else entry(self.metric).larger

    @property
    def controls(self) -> tuple[Control, ...]:
        """Return every mutant that was tried, but for the traces of what was deleted."""
        return tuple(one for one in self._tried if one.noise != TRACE)

    @property
    def traces(self) -> tuple[Control, ...]:
        """Return the planted traces of what was deleted that were tried."""
        return tuple(one for one in self._tried if one.noise == TRACE)

    @property
    def _tried(self) -> tuple[Control, ...]:
        return self.tried or ((self.control,) if self.control else ())


class PairRecord(Record):
    """A pair of neighbouring data sets of a game, described in one sentence.

    `drift` warns that outputs change from call to call although the data are the same.
    """

    model: str
    pair: str
    summary: str
    drift: str | None = None


class GameName(Record):
    """Which game was run.

    Attributes:
        attack: the attack's label.
        pair: the pair's name; with the observer if it was chosen.
        observer: who observes, if it is not part of the pair's name.
        unit: what a target of a membership game is.
    """

    attack: str
    pair: str
    observer: str | None = None
    unit: str | None = None


class VerdictRecord(Record):
    """What a run found out about a model's claim at one ε.

    Attributes:
        id: its name in waivers, baselines and CI reports; the same in every run of the config.
        model: the model's label.
        epsilon: the ε of the sweep.
        verdict: `false`: more than the claim is certified; `survived`: it is not, although the
            game finds some mutant that breaks the claim; `not tested`: otherwise.
        reason: why the claim was not tested; None if it was.
        noiseless: whether the model releases its outputs without noise.
        claimed: the claimed ε; None without a claim.
        certified: the largest certified lower bound on ε about what the claim covers, or about
            anything without a claim; None without a game.
        law: the largest ε of a pair by the law of its noise, if it is above the claim.
        factor: the least multiple of the claim that a mutant had to reach to be found, by one of
            the games, or by every membership game; None if no mutant was found.
        condition: for which law of noise that holds, and in how many runs (`Control.condition`).
        decided_by: the game behind the verdict; None without a game.
    """

    id: str
    model: str
    epsilon: Number
    verdict: Verdict
    reason: Untested | None
    noiseless: bool
    claimed: Positive | None = None
    certified: Number | None = None
    law: Number | None = None
    factor: Size | None = None
    condition: str = ""
    decided_by: GameName | None = None


class JudgedNumber(Record):
    """A number that a gate judged.

    Attributes:
        model: the model's label.
        epsilon: the ε of the sweep.
        place: the `place` of the measurement; empty if a finding took the number of this point.
        outcome: the gate's outcome on this number alone.
    """

    model: str
    epsilon: Number
    place: str
    outcome: Outcome


class GateRecord(Record):
    """A gate with its outcome.

    Attributes:
        id: its name in waivers, baselines and CI reports; the same in every run of the config.
        rule: the threshold in words.
        outcome: `pass`, `fail` or `inconclusive`; the worst over its points.
        reason: why, with the deciding number.
        trainings: with how many trainings of each model an inconclusive gate of a membership audit
            is decided, if further ones show the like; None where that is not known.
        remedy: what decides an inconclusive gate otherwise; empty of other gates.
        numbers: the numbers that it judged, first the one that decides: of those with its outcome,
            the one furthest beyond the threshold.
        strength: what its attacks find of a planted leak, of a gate that passes, or for which they
            are too weak; empty otherwise.
        attacker: the weaker attacker against whom it judges; None for all attacks.
    """

    id: str
    rule: str
    outcome: Outcome
    reason: str
    trainings: Annotated[int, Field(ge=1)] | None = None
    remedy: str = ""
    numbers: tuple[JudgedNumber, ...] = ()
    strength: str = ""
    attacker: str | None = None


class PlaceRecord(Record):
    """A line of a file.

    Attributes:
        path: the file as seen from the folder in which the command ran, with `/`; the name alone
            if it lies elsewhere.
        line: from 1.
    """

    path: Annotated[str, Field(min_length=1)]
    line: Annotated[int, Field(ge=1, le=2**31)]


class FindingRecord(Record):
    """Something that was noticed about a model, and what to do about it.

    Attributes:
        model: the model's label.
        about: what it is about: `seed`, `constant`, `vocabulary`, `hide-seen`, `beside-claim`,
            `rate`, `repeated`, `missing`, `diverged`, `undefined`, `not-probed`, `stopped`,
            `saved`, `alone`, `control`, `noiseless`, `repetition`, `exceptions`, `contradiction`,
            `explained` or `blind`.
        text: one sentence on what was found.
        remedy: one sentence on what to do.
        undecided: whether it leaves open what the model leaks: no gate on the model passes, and no
            claim of it counts as tested.
        observer: the only observer for whom it leaves that open, if there is one.
        epsilon: the only ε of the sweep, likewise.
        metrics: the only metrics that it leaves open; none for all.
    """

    model: str
    about: str
    text: str
    remedy: str
    undecided: bool = False
    observer: str | None = None
    epsilon: Number | None = None
    metrics: tuple[MetricName, ...] = ()

    @property
    def voids(self) -> bool:
        """Whether the coins may be told by a fault of the audit, so that no gate fails either."""
        return self.about == "blind"

    def lacks(self, metric: MetricName, model: str, epsilon: float) -> bool:
        """Return whether a point of the sweep may lack a metric, as some trainings have none."""
        return self.about in ("diverged", "undefined") and self._covers(metric, model, epsilon)

    def _covers(self, metric: MetricName, model: str, epsilon: float) -> bool:
        named = not self.metrics or metric in self.metrics
        here = self.model == model and self.epsilon in (None, epsilon)
        return self.undecided and named and here

    def opens(self, measurement: Measurement) -> bool:
        """Return whether it leaves a measurement of its model undecided."""
        everyone = self.observer is None or entry(measurement.metric).derived
        here = everyone or measurement.observer in (None, self.observer)
        return here and self._covers(measurement.metric, measurement.model, measurement.epsilon)


class Family(Record):
    """The family of all intervals of a run, which hold simultaneously.

    Attributes:
        confidence: the simultaneous confidence.
        size: the number of intervals that share the error probability.
        alpha: the error probability of each interval (Bonferroni).
    """

    confidence: Probability
    size: Annotated[int, Field(ge=1)]
    alpha: Probability

    @classmethod
    def of(cls, confidence: float, size: int) -> Self:
        """Divide the error probability equally among the intervals (Bonferroni)."""
        return cls(confidence=confidence, size=size, alpha=(1 - confidence) / size)


class Timing(Record):
    """Start and duration of the run.

    Attributes:
        started: the moment in UTC.
        seconds: the duration.
        training: the mean seconds of one training on one worker; None if none was run.
        deletions: of models with a deletion after each training, the mean seconds of both, by the
            model's label.

    All other fields are the same when it is repeated, but for the states of waivers and what
    follows from them, which depend on the day.
    """

    started: Annotated[str, Field(pattern=_MOMENT)]
    seconds: Annotated[Number, Field(ge=0, le=1e9)]
    training: Annotated[Number, Field(ge=0, le=1e9)] | None = None
    deletions: dict[str, tuple[Size, Size]] = {}

    @classmethod
    def since(
        cls,
        started: datetime,
        clock: float,
        training: float | None = None,
        deletions: Mapping[str, tuple[float, float]] | None = None,
    ) -> Self:
        """Create it from the start of a run and the `time.perf_counter()` of that moment."""
        return cls(
            started=started.isoformat(timespec="seconds"),
            seconds=round(time.perf_counter() - clock, 3),
            training=None if training is None else round(training, 3),
            deletions=dict(deletions or {}),
        )


class AuditResult(Record):
    """The record of one run.

    Attributes:
        schema_version: version of the record layout.
        tool: dpaudit's version.
        kind: the kind of audit, by its name in the registry.
        environment: versions of Python and the numeric libraries, and the machine type.
        config: the validated config, defaults included; environment variables unexpanded.
        data: the audited data in numbers; None if only the outputs of a mechanism were audited.
        family: the simultaneous confidence.
        models: the audited recommenders.
        attacks: the attacks' labels with their parameters.
        sybil_attacks: the Sybil attacks' labels with their parameters.
        pairs: the neighbouring data sets of the games.
        points: the sweep.
        measurements: the measured numbers.
        findings: what else was noticed about the models.
        verdicts: what was found out about each model's claim at each ε.
        gates: the gates and their outcomes.
        waivers: the waivers with their states on the day of the run.
        origin: where each claim and gate is stated, by its id; empty for a run from Python.
        fail_on_false_claim: whether a false claim stops the run.
        require_decision: whether a run that decides nothing ends as if it were undecided.
        outcome: `stop` if a waiver is expired, or a claim is false and that stops the run, else
            as the gates decide: `stop` if one fails, `undecided` if one is inconclusive, `go` if
            none is; `no decision` if there is no gate and every claim is untested. What is waived
            does not count.
        timing: start and duration.
    """

    schema_version: int = SCHEMA
    tool: str
    kind: str
    environment: dict[str, str]
    config: dict[str, Any]
    data: DataRecord | None
    family: Family
    models: list[ModelRecord]
    attacks: dict[str, dict[str, Any]]
    sybil_attacks: dict[str, dict[str, Any]] = {}
    pairs: list[PairRecord]
    points: list[PointRecord]
    measurements: list[Measurement]
    findings: list[FindingRecord] = []
    verdicts: list[VerdictRecord] = []
    gates: list[GateRecord] = []
    waivers: list[WaiverRecord] = []
    origin: dict[str, PlaceRecord] = {}
    fail_on_false_claim: bool = True
    require_decision: bool = False
    outcome: RunOutcome = "no decision"
    timing: Timing

    @property
    def waived(self) -> set[str]:
        """Return the ids of the findings that an active waiver accepts."""
        return set(accepted(self.waivers))

    @property
    def stopping(self) -> list[VerdictRecord]:
        """Return the false claims that stop the run: none is waived, nor accepted by its config."""
        false = [verdict for verdict in self.verdicts if verdict.verdict == "false"]
        return [one for one in false if self.fail_on_false_claim and one.id not in self.waived]


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the worst outcome: `fail` before `inconclusive` before `pass`."""
    order: tuple[Outcome, ...] = ("fail", "inconclusive")
    return next((outcome for outcome in order if outcome in outcomes), "pass")


def concluded(outcomes: Sequence[Outcome], before: RunOutcome = "no decision") -> RunOutcome:
    """Return the outcome of a run that gates or a baseline decide.

    Args:
        outcomes: those of the gates, or of the comparison.
        before: what was decided without them: they excuse nothing of it.
    """
    parts = [before, *(_OF_RUN[outcome] for outcome in outcomes)]
    order: tuple[RunOutcome, ...] = ("stop", "undecided")
    return next((outcome for outcome in order if outcome in parts), "go")


# The outcome of a run of which one gate, or a baseline, decides alone.
_OF_RUN: Mapping[Outcome, RunOutcome] = {"pass": "go", "fail": "stop", "inconclusive": "undecided"}
