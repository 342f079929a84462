"""How often an exact deletion is said to be none, over whole audits of small data."""

from __future__ import annotations

from functools import partial
from itertools import count

import numpy as np
import pytest
from membership_cases import small_ratings, small_table  # type: ignore[import-not-found]
from scipy.sparse import csr_array
from wald import claims_too_much  # type: ignore[import-not-found]

from dpaudit.attacks.membership.inference import GlobalThreshold, Lira
from dpaudit.audits.membership.calibration import (
    Calibration,
    Trials,
    certified,
    division,
    judged,
    rivals,
)
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.training import BESIDE, BESIDES, Training, all_unpacked
from dpaudit.core.membership import Observer
from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import Answer, Query, Trainable, top_lists
from dpaudit.recommenders.forgetting import Forgetting
from dpaudit.recommenders.most_popular import MostPopular
from dpaudit.record.result import Family

DATA = small_ratings()
TABLE = small_table(units=["interaction"], trainings=7)
OBSERVERS: tuple[Observer, ...] = ("scores", "own-list")
ATTACKS = {"threshold": GlobalThreshold(), "lira": Lira()}
# A low confidence, so that a level that is not kept shows in few repetitions.
LEVEL = 0.2
FAMILY = Family.of(1 - LEVEL, len(OBSERVERS))


class Remembering(Trainable):
    """Counts of items, what each user had, and noise: it leaks unless it forgets exactly."""

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        had = interactions.matrix.toarray() > 0
        noise = np.random.default_rng(seed).normal(size=had.shape)
        rows = (noise + 2 * had + 0.5 * had.sum(0)).astype(np.float32)
        lists = top_lists(rows[query.listed], csr_array((len(query.listed), had.shape[1])), query.k)
        return Answer(rows[query.users, query.items], lists, None)


def told(model: Trainable, repetition: int, *, forgets: bool) -> bool:
    """Whether the bound of some observer is above 0 in one audit."""
    design = Design.of(DATA, TABLE, repetition)
    trainable = Forgetting(model, "retrain", design.targets) if forgets else model
    training = Training.of(trainable, design, ["interaction"], OBSERVERS)
    rows = [training(index) for index in range(TABLE.trainings)]
    parts = all_unpacked(rows, len(training.blocks) + BESIDES)
    present, cut = design.present(TABLE.trainings, "interaction"), design.count("interaction")
    bounds = []
    for block, (_, observer) in enumerate(training.blocks):
        if observer in OBSERVERS:
            features = np.stack([part[block] for part in parts])[:, :, :-BESIDE]
            bounds.append(bound(Trials(features[:, :cut], features[:, cut:], present), repetition))
    return max(bounds) > 0


def bound(trials: Trials, seed: int) -> float:
    parts = division(TABLE.trainings, TABLE.calibrating_trainings, seed)
    score = partial(judged, Calibration.of(trials, parts, seed), rates=[], family=FAMILY, delta=0)
    scored = {label: score(attack) for label, attack in ATTACKS.items()}
    one = scored[rivals(scored, "epsilon", 1)[0]]
    return certified(
        one.scores, one.present, one.guesses, delta=0.0, family=FAMILY, seed=seed
    ).lower


def test_what_is_not_forgotten_is_told() -> None:
    assert all(told(Remembering(), one, forgets=False) for one in range(2))


@pytest.mark.long
@pytest.mark.parametrize("model", [Remembering(), MostPopular()], ids=["random", "counts"])
def test_an_exact_deletion_is_told_no_more_often_than_the_level(model: Trainable) -> None:
    audits = (told(model, one, forgets=True) for one in count())
    assert not claims_too_much(audits, 2e-3, LEVEL, noticed=0.3)
