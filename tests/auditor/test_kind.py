"""What the numbers of each kind of audit are about, by the keys that keep two of them apart."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from dpaudit.record.comparison import apart
from dpaudit.record.result import AuditResult, Measurement
from tests.support.records import estimate, make_result

GAME = {"pair": "many", "observe": None, "attack": "canary", "trials": 50, "candidates": 20}
DEFENSE = {"target": "m:f", "label": "f", "d": [0], "d_prime": [1], "score": "learned"}
CONFIGS: dict[str, dict[str, Any]] = {
    "on_demand": {"audit": {"trials": 100}, "split": {"test_share": 0.2}, "game": [GAME]},
    "sybil": {"audit": {"trials": 100}, "sybil": [{"label": "dynamic", "trials": 20}]},
    "trained": {"train": {"folds": 5, "trials": 16}, "game": [GAME]},
    "federated": {"train": {"folds": 5}, "transcript": {"trials": 4, "users": 200}},
    "attributes": {
        "attributes": {"column": ["g"], "observers": ["scores"], "trainings": 2, "k": 10}
    },
    "mechanism": {"audit": {"trials": 100}, "defense": DEFENSE},
    "of no package": {"audit": {"trials": 100}, "model": [{"label": "published"}]},
}


def record(kind: str, *numbers: Measurement, **changes: Any) -> AuditResult:
    """A record with a value at each of these dotted keys of its config or of its attacks."""
    parts = {"config": {"seed": 7, **deepcopy(CONFIGS[kind])}}
    parts |= {
        name: {"one": {"trials": 20, "efforts": [1]}} for name in ("attacks", "sybil_attacks")
    }
    for path, value in changes.items():
        *tables, key = path.split(".")
        part: Any = parts if path.startswith(("attacks", "sybil_attacks")) else parts["config"]
        for name in tables:
            part = part[int(name)] if isinstance(part, list) else part.setdefault(name, {})
        part[key] = value
    return make_result().model_copy(update={"kind": kind, "measurements": [*numbers], **parts})


def number(metric: str, **fields: Any) -> Measurement:
    known = estimate(0.5, 0.4, 0.6)
    return Measurement(metric=metric, model="published", epsilon=1.0, estimate=known, **fields)


ACCURACY = number("attack.accuracy", attack="one")
ADVANTAGE = number("attack.advantage", attack="canary", pair="many")
BOUND = number("epsilon", attack="canary", pair="many")
RMSE, OVERLAP = number("utility.rmse"), number("utility.overlap")
SYBIL = number("sybil.accuracy", attack="one", effort=1)
AREA = number("attack.auc", attack="one", step=4)
SCORES, LIST = (
    number("attributes.advantage", attribute="g", observer=observer, basis="better than a guess")
    for observer in ("scores", "own-list")
)


@pytest.mark.cases(
    ("kind", "one", "path", "value", "separate"),
    [
        # A number of trials narrows an interval; it does not decide what is in it.
        ("on_demand", ACCURACY, "audit.trials", 200, False),
        ("on_demand", OVERLAP, "audit.trials", 200, False),
        ("sybil", SYBIL, "sybil_attacks.one.trials", 40, False),
        ("trained", RMSE, "train.trials", 32, False),
        ("federated", AREA, "transcript.trials", 8, False),
        # But a game learns from its trials.
        ("on_demand", ADVANTAGE, "game.0.trials", 100, True),
        ("on_demand", BOUND, "game.0.trials", 100, True),
        ("mechanism", BOUND, "audit.trials", 200, True),
        # Who is attacked, and by whom.
        ("on_demand", ACCURACY, "split.test_share", 0.5, True),
        ("on_demand", ACCURACY, "attacks.one.draw", "ratings", True),
        ("on_demand", ACCURACY, "attacks.two", {"name": "other"}, False),
        ("on_demand", OVERLAP, "attacks.one.draw", "ratings", False),
        ("sybil", SYBIL, "sybil_attacks.one.background", 20, True),
        ("sybil", SYBIL, "sybil_attacks.two", {"trials": 5}, False),
        ("trained", RMSE, "train.folds", 10, True),
        ("trained", ADVANTAGE, "game.0.candidates", 40, True),
        ("trained", RMSE, "game.0.candidates", 40, False),
        ("trained", ADVANTAGE, "game.0.details", True, False),
        ("federated", AREA, "transcript.users", 20, True),
        ("attributes", SCORES, "attributes.trainings", 3, True),
        ("attributes", SCORES, "attributes.column", ["g", "age"], True),
        ("attributes", SCORES, "attributes.observers", ["scores", "own-list"], False),
        ("attributes", SCORES, "attributes.k", 5, False),
        ("attributes", LIST, "attributes.k", 5, True),
        ("mechanism", BOUND, "defense.d_prime", [2], True),
        ("mechanism", BOUND, "defense.score", "m:g", True),
        ("mechanism", BOUND, "defense.target", "m:better", False),
        # What judges or reports, and the models themselves.
        ("on_demand", ACCURACY, "audit.confidence", 0.9, False),
        ("on_demand", ACCURACY, "model", [{"label": "published", "params": {"x": 1}}], False),
        ("on_demand", ACCURACY, "convergence.users", 5, False),
        # What no version knows yet, and kinds that are not installed.
        ("on_demand", ACCURACY, "later.key", 1, True),
        ("of no package", ACCURACY, "audit.trials", 200, True),
    ],
)
def test_numbers_are_apart_by_what_they_are_about(
    kind: str, one: Measurement, path: str, value: Any, separate: bool
) -> None:
    found = apart(record(kind), record(kind, **{path: value}), one, one)
    assert bool(found) is separate, found
    if separate:
        key = path.replace("game.0", "game.many.0").replace("attacks", "attack")
        key = key.removeprefix("sybil_")
        assert found[0].key.startswith(key)


@pytest.mark.cases("config", [{}, {"game": 5}, {"game": [3]}, {"audit": []}, {"sybil": {"x": 1}}])
def test_a_config_of_any_shape_is_compared(config: dict[str, Any]) -> None:
    for kind in CONFIGS:
        before = record(kind)
        after = before.model_copy(update={"config": config})
        assert apart(before, after, ADVANTAGE, ADVANTAGE)


def test_a_leak_is_about_all_games_that_it_is_the_largest_of() -> None:
    leak = number("leak", attack="canary", pair="many")
    other = ADVANTAGE.model_copy(update={"pair": "user"})
    before, after = record("trained", leak, ADVANTAGE), record("trained", leak, ADVANTAGE, other)
    assert [one.key for one in apart(before, after, leak, leak)] == ["games"]
    assert not apart(before, before, leak, leak)
    longer = record("trained", leak, ADVANTAGE, **{"game.0.trials": 500})
    assert [one.key for one in apart(before, longer, leak, leak)] == ["game.many.0.trials"]


def test_every_game_of_a_leak_counts() -> None:
    """Also the first of several: none hides what another one is about."""
    leak = number("leak", attack="canary", pair="many")
    numbers = leak, ADVANTAGE, ADVANTAGE.model_copy(update={"pair": "user"})
    games = [[{**GAME, "trials": trials}, {**GAME, "pair": "user"}] for trials in (50, 500)]
    before, after = (record("trained", *numbers, game=tables) for tables in games)
    assert [one.key for one in apart(before, after, leak, leak)] == ["game.many.0.trials"]
