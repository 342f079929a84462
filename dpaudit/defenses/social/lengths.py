"""Whether users' factors exceed the length that published claims assume (Meng et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.claim import LONGER, LONGEST, Assumption
from dpaudit.core.errors import NoModelError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.factors import FactorModels
from dpaudit.defenses.social.ranking_models import RankingModels

# The most that rounding in single precision may add to a length of 1.
_ROUNDING = 1e-5


def length_assumptions(
    defense: TrainedDefense[Any], rounds: int, ratings: Ratings, seed: int
) -> Iterator[Assumption]:
    """Yield the share of users whose factors end longer than 1, and the greatest length.

    Both are measured in one training. Theorems 1 to 4 assume `‖u_i‖ <= 1`. Users without ratings
    are not counted. If the training diverges, the greatest length is infinite, and no share is
    yielded.

    Args:
        defense: the mechanism.
        rounds: the number of rounds of a training.
        ratings: the training data.
        seed: the seed of the training's random stream.
    """
    rated = np.diff(ratings.by_user.start) > 0
    method = f"counted among {int(rated.sum())} users in one training"
    try:
        models = defense.train(defense.prepare(ratings), Streams.first(seed, "assumptions", 1))
    except NoModelError:
        values, method = {LONGEST: np.inf}, f"{method}, which diverged"
    else:
        lengths = user_lengths(models)[rated]
        longer = lengths > 1 + _ROUNDING
        values = {LONGER: float(longer.mean()), LONGEST: float(lengths.max())}
    for part, value in values.items():
        yield Assumption("assumption.norm", Estimate.exact(value, method), rounds, part)


def user_lengths(models: FactorModels | RankingModels) -> NDArray[np.float64]:
    """Return `‖u_i‖` of every user in the first trial `(N,)`, for models trained one at a time."""
    users = models.users[0]
    if isinstance(models, FactorModels):
        users = users[:, :-1, 0]  # without the bias
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("nf,nf->n", users, users, dtype=np.float64))
    return lengths
