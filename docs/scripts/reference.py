"""Write the parts of the reference that the code itself knows, as Markdown.

`docs/conf.py` puts them into the pages of `docs/reference` when the site is built.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel

from dpaudit.cli.catalogue import attributes, explain, text
from dpaudit.config.schema import Config, config_classes, json_schema
from dpaudit.core import registry
from dpaudit.reports.render.markdown import row
from dpaudit.reports.render.toml import inline

# Begin and end of a table that `docs/_static/site.css` makes readable on a narrow screen.
_TABLE, _END = ("```{table}", ":class: keys", ""), "```"
_TOP = "The tables of all kinds of audit; those that a config has say which kind it is of."
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


def config() -> str:
    """Explain every table of a config: its keys with type, default and meaning."""
    schema = json_schema()
    kinds = {kind.__name__: kind for config in config_classes() for kind in _kinds(config)}
    parts = []
    for place, name in _tables(schema, schema, ""):
        kind = kinds.get(name, Config)
        table = schema["$defs"].get(name, schema)
        title = f"## `{place}`" if place else "## Top level"
        parts += [title, "", text(kind) if place else _TOP, ""]
        parts += [*_TABLE, _row("key", "type", "default", "meaning"), _row(*["---"] * 4)]
        for key, value in table["properties"].items():
            default = _default(key, value, table.get("required", []))
            below = _reference(value)
            kept = _type(value)
            # What a whole table means stands in its own docstring.
            meaning = "" if below and not place else attributes(kind).get(key, "")
            if below is not None:
                kept = f"[{kept}](#{f'{_path(place)}{key}'.replace('.', '')})"
                meaning = meaning or text(kinds[below]).partition("\n")[0]
            parts.append(_row(f"`{key}`", kept, default, meaning))
        parts += [_END, ""]
    return "\n".join(parts)


def plugins(group: registry.Group) -> str:
    """Explain every registered plug-in of a group."""
    parts = []
    for name in registry.names(group):
        said = explain(registry.load(group, name))
        parts += [f"### `{name}`", "", f"**{said.title}.** {said.source}.", "", said.text, ""]
        if said.parameters:
            parts += [*_TABLE, _row("parameter", "default", "meaning"), _row(*["---"] * 3)]
            for parameter, (default, meaning) in said.parameters.items():
                parts.append(_row(f"`{parameter}`", _value(default), meaning))
            parts += [_END, ""]
        if said.used_in:
            parts += [f"Used in: `{said.used_in}`.", ""]
        for title, rows in (("Observer", said.observers), ("Pair", said.pairs)):
            if rows:
                parts += [_row(title, ""), _row(*["---"] * 2)]
                parts += [_row(f"`{name}`", words) for name, words in rows.items()]
                parts.append("")
    return "\n".join(parts)


def _kinds(kind: type) -> Iterator[type]:
    """Yield a table's class and those of the tables in it."""
    yield kind
    for hint in get_type_hints(kind).values():
        for part in _leaves(hint):
            yield from _kinds(part)


def _leaves(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and (issubclass(hint, BaseModel) or dataclasses.is_dataclass(hint)):
        yield hint
    for part in get_args(hint):
        yield from _leaves(part)


def _tables(schema: dict[str, Any], table: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield each table as it is written in TOML, with the name of its class."""
    if not path:
        yield "", ""
    for key, value in table["properties"].items():
        name = _reference(value)
        if name is not None:
            place = f"{path}.{key}" if path else key
            yield f"[[{place}]]" if value.get("type") == "array" else f"[{place}]", name
            yield from _tables(schema, schema["$defs"][name], place)


def _reference(value: dict[str, Any]) -> str | None:
    """Return the class of the table, or list of tables, that a key holds."""
    for part in (value, value.get("items", {}), *value.get("anyOf", [])):
        if "$ref" in part:
            return str(part["$ref"]).rpartition("/")[2]
    return None


def _path(place: str) -> str:
    """Return what the keys of a table begin with: `data.` for `[data]`."""
    return f"{place.strip('[]')}." if place else ""


def _type(value: dict[str, Any]) -> str:
    """Describe the values that a key may have."""
    if "anyOf" in value:
        kinds = [_type(part) for part in value["anyOf"] if part.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in value or "const" in value:
        return " ".join(f"`{inline(each)}`" for each in value.get("enum", [value.get("const")]))
    if value.get("type") == "array":
        kind = _type(value["items"])
        return "tables" if kind == "table" else f"list of {kind}"
    if "$ref" in value or value.get("type") == "object":
        return "table"
    bounds = [f"{sign} {_number(value[key])}" for key, sign in _BOUNDS.items() if key in value]
    return f"{value.get('type', 'any value')} {', '.join(bounds)}".strip()


def _number(bound: float) -> str:
    return "2^64" if bound == 2**64 else f"{bound:.15g}"


def _default(key: str, value: dict[str, Any], required: list[str]) -> str:
    if key in required:
        return "required"
    if _reference(value) is not None:
        return ""
    return _value(value.get("default"))


def _value(default: Any) -> str:
    """Write a default as TOML does; nothing where there is none."""
    if default is None or default == {}:
        return ""
    return f"`{inline(default)}`"


def _row(*cells: str) -> str:
    return row(cell.replace("|", r"\|") for cell in cells)
