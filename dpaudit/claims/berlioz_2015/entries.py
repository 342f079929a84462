"""Berlioz et al. 2015: matrix factorisation by gradient descent on noised errors.

The paper's text is not available to us: the mechanism is the one that Wang & Tang 2017 describe and
compare with in section 5.1.
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
    "Gradient descent over K epochs that adds Laplace noise of scale KΔr/ε to every error is "
    "ε-differentially private"
)


def _rounds() -> SgdFactors:
    """Return the corrected form with one epoch of clipped sums and normal noise, for user-replace.

    All factors start at 0, so a rating's gradient is along its item's bias and has the full norm.
    """
    return SgdFactors(
        epsilon=1.0, variant="corrected", epochs=1, dimensions=1, spread=0.0, clip_norm=1.0,
        adjacency="user-replace",
    )  # fmt: skip


def _normal() -> Estimate:
    """Return the ε of opposite gradients of the full norm, which attains the guarantee."""
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
        because="Given all earlier outputs, a rating enters only through its own K noised errors, "
        "each of which shifts by at most Δr; everything else is computed from the noised errors. "
        "The K ratios of e^{ε/K} can all be attained. Who rates what, the order of the ratings and "
        "b_0 must be public, and every rating must be visited K times.",
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
        because="Noise is added only to the errors of existing ratings: an item without ratings is "
        "released as initialised, and one with a rating almost surely is not. ε = ∞.",
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
            "clipped sums with normal noise, for whole users": "An added rating is half of what "
            "the noise covers; its power is measured in berlioz15-s4-value.",
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
        because="The error of one of n ratings shifts by Δr (1 − 1/n), as the mean moves too, and "
        "the others' errors by Δr/n each: 2 Δr (1 − 1/n) together in an epoch, "
        "ε' = 2ε (1 − 1/n). With n = 5 it is 1.6.",
        published=(
            StepsGame(
                "n = 5, K = 1, no error clamped",
                SgdFactors(epsilon=1.0, epochs=1, dimensions=1, error_bound=1000.0),
                data.recomputed_mean(5),
                truth=Estimate.exact(1.6, "law of the steps"),
                trials=40_000,
            ),
        ),
        corrected=(
            StepsGame(
                "clipped sums with normal noise, b_0 constant",
                _rounds(),
                data.recomputed_mean(5),
                truth=_normal(),
                trials=20_000,
            ),
        ),
        reading="b_0 is computed from the data and not public",
    ),
)
