"""The summary of an audit on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpaudit.record.result import AuditResult, ModelRecord
from dpaudit.reports import columns, digest, palette
from dpaudit.reports.digest import Row
from dpaudit.reports.render import bars
from dpaudit.reports.sections import (
    intervals,
    models,
    next_step,
    screen,
    summary,
    tables,
    verdicts,
    waivers,
)
from dpaudit.reports.sections.base import Sections, sections_of
from dpaudit.reports.sections.screen import Screen
from dpaudit.reports.sections.verdicts import ModelVerdict
from dpaudit.reports.terminal import GAP, say, show_columns, show_table

if TYPE_CHECKING:
    from rich.console import Console

_INDENT = len("PASS") + GAP
_RIGHT = ("ε", "claimed", "noise's ε", "list's ε", "Δf")


def show(result: AuditResult, console: Console, *, details: bool = True) -> None:
    """Print a summary that fits the console: the outcome, what attackers find, then the gates.

    Args:
        result: the record.
        console: where to print; without colour if it has none.
        details: whether to print all numbers of each model, too.
    """
    _show_decision(result, console)
    shown = screen.of(result)
    _show_meter(shown, console, named=len(result.models) > 1)
    console.print()
    say(summary.title(result), console, style="bold")
    say(summary.audited(result), console, style="dim")
    if repairs := summary.repairs(result):
        say(f"Dropped, merged or in doubt: {repairs}.", console)
    if details:
        _show_details(result, console)
    else:
        for verdict in verdicts.of(result):
            say(verdict.model, console, first=verdict.badge)
            for sentence in verdict.judged:
                say(sentence, console, indent=2)
        for sentence in shown.alarming:
            say(sentence, console)
        if shown.claims:
            console.print()
            show_table(shown.claims, console)
            say(shown.claims.note, console, style="dim")
    noticed = summary.findings(result)
    if noticed:
        console.print()
    for sentence in noticed:
        say(f"Also noticed: {sentence}", console)
    if details:
        for note in _notes(sections_of(result)):
            say(note, console, style="dim")
    _show_gates(result, console)


def _show_details(result: AuditResult, console: Console) -> None:
    by_model, sections = digest.rows(result), sections_of(result)
    records = {model.label: model for model in result.models}
    for verdict in verdicts.of(result):
        model = records[verdict.model]
        _show_verdict(verdict, model, by_model[model.label], console)
        show_columns(sections.columns(model), console, right=_RIGHT)
    for table in (*sections.brief(), *tables.others(result)):
        console.print()
        say(table.caption, console)
        show_table(table, console)


def close(result: AuditResult, console: Console) -> None:
    """Print the outcome, so that it is the last thing on the screen, with the next step."""
    word = summary.decision(result).word
    say(next_step.sentence(result), console, first=word, indent=_INDENT)


def _show_meter(shown: Screen, console: Console, *, named: bool) -> None:
    from rich.text import Text

    for line in bars.lines(shown, console.width, named=named):
        console.print(Text(line), no_wrap=True, overflow="ignore", crop=False)
    if shown.rows:
        say(shown.legend(bars.GUESS, bars.LIMIT), console, style="dim")


def _show_decision(result: AuditResult, console: Console) -> None:
    decision = summary.decision(result)
    say(decision.reason, console, first=decision.word, indent=_INDENT)


def _notes(sections: Sections) -> Iterator[str]:
    """Yield what the reader must know of the numbers."""
    yield from sections.remarks()
    result = sections.result
    if not intervals.judged(result):
        return
    yield f"{intervals.together(result)}."
    if any(not game.unit for game in columns.within(result, "games")):
        yield (
            "'finds 1.5×': the same game on the same pair found a copy that leaks 1.5 times what "
            "is claimed. 'no power': it found none."
        )


def _show_verdict(
    verdict: ModelVerdict, model: ModelRecord, sweep: list[Row], console: Console
) -> None:
    console.print()
    variant = (
        f", {model.variant}" if model.variant in ("nonprivate", "published", "corrected") else ""
    )
    name = f"{model.label}: {model.defense}{variant}"
    say(name, console, first=verdict.badge, style="bold")
    say(verdict.text, console, indent=2)
    if any(row.point.claim for row in sweep):
        say(models.claim_words(sweep), console, indent=2, style="dim")


def _show_gates(result: AuditResult, console: Console) -> None:
    console.print()
    for gate in result.gates:
        say(gate.rule, console, first=palette.GATE[gate.outcome], indent=_INDENT)
        say(digest.why(gate, result), console, indent=_INDENT)
    for waiver in result.waivers:
        say(waivers.line(waiver, result), console)
