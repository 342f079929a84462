"""What the pictures of the README share: the colours of reports, which follow light and dark."""

from __future__ import annotations

from html import escape

from pages import ROOT

from dpaudit.core.files import write_text

_TEXT = """text { font: 14px system-ui, sans-serif; fill: var(--text); }
.muted { fill: var(--muted); } .strong { font-weight: 700; } .small { font-size: 12px; }
.word { font-size: 34px; font-weight: 800; }
.reason { font-size: 16px; }
"""
STYLE = (ROOT / "dpaudit" / "reports" / "colors.css").read_text(encoding="utf-8") + _TEXT


def text(x: float, y: float, said: str, look: str = "", more: str = "") -> str:
    """Return text at a place, with classes of the style and further attributes."""
    return f'<text x="{x:g}" y="{y:g}" class="{look}" {more}>{escape(said)}</text>'


def svg(width: int, height: int, label: str, parts: list[str]) -> str:
    """Return a picture with its text alternative."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="{escape(label)}">\n<style>\n{STYLE}</style>\n'
        f'<rect width="{width}" height="{height}" rx="6" fill="var(--card)"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def write(name: str, drawing: str) -> None:
    """Write a picture of docs/pictures."""
    write_text(ROOT / "docs" / "pictures" / f"{name}.svg", drawing)
