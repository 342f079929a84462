"""What reports show of inferred attributes: from what they are guessed, and how well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from dpaudit.core import rounding
from dpaudit.record import bases
from dpaudit.record.result import DataRecord, Measurement, ModelRecord
from dpaudit.reports import digest, words
from dpaudit.reports.chart_parts import Chart, Look
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections.base import GAMES_UNTRIED, Sections
from dpaudit.reports.table import NONE, Column, Table

# What is seen of a user.
_SEEN = {"scores": "own scores", "own-list": "own list", "factors": "own factors"}
_NOTES = (
    "Attributes: an attacker knows the attribute of half of the users, drawn at random, learns "
    "from what the model answers about them, and guesses the attributes of the others. The "
    "attacker is a logistic regression on standardised inputs: lists and histories are indicators "
    "of items. Another attacker may guess better.",
    "'Model without the user' is the same model trained without the interactions and the features "
    "of a quarter of all users. The recommenders audited here cannot fold in a new history, so it "
    "answers about these users as about a user without history; links to friends stay. The "
    "attacker learns from the same users as before, who are in that training. Of a personal "
    "recommender such an answer usually tells nothing, an AUC of 0.5; more comes from elsewhere "
    "than the user's own data. Against it the model adds all that its answers tell; whether they "
    "tell more than what went into them is said by 'raw history', from which the same attacker "
    "guesses by the user's own interactions.",
    "The advantage is the difference of shares of right guesses, with all classes counting alike, "
    "in percentage points: 'better than without the user' is what gates judge unless their basis "
    "names another. A guess of the largest class has an AUC of 0.5, and its share as accuracy.",
    "Intervals are about further users like these, guessed by an attacker who knows as many, and "
    "about the trainings at hand. The advantages over the model without the user hold together; "
    "AUC, accuracy and what no gate judges hold each by itself.",
)


class AttributeSections(Sections):
    """Rows are attributes and observers, instead of values of ε."""

    shown: ClassVar[frozenset[str]] = Sections.shown | {"attributes"}

    def tables(self) -> list[Table]:
        """Return the table of attributes."""
        return [self._table(3)]

    def charts(self, look: Look) -> list[Chart | None]:
        """Return no charts."""
        return []

    def notes(self) -> list[str]:
        """Return the notes that explain the table."""
        return [*_NOTES]

    def leaks(self, model: ModelRecord) -> Iterator[str]:
        """Yield how well each attribute is guessed from what, at each ε."""
        for one in self._advantages():
            if one.model == model.label:
                yield self._sentence(one)

    def metered(self) -> Iterable[Measurement]:
        """Return the advantages over the model without the user, and those that gates judge."""
        advantages = digest.of(self.result, "attributes.advantage")
        return [one for one in advantages if one.estimate.kind == "frequentist"]

    def frequency(self, measurement: Measurement) -> Frequency | None:
        """Return how many more guesses are right."""
        if measurement.metric != "attributes.advantage":
            return None
        over = {
            bases.BEYOND_ABSENT: "the model without the user",
            bases.BEYOND_HISTORY: "the raw history",
            bases.BEYOND_GUESS: "a guess",
        }[measurement.basis or ""]
        attacker = f"{_seen(measurement)}, for {measurement.attribute}"
        clause = f"guesses of {measurement.attribute} are right beyond those by {over}"
        return Frequency(measurement, attacker, clause, 0.0)

    def attacker(self) -> str:
        """Return what the attacker knows."""
        return (
            "Someone who knows the attribute of half of the users, and sees what the model answers "
            "about all of them, as its row names."
        )

    def untried(self) -> Iterator[str]:
        """Yield the attackers and the observers that the run left out."""
        yield "Other attackers than a logistic regression; one may guess better."
        observers = {one.observer for one in self._advantages()}
        missing = [sight for name, sight in _SEEN.items() if name not in observers]
        if missing:
            yield f"Observers who see a user's {' or '.join(missing)}."
        yield GAMES_UNTRIED

    def columns(self, model: ModelRecord) -> list[Column]:
        """Return the columns of one model's attributes, the most important first."""
        cells = dict(self._table(2).columns(model.label))
        named = zip(cells["attribute"], cells["seen"], strict=True)
        guessed = [f"{attribute}, {seen}" for attribute, seen in named]
        other = {"model", "attribute", "seen"}
        if not digest.swept(self.result, model.label):
            other.add("ε")
        return [
            ("attribute, seen", guessed),
            *((name, column) for name, column in cells.items() if name not in other),
        ]

    def attacked(self, data: DataRecord) -> tuple[str, str]:
        """Return the number of users whose attribute is guessed."""
        return "users", f"an attribute of {data.attacked} is guessed"

    def _advantages(self) -> list[Measurement]:
        measured = digest.of(self.result, "attributes.advantage")
        return [one for one in measured if one.basis == bases.BEYOND_ABSENT]

    def _number(
        self, one: Measurement, metric: str, basis: str, digits: int, *, interval: bool = False
    ) -> str:
        """Return the number of the same attribute from the same sight, or from none, as text."""
        place = one.model, one.epsilon, one.attribute
        for other in digest.of(self.result, f"attributes.{metric}"):
            if (
                (other.model, other.epsilon, other.attribute) == place
                and other.basis == basis
                and other.observer in (None, one.observer)
            ):
                shown = other.estimate
                value = rounding.measured(shown.value, digits)
                return words.interval(shown, digits) if interval else value
        return NONE

    def _table(self, digits: int) -> Table:
        numbers = [
            ("AUC", "auc", bases.ANSWERS),
            ("AUC without the user", "auc", bases.ABSENT),
            ("AUC of raw history", "auc", bases.HISTORY),
            ("advantage", "advantage", bases.BEYOND_ABSENT),
            ("over a guess", "advantage", bases.BEYOND_GUESS),
            ("over raw history", "advantage", bases.BEYOND_HISTORY),
            ("accuracy", "accuracy", bases.ANSWERS),
            ("of raw history", "accuracy", bases.HISTORY),
            ("of largest class", "accuracy", bases.GUESS),
        ]
        cells = [
            [
                one.model,
                words.epsilon(one.epsilon),
                one.attribute or NONE,
                _seen(one),
                *(
                    self._number(one, metric, basis, digits, interval=name in ("AUC", "advantage"))
                    for name, metric, basis in numbers
                ),
            ]
            for one in self._advantages()
        ]
        header = ["model", "ε", "attribute", "seen", *(name for name, *_ in numbers)]
        return Table("Attributes guessed from a model's answers", header, cells)

    def _sentence(self, one: Measurement) -> str:
        answers, history, absent = (
            self._number(one, "auc", basis, 2)
            for basis in (bases.ANSWERS, bases.HISTORY, bases.ABSENT)
        )
        at = digest.swept_at(self.result, one)
        return (
            f"{f'{at[1:].capitalize()}, from' if at else 'From'} the {_seen(one)}, {one.attribute} "
            f"is guessed with AUC {answers}; from the raw history {history}; from a model without "
            f"the user {absent}."
        )


def _seen(one: Measurement) -> str:
    return _SEEN.get(one.observer or "", one.observer or NONE)
