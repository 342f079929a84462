"""The ideal adversary on lists: the most probable value, against laws by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpaudit.attacks.inference import ListIdeal
from dpaudit.audits.on_demand.measures import run_risk
from dpaudit.core.releases import Profile
from dpaudit.core.streams import Streams
from dpaudit.data import Ratings, Scale
from dpaudit.defenses.top_k.bounds import own_rating
from dpaudit.defenses.top_k.defense import TopK

STARS = Scale(1.0, 3.0, 1.0)
FREQUENCY = np.array([0.2, 0.5, 0.3])


def ratings(users: int = 60, items: int = 12) -> Ratings:
    source = np.random.default_rng(4)
    user, item = np.nonzero(source.random((users, items)) < 0.6)
    value = source.integers(1, 4, len(user)).astype(np.float32)
    return Ratings.build(user, item, value, users, items, STARS)


def test_the_most_probable_value_is_taken_and_the_first_of_equals() -> None:
    logs = np.log([[0.1, 0.2, 0.7], [0.3, 0.3, 0.3], [0.5, 0.25, 0.1]])
    assert ListIdeal(prior="uniform").infer(logs, FREQUENCY).tolist() == [2, 0, 0]
    # By Bayes' rule: 0.02, 0.1, 0.21; 0.06, 0.15, 0.09; 0.1, 0.125, 0.03.
    assert ListIdeal().infer(logs, FREQUENCY).tolist() == [2, 1, 1]
    impossible = np.array([[-np.inf, -np.inf, -3.0]])
    assert ListIdeal().infer(impossible, np.array([1.0, 0.0, 0.0])).shape == (1,)


@pytest.mark.cases(
    "changes",
    [
        {"variant": "nonprivate", "epsilon": float("inf")},
        {"variant": "published", "u_s": "largest-rate", "iterations": 20},
        {"variant": "corrected"},
        {"variant": "corrected", "mechanism": "peeling", "adjacency": "rating-replace"},
    ],
)
def test_likelihoods_are_those_of_the_row_with_each_value(changes: dict[str, Any]) -> None:
    defense = TopK(**{"epsilon": 2.0, "min_ratings": 2, "top_k": 2, "min_co_ratings": 2, **changes})
    data = ratings()
    model = defense.prepare(data)
    profile = data.profile(3)
    hidden = profile.items[np.array([0, 2, 0, 1])]
    shown = defense.release_list(defense.exact(model, profile), Streams.first(1, "lists", 4))
    side = defense.side_information(model, profile, hidden)
    logs = defense.log_likelihood(side, shown, STARS)
    assert logs.shape == (4, 3)
    for trial, item in enumerate(hidden):
        for number, value in enumerate(STARS.values):
            values = np.where(profile.items == item, value, profile.values).astype(np.float32)
            row = defense.exact(model, Profile(profile.items, values))
            wanted = defense.law(row).log_probability(shown.items[trial : trial + 1])
            assert logs[trial, number] == pytest.approx(wanted[0], abs=1e-4)


@pytest.mark.long
def test_lists_with_much_noise_leave_a_guess_of_the_most_frequent_value() -> None:
    data = ratings()
    given: dict[str, Any] = {"min_ratings": 2, "top_k": 2, "min_co_ratings": 2}
    defenses = [TopK(epsilon, "corrected", **given) for epsilon in (1e-4, 40.0)]
    model = defenses[0].prepare(data)
    profiles = [data.profile(user) for user in range(12) if 3 <= len(data.profile(user)) <= 9]
    correct = run_risk(defenses, model, profiles, ListIdeal(), trials=1500, seed=2)
    often = np.argmax(defenses[0].side_information(model, profiles[0], profiles[0].items).frequency)
    # Without information it guesses the most frequent value, of a rating of a random user.
    shares = [(profile.values == STARS.values[often]).mean() for profile in profiles]
    within = stats.norm.isf(1e-7) * np.sqrt(1500) / 2
    assert abs(correct[0].sum() - 1500 * np.mean(shares)) < within


def test_a_value_that_moves_few_predictions_is_recovered() -> None:
    # The user's rating of item 0 moves the k lowest predictions and hardly the others.
    data, change = own_rating(3, 2, 2, STARS)
    defense = TopK(1e4, "corrected", 3, 2, 2, "rating-replace")
    model, profile = defense.prepare(data), data.profile(change.user)
    hidden = np.zeros(64, np.int32)
    streams = Streams.first(1, "lists", 64)
    side = defense.side_information(model, profile, hidden)
    right = []
    for place, value in ((0, 1.0), (2, 3.0)):
        values = np.where(profile.items == 0, value, profile.values).astype(np.float32)
        row = defense.exact(model, Profile(profile.items, values))
        logs = defense.log_likelihood(side, defense.release_list(row, streams), STARS)
        # The law of the true value gives its lists more probability on average.
        assert (logs[:, place] - logs[:, 2 - place]).mean() > 0
        right.append((ListIdeal(prior="uniform").infer(logs, side.frequency) == place).mean())
    # A list of the highest value that holds a moved item is hardly possible under the lowest.
    assert right[0] == 1
    assert right[1] > 0.1
