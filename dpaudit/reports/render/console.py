"""The summary of an audit on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult
from dpaudit.reports import columns, digest, frequency, palette
from dpaudit.reports.sections import footnotes, screen, tables, verdicts
from dpaudit.reports.sections.base import Sections, claim_words, sections_of
from dpaudit.reports.sections.screen import Screen
from dpaudit.reports.sections.steps import steps
from dpaudit.reports.terminal import GAP, say, show_columns, show_table

_INDENT = len("PASS") + GAP
_RIGHT = ("ε", "claimed", "noise's ε", "list's ε", "Δf")
# Of the meter.
FULL, EMPTY, GUESS, LIMIT = "█", "·", "┊", "┃"
# The shortest and the longest bar.
_BAR = (10, 40)
_SPACE = " " * GAP


def show(result: AuditResult, console: Console, *, details: bool = True) -> None:
    """Print a summary that fits the console: the outcome, what attackers find, then the gates.

    Args:
        result: the record.
        console: where to print; without colour if it has none.
        details: whether to print all numbers of each model, too.
    """
    shown = screen.of(result)
    say(shown.decision.reason, console, first=shown.decision.word, indent=_INDENT)
    for line in meter_lines(shown, console.width, named=len(result.models) > 1):
        console.print(Text(line), no_wrap=True, overflow="ignore", crop=False)
    if shown.rows:
        limited = any(row.limit is not None for row in shown.rows)
        marks = f"{GUESS} is a guess{f', {LIMIT} the limit' if limited else ''}"
        say(f"{shown.legend} {marks}.", console, style="dim")
    for sentence in shown.warnings:
        say(sentence, console)
    console.print()
    say(screen.title(result), console, style="bold")
    say(screen.audited(result), console, style="dim")
    if repairs := screen.repairs(result):
        say(f"Dropped, merged or in doubt: {repairs}.", console)
    if details:
        _show_details(result, console)
    else:
        _show_brief(result, shown, console)
    noticed = screen.findings(result)
    if noticed:
        console.print()
    for sentence in noticed:
        say(f"Also noticed: {sentence}", console)
    if details:
        for note in _notes(sections_of(result)):
            say(note, console, style="dim")
    console.print()
    for gate in result.gates:
        say(gate.rule, console, first=palette.GATE[gate.outcome], indent=_INDENT)
        say(digest.why(gate, result), console, indent=_INDENT)
    for waiver in result.waivers:
        say(verdicts.waiver_line(waiver, result), console)


def _show_brief(result: AuditResult, shown: Screen, console: Console) -> None:
    for verdict in verdicts.of(result):
        say(verdict.model, console, first=verdict.badge)
        for sentence in verdict.judged:
            say(sentence, console, indent=2)
    if shown.claims:
        console.print()
        show_table(shown.claims, console)
        say(shown.claims.note, console, style="dim")


def _show_details(result: AuditResult, console: Console) -> None:
    by_model, sections = digest.rows(result), sections_of(result)
    records = {model.label: model for model in result.models}
    for verdict in verdicts.of(result):
        model = records[verdict.model]
        console.print()
        differs = model.variant in ("nonprivate", "published", "corrected")
        name = f"{model.label}: {model.defense}{f', {model.variant}' if differs else ''}"
        say(name, console, first=verdict.badge, style="bold")
        say(verdict.text, console, indent=2)
        sweep = by_model[model.label]
        if any(row.point.claim for row in sweep):
            say(claim_words(sweep), console, indent=2, style="dim")
        show_columns(sections.columns(model), console, right=_RIGHT)
    for table in (*sections.brief(), *tables.others(result)):
        console.print()
        say(table.caption, console)
        show_table(table, console)


def close(result: AuditResult, console: Console, folder: str | None = None) -> None:
    """Print the outcome, so that it is near the end of the screen, and the next steps.

    Args:
        result: the record.
        console: where to print.
        folder: where the record is kept.
    """
    say("What next:", console, first=palette.run(result), indent=_INDENT)
    for place, step in enumerate(steps(result, folder), 1):
        say(f"{place}. {step.name} {step.text}", console, indent=_INDENT)
        if step.command:  # on one line, so that it can be copied
            console.print(Text(f"{' ' * _INDENT}   {step.command}"), soft_wrap=True)


def bar(row: frequency.Frequency, scale: float, width: int) -> str:
    """Return a bar in which a guess and the limit are marked.

    Args:
        row: what is found.
        scale: the share at the right end.
        width: the number of characters.
    """
    cells = [FULL if (cell + 0.5) / width <= row.value / scale else EMPTY for cell in range(width)]
    marks = [(row.guess, GUESS), *([] if row.limit is None else [(row.limit, LIMIT)])]
    for share, mark in marks:
        cells[min(width - 1, int(share / scale * width))] = mark
    return "".join(cells)


def meter_lines(screen: Screen, width: int, *, named: bool) -> list[str]:
    """Return the meter, at most `width` characters wide: of each row its name, then its bar.

    Where there is no room for bars, rows are sentences.

    Args:
        screen: the first screen.
        width: of the terminal.
        named: whether rows name the model.
    """
    if not screen.rows:
        return []
    cells = [("found", "", "limit")]
    cells += [(row.counts[0], row.between, row.counts[2]) for row in screen.rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    length = min(_BAR[1], width - sum(widths) - len(widths) * GAP)
    if length < _BAR[0]:
        return [line for text in screen.sentences for line in textwrap.wrap(plain(text), width)]
    numbers = [
        _SPACE.join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    lines = [f"0{screen.end:>{length - 1}}{_SPACE}{numbers[0]}"]
    for row, text in zip(screen.rows, numbers[1:], strict=True):
        model = f"{row.measurement.model}: " if named else ""
        lines += textwrap.wrap(plain(f"{model}{row.attacker}"), width)
        lines.append(f"{bar(row, screen.scale, length)}{_SPACE}{text}")
    return lines


def _notes(sections: Sections) -> Iterator[str]:
    """Yield what the reader must know of the numbers."""
    yield from sections.remarks()
    result = sections.result
    if not footnotes.has_joint_intervals(result):
        return
    yield f"{footnotes.joint_confidence(result)}."
    if any(not game.unit for game in columns.within(result, "games")):
        yield (
            "'finds 1.5×': the same game on the same pair found a copy that leaks 1.5 times what "
            "is claimed. 'no power': it found none."
        )
