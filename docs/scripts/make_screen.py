"""Draw docs/pictures/screen.svg: the first screen of the report of `examples/own-model`.

Run it with `python docs/scripts/make_screen.py FOLDER`, which keeps the record in FOLDER and runs
nothing that is there. It follows the light or dark scheme of the page that shows it.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path

# It stands beside this file.
from pages import ROOT, audited, example

from dpaudit.core.files import write_text
from dpaudit.record.result import AuditResult
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections import screen
from dpaudit.reports.sections.screen import Screen

NAME = "screen"
WIDTH = 800
# Left ends of the columns of the meter, and the width of its bars.
_ATTACKER, _BAR, _FOUND, _GUESS, _LIMIT, _LONG = 24, 250, 540, 640, 720, 270
_STYLE = """
svg { color-scheme: light dark; --text: #1b1f24; --muted: #57606a; --card: #fff; --track: #e4e7ea;
  --blue: #0063a3; --good: #1a6b33; --bad: #b3261e; --open: #805300; --neutral: #57606a; }
@media (prefers-color-scheme: dark) { svg { --text: #e6e8eb; --muted: #a7b0ba; --card: #1d2125;
  --track: #2c3238; --blue: #6cb6ff; --good: #5fd38a; --bad: #ff8a80; --open: #f2b447;
  --neutral: #a7b0ba; } }
text { font: 14px system-ui, sans-serif; fill: var(--text); }
.muted { fill: var(--muted); } .strong { font-weight: 700; }
.word { font-size: 34px; font-weight: 800; }
.reason { font-size: 16px; }
"""


def drawing(result: AuditResult) -> str:
    """Return the picture of a record's first screen as SVG."""
    shown = screen.of(result)
    parts, height = list(_outcome(shown)), 150
    parts += _meter(shown, height)
    height += 30 * len(shown.rows) + 40
    for name, text in shown.facts:
        lines = textwrap.wrap(text, 92)
        parts.append(_text(_ATTACKER, height, name, "strong"))
        parts += [_text(130, height + 20 * at, line) for at, line in enumerate(lines)]
        height += 20 * len(lines) + 4
    label = escape(shown.decision.text)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'role="img" aria-label="{label}">\n<style>{_STYLE}</style>\n'
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="var(--card)"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _outcome(shown: Screen) -> Iterator[str]:
    tone = f"var(--{shown.decision.word.tone})"
    yield (
        f'<rect x="9" y="9" width="{WIDTH - 18}" height="106" rx="4" fill="none" stroke="{tone}" '
        'stroke-width="2"/>'
    )
    yield f'<rect x="9" y="9" width="9" height="106" fill="{tone}"/>'
    yield _text(_ATTACKER + 8, 50, shown.decision.word.shown, "word", fill=tone)
    for at, line in enumerate(textwrap.wrap(shown.decision.reason, 84)[:2]):
        yield _text(_ATTACKER + 8, 76 + 22 * at, line, "reason")


def _meter(shown: Screen, top: int) -> Iterator[str]:
    heads = {_ATTACKER: "the attacker sees", _FOUND: "found", _GUESS: "a guess", _LIMIT: "limit"}
    yield from (_text(x, top, head, "muted") for x, head in heads.items())
    yield _text(_BAR, top, f"0 to {shown.end}", "muted")
    for at, row in enumerate(shown.rows):
        yield from _row(row, shown.scale, top + 30 * (at + 1))


def _row(row: Frequency, scale: float, y: int) -> Iterator[str]:
    found, guess, limit = row.counts
    yield _text(_ATTACKER, y, row.attacker)
    color = "var(--bad)" if row.over else "var(--blue)"
    for length, fill in ((scale, "var(--track)"), (row.value, color)):
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
    yield _text(_FOUND, y, found, "strong")
    yield from (_text(x, y, text) for x, text in ((_GUESS, guess), (_LIMIT, limit)))


def _text(x: int, y: int, text: str, look: str = "", *, fill: str = "") -> str:
    style = f' style="fill: {fill}"' if fill else ""
    return f'<text x="{x}" y="{y}" class="{look}"{style}>{escape(text)}</text>'


def main(folder: Path) -> None:
    """Draw the picture of the record that a folder keeps."""
    sys.path.insert(0, str(ROOT / "examples" / "own-model"))
    result = audited(example("own-model/audit"), folder, allow_code=True)
    write_text(ROOT / "docs" / "pictures" / f"{NAME}.svg", drawing(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
