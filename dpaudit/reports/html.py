"""The report as one HTML file that needs no network."""

from __future__ import annotations

import base64
import hashlib
from functools import cache

from dpaudit.auditor.result import AuditResult
from dpaudit.reports import charts, digest, tables, toml

# The interpreter (`ast`) draws without `eval`, which the page's policy forbids.
_DRAW = """
for (const data of document.querySelectorAll("script[data-chart]")) {
  vegaEmbed("#" + data.dataset.chart, JSON.parse(data.textContent), {
    ast: true, renderer: "svg",
    actions: { export: true, source: false, compiled: false, editor: false },
  });
}
"""


def render(result: AuditResult) -> str:
    """The report as one HTML file; its scripts and data are inside, and it may load nothing."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("dpaudit.reports", ""),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    drawn = charts.render(result)
    scripts = [_script()] if drawn else []
    tried = [tables.attacks(result), tables.pairs(result), tables.games(result)]
    return environment.get_template("report.html.j2").render(
        outcome=digest.outcome(result),
        headline=digest.headline(result),
        command=digest.command(result),
        findings=digest.findings(result),
        gates=tables.gates(result),
        charts=drawn,
        results=tables.results(result),
        footnotes=digest.footnotes(result),
        audited=[table for table in (tables.models(result), tables.claims(result)) if table],
        tried=[table for table in (*tried, tables.methods(result)) if table],
        provenance=tables.provenance(result),
        config=toml.render(result.config),
        # Scripts of this package and its chart library: nothing of the record is in them.
        scripts=[Markup(script) for script in scripts],  # noqa: S704
        hashes=" ".join(_hash(script) for script in scripts) or "'none'",
    )


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
