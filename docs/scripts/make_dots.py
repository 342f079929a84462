"""Draw docs/pictures/libraries.svg: leakage against nDCG, by docs/results/libraries.md.

Run it with `python docs/scripts/make_dots.py` after that page is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

# They stand beside this file.
from pages import ROOT
from pictures import svg, text, write

from dpaudit.reports.chart_parts import spread

_WIDTH, _HEIGHT = 800, 430
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 640, 30, 370
# The right ends of the axes, and their marks.
_X, _Y = 0.18, 0.7
_XS, _YS = (0.0, 0.05, 0.1, 0.15), (0.01, 0.2, 0.4, 0.6)
# From one label to the next.
_LINE = 17


def drawing(page: str) -> str:
    """Return the picture of the page's tables as SVG."""
    leaks, gains = column(page, "Scores", 4), column(page, "Utility", 1)
    parts = [*_axes(), *_dots({name: (gains[name], leaks[name]) for name in leaks})]
    label = (
        "True-positive rate of membership inference from scores, at a false-positive rate of 1 %, "
        "against nDCG@10, of recommenders of public libraries on MovieLens-100K."
    )
    return svg(_WIDTH, _HEIGHT, label, parts)


def column(page: str, title: str, place: int) -> dict[str, float]:
    """Return the numbers of a column of a section's table, by the names of its rows."""
    section = page.split(f"## {title}\n")[1].split("\n## ", maxsplit=1)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if "|" in line][2:]
    return {row[0]: float(re.split(r"[ \[]", row[place])[0]) for row in rows}


def _place(gain: float, leak: float) -> tuple[float, float]:
    across, up = gain / _X, leak / _Y
    return _LEFT + across * (_RIGHT - _LEFT), _BOTTOM - up * (_BOTTOM - _TOP)


def _axes() -> Iterator[str]:
    for leak in _YS:
        _, y = _place(0, leak)
        dash = 'stroke-dasharray="4 3"' if leak == _YS[0] else ""
        color = "var(--muted)" if dash else "var(--grid)"
        yield f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="{color}" {dash}/>'
        said = "1 (guess)" if dash else f"{100 * leak:g}"
        yield text(_LEFT - 6, y + 4, said, "muted small", 'text-anchor="end"')
    for gain in _XS:
        x, _ = _place(gain, 0)
        yield text(x, _BOTTOM + 20, f"{gain:g}", "muted small", 'text-anchor="middle"')
    yield text(_LEFT, 18, "of 100 training interactions recognised, 1 false alarm in 100", "muted")
    middle = (_LEFT + _RIGHT) / 2
    anchor = 'text-anchor="middle"'
    yield text(middle, _BOTTOM + 44, "nDCG@10: further right recommends better", "muted", anchor)


def _dots(points: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    """Yield a dot for each model, and its name at the right, from the top down."""
    places = {name: _place(*point) for name, point in points.items()}
    names = sorted(places, key=lambda name: places[name][1])
    heights = spread([places[name][1] for name in names], [_LINE] * len(names), _BOTTOM + 30)
    for name, height in zip(names, heights, strict=True):
        x, y = places[name]
        yield (
            f'<path d="M{x:.1f} {y:.1f}L{_RIGHT + 8} {height:.1f}" stroke="var(--muted)" '
            'stroke-width="0.6" fill="none"/>'
        )
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="var(--series-1)"/>'
        yield text(_RIGHT + 12, height + 4, name, "small")


def main() -> None:
    """Draw the picture of the page that stands in docs/results."""
    page = (ROOT / "docs" / "results" / "libraries.md").read_text(encoding="utf-8")
    write("libraries", drawing(page))


if __name__ == "__main__":
    main()
