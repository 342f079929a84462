"""Probes of a model beside the game: does it use its seed, and who vanishes from it?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dpaudit.auditor.membership.halves import Trials
from dpaudit.auditor.membership.training import Packed, Training
from dpaudit.data.interactions import interactions_of
from dpaudit.execution.tasks import Task


class Noticed(NamedTuple):
    """What was noticed: a topic, what was found, and what to do, a sentence each."""

    about: str
    text: str
    remedy: str


HIDES_SEEN = Noticed(
    "hide-seen",
    "Lists leave out what their user has seen: no item on a user's list is in the user's history.",
    "Show a list to its own user alone; whoever else sees it learns this with certainty.",
)
# Chance of what is seen if lists did not leave out seen items.
_CHANCE = 1e-9


def hides_seen(trials: Trials) -> bool:
    """Whether lists never hold a present target's item although they hold absent ones'.

    Args:
        trials: the features of interactions for the observer of own lists; the first is positive if
            the item is listed.
    """
    listed = trials.features[:, :, 0] > 0
    within, without = listed[trials.present], listed[~trials.present]
    if within.any() or not without.any():
        return False
    return bool((1 - without.mean()) ** len(within) < _CHANCE)


def probes(training: Training) -> Iterator[Task]:
    """Yield two tasks: train the first model twice, and once without a user and an item.

    The user and the item have few interactions. Run with the trainings, so that shards and samples
    of the tasks have all of them.

    Args:
        training: the work of one training.
    """

    def probe(name: str) -> Packed:
        return _again(training) if name == "again" else _without(training)

    for name in ("again", "vanished"):
        yield Task(probe, name, 1, "probe", dear=True)


def noticed(again: Packed, vanished: Packed) -> Iterator[Noticed]:
    """Say what the results of `probes` show."""
    same, constant = again.tolist()
    if not same:
        yield Noticed(
            "seed",
            "Two trainings with the same data and seed differ.",
            "Let the seed decide everything that is random, use one thread, and keep nothing from "
            "one training to the next; until then, no number of this model can be repeated.",
        )
    if constant:
        yield Noticed(
            "constant",
            "All scores of a training are equal.",
            "Check that the model learns and that scores are returned for the pairs asked.",
        )
    missing = [name for name, gone in zip(("user", "item"), vanished, strict=True) if gone]
    for name in missing:
        yield Noticed(
            "vocabulary",
            f"The model does not know {name}s without interactions: whoever asks sees that the "
            f"{name} has none.",
            f"Give the model the fixed list of all {name}s, and answer for those without "
            "interactions as for new ones.",
        )


def _again(training: Training) -> Packed:
    """Return whether two trainings agree, and whether all scores are equal."""
    design, seed = training.design, training.design.training_seed(0)
    # With another between: what a model keeps of its last data shows the coins of two trainings.
    first, _, second = (training.answer(design.data(index), seed) for index in (0, 1, 0))
    same = np.array_equal(first.scores, second.scores, equal_nan=True)
    same = same and np.array_equal(first.lists, second.lists)
    constant = len(first.scores) > 0 and first.scores.min() == first.scores.max()
    return np.array([float(same), float(constant)])


def _without(training: Training) -> Packed:
    """Return whether scores of a user, and of an item, without interactions are missing."""
    design = training.design
    data, asked = design.ratings, design.query
    # Of those whose scores are asked, the ones with the fewest interactions.
    of_user = np.bincount(data.user, minlength=data.n_users)
    of_item = np.bincount(data.item, minlength=data.n_items)
    user = asked.users[np.argmin(of_user[asked.users])]
    item = asked.items[np.argmin(of_item[asked.items])]
    kept = design.known & (data.user != user) & (data.item != item)
    shown = training.answer(interactions_of(data, kept), design.training_seed(0))
    if not len(shown.scores):
        return np.zeros(2)
    lost = np.isnan(shown.scores)
    return np.array(
        [float(lost[asked.users == user].all()), float(lost[asked.items == item].all())]
    )
