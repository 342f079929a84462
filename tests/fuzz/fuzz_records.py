"""Records of finished runs: changed, judged by gates and waivers, compared and rendered."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

from fuzz_checks import command, refusal, steering  # type: ignore[import-not-found]
from fuzz_harness import Case, Make  # type: ignore[import-not-found]
from fuzz_small import SMALL, run  # type: ignore[import-not-found]
from fuzz_values import TEXTS, json_text, mutated, places, toml_text, torn  # type: ignore[import-not-found]
from rich.console import Console

from dpaudit.core.errors import DpauditError
from dpaudit.record import storage as record
from dpaudit.record.result import AuditResult
from dpaudit.reports.render.console import show

_RUNS = ("slope-one", "dpsgd-mf", "fake-gradients", "privsr")
_WEIGHTS = (8, 8, 1, 8)  # a record of transcripts is long
_OTHERS = (
    "card", "card-yaml", "evidence", "sarif", "junit", "gitlab", "github", "github-summary",
    "badge",
)  # fmt: skip
_POLICY: list[dict[str, Any]] = [
    {"metric": "attack.accuracy", "max": 0.5},
    {"metric": "epsilon", "max": "claim", "detectable": 2},
    {"metric": "epsilon", "max": 1.0, "detectable": 1e6},
    {"metric": "utility.rmse", "min": 0.0},
    {"metric": "attack.auc", "max": 0.5},
    {"metric": "epsilon", "max": 2, "detectable": 2, "where": {"epsilon": 1}},
]
_WAIVERS: list[dict[str, Any]] = [
    {"id": name, "owner": "o", "statement": "s", "expires": "9999-12-31"}
    for name in ("gate/epsilon/max", "claim/slope-one published/1", "claim/m/1")
]


def maker(folder: Path) -> Make:
    policy, run = folder / "policy.toml", folder / "run"
    waivers, baseline = folder / "waivers.toml", folder / "baseline"
    baseline.mkdir()
    seeds = [_record(folder, name) for name in _RUNS]
    changed = folder / "changed"
    changed.mkdir()
    for style in ("md", "html", "json", *_OTHERS):
        command("report", run, "--format", style)

    def make(rng: Random) -> Case:
        (seed,) = rng.choices(seeds, _WEIGHTS)
        content = (
            torn(rng, json.dumps(seed).encode())
            if rng.random() < 0.1
            else json_text(_changed(rng, seed)).encode()
        )
        rule = toml_text({"gate": [mutated(rng, gate) for gate in rng.sample(_POLICY, 1)]})
        waiver = toml_text({"waiver": [mutated(rng, each) for each in rng.sample(_WAIVERS, 1)]})
        way = rng.random()
        if way < 0.3:
            arguments: list[object] = ["gate", changed]
        elif way < 0.5:
            arguments = ["gate", changed, "--policy", policy]
            rule = toml_text({"gate": [rng.choice(_POLICY)]}) if rng.random() < 0.7 else rule
        elif way < 0.55:
            arguments = ["gate", changed, "--waivers", waivers]
        elif way < 0.6:
            arguments = ["gate", changed, "--baseline", baseline]
        elif way < 0.65:
            style = rng.choice(("text", "md", "json"))
            arguments = ["diff", *rng.sample((changed, baseline), 2), "--format", style]
        elif way < 0.7:
            arguments = ["report", changed, "--format", "md"]
        elif way < 0.8:
            arguments = ["report", changed, "--format", "json"]
        elif way < 0.83:
            arguments = ["report", changed]
        elif way < 0.9:
            arguments = ["report", changed, "--format", rng.choice(_OTHERS)]
        else:
            arguments = []

        def attempt() -> str | None:
            (changed / record.NAME).write_bytes(content)
            (baseline / record.NAME).write_text(json.dumps(seed))
            policy.write_bytes(rule.encode(errors="surrogatepass"))
            waivers.write_bytes(waiver.encode(errors="surrogatepass"))
            if not arguments:
                return _console(changed)
            said: str | None = command(*arguments, data="json" in arguments)
            return said

        words = [each.name if isinstance(each, Path) else f"{each}" for each in arguments]
        extra = rule if policy in arguments else waiver if waivers in arguments else ""
        return Case(
            lambda: f"{' '.join(words) or 'console'} {extra} {_difference(seed, content)}", attempt
        )

    return make


def _record(folder: Path, name: str) -> dict[str, Any]:
    config = folder / f"{name}.toml"
    config.write_text(toml_text(SMALL[name]), encoding="utf-8")
    said = run(config, folder / name)
    if said:
        raise RuntimeError(f"{name}: {said}")
    values: dict[str, Any] = json.loads((folder / name / record.NAME).read_text(encoding="utf-8"))
    return values


def _changed(rng: Random, seed: dict[str, Any]) -> Any:
    """Any change, or one that keeps the layout: names, numbers and what belongs together."""
    if rng.random() < 0.4:
        return mutated(rng, seed)
    made = json.loads(json.dumps(seed))
    for _ in range(rng.choice((1, 1, 2, 3))):
        node, key = rng.choice(
            [place for place in places(made) if _plain(place)] or [(made, "tool")]
        )
        if isinstance(node[key], str):
            node[key] = rng.choice([*TEXTS, "pass", "fail", "inconclusive", "NaN", "Infinity"])
        elif isinstance(node[key], bool):
            node[key] = not node[key]
        elif isinstance(node[key], int | float):
            values = [0, -1, 1, 2**63, 1e308, -1e308, 5e-324, "NaN", "Infinity", "-Infinity", None]
            node[key] = rng.choice([*values, float("nan"), float("inf"), 10**18, 10**400])
        elif isinstance(node[key], list):
            node[key] = rng.choice(
                [[], node[key][:1], node[key][1:], node[key] * 2, (node[key] * 50)[:200]]
            )
        else:
            node[key] = rng.choice([None, [], {}, 0])
    return made


def _plain(place: tuple[Any, Any]) -> bool:
    node, key = place
    return isinstance(node[key], str | int | float | list) or node[key] is None


def _console(folder: Path) -> str | None:
    try:
        result: AuditResult = record.load(folder)
    except DpauditError as error:
        said: str | None = refusal(error)
        return said
    written = StringIO()
    show(result, Console(file=written, width=100))
    found: str | None = steering(written.getvalue(), "the console")
    return found


def _difference(seed: dict[str, Any], content: bytes) -> str:
    """What was changed: the record itself is long."""
    before = json.dumps(seed, indent=0).splitlines()
    try:
        values = json.loads(content)
        after = json.dumps(values, indent=0).splitlines()
    except (ValueError, RecursionError):
        return repr(content[:200])
    old = set(before)
    return " ".join(line[:120] for line in after if line not in old)[:600]
