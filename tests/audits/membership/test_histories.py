"""What models of sequences are asked: prefixes by hand, a chain that is found, and nulls."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from membership_cases import Chain, Hostile, small_ratings, small_table  # type: ignore[import-not-found]
from numpy.typing import NDArray

from dpaudit.attacks.membership.features import STEPS
from dpaudit.attacks.membership.inference import ConjugateLira
from dpaudit.auditor.run import run_audit
from dpaudit.audits.membership.calibration import Trials
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.training import BESIDES, Training, unpacked
from dpaudit.core.errors import ConfigError
from dpaudit.core.membership import HISTORIES
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.execution.workers import Workers
from dpaudit.recommenders.python_class import GivenModel

TRAININGS = 12
BLOCKS: Any = [("interaction", HISTORIES), ("user", HISTORIES)]


def timed(seed: int = 1) -> Ratings:
    """Small ratings in a random order, several at one time, and some of 0."""
    ratings = small_ratings(seed)
    rng = np.random.default_rng(seed)
    value = np.where(rng.random(len(ratings)) < 0.1, 0, ratings.value).astype(np.float32)
    return Ratings.build(
        ratings.user, ratings.item, value, ratings.n_users, ratings.n_items, Scale(0, 5, 1),
        time=rng.integers(9, size=len(ratings)).astype(np.float64),
    )  # fmt: skip


def in_order(design: Design, user: int, item: int) -> tuple[list[int], list[int]]:
    """What is known of the user before and after an item, by time and then item."""
    rows = [
        (0.0 if design.ratings.time is None else design.ratings.time[row], int(other))
        for row, other in enumerate(design.ratings.item)
        if design.ratings.user[row] == user
        and (other == item or (design.known[row] and design.ratings.value[row] != 0))
    ]
    items = [other for _, other in sorted(rows)]
    return items[: items.index(item)], items[items.index(item) + 1 :]


@pytest.mark.cases("ratings", [timed(), small_ratings()])
def test_histories_are_what_is_known_before_each_target_in_order(ratings: Ratings) -> None:
    design = Design.of(ratings, small_table(), 3)
    sent, items = design.histories
    of = design.tested_users
    users = [*design.tested.users, *np.repeat(of.users, of.held.shape[1])]
    targets = [*design.tested.items, *of.held.reshape(-1)]
    assert len(sent) == len(items) == 2 * STEPS * len(users)
    lengths, row = set(), 0
    for user, target in zip(users, targets, strict=True):
        before, after = in_order(design, user, target)
        after += [int(items[0, 2])] * STEPS
        for step in range(STEPS):
            for own in ([], [target]):
                history = [*before, *own, *after[:step]]
                assert sent[row].tolist() == [-1] * (sent.shape[1] - len(history)) + history
                assert items[row][:2].tolist() == [target, after[step]]
                row += 1
        lengths.add(len(before))
    assert min(lengths) == 0
    assert (items[:, 2:] == items[0, 2:]).all()


def test_long_histories_lose_their_first_items() -> None:
    count = 300
    ratings = Ratings.build(
        np.repeat(np.arange(40), count), np.tile(np.arange(count), 40), np.ones(40 * count),
        40, count, Scale(1, 1, 1),
    )  # fmt: skip
    design = Design.of(ratings, small_table(units=["interaction"]), 3)
    sent, items = design.histories
    assert sent.shape[1] == 200
    assert (sent[1 :: 2 * STEPS, -1] == items[1 :: 2 * STEPS, 0]).all()
    assert (sent[:, 0] >= 0).any()


def trials(design: Design, unit: int = 0) -> Trials:
    """What is shown of the model in each training, and the coins."""
    training = Training(GivenModel(Chain), design, BLOCKS)
    shown = [unpacked(training(index), len(BLOCKS) + BESIDES)[unit] for index in range(TRAININGS)]
    features, cut = np.stack(shown)[:, :, :-2], design.count(BLOCKS[unit][0])
    present = design.present(TRAININGS, BLOCKS[unit][0])
    return Trials(features[:, :cut], features[:, cut:], present)


def area(found: Trials, present: NDArray[np.bool_]) -> float:
    """The AUC in half of the trainings, by an attack that the other half calibrates."""
    half = np.arange(TRAININGS // 2)
    others = replace(found, present=present).comparable
    scores = others.of(half + TRAININGS // 2).scores(ConjugateLira(), others.of(half))
    coins = present[half + TRAININGS // 2]
    areas = [
        (row[c][:, None] > row[~c]).mean() + (row[c][:, None] == row[~c]).mean() / 2
        for row, c in zip(scores, coins, strict=True)
    ]
    return float(np.mean(areas))


@pytest.mark.parametrize("unit", [0, 1])
def test_who_trained_a_chain_is_found_and_coins_of_another_training_are_not(unit: int) -> None:
    found = trials(Design.of(timed(), small_table(), 3), unit)
    assert area(found, found.present) > 0.75
    # Of the next training; its coins are independent.
    assert area(found, np.roll(found.present, 1, axis=0)) == pytest.approx(0.5, abs=0.07)


def test_what_is_shown_is_the_target_and_what_it_adds_to_the_next_item() -> None:
    design = Design.of(timed(), small_table(units=["interaction"]), 3)
    training = Training(GivenModel(Chain), design, BLOCKS[:1])
    block, *_ = unpacked(training(0), 1 + BESIDES)
    assert np.isfinite(block).all()
    assert not block[:, -2].any()
    model = Chain().fit(design.data(0), design.training_seed(0))
    sent, items = design.histories
    scores = model.scores_after(sent, items)
    logs = scores[:, :2] - np.log(np.exp(scores[:, 2:]).sum(1))[:, None]
    by_target = logs.reshape(-1, STEPS, 2, 2)
    for row, asked in zip(block, by_target, strict=True):
        gain = sum(float(with_it[1] - without[1]) for without, with_it in asked)
        assert row[:2] == pytest.approx([asked[0, 0, 0], gain], abs=1e-3)


def test_answers_that_are_missing_are_counted_where_the_item_and_a_history_are_there() -> None:
    class Silent(Chain):  # type: ignore[misc]
        def scores_after(self, histories: Any, items: Any) -> Any:
            return np.where(items == 3, np.nan, super().scores_after(histories, items))

    design = Design.of(timed(), small_table(units=["interaction"]), 3)
    block, *_ = unpacked(Training(GivenModel(Silent), design, BLOCKS[:1])(0), 1 + BESIDES)
    sent, items = design.histories
    lacking = (items[:, :2] == 3) & (sent[:, -1:] >= 0)
    expected = lacking.reshape(len(block), -1).mean(1)
    assert expected.any()
    np.testing.assert_allclose(block[:, -2], expected)
    assert np.isfinite(block).all()


def test_a_model_without_the_method_is_told_to_have_it() -> None:
    class Silent:
        def fit(self, interactions: Any, seed: int) -> Any:
            self.shape = interactions.shape
            return self

        def scores(self, users: Any, items: Any) -> Any:
            return np.zeros(len(users))

    training = Training(GivenModel(Silent), Design.of(timed(), small_table(), 3), BLOCKS)
    with pytest.raises(ConfigError, match=r"method scores_after\(histories, items\)"):
        training(0)


@pytest.mark.parametrize("kind", range(6))
def test_hostile_answers_leave_finite_features(kind: int) -> None:
    training = Training(Hostile(kind), Design.of(timed(), small_table(), 3), BLOCKS)
    parts = unpacked(training(0), len(BLOCKS) + BESIDES)
    assert all(np.isfinite(part).all() for part in parts[:2])


def test_the_numbers_are_the_same_on_any_workers() -> None:
    synthetic = {"n_users": 60, "n_items": 30, "mean_per_user": 15, "minimum_per_user": 5}
    values = {
        "seed": 5,
        "data": {"synthetic": synthetic},
        "membership": {
            "trainings": 8, "interactions": 60, "held_out": 40, "k": 4, "observed_users": 10,
            "rates": [0.2], "observers": ["scores", HISTORIES],
        },
        "recommender": {"target": "membership_cases:Chain"},
    }  # fmt: skip
    config = MembershipConfig.model_validate(values)
    first, other = (
        run_audit(config, workers=workers, allow_code=True).model_dump(exclude={"timing"})
        for workers in (Workers(1), Workers(2))
    )
    assert json.dumps(first, default=str) == json.dumps(other, default=str)
    observers = {part.get("observer") for part in first["measurements"]} - {None}
    assert observers == {"scores", HISTORIES}


def test_scores_alone_send_no_histories() -> None:
    training = Training(GivenModel(Chain), Design.of(timed(), small_table(), 3), BLOCKS)
    asked, data = training.query, training.design.data(0)
    assert asked.after is not None
    assert training.answer(data, 1).after is not None
    scores = training.trainable.scored(data, 1, asked)
    assert scores.shape == asked.users.shape
