"""The charts of the page as pictures of their own, for a paper or slides."""

from __future__ import annotations

import re
from importlib.resources import files

from dpaudit.record.result import AuditResult
from dpaudit.reports.folder import Folder
from dpaudit.reports.render import page
from dpaudit.reports.sections.base import charts_of

# The value of an attribute.
_COLOR = re.compile(r'(?<=")var\(--([\w-]+)\)(?="[^<]*>)')
_GROUND = '<rect width="100%" height="100%" fill="var(--card)"/>'
# File systems allow 255 bytes, of which a letter may take four.
_LETTERS = 40


def _pictures(result: AuditResult) -> dict[str, str]:
    """Return each panel of the charts as an SVG text, by the name of its file."""
    style = (files("dpaudit.reports") / "colors.css").read_text(encoding="utf-8")
    light = dict(re.findall(r"--([\w-]+): ([^;]+);", style.partition("@media")[0]))
    pictures: dict[str, str] = {}
    for names, element in page.drawn(charts_of(result)).items():
        name = re.sub(r"\W+", "-", " ".join(names).lower())[:_LETTERS].strip("-")
        while f"{name}.svg" in pictures:  # groups may differ in what no file name has
            name += "-2"
        picture = str(element).replace(">", f">{_GROUND}", 1)
        pictures[f"{name}.svg"] = _COLOR.sub(lambda color: light[color[1]], picture) + "\n"
    return pictures


svg = Folder("Each chart of the report as an SVG file, for --report svg=FOLDER", _pictures)
