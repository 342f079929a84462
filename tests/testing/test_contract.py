"""The contract of plug-ins finds what breaks it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import Distinguisher, Readable
from dpaudit.attacks.distinguishing.item_place import ItemPlace
from dpaudit.attacks.distinguishing.likelihood_ratio import LikelihoodRatio
from dpaudit.attacks.sybil.averaging import Averaging
from dpaudit.audits.trained.pairs import target_pair
from dpaudit.core.claim import Claim
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemInDoubt, ItemList, Observer, PreparedPair, View
from dpaudit.core.streams import Streams
from dpaudit.data import SyntheticParams, generate
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.defenses.item_item.slope_one import SlopeOne
from dpaudit.testing.contract import (
    check_attack,
    check_defense,
    check_game,
    check_plugin,
    check_saves,
)

RATINGS = generate(SyntheticParams(n_users=30, n_items=60, mean_per_user=25))
MODEL = SgdFactors(1.0, dimensions=2, epochs=2)


def test_dpaudits_own_parts_keep_it() -> None:
    check_defense(SlopeOne(epsilon=1.0, top_k=5), RATINGS)
    check_defense(MODEL, RATINGS)
    check_attack(ItemPlace)
    pair, target = target_pair(RATINGS, "rating-replace", 1)
    scores = check_game(MODEL, pair, LikelihoodRatio(), "iterates", target)
    assert len(scores.absent) == len(scores.present) == 40


@pytest.mark.cases(
    ("name", "value", "words"),
    [
        ("title", "short", "needs a title"),
        ("source", "somewhere, eq. (1)", "year"),
        ("source", "a paper of 1999", "DOI"),
        ("__doc__", "A title alone.", "more than a title"),
        ("__doc__", "A title.\n\nNothing of the parameters.\n", "does not explain grid"),
    ],
)
def test_a_part_that_says_too_little_is_found(name: str, value: str, words: str) -> None:
    part: Any = type("Part", (LikelihoodRatio,), {name: value, "__module__": __name__})
    if "grid" in words:
        part.__mro__[1].__doc__, kept = "", part.__mro__[1].__doc__
    try:
        with pytest.raises(AssertionError, match=words):
            check_plugin(part)
    finally:
        if "grid" in words:
            part.__mro__[1].__doc__ = kept


def test_a_part_that_takes_anything_is_found() -> None:
    @parameters(frozen=True, config={"extra": "ignore"})
    class Loose(ItemPlace):
        """Takes what it is given.

        Whatever it is.
        """

    with pytest.raises(AssertionError, match="unknown parameter is accepted"):
        check_plugin(Loose)


def test_an_attack_without_a_role_or_with_two_is_found() -> None:
    @parameters(frozen=True, config=STRICT)
    class Both(ItemPlace, Averaging):
        """Has two roles.

        One too many.
        """

    @parameters(frozen=True, config=STRICT)
    class Blind(ItemPlace):
        """Reads nothing.

        Whatever is shown.
        """

        reads: ClassVar[tuple[Readable, ...]] = ()

    with pytest.raises(AssertionError, match="has 2 roles"):
        check_attack(Both)
    with pytest.raises(AssertionError, match="reads nothing"):
        check_attack(Blind)


@parameters(frozen=True, config=STRICT)
class Broken(SgdFactors):
    """Breaks the contract in one way.

    Attributes:
        way: which.
    """

    way: str = "none"

    def claim(self) -> Claim | None:
        """For somebody who observes nothing."""
        claim = super().claim()
        if self.way == "claim" and claim:
            return dataclasses.replace(claim, observer="nobody")
        return claim

    def observers(self) -> Any:
        """None, or one that shows something else than it says."""
        observers = super().observers()
        if self.way == "nobody":
            return {}
        return {
            **observers,
            "strange": Observer((ItemList, ItemInDoubt), self._strange, "?", "x", 16),
        }

    def _strange(self, pair: PreparedPair[Any], shown: Any, streams: Streams) -> Iterator[View]:
        yield View("no list", ItemInDoubt(0))

    def train(self, rows: Any, streams: Streams) -> Any:
        """By global randomness, or by what else is trained."""
        if self.way == "unseeded":
            fresh = np.random.default_rng().integers(0, 2**31)
            streams = Streams.first(int(fresh), "x", len(streams))
        if self.way == "together":
            streams = Streams.first(0, "x", len(streams))
        return super().train(rows, streams)


@pytest.mark.cases(
    ("way", "words"),
    [
        ("claim", "which observes nothing"),
        ("nobody", "observes nothing"),
        ("none", "observer strange needs words"),
    ],
)
def test_a_defense_that_breaks_it_is_found(way: str, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_defense(Broken(1.0, dimensions=2, epochs=2, way=way), RATINGS)


@pytest.mark.parametrize(
    ("way", "words"), [("unseeded", "different models"), ("together", "depends on others")]
)
def test_a_training_that_is_no_function_of_its_streams_is_found(
    monkeypatch: pytest.MonkeyPatch, way: str, words: str
) -> None:
    monkeypatch.setattr(Broken, "observers", SgdFactors.observers)
    with pytest.raises(AssertionError, match=words):
        check_defense(Broken(1.0, dimensions=2, epochs=2, way=way), RATINGS)


def test_a_view_of_another_type_and_a_score_of_its_own_mind_are_found() -> None:
    @parameters(frozen=True, config=STRICT)
    class Whim(Distinguisher):
        """Scores by chance."""

        name: ClassVar[str] = "whim"
        reads: ClassVar[tuple[Readable, ...]] = LikelihoodRatio.reads

        def score(self, release: Any, knowledge: Any) -> NDArray[np.float64]:
            """Numbers that no seed decides."""
            return np.random.default_rng().random(len(release.shown))

    pair, target = target_pair(RATINGS, "rating-replace", 1)
    with pytest.raises(AssertionError, match="shows str, not ItemList"):
        check_game(Broken(1.0, dimensions=2, epochs=2), pair, ItemPlace(), "strange", target)
    with pytest.raises(AssertionError, match="differ"):
        check_game(MODEL, pair, Whim(), "iterates", target)
    with pytest.raises(AssertionError, match="cannot read iterates"):
        check_game(MODEL, pair, ItemPlace(), "iterates", target)


class Kept:
    """A trained model that writes itself in some way."""

    def __init__(self, way: str) -> None:
        self.way, self.times = way, 0

    def save(self, path: str) -> None:
        self.times += 1
        if self.way != "nothing":
            Path(path).write_text(str(self.times if self.way == "new" else 1), encoding="utf-8")
        if self.way == "beside":
            Path(path).with_name("notes").touch()


@pytest.mark.cases(
    ("way", "words"),
    [
        ("nothing", "Kept: saves nothing instead of 'model'"),
        ("beside", "Kept: saves .*notes"),
        ("new", "Kept: saves something else each time"),
    ],
)
def test_a_model_that_is_not_kept_at_its_path_is_found(way: str, words: str) -> None:
    check_saves(Kept("well"))
    with pytest.raises(AssertionError, match=words):
        check_saves(Kept(way))
