"""Probes of a model beside the game, and the blind baseline of its coins.

Probes ask whether a model uses its seed, and who vanishes from it.

**Blind baseline.** What no model can tell has to be at chance. Coins are fair and independent of
each other, of the data, and of all other trainings. So numbers a that do not depend on coins c of
±1 have a sum Σ a c of which Hoeffding's inequality says

    P(|Σ a c| ≥ t) ≤ 2 exp(−t²/(2 Σ a²)),

whatever a is (Hoeffding 1963, doi:10.1080/01621459.1963.10500830, Theorem 2), without any
assumption on models. Such numbers are

- the popularity of an item and the activity of a user, counted in all data with all targets;
- what one training shows, for the coins of another one. The mean of what others show of a target is
  taken off first, of all trainings but these two;
- the scores that the strongest attack gives one half of the judged trainings, for the coins of the
  other half, one by one. The calibrating trainings choose the attack and fit it, and it reads
  nothing of the other half, so that such coins are independent of all scores together.

A model without any target would be one more function of the known data. It takes a training more,
and shows nothing of fair coins that these do not.

Where one of them tells coins, something is wrong with the audit: coins that depend on the data, a
training that starts from an earlier one, or trainings that were mixed up. With all baselines of an
audit together this happens at most once in 1/`ALPHA` audits without such a fault.

**Explained.** How popular the list of a user is may tell the coin without a fault: a model may show
what is popular to whom it does not know. That takes no memory of what the user has, so where it
tells as much as the strongest attack, it is said.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.trainings import attempted
from dpaudit.audits.membership.calibration import Trials
from dpaudit.audits.membership.config import Membership
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.training import Packed, Training, has_fixed_part, repeated, unchanged
from dpaudit.audits.models.config import SHOWN
from dpaudit.audits.models.subject import MemberPoint
from dpaudit.core.estimate import Estimate
from dpaudit.core.membership import OBSERVERS, Observer, Unit
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


def saved(ships: Sequence[str]) -> Noticed:
    """Return that models are kept, of which those in these folders ship."""
    return Noticed(
        "saved",
        "The models of all trainings are kept, and the record has the digests of the judged ones "
        f"and of what ships by membership.ships: {', '.join(ships)}.",
        "Ship that: gates with of = 'this-model' judge it.",
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


def tasks_of(training: Training) -> Iterator[Task]:
    """Yield two tasks: train the first model twice, and once without a user and an item.

    The user and the item have few interactions. Run with the trainings, so that shards and samples
    of the tasks have all of them.

    Args:
        training: the work of one training.
    """

    def probe(name: str) -> Packed:
        return _again(training) if name == "again" else _without(training)

    return (Task(probe, name, 1, "probe", dear=True) for name in ("again", "vanished"))


def unmoved_by_data(again: Packed) -> list[Observer]:
    """Return the observers who see no effect of data whose items are in reverse order.

    An old model may be served with noise that the seed, or another training, changes.

    Args:
        again: the result of the first task of `probes`.
    """
    unmoved = dict(zip(("scores", "lists", "factors", "histories"), again[2:], strict=True))
    return [observer for observer in OBSERVERS if unmoved[SHOWN[observer]]]


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
    for name in compress(("user", "item"), vanished):
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

    The last four numbers say whether other data, with the items in reverse, leave the scores, the
    lists, the factors and the scores after histories as they are.
    """
    design, seed = training.design, training.design.training_seed(0)
    other = Interactions(_reversed(design.data(1).ratings))
    # With another between: what a model keeps of its last data shows the coins of two trainings.
    datasets = (design.data(0), other, design.data(0))
    first, moved, second = (_shown(training, data, seed) for data in datasets)
    if first is None or second is None:
        return np.array([first is second, 0, 0, 0, 0, 0], np.float64)
    same = np.array_equal(first.scores, second.scores, equal_nan=True)
    same = same and np.array_equal(first.lists, second.lists)
    constant = len(first.scores) > 0 and np.nanmin(first.scores) == np.nanmax(first.scores)
    if moved is None:
        return np.array([same, constant, 0, 0, 0, 0], np.float64)
    nothing = np.empty(0)
    shown = [
        (
            answer.scores,
            answer.lists,
            answer.factors.items if answer.factors else nothing,
            nothing if answer.after is None else answer.after,
        )
        for answer in (first, moved, second)
    ]
    unmoved = [unchanged(*parts) for parts in zip(*shown, strict=True)]
    return np.array([same, constant, *unmoved], np.float64)


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
    lost = np.isnan(shown.scores[: len(asked.users)])
    whole = [lost[asked.users == user].all(), lost[asked.items == item].all()]
    return np.array(whole, np.float64)


# How often an audit without a fault is held up.
ALPHA = 1e-3


def level_of(points: int, units: int) -> float:
    """Return the level of each baseline: two by the data, and two for each observer.

    Args:
        points: the number of models, each ε counted.
        units: the number of units.
    """
    return ALPHA / (points * units * (2 + 2 * len(OBSERVERS)))


class Baseline(NamedTuple):
    """What tells coins without a model.

    Attributes:
        name: what it is.
        area: its AUC for the coins; 0.5 is chance.
        finding: what is noticed; None if nothing is.
    """

    name: str
    area: Estimate
    finding: Noticed | None


def of_data(design: Design, unit: Unit, present: Mask, alpha: float) -> Iterator[Baseline]:
    """Yield how well the popularity of items and the activity of users tell the coins.

    Args:
        design: the targets.
        unit: what a target is.
        present: the coins of all trainings `(T, m)`.
        alpha: the level of each.
    """
    data = design.ratings
    kept = np.ones(len(data), np.bool_)
    kept[design.held] = False
    popularity, activity = (
        np.bincount(of[kept], minlength=count).astype(np.float64)
        for of, count in ((data.item, data.n_items), (data.user, data.n_users))
    )
    if unit == "interaction":
        numbers = {
            "item popularity": popularity[data.item[design.rows]],
            "user activity": activity[data.user[design.rows]],
        }
    else:
        total = np.bincount(data.user[kept], popularity[data.item[kept]], minlength=data.n_users)
        numbers = {
            "item popularity": total[design.users] / np.maximum(activity[design.users], 1),
            "user activity": activity[design.users],
        }
    for name, values in numbers.items():
        yield _baseline(
            name,
            _told(np.broadcast_to(values, present.shape), present, alpha),
            f"{name.capitalize()} tells without any model which {unit}s are in the trainings",
            "The coins depend on the data, so nothing that guesses them shows what a model leaks: "
            "report it as a defect of dpaudit",
        )


def of_other_trainings(
    trials: Trials, unit: Unit, observer: Observer, alpha: float
) -> Baseline | None:
    """Return how well a training tells the coins of another one, for the pair that tells most.

    Args:
        trials: what the first feature of the targets is in each training.
        unit: what a target is.
        observer: who observes the models.
        alpha: the level, shared by all pairs.

    Returns:
        The baseline; None with fewer than two trainings that end with a model.
    """
    ended = trials.ended
    if len(ended) < 2:
        return None
    correlations = _correlations(trials.features[ended, :, 0], trials.present[ended])
    first, other = np.unravel_index(int(np.abs(correlations).argmax()), correlations.shape)
    pairs = len(ended) * (len(ended) - 1)
    return _baseline(
        "another training",
        _area(float(correlations[first, other]), trials.present.shape[1], alpha / pairs),
        f"What observer {observer!r} sees of training {ended[first]} tells which {unit}s are in "
        f"training {ended[other]}",
        "Let every training start from nothing, and return what it shows as that of its own data",
    )


def of_foreign_coins(
    scores: Numbers, foreign: Mask, unit: Unit, observer: Observer, alpha: float
) -> Baseline:
    """Return how well an attack's scores of some trainings tell the coins of others.

    Args:
        scores: the scores `(h, m)`, which do not depend on the coins.
        foreign: the coins of as many other trainings `(h, m)`.
        unit: what a target is.
        observer: who observes the models.
        alpha: the level.
    """
    return _baseline(
        "attack on another training",
        _told(scores, foreign, alpha),
        f"The strongest attack of observer {observer!r} on some trainings tells which {unit}s are "
        "in others",
        "Let every training start from nothing, and let no attack read coins of what it judges",
    )


def of_lists(trials: Trials, strongest: Estimate, alpha: float) -> Baseline:
    """Return how well a user's list tells the coin by how popular it is, whatever else it shows.

    Its AUC is above 0.5 if lists of present users are less popular; an empty list is least popular.

    Args:
        trials: what the observer of own lists sees of target users in the judged trainings; the
            third feature is the popularity of the list.
        strongest: the AUC of the strongest attack on them.
        alpha: the error probability of its being off chance by chance.
    """
    area = _told(-np.nan_to_num(trials.features[:, :, 2]), trials.present, alpha)
    name = "list popularity"
    value, most = max(area.value, 1 - area.value), max(area.upper, 1 - area.lower)
    if area.lower <= 0.5 <= area.upper or most < strongest.lower:
        return Baseline(name, area, None)
    noticed = Noticed(
        "explained",
        f"How popular a list is tells which users are in the trainings, with AUC {value:.2f}, "
        f"as well as the strongest attack of observer 'own-list' does, with {strongest.value:.2f}.",
        "Read that AUC as who gets another list than a stranger, and not as what the model "
        "remembers of a history; other observers tell about that.",
    )
    return Baseline(name, area, noticed)


def _told(values: Numbers, present: Mask, alpha: float) -> Estimate:
    """Return the AUC of ranks of some numbers in each training for its coins `(T, m)`."""
    ranks = _ranks(values)
    size = math.sqrt(present.size * float((ranks**2).sum()))
    correlation = float(np.where(present, ranks, -ranks).sum()) / size if size > 0 else 0.0
    return _area(correlation, present.size, alpha)


def _correlations(values: Numbers, present: Mask) -> Numbers:
    """Return the correlation of what a training shows with the coins of another `(T, T)`.

    What training t shows, less the mean of all but t and s, does not depend on the coins of s. The
    diagonal is 0.
    """
    shown, signs = _ranks(values), np.where(present, 1.0, -1.0)
    weight = 1 / (len(shown) - 2) if len(shown) > 2 else 0.0
    total = shown.sum(0)
    with_signs = np.einsum("ti,si->ts", shown, signs)
    sums = (1 + weight) * with_signs
    sums -= weight * (np.einsum("i,si->s", total, signs) - with_signs.diagonal())
    products = np.einsum("ti,si->ts", shown, shown)
    lengths, with_total = products.diagonal(), np.einsum("i,ti->t", total, shown)
    squares = (1 + weight) ** 2 * lengths[:, None] + weight**2 * (
        float((total**2).sum()) - 2 * with_total + lengths
    )
    squares -= 2 * (1 + weight) * weight * (with_total[:, None] - products)
    # Trainings that show the same leave nothing but rounding.
    able = squares > 1e-9 * lengths.max(initial=1.0)
    np.fill_diagonal(able, False)
    size = np.sqrt(np.where(able, squares, 1.0) * signs.shape[1])
    return np.where(able, sums / size, 0.0)


def _ranks(values: Numbers) -> Numbers:
    """Return ranks within each row, around 0, equal ones alike `(T, m)`."""
    from scipy.stats import rankdata

    return rankdata(values, axis=1) - (values.shape[1] + 1) / 2


def _area(correlation: float, count: int, alpha: float) -> Estimate:
    """Return the AUC of evenly spaced ranks with a correlation with coins, and its interval.

    Args:
        correlation: Σ a c/√(n Σ a²), which is √(2 ln(2/α)/n) or more, or less than −1 times that,
            with a probability of at most α.
        count: the number n of coins.
        alpha: the level.
    """
    half = math.sqrt(2 * math.log(2 / alpha) / count)
    ends = {"value": correlation, "lower": correlation - half, "upper": correlation + half}
    area = {end: min(max(0.5 + at / math.sqrt(3), 0.0), 1.0) for end, at in ends.items()}
    known = {"confidence": 1 - ALPHA, "alpha": alpha, "kind": "assumes-law"}
    return Estimate(**area, n=count, method="ranks against fair coins, Hoeffding", **known)


def _baseline(name: str, area: Estimate, text: str, remedy: str) -> Baseline:
    """Return a baseline, with what is noticed of it unless it is at chance."""
    if area.lower <= 0.5 <= area.upper:
        return Baseline(name, area, None)
    interval = f"{area.value:.2f} [{area.lower:.2f}, {area.upper:.2f}]"
    text = f"{text}, with AUC {interval}, where 0.5 is chance."
    remedy += "; until then no gate on this model is decided."
    return Baseline(name, area, Noticed("blind", text, remedy, undecided=True))


def is_probed(point: MemberPoint, trainings: int) -> bool:
    """Whether further trainings test a model: not if each is dear, or none can be made."""
    return point.trainable.trains and trainings >= PROBED
