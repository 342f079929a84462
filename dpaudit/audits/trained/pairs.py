"""Games on trained models: neighbouring data sets, target users, observers, and the games."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Distinguisher, LearnedDistinguisher
from dpaudit.auditor.games import DistinguishingGame
from dpaudit.config.model import Model
from dpaudit.config.tables import Game, check_covered, observer_of
from dpaudit.core.claim import Adjacency, Claim, covered_adjacencies
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.releases import NoisedSteps, PreparedPair, TargetUser
from dpaudit.data import neighbors
from dpaudit.data.neighbors import Change
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.base import Targets, TrainedDefense

P = TypeVar("P")
# The observer of games with many canary ratings.
MANY = "iterates"


@dataclass(frozen=True, eq=False)
class DataPair:
    """Two neighbouring data sets to learn from.

    Attributes:
        before: the ratings of data set D.
        after: the ratings of data set D'.
        public: the data whose statistics count as public for both; None if each data set computes
            its own.
        summary: description of the pair in one sentence that identifies no record.
        details: the same with the exact sizes and values of the target; empty if it would say no
            more than the summary.

    Raises:
        DataError: the two data sets are the same.
    """

    before: Ratings
    after: Ratings
    public: Ratings | None
    summary: str
    details: str = ""

    def __post_init__(self) -> None:
        if self.before.digest == self.after.digest:
            raise DataError(
                f"D and D' are the same data set ({self.summary}): choose a change that changes it"
            )


def trained_game(
    defense: TrainedDefense[P],
    pair: DataPair,
    attack: Distinguisher | LearnedDistinguisher,
    observer: str,
    target: TargetUser | None = None,
) -> DistinguishingGame[P]:
    """Set up the game of one observer of trainings on either data set.

    Args:
        defense: the recommender to train.
        pair: the two data sets.
        attack: the attack.
        observer: name of one of the defense's observers.
        target: the target user, for observers of a released model.
    """
    items = unrated = np.empty(0, np.int32)
    if target is not None:
        items = target.items.astype(np.int32)
        # What the observing user's list may hold is the same in D and D'.
        rated = pair.before.profile(target.observer).items
        unrated = np.setdiff1d(np.arange(pair.before.n_items), rated).astype(np.int32)
    prepared = PreparedPair(
        before=defense.prepare(pair.before, pair.public),
        after=defense.prepare(pair.after, pair.public),
        items=items,
        target=target,
        unrated=unrated,
        top_k=attack.list_length if isinstance(attack, LearnedDistinguisher) else 0,
    )
    return DistinguishingGame(defense.observers()[observer], prepared, attack)


def target_pair(
    ratings: Ratings, adjacency: Adjacency, more_than: int, targets: Targets | None = None
) -> tuple[DataPair, TargetUser]:
    """Choose a pair of neighbours in the audited data that is likely to be informative.

    For an adjacency of ratings, the target user is the one with the fewest ratings among those
    learned from, so that each rating weighs most. The changed rating is one of theirs that can move
    farthest, and among these the one on the item with the fewest raters, where the fewest others
    interfere. If some ratings are sensitive, it is one of them. It moves to the far end of the
    scale, or is removed. For an adjacency of users, the target user is the one with the most
    ratings; all of these move to the far end of the scale, or are removed.

    Args:
        ratings: the audited data, data set `D`.
        adjacency: the adjacency.
        more_than: users with more ratings than this are learned from.
        targets: which users may be targets; all by default. If `crowded`, the target user is a
            rater of the item with the most raters, and items with many raters come before ratings
            that can move far.

    Raises:
        DataError: no allowed user has enough ratings, or no other user who could observe.
    """
    targets, of_user = targets or Targets(), adjacency.startswith("user")
    rows = _target_rows(ratings, of_user, max(more_than, 1), targets)
    if targets.crowded and not of_user:
        raters = np.bincount(ratings.item, minlength=ratings.n_items)[ratings.item]
        user = int(ratings.user[np.where(rows, raters, -1).argmax()])
    else:
        learned, counts = np.unique(ratings.user[rows]), np.diff(ratings.by_user.start)
        most = counts[learned].max() if of_user else counts[learned].min()
        user = int(learned[counts[learned] == most][0])
    if of_user:
        change, words = _user(ratings, user, adjacency)
    else:
        allowed = rows[ratings.user == user]
        change, words = _rating(ratings, user, adjacency, allowed, targets.crowded)
    after = neighbors.apply(ratings, change)
    # The other user who shares the most items observes.
    rated = np.isin(np.arange(ratings.n_items), ratings.profile(user).items)
    shared = np.bincount(ratings.user, rated[ratings.item], ratings.n_users)
    shared[user] = -1
    target = TargetUser(int(np.argmax(shared)), ratings.profile(user), after.profile(user))
    return DataPair(ratings, after, ratings, *words), target


def _target_rows(
    ratings: Ratings, of_user: bool, more_than: int, targets: Targets
) -> NDArray[np.bool_]:
    """Return which ratings are of possible target users, and may change `(R,)`.

    Raises:
        DataError: there is none, or no other user who could observe.
    """
    if ratings.n_users < 2:
        raise DataError(
            "there is no second user, to whom predictions could be shown: use more data"
        )
    able = np.diff(ratings.by_user.start) > more_than
    if not able.any():
        raise DataError(
            f"no user has more than {more_than} ratings, so there is no target user: use more data"
        )
    rows = able[ratings.user]
    if targets.rows is not None:
        rows &= targets.rows
    if ratings.kept_private.any() and not of_user:
        rows &= ratings.kept_private
    if not rows.any():
        raise DataError(
            f"none of the {able.sum()} users with more than {more_than} ratings can be "
            f"the target user: {targets.remedy or 'use more data'}"
        )
    return rows


def size_class(size: int) -> str:
    """Coarsen a number of ratings or raters, which could identify a user, to one of four classes.

    Returns:
        `at most 10`, `11 to 100`, `101 to 1000` or `more than 1000`.
    """
    classes = ((10, "at most 10"), (100, "11 to 100"), (1000, "101 to 1000"))
    return next((name for top, name in classes if size <= top), "more than 1000")


class _Sentence(NamedTuple):
    """The start of a sentence about a user, and the sizes that fill its placeholders."""

    begin: str
    sizes: tuple[int, ...]

    def end(self, summary: str, details: str = "") -> tuple[str, str]:
        """Return it with size classes only, and with exact sizes and values."""
        return (
            f"{self.begin.format(*map(size_class, self.sizes))} {summary}",
            f"{self.begin.format(*self.sizes)} {details or summary}",
        )


def _rating(
    ratings: Ratings, user: int, adjacency: Adjacency, allowed: NDArray[np.bool_], crowded: bool
) -> tuple[Change, tuple[str, str]]:
    """Return what changes in one rating of a user, and the words for it."""
    profile = ratings.profile(user)
    raters = np.bincount(ratings.item, minlength=ratings.n_items)[profile.items]
    far = _opposed(ratings.scale, profile.values)
    kept = ratings.kept_private[ratings.user == user]
    moves = -abs(far - profile.values)
    # lexsort sorts by its last key first.
    ranks = (moves, -raters, ~allowed) if crowded else (raters, moves, ~allowed)
    row = int(np.lexsort(ranks)[0])
    item, value = int(profile.items[row]), float(profile.values[row])
    sensitive = ", which is sensitive," if kept[row] else ""
    sizes = len(profile), int(raters[row])
    begin = f"of {{}} ratings of one user, that of an item with {{}} raters{sensitive}"
    words = _Sentence(begin, sizes)
    if adjacency == "rating-add-remove":
        return neighbors.RatingRemoved(user, item), words.end("disappears")
    change = neighbors.RatingReplaced(user, item, float(far[row]))
    end = "goes to the far end of the scale"
    return change, words.end(end, f"goes from {value:g} to {far[row]:g}")


def _user(ratings: Ratings, user: int, adjacency: Adjacency) -> tuple[Change, tuple[str, str]]:
    """Return what changes in all ratings of a user, and the words for it."""
    profile = ratings.profile(user)
    who = _Sentence("one user with {} ratings", (len(profile),))
    if adjacency == "user-add-remove":
        return neighbors.UserRemoved(user), who.end("disappears")
    if not ratings.scale.width:  # purchases
        other_items = np.setdiff1d(np.arange(ratings.n_items), profile.items)[: len(profile)]
        if not len(other_items):
            raise DataError(
                f"one user has bought all of the {ratings.n_items} items, so there are no others "
                "to take: use more data"
            )
        ones = np.ones(len(other_items), np.float32)
        change = neighbors.UserReplaced(user, other_items.astype(np.int32), ones)
        return change, who.end("has others instead", f"has {len(other_items)} others instead")
    change = neighbors.UserReplaced(user, profile.items, _opposed(ratings.scale, profile.values))
    return change, who.end("takes each at the far end of the scale")


def _opposed(scale: Scale, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Move every rating to the end of the scale that is farther away."""
    middle = (scale.minimum + scale.maximum) / 2
    return np.where(values > middle, scale.minimum, scale.maximum).astype(np.float32)


def _observed(label: str, game: Game, defense: TrainedDefense[Any]) -> str:
    """Return the observer of a game, whom the claim must cover.

    Raises:
        ConfigError: the claim does not cover the observer, or the defense shows the observer
            nothing that the attack reads.
    """
    observe = observer_of(game, label, defense.observers())
    check_covered(game, label, defense.claim(), observe)
    _check_observed(label, defense, observe)
    return observe


def sees_steps(defense: TrainedDefense[Any], observe: str) -> bool:
    """Whether the observer sees training steps whose noise has a known law."""
    return issubclass(defense.observers()[observe].shows[0], NoisedSteps)


def _check_observed(label: str, defense: TrainedDefense[Any], observe: str) -> None:
    """Refuse an observer whose views of this model have no known law.

    Raises:
        ConfigError: the views have no known law.
    """
    try:
        defense.check_observed(observe)
    except ConfigError as error:
        raise ConfigError(f"[[game]] on model {label!r}: {error}") from error


@dataclass(frozen=True)
class PairSearch:
    """The search for a game's pair in the data.

    Attributes:
        ratings: the ratings that models learn from.
    """

    ratings: Ratings

    def of(
        self, label: str, game: Game, defense: TrainedDefense[Any]
    ) -> tuple[Adjacency, str, DataPair, TargetUser]:
        """Return a game's adjacency, observer, neighbouring data sets and target user.

        Raises:
            ConfigError: the model's claim does not cover the game, or its observer sees too little.
            DataError: there is no possible target.
        """
        purchases = not self.ratings.scale.width
        adjacency = _adjacency(label, game, defense.claim(), purchases)
        observe = _observed(label, game, defense)
        targets = defense.targets(self.ratings, observe)
        pair, target = target_pair(self.ratings, adjacency, defense.least_ratings(), targets)
        return adjacency, observe, pair, target

    def check(self, model: Model, games: Sequence[Game]) -> None:
        """Refuse games for which the data contain no pair, before anything is trained.

        Raises:
            ConfigError: names the model, the game and the remedy.
        """
        for game in games:
            if game.pair == "many":
                continue
            for epsilon in model.epsilon:
                refusals = []
                # The grid search has not run yet, so one possible combination is enough.
                for defense in model.combinations("model", epsilon):
                    try:
                        self.of(model.label, game, defense)
                        break
                    except (ConfigError, DataError) as error:
                        refusals.append(error)
                else:
                    where = f"[[game]] {game.label!r} on model {model.label!r}"
                    raise ConfigError(f"{where}: {refusals[0]}") from refusals[0]


def check_games(model: Model, games: Sequence[Game]) -> None:
    """Refuse games that the model's claim does not cover, before anything is trained.

    Games with many canary ratings need steps that show each rating separately.

    Raises:
        ConfigError: names the game and the remedy.
    """
    for defense in model.defenses("model"):
        for game in games:
            if game.pair != "many":
                _adjacency(model.label, game, defense.claim())
                _observed(model.label, game, defense)
                continue
            if not defense.separates_ratings():
                raise ConfigError(
                    f"[[game]] pair = 'many': the steps of model {model.label!r} do not show each "
                    "rating separately: use pair = 'data', or the published 'dpsgd-mf'"
                )
            _check_observed(model.label, defense, MANY)


def _adjacency(label: str, game: Game, claim: Claim | None, purchases: bool = False) -> Adjacency:
    """Return the adjacency of a game, which the claim must cover.

    Args:
        label: the model's label.
        game: the game.
        claim: the model's claim, if any.
        purchases: whether the data are purchases, whose values cannot be replaced.

    Raises:
        ConfigError: the claim does not cover it.
    """
    default: Adjacency = "rating-add-remove" if purchases else "rating-replace"
    if game.pair == "data":
        return claim.adjacency if claim else default
    if claim is None:
        return default if game.pair == "rating" else "user-replace"
    covered = covered_adjacencies(claim)
    kinds: tuple[Adjacency, ...] = get_args(Adjacency)
    reached = [kind for kind in kinds if kind.startswith(game.pair) and kind in covered]
    if not reached:
        raise ConfigError(
            f"[[game]] pair = {game.pair!r}: model {label!r} claims nothing for it, only for "
            f"{claim.adjacency}: use pair = 'data'"
        )
    return default if default in reached else reached[0]
