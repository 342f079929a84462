"""How well attributes are guessed, and the level of the intervals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from wald import claims_too_much  # type: ignore[import-not-found]

from dpaudit.audits.attributes.measures import (
    GUESSED,
    WHOLE,
    Attribute,
    Judge,
    asked_in,
    folds_of,
    guessed,
    guesses_of,
)
from dpaudit.record.result import Family

ALPHA = 0.1


def judge_of(classes: NDArray[np.int64], seed: int = 0) -> Judge:
    attribute = Attribute("gender", classes)
    order = np.random.default_rng(seed).permutation(len(classes))
    return Judge(attribute, folds_of([attribute], seed), order, Family.of(1 - ALPHA, 1))


def two_columns(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([1 - scores, scores], axis=1)[None]


def test_areas_are_means_over_folds_and_leave_out_unknown_users() -> None:
    rng = np.random.default_rng(1)
    classes = np.concatenate([rng.integers(0, 2, 200), np.full(10, -1)])
    judge, scores = judge_of(classes), rng.random(210)
    areas = []
    for fold in GUESSED:
        here = (judge.folds == fold) & (classes >= 0)
        areas.append((roc_auc_score(classes[here], scores[here]), here.sum()))
    area = judge.area(two_columns(scores))
    assert area.value == pytest.approx(
        np.average([one for one, _ in areas], weights=[n for _, n in areas])
    )
    assert area.lower < area.value < area.upper


def test_a_constant_has_no_advantage_over_a_guess_and_the_truth_has_all() -> None:
    classes = np.repeat([0, 1], [150, 50])
    judge = judge_of(classes)
    constant = judge.balanced(two_columns(np.full(200, 0.3)))
    perfect = judge.balanced(two_columns(classes.astype(np.float64)))
    assert judge.advantage(constant, 0.5, joint=True).value == pytest.approx(0)
    most = judge.advantage(perfect, constant, joint=True)
    assert most.value == pytest.approx(0.5)
    assert 0.25 < most.lower < most.upper <= 1
    assert judge.largest.value == classes[guessed(judge.folds)].tolist().count(0) / 100


def false_alarms(users: int) -> Iterator[bool]:
    """Whether the advantage of a random model is found to be above 0, in audit after audit."""
    for seed in count():
        rng = np.random.default_rng(seed)
        judge = judge_of((rng.random(users) < 0.3).astype(np.int64), seed)
        asked = asked_in(judge.folds, WHOLE)
        guesses = np.full((2, users, 2), np.nan)
        for row in guesses:
            seen = rng.normal(size=(users, 4))
            row[asked] = guesses_of(seen, [judge.attribute], judge.folds, asked)
        right, other = (judge.balanced(row[None]) for row in guesses)
        yield judge.advantage(right, other, joint=True).lower > 0


def test_a_model_that_ignores_its_data_is_rarely_found_to_add_something() -> None:
    # The lower end has the level 0.05: of 6, more than 2 have a probability of 0.2 %.
    assert sum(islice(false_alarms(100), 6)) <= 2


@pytest.mark.long
def test_false_alarms_keep_the_level_over_many_repetitions() -> None:
    assert not claims_too_much(false_alarms(300), 2e-3)
