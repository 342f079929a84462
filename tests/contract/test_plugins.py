"""What every registered defense and attack must state, and what the registry refuses."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.defenses.item_item.similarities import SlopeOne
from dpaudit.testing.contract import check_attack, check_plugin

PARTS: dict[tuple[Any, str], Any] = {
    (group, name): part
    for group in ("defenses", "attacks")
    for name, part in registry.every(group).items()
}
# Attacks of other packages may read views that they alone can make.
OWN_ATTACKS = [
    name
    for (group, name), part in PARTS.items()
    if group == "attacks" and part.__module__.startswith("dpaudit.")
]


def create(group: Any, name: str, **parameters: Any) -> Any:
    required = {"epsilon": 1.0} if group == "defenses" else {}
    return registry.create(group, name, "model.0", {**required, **parameters})


def test_the_registered_attacks() -> None:
    assert {"linear-ideal", "likelihood-ratio", "item-place", "canary"} <= set(OWN_ATTACKS)
    assert {"zero-mean", "two-sample", "energy", "gradient-ratio", "popularity"} <= set(OWN_ATTACKS)


@pytest.mark.cases("name", OWN_ATTACKS)
def test_an_attack_keeps_the_contract_that_plug_ins_have(name: str) -> None:
    check_attack(PARTS["attacks", name])


@pytest.mark.cases(("group", "name"), list(PARTS))
def test_a_part_is_registered_by_its_name(group: Any, name: str) -> None:
    assert PARTS[group, name].name == name
    assert create(group, name) == create(group, name)
    check_plugin(PARTS[group, name])


@pytest.mark.cases(("group", "name"), list(PARTS))
def test_unknown_parameters_are_refused_by_name(group: Any, name: str) -> None:
    with pytest.raises(ConfigError, match=r"model\.0\.params\.no_such_thing is not known"):
        create(group, name, no_such_thing=1)
    names = [field.name for field in dataclasses.fields(PARTS[group, name])]
    for parameter in [each for each in names if each not in {"epsilon", "variant"}][:1]:
        with pytest.raises(ConfigError, match=f"did you mean '{parameter}'"):
            create(group, name, **{parameter + "x": 1})


@pytest.mark.cases("field", [field.name for field in dataclasses.fields(SlopeOne)])
def test_wrong_values_are_refused_by_name(field: str) -> None:
    values: list[Any] = [-1, "nonsense", [1], float("nan"), b"1", {}]
    for wrong in values:
        with pytest.raises(ConfigError, match=rf"model\.0\.params\.{field}\b"):
            create("defenses", "slope-one", **{field: wrong})


def test_a_misspelt_name_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean 'slope-one'"):
        registry.create("defenses", "slope_one", "model.0", {"epsilon": 1.0})
    with pytest.raises(ConfigError, match="epsilon"):
        registry.create("defenses", "slope-one", "model.0", {})
