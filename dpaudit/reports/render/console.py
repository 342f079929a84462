"""The summary of an audit on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult, ModelRecord
from dpaudit.reports import digest, words
from dpaudit.reports.digest import Row
from dpaudit.reports.sections import intervals, membership, recovery, sybil, tables, transcripts
from dpaudit.reports.table import NONE
from dpaudit.reports.table import Table as Shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_STYLES = {"pass": "green", "fail": "bold red", "inconclusive": "yellow", "not judged": "dim"}
_BROKEN = "bold red"
_DIGITS = 2
_GAP = 2
_HEADER = 12


def show(result: AuditResult, console: Console) -> None:
    """Print a summary that fits the console.

    Args:
        result: the record.
        console: where to print; without colour if it has none.
    """
    from rich.text import Text

    word = digest.outcome(result)
    console.print(Text.assemble((word.upper(), _STYLES[word]), "  ", digest.headline(result)))
    for finding in digest.findings(result):
        console.print(Text(plain(finding.text), style=_BROKEN if finding.broken else ""))
    by_model = digest.rows(result)
    for model in result.models:
        if membership.audited(result):
            _show_members(model, result, console)
        else:
            _show_model(model, by_model[model.label], console)
    more = [
        *membership.utility(result),
        *recovery.tables(result),
        *transcripts.tables(result)[:1],
    ]
    for table in (sybil.table(result), *more):
        if table:
            _show_table(table, console)
    _show_gates(result, console)
    if any(found.metric.startswith("transcript.") for found in result.measurements):
        said = "The interval of each area holds by itself, and is about users like these."
        console.print(Text(said, style="dim"))
    if not intervals.judged(result):
        return
    console.print(
        Text(
            f"{intervals.together(result.family)}. A lower bound on ε is not a proof of privacy. "
            "'finds 1.5×': the same game on the same pair broke the claim on a mutant with the "
            "noise of 1.5 times the claimed ε, or with a planted violation of that size. "
            "'no power': it broke the claim on no mutant.",
            style="dim",
        )
    )


def _show_model(model: ModelRecord, here: list[Row], console: Console) -> None:
    from rich.text import Text

    console.print()
    console.print(
        Text.assemble(
            (plain(model.label), "bold"),
            plain(f"  {model.defense}, {model.variant}. {tables.claim_words(here)}"),
        )
    )
    columns, hidden = _fitting(list(_columns(model, here)), console.width)
    console.print(_table(columns, here))
    if hidden:
        names = ", ".join(plain(name) for name in hidden)
        console.print(Text(f"too wide for this terminal: {names}", style="dim"))


def _show_members(model: ModelRecord, result: AuditResult, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    columns, hidden = _fitting(membership.columns(result, model.label), console.width)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for name, _ in columns:
        table.add_column(Text(plain(name)), vertical="bottom", overflow="fold")
    for cells in zip(*(cells for _, cells in columns), strict=True):
        broken = any(cell.endswith(membership.BROKEN) for cell in cells)
        table.add_row(*(Text(plain(cell), style=_BROKEN if broken else "") for cell in cells))
    console.print()
    console.print(Text.assemble((plain(model.label), "bold"), plain(f"  {model.title}")))
    console.print(table)
    if hidden:
        names = ", ".join(plain(name) for name in hidden)
        console.print(Text(f"too wide for this terminal: {names}", style="dim"))


def _show_table(found: Shown, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    title = Text(plain(found.caption))
    shown = Table(box=None, padding=(0, _GAP, 0, 0), title=title, title_justify="left")
    for name in found.header:
        shown.add_column(Text(plain(name)), overflow="fold")
    for cells in found.cells:
        shown.add_row(*(Text(plain(cell)) for cell in cells))
    console.print()
    console.print(shown)


def _columns(model: ModelRecord, here: list[Row]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and cells of each column, the most important first."""
    points = [row.point for row in here]
    yield "ε", [words.epsilon(point.epsilon) for point in points]
    if any(point.claim and point.claim.epsilon != point.epsilon for point in points):
        yield "claimed", [words.epsilon(p.claim.epsilon) if p.claim else "none" for p in points]
    if any(row.games for row in here):
        yield "certified ε", [_certified(row) for row in here]
    for label in here[0].accuracy if here else ():
        yield (
            f"accuracy: {label}",
            [words.interval(row.accuracy[label], _DIGITS) for row in here],
        )
    if any(row.overlap for row in here):
        yield (
            f"overlap@{model.top_k}",
            [words.interval(row.overlap, _DIGITS) if row.overlap else NONE for row in here],
        )
    for name in ("precision", "recall"):
        if any(name in row.hits for row in here):
            yield name, [words.interval(row.hits[name], _DIGITS) for row in here]
    known = [game for row in here for game in row.games.values() if game.theory]
    if known:
        noised = any(digest.noised(game) for game in known)
        yield "noise's ε" if noised else "list's ε", [_theory(row) for row in here]
    if any(row.rmse for row in here):
        yield (
            "rmse",
            [words.interval(row.rmse, _DIGITS) if row.rmse else NONE for row in here],
        )
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
    return f"≥ {words.at_least(largest, _DIGITS)}{remark}"


def _theory(row: Row) -> str:
    """Return the largest ε by the law over the pairs."""
    known = [game.theory.upper for game in row.games.values() if game.theory]
    if not known:
        return NONE
    return "∞" if max(known) == math.inf else f"{max(known):.4g}"


def _fitting(
    columns: list[tuple[str, list[str]]], width: int
) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """Return the columns that fit side by side, and the names of the others."""
    shown: list[tuple[str, list[str]]] = []
    hidden: list[str] = []
    left = width + _GAP
    for name, cells in columns:
        need = max(min(len(name), _HEADER), *(len(cell) for cell in cells)) + _GAP
        if need <= left:
            shown.append((name, cells))
            left -= need
        else:
            hidden.append(name)
    return shown, hidden


def _table(columns: list[tuple[str, list[str]]], here: list[Row]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for name, _ in columns:
        right = name in ("ε", "claimed", "noise's ε", "list's ε", "Δf")
        table.add_column(
            Text(plain(name)),
            justify="right" if right else "left",
            vertical="bottom",
            overflow="fold",
        )
    for index, row in enumerate(here):
        table.add_row(
            *(
                Text(
                    plain(cells[index]),
                    style=_BROKEN if name == "certified ε" and row.exceeding else "",
                )
                for name, cells in columns
            )
        )
    return table


def _show_gates(result: AuditResult, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    console.print()
    if not result.gates:
        return
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for gate in result.gates:
        said = f"{gate.rule}\n  {gate.reason}"
        table.add_row(
            Text(gate.outcome.upper(), style=_STYLES[gate.outcome]),
            Text("\n".join(plain(line) for line in said.split("\n"))),
        )
    console.print(table)
    console.print()
