"""Self-contained HTML pages, with one content policy, style and chart renderer."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from dpaudit.core.messages import plain
from dpaudit.reports.chart_parts import Chart
from dpaudit.reports.series import Datum

# Unpacks the chart library, which is most of a page, and runs it: its hash is in the page's policy.
_LOADER = """
(async () => {
  const packed = atob(document.getElementById("library").textContent);
  const bytes = new Blob([Uint8Array.from(packed, (letter) => letter.charCodeAt(0))]);
  const text = new Response(bytes.stream().pipeThrough(new DecompressionStream("gzip"))).text();
  const script = document.createElement("script");
  script.textContent = await text;
  document.body.append(script);
})();
"""


def render(
    template: str,
    *,
    charts: Sequence[Chart],
    package: str = "dpaudit.reports",
    **content: Any,
) -> str:
    """Render a page with its scripts and data included.

    Args:
        template: the name of the template.
        charts: the charts of the page.
        package: where the template is; it may extend the templates of `dpaudit.reports`.
        content: the values of the template.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name, "") for name in (package, "dpaudit.reports")]),
        autoescape=True,
        finalize=_seen,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["packed"] = packed
    scripts = [_LOADER, _script()] if charts else []
    return environment.get_template(template).render(
        charts=charts,
        # The scripts come from this package and its chart library, not from the record.
        loader=Markup(_LOADER),  # noqa: S704
        library=_library() if charts else "",
        hashes=" ".join(_hash(script) for script in scripts) or "'none'",
        **content,
    )


def packed(chart: Chart) -> dict[str, Any]:
    """Return the specification of a chart with its data by columns, each text once.

    Numbers have five significant digits, which is more than a chart shows.
    """
    datasets = {name: _columns(rows) for name, rows in chart.spec["datasets"].items()}
    return {"spec": {**chart.spec, "datasets": datasets}, "columns": list(chart.columns.items())}


def _columns(rows: Sequence[Datum]) -> dict[str, Any]:
    fields = list(dict.fromkeys(field for row in rows for field in row))
    columns = [_column([row.get(field) for row in rows]) for field in fields]
    return {"length": len(rows), "fields": fields, "columns": columns}


def _column(values: Sequence[Any]) -> Any:
    if not any(isinstance(value, str) for value in values):
        return [float(f"{value:.5g}") if isinstance(value, float) else value for value in values]
    texts = list(dict.fromkeys(value for value in values if value is not None))
    place = {text: at for at, text in enumerate(texts)}
    return {"texts": texts, "at": [place.get(value, -1) for value in values]}


def _seen(value: Any) -> Any:
    """Replace invisible characters, except line ends, in a string that a template shows."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return "\n".join(plain(line) for line in value.split("\n"))


@cache
def _script() -> str:
    """Return Vega, Vega-Lite, Vega-Embed and the drawing code, in the version of the charts."""
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.split(".")[:2])
    draw = resources.files("dpaudit.reports").joinpath("charts.js").read_text(encoding="utf-8")
    return vl_convert.javascript_bundle(draw, version)


@cache
def _library() -> str:
    """Return the script compressed, a third of its size, as text."""
    return base64.b64encode(gzip.compress(_script().encode(), mtime=0)).decode()


def _hash(script: str) -> str:
    """Return the hash by which the page's policy allows a script."""
    summary = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(summary).decode()}'"
