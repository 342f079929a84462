"""The contract of plug-ins finds what breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import Distinguisher, Readable
from dpaudit.attacks.distinguishing import ItemPlace, LikelihoodRatio
from dpaudit.attacks.inference import Averaging
from dpaudit.audits.trained.pairs import target_pair
from dpaudit.core.claim import Claim
from dpaudit.core.errors import NoModelError
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemInDoubt, ItemList, Observer, PreparedPair, View
from dpaudit.core.streams import Streams
from dpaudit.data import SyntheticParams, generate
from dpaudit.data.ratings import Scale
from dpaudit.defenses.base import LaplaceNoise
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.defenses.item_item.similarities import SlopeOne
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.testing.contract import (
    check_attack,
    check_defense,
    check_game,
    check_plugin,
    check_saves,
    check_variants,
)
from dpaudit.testing.defenses import (
    accepted_data,
    check_extremes,
    check_independence,
    check_lists,
    check_pairs,
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
        changes: dict[str, dict[str, Any]] = {
            "claim": {"observer": "nobody"},
            "much": {"epsilon": 2 * self.epsilon},
            "fixed": {"epsilon": 0.5},
            "also": {"also": ("anyone",)},
            "friend": {"also": ("friend",)},
        }
        return replace(claim, **changes.get(self.way, {})) if claim else claim

    def observers(self) -> Any:
        """None, or one that shows something else than it says."""
        observers = super().observers()
        if self.way == "nobody":
            return {}
        if self.way not in {"none", "strange"}:
            return observers
        words = "something else" if self.way == "strange" else "?"
        strange = Observer((ItemList, ItemInDoubt), self._strange, words, "x", 16)
        return {**observers, "strange": strange}

    def _strange(self, pair: PreparedPair[Any], shown: Any, streams: Streams) -> Iterator[View]:
        yield View("no list", ItemInDoubt(0))

    def train(self, rows: Any, streams: Streams) -> Any:
        """By global randomness, or by what else is trained."""
        if self.way == "unseeded":
            fresh = np.random.default_rng().integers(0, 2**31)
            streams = Streams.first(int(fresh), "x", len(streams))
        if self.way == "together":
            streams = Streams(streams.key, np.arange(len(streams)))
        if self.way == "one":
            streams = Streams.first(0, "x", len(streams))
        if self.way == "diverged":
            raise NoModelError("diverged")
        models = super().train(rows, streams)
        return replace(models, scale=Scale(0, 0.5, 0.5)) if self.way == "scale" else models

    def train_subsets(self, ratings: Any, kept: Any, streams: Streams, public: Any = None) -> Any:
        """Of all ratings."""
        every = np.ones_like(kept) if self.way == "subsets" else kept
        return super().train_subsets(ratings, every, streams, public)

    def public_statistics(self, prepared: Any) -> Any:
        """What the data sets do not share."""
        return prepared.values if self.way == "public" else super().public_statistics(prepared)

    def observe(self, before: Any, after: Any, trained: Any, streams: Streams) -> Any:
        """With a fine grid, or the noise of another stream."""
        if self.way == "fresh":
            streams = Streams.first(int(np.random.default_rng().integers(2**31)), "x", 16)
        for steps, law in super().observe(before, after, trained, streams):
            yield steps, replace(law, grid=2.0**-40) if self.way == "fine" else law


@pytest.mark.cases(
    ("way", "words"),
    [
        ("claim", "which observes nothing"),
        ("nobody", "observes nothing"),
        ("none", "observer strange needs words"),
        ("strange", "shows str, not ItemList"),
        ("much", "claims more than its parameter"),
        ("fixed", "claims another ε"),
        ("also", "some of which are unknown"),
        ("friend", "some of which are unknown"),
        ("unseeded", "different models"),
        ("together", "models depend on other trials"),
        ("one", "models of different trials or seeds are the same"),
        ("scale", "not on the scale"),
        ("subsets", "model of a subset"),
        ("public", "do not share what counts as public"),
        ("fresh", "a seed shows iterates different views"),
        ("fine", "too fine for its noise"),
    ],
)
def test_a_defense_that_breaks_it_is_found(way: str, words: str) -> None:
    defense = Broken(1.0, dimensions=2, epochs=2, way=way)
    with pytest.raises(AssertionError, match=words):
        check_defense(defense, accepted_data(defense))


def test_a_corrected_training_that_ends_in_an_error_is_found() -> None:
    defense = Broken(1.0, variant="corrected", dimensions=2, epochs=2, way="diverged")
    with pytest.raises(AssertionError, match="ends in an error with learning"):
        check_extremes(defense, accepted_data(defense))


def test_parameters_that_take_too_much_are_found() -> None:
    @parameters(frozen=True, config=STRICT)
    class Loose(SgdFactors):
        """Takes numbers of any size.

        Attributes:
            number: any.
        """

        number: float = 1.0

    @parameters(frozen=True, config={"extra": "forbid"})
    class Lax(SlopeOne):
        """Takes numbers in words.

        Without end.
        """

    @parameters(frozen=True, config=STRICT)
    class Whole(SgdFactors):
        """Takes any number for a count.

        Attributes:
            count: how many.
        """

        count: Annotated[int, Field(ge=1, strict=False)] = 1

    with pytest.raises(AssertionError, match="number states no least value"):
        check_variants(Loose)
    with pytest.raises(AssertionError, match="accepts epsilon = '5'"):
        check_variants(Lax)
    with pytest.raises(AssertionError, match="accepts count = '5'"):
        check_variants(Whole)


@parameters(frozen=True, config=STRICT)
class BrokenOnDemand(SlopeOne):
    """Breaks the contract in one way.

    Attributes:
        way: which.
    """

    way: str = "none"

    def release_list(self, exact: Any, streams: Streams) -> ItemList:
        """What another stream or trial draws, or an item twice."""
        if self.way == "shared":
            streams = Streams.first(1, "x", len(streams))
        if self.way == "fresh":
            streams = Streams.first(int(np.random.default_rng().integers(2**31)), "x", len(streams))
        if self.way == "still":
            streams = Streams(streams.key, np.arange(len(streams)))
        items = super().release_list(exact, streams).items
        if self.way == "twice":
            items[:, 0] = items[:, 1]
        return ItemList(items)

    def release(self, exact: Any, streams: Streams, request: Any) -> Any:
        """What the other data set shows."""
        if self.way == "repeated":
            streams = Streams.first(1, "x", len(streams))
        return super().release(exact, streams, request)

    def noise_of_predictions(self, scale: Scale) -> LaplaceNoise:
        """The same for every ε."""
        return (
            LaplaceNoise(1.0, 1.0) if self.way == "fixed" else super().noise_of_predictions(scale)
        )

    def exact_after(self, model: Any, change: Any, target: int) -> Any:
        """Other predictions than those of the changed data."""
        after = super().exact_after(model, change, target)
        return replace(after, scores=after.scores + np.float32(self.way == "off"))


@pytest.mark.cases(
    ("way", "words"),
    [
        ("fresh", "a seed gives different lists"),
        ("still", "lists depend on other trials"),
        ("twice", "holds an item twice"),
        ("fixed", "not in proportion"),
        ("off", "exact_after is not exact"),
    ],
)
def test_a_defense_on_demand_that_breaks_it_is_found(way: str, words: str) -> None:
    defense = BrokenOnDemand(1.0, way=way)
    with pytest.raises(AssertionError, match=words):
        check_defense(defense, accepted_data(defense))


@pytest.mark.parametrize("way", ["shared", "repeated"])
def test_noise_that_both_data_sets_share_is_found(way: str) -> None:
    defense = BrokenOnDemand(1.0, way=way)
    with pytest.raises(AssertionError, match="what is drawn in different trials is correlated"):
        check_independence(defense, accepted_data(defense))


@parameters(frozen=True, config=STRICT)
class OneLaw(TopK):
    """Has the same law of lists for every row.

    Whatever is in it.
    """

    def law(self, exact: Any) -> Any:
        """The law of a row of zeros."""
        return super().law(replace(exact, scores=np.zeros_like(exact.scores)))


@parameters(frozen=True, config=STRICT)
class Sharper(TopK):
    """Draws as if its ε were larger.

    Its law does not know.
    """

    factor: float = 1.0

    def release_list(self, exact: Any, streams: Any) -> Any:
        """Lists of another law."""
        return ItemList(replace(self, epsilon=self.factor * self.epsilon).law(exact).draw(streams))


@pytest.mark.parametrize("form", ["peeling", "joint"])
def test_lists_that_are_not_drawn_by_their_law_are_found(form: Any) -> None:
    given = {"epsilon": 1.0, "variant": "corrected", "mechanism": form, "top_k": 3}
    defense = Sharper(**given)
    check_lists(defense, accepted_data(defense))
    with pytest.raises(AssertionError, match="than their law says"):
        check_lists(Sharper(**given, factor=1.25), accepted_data(defense))


def test_pairs_that_show_nothing_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="has one law of lists"):
        check_pairs(OneLaw(1.0), Scale())
    monkeypatch.setattr("dpaudit.testing.defenses._VISIBLE", 10.0)
    with pytest.raises(AssertionError, match="no pair changes what is shown by 10"):
        check_pairs(SlopeOne(1.0), Scale())


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
        check_game(
            Broken(1.0, dimensions=2, epochs=2, way="strange"), pair, ItemPlace(), "strange", target
        )
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
