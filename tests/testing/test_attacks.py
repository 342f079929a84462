"""The contract of attacks finds those that cheat, and those whose results cannot be used."""

from __future__ import annotations

import random
import sys
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import Distinguisher, MembershipInference, Readable, Signals
from dpaudit.attacks.distinguishing import ItemPlace
from dpaudit.attacks.inference import ListIdeal
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemInDoubt, ItemList, View
from dpaudit.testing.contract import check_attack

Numbers = NDArray[np.float64]


@parameters(frozen=True, config=STRICT)
class Honest(MembershipInference):
    """Scores by the fit.

    As every other attack, it has parameters.
    """

    name: ClassVar[str] = "honest"
    title: ClassVar[str] = "scores by the fit of a model"
    source: ClassVar[str] = "nobody 2020, §1"
    calls: ClassVar[list[int]] = []

    def score(self, seen: Signals, reference: Signals, present: NDArray[np.bool_]) -> Numbers:
        """Return the fit."""
        return seen.fit


def test_an_honest_attack_keeps_it() -> None:
    check_attack(Honest)


def coin_beside(seen: Signals, reference: Signals, present: NDArray[np.bool_]) -> Numbers:
    """Read the coins that stand behind those of the attacker's own trainings."""
    base = present.base
    assert base is not None
    return seen.fit + float(base[len(present) :].mean())


def coin_of_a_caller(seen: Signals, reference: Signals, present: NDArray[np.bool_]) -> Numbers:
    """Search the callers' variables for a coin."""
    frame: Any = sys._getframe()
    while frame is not None and "coin" not in frame.f_locals:
        frame = frame.f_back
    return seen.fit + (frame.f_locals["coin"] if frame else 0)


def by_earlier_calls(seen: Signals, reference: Signals, present: NDArray[np.bool_]) -> Numbers:
    Honest.calls.append(1)
    return seen.fit + len(Honest.calls)


def writes(seen: Signals, reference: Signals, present: NDArray[np.bool_]) -> Numbers:
    seen.fit[0] = 0.0
    return seen.fit


@pytest.mark.cases(
    ("score", "words"),
    [
        (coin_beside, "changes its results with a coin that it is not given"),
        (coin_of_a_caller, "changes its results with a coin that it is not given"),
        (lambda *_: np.random.random((6, 5)), "other results for the same inputs"),  # noqa: NPY002
        (lambda *_: np.random.default_rng().random((6, 5)), "other results for the same inputs"),
        (lambda *_: np.full((6, 5), random.random()), "other results for the same"),  # noqa: S311
        (by_earlier_calls, "no random state and no earlier call"),
        (lambda seen, *_: seen.fit * np.nan, "gives a number that is not finite"),
        (lambda seen, *_: seen.fit + np.inf, "gives a number that is not finite"),
        (lambda seen, *_: seen.fit.T, r"gives the shape \(5, 6\) and not \(6, 5\)"),
        (lambda seen, *_: seen.fit[0], r"gives the shape \(5,\) and not \(6, 5\)"),
        (lambda *_: np.full((6, 5), "much"), "which are no numbers of its kind"),
        (writes, "changes what it is given: copy it first"),
    ],
)
def test_an_attack_that_cheats_or_gives_no_scores_is_found(
    monkeypatch: pytest.MonkeyPatch, score: Any, words: str
) -> None:
    # A random state that the test sets does not make an attack's draws its own.
    monkeypatch.setattr(Honest, "score", lambda _, *given: score(*given))
    with pytest.raises(AssertionError, match=f"honest: score .* 12 .*{words}"):
        check_attack(Honest)


def test_the_states_of_random_generators_stay_as_they_were() -> None:
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    check_attack(Honest)
    assert np.random.random() == expected  # noqa: NPY002


def test_a_trial_is_scored_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def among(_: ItemPlace, release: ItemList, knowledge: ItemInDoubt) -> Numbers:
        scores: Numbers = (release.items == knowledge.item).sum(1).astype(np.float64)
        return scores - len(scores)

    monkeypatch.setattr(ItemPlace, "score", among)
    with pytest.raises(AssertionError, match="another result beside other trials"):
        check_attack(ItemPlace)


def test_an_index_of_no_candidate_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ListIdeal, "infer", lambda _, logs, __: np.full(len(logs), 5))
    with pytest.raises(AssertionError, match=r"infer .* not in 0 … 4"):
        check_attack(ListIdeal)
    monkeypatch.setattr(ListIdeal, "infer", lambda _, logs, __: np.zeros(len(logs)))
    with pytest.raises(AssertionError, match=r"infer gives float64"):
        check_attack(ListIdeal)


class Letter:
    """A release that dpaudit does not know."""


def test_types_of_ones_own_need_a_view() -> None:
    @parameters(frozen=True, config=STRICT)
    class Reader(Distinguisher):
        """Reads letters.

        Whoever wrote them.
        """

        name: ClassVar[str] = "reader"
        title: ClassVar[str] = "reads letters of others"
        source: ClassVar[str] = "nobody 2020, §1"
        reads: ClassVar[tuple[Readable, ...]] = ((Letter, Letter),)

        def score(self, release: Letter, knowledge: Letter) -> Numbers:
            """Return three scores."""
            return np.zeros(3)

    with pytest.raises(AssertionError, match="reader reads Letter with Letter"):
        check_attack(Reader)
    check_attack(Reader, View(Letter(), Letter()))
