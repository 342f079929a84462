"""Planted violations have the stated ε, and blind audits do not find them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from broken_mechanisms import FOUND, UNDECIDED  # type: ignore[import-not-found]
from scipy.stats import binomtest

from dpaudit.attacks.black_box.encoding import as_batch
from dpaudit.audits.mechanism.audit import BlackBoxAudit, audit
from dpaudit.audits.mechanism.calls import OutputTrials
from dpaudit.audits.mechanism.planted import Violation, positive_control
from dpaudit.core.errors import InputError

Rng = np.random.Generator
CLAIM, FACTOR = 1.0, 2.0
RIGHT = math.exp(2) / (1 + math.exp(2))


def itself(outputs: Any) -> Any:
    return outputs


def mutants(
    make: Callable[[Rng], Any], *, delta: float = 0.0, score: Any = None, count: int = 6000
) -> list[OutputTrials]:
    """The trials of every mutant of a mechanism."""
    drawn: list[Any] = []
    rng, seen = np.random.default_rng(1), []

    def draw(wanted: int) -> Any:
        drawn.extend(make(rng) for _ in range(wanted - len(drawn)))
        return as_batch(drawn[:wanted])

    def certified(train: OutputTrials, test: OutputTrials) -> float:
        seen.append(test)
        return 0.0

    positive_control(
        draw,
        certified,
        Violation(CLAIM, FACTOR, sizes=(0, count), alpha=0.05, delta=delta),
        np.random.default_rng(2),
        score=score,
    )
    return seen


def is_right(guess: Any, present: Any, chance: float = RIGHT) -> bool:
    """Whether the guesses are right as often as the planted ε says, for either data set."""
    return all(
        binomtest(int((guess[here] == present[here]).sum()), int(here.sum()), chance).pvalue > 1e-6
        for here in (present, ~present)
    )


def test_a_split_has_the_stated_epsilon_and_keeps_the_law_inside() -> None:
    """False-failure rates 1e-6: the guess, and the law of values given it."""
    (trials,) = mutants(lambda rng: rng.normal(), score=itself)
    high = trials.outputs >= np.median(trials.outputs)
    assert is_right(high, trials.present)
    assert len(np.unique(trials.outputs)) == 6000
    # Given the half, values carry no more information: quarters are equally likely on D and D'.
    for half in (high, ~high):
        top = trials.outputs[half] >= np.median(trials.outputs[half])
        share = [float(top[trials.present[half] == dataset].mean()) for dataset in (False, True)]
        assert share[0] == pytest.approx(share[1], abs=0.1)


@pytest.mark.long
def test_delta_is_paid_for() -> None:
    (trials,) = mutants(lambda rng: rng.normal(), score=itself, delta=0.15, count=40_000)
    high = trials.outputs >= np.median(trials.outputs)
    assert is_right(high, trials.present, (math.exp(2) + 0.15) / (1 + math.exp(2)))
    assert not is_right(high, trials.present)


def test_few_distinct_outputs_are_answers() -> None:
    first, *_ = mutants(lambda rng: "yes" if rng.random() < 0.99 else "no", score=len)
    guess = np.array([output == first.outputs[0] for output in first.outputs])
    answer = first.present if guess[first.present].mean() > 0.5 else ~first.present
    assert set(first.outputs) == {"yes", "no"}
    assert is_right(guess, answer)


def test_a_rare_leak_tells_all_in_few_outputs() -> None:
    *_, trials = mutants(lambda rng: rng.laplace())
    values, counts = np.unique(trials.outputs, return_counts=True)
    tells = values[counts > 1]
    assert len(tells) == 2
    assert (counts[counts > 1] < 0.01 * 6000).all()
    for value in tells:
        datasets = trials.present[trials.outputs == value]
        assert datasets.all() or not datasets.any()


def controlled(mechanism: Callable[..., Any], **options: Any) -> BlackBoxAudit:
    given: dict[str, Any] = {"trials": 8000, "claim": CLAIM, "detectable": 1.5, "seed": 0}
    return audit(mechanism, 0, 1, **{**given, **options})


@pytest.mark.long
def test_a_game_that_sees_finds_the_mutant() -> None:
    for score in (itself, lambda outputs: outputs**3):
        control = controlled(lambda data, rng: data + rng.laplace(), score=score).control
        assert control is not None
        assert control.found
        assert 1 < control.certified <= 1.5


@pytest.mark.long
def test_a_mutant_that_so_few_trials_cannot_show_is_not_tried() -> None:
    result = controlled(lambda data, rng: data + rng.laplace(), score=itself, trials=400)
    assert result.control is None


@pytest.mark.long
@pytest.mark.usefixtures("unrepeated")
@pytest.mark.parametrize("name", FOUND)
def test_broken_mechanisms_are_found(name: str) -> None:
    """Each audit certifies more than the claim, and so no gate passes; seeds are fixed."""
    mechanism, options = FOUND[name]
    result = audit(mechanism, 0, 1, **{"trials": 1200, "seed": 0, **options})
    assert result.epsilon.lower > CLAIM


@pytest.mark.cases("name", UNDECIDED)
def test_no_undecided_mechanism_is_given_a_power(name: str) -> None:
    mechanism, options = UNDECIDED[name]
    result = controlled(mechanism, **{"trials": 2000, "detectable": 3.0, **options})
    assert result.epsilon.lower <= CLAIM
    assert result.control is not None
    assert not result.control.found


def test_what_is_not_read_is_a_violation_that_is_missed() -> None:
    result = controlled(lambda data, rng: [rng.laplace(), print, lambda: data], trials=2000)
    assert result.unread == ("objects of type function",)
    assert result.control is not None
    assert not result.control.found
    assert result.control.mutant.endswith("does not read: objects of type function")


def test_equal_data_sets_are_no_game() -> None:
    with pytest.raises(InputError, match="the same data set twice"):
        audit(lambda data, rng: 7.0, [1], [1], claim=1.0)
