"""What a kind of audit shows in every report; by default, what the table of metrics describes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from dpaudit.core import registry, rounding
from dpaudit.core.messages import plain
from dpaudit.record.metric import MODELS
from dpaudit.record.metrics import entry, ordered
from dpaudit.record.result import AuditResult, DataRecord, Measurement, ModelRecord
from dpaudit.reports import columns, digest, palette, words
from dpaudit.reports.chart_parts import Chart, Look
from dpaudit.reports.frequency import Frequency, attack_guesses, rating_guess
from dpaudit.reports.sections.charts import accuracy_chart, certified_chart, error_chart
from dpaudit.reports.table import NONE, Column, Table

GAMES_UNTRIED = "Games that test a claimed ε: no [[game]] and no membership game was run."
MEMBERSHIP_UNTRIED = (
    "Membership inference with real users: whether the training data held an interaction or a user."
)
ACCOUNTS_UNTRIED = "Attackers who add fake accounts or change the training data."
_ALWAYS_UNTRIED = (
    "Other attacks on the same outputs, other data, other hyper-parameters, and models trained "
    "again over time on data that change.",
    "Everything outside the released outputs: running times, memory, logs, who may read the data, "
    "and whether the deployed code is the audited code.",
)


class Printed(NamedTuple):
    """What a kind of audit adds to the first screen and to a privacy card.

    Attributes:
        about: what it is about, as a heading; empty if nothing is added.
        result: the result in a sentence.
        facts: sentences by their names.
        results: the rows of a table, each by the names of its columns, the worst first.
    """

    about: str = ""
    result: str = ""
    facts: Mapping[str, str] = {}
    results: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class Sections:
    """What the reports show of a record besides gates, claims, games and how to reproduce it.

    A kind of audit changes what it needs in a class of its own, which `AuditKind.sections` returns;
    a kind that extends another one extends its sections.

    Attributes:
        result: the record.
        shown: the sections of the table of metrics that stand in its tables and charts. Each other
            section of the record becomes a table of its own.
        beyond: what audits of the kind never try, as sentences.
    """

    result: AuditResult

    shown: ClassVar[frozenset[str]] = frozenset({MODELS, "games"})
    beyond: ClassVar[Sequence[str]] = (MEMBERSHIP_UNTRIED, ACCOUNTS_UNTRIED)

    def tables(self) -> list[Table]:
        """Return the tables of results: one for each model, with a row for each ε."""
        by_model = digest.rows(self.result)
        return [_table(model, by_model[model.label]) for model in self.result.models]

    def charts(self, look: Look) -> list[Chart | None]:
        """Return the charts of results, with None in place of one without numbers.

        Args:
            look: the colours of the models.
        """
        by_model = digest.rows(self.result)
        return [
            accuracy_chart(by_model, look, attack_guesses(self.result)),
            certified_chart(by_model, look),
            error_chart(by_model, look),
        ]

    def notes(self) -> list[str]:
        """Return the notes that explain its tables; those of metrics stand in their entries."""
        return []

    def judged(self, model: ModelRecord) -> Iterator[tuple[palette.Word, str]]:
        """Yield what the kind says of a model beside its claim: words with their sentences.

        The words stand in place of that of a model without a claim.
        """
        yield from ()

    def printed(self) -> Printed:
        """Return what the first screen and a privacy card say of the audit besides."""
        return Printed()

    def leaks(self, model: ModelRecord) -> Iterator[str]:
        """Yield what attackers find of a model, as sentences of its verdict.

        What games certify, and how many hidden ratings attacks recover, is said without them.
        """
        yield from ()

    def metered(self) -> Iterable[Measurement]:
        """Return the measurements of which the leak meter shows the largest of each attacker."""
        return digest.of(self.result, "attack.accuracy")

    def frequency(self, measurement: Measurement) -> Frequency | None:
        """Return a measurement as a natural frequency; None if it counts nothing that is found."""
        if measurement.metric != "attack.accuracy":
            return None
        return Frequency(
            measurement,
            measurement.attack or "",
            "hidden ratings are recovered",
            rating_guess(self.result)[1],
        )

    def strongest(self) -> str:
        """Return what the strongest attack recovers, as a sentence, if no frequency tells it."""
        return ""

    def attacker(self) -> str:
        """Return who attacks and what this attacker knows, as a sentence."""
        claims = [point.claim for point in self.result.points if point.claim]
        seen = dict.fromkeys(words.observer(claim.observer) for claim in claims)
        what = " or ".join(seen) or "what the model shows"
        return f"Someone who sees {what}, and knows all data but what is attacked."

    def untried(self) -> Iterator[str]:
        """Yield which games the run left out, as sentences, the most specific first."""
        if not columns.within(self.result, "games"):
            yield GAMES_UNTRIED
            return
        pairs = ", ".join(dict.fromkeys(pair.pair for pair in self.result.pairs))
        yield f"Other pairs of neighbouring data sets than those that were compared ({pairs})."
        yield from _unseen(self.result)

    def columns(self, model: ModelRecord) -> list[Column]:
        """Return the columns of a model's table on a console, the most important first."""
        return list(model_columns(model, digest.rows(self.result)[model.label]))

    def brief(self) -> list[Table]:
        """Return the tables that a console shows below those of the models."""
        return []

    def remarks(self) -> list[str]:
        """Return what a reader of a console must know of the numbers."""
        return []

    def attacked(self, data: DataRecord) -> tuple[str, str]:
        """Return of whom or what in the data an attacker learns: a name, and numbers."""
        verb = "is" if data.attacked == 1 else "are"
        return "users", f"{data.trained} train the models, {data.attacked} {verb} attacked"


def sections_of(result: AuditResult) -> Sections:
    """Return the sections of a record's kind; the default if that kind is not installed.

    Raises:
        ConfigError: the kind is registered, and cannot be imported.
    """
    kind = registry.installed("audits", result.kind)
    sections: Sections = kind.sections()(result) if kind else Sections(result)
    return sections


def charts_of(result: AuditResult) -> list[Chart]:
    """Return every chart for which the record has numbers to compare."""
    drawn = sections_of(result).charts(look_of(result))
    return [chart for chart in drawn if chart and chart.panels]


def look_of(result: AuditResult) -> Look:
    """Return the colours of models, those that leak most first."""
    metrics = ordered(measurement.metric for measurement in result.measurements)
    leaks = [metric.name for metric in metrics if metric.orders]
    most: dict[str, list[float]] = {}
    for measurement in result.measurements:
        row = most.setdefault(plain(measurement.model), [0.0] * (len(leaks) + 1))
        if measurement.metric in leaks:
            column = leaks.index(measurement.metric)
            row[column] = min(row[column], -measurement.estimate.value)
        elif measurement.metric == "epsilon":
            row[-1] = min(row[-1], -measurement.estimate.lower)
    labels = (plain(model.label) for model in result.models)
    return Look(sorted(labels, key=lambda model: most.get(model, [0.0])))


def not_tried(result: AuditResult) -> list[str]:
    """Return what was not tried, the most specific first."""
    sections = sections_of(result)
    roles = {entry(measurement.metric).role for measurement in result.measurements}
    recovery = () if "recovery" in roles else ("Attacks that recover ratings or purchases.",)
    return [*sections.untried(), *recovery, *sections.beyond, *_ALWAYS_UNTRIED]


def _unseen(result: AuditResult) -> Iterator[str]:
    """Yield the observers whom a claim covers and whom no game put to the test."""
    claimed = {
        words.observer(name): name
        for point in result.points
        if point.claim
        for name in point.claim.also
    }
    seen = {_observer(measurement) for measurement in result.measurements}
    missing = [phrase for phrase, name in claimed.items() if name not in seen]
    if missing:
        yield f"Further observers whom a claim covers: {'; '.join(missing)}."


def _observer(measurement: Measurement) -> str | None:
    """Return who observed a game; an observer who was chosen stands behind the pair's name."""
    _, chosen, name = (measurement.pair or "").rpartition(" (")
    return measurement.observer or (name.removesuffix(")") if chosen else None)


_POWER = (
    "Power: the least factor by which a copy has to break the claim for the game to find it, as in "
    "“finds 2×”. “none up to 4×”: it missed the copies that were tried, up to that factor; “none”: "
    "no copy could be tried, or none found with so few trials; “–”: not needed, as the game breaks "
    "the claim, or there is no claim that it tests."
)
# Digits of a number on a console.
_SHORT = 2


def model_columns(model: ModelRecord, sweep: Sequence[digest.Row]) -> Iterator[Column]:
    """Yield the columns of a model's table on a console, the most important first."""
    points = [row.point for row in sweep]
    yield "ε", [words.epsilon(point.epsilon) for point in points]
    if any(point.claim and point.claim.epsilon != point.epsilon for point in points):
        yield "claimed", [words.epsilon(p.claim.epsilon) if p.claim else "none" for p in points]
    if any(row.games for row in sweep):
        yield "certified ε", [_largest(row) for row in sweep]
    errors = []
    for metric, name, cells in columns.columns(
        _of_models(sweep), model.top_k, digits=_SHORT, brief=True
    ):
        if metric.unit == "rating":
            errors.append((name, cells))
        else:
            yield name, cells
    known = [game for row in sweep for game in row.games.values() if game.theory]
    if known:
        law = "noise's ε" if any(digest.noised(game) for game in known) else "list's ε"
        yield law, [_largest_by_law(row) for row in sweep]
    yield from errors
    if any(point.sensitivity is not None for point in points):
        yield "Δf", [words.number(point.sensitivity) for point in points]


def claim_words(sweep: Sequence[digest.Row]) -> str:
    """Return what a model's claims hold for, without their ε."""
    claims = dict.fromkeys(
        words.claim(row.point.claim) if row.point.claim else "none" for row in sweep
    )
    return f"Claim: {'; '.join(claims)}."


def _table(model: ModelRecord, sweep: Sequence[digest.Row]) -> Table:
    shown = list(_columns(model, sweep))
    marked = {
        (index, column)
        for index, row in enumerate(sweep)
        for column, (name, _) in enumerate(shown)
        if any(name == _certified(pair) for pair in row.exceeding)
    }
    return Table(
        caption=f"{model.label}: {model.defense}, {model.variant}. {claim_words(sweep)}",
        header=[name for name, _ in shown],
        cells=[list(cells) for cells in zip(*(cells for _, cells in shown), strict=True)],
        marked=marked,
        note=_POWER if any(name.startswith("power (") for name, _ in shown) else "",
    )


def _columns(model: ModelRecord, sweep: Sequence[digest.Row]) -> Iterator[Column]:
    """Yield the name and cells of the columns of a model's table that are not empty."""
    points = [row.point for row in sweep]
    yield "ε", [words.epsilon(point.epsilon) for point in points]
    yield (
        "claimed ε",
        [words.epsilon(point.claim.epsilon) if point.claim else "none" for point in points],
    )
    if any(point.chosen for point in points):
        yield "chosen", [words.settings(point.chosen) for point in points]
    if any(point.sensitivity is not None for point in points):
        yield "Δf", [words.number(point.sensitivity) for point in points]
    for pair in sweep[0].games if sweep else ():
        games = [row.games[pair] for row in sweep]
        remarks = [f" ({digest.MORE})" if row.exceeds(pair) else "" for row in sweep]
        bounds = [f"≥ {rounding.at_least(game.estimate.lower)}" for game in games]
        cells = zip(bounds, remarks, strict=True)
        yield _certified(pair), [f"{bound}{remark}" for bound, remark in cells]
        if any(game.theory for game in games):
            law = "noise" if any(digest.noised(game) for game in games) else "list"
            # The upper bound, if the number is not exact.
            uppers = [game.theory and rounding.measured(game.theory.upper) for game in games]
            yield f"ε by the {law}'s law ({pair})", [upper or NONE for upper in uppers]
        yield f"power ({pair})", [row.power(pair) or NONE for row in sweep]
    for column in columns.columns(_of_models(sweep), model.top_k):
        yield column.name, column.cells


def _of_models(sweep: Sequence[digest.Row]) -> list[list[Measurement]]:
    """Return what stands in the rows of a model's own table, but for its games."""
    return [[m for m in row.measurements if entry(m.metric).section == MODELS] for row in sweep]


def _certified(pair: str) -> str:
    return f"certified ε ({pair})"


def _largest(row: digest.Row) -> str:
    """Return the largest lower bound over the pairs, which hold together, with a remark.

    If no bound breaks the claim, the remark is the least mutant that was found on any pair.
    """
    if not row.games:
        return NONE
    largest = max(game.estimate.lower for game in row.games.values())
    controls = [game.control for game in row.games.values() if game.control]
    least = min((control.factor for control in controls if control.found), default=None)
    remark = ""
    if row.exceeding:
        remark = digest.ABOVE
    elif row.point.claim:
        remark = " (no power)" if least is None else f" (finds {least:.3g}×)"
    return f"≥ {rounding.at_least(largest, _SHORT)}{remark}"


def _largest_by_law(row: digest.Row) -> str:
    """Return the largest ε by the law over the pairs."""
    known = max((game.theory.upper for game in row.games.values() if game.theory), default=None)
    return "∞" if known == math.inf else words.number(known)
