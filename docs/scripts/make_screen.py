"""Draw docs/pictures/screen.svg: the first screen of the report of `examples/own-model`.

Run it with `python docs/scripts/make_screen.py FOLDER`, which keeps the record in FOLDER and runs
nothing that is there. It follows the light or dark scheme of the page that shows it.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

# They stand beside this file.
from pages import ROOT, audited, example
from pictures import svg, text, write

from dpaudit.record.result import AuditResult
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections import screen
from dpaudit.reports.sections.screen import Screen

WIDTH = 800
# Left ends of the columns of the meter, and the width of its bars.
_ATTACKER, _BAR, _FOUND, _GUESS, _LIMIT, _LONG = 24, 250, 540, 640, 720, 270


def drawing(result: AuditResult) -> str:
    """Return the picture of a record's first screen as SVG."""
    shown = screen.of(result)
    parts, height = list(_outcome(shown)), 150
    parts += _meter(shown, height)
    height += 30 * len(shown.rows) + 40
    facts = {
        "How sure": " ".join(shown.decision.sure),
        "What next": ". ".join(f"{step.name} {step.text}" for step in shown.steps) + ".",
        "Worth it?": shown.worth,
        "Not tried": shown.missing,
    }
    for name, fact in facts.items():
        lines = textwrap.wrap(fact, 92)
        parts.append(text(_ATTACKER, height, name, "strong"))
        parts += [text(130, height + 20 * at, line) for at, line in enumerate(lines)]
        height += 20 * len(lines) + 4
    return svg(WIDTH, height, f"{shown.decision.word.shown}: {shown.decision.reason}", parts)


def _outcome(shown: Screen) -> Iterator[str]:
    tone = f"var(--{shown.decision.word.tone})"
    yield (
        f'<rect x="9" y="9" width="{WIDTH - 18}" height="106" rx="4" fill="none" stroke="{tone}" '
        'stroke-width="2"/>'
    )
    yield f'<rect x="9" y="9" width="9" height="106" fill="{tone}"/>'
    yield text(_ATTACKER + 8, 50, shown.decision.word.shown, "word", f'style="fill: {tone}"')
    for at, line in enumerate(textwrap.wrap(" ".join(shown.decision.sentences), 84)[:2]):
        yield text(_ATTACKER + 8, 76 + 22 * at, line, "reason")


def _meter(shown: Screen, top: int) -> Iterator[str]:
    heads = {_ATTACKER: "attacker", _FOUND: "found", _GUESS: "a guess", _LIMIT: "limit"}
    yield from (text(x, top, head, "muted") for x, head in heads.items())
    yield text(_BAR, top, f"0 to {shown.end}", "muted")
    for at, row in enumerate(shown.rows):
        yield from _row(row, shown.scale, top + 30 * (at + 1))


def _row(row: Frequency, scale: float, y: int) -> Iterator[str]:
    found, guess, limit = row.counts
    yield text(_ATTACKER, y, row.attacker)
    color = "var(--bad)" if row.over else "var(--series-1)"
    for length, fill in ((scale, "var(--grid)"), (row.value, color)):
        yield (
            f'<rect x="{_BAR}" y="{y - 12}" width="{_LONG * length / scale:.1f}" height="14" '
            f'fill="{fill}"/>'
        )
    marks = [(row.guess, 'stroke-dasharray="3 2"'), *([(row.limit, "")] if row.limit else [])]
    for share, dash in marks:
        x = _BAR + _LONG * share / scale
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 16}" y2="{y + 6}" stroke="var(--text)" '
            f'stroke-width="2" {dash}/>'
        )
    yield text(_FOUND, y, found, "strong")
    yield from (text(x, y, mark) for x, mark in ((_GUESS, guess), (_LIMIT, limit)))


def main(folder: Path) -> None:
    """Draw the picture of the record that a folder keeps."""
    sys.path.insert(0, str(ROOT / "examples" / "own-model"))
    result = audited(example("own-model/audit"), folder, allow_code=True)
    write("screen", drawing(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
