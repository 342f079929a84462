from __future__ import annotations

from itertools import pairwise

import pytest

from dpaudit.reports.chart_parts import (
    COLORS,
    MUTED,
    REST,
    Label,
    Look,
    extremes,
    labels,
    ranked,
    spread,
)


@pytest.mark.parametrize("wanted", [[5.0, 5.0, 5.0], [95.0, 99.0, 100.0], [0.0, 50.0, 51.0], []])
def test_labels_are_spread_without_overlap(wanted: list[float]) -> None:
    places = spread(wanted, 15, 100)
    assert all(place <= 100 for place in places)
    ordered = sorted(places)
    assert all(low + 15 <= high for low, high in pairwise(ordered))
    assert [places.index(place) for place in ordered] == list(range(len(wanted)))


def test_labels_far_apart_stay_at_their_lines() -> None:
    assert spread([10.0, 60.0], 15, 100) == [10.0, 60.0]


def test_a_model_has_one_colour_and_its_attacks_have_dashes() -> None:
    data = [
        {"series": f"{model}, {attack}", "model": model, "attack": attack, "value": value}
        for model, value in (("a", 0.2), ("b", 0.9))
        for attack in ("one", "two")
    ]
    series = {line.name: line for line in Look(["b", "a"]).series(data, "value")}
    assert list(series)[:2] == ["b, one", "b, two"]
    assert series["b, one"].color == series["b, two"].color == COLORS[0]
    assert series["a, one"].color == COLORS[1]
    assert series["b, one"].dash == series["a, one"].dash != series["b, two"].dash


def test_series_that_one_colour_and_dash_cannot_tell_apart_are_ranked() -> None:
    data = [
        {"series": f"{model}, ε = {epsilon}", "model": model, "value": epsilon}
        for model, epsilon in (("a", 1), ("a", 2), ("b", 3))
    ]
    series = Look(["a", "b"]).series(data, "value")
    assert series == ranked(data, "value")
    assert [(line.name, line.color) for line in series] == [
        ("b, ε = 3", COLORS[0]),
        ("a, ε = 2", COLORS[1]),
        ("a, ε = 1", COLORS[2]),
    ]


def test_more_models_than_colours_have_colours_by_rank() -> None:
    models = [f"m{n}" for n in range(9)]
    data = [{"series": name, "model": name, "value": -n} for n, name in enumerate(models)]
    series = Look(models).series(data, "value")
    assert [line.color for line in series] == [*COLORS, REST, REST, REST]


def test_a_grey_series_has_its_label_at_its_line() -> None:
    _, rows = labels([Label("a", 1.0, COLORS[0]), Label("b", 1.0, REST), Label("guess", 0.5)])
    kinds = {row["series"]: row["kind"] for row in rows}
    assert kinds == {"a": "series", "b": "grey", "guess": "baseline"}
    assert {row["series"]: row["at"] for row in rows} == {"a": 0, "b": 0, "guess": 160}
    assert next(row["ink"] for row in rows if row["kind"] == "baseline") == MUTED


def test_extremes_are_said_of_one_number_and_of_several() -> None:
    one = {"value": 1.0, "words": "1", "name": "x"}
    assert extremes("area", [one]) == "The area is 1 (x)."
    two = {"value": 2.0, "words": "2", "name": "y"}
    assert extremes("area", [one, two]) == "The largest area is 2 (y), the smallest 1 (x)."
