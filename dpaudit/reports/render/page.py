"""Self-contained HTML pages, with one content policy, style and chart renderer."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from dpaudit.core.messages import plain
from dpaudit.reports.chart_parts import Chart

# With `ast`, Vega interprets expressions instead of using `eval`, which the page's policy forbids.
_DRAW = """
for (const data of document.querySelectorAll("script[data-chart]")) {
  vegaEmbed("#" + data.dataset.chart, JSON.parse(data.textContent), {
    ast: true, renderer: "svg",
    actions: { export: true, source: false, compiled: false, editor: false },
  });
}
"""


def render(template: str, *, charts: Sequence[Chart], **content: Any) -> str:
    """Render a page from a template of this package, with its scripts and data included."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("dpaudit.reports", ""),
        autoescape=True,
        finalize=_seen,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    scripts = [_script()] if charts else []
    return environment.get_template(template).render(
        charts=charts,
        # The scripts come from this package and its chart library, not from the record.
        scripts=[Markup(script) for script in scripts],  # noqa: S704
        hashes=" ".join(_hash(script) for script in scripts) or "'none'",
        **content,
    )


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
    return vl_convert.javascript_bundle(_DRAW, version)


def _hash(script: str) -> str:
    """Return the hash by which the page's policy allows a script."""
    summary = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(summary).decode()}'"
