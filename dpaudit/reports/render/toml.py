"""A recorded config as TOML, so that a run can be repeated from its report."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from dpaudit.core.messages import escaped

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def render(config: dict[str, Any]) -> str:
    """Render the config as TOML, without unset keys."""
    config = {key: part for key, part in _without_unset(config).items() if part not in ([], {})}
    tables = {key: value for key, value in config.items() if _is_table(value)}
    blocks = ["\n".join(_line(key, config[key]) for key in config if key not in tables)]
    for key, value in tables.items():
        several = isinstance(value, list)
        header = f"[[{_key(key)}]]" if several else f"[{_key(key)}]"
        for table in value if several else [value]:
            blocks.append("\n".join([header, *(_line(*pair) for pair in table.items())]))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _without_unset(value: Any) -> Any:
    """Remove unset keys, as TOML has no null; on reading they get their defaults."""
    if isinstance(value, dict):
        return {key: _without_unset(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_without_unset(part) for part in value if part is not None]
    return value


def _is_table(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(part, dict) for part in value)
    return isinstance(value, dict)


def _line(key: str, value: Any) -> str:
    return f"{_key(key)} = {inline(value)}"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def inline(value: Any) -> str:
    """Format a value of a config on one line."""
    if isinstance(value, dict):
        pairs = ", ".join(_line(*pair) for pair in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(inline(part) for part in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value in ("Infinity", "-Infinity"):  # the strings that stand for infinite numbers in JSON
        return value.replace("Infinity", "inf")
    if isinstance(value, str):
        return _text(value)
    return repr(value) if isinstance(value, int) or math.isfinite(value) else str(value)


def _text(value: str) -> str:
    """Format a basic string with JSON's escapes, which TOML shares; escape invisible characters."""
    return escaped(json.dumps(value, ensure_ascii=False), lambda letter: f"\\U{ord(letter):08x}")
