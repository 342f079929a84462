"""Verdicts on a paper's sentences: what intervals and ends of grids decide."""

from __future__ import annotations

from typing import Any

import pytest
import social_verdicts  # type: ignore[import-not-found]
from records import estimate  # type: ignore[import-not-found]
from social_verdicts import Alike, Larger, Part, Sentence, at_edge, judged, verdict

from dpaudit.core.estimate import Estimate

A, B, LOW, HIGH = ("A", 0.1), ("B", 0.1), ("low", 0.1), ("high", 0.1)
METRIC = ("utility.rmse", None)


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let a result be its estimates by model, with those at an end of a grid under `edges`."""
    monkeypatch.setattr(social_verdicts, "estimates", lambda result, *_: result["of"])
    monkeypatch.setattr(social_verdicts, "edges_of", lambda result: result["edges"])
    ends = {LOW: about(1.0, 0.0), HIGH: about(2.0, 0.0)}
    return {
        "x = 10 %": {"of": {A: about(1.5), B: about(1.2), **ends}, "edges": set()},
        "x = 20 %": {"of": {A: about(1.3), B: about(1.2), **ends}, "edges": {A}},
        "x = 30 %": {"of": {A: about(1.2), B: about(1.5), **ends}, "edges": set()},
    }


def about(value: float, width: float = 0.1) -> Estimate:
    made: Estimate = estimate(value, value - width / 2, value + width / 2)
    return made


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([True, True], "so"),
        ([True, None], "undecided"),
        ([True, False], "undecided"),
        ([False, None], "not so"),
        ([None], "undecided"),
        ([], "undecided"),
    ],
)
def test_a_sentence_fails_only_if_nothing_supports_it(
    states: list[bool | None], expected: str
) -> None:
    assert verdict(Part("a", "b", state) for state in states) == expected


@pytest.mark.parametrize(
    ("value", "offered", "expected"),
    [
        (1.0, [0.0, 0.1, 1.0], True),
        (0.1, [0.0, 0.1, 1.0], False),
        (0.0, [0.0, 0.1, 1.0], False),  # nothing is less
        (0.1, [0.1, 0.2], True),
        (0.1, [0.1], False),  # nothing else was offered
        ("constant", ["normal", "constant"], False),
    ],
)
def test_an_end_of_a_grid(value: object, offered: list[object], expected: bool) -> None:
    assert at_edge(value, offered) is expected


def test_overlapping_intervals_decide_nothing(results: dict[str, Any]) -> None:
    results["x = 20 %"]["of"][A] = about(1.25)
    rule = Larger("A errs more", [METRIC], [(A, B)])
    assert [part.holds for part in rule.parts(results)] == [True, None, False]


def test_what_fails_at_an_end_of_a_grid_is_open(results: dict[str, Any]) -> None:
    rule = Larger("B errs more", [METRIC], [(B, A)])
    assert [part.holds for part in rule.parts(results)] == [False, None, True]
    text = judged(Sentence("B is worse", [rule]), results)
    assert text.startswith("- “B is worse”: **undecided**.")
    assert "fails: B, ε = 0.1 above A, ε = 0.1 at x = 10 %" in text
    assert "open: B, ε = 0.1 above A, ε = 0.1 at x = 20 %" in text


def test_alike_is_judged_by_what_separates_two_others(results: dict[str, Any]) -> None:
    rule = Alike("alike", [METRIC], [(A, B)], (HIGH, LOW))
    # 0.25 is allowed: 0.3 apart with intervals of 0.1 is open, 0.1 holds.
    assert [part.holds for part in rule.parts(results)] == [None, True, None]
    results["x = 30 %"]["of"][B] = about(1.9)
    assert [part.holds for part in rule.parts(results)] == [None, True, False]
    assert [part.what for part in rule.parts(results)][2] == "B, ε = 0.1 above A, ε = 0.1"


def test_nothing_is_judged_where_nothing_was_run() -> None:
    text = judged(Sentence("A is worse", [Larger("A errs more", [METRIC], [(A, B)])]), {})
    assert "**undecided**" in text
    assert "(not run)" in text
