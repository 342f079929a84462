"""Configs that are read: changed tables, changed text, overrides."""

from __future__ import annotations

import tomllib
from pathlib import Path
from random import Random
from typing import Any

from fuzz_checks import call  # type: ignore[import-not-found]
from fuzz_harness import Case, Make  # type: ignore[import-not-found]
from fuzz_small import SMALL  # type: ignore[import-not-found]
from fuzz_values import TEXTS, hostile, mutated, places, toml_text, toml_value, torn  # type: ignore[import-not-found]

from dpaudit.config.load import load

EXAMPLES = Path(__file__).parents[2] / "examples"
_MANY = [0.001 * k for k in range(1, 31)]
_ANY: dict[str, Any] = {"errors": "surrogatepass"}


def maker(folder: Path) -> Make:
    path = folder / "audit.toml"
    texts = [each.read_text(encoding="utf-8") for each in sorted(EXAMPLES.glob("*.toml"))]
    texts += [toml_text(config) for config in SMALL.values()]
    trees = [tomllib.loads(text) for text in texts]

    def make(rng: Random) -> Case:
        way = rng.random()
        if way < 0.6:
            return _loaded(path, toml_text(_changed(rng, rng.choice(trees))).encode(**_ANY))
        if way < 0.8:
            return _loaded(path, torn(rng, rng.choice(texts).encode()))
        return _overridden(rng, path, rng.choice(trees))

    return make


def _changed(rng: Random, tree: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = mutated(rng, tree)
    way = rng.random()
    if way < 0.0005:
        made["model"] = [{"label": f"m{k}"} for k in range(20_000)]
    elif way < 0.001:
        made["game"] = [{"pair": f"p{k}"} for k in range(3000)]
        made["gate"] = [{"metric": "epsilon", "max": 1, "detectable": 2}] * 3000
    elif way < 0.0015:
        grid = dict.fromkeys(("learning_rate", "decay", "spread", "clip_norm"), _MANY)
        made["model"] = {"defense": "dpsgd-mf", "grid": grid}
    return made


def _loaded(path: Path, text: bytes, overrides: tuple[str, ...] = ()) -> Case:
    def attempt() -> str | None:
        path.write_bytes(text)
        said: str | None = call(lambda: load(path, overrides))
        return said

    return Case(lambda: f"load {overrides} {text!r}", attempt)


def _overridden(rng: Random, path: Path, tree: dict[str, Any]) -> Case:
    keys = [".".join(map(str, place)) for place in _routes(tree)]
    overrides = []
    for _ in range(rng.choice((1, 1, 2))):
        key, value = rng.choice(keys), hostile(rng)
        if rng.random() < 0.3:
            key = rng.choice([f"{key}.x", f"x.{key}", key[:-1], "a." * 3000 + "b", *TEXTS])
        written = value if isinstance(value, str) and rng.random() < 0.5 else toml_value(value)
        overrides.append(f"{key}={written}")
    return _loaded(path, toml_text(tree).encode(), tuple(overrides))


def _routes(tree: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = []
    for node, key in places(tree):
        if node is tree:
            found.append((*above, key))
            if isinstance(node[key], dict | list):
                found += _routes(node[key], (*above, key))
    return found
