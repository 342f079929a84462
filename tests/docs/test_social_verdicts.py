"""Verdicts on a paper's sentences: what intervals and ends of grids decide."""

from __future__ import annotations

import pytest
from records import estimate  # type: ignore[import-not-found]
from social_numbers import Numbers, at_edge  # type: ignore[import-not-found]
from social_verdicts import Alike, Larger, Part, Sentence, judged, verdict  # type: ignore[import-not-found]

from dpaudit.core.estimate import Estimate

A, B, LOW, HIGH = ("A", 0.1), ("B", 0.1), ("low", 0.1), ("high", 0.1)
METRIC = ("utility.rmse", None)


@pytest.fixture
def places() -> dict[str, Numbers]:
    """Return numbers of A and B at three places; at the second A stands at an end of a grid."""
    ends = {LOW: about(1.0, 0.0), HIGH: about(2.0, 0.0)}
    return {
        "x = 10 %": Numbers({METRIC: {A: about(1.5), B: about(1.2), **ends}}),
        "x = 20 %": Numbers({METRIC: {A: about(1.3), B: about(1.2), **ends}}, frozenset({A})),
        "x = 30 %": Numbers({METRIC: {A: about(1.2), B: about(1.5), **ends}}),
    }


def about(value: float, width: float = 0.1) -> Estimate:
    made: Estimate = estimate(value, value - width / 2, value + width / 2)
    return made


@pytest.mark.cases(
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


@pytest.mark.cases(
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


def test_overlapping_intervals_decide_nothing(places: dict[str, Numbers]) -> None:
    places["x = 20 %"] = Numbers({METRIC: {A: about(1.25), B: about(1.2)}})
    rule = Larger("A errs more", [METRIC], [(A, B)])
    assert [part.holds for part in rule.parts(places)] == [True, None, False]


def test_what_fails_at_an_end_of_a_grid_is_open(places: dict[str, Numbers]) -> None:
    rule = Larger("B errs more", [METRIC], [(B, A)])
    assert [part.holds for part in rule.parts(places)] == [False, None, True]
    text = judged(Sentence("B is worse", [rule]), places)
    assert text.startswith("- “B is worse”: **undecided**.")
    assert "fails: B, ε = 0.1 above A, ε = 0.1 at x = 10 %" in text
    assert "open: B, ε = 0.1 above A, ε = 0.1 at x = 20 %" in text


def test_alike_is_judged_by_what_separates_two_others(places: dict[str, Numbers]) -> None:
    rule = Alike("alike", [METRIC], [(A, B)], (HIGH, LOW))
    # 0.25 is allowed: 0.3 apart with intervals of 0.1 is open, 0.1 holds.
    assert [part.holds for part in rule.parts(places)] == [None, True, None]
    places["x = 30 %"].by[METRIC][B] = about(1.9)
    assert [part.holds for part in rule.parts(places)] == [None, True, False]
    assert [part.what for part in rule.parts(places)][2] == "B, ε = 0.1 above A, ε = 0.1"


def test_nothing_is_judged_where_nothing_was_run() -> None:
    text = judged(Sentence("A is worse", [Larger("A errs more", [METRIC], [(A, B)])]), {})
    assert "**undecided**" in text
    assert "(not run)" in text
