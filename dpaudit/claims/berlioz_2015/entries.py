"""Berlioz et al. 2015: matrix factorisation by descent on noised errors, as wt17 runs it.

Its text is not among ours: the mechanism is the one that Wang & Tang 2017, section 5.1, compare
with.
"""

from __future__ import annotations

import math
from typing import Any

from dpaudit.bounds.accounting import gaussian_mechanism_epsilon, noise_multiplier
from dpaudit.claims.entry import PublishedClaim
from dpaudit.claims.liu_wang_smola_2015 import data
from dpaudit.claims.liu_wang_smola_2015.games import MovedGame
from dpaudit.claims.trained_games import StepsGame
from dpaudit.core.estimate import Estimate
from dpaudit.defenses.factorization.sgd import SgdFactors

_SOURCE = "Berlioz et al. 2015, section 4, as in Wang & Tang 2017, section 5.1"
_CLAIM = (
    "Descent whose every error gets Laplace noise of scale KΔr/ε, K passes, is ε-differentially "
    "private"
)


def _rounds() -> SgdFactors:
    """One round of clipped sums with normal noise, for a user who is replaced.

    All factors start at 0, so a rating's part is along its item's bias, of the full norm.
    """
    return SgdFactors(
        epsilon=1.0, variant="corrected", epochs=1, dimensions=1, spread=0.0, clip_norm=1.0,
        adjacency="user-replace",
    )  # fmt: skip


def _normal() -> Estimate:
    """Of opposite parts of the full norm: the guarantee itself."""
    defense = _rounds()
    about: dict[str, Any] = {"delta": defense.delta, "compositions": 1, "neighbors": "replace"}
    return gaussian_mechanism_epsilon(noise_multiplier(defense.epsilon, **about), **about)


CLAIMS = (
    PublishedClaim(
        id="berlioz15-s4-value",
        sentence=f"{_CLAIM} when a rating's value is replaced.",
        source=_SOURCE,
        adjacency="rating-replace",
        observer="iterates",
        recorded="holds",
        because="Given all that was seen before, a rating enters through its own K noised errors "
        "alone, each of which moves by at most Δr; all else is computed from these. K ratios of "
        "e^{ε/K}: sharp. Who rates what, the order of the ratings and b_0 must be public, and "
        "every rating be visited K times.",
        published=(
            StepsGame(
                "K = 1, ε = 1",
                SgdFactors(epsilon=1.0, epochs=1, dimensions=1),
                data.VALUE,
                truth=Estimate.exact(1.0, "law of the steps"),
                trials=40_000,
            ),
            StepsGame(
                "K = 3, ε = 4",
                SgdFactors(epsilon=4.0, epochs=3, dimensions=1),
                data.VALUE,
                truth=Estimate.exact(4.0, "law of the steps"),
                trials=40_000,
            ),
        ),
        corrected=(
            StepsGame(
                "clipped sums with normal noise, for whole users",
                _rounds(),
                data.VALUE,
                truth=_normal(),
                trials=20_000,
            ),
        ),
    ),
    PublishedClaim(
        id="berlioz15-s4-added",
        sentence=f"{_CLAIM} when a rating is added.",
        source=_SOURCE,
        adjacency="rating-add-remove",
        observer="iterates",
        recorded="falsified",
        basis="on a reading",
        because="Noise falls on the errors of the ratings that there are: an item without any is "
        "released as it began, one with a rating almost surely is not. ε = ∞.",
        published=(
            MovedGame(
                "the item's only rating",
                SgdFactors(epsilon=1.0, epochs=1, dimensions=1),
                data.NEW_ITEM,
                item=1,
                truth=Estimate.exact(math.inf, "law of the release"),
            ),
        ),
        corrected=(
            StepsGame(
                "clipped sums with normal noise, for whole users",
                _rounds(),
                data.NEW_ITEM,
                trials=20_000,
            ),
        ),
        weak={
            "clipped sums with normal noise, for whole users": "A rating that is added is half of "
            "what the noise is for; its power is measured in berlioz15-s4-value.",
        },
        reading="who rates what is not public",
    ),
    PublishedClaim(
        id="berlioz15-s4-mean",
        sentence=f"{_CLAIM} when a rating's value is replaced, and with it the mean b_0.",
        source=_SOURCE,
        adjacency="rating-replace",
        observer="iterates",
        recorded="falsified",
        basis="on a reading",
        because="Of n ratings one moves by Δr (1 − 1/n) against the mean, the others by Δr/n each: "
        "2 Δr (1 − 1/n) together in a pass, ε' = 2ε (1 − 1/n). With n = 5 it is 1.6.",
        published=(
            StepsGame(
                "n = 5, K = 1, no error clamped",
                SgdFactors(epsilon=1.0, epochs=1, dimensions=1, error_bound=1000.0),
                data.own_mean(5),
                truth=Estimate.exact(1.6, "law of the steps"),
                trials=40_000,
            ),
        ),
        corrected=(
            StepsGame(
                "clipped sums with normal noise, b_0 constant",
                _rounds(),
                data.own_mean(5),
                truth=_normal(),
                trials=20_000,
            ),
        ),
        reading="b_0 is read from the data and not public",
    ),
)
