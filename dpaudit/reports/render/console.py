"""The summary of an audit on a terminal."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dpaudit.core import rounding
from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult, ModelRecord
from dpaudit.reports import columns, digest, words
from dpaudit.reports.digest import Row
from dpaudit.reports.sections import (
    intervals,
    membership,
    recovery,
    summary,
    sybil,
    tables,
    transcripts,
    verdicts,
    waivers,
)
from dpaudit.reports.sections.verdicts import ModelVerdict
from dpaudit.reports.table import NONE
from dpaudit.reports.table import Table as Shown

if TYPE_CHECKING:
    from rich.console import Console

Column = tuple[str, list[str]]

_STYLES = {
    "pass": "green",
    "fail": "bold red",
    "inconclusive": "yellow",
    "broken": "bold red",
    "not tested": "yellow",
    "not broken": "cyan",
}
_BROKEN = "bold red"
_DIGITS = 2
_GAP = 2
_INDENT = len("PASS") + _GAP
_HEADER = 12
_RIGHT = ("ε", "claimed", "noise's ε", "list's ε", "Δf")
# Spaces at which no line may end: inside an interval, and between a number and its sign.
_INSIDE = re.compile(r"\[[^\[\]]{1,40}\]|[εδ] [=≥≤] (?=\S)|(?<=\d) %|[<>]?[=≥≤] (?=[-\d∞])")
_FIXED = "\N{NO-BREAK SPACE}"


def show(result: AuditResult, console: Console) -> None:
    """Print a summary that fits the console: model by model, then the gates and the outcome.

    Args:
        result: the record.
        console: where to print; without colour if it has none.
    """
    from rich.text import Text

    _say(summary.title(result), console, style="bold")
    _say(summary.audited(result), console, style="dim")
    by_model = digest.rows(result)
    records = {model.label: model for model in result.models}
    for found in verdicts.of(result):
        model = records[found.model]
        _show_verdict(found, model, by_model[model.label], console)
        if membership.audited(result):
            shown = membership.columns_of(result, model.label)
        else:
            shown = list(_columns(model, by_model[model.label]))
        _show_columns(shown, console)
    more = [
        *membership.utility(result),
        *recovery.tables(result),
        *transcripts.tables(result)[:1],
        *tables.added(result),
    ]
    for table in (sybil.table(result), *more):
        if table:
            console.print()
            _say(table.caption, console)
            _show_columns(_columns_of(table), console)
    console.print()
    for sentence in summary.findings(result):
        _say(f"Also noticed: {sentence}", console)
    for note in _notes(result):
        _say(note, console, style="dim")
    _show_gates(result, console)
    outcome = Text(result.outcome.upper(), style=_STYLES[summary.status(result)])
    _say(summary.decision(result), console, first=outcome, indent=_INDENT)


def _notes(result: AuditResult) -> Iterator[str]:
    """Yield what the reader must know of the numbers."""
    if columns.within(result, "transcripts"):
        yield "The interval of each area holds by itself, and is about users like these."
    if not intervals.judged(result):
        return
    yield f"{intervals.together(result.family)}."
    if any(not found.unit for found in columns.within(result, "games")):
        yield (
            "'finds 1.5×': the same game on the same pair found a copy that leaks 1.5 times what "
            "is claimed. 'no power': it found none."
        )


def _show_verdict(
    found: ModelVerdict, model: ModelRecord, here: list[Row], console: Console
) -> None:
    from rich.text import Text

    console.print()
    word = Text(found.verdict.upper(), style=_STYLES[found.verdict])
    variant = (
        f", {model.variant}" if model.variant in ("nonprivate", "published", "corrected") else ""
    )
    name = f"{model.label}: {model.defense}{variant}"
    _say(name, console, first=word, style="bold")
    _say(found.text, console, indent=2)
    if any(row.point.claim for row in here):
        _say(tables.claim_words(here), console, indent=2, style="dim")


def _say(
    text: str, console: Console, *, first: object = None, indent: int = 0, style: str = ""
) -> None:
    """Print a sentence; no line ends inside a number, an interval or its unit."""
    from rich.text import Text

    head = first if isinstance(first, Text) else Text("")
    held = _INSIDE.sub(lambda found: found[0].replace(" ", _FIXED), plain(text))
    start = len(head) + _GAP if len(head) else indent
    lines = textwrap.wrap(
        held,
        max(console.width - indent, 1),
        initial_indent=" " * (start - indent),
        break_on_hyphens=False,
    )
    for number, line in enumerate(lines or [""]):
        said = Text(line.replace(_FIXED, " "), style=style)
        if not number and len(head):
            said = Text.assemble(head, " " * _GAP, Text(said.plain.lstrip(), style=style))
        else:
            said.pad_left(indent)
        console.print(said, no_wrap=True, overflow="ignore", crop=False)


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
    return _BROKEN if cell.endswith(membership.BROKEN) else ""


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


def _columns(model: ModelRecord, here: list[Row]) -> Iterator[Column]:
    """Yield the name and cells of each column, the most important first."""
    points = [row.point for row in here]
    yield "ε", [words.epsilon(point.epsilon) for point in points]
    if any(point.claim and point.claim.epsilon != point.epsilon for point in points):
        yield "claimed", [words.epsilon(p.claim.epsilon) if p.claim else "none" for p in points]
    if any(row.games for row in here):
        yield "certified ε", [_certified(row) for row in here]
    found = columns.columns(tables.swept(here), model.top_k, digits=_DIGITS, brief=True)
    errors = []
    for metric, name, cells in found:
        if metric.unit == "rating":
            errors.append((name, cells))
        else:
            yield name, cells
    known = [game for row in here for game in row.games.values() if game.theory]
    if known:
        noised = any(digest.noised(game) for game in known)
        yield "noise's ε" if noised else "list's ε", [_theory(row) for row in here]
    yield from errors
    if any(point.sensitivity is not None for point in points):
        yield "Δf", [words.number(point.sensitivity) for point in points]


def _certified(row: Row) -> str:
    """Return the largest lower bound over the pairs, which hold together, with a remark.

    If no bound breaks the claim, the remark is the least mutant that was found on any pair.
    """
    if not row.games:
        return NONE
    largest = max(found.estimate.lower for found in row.games.values())
    controls = [game.control for game in row.games.values() if game.control]
    least = min((each.factor for each in controls if each.found), default=None)
    remark = ""
    if row.exceeding:
        remark = " > claim"
    elif row.point.claim:
        remark = " (no power)" if least is None else f" (finds {least:.3g}×)"
    return f"≥ {rounding.at_least(largest, _DIGITS)}{remark}"


def _theory(row: Row) -> str:
    """Return the largest ε by the law over the pairs."""
    known = [game.theory.upper for game in row.games.values() if game.theory]
    if not known:
        return NONE
    return "∞" if max(known) == math.inf else f"{max(known):.4g}"


def _show_gates(result: AuditResult, console: Console) -> None:
    from rich.text import Text

    console.print()
    for gate in result.gates:
        word = Text(gate.outcome.upper(), style=_STYLES[gate.outcome])
        _say(gate.rule, console, first=word, indent=_INDENT)
        _say(gate.reason, console, indent=_INDENT)
    for waiver in result.waivers:
        _say(waivers.line(waiver, result), console)
