"""A run compared with its baseline, on a terminal and as GitHub Markdown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from dpaudit.core import messages, rounding
from dpaudit.core.estimate import Estimate
from dpaudit.record.comparison import ClaimChange, Comparison, NumberChange
from dpaudit.record.metrics import entry
from dpaudit.record.result import VerdictRecord
from dpaudit.reports import palette, terminal, words
from dpaudit.reports.render import markdown
from dpaudit.reports.table import NONE, Table

# How many differences of settings a terminal shows, unless everything is asked for.
_SHOWN = 8
_DIFFERENCES = "What else differs between the runs, and may explain a change"
_CAPTIONS = {
    "worse": "Certified to be worse",
    "better": "Certified to be better",
    "not comparable": "Not comparable: beside each other, as the numbers are not about the same",
    "cannot tell": "Cannot tell",
}


def show(compared: Comparison, console: Console, *, everything: bool) -> None:
    """Print a comparison.

    Args:
        compared: the comparison.
        console: where to print.
        everything: whether to print also what is the same and what cannot be told.
    """
    for table in tables(compared, everything=everything):
        _show_table(table, console)
    if compared.differences:
        _show_differences(compared, console, None if everything else _SHOWN)
    for sentence in sentences(compared):
        console.print(messages.plain(sentence), markup=False, highlight=False)


def render(compared: Comparison) -> str:
    """Render a comparison as GitHub Markdown, with all that was compared if anything changed."""
    shown = [] if compared.same else tables(compared, everything=True)
    if compared.differences:
        cells = [[change.key, change.before, change.after] for change in compared.differences]
        shown.append(Table(_DIFFERENCES, ["key", "baseline", "run"], cells))
    parts = [
        "# Comparison with the baseline",
        *map(markdown.escape, sentences(compared)),
        *map(markdown.captioned, shown),
    ]
    return "\n\n".join(parts) + "\n"


def _show_differences(compared: Comparison, console: Console, most: int | None) -> None:
    console.print(Text(_DIFFERENCES, style="bold"))
    lines = [
        f"{difference.key}: {difference.before} → {difference.after}"
        for difference in compared.differences[:most]
    ]
    if more := len(compared.differences) - len(lines):
        lines.append(f"and {more} more: 'dpaudit diff --all' shows them")
    for line in lines:
        console.print(Padding.indent(Text(messages.plain(line)), terminal.GAP))
    console.print()


def _show_table(table: Table, console: Console) -> None:
    cells = [[messages.plain(cell) for cell in row] for row in table.cells]
    console.print(Text(table.caption, style="bold"))
    header, lines = _laid_out(table.header, cells, console.width)
    if header:
        console.print(Text(header, style="dim"))
    for row, line in enumerate(lines):
        marked = any((row, at) in table.marked for at in range(len(table.header)))
        console.print(Text(line, style=palette.MARKED if marked else ""))
    console.print()


def _laid_out(header: list[str], cells: list[list[str]], width: int) -> tuple[str, list[str]]:
    """Return the header and the rows of a table as text.

    If a row is too wide, its first cell stands above the others, and they stand side by side or, if
    they are too wide too, below each other.
    """
    widths = [max(map(cell_len, column)) for column in zip(header, *cells, strict=True)]

    def beside(row: list[str], first: int) -> str:
        padded = (set_cell_size(*cell) for cell in zip(row[first:], widths[first:], strict=True))
        return (" " * terminal.GAP).join(padded).rstrip()

    if sum(widths) + terminal.GAP * (len(widths) - 1) <= width:
        return beside(header, 0), [beside(row, 0) for row in cells]
    start = " " * terminal.GAP
    if sum(widths[1:]) + terminal.GAP * (len(widths) - 1) <= width:
        return start + beside(header, 1), [f"{row[0]}\n{start}{beside(row, 1)}" for row in cells]
    name = max(map(cell_len, header))
    labels = [f"{start}{set_cell_size(label, name)}{start}" for label in header[1:]]
    return "", ["\n".join([row[0], *map(str.__add__, labels, row[1:])]) for row in cells]


def tables(compared: Comparison, *, everything: bool) -> list[Table]:
    """Return the tables: verdicts first, then what got worse, then what got better.

    Args:
        compared: the comparison.
        everything: whether to show also what is the same and what cannot be told.
    """
    candidates = [
        claims([change for change in compared.claims if everything or change.move != "same"]),
        Table(
            "Gates whose outcome changed",
            ["gate", "baseline", "run"],
            [[gate.id, gate.before, gate.after] for gate in compared.gates],
        ),
    ]
    for judgement, caption in _CAPTIONS.items():
        if everything or judgement != "cannot tell":
            here = [change for change in compared.numbers if change.judgement == judgement]
            candidates.append(_numbers(caption, here))
    return [*filter(None, candidates)]


def claims(changes: Sequence[ClaimChange]) -> Table:
    """Return the table of verdicts on claims; those that are newly false are marked."""
    order = ("newly false", "no longer tested", "not comparable", "changed", "same")
    rows = sorted(changes, key=lambda change: order.index(change.move))
    return Table(
        "Verdicts on claims",
        ["claim", "baseline", "run", "change"],
        [
            [
                change.id,
                _verdict(change.before),
                _verdict(change.after),
                ", ".join([change.move, *["waived"] * change.waived])
                + (f": {change.reason}" if change.reason else ""),
            ]
            for change in rows
        ],
        {
            (row, 3)
            for row, change in enumerate(rows)
            if change.move == "newly false" and not change.waived
        },
    )


def sentences(compared: Comparison) -> Iterator[str]:
    """Yield what the comparison shows in all, and what it does not show."""
    if compared.same:
        yield "No change: all numbers, verdicts and gates are those of the baseline."
        return
    yield compared.reason
    sure = words.percent(compared.confidence)
    yield f"All comparisons hold together with {sure} confidence (union bound over both runs)."
    unlike, unsure = (
        [change for change in compared.numbers if change.judgement == judgement]
        for judgement in ("not comparable", "cannot tell")
    )
    for lead, changes in (("Not comparable:", unlike), ("Cannot tell for", unsure)):
        reasons = Counter(change.reason or "the intervals overlap" for change in changes)
        said = "; ".join(f"{count}: {reason}" for reason, count in reasons.items())
        if said:
            yield f"{lead} {len(changes)} of {len(compared.numbers)} numbers ({said})."
    listed = "; ".join(
        f"{change.metric} of {change.place}: {rounding.measured(change.before.value)} → "
        f"{rounding.measured(change.after.value)}"
        for change in unsure
        if _leans(change)
    )
    if listed:
        yield f"Worse than all of the baseline's interval, though not certified: {listed}."
    if compared.uncompared:
        listed = ", ".join(f"{count} of {name}" for name, count in compared.uncompared.items())
        yield f"Not compared, as these numbers may not gate: {listed}."
    for name, parts in (("Missing", compared.missing), ("New", compared.added)):
        if parts:
            yield f"{name} in the run: {'; '.join(parts)}."


def _leans(change: NumberChange) -> bool:
    """Return whether a number is outside the interval of the baseline, on the worse side."""
    metric = entry(change.metric)
    if metric.bases or metric.derived:  # what is larger depends on more than the metric
        return False
    if metric.larger == "worse":
        return change.after.value > change.before.upper
    return change.after.value < change.before.lower


def _numbers(caption: str, changes: Sequence[NumberChange]) -> Table:
    cells = [
        [f"{one.metric} of {one.place}", _estimate(one.before), _estimate(one.after), _change(one)]
        for one in changes
    ]
    worse = {(row, 3) for row, one in enumerate(changes) if one.judgement == "worse"}
    return Table(caption, ["number", "baseline", "run", "change"], cells, worse)


def _verdict(verdict: VerdictRecord) -> str:
    """Return a verdict with its numbers, e.g. `false (ε ≥ 2.71, claimed 1)`."""
    parts = []
    if verdict.certified is not None:
        parts.append(f"ε ≥ {rounding.at_least(verdict.certified, 2)}")
    if verdict.claimed is not None:
        parts.append(f"claimed {words.epsilon(verdict.claimed)}")
    if verdict.factor is not None:
        parts.append(f"finds {verdict.factor:.3g}×")
    if verdict.reason is not None:
        parts.append(verdict.reason)
    return f"{verdict.verdict} ({', '.join(parts)})" if parts else verdict.verdict


def _estimate(estimate: Estimate) -> str:
    """Return an interval; of a lower bound only that."""
    if estimate.upper == math.inf:
        return f"≥ {rounding.at_least(estimate.lower)}"
    return words.interval(estimate)


def _change(change: NumberChange) -> str:
    """Return the interval of a change, rounded outwards."""
    if -math.inf == change.lower and change.upper == math.inf:
        return NONE
    low, high = rounding.at_least(change.lower), rounding.at_most(change.upper)
    return f"[{low.replace('-', '−')}, {high.replace('-', '−')}]"
