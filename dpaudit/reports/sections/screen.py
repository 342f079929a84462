"""The first screen of every report: what was audited, the outcome, what attackers find and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dpaudit.core import rounding
from dpaudit.core.claim import LONGEST
from dpaudit.core.exit_codes import exit_code
from dpaudit.core.frequency import base_of, out_of
from dpaudit.record.metrics import entry
from dpaudit.record.result import AuditResult, Measurement, Outcome, VerdictRecord
from dpaudit.reports import digest, palette, words
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections import meter, verdicts
from dpaudit.reports.sections.base import not_tried, sections_of
from dpaudit.reports.sections.outcome import Decision, decision_of
from dpaudit.reports.sections.steps import Step, steps
from dpaudit.reports.table import NONE, Table

# The ends of the meter's scale.
_SCALES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
# Claims of the first screen; the details of models have all.
_CLAIMS = 8
# What became of gates, of one and of several, the worst first.
_SAID: Mapping[Outcome, tuple[str, str]] = {
    "fail": ("fails", "fail"),
    "inconclusive": ("is undecided", "are undecided"),
    "pass": ("passes", "pass"),
}
# Models whose utility the first screen names.
_MODELS = 4


@dataclass(frozen=True)
class Screen:
    """The first screen.

    Attributes:
        decision: the run's outcome, why, and how sure it is.
        ended: what became of the gates, with the exit code.
        who: what attackers are not to learn, and who they are.
        rows: what each attacker finds, what is over its limit first, then the most.
        left_out: what stands of attackers without a row; empty if all have one.
        claims: a row for each claim; none without claims.
        warnings: what no reader may miss besides: leaks that are certain, what does not hold.
        worth: utility, beside that of the most popular items; empty if it was not measured.
        missing: what was not tried.
        steps: what next.
    """

    decision: Decision
    ended: str
    who: str
    rows: Sequence[Frequency]
    left_out: str
    claims: Table
    warnings: Sequence[str]
    worth: str
    missing: str
    steps: Sequence[Step]

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
        return out_of(self.scale, base_of(self.scale, self.scale, self.scale))

    @property
    def ends(self) -> str:
        """Return what the ends of the rows are."""
        kinds = {row.several for row in self.rows}
        return "range or interval" if len(kinds) > 1 else "range" if True in kinds else "interval"

    @property
    def sentences(self) -> list[str]:
        """Return the rows as sentences."""
        return [*map(sentence, self.rows)]

    @property
    def legend(self) -> str:
        """Return what the meter counts."""
        clauses = dict.fromkeys(row.what for row in self.rows)
        weak = " Fewer than a guess finds is no privacy: the attack is weak here."
        below = weak if any(row.below for row in self.rows) else ""
        return f"Found: how many {' or '.join(clauses)}.{below} {self.left_out}".rstrip()


def sentence(row: Frequency) -> str:
    """Return a row of the meter as a sentence that names its model."""
    return f"{row.measurement.model}, {row.attacker}: {row.sentence}."


def of(result: AuditResult) -> Screen:
    """Return the first screen of a record."""
    rows, sections, missing = meter.rows(result), sections_of(result), not_tried(result)
    decision, left = decision_of(result), rows[meter.MOST :]
    code = exit_code(result.outcome, require_decision=result.require_decision)
    return Screen(
        decision,
        f"{_gates(result)} · exit code {code}",
        " ".join(filter(None, [protected(result), sections.attacker()])),
        rows[: meter.MOST],
        _left_out(left) if left else "",
        _claims(result),
        list(_warnings(result, decision)),
        utility(result),
        f"{missing[0]} {len(missing) - 1} more stand below.",
        steps(result),
    )


def _left_out(rows: Sequence[Frequency]) -> str:
    most, free = max(rows, key=lambda row: row.value), sum(row.limit is None for row in rows)
    has = "1 has" if free == 1 else f"{free} have"
    return f"{len(rows)} more: the most is {most.counts[0]}; {has} no limit."


def stated(result: AuditResult) -> list[VerdictRecord]:
    """Return the verdicts on claims, the most urgent first."""
    claims = (verdict for verdict in result.verdicts if verdict.claimed is not None)
    return sorted(claims, key=palette.urgency)


def _claims(result: AuditResult) -> Table:
    """Return a row for each claim: what is claimed, what is certified, what would be caught."""
    every = stated(result)
    shown = every[:_CLAIMS]
    # What the words of claims that are not tested mean.
    reasons = dict.fromkeys(verdict.reason for verdict in shown if verdict.reason)
    meanings = (palette.UNTESTED[reason] for reason in reasons)
    notes = [f"{name.capitalize()}: {meaning}." for name, meaning in meanings]
    full = [verdict for verdict in shown if digest.exhausted(verdict, result)]
    if full:
        notes.append("Or more: so many trials show no more.")
    if left := len(every) - len(shown):
        notes.append(f"{left} more are not shown here.")
    return Table(
        "Claims of differential privacy",
        ["model", "claimed ε", "leaks at least", "claim", "a leak of this size would be caught"],
        [_claim(verdict, verdict in full) for verdict in shown],
        {(row, 3) for row, verdict in enumerate(shown) if verdict.verdict == "false"},
        " ".join(notes),
    )


def _claim(verdict: VerdictRecord, full: bool) -> list[str]:
    certified = NONE if verdict.certified is None else rounding.at_least(verdict.certified, 2)
    certified += " or more" * full
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


def _warnings(result: AuditResult, decision: Decision) -> Iterator[str]:
    sections = sections_of(result)
    printed = sections.printed()
    if printed.result not in decision.reason:
        yield f"{printed.about}: {printed.result}"
    yield from (f"For certain: {sentence}" for sentence in findings(result, certain=True))
    if counts := violated(result):
        yield f"Not as assumed: {assumed(counts)}"
    if unenforced := dict.fromkeys(
        assumption for point in result.points if point.claim for assumption in point.claim.assumes
    ):
        yield f"Claims hold only for: {'; '.join(unenforced)}."
    if strongest := sections.strongest():
        yield f"Recovered: {strongest}"


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
    of = {number.model: f"{number.model} " if len(models) > 1 else "" for number in best}
    named = [
        f"{of[number.model]}{rounding.measured(number.estimate.value)}"
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
        which = f": {', '.join(below)}" if len(models) > 1 else ""
        worse = f" Worse than the most popular items{which}." if below else ""
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
    return f"{models} model{'s' if models > 1 else ''}: {listed}; {_gates(result)}."


def _gates(result: AuditResult) -> str:
    """Return what became of the gates, as the end of a sentence."""
    if not result.gates:
        return "no gate is set"
    outcomes = Counter(gate.outcome for gate in result.gates if gate.id not in result.waived)
    if not outcomes:
        return "every gate is waived"
    worst = next(outcome for outcome in _SAID if outcomes[outcome])
    count, total = outcomes[worst], len(result.gates)
    which = "the gate" if total == 1 else f"{count} of {total} gates"
    which = "both gates" if count == total == 2 else which
    return f"{which} {_SAID[worst][count > 1]}"


def findings(result: AuditResult, *, certain: bool = False) -> list[str]:
    """Return what else was noticed about the models, or what leaks for certain, as sentences."""
    several = len(result.models) > 1
    drifting = [pair for pair in result.pairs if pair.drift and not certain]
    noticed = [f"{f'{pair.model}: ' * several}{pair.drift}." for pair in drifting]
    alike: dict[str, list[str]] = {}
    for finding in result.findings:
        if (finding.about == "hide-seen") is not certain:
            continue
        alike.setdefault(f"{finding.text} {finding.remedy}", []).append(finding.model)
    return noticed + [
        f"{', '.join(dict.fromkeys(models))}: {said}" if several else said
        for said, models in alike.items()
    ]
