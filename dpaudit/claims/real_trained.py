"""The games on ratings that are about recommenders which are trained."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from dpaudit.auditor.games.targets import size_class, target_pair
from dpaudit.auditor.games.trained import DataPair
from dpaudit.claims.entry import Check, Play
from dpaudit.claims.trained_games import StepsGame
from dpaudit.claims.wang_tang_2017.one_step import OneStepGame
from dpaudit.claims.wang_tang_2017.posterior_rows import RowsGame
from dpaudit.claims.wang_tang_2017.weights import short_weights
from dpaudit.core.errors import DataError
from dpaudit.data.folds import active, capped
from dpaudit.data.neighbors import UserReplaced, apply
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.settings import drawn
from dpaudit.data.source_social import SensitiveSource
from dpaudit.defenses.base import Targets
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.defenses.neighborhood.sampled import SampledSimilarity
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity
from dpaudit.defenses.neighborhood.similarity import item_means
from dpaudit.defenses.social.privsr import PrivSR

# The paper's filter on users, and τ of its run.
_MORE_THAN, _CAP = 20, 200
# Worlds of the noised steps, fewer where the raters of the suspect's items have more ratings: so
# many pairs of ratings in all take ten to forty seconds.
_PAIRS, _FEWEST, _MOST = 5e9, 1000, 10_000
# Ratings up to which federated trainings take less than a minute.
_FEDERATED = 200_000
# Worlds of posteriors, and the ratings of a user with many that can be drawn in so few seconds.
_WORLDS, _MANY = 20_000, 100


def trained_games(
    ratings: Ratings, name: str, wanted: set[str], seed: int
) -> Iterator[tuple[str, Play]]:
    """The games of the entries that are wanted, each with its entry's id.

    Args:
        ratings: the data.
        name: what the games' labels have for it.
        wanted: the ids of the entries to be played.
        seed: decides which ratings of a user with more than 200 are kept for Algorithm 2, and
            which are sensitive where the data do not say it.

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
    """One rating of the user with the fewest, from end to end, in a step on all ratings.

    The similarities begin at C/20, the least that the assumption allows with 20 neighbours.
    """
    pair, suspect = target_pair(active(ratings, _MORE_THAN), "rating-replace", _MORE_THAN)
    counts = np.diff(pair.before.by_user.start)
    seen = np.isin(pair.before.item, suspect.before.items)
    cost = int(counts[pair.before.user[seen]].sum())
    trials = int(np.clip(_PAIRS // cost, _FEWEST, _MOST)) // 100 * 100
    published = SgdSimilarity(epsilon=1.0, steps=1, start=0.05)
    corrected = SgdSimilarity(epsilon=1.0, variant="corrected", steps=1, start=0.05)
    yield OneStepGame(f"{name}, one rating", published, pair, trials=trials)
    yield OneStepGame(f"{name}, one rating, corrected", corrected, pair, trials=trials)


def _submissions(ratings: Ratings, name: str) -> StepsGame:
    """One rating of the user with the fewest, which disappears: its item stays a candidate.

    Fakes are 0, so that nothing but the length of her gradients tells.
    """
    pair, _ = target_pair(ratings, "rating-add-remove", _MORE_THAN)
    defense = FakeGradients(
        epsilon=1.0, delta=0.01, rounds=10, fakes="zero", offset=3.0, spread=0.5
    )
    return StepsGame(f"{name}, one rating, G = 1, 10 rounds", defense, pair, trials=320)


def _kept_private(ratings: Ratings, name: str, seed: int) -> StepsGame:
    """One sensitive rating of the user with the fewest, on the item with the most raters.

    A tenth of all ratings is sensitive where the data do not say which are. The initial factors'
    norm is at most 1 in all but some thousandths of the worlds.
    """
    if not ratings.kept_private.any():
        ratings = drawn(ratings, SensitiveSource(share=0.1, seed=seed))
    pair, _ = target_pair(ratings, "rating-replace", _MORE_THAN, Targets(crowded=True))
    defense = PrivSR(epsilon=1.0, rounds=1, social=0.0, spread=0.2)
    return StepsGame(f"{name}, one sensitive rating, one round", defense, pair, trials=600)


def _weights(ratings: Ratings, name: str) -> Iterator[Check]:
    """The first step's assumption with the paper's larger C, where users can violate it."""
    defense = SgdSimilarity(epsilon=1.0, steps=1, start=0.05, weight=15.0)
    counts = np.diff(ratings.by_user.start)
    least = defense.weight / (defense.rescale * defense.start)
    if ((counts > defense.more_than) & (counts - 1 < least)).any():
        yield Check(f"{name}, C = 15", partial(short_weights, ratings, defense))


def _posteriors(ratings: Ratings, name: str, wanted: set[str]) -> Iterator[tuple[str, Play]]:
    """A user who gives way to one of rare items, of a hundred and of as few as are learned from.

    At temperature 1 her many rows come nearest to the claim by their law. At a low one a few rows
    show more in fewer draws. Where even the rarest items have so many raters that their rows cannot
    be drawn exactly, no game is played.
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
    for size, worlds, games in ((_MANY, _WORLDS // 4, many), (_MORE_THAN + 1, _WORLDS, few)):
        if not wanted & {id_ for id_, _, _ in games}:
            continue
        pair, user = canary_pair(ratings, size)
        for id_, label, defense in games:
            game = RowsGame(f"{name}, {label}", defense, pair, user, worlds)
            if id_ in wanted and game.drawable():
                yield id_, game


def canary_pair(ratings: Ratings, size: int) -> tuple[DataPair, int]:
    """A user who gives way to one whose ratings are as far from the items' means as can be.

    The user with the fewest ratings that are learned from gives way to one with `size`, of items
    that she has not rated and somebody has, where an end of the scale lies farthest from the mean,
    and of these the ones with the fewest raters; each rating is that end.

    Returns:
        the two data sets, with the means of the first public; and the user.

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
            f"a user has not rated {len(free)} items that others have, and a pair of neighbours "
            f"for posterior sampling needs {_MORE_THAN + 1}: use more data"
        )
    order = free[np.lexsort((-abs(ends - means)[free], raters[free]))]
    items = np.sort(order[:size]).astype(np.int32)
    change = UserReplaced(user, items, ends[items].astype(np.float32))
    most = int(raters[items].max())
    words = (
        f"real ratings of {np.count_nonzero(counts)} users; one with {size_class(counts[user])} "
        f"gives way to one who rates {len(items)} items, the one with most raters with "
        f"{size_class(most)}, at the end farther from their means; the rows of these items are seen"
    )
    return DataPair(ratings, apply(ratings, change), ratings, words), user
