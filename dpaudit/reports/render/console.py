"""The summary of an audit on a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult, ModelRecord
from dpaudit.reports import columns, digest, palette
from dpaudit.reports.digest import ABOVE, Row
from dpaudit.reports.palette import Word
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
from dpaudit.reports.table import Column
from dpaudit.reports.table import Table as Shown

if TYPE_CHECKING:
    from rich.console import Console

_GAP = 2
_INDENT = len("PASS") + _GAP
_HEADER = 12
_RIGHT = ("ε", "claimed", "noise's ε", "list's ε", "Δf")
# Spaces at which no line may end: inside an interval, and between a number and its sign.
_INSIDE = re.compile(r"\[[^\[\]]{1,40}\]|[εδ] [=≥≤] (?=\S)|(?<=\d) %|[<>]?[=≥≤] (?=[-\d∞])")
_FIXED = "\N{NO-BREAK SPACE}"


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
    _say(summary.title(result), console, style="bold")
    _say(summary.audited(result), console, style="dim")
    if details:
        _show_details(result, console)
    else:
        for verdict in verdicts.of(result):
            _say(verdict.model, console, first=verdict.badge)
        if shown.claims:
            console.print()
            _show_columns(_columns_of(shown.claims), console)
            _say(shown.claims.note, console, style="dim")
    noticed = summary.findings(result)
    if noticed:
        console.print()
    for sentence in noticed:
        _say(f"Also noticed: {sentence}", console)
    if details:
        for note in _notes(sections_of(result)):
            _say(note, console, style="dim")
    _show_gates(result, console)


def _show_details(result: AuditResult, console: Console) -> None:
    by_model, sections = digest.rows(result), sections_of(result)
    records = {model.label: model for model in result.models}
    for verdict in verdicts.of(result):
        model = records[verdict.model]
        _show_verdict(verdict, model, by_model[model.label], console)
        _show_columns(sections.columns(model), console)
    for table in (*sections.brief(), *tables.others(result)):
        console.print()
        _say(table.caption, console)
        _show_columns(_columns_of(table), console)


def close(result: AuditResult, console: Console) -> None:
    """Print the outcome, so that it is the last thing on the screen, with the next step."""
    word = summary.decision(result).word
    _say(next_step.sentence(result), console, first=word, indent=_INDENT)


def _show_meter(shown: Screen, console: Console, *, named: bool) -> None:
    from rich.text import Text

    for line in bars.lines(shown, console.width, named=named):
        console.print(Text(line), no_wrap=True, overflow="ignore", crop=False)
    if shown.rows:
        _say(shown.legend(bars.GUESS, bars.LIMIT), console, style="dim")


def _show_decision(result: AuditResult, console: Console) -> None:
    decision = summary.decision(result)
    _say(decision.reason, console, first=decision.word, indent=_INDENT)


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
    _say(name, console, first=verdict.badge, style="bold")
    _say(verdict.text, console, indent=2)
    if any(row.point.claim for row in sweep):
        _say(models.claim_words(sweep), console, indent=2, style="dim")


def _say(
    text: str, console: Console, *, first: Word | None = None, indent: int = 0, style: str = ""
) -> None:
    """Print a sentence; no line ends inside a number, an interval or its unit."""
    from rich.text import Text

    head = Text(first.shown, style=first.style) if first else Text("")
    held = _INSIDE.sub(lambda match: match[0].replace(" ", _FIXED), plain(text))
    start = len(head) + _GAP if len(head) else indent
    lines = textwrap.wrap(
        held,
        max(console.width - indent, 1),
        initial_indent=" " * (start - indent),
        break_on_hyphens=False,
    )
    for number, line in enumerate(lines or [""]):
        shown = Text(line.replace(_FIXED, " "), style=style)
        if not number and len(head):
            shown = Text.assemble(head, " " * _GAP, Text(shown.plain.lstrip(), style=style))
        else:
            shown.pad_left(indent)
        console.print(shown, no_wrap=True, overflow="ignore", crop=False)


def _show_columns(shown: Sequence[Column], console: Console) -> None:
    """Print a table; columns that do not fit side by side go below, after the first again."""
    from rich.table import Table
    from rich.text import Text

    if not any(cells for _, cells in shown):
        return
    # Long names of columns take several lines, unless all fits on one.
    full = sum(_width(name, cells, len(name)) + _GAP for name, cells in shown)
    header = max((len(name) for name, _ in shown), default=0)
    header = header if full - _GAP <= console.width else _HEADER
    for block in _blocks(shown, console.width, header):
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
        for name, cells in block:
            table.add_column(
                Text(plain(name)),
                justify="right" if name in _RIGHT else "left",
                vertical="bottom",
                width=min(_width(name, cells, header), console.width),
                overflow="fold",
            )
        for row in zip(*(cells for _, cells in block), strict=True):
            table.add_row(*(Text(plain(cell), style=_style(cell)) for cell in row))
        console.print(table)


def _style(cell: str) -> str:
    return palette.MARKED if cell.endswith(ABOVE) else ""


def _blocks(columns: Sequence[Column], width: int, header: int) -> Iterator[list[Column]]:
    """Yield the columns that fit side by side; each block begins with the first column."""
    if not columns:
        return
    key, *rest = columns
    start = _width(*key, header) + _GAP
    block, left = [key], width - start
    for column in rest:
        need = _width(*column, header) + _GAP
        # The last gap may be cut.
        if need - _GAP > left and len(block) > 1:
            yield block
            block, left = [key], width - start
        block.append(column)
        left -= need
    yield block


def _width(name: str, cells: Sequence[str], header: int) -> int:
    """Return the width of a column: no cell is split, and no word of a name above `header`."""
    longest = max((len(word) for word in plain(name).split()), default=0)
    return max(longest, min(len(name), header), *(len(plain(cell)) for cell in cells))


def _columns_of(table: Shown) -> list[Column]:
    return [(name, [row[at] for row in table.cells]) for at, name in enumerate(table.header)]


def _show_gates(result: AuditResult, console: Console) -> None:
    console.print()
    for gate in result.gates:
        _say(gate.rule, console, first=palette.GATE[gate.outcome], indent=_INDENT)
        _say(digest.why(gate, result), console, indent=_INDENT)
    for waiver in result.waivers:
        _say(waivers.line(waiver, result), console)
