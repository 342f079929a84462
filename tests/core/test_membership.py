"""Which claims bound what an observer learns about the presence of an interaction or a user."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from dpaudit.core import registry
from dpaudit.core.claim import Claim
from dpaudit.core.errors import ConfigError
from dpaudit.core.membership import OBSERVERS, OF_FACTORS, covers
from dpaudit.defenses.base import TrainedDefense

UNITS = ("interaction", "user")
PAIRS = list(itertools.product(UNITS, OBSERVERS))


def claim(adjacency: Any, observer: str, *also: str) -> Claim:
    return Claim(1.0, 0.0, adjacency, observer, "", "", also)


def covered(stated: Claim) -> set[tuple[str, str]]:
    return {(unit, observer) for unit, observer in PAIRS if covers(stated, unit, observer)}


@pytest.mark.cases(
    ("adjacency", "unit"),
    [
        ("rating-add-remove", "interaction"),
        # A user replaced by the same user with one interaction less.
        ("user-replace", "interaction"),
        ("user-add-remove", "user"),
        # One interaction differs by the removal of a user and the addition of another: 2ε.
        # The values of ratings say nothing about their presence.
        ("rating-replace", None),
        ("entry-replace", None),
        ("of a plug-in", None),
    ],
)
@pytest.mark.cases("observer", OBSERVERS)
def test_a_claim_covers_its_own_unit_and_observer_alone(
    adjacency: str, unit: str | None, observer: str
) -> None:
    # Who sees factors sees what a search among them returns.
    seen = OF_FACTORS if observer == "factors" else (observer,)
    assert covered(claim(adjacency, observer)) == {(unit, less) for less in seen if unit}


@pytest.mark.parametrize("observer", ["public", "iterates"])
def test_who_sees_the_released_model_sees_what_others_make_of_it(observer: str) -> None:
    # Not the user's own scores and list, which use the user's data again.
    expected = {("interaction", less) for less in ("others-lists", *OF_FACTORS)}
    assert covered(claim("rating-add-remove", observer)) == expected


@pytest.mark.cases("observer", ["values", "list", "recommender", "friend"])
def test_other_observers_of_defenses_are_none_of_a_membership_game(observer: str) -> None:
    assert not covered(claim("rating-add-remove", observer))


def test_every_observer_of_a_claim_counts() -> None:
    stated = claim("user-add-remove", "scores", "factors")
    assert covered(stated) == {("user", less) for less in ("scores", *OF_FACTORS)}
    assert covered(claim("user-add-remove", "friend", "iterates")) == {
        ("user", less) for less in ("others-lists", *OF_FACTORS)
    }


def claims_of_trained_defenses() -> dict[tuple[str, str], Claim]:
    claims = {}
    for name in registry.names("defenses"):
        kind = registry.load("defenses", name)
        if not issubclass(kind, TrainedDefense):
            continue
        for variant in ("published", "corrected"):
            try:
                defense = kind(epsilon=1.0, variant=variant)
            except (ValueError, ConfigError):
                continue
            stated = defense.claim()
            if stated:
                claims[name, variant] = stated
    return claims


def test_what_is_covered_of_every_trained_defense() -> None:
    released = {"others-lists", *OF_FACTORS}
    expected = {
        ("dpsgd-mf", "corrected"): {("user", observer) for observer in released},
        ("dpps-mf", "published"): {("interaction", observer) for observer in released},
        ("dpps-mf", "corrected"): {("interaction", observer) for observer in released},
        ("dpps-pnbm", "published"): {("interaction", observer) for observer in released},
        ("dpps-pnbm", "corrected"): {("interaction", observer) for observer in released},
        ("dpsgd-pnbm", "corrected"): {("interaction", observer) for observer in released},
    }
    claims = claims_of_trained_defenses()
    assert {name: covered(claim) for name, claim in claims.items() if covered(claim)} == expected
    assert len(claims) > len(expected)


def test_no_claim_that_takes_as_public_who_rates_what_is_compared_with_presence() -> None:
    public = {
        name: covered(claim)
        for name, claim in claims_of_trained_defenses().items()
        if "who rates what" in claim.public
    }
    assert public
    assert not any(public.values())
