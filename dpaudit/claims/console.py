"""The catalogue and a verification on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpaudit.claims import catalogue, report
from dpaudit.claims.record import Check, PublishedClaim, Verification, verdict_text
from dpaudit.core.messages import plain
from dpaudit.reports import palette
from dpaudit.reports.terminal import say

# Columns that are left out on a narrow terminal.
_DISPENSABLE = ("finds", "trials", "seconds")
_WIDE = 110
# The verdicts in the order of their columns, with the headers.
_UNTESTED = "not tested"
_COLUMNS = {
    "falsified as stated": "falsified\nas stated",
    "falsified on a reading": "falsified\non a reading",
    "holds": "holds",
    _UNTESTED: "not\ntested",
    "unprovable as stated": "unprovable",
}


def show_papers(entries: Sequence[PublishedClaim], console: Console) -> None:
    """Print a line for each paper: how many of its claims have which verdict."""
    counts = {key: Counter[str]() for key in map(catalogue.paper, entries)}
    for entry in entries:
        verdict = verdict_text(entry.recorded, entry.basis)
        counts[catalogue.paper(entry)][_UNTESTED if entry.held_by else verdict] += 1
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("paper", ""):
        table.add_column(name, overflow="fold", vertical="bottom")
    for name in ("claims", *_COLUMNS.values()):
        table.add_column(name, justify="right", vertical="bottom")
    for key, one in counts.items():
        cells = [str(one[verdict] or "–") for verdict in _COLUMNS]
        table.add_row(Text(key, "bold"), catalogue.PAPERS[key], str(one.total()), *cells)
    total = sum(counts.values(), Counter[str]())
    table.add_row("all", "", str(total.total()), *(str(total[verdict]) for verdict in _COLUMNS))
    console.print(table)
    console.print()
    for sentence in (
        "not tested: the statement holds by algebra alone, and no run can try it.",
        f"'dpaudit claims {next(iter(counts))}' lists the claims of a paper, and 'dpaudit claims "
        "ID' explains one.",
    ):
        say(sentence, console)


def show_list(entries: Sequence[PublishedClaim], console: Console) -> None:
    """Print each claim: its id and verdict on a line, and what is claimed below."""
    for entry in entries:
        verdict = verdict_text(entry.recorded, entry.basis)
        style = palette.MARKED if entry.recorded == "falsified" else ""
        console.print(Text.assemble((entry.id, "bold"), "  ", (verdict, style)))
        reading = f" [{entry.reading}]" if entry.reading else ""
        say(entry.sentence + reading, console, indent=2)
    console.print()
    say("'dpaudit claims ID' explains one of them.", console, style="dim")


def explain(entry: PublishedClaim, console: Console) -> None:
    """Print a claim, its verdict and why, and what tries it."""
    say(f"{entry.id}: {verdict_text(entry.recorded, entry.basis)}", console)
    console.print()
    for name, text in report.statement(entry):
        say(f"{name}: {text}", console)
    console.print()
    say(f"Why: {entry.because}", console)
    for role, experiments in (("Published", entry.published), ("Corrected", entry.corrected)):
        for experiment in experiments:
            console.print()
            say(f"{role}: {experiment.label}", console)
            if not isinstance(experiment, Check):
                say(experiment.mechanism(), console, indent=2)
                say(experiment.pair(), console, indent=2)
    console.print()
    if entry.held_by:
        held = f"Held by {entry.held_by} of the source tree; --verify runs nothing of it."
        say(held, console)
    else:
        say(f"Run it: dpaudit claims --verify {entry.id}", console)


def show(verification: Verification, console: Console) -> None:
    """Print the verdicts, and what differs from the catalogue."""
    word = palette.GATE[report.outcome(verification)]
    # That verdicts are as recorded says nothing good of the claims.
    style = "" if word.tone == "good" else word.style
    console.print(Text.assemble((word.shown, style or "bold"), "  ", report.headline(verification)))
    for text in report.findings(verification):
        say(text, console, style=style)
    for table in report.tables(verification):
        drop = [n for n in _DISPENSABLE if n in table.header] if console.width < _WIDE else []
        # The claim's name has a line of its own, above its experiments.
        keep = [i for i, name in enumerate(table.header) if i and name not in drop]
        title = Text(plain(table.caption))
        shown = Table(box=None, padding=(0, 2, 0, 0), title=title, title_justify="left")
        for i in keep:
            shown.add_column(Text(plain(table.header[i])), overflow="fold")
        for row, (name, *cells) in enumerate(table.cells):
            if name:
                shown.add_row(Text(plain(name), style="bold"))
            styles = [palette.MARKED if (row, i) in table.marked else "" for i in keep]
            shown.add_row(
                *(
                    Text(f"{'  ' if i == keep[0] else ''}{plain(cells[i - 1])}", style)
                    for i, style in zip(keep, styles, strict=True)
                )
            )
        console.print()
        console.print(shown)
        if drop:
            console.print(Text(f"too wide for this terminal: {', '.join(drop)}", style="dim"))
    console.print()
    for note in report.footnotes(verification):
        say(note, console, style="dim")
