"""How Sphinx builds the site: `sphinx-build --fail-on-warning docs site`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version as installed
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

sys.path.insert(0, str(Path(__file__).parent / "scripts"))

from offline import loaded_from_elsewhere
from reference import config, plugins

project = "dpaudit"
author = "the authors of dpaudit"
project_copyright = author
version = release = installed("dpaudit")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
exclude_patterns = ["scripts"]
myst_heading_anchors = 4

autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    "exclude-members": "model_config",
}
napoleon_use_ivar = True
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
# Docstrings mark code with single backticks, as Markdown does.
default_role = "code"
# They would make a dash of the two hyphens of an option.
smartquotes = False

html_theme = "furo"
html_title = "dpaudit"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = html_copy_source = False

# What stands in a page for a part that the code itself knows.
PARTS: dict[str, Callable[[], str]] = {
    "config": config,
    "recommenders": lambda: plugins("recommenders"),
    "defenses": lambda: plugins("defenses"),
    "attacks": lambda: plugins("attacks"),
}


def fill(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put generated parts where a page asks for them."""
    for name, part in PARTS.items():
        mark = f"<!-- generated: {name} -->"
        if mark in source[0]:
            source[0] = source[0].replace(mark, part())


def check(app: Sphinx, error: Exception | None) -> None:
    """Fail if a page would load anything from another host."""
    if error is None and (found := loaded_from_elsewhere(Path(app.outdir))):
        raise ExtensionError(f"pages load files from other hosts: {', '.join(found)}")


def setup(app: Sphinx) -> None:
    """Register what is done while the site is built."""
    app.connect("source-read", fill)
    app.connect("build-finished", check)
