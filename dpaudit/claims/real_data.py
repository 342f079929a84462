"""Neighbours of real ratings on which a published claim fails, chosen by search.

The search compares exact predictions and draws no noise, so it spends no confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpaudit.claims.entry import Game, PublishedClaim
from dpaudit.claims.games import PredictionGame
from dpaudit.data.neighbors import RatingAdded, RatingChange, RatingReplaced
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers import load
from dpaudit.data.source import DataSource
from dpaudit.defenses.base import WorldPair
from dpaudit.defenses.cosine import Cosine
from dpaudit.defenses.item_item import ItemItem
from dpaudit.defenses.item_model import ItemModel
from dpaudit.defenses.slope_one import SlopeOne
from dpaudit.errors import DataError
from dpaudit.kernels.pairs import co_rating_row

# Ratings of at least this share of the scale count as purchases.
_LIKED = 0.75
_TARGETS, _COMPARED, _SHOWN = 400, 200, 20

Users = NDArray[np.int64]


def on_real_data(
    sources: Mapping[str, DataSource], entries: Sequence[PublishedClaim]
) -> list[tuple[str, Game]]:
    """Games of these entries on ratings, each with its entry's id.

    Args:
        sources: the ratings by the name that the games' labels have for them.
        entries: the entries to be played; some have no game on real data.

    Raises:
        DataError: the ratings cannot be read, are purchases, or are too few.
    """
    wanted = {entry.id for entry in entries}
    games = []
    for name, source in sources.items():
        ratings = load(source)
        scale = ratings.scale
        if scale.width == 0:
            raise DataError(
                f"{name} has purchases and not ratings: leave out data.binarize, ratings of at "
                f"least {_LIKED:.0%} of the scale count as purchases where a claim is about them"
            )
        liked = float(scale.values[scale.values >= scale.minimum + _LIKED * scale.width][0])
        purchases = load(source.model_copy(update={"binarize": liked}))
        games += [(id_, game) for id_, game in _games(ratings, purchases, name) if id_ in wanted]
    return games


def _games(ratings: Ratings, purchases: Ratings, name: str) -> Iterator[tuple[str, Game]]:
    slope_one, cosine = SlopeOne(epsilon=1.0), Cosine(epsilon=1.0)
    paper = SlopeOne(epsilon=1.0, delta_r=5.0 * ratings.scale.width / 4)
    replaced = SlopeOne(epsilon=0.5, adjacency="rating-replace")
    crossing = most_moved(slope_one, ratings, _crossings)
    yield "pa11-thm3.1-crossing", _game(f"{name}, Δr as the scale's", slope_one, crossing)
    yield "pa11-thm3.1-crossing", _game(f"{name}, Δr as in the paper's run", paper, crossing)
    yield "pa11-s3.4-joint", _game(f"{name}, {_SHOWN} predictions", replaced, own_rating(ratings))
    yield "pa11-thm3.2", _game(name, cosine, most_moved(cosine, purchases, _rare_purchases))


def _game(label: str, defense: ItemItem, pair: WorldPair) -> PredictionGame:
    return PredictionGame(label, defense, lambda _: pair)


Search = Callable[[ItemItem, ItemModel, Users], list[tuple[int, RatingChange]]]


def most_moved(defense: ItemItem, ratings: Ratings, search: Search) -> WorldPair:
    """The changed rating, among those that a search proposes, that moves a prediction most.

    Raises:
        DataError: no user has enough ratings, or the search proposes nothing.
    """
    counts = np.diff(ratings.by_user.start)
    able = np.flatnonzero(counts >= defense.min_ratings)
    targets = able[np.argsort(counts[able], kind="stable")][:_TARGETS]
    model = defense.prepare(ratings)
    proposed = search(defense, model, targets) if len(targets) else []
    if not proposed:
        raise DataError(
            f"no single rating of these data moves a prediction of {defense.name} as its claim "
            "leaves out: use more data"
        )

    def shift(candidate: tuple[int, RatingChange]) -> float:
        target, change = candidate
        before = defense.exact(model, ratings.profile(target)).scores[change.item]
        return float(abs(defense.exact_after(model, change, target).scores[change.item] - before))

    target, change = max(proposed, key=shift)
    return WorldPair(
        ratings,
        change,
        target,
        (change.item,),
        f"real ratings of {ratings.n_users} users, to which another user adds one, chosen by "
        "search",
    )


def _crossings(
    defense: ItemItem, model: ItemModel, targets: Users
) -> list[tuple[int, RatingChange]]:
    """Added ratings by which most of a target's items get one co-rater more than the threshold."""
    ratings, floor = model.ratings, defense.pair_floor()
    rated = _matrix(ratings)
    best: list[tuple[float, int, int, int]] = []
    size = rated[targets].sum(1, keepdims=True)
    for item in range(ratings.n_items):
        count, _ = co_rating_row(item, *model.ticks)
        at_floor = np.flatnonzero(count == floor)
        if not len(at_floor):
            continue
        share = rated[np.ix_(targets, at_floor)] @ rated[:, at_floor].T / size
        share[rated[targets, item] > 0] = 0
        share[:, rated[:, item] > 0] = 0
        share[np.arange(len(targets)), targets] = 0
        place = int(share.argmax())
        target, other = divmod(place, share.shape[1])
        best.append((float(share.flat[place]), int(targets[target]), other, item))
    ends = (ratings.scale.minimum, ratings.scale.maximum)
    best = [candidate for candidate in sorted(best, reverse=True)[:_COMPARED] if candidate[0] > 0]
    return [
        (target, RatingAdded(other, item, end)) for _, target, other, item in best for end in ends
    ]


def _rare_purchases(
    defense: ItemItem, model: ItemModel, targets: Users
) -> list[tuple[int, RatingChange]]:
    """First or second purchases of an item by a user who shares rare items with a target."""
    ratings, rated = model.ratings, _matrix(model.ratings)
    worth = rated / np.sqrt(np.maximum(model.degree, 1))
    share = worth[targets] @ rated.T / rated[targets].sum(1, keepdims=True)
    share[np.arange(len(targets)), targets] = 0
    value = ratings.scale.maximum
    proposed: list[tuple[int, RatingChange]] = []
    for place in np.argsort(-share, axis=None)[:_COMPARED].tolist():
        row, other = divmod(place, share.shape[1])
        target = int(targets[row])
        free = np.flatnonzero((rated[target] == 0) & (rated[other] == 0))
        if len(free):
            item = int(free[model.degree[free].argmin()])
            proposed.append((target, RatingAdded(other, item, value)))
    return proposed


def own_rating(ratings: Ratings) -> WorldPair:
    """One of the fewest ratings that a user with enough has, from one end of the scale to another.

    Raises:
        DataError: nobody with enough ratings has given an extreme one.
    """
    least, scale = SlopeOne(epsilon=1.0).min_ratings, ratings.scale
    counts = np.diff(ratings.by_user.start)
    extreme = np.isin(ratings.value, (scale.minimum, scale.maximum))
    rows = np.flatnonzero(extreme & (counts[ratings.user] >= least))
    if not len(rows):
        raise DataError("no user with 20 ratings gave the lowest or the highest: use more data")
    row = int(rows[counts[ratings.user[rows]].argmin()])
    user, item, old = int(ratings.user[row]), int(ratings.item[row]), float(ratings.value[row])
    new = scale.maximum if old == scale.minimum else scale.minimum
    unrated = np.setdiff1d(np.arange(ratings.n_items), ratings.profile(user).items)
    return WorldPair(
        ratings,
        RatingReplaced(user, item, new),
        user,
        tuple(unrated[:_SHOWN].tolist()),
        f"real ratings of {ratings.n_users} users, of which a user with {counts[user]} changes one "
        f"from end to end; she is shown {_SHOWN} predictions",
    )


def _matrix(ratings: Ratings) -> NDArray[np.float32]:
    """Who rated what, 0 or 1 `(N, M)`."""
    rated = np.zeros((ratings.n_users, ratings.n_items), np.float32)
    rated[ratings.user, ratings.item] = 1
    return rated
