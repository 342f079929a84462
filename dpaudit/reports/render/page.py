"""HTML pages that hold all they need: one policy, one style, one way to draw charts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from dpaudit.core.messages import plain
from dpaudit.reports.chart_parts import Chart

# The interpreter (`ast`) draws without `eval`, which the page's policy forbids.
_DRAW = """
for (const data of document.querySelectorAll("script[data-chart]")) {
  vegaEmbed("#" + data.dataset.chart, JSON.parse(data.textContent), {
    ast: true, renderer: "svg",
    actions: { export: true, source: false, compiled: false, editor: false },
  });
}
"""


def render(template: str, *, charts: Sequence[Chart], **content: Any) -> str:
    """A page from a template of this package; its scripts and data are inside."""
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
        # Scripts of this package and its chart library: nothing of the record is in them.
        scripts=[Markup(script) for script in scripts],  # noqa: S704
        hashes=" ".join(_hash(script) for script in scripts) or "'none'",
        **content,
    )


def _seen(value: Any) -> Any:
    """What a template shows, without letters that cannot be seen; line ends stay."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return "\n".join(plain(line) for line in value.split("\n"))


@cache
def _script() -> str:
    """Vega, Vega-Lite, Vega-Embed and what draws, of the version that the charts are made for."""
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.split(".")[:2])
    return vl_convert.javascript_bundle(_DRAW, version)


def _hash(script: str) -> str:
    """What the page's policy knows a script by."""
    summary = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(summary).decode()}'"
