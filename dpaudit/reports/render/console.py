"""The summary of an audit on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult
from dpaudit.reports import columns, digest, frequency, palette
from dpaudit.reports.sections import footnotes, outcome, screen, tables, verdicts
from dpaudit.reports.sections.base import Sections, claim_words, sections_of
from dpaudit.reports.sections.screen import Screen
from dpaudit.reports.terminal import GAP, say, show_columns, show_table

_INDENT = len("PASS") + GAP
_RIGHT = ("ε", "claimed", "noise's ε", "list's ε", "Δf")
# Of the meter.
FULL, EMPTY, GUESS, LIMIT = "█", "·", "┊", "┃"
# The shortest and the longest bar.
_BAR = (10, 40)
_SPACE = " " * GAP
# No name is cut to less.
_NAME = 12


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
        say(shown.legend(GUESS, LIMIT), console, style="dim")
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
    for sentence in shown.alarming:
        say(sentence, console)
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


def close(result: AuditResult, console: Console) -> None:
    """Print the outcome, so that it is the last thing on the screen, with the next step."""
    word = outcome.decision_of(result).word
    say(outcome.next_step(result), console, first=word, indent=_INDENT)


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
    """Return the meter, at most `width` characters wide.

    Where there is no room for bars, rows are sentences.

    Args:
        screen: the first screen.
        width: of the terminal.
        named: whether rows name the model.
    """
    if not screen.rows:
        return []
    header = [*(["model"] if named else []), "attacker"]
    names = [[*([row.measurement.model] if named else []), row.attacker] for row in screen.rows]
    right = _aligned([("found", "a guess", "limit"), *(row.counts for row in screen.rows)])
    most = width - len(right[0]) - _BAR[0] - 2 * GAP
    if most < len(header) * (_NAME + GAP):
        return [line for text in screen.sentences for line in textwrap.wrap(plain(text), width)]
    left = _aligned(_cut([[*map(plain, name)] for name in (header, *names)], most))
    length = max(_BAR[0], min(_BAR[1], width - len(left[0]) - len(right[0]) - 2 * GAP))
    ends = f"0{screen.end:>{length - 1}}"
    bars = [
        ends if " " in ends.removesuffix(screen.end) else f"{screen.end:>{length}}",
        *(bar(row, screen.scale, length) for row in screen.rows),
    ]
    return [_SPACE.join(parts).rstrip() for parts in zip(left, bars, right, strict=True)]


def _cut(rows: Sequence[Sequence[str]], most: int) -> Sequence[Sequence[str]]:
    """Return rows of names whose longest column is cut so that all columns fit."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    longest = widths.index(max(widths))
    room = max(_NAME, widths[longest] - max(0, sum(widths) + GAP * (len(widths) - 1) - most))
    names = [row[longest] for row in rows]
    heads = [name if len(name) <= room else f"{name[: room - 1]}…" for name in names]
    tails = [name if len(name) <= room else f"…{name[1 - room :]}" for name in names]
    # Names that begin alike are told apart by their ends.
    short = max(heads, tails, key=lambda cut: len(set(cut)))
    return [
        [*row[:longest], cell, *row[longest + 1 :]] for row, cell in zip(rows, short, strict=True)
    ]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as text with columns of one width each."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        _SPACE.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]


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
