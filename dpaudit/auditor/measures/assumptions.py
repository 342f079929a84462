"""What trainings show of assumptions that a published claim rests on and that nothing enforces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import RunError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.factors import FactorModels
from dpaudit.defenses.neighborhood.checks import shortfalls
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.defenses.social.ranking import PrivSRRanking
from dpaudit.defenses.social.ranking_models import RankingModels
from dpaudit.record.result import LONGER, LONGEST, Measurement

# What rounding in single precision may add to a length that is 1.
_ROUNDING = 1e-5
# Rows of similarities that are looked at, evenly spread, and trainings of each.
_ROWS, _WORLDS = 200, 4


def assumptions(
    label: str, defenses: Sequence[Any], ratings: Ratings, seed: int
) -> list[Measurement]:
    """How often what a published claim assumes fails in trainings of a model, at each ε.

    Of `dpsgd-pnbm` and its kind how often `|S_i| I_u < C` in the first and the last step
    (Wang & Tang 2017, Algorithm 1); of `privsr` and `privsr-ranking` how many users' factors end
    longer than 1, and the longest (Meng et al. 2018, Theorems 1 to 4).

    Args:
        label: of the model.
        defenses: the model at each ε.
        ratings: what is learned from.
        seed: decides the streams.

    Raises:
        RunError: a training of which denominators are counted diverged.
    """
    found: list[Measurement] = []
    for defense in defenses:
        if defense.variant != "published":
            continue
        if isinstance(defense, SgdSimilarity):
            found += _denominators(label, defense, ratings, seed)
        elif isinstance(defense, PrivSR | PrivSRRanking):
            found += _norms(label, defense, ratings, seed)
    return found


def _denominators(
    label: str, defense: SgdSimilarity, ratings: Ratings, seed: int
) -> Iterator[Measurement]:
    """How often denominators are below C, at the first step and at the last."""
    prepared = defense.prepare(ratings)
    items = np.unique(np.linspace(0, prepared.n_items - 1, _ROWS).astype(np.int32))
    streams = Streams.first(seed, "assumptions", _WORLDS)
    first, last = shortfalls(defense, prepared, streams, items)
    for counted in (first, last) if defense.steps > 1 else (first,):
        words = f"counted among {counted.of} predictions in {_WORLDS} trainings"
        yield Measurement(
            metric="assumption.denominator",
            model=label,
            epsilon=defense.epsilon,
            estimate=Estimate.exact(counted.share, words),
            step=counted.step,
        )


def _norms(label: str, defense: Any, ratings: Ratings, seed: int) -> Iterator[Measurement]:
    """How many users with ratings end with factors longer than 1, and the longest, in one training.

    Where that training diverges the longest are infinite, and how many is not known.
    """
    rated = np.diff(ratings.by_user.start) > 0
    told = f"counted among {int(rated.sum())} users in one training"
    try:
        models = defense.train(defense.prepare(ratings), Streams.first(seed, "assumptions", 1))
    except RunError:
        values, told = {LONGEST: np.inf}, f"{told}, which diverged"
    else:
        lengths = user_lengths(models)[rated]
        longer = lengths > 1 + _ROUNDING
        values = {LONGER: float(longer.mean()), LONGEST: float(lengths.max())}
    for states, value in values.items():
        yield Measurement(
            metric="assumption.norm",
            model=label,
            epsilon=defense.epsilon,
            estimate=Estimate.exact(value, told),
            step=defense.rounds,
            states=states,
        )


def user_lengths(models: FactorModels | RankingModels) -> NDArray[np.float64]:
    """`‖u_i‖` of every user in the first world `(N,)`, of models that are trained one at a time."""
    users = models.users[0]
    if isinstance(models, FactorModels):
        users = users[:, :-1, 0]  # without the bias
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("nf,nf->n", users, users, dtype=np.float64))
    return lengths
