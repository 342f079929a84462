"""Configs that are planned or run: `dpaudit plan` and `dpaudit run`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any

from fuzz_checks import command  # type: ignore[import-not-found]
from fuzz_harness import Case, Make  # type: ignore[import-not-found]
from fuzz_small import SMALL, run  # type: ignore[import-not-found]
from fuzz_values import NUMBERS, TEXTS, mutated, toml_text  # type: ignore[import-not-found]

from dpaudit.core import registry

_FLOATS = [0.0, -0.0, 5e-324, 1e-300, 1e-16, 1e-3, 0.5, 1.0, 30.0, 1e6, 1e16, 1e300, -1.0, -1e300]
_SIZES = [-1, 0, 1, 2, 3, 7]
_ANY: dict[str, Any] = {"errors": "surrogatepass"}


def maker(folder: Path) -> Make:
    """Compile what runs need, before any child is made."""
    path = folder / "audit.toml"
    for name, config in SMALL.items():
        path.write_text(toml_text(config), encoding="utf-8")
        said = run(path, folder / "out")
        if said:
            raise RuntimeError(f"{name}: {said}")
    command("plan", path)

    def make(rng: Random) -> Case:
        return _planned(rng, path) if rng.random() < 0.4 else _ran(rng, path, folder / "out")

    return make


def _planned(rng: Random, path: Path) -> Case:
    if rng.random() < 0.5:
        config = copy.deepcopy(SMALL["slope-one"])
        for table in ("model", "game", "audit", "gate"):
            if rng.random() < 0.5:
                config[table] = mutated(rng, config[table])
        text = toml_text(config).encode(**_ANY)
        extra = rng.choice(
            [(), ("--factor", rng.choice(_FLOATS)), ("--minutes", rng.choice(_FLOATS))]
        )
        return _commanded(path, text, ("plan", path, *extra))
    names = ("epsilon", "delta", "confidence", "trials", "factor")
    given: list[object] = ["plan", "--epsilon", rng.choice(_FLOATS[3:9])]
    for name in rng.sample(names, rng.choice((1, 2))):
        number = rng.choice([*_FLOATS, *_SIZES, 1000, *NUMBERS])
        given.append(f"--{name}={number}")
    given.append(f"--game={rng.choice(('laplace', 'gaussian', 'randomized-response'))}")
    return _commanded(path, b"", tuple(given))


def _commanded(path: Path, text: bytes, arguments: tuple[object, ...]) -> Case:
    def attempt() -> str | None:
        path.write_bytes(text)
        said: str | None = command(*arguments)
        return said

    return Case(lambda: f"dpaudit {' '.join(map(repr, arguments))} {text!r}", attempt)


def _ran(rng: Random, path: Path, folder: Path) -> Case:
    """Numbers that are hostile and of the right kind; sizes stay small, so that a run is short."""
    config = copy.deepcopy(SMALL[rng.choice(list(SMALL))])
    changes: list[Callable[[Random, dict[str, Any]], None]] = [
        _parameter,
        _parameter,
        _parameter,
        _level,
        _noise,
        _label,
    ]
    for change in rng.choices(changes, k=rng.choice((1, 2))):
        change(rng, config)
    text = toml_text(config).encode(**_ANY)
    # Fresh: a case finds nothing of the cases before it, so that it fails alone too.
    return _commanded(path, text, ("run", path, "-o", folder, "--workers", 1, "--fresh"))


def _parameter(rng: Random, config: dict[str, Any]) -> None:
    for model in rng.choice((config["model"], config["model"][-1:])):
        chosen = rng.choice(fields(registry.load("defenses", model["defense"])))
        kind = str(chosen.type)
        if chosen.name in {"epsilon", "variant"}:
            continue
        if "int" in kind.lower():
            model["params"][chosen.name] = rng.choice(_SIZES)
        elif "bool" in kind:
            model["params"][chosen.name] = rng.random() < 0.5
        else:
            model["params"][chosen.name] = rng.choice(_FLOATS)


def _level(rng: Random, config: dict[str, Any]) -> None:
    if rng.random() < 0.5:
        config["audit"] = {"trials": 10, "confidence": rng.choice([1e-300, 1e-9, 0.5, 1 - 1e-16])}
    for model in config["model"]:
        model["epsilon"] = rng.choice([[1e-3], [1e-6], [1e6], [5e-324], [1e300], [1.0, 1e-9]])


def _noise(rng: Random, config: dict[str, Any]) -> None:
    synthetic = config["data"]["synthetic"] = dict(config["data"]["synthetic"])
    way = rng.randrange(4)
    if way == 0:
        synthetic["noise"] = rng.choice([0.0, 1e-300, 1e300, 1e16])
    elif way == 1:
        low = rng.choice([0.0, -1e6, 1e-9, 1.0, 5.0, 1e6])
        synthetic["scale"] = {"minimum": low, "maximum": low, "step": rng.choice([1e-9, 1.0])}
    elif way == 2:
        step = rng.choice([1e-300, 1e-9, 1e-3, 1e5])
        synthetic["scale"] = {"minimum": 0.0, "maximum": 2 * step, "step": step}
    else:
        synthetic[rng.choice(["n_users", "n_items", "rank", "minimum_per_user"])] = rng.choice(
            [1, 2, 3, 15]
        )


def _label(rng: Random, config: dict[str, Any]) -> None:
    config["model"][0]["label"] = rng.choice(TEXTS)
    for attack in config.get("attack", []):
        attack["label"] = rng.choice(TEXTS)
