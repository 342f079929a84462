"""Games and checks on real ratings, on neighbouring data sets that a search chooses.

The search compares exact predictions and draws no noise, so it spends no confidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dpaudit.audits.on_demand.search import search_pair
from dpaudit.audits.trained.pairs import size_class
from dpaudit.claims.entry import Experiment, PublishedClaim
from dpaudit.claims.games import PredictionGame
from dpaudit.claims.real_trained import trained_games
from dpaudit.core.errors import DataError
from dpaudit.data.neighbors import RatingReplaced
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.load import load
from dpaudit.data.source import DataSource
from dpaudit.defenses.base import PredictionPair
from dpaudit.defenses.item_item.cosine import Cosine
from dpaudit.defenses.item_item.recommender import ItemItem
from dpaudit.defenses.item_item.slope_one import SlopeOne

# Ratings of at least this share of the scale count as purchases.
_LIKED = 0.75
_COMPARED, _SHOWN = 500, 20


def on_real_data(
    sources: Mapping[str, DataSource], entries: Sequence[PublishedClaim], seed: int = 0
) -> list[tuple[str, Experiment]]:
    """Return the games and checks of these entries on real ratings, each with its entry's id.

    Args:
        sources: the ratings, by the name that labels use for them.
        entries: the entries to run; some have no game on real data.
        seed: decides which changes the search tries.

    Raises:
        DataError: the ratings cannot be read, are purchases, or are too few.
    """
    wanted = {entry.id for entry in entries}
    games: list[tuple[str, Experiment]] = []
    for name, source in sources.items():
        ratings = load(source)
        scale = ratings.scale
        if scale.width == 0:
            raise DataError(
                f"{name} has purchases and not ratings: leave out data.binarize; claims about "
                f"purchases use the ratings of at least {_LIKED:.0%} of the scale"
            )
        liked = float(scale.values[scale.values >= scale.minimum + _LIKED * scale.width][0])
        purchases = load(source.model_copy(update={"binarize": liked}))
        games += _games(ratings, purchases, name, wanted, seed)
    return games


def _games(
    ratings: Ratings, purchases: Ratings, name: str, wanted: set[str], seed: int
) -> Iterator[tuple[str, Experiment]]:
    """Yield the games of the wanted entries; other entries' pairs are not searched for."""
    if "pa11-thm3.1-threshold" in wanted:
        by_scale, paper = SlopeOne(epsilon=1.0), SlopeOne(epsilon=1.0, delta_r=_run_width(ratings))
        pair = _most_moved(by_scale, ratings, seed)
        yield "pa11-thm3.1-threshold", _game(f"{name}, Δr as the scale's", by_scale, pair)
        yield "pa11-thm3.1-threshold", _game(f"{name}, Δr as in the paper's run", paper, pair)
    if "pa11-s3.4-joint" in wanted:
        replaced = SlopeOne(epsilon=0.5, adjacency="rating-replace")
        label = f"{name}, {_SHOWN} predictions"
        yield "pa11-s3.4-joint", _game(label, replaced, moved_rating(ratings))
    if "pa11-thm3.2" in wanted:
        cosine = Cosine(epsilon=1.0)
        yield "pa11-thm3.2", _game(name, cosine, _most_moved(cosine, purchases, seed))
    yield from trained_games(ratings, name, wanted, seed)


def _run_width(ratings: Ratings) -> float:
    """Return the Δr of the paper's run, scaled: 5 for a scale of width 4."""
    return 5 / 4 * ratings.scale.width


def _game(label: str, defense: ItemItem, pair: PredictionPair) -> PredictionGame:
    return PredictionGame(label, defense, lambda _: pair)


def _most_moved(defense: ItemItem, ratings: Ratings, seed: int) -> PredictionPair:
    """Return the pair of the added rating, among many, that shifts a prediction most.

    As the theorems require, the data keep only users with at least `min_ratings` ratings.

    Raises:
        DataError: fewer than two users have enough ratings.
    """
    counts = np.diff(ratings.by_user.start)
    kept = counts[ratings.user] >= defense.min_ratings
    if (counts >= defense.min_ratings).sum() < 2:
        raise DataError(
            f"fewer than two users have {defense.min_ratings} ratings, but a pair of neighbours for"
            f" {defense.name} needs two: use more data"
        )
    able = Ratings.build(
        ratings.user[kept],
        ratings.item[kept],
        ratings.value[kept],
        ratings.n_users,
        ratings.n_items,
        ratings.scale,
    )
    users = np.flatnonzero(np.diff(able.by_user.start))
    pair = search_pair(defense, defense.prepare(able), users, candidates=_COMPARED, seed=seed)
    return replace(pair, summary=f"real ratings of {len(users)} users; {pair.summary}")


def moved_rating(ratings: Ratings) -> PredictionPair:
    """Return the pair in which a user's own rating moves from one end of the scale to the other.

    The user has the fewest ratings among those with `min_ratings` or more and an extreme one.

    Raises:
        DataError: no user with enough ratings has an extreme one.
    """
    least, scale = SlopeOne(epsilon=1.0).min_ratings, ratings.scale
    counts = np.diff(ratings.by_user.start)
    extreme = np.isin(ratings.value, (scale.minimum, scale.maximum))
    rows = np.flatnonzero(extreme & (counts[ratings.user] >= least))
    if not len(rows):
        raise DataError(
            f"no user with {least} ratings or more gave the lowest or the highest one: use more "
            "data"
        )
    row = int(rows[counts[ratings.user[rows]].argmin()])
    user, item, old = int(ratings.user[row]), int(ratings.item[row]), float(ratings.value[row])
    new = scale.maximum if old == scale.minimum else scale.minimum
    unrated = np.setdiff1d(np.arange(ratings.n_items), ratings.profile(user).items)
    return PredictionPair(
        ratings,
        RatingReplaced(user, item, new),
        user,
        tuple(unrated[:_SHOWN].tolist()),
        f"real ratings of {ratings.n_users} users; a user with {size_class(counts[user])} ratings "
        f"moves one from one end of the scale to the other, and is shown {_SHOWN} predictions",
    )
