"""Games and checks on real ratings, on neighbouring data sets that a search chooses.

The search compares exact predictions and draws no noise, so it spends no confidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from dpaudit.audits.on_demand.search import search_pair
from dpaudit.audits.trained.pairs import DataPair, size_class, target_pair
from dpaudit.claims.games import PredictionGame, StepsGame
from dpaudit.claims.record import Check, Experiment, PublishedClaim
from dpaudit.claims.wang_tang_2017.data import short_weights
from dpaudit.claims.wang_tang_2017.games import OneStepGame, RowsGame
from dpaudit.core.errors import DataError
from dpaudit.data.folds import active, capped
from dpaudit.data.neighbors import RatingReplaced, UserReplaced, apply
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.load import load
from dpaudit.data.readers.rows import drawn
from dpaudit.data.source import DataSource
from dpaudit.data.source_parts import SensitiveSource
from dpaudit.defenses.base import PredictionPair, Targets
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.defenses.item_item.recommender import ItemItem
from dpaudit.defenses.item_item.similarities import Cosine, SlopeOne
from dpaudit.defenses.neighborhood.sampled import SampledSimilarity
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity
from dpaudit.defenses.neighborhood.similarity import item_means
from dpaudit.defenses.social.privsr import PrivSR

# Ratings of at least this share of the scale count as purchases.
_LIKED = 0.75
_COMPARED, _SHOWN = 500, 20
# Users with more ratings are kept, as in the paper (Wang & Tang 2017), and τ of its run.
_MORE_THAN, _CAP = 20, 200
# Budget of the games on noised steps: this many pairs of ratings, over all trials, take ten to
# forty seconds. And the least and the largest number of trials.
_PAIRS, _FEWEST, _MOST = 5e9, 1000, 10_000
# Up to this number of ratings a federated training takes less than a minute.
_FEDERATED = 200_000
# Trials of the games on posteriors, and the number of ratings of the target user with many ratings;
# both keep a game within seconds.
_TRIALS, _MANY = 20_000, 100


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
        # The Δr of the paper's run is 5 for a scale of width 4.
        run = SlopeOne(epsilon=1.0, delta_r=5 / 4 * ratings.scale.width)
        by_scale = SlopeOne(epsilon=1.0)
        pair = _most_moved(by_scale, ratings, seed)
        yield "pa11-thm3.1-threshold", _game(f"{name}, Δr as the scale's", by_scale, pair)
        yield "pa11-thm3.1-threshold", _game(f"{name}, Δr as in the paper's run", run, pair)
    if "pa11-s3.4-joint" in wanted:
        replaced = SlopeOne(epsilon=0.5, adjacency="rating-replace")
        label = f"{name}, {_SHOWN} predictions"
        yield "pa11-s3.4-joint", _game(label, replaced, moved_rating(ratings))
    if "pa11-thm3.2" in wanted:
        cosine = Cosine(epsilon=1.0)
        yield "pa11-thm3.2", _game(name, cosine, _most_moved(cosine, purchases, seed))
    yield from trained_games(ratings, name, wanted, seed)


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


def trained_games(
    ratings: Ratings, name: str, wanted: set[str], seed: int
) -> Iterator[tuple[str, Experiment]]:
    """Yield the games and checks of the wanted entries, each with its entry's id.

    Args:
        ratings: the data.
        name: the data's name, for labels.
        wanted: the ids of the entries to run.
        seed: decides which ratings of a user with more than 200 are kept for Algorithm 2 of Wang &
            Tang 2017, and which ratings are sensitive if the data do not say.

    Raises:
        DataError: the data are too few.
    """
    if "wt17-thm1-sensitivity" in wanted:
        yield from (("wt17-thm1-sensitivity", game) for game in _steps(ratings, name))
    if "wt17-alg1-weights" in wanted:
        yield from (("wt17-alg1-weights", check) for check in _weights(ratings, name))
    if "fg-thm3-norm" in wanted and len(ratings) <= _FEDERATED:
        yield "fg-thm3-norm", _submissions(ratings, name)
    if "privsr-thm3-submission" in wanted and len(ratings) <= _FEDERATED:
        yield "privsr-thm3-submission", _kept_private(ratings, name, seed)
    if wanted & {"wt17-thm2", "wt17-eq6", "wt17-alg2-temperature"}:
        yield from _posteriors(capped(active(ratings, _MORE_THAN), _CAP, seed), name, wanted)


def _steps(ratings: Ratings, name: str) -> Iterator[OneStepGame]:
    """Yield the games on one full-batch step in which one rating moves from end to end.

    The target user is the one with the fewest ratings. All similarities start at C/20, the least
    that Theorem 1's assumption allows with 20 neighbours.
    """
    pair, target = target_pair(active(ratings, _MORE_THAN), "rating-replace", _MORE_THAN)
    counts = np.diff(pair.before.by_user.start)
    seen = np.isin(pair.before.item, target.before.items)
    cost = int(counts[pair.before.user[seen]].sum())
    trials = int(np.clip(_PAIRS // cost, _FEWEST, _MOST)) // 100 * 100
    published = SgdSimilarity(epsilon=1.0, steps=1, start=0.05)
    corrected = SgdSimilarity(epsilon=1.0, variant="corrected", steps=1, start=0.05)
    yield OneStepGame(f"{name}, one rating", published, pair, trials=trials)
    yield OneStepGame(f"{name}, one rating, corrected", corrected, pair, trials=trials)


def _submissions(ratings: Ratings, name: str) -> StepsGame:
    """Return the game in which one rating is removed and its item stays a candidate.

    The target user is the one with the fewest ratings. Fakes are 0, so that only the lengths of the
    target user's gradients differ.
    """
    pair, _ = target_pair(ratings, "rating-add-remove", _MORE_THAN)
    defense = FakeGradients(
        epsilon=1.0, delta=0.01, rounds=10, fakes="zero", offset=3.0, spread=0.5
    )
    return StepsGame(f"{name}, one rating, G = 1, 10 rounds", defense, pair, trials=320)


def _kept_private(ratings: Ratings, name: str, seed: int) -> StepsGame:
    """Return the game on one sensitive rating, of the item with the most raters.

    The target user is the one with the fewest ratings. If the data do not say which ratings are
    sensitive, a tenth of them is drawn. The initial factors have norm at most 1 in all but a few
    thousandths of the trials.
    """
    if not ratings.kept_private.any():
        ratings = drawn(ratings, SensitiveSource(share=0.1, seed=seed))
    pair, _ = target_pair(ratings, "rating-replace", _MORE_THAN, Targets(crowded=True))
    defense = PrivSR(epsilon=1.0, rounds=1, social=0.0, spread=0.2)
    return StepsGame(f"{name}, one sensitive rating, one round", defense, pair, trials=600)


def _weights(ratings: Ratings, name: str) -> Iterator[Check]:
    """Yield a check of the first step's assumption, with the paper's larger C, if it can fail."""
    defense = SgdSimilarity(epsilon=1.0, steps=1, start=0.05, weight=15.0)
    counts = np.diff(ratings.by_user.start)
    least = defense.weight / (defense.rescale * defense.start)
    if ((counts > defense.more_than) & (counts - 1 < least)).any():
        yield Check(f"{name}, C = 15", partial(short_weights, ratings=ratings, defense=defense))


def _posteriors(ratings: Ratings, name: str, wanted: set[str]) -> Iterator[tuple[str, Experiment]]:
    """Yield the games in which a user is replaced by one who rates rare items.

    The new user rates 100 items for temperature 1, where many rows bring the exact ε closest to the
    claim, and 21, the fewest that training uses, for low temperatures, where a few rows leak more
    in fewer draws. A game is left out if its items have too many raters for exact draws.
    """
    many = (
        ("wt17-thm2", "ε = 1", SampledSimilarity(epsilon=1.0)),
        ("wt17-eq6", "ε = 1", SampledSimilarity(epsilon=1.0, likelihood="squares")),
    )
    cold = "wt17-alg2-temperature"
    few = (
        (cold, "ϱ = 0.001", SampledSimilarity(epsilon=1.0, temperature=0.001)),
        (cold, "corrected, ε = 4/4", SampledSimilarity(epsilon=4.0, variant="corrected")),
    )
    for size, trials, games in ((_MANY, _TRIALS // 4, many), (_MORE_THAN + 1, _TRIALS, few)):
        if not wanted & {id_ for id_, _, _ in games}:
            continue
        pair, user = canary_pair(ratings, size)
        for id_, label, defense in games:
            game = RowsGame(f"{name}, {label}", defense, pair, user=user, trials=trials)
            if id_ in wanted and game.drawable():
                yield id_, game


def canary_pair(ratings: Ratings, size: int) -> tuple[DataPair, int]:
    """Return a pair in which one user's ratings are replaced by outliers on rare items.

    The user has the fewest ratings that training uses. The new ratings are on `size` items that the
    user has not rated and others have: those with the fewest raters, and among equals those whose
    mean is farthest from an end of the scale. Each rating is that end.

    Returns:
        the two data sets, with the item means of the first as public; and the user.

    Raises:
        DataError: there are at most 20 such items.
    """
    scale, means = ratings.scale, item_means(ratings)
    raters = np.bincount(ratings.item, minlength=ratings.n_items)
    counts = np.diff(ratings.by_user.start)
    learned = np.flatnonzero(counts > _MORE_THAN)
    user = int(learned[counts[learned].argmin()])
    ends = np.where(means > (scale.minimum + scale.maximum) / 2, scale.minimum, scale.maximum)
    free = np.setdiff1d(np.flatnonzero(raters), ratings.profile(user).items)
    if len(free) <= _MORE_THAN:
        raise DataError(
            f"the target user has not rated {len(free)} items that others have, but a pair of "
            f"neighbours for posterior sampling needs {_MORE_THAN + 1}: use more data"
        )
    order = free[np.lexsort((-abs(ends - means)[free], raters[free]))]
    items = np.sort(order[:size]).astype(np.int32)
    change = UserReplaced(user, items, ends[items].astype(np.float32))
    most = int(raters[items].max())
    words = (
        f"real ratings of {np.count_nonzero(counts)} users; one with {size_class(counts[user])} "
        f"ratings is replaced by one who rates {len(items)} items at the end of the scale farther "
        f"from the item's mean; the item with the most raters has {size_class(most)} of them; the "
        "rows of these items are seen"
    )
    return DataPair(ratings, apply(ratings, change), ratings, words), user
