"""What a metric is: the one entry that everything printed, documented or judged is taken from."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from string import Formatter
from typing import Any, Literal, Self

from dpaudit.core import registry
from dpaudit.record.bases import GAINS
from dpaudit.record.fields import ATTACKER, EPSILON, MODEL, STATEMENT, Field, field_of

# The form of a name.
NAME = r"^[a-z][a-z0-9-]{0,40}(\.[a-z0-9-]{1,40})?$"
# What a value of each unit is, and the largest one; others are numbers of any size.
_UNITS: Mapping[str, tuple[str, float]] = {
    "share": ("a share", 1.0),
    "gain": ("a difference of shares", 1.0),
    "ε": ("an ε", math.inf),
    "rating": ("an error of ratings", math.inf),
    "nats": ("a divergence", math.inf),
    "items": ("a number of items", math.inf),
    "share or norm": ("a share or a norm", math.inf),
}
# What a measurement and its key have besides the fields of the metric.
_RESERVED = {
    "metric", "model", "epsilon", "estimate", "census", "traits", "joint", "fields", "detail",
    "place", "key", "larger", "described", "controls", "traces", "planted", "learning",
}  # fmt: skip
Role = Literal["utility", "recovery", "attack", "assumption", "detail"]
# The sections whose tables have a row for each ε of a model, and for each attack.
MODELS, ATTACKS = "models", "attacks"


def named(template: str) -> set[str]:
    """Return the fields that stand in the braces of a template."""
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


@dataclass(frozen=True)
class Column:
    """A column of a table of results.

    Attributes:
        label: its header, with fields of the measurement in braces, such as `accuracy: {attack}`;
            `{top_k}` is the length of the model's lists. Measurements with one label share a cell.
        show: how an estimate is printed: with its interval, as a number, in per cent, or as what is
            left of 1, with its interval.
        of: the value of the metric's `detail` that it is for; None for all.
        brief: whether the console has it too.
    """

    label: str
    show: Literal["interval", "number", "percent", "rest"] = "interval"
    of: str | None = None
    brief: bool = True

    @property
    def fields(self) -> set[str]:
        """Return the fields that stand in braces."""
        return named(self.label)


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: the name in measurements, gates and plans.
        words: its meaning in one line.
        unit: the unit of its values; `gain` is a difference of shares; `share or norm` is for a
            share of users or the largest norm of their factors. A unit that dpaudit does not know
            has no largest value.
        audits: the kinds of audits that produce it, each with what it needs there.
        fields: the fields of each measurement besides model, ε and estimate; a name stands for a
            shared field, or else for one that tells measurements apart and by which gates pick.
        detail: the name of the field that distinguishes measurements that are otherwise alike; None
            if there is none.
        optional: further fields that a measurement may have.
        places: templates of what names a measurement besides its model and ε, each left out where
            it lacks a field; those of its fields if empty.
        by: the field whose values are the same at every ε of a model, and by which lists name a
            measurement; None if there is none.
        larger: what a larger value is, of a metric that a `[[gate]]` may use: `worse` for leaks
            and errors, `better` for shares that measure utility and for an attacker's errors. None:
            no gate may use it, and its intervals never hold jointly with others.
        restricts: another metric, of whose numbers a gate on this one judges those that `judges`
            picks. It is a name in gates alone: no record has numbers of it.
        trait: the trait of a model, such as a deletion, that these numbers need.
        states: the values that the trait may have.
        judges: whether a gate judges a number with these fields; all by default.
        bases: the values of `basis` by which a gate may pick; the first unless its `where` has one.
        derived: whether its interval is a function of other joint intervals, so that it adds none
            to their family and only the model and ε identify it.
        signed: whether its values, such as differences, may be negative.
        assumes: what a passing gate leaves open, as the end of a sentence.
        mirror: the sum of a value and of that of the reversed attack; None if no reverse counts.
        samples: the key of the config that narrows its interval; empty if the audit decides it.
        alone: whether its intervals hold each by itself unless a gate judges them.
        role: what it says: of `utility`, of ratings or purchases that an attack recovers
            (`recovery`), of another `attack`, of an `assumption` of a claim, or a `detail`. It
            decides where the privacy card has it.
        section: the table of results that it stands in: `models`, which has a row for each ε,
            `attacks` with a row for each attack, or the caption of a table of its own.
        columns: its columns there; one with its name and fields if there are none.
        quantity: its name in the table of intervals; its name if empty.
        note: the sentences that explain it below the results.
        orders: whether charts order models by it, as it says how much leaks.
        described: whether an installed package describes it.
    """

    name: str
    words: str
    unit: str
    audits: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[Field | str, ...] = ()
    detail: str | None = None
    optional: tuple[Field | str, ...] = ()
    places: tuple[str, ...] = ()
    by: str | None = None
    larger: Literal["worse", "better"] | None = None
    restricts: str = ""
    trait: str = ""
    states: tuple[str, ...] = ()
    judges: Callable[[Mapping[str, Any]], bool] | None = None
    bases: tuple[str, ...] = ()
    derived: bool = False
    signed: bool = False
    assumes: str = ""
    mirror: float | None = None
    samples: str = ""
    alone: bool = False
    role: Role = "detail"
    section: str = MODELS
    columns: tuple[Column, ...] = ()
    quantity: str = ""
    note: tuple[str, ...] = ()
    orders: bool = False
    described: bool = True

    def __post_init__(self) -> None:
        """Refuse other names, and columns and places of fields that it lacks."""
        if not re.fullmatch(NAME, self.name):
            raise ValueError(f"the metric {self.name!r} needs a name such as 'utility.coverage'")
        names = [field.name for field in self.known]
        reserved = sorted(_RESERVED.intersection(names))
        if reserved:
            raise ValueError(f"{self.name} has the field {reserved[0]!r}: choose another name")
        for what, template, known in (
            *(("column", column.label, ("top_k", *names)) for column in self.columns),
            *(("place", place, names) for place in self.places),
        ):
            foreign = sorted(named(template).difference(known))
            if foreign:
                raise ValueError(
                    f"the {what} {template!r} of {self.name} names {foreign[0]!r}, which is "
                    f"none of its fields: {', '.join(known)}"
                )

    def of(self, audit: str, needs: str = "") -> Self:
        """Return the entry by which a kind of audit says that it produces the metric, too.

        Args:
            audit: the kind's name.
            needs: what the metric needs there, such as `with [[game]]`.
        """
        return replace(self, audits={audit: needs})

    def place(self, number: Mapping[str, Any]) -> list[str]:
        """Return what names a number besides its model and ε, in words.

        Args:
            number: its fields; those that it lacks are None, or not there.
        """
        known = (field.place for field in self.known)
        return [
            template.format_map(number)
            for template in self.places or filter(None, known)
            if all(number.get(name) not in (None, "") for name in named(template))
        ]

    def range(self, width: float = math.inf, basis: str | None = None) -> tuple[float, float]:
        """Return the least and the largest value that it can have.

        Args:
            width: the largest error of a rating, if the scale is known.
            basis: what it is of, if `bases` has some; gains alone may be negative.
        """
        most = width if self.unit == "rating" else self._kind[1]
        signed = self.signed and (not self.bases or basis is None or basis in GAINS)
        return (-most if signed else 0.0), most

    def values(self, width: float = math.inf, basis: str | None = None) -> str:
        """Say what its values are, and their range; the arguments are those of `range`."""
        low, high = self.range(width, basis)
        within = f"of at least {low:g}" if high == math.inf else f"in [{low:g}, {high:g}]"
        return f"{self._kind[0]} {within}"

    @property
    def _kind(self) -> tuple[str, float]:
        return _UNITS.get(self.unit, (f"a number ({self.unit})", math.inf))

    @property
    def judged(self) -> str:
        """The metric whose numbers a gate on it judges."""
        return self.restricts or self.name

    @property
    def gateable(self) -> bool:
        """Whether a `[[gate]]` may use it."""
        return self.larger is not None

    @property
    def known(self) -> tuple[Field, ...]:
        """Return every field that a measurement of the metric may have."""
        return tuple(map(field_of, (*self.fields, *self.optional)))

    @property
    def required(self) -> list[str]:
        """The names of the fields that each of its measurements has."""
        return [field_of(field).name for field in self.fields]

    def field(self, name: str) -> Field | None:
        """Return one of its fields by name; None if it has none of that name."""
        return next((field for field in self.known if field.name == name), None)

    @property
    def apart(self) -> tuple[str, ...]:
        """The names of the fields that tell its measurements apart.

        Of a derived metric these are its statement and its attacker.
        """
        keys = (field for field in self.known if field.key)
        return tuple(
            field.name for field in keys if not self.derived or field in (STATEMENT, ATTACKER)
        )

    @property
    def sources(self) -> tuple[str, ...]:
        """Return which audits produce it, in words."""
        return tuple(f"{_words(audit)} {needs}".rstrip() for audit, needs in self.audits.items())

    @property
    def where(self) -> tuple[str, ...]:
        """Return the keys by which a gate on it may pick; none if it may not gate."""
        fields = () if self.derived else self.known
        keys = (field.name for field in (EPSILON, MODEL, *fields) if field.where)
        return tuple(keys) if self.gateable else ()


def _words(audit: str) -> str:
    """Return what messages call a kind of audit; its name if its package is not installed."""
    kind = registry.every("audits").get(audit)
    return str(kind.words or kind.title) if kind else audit
