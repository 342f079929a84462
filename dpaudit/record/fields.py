"""What a field of a measurement is, and the fields that metrics of several kinds of audit share.

A metric brings its fields: those here, or fields of its own, such as a plug-in's `country`. All
that reads, writes, tells apart or picks measurements takes it from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dpaudit.core.estimate import Estimate, Number, Probability
from dpaudit.record.values import Control, Count


@dataclass(frozen=True)
class Field:
    """A field of a measurement.

    Attributes:
        name: its key in records, and in `where` of gates.
        words: what it says, in one line.
        type: the type of its values, as pydantic reads it.
        key: whether it tells measurements of one metric, model and ε apart.
        where: whether a gate may pick by it; such a field is a key.
        place: the template by which it names a measurement in words, with fields in braces; empty
            if it does not.
        labelled: whether a table shows its value with its name, as a bare number says nothing.
        empty: its value where a measurement has none.
    """

    name: str
    words: str
    type: Any = str
    key: bool = True
    where: bool = False
    place: str = ""
    labelled: bool = False
    empty: Any = None

    def __post_init__(self) -> None:
        """Refuse names that no attribute and no key of a record may have."""
        if not self.name.isidentifier() or self.name.startswith("_"):
            raise ValueError(f"the field {self.name!r} needs a name such as 'country'")

    def read(self, value: Any) -> Any:
        """Return a value as its type.

        Raises:
            ValueError: it is none of the type.
        """
        try:
            return _adapter(self.type).validate_python(value)
        except ValidationError as error:
            problem = error.errors()[0]
            place = ".".join(map(str, (self.name, *problem["loc"])))
            raise ValueError(f"{place}: {problem['msg']}") from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


EPSILON = Field("epsilon", "the ε of the sweep", float, where=True)
MODEL = Field("model", "the model's label", where=True)
ATTACK = Field("attack", "the attack's label", where=True, place="{attack}")
PAIR = Field(
    "pair",
    "the pair's name; with `(list)` where only the list was observed",
    where=True,
    place="{pair}",
)
STEP = Field(
    "step", "the number of steps or rounds after which it was measured", Count, labelled=True
)
AT = Field(
    "at",
    "the level of a test, the false-positive rate, or which quantile",
    Probability,
    where=True,
    labelled=True,
)
BASIS = Field(
    "basis", "what is recovered or guessed from what, or which two numbers are compared", where=True
)
PART = Field("part", "which part of a divergence, value of an assumption, or quantile over users")
OBSERVER = Field(
    "observer", "who saw submissions, messages to friends, or a trained model", where=True
)
UNIT = Field(
    "unit", "what a target is: `interaction` or `user`", where=True, place="{unit} ({observer})"
)
EVENT = Field("event", "the event behind the bound, chosen on other trials", key=False)
SHIFT = Field(
    "shift",
    "the difference of the exact prediction between the two data sets; None if a list was observed",
    Number,
    key=False,
)
THEORY = Field(
    "theory",
    "the ε of this pair by the law of the noise or of the list, if known; no gate uses it",
    Estimate,
    key=False,
)
CONTROL = Field(
    "control",
    "the weakest mutant that the same game found to break the claim, else the last one that it did "
    "not find; None if none was tried",
    Control,
    key=False,
)
TRIED = Field(
    "tried",
    "every mutant that was tried, if there are several",
    tuple[Control, ...],
    key=False,
    empty=(),
)
STATEMENT = Field(
    "statement",
    "what it is about: `this-model`, the training that ships, or `average`; None for the next "
    "training",
    place="{statement}",
)
ATTACKER = Field(
    "attacker",
    "whose number it is: `trains-none`, of attacks that train no model; None for all attacks",
    place="attacker {attacker}",
)
SHARED = {
    field.name: field
    for field in (
        ATTACK, PAIR, STEP, AT, BASIS, PART, OBSERVER, UNIT, EVENT, SHIFT, THEORY, CONTROL, TRIED,
        STATEMENT, ATTACKER
    )
}  # fmt: skip


def field_of(field: Field | str) -> Field:
    """Return a field; a name is that of a shared one, or of one by which gates pick."""
    if isinstance(field, Field):
        return field
    return SHARED.get(field) or Field(field, "", where=True, place=f"{{{field}}}")
