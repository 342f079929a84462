"""The first screen of every report: what was audited, the outcome, what attackers find and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dpaudit.core import rounding
from dpaudit.core.claim import LONGEST
from dpaudit.record.metrics import entry
from dpaudit.record.result import AuditResult, Measurement, VerdictRecord
from dpaudit.reports import digest, frequency, palette, words
from dpaudit.reports.sections import footnotes, meter, verdicts
from dpaudit.reports.sections.base import not_tried, sections_of
from dpaudit.reports.sections.outcome import Decision, decision_of
from dpaudit.reports.table import NONE, Table

# The ends of the meter's scale.
_SCALES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
# Claims of the first screen; the details of models have all.
_CLAIMS = 8
# Facts that no reader may miss, so that a terminal and Markdown have them too.
ALARMING = ("Recovered", "Not as assumed", "Assumed")
# Models whose utility the first screen names.
_MODELS = 4


@dataclass(frozen=True)
class Screen:
    """The first screen.

    Attributes:
        decision: the run's outcome and why, in words that need no statistics.
        rows: what each attacker finds, the most first.
        left_out: how many attackers have no row.
        claims: a row for each claim; none without claims.
        facts: what the outcome rests on, as names with sentences.
    """

    decision: Decision
    rows: Sequence[frequency.Frequency]
    left_out: int
    claims: Table
    facts: Sequence[tuple[str, str]]

    @property
    def scale(self) -> float:
        """Return the share at the right end of the meter."""
        ends = [
            max(row.measurement.estimate.upper, row.guess, row.limit or 0.0) for row in self.rows
        ]
        return next(end for end in _SCALES if end >= min(1.0, max(ends, default=1.0)) - 1e-12)

    @property
    def end(self) -> str:
        """Return the right end of the meter's scale as a frequency."""
        return frequency.out_of(self.scale, frequency.base_of(self.scale, self.scale, self.scale))

    @property
    def alarming(self) -> list[str]:
        """Return the facts that a terminal and Markdown have too, as sentences."""
        return [f"{name}: {text}" for name, text in self.facts if name in ALARMING]

    @property
    def sentences(self) -> list[str]:
        """Return the rows as sentences."""
        return [*map(sentence, self.rows)]

    def legend(self, guess: str, limit: str) -> str:
        """Return how to read the meter.

        Args:
            guess: the mark of a guess.
            limit: the mark of the limit.
        """
        clauses = dict.fromkeys(row.clause for row in self.rows)
        alarms = {row.alarms for row in self.rows if row.alarms is not None}
        of = f" with {frequency.false_alarms(max(alarms))}" if alarms else ""
        limited = any(row.limit is not None for row in self.rows)
        marks = f"{guess} is a guess" + (f", {limit} the limit" if limited else "")
        more = ""
        if self.left_out:
            rows = "row is" if self.left_out == 1 else "rows are"
            more = f" {self.left_out} more {rows} among the results."
        weak = " Less than a guess is no privacy: the attack is weak here."
        below = weak if any(row.below for row in self.rows) else ""
        return f"Found: how many {' or '.join(clauses)}{of}; {marks}.{below}{more}"


def sentence(row: frequency.Frequency) -> str:
    """Return a row of the meter as a sentence that names its model."""
    return f"{row.measurement.model}, {row.attacker}: {row.sentence}."


def of(result: AuditResult) -> Screen:
    """Return the first screen of a record."""
    rows = meter.rows(result)
    shown, left_out = rows[: meter.MOST], len(rows[meter.MOST :])
    return Screen(decision_of(result), shown, left_out, _claims(result), list(_facts(result)))


def _claims(result: AuditResult) -> Table:
    """Return a row for each claim: what is claimed, what is certified, what would be caught."""
    stated = [verdict for verdict in result.verdicts if verdict.claimed is not None]
    shown = sorted(stated, key=palette.urgency)[:_CLAIMS]
    # What the words of claims that are not tested mean.
    reasons = dict.fromkeys(verdict.reason for verdict in shown if verdict.reason)
    meanings = (palette.UNTESTED[reason] for reason in reasons)
    notes = [f"{name.capitalize()}: {meaning}." for name, meaning in meanings]
    if left := len(stated) - len(shown):
        notes.append(f"{left} more are not shown here.")
    return Table(
        "Claims of differential privacy",
        ["model", "claimed ε", "leaks at least", "claim", "a leak of this size would be caught"],
        [_claim(verdict) for verdict in shown],
        {(row, 3) for row, verdict in enumerate(shown) if verdict.verdict == "false"},
        " ".join(notes),
    )


def _claim(verdict: VerdictRecord) -> list[str]:
    certified = NONE if verdict.certified is None else rounding.at_least(verdict.certified, 2)
    caught = NONE if verdict.factor is None else words.caught([verdict])
    differs = verdict.epsilon != verdict.claimed
    swept = f" at ε = {words.epsilon(verdict.epsilon)}" if differs else ""
    return [
        verdict.model,
        f"{words.epsilon(verdict.claimed or 0)}{swept}",
        certified,
        palette.became(verdict),
        "not needed" if verdict.verdict == "false" else caught,
    ]


def _facts(result: AuditResult) -> Iterator[tuple[str, str]]:
    sections = sections_of(result)
    printed = sections.printed()
    if printed.result not in decision_of(result).reason:
        yield printed.about, printed.result
    yield "Attacker", sections.attacker()
    if unit := protected(result):
        yield "Protected", unit
    if counts := violated(result):
        yield "Not as assumed", assumed(counts)
    if unenforced := dict.fromkeys(
        assumption for point in result.points if point.claim for assumption in point.claim.assumes
    ):
        yield "Assumed", f"Claims hold only for: {'; '.join(unenforced)}."
    if strongest := sections.strongest():
        yield "Recovered", strongest
    sure = words.percent(result.family.confidence)
    apart = result.gates and footnotes.has_ranges(result)
    what = footnotes.APART if apart else "everything that decides this run together"
    yield "Confidence", f"{sure}, for {what}."
    if served := utility(result):
        yield "Utility", served
    missing = not_tried(result)
    yield "Not tried", f"{missing[0]} {len(missing) - 1} more stand below."


def protected(result: AuditResult) -> str:
    """Return what the attackers are not to learn, as a sentence; empty if nothing says it."""
    units = dict.fromkeys(number.unit for number in result.measurements if number.unit)
    if units:
        forgotten = all(point.traits.get("forget") for point in result.points)
        where = "deleted, or was never there" if forgotten else "in the training data"
        return f"Whether one {' or one '.join(units)} was {where}."
    differ = dict.fromkeys(
        words.neighbours(point.claim.adjacency) for point in result.points if point.claim
    )
    return f"{'; or '.join(differ).capitalize()}." if differ else ""


def violated(result: AuditResult) -> dict[str, float]:
    """Return the largest count of each assumption of a claim that does not hold everywhere."""
    most: dict[str, float] = {}
    for number in result.measurements:
        metric = entry(number.metric)
        if metric.role == "assumption" and number.part != LONGEST and number.estimate.value > 0:
            name = f"{metric.quantity or metric.name} {number.part or ''}".rstrip()
            most[name] = max(most.get(name, 0.0), number.estimate.value)
    return most


def assumed(counts: Mapping[str, float]) -> str:
    """Return what was counted of assumptions that do not hold, as a sentence."""
    listed = "; ".join(f"{name}: {words.number(count)}" for name, count in counts.items())
    return f"A claim assumes 0, and this was counted: {listed}."


def utility(result: AuditResult) -> str:
    """Return the first utility of each model, beside that of the most popular items.

    Of a sweep it is that at the ε of the meter, else the best one, with its ε.
    """
    measured = [number for number in result.measurements if entry(number.metric).role == "utility"]
    if not measured:
        return ""
    metric, at = entry(measured[0].metric), meter.epsilon(result)
    sign = 1 if metric.larger == "better" else -1

    def order(number: Measurement) -> tuple[bool, float]:
        return number.epsilon == at, sign * number.estimate.value

    models: dict[str, Measurement] = {}
    for number in measured:
        if number.metric == metric.name:
            models[number.model] = max(models.get(number.model, number), number, key=order)
    best = sorted(models.values(), key=lambda number: -sign * number.estimate.value)
    named = [
        f"{number.model} {rounding.measured(number.estimate.value)}"
        f"{digest.swept_at(result, number)}"
        for number in best[:_MODELS]
    ]
    if len(best) > _MODELS:
        named.append(f"{len(best) - _MODELS} more")
    popular = digest.of(result, "utility.popular")
    worse = ""
    if popular and metric.name == "utility.ndcg":
        gain = popular[0].estimate.value
        named.append(f"the most popular items {rounding.measured(gain)}")
        below = [number.model for number in best if number.estimate.upper < gain]
        worse = f" Worse than the most popular items: {', '.join(below)}." if below else ""
    better = "more" if sign > 0 else "less"
    return f"{metric.quantity or metric.name}: {'; '.join(named)} ({better} is better).{worse}"


def audited(result: AuditResult) -> str:
    """Return what was audited, whose it is, on which data and when, in one line."""
    data = result.data
    stated = ((name, _stated(result, name)) for name in ("version", "owner"))
    parts = [f"{name} {text}" for name, text in stated if text]
    if data:
        table = result.config.get("data")
        synthetic = isinstance(table, dict) and table.get("format") == "synthetic"
        parts.append(
            f"{data.ratings:,} {'synthetic ' if synthetic else ''}ratings by {data.users:,} users "
            f"of {data.items:,} items (SHA-256 {data.digest[:12]})"
        )
    parts += [f"run {result.timing.started[:10]}", f"dpaudit {result.tool}"]
    return "; ".join(parts) + "."


def repairs(result: AuditResult) -> str:
    """Return what loading dropped, merged, changed or doubts, with counts; perhaps nothing."""
    counts = result.data.repairs if result.data else {}
    return "; ".join(f"{what}: {count:,}" for what, count in counts.items())


def system(result: AuditResult) -> str:
    """Return the name of the audited system, as its owner states it; else what its models are."""
    return _name(result) or f"{len(result.models)} models"


def title(result: AuditResult) -> str:
    """Return what was found, after the name of the system if there is one."""
    name = _name(result)
    return f"{name}. {counts(result)}" if name else counts(result)


def _name(result: AuditResult) -> str | None:
    only = result.models[0].label if len(result.models) == 1 else None
    return _stated(result, "system") or only


def _stated(result: AuditResult, name: str) -> str | None:
    card = result.config.get("card")
    word = card.get(name) if isinstance(card, dict) else None
    return word if isinstance(word, str) else None


def headline(result: AuditResult) -> str:
    """Return the outcome, how many models have which badge, and the outcomes of the gates."""
    return f"{palette.run(result).shown}. {counts(result)}"


def counts(result: AuditResult) -> str:
    """Return how many models have which badge, and the outcomes of the gates."""
    badges = Counter(verdict.badge.text for verdict in verdicts.of(result))
    listed = ", ".join(f"{count} {badge}" for badge, count in badges.items())
    models = len(result.models)
    return f"{models} model{'s' if models > 1 else ''}: {listed}. {_gates(result)}"


def _gates(result: AuditResult) -> str:
    """Return the number of gates with each outcome, as a sentence."""
    if not result.gates:
        return "No gates are set."
    outcomes = Counter(gate.outcome for gate in result.gates)
    listed = ", ".join(f"{outcomes[word]} {word}" for word in palette.GATE if outcomes[word])
    total = len(result.gates)
    return f"{total} gate{'s' if total > 1 else ''}: {listed}."


def findings(result: AuditResult) -> list[str]:
    """Return what else was noticed about the models, as sentences."""
    drifting = [pair for pair in result.pairs if pair.drift]
    noticed = [f"{pair.model}: {pair.drift}." for pair in drifting]
    alike: dict[str, list[str]] = {}
    for finding in result.findings:
        alike.setdefault(f"{finding.text} {finding.remedy}", []).append(finding.model)
    return noticed + [
        f"{', '.join(dict.fromkeys(models))}: {said}" for said, models in alike.items()
    ]
