"""What reports show of Sybil attacks: the effort that an attacker needs to read 9 of 10 ratings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from dpaudit.audits.on_demand.sections import OnDemandSections
from dpaudit.core import rounding
from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import columns, words
from dpaudit.reports.chart_parts import Axis, Chart, Datum, Look, ends, extremes
from dpaudit.reports.frequency import COIN, Frequency, Guess, rating_guess
from dpaudit.reports.sections.base import MEMBERSHIP_UNTRIED
from dpaudit.reports.sections.charts import Lines, ReferenceLine
from dpaudit.reports.table import NONE, Table

# The accuracy that an attacker is to reach.
LEVEL = 0.9
_NOTE = (
    "An effort is the number of accounts that the attacker creates (those created before training "
    "included), of changes, or of observed lists. 'a to b': the first effort tried that has "
    f"{words.percent(LEVEL)} accuracy is from a to b. '> n' or 'a to > n': every effort tried, up "
    "to n, falls short or may fall short, and n has the accuracy in brackets. An attacker who only "
    "guesses a rating with v possible values is right in 1/v of the cases; for a purchase, or by "
    "observed lists, in half. A claimed ε covers one release: m releases together have m ε."
)


class SybilSections(OnDemandSections):
    """Adds the efforts of attackers with accounts, and of those who read public lists."""

    shown: ClassVar[frozenset[str]] = OnDemandSections.shown | {"sybil"}
    beyond: ClassVar[Sequence[str]] = (MEMBERSHIP_UNTRIED,)

    def tables(self) -> list[Table]:
        """Return the tables of models, and that of efforts."""
        return [*super().tables(), *_efforts(self.result)]

    def charts(self, look: Look) -> list[Chart | None]:
        """Return the charts of models, and that of accuracy against effort."""
        return [*super().charts(look), _accuracy_chart(self.result, look)]

    def metered(self) -> Iterable[Measurement]:
        """Return what attackers with accounts recover, besides what others do."""
        return [*super().metered(), *columns.within(self.result, "sybil")]

    def frequency(self, measurement: Measurement) -> Frequency | None:
        """Return what an attacker recovers with an effort, or without one."""
        if measurement.metric != "sybil.accuracy":
            return super().frequency(measurement)
        clause = "hidden ratings are recovered"
        label = measurement.attack or ""
        attack = self.result.sybil_attacks.get(label, {})
        return Frequency(measurement, label, clause, _guess(self.result, attack)[1])

    def notes(self) -> list[str]:
        """Return the note on efforts, and those on models."""
        return [_NOTE, *super().notes()]

    def brief(self) -> list[Table]:
        """Return the table of efforts."""
        return [*_efforts(self.result), *super().brief()]


def _efforts(result: AuditResult) -> list[Table]:
    """Return the effort for 90 % accuracy, with a column for each Sybil attack."""
    accuracies = columns.within(result, "sybil")
    attacks = list(dict.fromkeys(accuracy.attack for accuracy in accuracies))
    if not attacks:
        return []
    models = list(dict.fromkeys(accuracy.model for accuracy in accuracies))
    at: dict[tuple[str, float], dict[str | None, list[Measurement]]] = {}
    for accuracy in sorted(accuracies, key=lambda one: (models.index(one.model), one.epsilon)):
        tried = at.setdefault((accuracy.model, accuracy.epsilon), {})
        tried.setdefault(accuracy.attack, []).append(accuracy)
    cells = [
        [model, words.epsilon(epsilon), *(_effort(tried.get(attack, [])) for attack in attacks)]
        for (model, epsilon), tried in at.items()
    ]
    caption = f"Accounts, changes or lists for {words.percent(LEVEL)} accuracy"
    return [Table(caption, ["model", "ε", *(attack or "" for attack in attacks)], cells)]


def _effort(accuracies: Sequence[Measurement]) -> str:
    """Return the range from the first tried effort that may reach the level to the first that does.

    Efforts below the former do not reach the level; the first effort that reaches it is at most the
    latter. Both hold with the family's confidence, because its intervals hold together.
    """
    if not accuracies:
        return NONE
    tried = sorted(accuracies, key=lambda accuracy: accuracy.effort or 0)
    least = next((m.effort for m in tried if m.estimate.upper >= LEVEL), None)
    most = next((m.effort for m in tried if m.estimate.lower >= LEVEL), None)
    last = tried[-1]
    if most is None:
        reached = rounding.measured(last.estimate.value, 2)
        possible = "" if least is None else f"{least} to "
        return f"{possible}> {last.effort} ({reached})"
    return str(most) if least == most else f"{least} to {most}"


def _accuracy_chart(result: AuditResult, look: Look) -> Chart | None:
    """Return the chart of accuracy against effort, if there are Sybil attacks."""
    data = [_datum(accuracy) for accuracy in columns.within(result, "sybil")]
    if not data:
        return None
    tried = sorted({datum["x"] for datum in data})
    guesses = dict.fromkeys(_guess(result, attack) for attack in result.sybil_attacks.values())
    level = words.percent(LEVEL)
    return Lines(
        "sybil",
        "How many accounts, changes or lists an attacker needs",
        "How often the attacker reads a hidden rating, by the number of accounts that they create "
        "(those created before training included), changes that they make, or lists that they "
        f"observe. Dashed lines: what a guess reaches, and {level}.",
        extremes("accuracy", data),
        Axis.over("accounts, changes or observed lists", tried, values=tried, units=True),
        Axis("accuracy", 0, 1),
        data,
        {"series": "model, attack", "x": "effort", "words": "accuracy"},
        look.series(data, "value"),
        [ReferenceLine(label, share) for label, share in (*guesses, (level, LEVEL))],
    ).chart()


def _guess(result: AuditResult, attack: Mapping[str, Any]) -> Guess:
    """Return how often a guess is right; who observes lists only tells one user from another."""
    return rating_guess(result) if "category" in attack else COIN


def _datum(accuracy: Measurement) -> Datum:
    line = plain(f"{accuracy.model}, ε = {words.epsilon(accuracy.epsilon)}, {accuracy.attack}")
    return {
        "series": line,
        "model": plain(accuracy.model),
        "attack": accuracy.attack,
        "name": f"{line}, effort {accuracy.effort}",
        "x": accuracy.effort,
        **ends(accuracy.estimate),
    }
