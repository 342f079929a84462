"""Hostile values, and changes of trees, bytes and words."""

from __future__ import annotations

import copy
import json
import math
from random import Random
from typing import Any


class Raw(str):
    """Text that is written into a file as it stands."""

    __slots__ = ()


NUMBERS: list[Any] = [
    *(0, 1, -1, 2, 3, -0.0, 0.5, 1e-9, 1e-300, 5e-324, 1e16, 1e300, 1.7e308, -1e300),
    *(math.inf, -math.inf, math.nan, True, False),
    *(2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), 10**18, 10**400),
    *(Raw("1e400"), Raw("9" * 5000), Raw("-" + "9" * 400)),
]
TEXTS: list[Any] = [
    *("", " ", "\0", "\n", "\r", "\t", ",", "::", "-", "0", "x", "nan", "inf", "1_0", "9e999"),
    *(
        "[/]",
        "[bold",
        "[bold]x[/bold]",
        "[link=http://example.com]x",
        "[@click=f()]x[/]",
        ":smile:",
    ),
    *("\x1b[31mred", "\x1b]52;c;aGk=\a", "\x9b31m", "\x85", "\u202eabc\u202c", "\u2066x", "\u2028"),
    *("http://example.com/x", "<script>alert(1)</script>", "a|b`c*d_e", "{{7*7}}", "{% if %}"),
    *("${HOME}", "${", "${NOT_SET_1}", "~", "../..", "/", "/dev/zero", "%s%n", "=1+1", "entropy"),
    *("\ufeff", "\U0001f600", "e\u0301", "\ud800", "9" * 5000, "long " * 2000, "claim", "learned"),
]
STRUCTURES: list[Any] = [
    *([], {}, [[]], [{}], {"": 0}, {"a": {"b": {"c": 1}}}, [1, "x", {}], ["x"] * 3000, [None]),
    *([0, 0], [1, 2, 3], list(range(3000)), [math.nan, math.nan], {"\x1b[1m": 1}, {"[/]": []}),
    Raw("[" * 3000 + "]" * 3000),
]
KEYS = [
    "",
    "x",
    "__class__",
    "model",
    "epsilon",
    "\x1b]52;c;aGk=\a",
    "[/]",
    "k" * 3000,
    "a.b",
    "\u2028",
]


def hostile(rng: Random) -> Any:
    # A copy, since what is put into a tree may be changed there.
    return copy.deepcopy(rng.choice(rng.choice((NUMBERS, NUMBERS, TEXTS, TEXTS, STRUCTURES))))


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (table or list, key) of a tree."""
    found = []
    left = [tree]
    while left:
        node = left.pop()
        keys = node if isinstance(node, dict) else range(len(node))
        for key in keys:
            found.append((node, key))
            if isinstance(node[key], dict | list):
                left.append(node[key])
    return found


def mutated(rng: Random, tree: Any) -> Any:
    """A copy with one to three changes."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 2, 3))):
        found = places(tree)
        if found:
            _change(rng, *rng.choice(found), found)
    return tree


def _change(rng: Random, node: Any, key: Any, others: list[tuple[Any, Any]]) -> None:
    way = rng.randrange(10)
    if way < 5:
        node[key] = _like(rng, node[key]) if rng.random() < 0.4 else hostile(rng)
    elif way == 5:
        del node[key]
    elif way == 6:
        other, there = rng.choice(others)
        node[key] = copy.deepcopy(other[there])
    elif isinstance(node, list):
        node.insert(key, copy.deepcopy(node[key]))
    elif way == 7:
        node[rng.choice(KEYS)] = node.pop(key)
    else:
        node[rng.choice([*KEYS, f"{key}"])] = hostile(rng)


def _like(rng: Random, value: Any) -> Any:
    """A hostile value of the same kind, which passes the first checks."""
    if isinstance(value, str):
        return rng.choice(TEXTS)
    if isinstance(value, int | float):
        return rng.choice([value + 1, -value, value * 10**9, *NUMBERS])
    return value * 2 if isinstance(value, list) else hostile(rng)


def torn(rng: Random, data: bytes) -> bytes:
    """Bytes with some changed, cut, repeated or put in."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(made) + 1)
        way = rng.randrange(7)
        if way <= 2 and at < len(made):
            made[at] = rng.randrange(256) if way else made[at] ^ (1 << rng.randrange(8))
        elif way == 3:
            del made[at : at + rng.choice((1, 2, 8, len(made)))]
        elif way == 4:
            made[at:at] = made[at : at + rng.choice((1, 8, 64))]
        else:
            made[at:at] = token(rng)
    return bytes(made)


def token(rng: Random) -> bytes:
    """A hostile value as it may stand in a text file."""
    value = rng.choice(rng.choice((NUMBERS[:-1], TEXTS)))
    if rng.random() < 0.05:
        return rng.choice(
            [b"\xff", b"\0\0", b'"', b"'" * 3, b"\x1f\x8b", b",", b"\n\n", b"[[", b"="]
        )
    return f"{value}".encode(errors="surrogatepass")


def json_text(tree: Any) -> str:
    """As JSON, in which raw text stands as it is."""
    raws: list[str] = []

    def marked(node: Any) -> Any:
        if isinstance(node, Raw):
            raws.append(node)
            return f"@raw{len(raws) - 1}@"
        if isinstance(node, dict):
            return {key: marked(value) for key, value in node.items()}
        return [marked(value) for value in node] if isinstance(node, list) else node

    text = json.dumps(marked(tree))
    for number, raw in enumerate(raws):
        text = text.replace(f'"@raw{number}@"', raw)
    return text


def toml_text(tree: dict[str, Any]) -> str:
    """As TOML: tables under headers at the top, in braces below."""
    plain, tables = [], []
    for key, value in tree.items():
        if isinstance(value, dict):
            tables.append(f"[{_quoted(key)}]\n{_lines(value)}")
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            tables += [f"[[{_quoted(key)}]]\n{_lines(each)}" for each in value]
        else:
            plain.append(f"{_quoted(key)} = {toml_value(value)}")
    return "\n".join([*plain, *tables]) + "\n"


def _lines(table: dict[str, Any]) -> str:
    return "\n".join(f"{_quoted(key)} = {toml_value(value)}" for key, value in table.items())


def toml_value(value: Any) -> str:
    if isinstance(value, Raw):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        inside = ", ".join(f"{_quoted(key)} = {toml_value(each)}" for key, each in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    return _quoted(value, bare=False) if isinstance(value, str) else repr(value)


def _quoted(text: str, *, bare: bool = True) -> str:
    if bare and text.isascii() and text.replace("_", "").isalnum():
        return text
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
