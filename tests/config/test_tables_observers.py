"""Games whose observer a claim does not cover."""

from __future__ import annotations

import pytest

from dpaudit.config.tables import Game, check_covered
from dpaudit.core.claim import Claim, covered_observers
from dpaudit.core.errors import ConfigError

GAME = Game(pair="tight")


def claim(observer: str, *also: str) -> Claim:
    return Claim(1.0, 0.0, "rating-replace", observer, "", "", also)


@pytest.mark.cases(
    ("stated", "observe"),
    [
        (None, "anybody"),
        (claim("recommender"), "iterates"),
        (claim("iterates"), "public"),
        (claim("public"), "list"),
        (claim("values"), "list"),
        (claim("list", "friend"), "friend"),
        (claim("of a plug-in"), "of a plug-in"),
    ],
)
def test_a_game_of_an_observer_who_sees_no_more_than_is_claimed_is_run(
    stated: Claim | None, observe: str
) -> None:
    check_covered(GAME, "m", stated, observe)
    assert stated is None or observe in covered_observers(stated)


@pytest.mark.cases(
    ("stated", "observe"),
    [
        (claim("list"), "values"),
        (claim("public"), "iterates"),
        (claim("recommender"), "friend"),
        (claim("values"), "of a plug-in"),
    ],
)
def test_a_game_of_an_observer_who_sees_more_is_refused(stated: Claim, observe: str) -> None:
    said = f"model 'm' claims nothing for observer '{observe}', only for '{stated.observer}'"
    with pytest.raises(ConfigError, match=said):
        check_covered(GAME, "m", stated, observe)
