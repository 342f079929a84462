"""What the pictures of the README share: one style, which follows light and dark."""

from __future__ import annotations

from html import escape

from pages import ROOT

from dpaudit.core.files import write_text

STYLE = """
svg { color-scheme: light dark; --text: #1b1f24; --muted: #57606a; --card: #fff; --track: #e4e7ea;
  --blue: #0063a3; --good: #1a6b33; --bad: #b3261e; --open: #805300; --neutral: #57606a; }
@media (prefers-color-scheme: dark) { svg { --text: #e6e8eb; --muted: #a7b0ba; --card: #1d2125;
  --track: #2c3238; --blue: #6cb6ff; --good: #5fd38a; --bad: #ff8a80; --open: #f2b447;
  --neutral: #a7b0ba; } }
text { font: 14px system-ui, sans-serif; fill: var(--text); }
.muted { fill: var(--muted); } .strong { font-weight: 700; } .small { font-size: 12px; }
.word { font-size: 34px; font-weight: 800; }
.reason { font-size: 16px; }
"""


def text(x: float, y: float, said: str, look: str = "", more: str = "") -> str:
    """Return text at a place, with classes of the style and further attributes."""
    return f'<text x="{x:g}" y="{y:g}" class="{look}" {more}>{escape(said)}</text>'


def svg(width: int, height: int, label: str, parts: list[str]) -> str:
    """Return a picture with its text alternative."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="{escape(label)}">\n<style>{STYLE}</style>\n'
        f'<rect width="{width}" height="{height}" rx="6" fill="var(--card)"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def write(name: str, drawing: str) -> None:
    """Write a picture of docs/pictures."""
    write_text(ROOT / "docs" / "pictures" / f"{name}.svg", drawing)
