"""Berlioz et al. 2015: what the entries need of code."""

from __future__ import annotations

from typing import Any

from dpaudit.bounds.accounting import gaussian_mechanism_epsilon, noise_multiplier
from dpaudit.claims.liu_wang_smola_2015 import MovedGame, pair, recomputed_mean
from dpaudit.claims.trained_games import StepsGame
from dpaudit.core.estimate import Estimate
from dpaudit.defenses.factorization.sgd import SgdFactors


def one_round() -> SgdFactors:
    """Return the corrected form with one epoch of clipped sums and normal noise, for user-replace.

    All factors start at 0, so a rating's gradient is along its item's bias and has the full norm.
    """
    return SgdFactors(
        epsilon=1.0, variant="corrected", epochs=1, dimensions=1, spread=0.0, clip_norm=1.0,
        adjacency="user-replace",
    )  # fmt: skip


def normal_noise() -> Estimate:
    """Return the ε of opposite gradients of the full norm, which attains the guarantee."""
    defense = one_round()
    about: dict[str, Any] = {"delta": defense.delta, "compositions": 1, "neighbors": "replace"}
    return gaussian_mechanism_epsilon(noise_multiplier(defense.epsilon, **about), **about)


PARTS = (MovedGame, SgdFactors, StepsGame, normal_noise, one_round, pair, recomputed_mean)
