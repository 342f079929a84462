from __future__ import annotations

from itertools import pairwise

import pytest

from dpaudit.reports.chart_parts import (
    COLORS,
    MUTED,
    REST,
    Axis,
    Label,
    Look,
    Series,
    extremes,
    foremost,
    labels,
    numbers,
    panels,
    spread,
)


@pytest.mark.cases("wanted", [[5.0, 5.0, 5.0], [95.0, 99.0, 100.0], [0.0, 50.0, 51.0], []])
def test_labels_are_spread_without_overlap(wanted: list[float]) -> None:
    heights = [15.0, 30.0, 15.0][: len(wanted)]
    places = spread(wanted, heights, 100)
    pieces = sorted(
        (place - height / 2, place + height / 2)
        for place, height in zip(places, heights, strict=True)
    )
    assert all(end <= 100 for _, end in pieces)
    assert all(end <= start for (_, end), (start, _) in pairwise(pieces))
    assert sorted(range(len(wanted)), key=lambda at: places[at]) == list(range(len(wanted)))


def test_labels_far_apart_stay_at_their_lines() -> None:
    assert spread([10.0, 60.0], [15, 15], 100) == [10.0, 60.0]


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


def test_a_model_has_one_colour_at_every_epsilon() -> None:
    data = [
        {"series": f"{model}, ε = {epsilon}", "model": model, "value": epsilon}
        for model, epsilon in (("a", 1), ("a", 2), ("b", 3))
    ]
    series = Look(["a", "b"]).series(data, "value")
    assert [(line.name, line.color) for line in series] == [
        ("b, ε = 3", COLORS[1]),
        ("a, ε = 2", COLORS[0]),
        ("a, ε = 1", COLORS[0]),
    ]


def test_models_beyond_the_colours_and_lines_beyond_six_are_grey() -> None:
    models = [f"m{n}" for n in range(9)]
    data = [{"series": name, "model": name, "value": -n} for n, name in enumerate(models)]
    series = Look(models).series(data, "value")
    assert [line.color for line in series] == [*COLORS, REST, REST, REST]
    many = [Series(f"line {n}", COLORS[0]) for n in range(8)]
    shown = foremost(many, [{"series": line.name} for line in many[1:]])
    assert [line.thin for line in shown] == [False] * 6 + [True]


def test_a_grey_series_has_no_label() -> None:
    _, rows = labels([Label("a", 1.0, COLORS[0]), Label("b", 1.0, REST), Label("guess", 0.5)])
    assert {row["text"][0]: row["middle"] for row in rows} == {"a": 0, "guess": 130}
    assert rows[1]["ink"] == MUTED


def test_a_long_label_has_two_lines_and_lines_that_differ_have_samples() -> None:
    words = "published, the support's threshold and more that has no room"
    layers, rows = labels([Label(words, 0.5, COLORS[0], dash=(1, 0)), Label("guess", 0.5)])
    assert len(layers) == 1
    assert [len(row["text"]) for row in rows] == [2, 1]
    dashed = [Label("a", 0.5, COLORS[0], dash=(1, 0)), Label("b", 0.4, COLORS[0], dash=(7, 3))]
    layers, rows = labels([*dashed, Label("guess", 0.1)])
    assert [layer.to_dict()["mark"].get("strokeDash") for layer in layers] == [None, [1, 0], [7, 3]]
    assert [row["dash"] for row in rows] == [0, 1, None]
    assert rows[0]["text at"] > rows[0]["end"] > rows[0]["left"] == rows[2]["text at"]


def test_a_group_of_one_point_has_no_panel() -> None:
    data = [{"unit": "user"}, {"unit": "item"}, {"unit": "user"}]
    drawn = panels(data, "unit", lambda group: {"points": group})
    assert [(panel.name, len(panel.spec["points"])) for panel in drawn] == [("user", 2)]
    (whole,) = panels(data, None, lambda group: {"points": group})
    assert (whole.name, len(whole.spec["points"])) == ("", 3)


def test_the_table_of_numbers_has_a_row_for_each_point() -> None:
    table = numbers({"x": "ε", "words": "found"}, [{"x": 0.30000000004, "words": "1"}, {"x": None}])
    assert table.header == ["ε", "found"]
    assert table.cells == [["0.3", "1"], ["–", "–"]]


def test_extremes_are_said_of_one_number_and_of_several() -> None:
    one = {"value": 1.0, "words": "1", "name": "x"}
    assert extremes("area", [one]) == "The area is 1 (x)."
    two = {"value": 2.0, "words": "2", "name": "y"}
    assert extremes("area", [one, two]) == "The largest area is 2 (y), the smallest 1 (x)."


def test_places_on_linear_and_logarithmic_axes() -> None:
    assert Axis("", 1, 3).share(2) == 0.5
    assert Axis("", 0.01, 1, log=True).share(0.1) == pytest.approx(0.5)


def test_an_axis_covers_its_values_with_room() -> None:
    for axis in (Axis.over("", [1, 100]), Axis.around("", [1, 100])):
        assert axis.low < 1
        assert axis.high > 100
    alone = Axis.around("", [0.0])
    assert alone.low < 0 < alone.high


def test_ticks_are_powers_of_ten_or_finer() -> None:
    assert Axis.over("", [0.001, 1000]).ticks()["values"] == [10.0**power for power in range(-4, 5)]
    assert {1.0, 2.0, 5.0} <= set(Axis.over("", [1, 10]).ticks()["values"])
    assert Axis.over("", [1, 4], values=[1, 4]).ticks()["values"] == [1, 4]
