"""The generated reference explains every key of the schema and every registered plug-in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from reference import config, plugins  # type: ignore[import-not-found]

from dpaudit.config.schema import json_schema
from dpaudit.core import registry

Keys = Iterator[tuple[str, str]]
GROUPS: tuple[registry.Group, ...] = ("recommenders", "defenses", "attacks")


def keys_of(schema: dict[str, Any], table: dict[str, Any], path: str = "") -> Keys:
    """Every key of the schema, with the table that it stands in."""
    for key, value in table["properties"].items():
        yield path, key
        parts = [value, value.get("items", {}), *value.get("anyOf", [])]
        for name in {part["$ref"].rpartition("/")[2] for part in parts if "$ref" in part}:
            yield from keys_of(schema, schema["$defs"][name], f"{path}.{key}" if path else key)


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], list[str]]:
    """The cells of each key on the page, by its table."""
    found = {}
    path = ""
    for line in config().splitlines():
        if line.startswith("## "):
            path = "" if line == "## Top level" else line.strip("# `[]")
        elif line.startswith("| `"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            found[path, cells[0].strip("`")] = cells
    return found


def test_every_key_of_the_schema_is_explained(rows: dict[tuple[str, str], list[str]]) -> None:
    schema = json_schema()
    assert set(rows) == set(keys_of(schema, schema))
    assert [place for place, (_, kind, _, meaning) in rows.items() if not (kind and meaning)] == []


def test_types_and_defaults_are_those_of_the_schema(rows: dict[tuple[str, str], list[str]]) -> None:
    assert rows["membership", "trainings"][1:3] == ["integer ≥ 1, ≤ 100000", "`24`"]
    assert rows["gate", "max"][1:3] == ['number or `"claim"`', ""]
    assert rows["gate", "metric"][2] == "required"
    assert rows["", "gate"][1] == "[tables](#gate)"
    assert rows["data", "trust"][1] == "[table](#datatrust)"
    assert rows["model", "variant"][1] == '`"nonprivate"` `"published"` `"corrected"`'


@pytest.mark.cases("group", GROUPS)
def test_every_plug_in_is_explained_with_its_parameters(group: registry.Group) -> None:
    page = plugins(group)
    sections = dict(re.findall(r"^### `([^`]+)`\n(.*?)(?=^### |\Z)", page, re.M | re.S))
    assert list(sections) == registry.names(group)
    for name, section in sections.items():
        plugin = registry.load(group, name)
        assert plugin.title in section
        for field in fields(plugin):
            if field.name not in {"epsilon", "variant"}:
                assert re.search(rf"^\| `{field.name}` \| .* \| .+ \|$", section, re.M), field.name
