"""Probes of a model beside the game: does it use its seed, and who vanishes from it?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.no_model import attempted
from dpaudit.audits.membership.answers import has_fixed_part, repeated, unchanged
from dpaudit.audits.membership.calibration import Trials
from dpaudit.audits.membership.config import Membership
from dpaudit.audits.membership.training import Packed, Training
from dpaudit.core.membership import Observer
from dpaudit.core.rounding import percent
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings
from dpaudit.execution.tasks import Task
from dpaudit.recommenders.base import Answer
from dpaudit.record.result import FindingRecord

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Noticed(NamedTuple):
    """What was noticed; the fields are those of `record.result.FindingRecord`."""

    about: str
    text: str
    remedy: str
    undecided: bool = False
    observer: Observer | None = None

    def of(self, model: str, epsilon: float | None = None) -> FindingRecord:
        """Return it as a finding about a model.

        Args:
            model: the model's label.
            epsilon: the only ε of the sweep that it is about; None for all.
        """
        return FindingRecord(model=model, epsilon=epsilon, **self._asdict())


HIDES_SEEN = Noticed(
    "hide-seen",
    "Lists leave out what their user has seen: no item on a user's list is in the user's history.",
    "Show a list to its own user alone; whoever else sees it learns this with certainty.",
)
SAVED = Noticed(
    "saved",
    "The models of all trainings are kept, and the record has the digests of the judged ones.",
    "Ship a judged one: gates with of = 'this-model' are about them.",
)
ALONE = Noticed(
    "alone",
    "No further training calibrates the attacks, which then find less: a gate that passes says "
    "nothing of attackers who train such models themselves.",
    "Raise membership.trainings to 2 or more to try these.",
)
# The share of missing answers beyond which nothing is decided.
_MOST_MISSING = 0.01
# The fewest trainings of a model beside which further ones test it.
PROBED = 8
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


def keeps_seen(trials: Trials) -> bool:
    """Whether own lists leave out nothing that their user has seen, as far as targets show.

    Lists that leave out what is seen show less of a target when it is present. If lists do not
    depend on a target's own coin, the sum of what they show, with a sign by the coin, has mean 0
    and, given what they show, at most the variance Σ x². It may be two deviations below.

    Args:
        trials: the features for the observer of own lists; the first is how much of the target, an
            item or a history, the list shows.
    """
    shown = trials.features[:, :, 0]
    signed = np.where(trials.present, shown, -shown)
    return bool(np.nansum(signed) >= -2 * np.sqrt(np.nansum(shown**2)))


def left_open(
    unanswered: Numbers,
    marks: Numbers,
    present: Mask,
    observer: Observer,
    scored: bool,
    unmoved: Collection[Observer] = (),
) -> Iterator[Noticed]:
    """Say what an observer gets no answer to, and whether two trainings show the same.

    Trainings that end without a model are left out.

    Args:
        unanswered: the share of what is asked of each target that has no answer `(T, m)`.
        marks: what each training shows, by `answers.beside` `(T, n)`; NaN without a model.
        present: the coins `(T, m)`.
        observer: who observes the model.
        scored: whether the model's scores are compared too. Then its lists are not: lists of the
            most popular items stay the same after an honest training on other data.
        unmoved: the observers who see no effect of quite other data, see `unmoved_by_data`.
    """
    listed = observer in ("own-list", "others-lists")
    ended = np.flatnonzero(~np.isnan(marks).any(1))
    pair = None if listed and scored else repeated(marks[ended], present[ended], observer)
    stale = observer in unmoved and has_fixed_part(marks[ended], observer)
    if pair or stale:
        text = (
            f"Trainings {ended[pair[0]]} and {ended[pair[1]]} of {len(marks)} have different data "
            f"and show observer {observer!r} the same."
            if pair
            else f"With one seed, quite other data change what observer {observer!r} sees no more "
            "than another training on the same data."
        )
        yield Noticed(
            "repeated",
            text,
            "Let fit train on the data that it is given and load nothing from before; until then "
            f"no gate on this {'observer' if listed else 'model'} passes.",
            undecided=True,
            observer=observer if listed else None,
        )
    share = float(unanswered[ended].mean())
    if share > 0:
        decided = share <= _MOST_MISSING
        yield Noticed(
            "missing",
            f"{percent(share, 3)} of what observer {observer!r} asks has no answer (NaN, -inf or "
            "an empty list) although the user and the item are in the training.",
            "Answer for all of them, for what the user has seen too: what is missing counts as if "
            "it told the coin"
            + ("." if decided else ", and beyond 1 % no gate on this observer passes."),
            undecided=not decided,
            observer=observer,
        )


def rates_left_out(table: Membership) -> Iterator[Noticed]:
    """Say which false-positive rates of the config are not measured."""
    for unit in table.units:
        for text in table.left_out(unit):
            remedy = f"Raise membership.{unit}s, or remove the rate from membership.rates."
            yield Noticed("rate", text, remedy)


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


def unmoved_by_data(again: Packed) -> list[Observer]:
    """Return the observers who see no effect of data whose items are in reverse order.

    An old model may be served with noise that the seed, or another training, changes.

    Args:
        again: the result of the first task of `probes`.
    """
    scores, lists, factors = again[2:]
    seen: dict[Observer, float] = {
        "scores": scores,
        "own-list": lists,
        "others-lists": lists,
        "nearest-items": factors,
        "factors": factors,
    }
    return [observer for observer, unmoved in seen.items() if unmoved]


def noticed(results: Sequence[Packed] | None) -> Iterator[Noticed]:
    """Say what the results of `probes` show; None if they were not run."""
    if results is None:
        yield Noticed(
            "not-probed",
            "Whether the seed decides everything, the model reads its data, and users and items "
            "without interactions are answered for was not tried, as that takes four more "
            "trainings.",
            f"Raise membership.trainings to {PROBED} to have it tried.",
        )
        return
    again, vanished = results
    same, constant = again[:2]
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
            "All scores that a training gives are equal.",
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


def _shown(training: Training, data: Interactions, seed: int) -> Answer | None:
    """Train on data, and return what the model shows; None if the training ends without one."""
    return attempted(partial(training.answer, data, seed), None)


def _reversed(ratings: Ratings) -> Ratings:
    """Return the ratings with the items in reverse."""
    backward = Ratings.build(
        ratings.user,
        ratings.n_items - 1 - ratings.item,
        ratings.value,
        ratings.n_users,
        ratings.n_items,
        ratings.scale,
        sensitive=ratings.sensitive,
        time=ratings.time,
    )
    of_users = ("user_ids", "item_ids", "friends", "budgets", "user_features", "item_features")
    return replace(backward, **{name: getattr(ratings, name) for name in of_users})


def _again(training: Training) -> Packed:
    """Return whether two trainings agree, whether all scores are equal, and what never changes.

    The last three numbers say whether other data, with the items in reverse, leave the scores, the
    lists and the factors as they are.
    """
    design, seed = training.design, training.design.training_seed(0)
    other = Interactions(_reversed(design.data(1).ratings))
    # With another between: what a model keeps of its last data shows the coins of two trainings.
    first, moved, second = (
        _shown(training, data, seed) for data in (design.data(0), other, design.data(0))
    )
    if first is None or second is None:
        return np.array([first is second, 0, 0, 0, 0], np.float64)
    same = np.array_equal(first.scores, second.scores, equal_nan=True)
    same = same and np.array_equal(first.lists, second.lists)
    constant = len(first.scores) > 0 and np.nanmin(first.scores) == np.nanmax(first.scores)
    if moved is None:
        return np.array([same, constant, 0, 0, 0], np.float64)
    shown = [(answer.scores, answer.lists, _items(answer)) for answer in (first, moved, second)]
    unmoved = [unchanged(*parts) for parts in zip(*shown, strict=True)]
    return np.array([same, constant, *unmoved], np.float64)


def _items(answer: Answer) -> NDArray[np.floating]:
    """Return the published factors of items, empty if there are none."""
    return np.empty(0) if answer.factors is None else answer.factors.items


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
    shown = _shown(training, Interactions.of(data, kept), design.training_seed(0))
    if shown is None or not len(shown.scores):
        return np.zeros(2)
    lost = np.isnan(shown.scores)
    return np.array(
        [float(lost[asked.users == user].all()), float(lost[asked.items == item].all())]
    )
