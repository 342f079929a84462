"""The schema of a config: what all kinds of audit share; unknown keys are errors.

Each kind of audit has a `Config` of its own with its tables. `Config.model_validate` returns that
of the kind that the tables name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, Self

import pydantic
from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from dpaudit.bounds.outcomes import fresh_seed
from dpaudit.config.gate import Gate
from dpaudit.config.model import DEFENSE, Table, as_list
from dpaudit.config.origin import Origin
from dpaudit.core import registry
from dpaudit.core.files import unwritable
from dpaudit.core.messages import show
from dpaudit.data.ratings import Ratings
from dpaudit.data.source import DataSource
from dpaudit.record.result import Waiver

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


class Card(Table):
    """Which of the audited models is deployed, and the owner's statements in their own words.

    dpaudit checks no statement. The keys follow the public registry of deployments of differential
    privacy and NIST SP 800-226 (docs/guides/card.md).

    Attributes:
        model: the label of the deployed model; needed if several models are audited.
        epsilon: its ε; needed if it is audited at several ε.
        system: the name of the audited system.
        owner: who answers for the model: the data curator.
        version: the version of the model or of its release.
        contact: where questions go.
        intended_use: what the model is for.
        privacy_unit: whose data, or which part of them, one unit of the claim is.
        data_domain: which data sets the model may be trained on: source, region, period, filters.
        unprotected: what the guarantee does not cover, beside what the audited claims say.
        trust_model: `central`, `local`, `federated`, …, and who is trusted with what.
        actors: who sees data or releases, attackers included.
        release: what is released, how often, and until when.
        access: who has access to the releases, and by which interface.
        composition: other releases from the same data, and how the losses add up.
        mechanisms: the private mechanisms, and the libraries and versions that implement them.
        tuning: how data were explored and parameters chosen, and whether the claim counts that.
        correctness: proofs, reviews and tests of the implementation; its random numbers and its
            finite precision.
        side_channels: which side channels were considered: timing, memory, errors, logs.
        security: who can reach the raw data, and how they are protected.
        collection: which data are collected, how long they are kept, and what is not collected.
    """

    model: Words | None = None
    epsilon: Annotated[float, Field(gt=0)] | None = None
    system: Words | None = None
    owner: Words | None = None
    version: Words | None = None
    contact: Words | None = None
    intended_use: Words | None = None
    privacy_unit: Words | None = None
    data_domain: Words | None = None
    unprotected: Words | None = None
    trust_model: Words | None = None
    actors: Annotated[list[Words], Field(min_length=1, max_length=50)] | None = None
    release: Words | None = None
    access: Words | None = None
    composition: Words | None = None
    mechanisms: Words | None = None
    tuning: Words | None = None
    correctness: Words | None = None
    side_channels: Words | None = None
    security: Words | None = None
    collection: Words | None = None

    def deployed(self, audited: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
        """Return which of the audited models, each with an ε, is the deployed one.

        These are several if the table leaves open which.

        Args:
            audited: the label and the ε of each.

        Raises:
            ValueError: there is none; names the key and those that there are.
        """
        labels = dict.fromkeys(label for label, _ in audited)
        if self.model is not None and self.model not in labels:
            raise ValueError(
                f"card.model = {self.model!r} is no audited model: use one of {', '.join(labels)}"
            )
        of_model = [point for point in audited if self.model in (None, point[0])]
        left = [point for point in of_model if self.epsilon in (None, point[1])]
        if self.epsilon is not None and not left:
            values = ", ".join(dict.fromkeys(f"{epsilon:g}" for _, epsilon in of_model))
            raise ValueError(
                f"card.epsilon = {self.epsilon:g} is no audited ε of the deployed model: use one "
                f"of {values}"
            )
        return left


# The keys that are statements.
STATEMENTS = tuple(name for name in Card.model_fields if name not in ("model", "epsilon"))


class Audit(Table):
    """The number of trials and the confidence.

    Attributes:
        trials: trials of each attack and of each utility measure, at each ε.
        confidence: simultaneous confidence of all intervals of the run, at least 0.5.
        stop: `when-decided` ends the audit of a `[defense]` as soon as bets on its outputs refute
            the claim, at any number of outputs up to `trials`; its gates have to have the claim as
            their limit. By default all trials are made.
        fail_on_false_claim: whether a claim that the run certifies to be false stops the run, with
            or without a gate; `false` where a claim is known to be false, as in a paper's
            replication.
        require_decision: whether a run in which no gate and no claim decides anything ends with
            exit code 4, like an undecided one, and not with 0.
    """

    judging: ClassVar[frozenset[str]] = frozenset(
        {"confidence", "fail_on_false_claim", "require_decision"}
    )

    trials: Annotated[int, Field(ge=2, le=100_000_000)] = 20_000
    confidence: Annotated[float, Field(ge=0.5, le=1 - 1e-9)] = 0.95
    stop: Literal["when-decided"] | None = None
    fail_on_false_claim: bool = True
    require_decision: bool = False


def _once(waivers: Sequence[Waiver]) -> Sequence[Waiver]:
    twice = [name for name, count in Counter(waiver.id for waiver in waivers).items() if count > 1]
    if twice:
        raise ValueError(f"two [[waiver]] have the id {twice[0]!r}: remove one")
    return waivers


Waivers = Annotated[
    list[Waiver], BeforeValidator(as_list), Field(max_length=500), pydantic.AfterValidator(_once)
]

# The most numbers of a run, each with an interval: larger configs are mistakes, or hostile.
_MEASURED = 10_000


class AuditedTable(Protocol):
    """A table that names what is audited."""

    @property
    def label(self) -> str:
        """Its name in reports."""

    @property
    def epsilon(self) -> Sequence[float]:
        """The values of ε to audit; infinite without a claim."""


class Claimed(NamedTuple):
    """The label of what is audited, with its claimed ε."""

    label: str
    epsilon: Sequence[float]


class Config(Table):
    """What the configs of all kinds of audit share.

    Attributes:
        seed: determines every random stream. If it is left out, a seed is drawn from the operating
            system's entropy and stored in the record. "entropy" draws one that is not stored:
            anyone who knows the seed of a real release can compute its noise.
        keep_seed: whether the record stores a seed drawn by "entropy".
        audit: the number of trials and the confidence.
        gate: thresholds on bounds.
        waiver: accepted failures.
        card: which model is deployed, and what only its owner knows, for the privacy card.
    """

    # What is audited, in words; and the tables that only this kind has, which decide for it.
    title: ClassVar[str] = ""
    marks: ClassVar[frozenset[str]] = frozenset()
    # The table of what is audited if its calls may depend on each other: then results are neither
    # stored, divided among shards, nor estimated.
    ordered: ClassVar[str] = ""
    # Whether tasks run on processes unless others are asked for: they hold Python's lock, or seed
    # generators of the whole process.
    processes: ClassVar[bool] = False
    # Whether `audit.stop` ends such audits.
    stops: ClassVar[bool] = False
    # The keys that judge or report results, and decide none.
    judging: ClassVar[frozenset[str]] = frozenset({"gate", "waiver", "card"})
    # The tables in which two runs that are compared may differ: those of the models, above all.
    differing: ClassVar[frozenset[str]] = frozenset({"model"})

    seed: Annotated[int, Field(ge=0, lt=2**64, default_factory=fresh_seed)]
    keep_seed: bool | None = None
    audit: Audit = Audit()
    gate: Annotated[list[Gate], BeforeValidator(as_list), Field(max_length=500)] = []
    waiver: Waivers = []
    card: Card | None = None
    _origin: Origin | None = pydantic.PrivateAttr(None)

    @model_validator(mode="wrap")
    @classmethod
    def _of_a_kind(cls, values: Any, handler: pydantic.ModelWrapValidatorHandler[Self]) -> Any:
        """Validate the config as that of the kind whose tables it has."""
        text = unwritable(values)
        if text is not None:
            raise ValueError(
                f"the config holds {show(text)}, which UTF-8 cannot write: replace its letters"
            )
        if cls is not Config or not isinstance(values, Mapping):
            return handler(values)
        kind, tables = of_kind(values)
        return kind.model_validate(tables)

    @model_validator(mode="before")
    @classmethod
    def _seed(cls, values: Any) -> Any:
        """Draw the seed of "entropy", and set whether the record stores it."""
        if not isinstance(values, dict):
            return values
        seed = values.get("seed")
        if seed == "entropy":
            # Left out, it is drawn, and can be told from a seed that the user chose.
            return {"keep_seed": False, **{k: v for k, v in values.items() if k != "seed"}}
        if isinstance(seed, str) and not (seed.isascii() and seed.isdecimal()):
            raise ValueError(f"seed = {seed!r} is neither a 64-bit integer nor 'entropy': give one")
        if values.get("keep_seed") is False:
            raise ValueError("keep_seed = false needs seed = 'entropy': other seeds are stored")
        return values

    @pydantic.field_serializer("seed")
    def _told(self, seed: int) -> int | str:
        return "entropy" if self.keep_seed is False else seed

    @model_validator(mode="after")
    def _labels(self) -> Self:
        audited = [table.label for table in self.audited]
        first = next(iter(self.labels), "")
        for name, labels in [*self.labels.items(), (first, audited)]:
            twice = [label for label, count in Counter(labels).items() if count > 1]
            if twice and name == "game":
                raise ValueError(
                    f"two [[game]] have the pair and observer {twice[0]!r}: choose another pair or "
                    "observer, or use a second config"
                )
            if twice:
                raise ValueError(f"two [[{name}]] have the label {twice[0]!r}: rename one")
        return self

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        """Refuse another kind's stop, a sweep that is too large, and a card of no model."""
        if self.audit.stop and not self.stops:
            raise ValueError(
                f"audit.stop = {self.audit.stop!r} is of audits of a [defense], and this config "
                f"audits {self.title}: remove it"
            )
        points = sum(len(table.epsilon) for table in self.audited)
        if not points:
            raise ValueError("nothing is audited: add a [[model]] or a [[recommender]]")
        count = self.numbers_per_point
        if points * count > _MEASURED:
            raise ValueError(
                f"{points} values of ε over all models, with {count} measures each, exceed "
                f"the limit of {_MEASURED} numbers of a run: split the config"
            )
        if self.card:
            self.card.deployed(
                [(table.label, one) for table in self.audited for one in table.epsilon]
            )
        return self

    @classmethod
    def takes(cls, defenses: Sequence[Any]) -> bool:
        """Whether a config without the marks of any kind is of this kind.

        Args:
            defenses: the names of the defenses of its `[[model]]` tables.
        """
        return False

    @property
    def source(self) -> DataSource | None:
        """The data; None if what is audited brings its own."""
        return None

    @property
    def audited(self) -> Sequence[AuditedTable]:
        """The tables that name what is audited."""
        return ()

    @property
    def labels(self) -> Mapping[str, list[str]]:
        """The labels of the tables that may be repeated, by the name of their table."""
        return {}

    @property
    def numbers_per_point(self) -> int:
        """The numbers that are measured at each ε, at most."""
        return 1

    @property
    def code(self) -> list[str]:
        """The keys that name code to run, each with its value."""
        return []

    @property
    def unversioned(self) -> list[str]:
        """The keys that name code whose changes nothing shows, each with its value."""
        return []

    @property
    def plugins(self) -> set[str]:
        """The modules of the plug-ins that it names."""
        return set()

    @property
    def files(self) -> list[Path]:
        """The files besides the data on which results depend."""
        return []

    def check_plugins(self) -> None:
        """Refuse unknown plug-ins, wrong parameters, and plug-ins in a wrong table.

        Raises:
            ConfigError: names the place and the remedy.
        """

    def check_named(self) -> None:
        """Refuse a config that does not say what is audited: defaults are nobody's data and model.

        Raises:
            ConfigError: it names no data, or data of the user's and nothing that learns from them.
        """

    def within(self, folder: Path) -> Self:
        """Return the config as one of a file in this folder."""
        return self

    def fitted(self, ratings: Ratings | None) -> Self:
        """Return the config with the defaults that depend on the data; None for no data."""
        return self

    def recorded(self) -> Self:
        """Return the config with its defaults in full, as it is recorded."""
        return self

    def stated_at(self, origin: Origin) -> Self:
        """Return the config with the lines of its tables."""
        located = self.model_copy()
        located._origin = origin
        return located

    @property
    def origin(self) -> Origin | None:
        """Return where its tables stand; None if it was not read from a file."""
        return self._origin


def config_classes() -> list[type[Config]]:
    """Return the configs of all registered kinds of audit."""
    return [kind.config for kind in registry.every("audits").values()]


def of_kind(values: Mapping[str, Any]) -> tuple[type[Config], dict[str, Any]]:
    """Return the config class of the kind of audit that these tables are of, and its tables.

    Tables of other kinds that hold nothing, such as `sybil = []`, are left out.

    Raises:
        ValueError: the tables are of two kinds, or one is of another kind.
    """
    given = {name for name, value in values.items() if value not in (None, [])}
    classes = config_classes()
    named = [kind for kind in classes if kind.marks & given]
    # Of two kinds that have [[recommender]], the table that only one of them has tells which.
    marked = [
        kind
        for kind in named
        if not any(
            kind.marks & given <= other.model_fields.keys()
            and other.marks & given - kind.model_fields.keys()
            for other in named
        )
    ]
    if len(marked) > 1:
        one, other = (min(kind.marks & given) for kind in marked[:2])
        raise ValueError(
            f"[{one}] audits {marked[0].title}, and [{other}] {marked[1].title}: use two configs"
        )
    tables = as_list(values.get("model", [{}]))
    defenses = [table.get("defense", DEFENSE) for table in tables if isinstance(table, Mapping)]
    possible = [*marked, *(kind for kind in classes if not kind.marks and kind.takes(defenses))]
    if not possible:
        raise ValueError("no kind of audit has these tables: see 'dpaudit list audits'")
    config = possible[0]
    for name in sorted(given - config.model_fields.keys()):
        if home := _home(name, classes):
            raise ValueError(
                f"[{name}] is of audits of {home.title}, and this config audits {config.title}: "
                "remove it, or use a second config"
            )
    others = {name for kind in classes for name in kind.model_fields} - config.model_fields.keys()
    return config, {name: values[name] for name in values if name in given or name not in others}


def _home(name: str, classes: Sequence[type[Config]]) -> type[Config] | None:
    """Return the plainest config that has a table; None if no kind has it."""
    bases = (base for config in classes for base in reversed(config.__mro__))
    return next(
        (base for base in bases if issubclass(base, Config) and name in base.model_fields), None
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of all configs, for editors: the tables of every kind together."""
    schema = Config.model_json_schema()
    for config in config_classes():
        part = config.model_json_schema()
        schema["properties"] |= part["properties"]
        schema.setdefault("$defs", {}).update(part.get("$defs", {}))
    return schema


class WaiverFile(Table):
    """A file of waivers."""

    waiver: Waivers = []
