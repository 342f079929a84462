"""The defaults of networks, and the table that states them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from dpaudit.recommenders.networks.settings import DEFAULTS, Settings
from dpaudit.recommenders.torch import Torch

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "networks.md"


def test_the_page_states_the_defaults() -> None:
    names = [field.name for field in fields(Settings)]
    lines = PAGE.read_text().splitlines()
    assert f"| model | {' | '.join(names)} |" in lines
    for model, settings in DEFAULTS.items():
        values = (getattr(settings, name) for name in names)
        cells = " | ".join("–" if value is None else f"{value:g}" for value in values)
        assert f"| {model} | {cells} |" in lines


def test_a_given_parameter_replaces_the_default() -> None:
    settings = Torch("sasrec", dimensions=64, heads=4).settings
    assert (settings.dimensions, settings.heads) == (64, 4)
    assert settings.length == DEFAULTS["sasrec"].length
