"""Self-contained HTML pages, with one content policy and style, and charts as static pictures."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from dpaudit.core.errors import RunError
from dpaudit.core.messages import lines, plain
from dpaudit.core.processes import library_places
from dpaudit.reports import vega
from dpaudit.reports.chart_parts import Chart, Panel

# What the process runs that draws charts.
_DRAW = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
import vl_convert
pictures = [vl_convert.vegalite_to_svg(spec, sys.argv[1]) for spec in json.load(sys.stdin)]
json.dump(pictures, sys.stdout)
"""


def render(
    template: str, *, charts: Sequence[Chart] = (), package: str = "dpaudit.reports", **content: Any
) -> str:
    """Render a page that includes all that it shows, and has no script.

    Args:
        template: the name of the template.
        charts: the charts of the page.
        package: where the template is; it may extend the templates of `dpaudit.reports`.
        content: the values of the template.

    Raises:
        RunError: the charts cannot be drawn.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name, "") for name in (package, "dpaudit.reports")]),
        autoescape=True,
        finalize=_seen,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    pictures = drawn(charts)
    environment.filters["drawn"] = lambda panel, chart: pictures[chart.name, panel.name]
    return environment.get_template(template).render(charts=charts, **content)


def drawn(charts: Sequence[Chart]) -> dict[tuple[str, str], Any]:
    """Return the pictures of charts as elements, by the names of the chart and the panel.

    Raises:
        RunError: they cannot be drawn.
    """
    panels = [(chart, panel) for chart in charts for panel in chart.panels]
    pictures = svgs([panel.spec for _, panel in panels])
    return {
        (chart.name, panel.name): _element(picture, panel, chart)
        for picture, (chart, panel) in zip(pictures, panels, strict=True)
    }


def svgs(specs: Sequence[dict[str, Any]]) -> list[str]:
    """Draw Vega-Lite specifications as SVG texts, in their order, by a process of their own.

    The library that draws them runs V8, which hangs in a fork of a process that has drawn before,
    and ends its process where the address space is limited (`ulimit -v`).

    Raises:
        RunError: the process that draws them ends early.
    """
    if not specs:
        return []
    version = ".".join(vega.SCHEMA_VERSION.split(".")[:2])
    process = subprocess.run(  # noqa: S603  this Python, and code of ours
        [sys.executable, "-I", "-X", "utf8", "-c", _DRAW, version, json.dumps(library_places())],
        input=json.dumps(specs),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if process.returncode:
        raise RunError(
            f"the charts cannot be drawn: the process that draws them ended with exit code "
            f"{process.returncode}; allow it 1 GiB of memory and any address space ('ulimit -v "
            "unlimited')"
        )
    pictures: list[str] = json.loads(process.stdout)
    return pictures


# The first element of a picture as Vega draws it, with its size.
_HEAD = r'<svg [^>]*(width="[^"]+" height="[^"]+" viewBox="[^"]+")[^>]*>'


def _element(picture: str, panel: Panel, chart: Chart) -> Any:
    """Return a panel's picture as an element that says what it shows, and shrinks to its container.

    Its colours are properties of the page's style.
    """
    from markupsafe import Markup

    _, size, rest = re.split(_HEAD, picture, maxsplit=1)
    group = [f"{panel.name}."] if panel.name else []
    alternative = " ".join([f"{chart.title}.", *group, chart.summary])
    element = '<svg xmlns="http://www.w3.org/2000/svg" {} role="img" aria-label="{}">{}'
    # Vega escapes the texts of a specification.
    return Markup(element).format(Markup(size), plain(alternative), Markup(_bare(rest)))  # noqa: S704


# A circle as Vega draws it: a path of two arcs around its middle.
_CIRCLE = re.compile(
    r'<path transform="translate\(([\d.-]+),([\d.-]+)\)" '
    r'd="M([\d.]+),0A\3,\3,0,1,1,-\3,0A\3,\3,0,1,1,\3,0"'
)


def _bare(picture: str) -> str:
    """Leave out what only a script reads, shorten places to a tenth of a pixel, draw circles."""
    picture = re.sub(r' (class|aria-\w+|role|pointer-events)="[^"]*"(?=[^<]*>)', "", picture)
    places = r' (d|transform|[xy][12]?)="[^"]*"(?=[^<]*>)'
    picture = re.sub(places, lambda place: re.sub(r"(\.\d)\d+", r"\1", place[0]), picture)
    return _CIRCLE.sub(r'<circle cx="\1" cy="\2" r="\3"', picture.replace(' opacity="1"', ""))


def _seen(value: Any) -> Any:
    """Replace invisible characters, except line ends, in a string that a template shows."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return lines(value) if is_text else value
