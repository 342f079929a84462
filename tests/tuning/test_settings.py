"""Which settings are listed or drawn, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.core.errors import ConfigError
from dpaudit.core.knobs import Knob
from dpaudit.tuning.settings import Setting, Tuned, Values, listed

CONFIG: dict[str, Any] = {
    "seed": 3,
    "data": {"synthetic": {"n_users": 60, "n_items": 40, "mean_per_user": 20}},
    "recommender": [
        {"library": "implicit", "label": "a", "params": {"settings": {"factors": 8}}},
        {"library": "most-popular", "label": "b"},
    ],
    "gate": [{"metric": "leak", "max": 0.1}],
    "tune": {"recommender": "a"},
}


def config(**changes: Any) -> MembershipConfig:
    return MembershipConfig.model_validate({**CONFIG, **changes})


def test_lists_are_multiplied_and_the_unchanged_one_comes_first_and_once() -> None:
    values: Values = {"x": [1, 2], "y": ["a", "b"]}
    settings = listed(values, 99, 0, {"x": 2, "y": "b"})
    assert [one.values for one in settings] == [
        {},
        {"x": 1, "y": "a"},
        {"x": 1, "y": "b"},
        {"x": 2, "y": "a"},
    ]
    assert [one.words for one in settings[:2]] == ["as it is", "x 1, y a"]


@pytest.mark.parametrize(
    ("factors", "count"), [([4, 8], 2), ([4, 16], 3), ({"from": 4, "to": 16}, None)]
)
def test_the_unchanged_setting_is_counted_once(factors: Any, count: int | None) -> None:
    table = {"recommender": "a", "settings": {"params.settings.factors": factors}}
    assert Tuned.of(config(tune=table)).possible() == count


def test_of_too_many_a_random_part_is_taken() -> None:
    values: Values = {"x": list(range(50))}
    some = listed(values, 10, 1, {})
    assert len(some) == 10
    assert some == listed(values, 10, 1, {})
    assert some != listed(values, 10, 2, {})


def test_ranges_are_drawn_without_repeating() -> None:
    knobs: Values = {"a": Knob(1, 3), "b": Knob(0.01, 10.0, log=True)}
    drawn = listed(knobs, 30, 0, {})[1:]
    assert len({one.key for one in drawn}) == 29
    assert {one.values["a"] for one in drawn} == {1, 2, 3}
    assert all(0.01 <= one.values["b"] <= 10 for one in drawn)
    assert len(listed({"a": Knob(1, 3)}, 30, 0, {})) == 4


def test_a_setting_changes_one_table_alone() -> None:
    tuned = Tuned.of(config())
    chosen = tuned.with_setting(Setting({"params.settings.factors": 32}))
    (model,) = chosen.recommender
    assert model.label == "a"
    assert model.params == {"settings": {"factors": 32}}
    assert tuned.current(["params.settings.factors", "params.settings.no"]) == {
        "params.settings.factors": 8
    }
    stated = tuned.stated(Setting({"params.settings.factors": 32}))
    assert "tune" not in stated
    assert [table["label"] for table in stated["recommender"]] == ["a"]


def test_an_adapter_proposes_its_knobs() -> None:
    assert list(Tuned.of(config()).values()) == [
        "params.settings.factors",
        "params.settings.regularization",
        "params.settings.iterations",
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"tune": None},
            "tune.recommender does not say which model is tuned: give one of 'a', 'b'",
        ),
        ({"tune": {"recommender": "c"}}, "tune.recommender = 'c' does not say"),
        ({"gate": []}, "no [[gate]] judges a"),
        (
            {"gate": [{"metric": "leak", "max": 0.1, "where": {"model": "b"}}]},
            "no [[gate]] judges a",
        ),
        ({"tune": {"recommender": "a", "attacks": ["no"]}}, "tune.attacks names 'no'"),
    ],
)
def test_what_cannot_be_tuned_is_said(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Tuned.of(config(**changes))
    assert str(caught.value).startswith(said)


def test_a_model_without_known_knobs_asks_for_settings() -> None:
    tuned = Tuned.of(config(tune={"recommender": "b"}))
    with pytest.raises(ConfigError, match=r"tune\.settings is missing"):
        tuned.values()


def test_a_setting_that_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing"):
        Tuned.of(config()).with_setting(Setting({"params.nothing": 3}))
