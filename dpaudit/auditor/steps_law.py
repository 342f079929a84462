"""What the law of noised steps says of a game on them, beside what was certified."""

from __future__ import annotations

from functools import partial

import numpy as np

from dpaudit.auditor.game import ListScores
from dpaudit.auditor.trained_game import DataPair, StepsDefense
from dpaudit.bounds.divergence import log_ratio_kl, neighbour_kl, plugin_kl
from dpaudit.bounds.estimate import Estimate
from dpaudit.bounds.gdp import gaussian_epsilon
from dpaudit.errors import InputError
from dpaudit.kernels.lanes import LANES
from dpaudit.releases import Streams

# The step of the grid that scores lie on: as much noise makes them differ from one another.
_GRID = 2.0**-8


def steps_epsilon(defense: StepsDefense, pair: DataPair, *, delta: float, seed: int) -> Estimate:
    """The ε of a pair whose steps have normal noise, in some trainings.

    Given all that was shown before, a step is one of two normals at a distance; if the distances
    were the same in every training, all steps would be one at `μ = √Σ ‖difference‖²/σ²`. They
    depend on the training a little: the value has the mean of μ², its limits the least and the
    largest μ that was met.

    Args:
        defense: one whose steps have normal noise.
        pair: the two data sets.
        delta: δ.
        seed: decides the trainings.
    """
    before, after = (defense.prepare(data, pair.public) for data in (pair.before, pair.after))
    squares = np.zeros(LANES)
    for _, law in defense.watch(before, after, before, Streams.first(seed, "steps/law", LANES)):
        squares += (((law.present - law.absent) / law.scale) ** 2).sum(1)

    def epsilon(square: float) -> float:
        return gaussian_epsilon(float(np.sqrt(square)), delta)

    return Estimate(
        value=epsilon(squares.mean()),
        lower=epsilon(squares.min()),
        upper=epsilon(squares.max()),
        confidence=1.0,
        alpha=0.0,
        n=LANES,
        method=f"normal steps, as far apart as in {LANES} trainings",
        kind="assumes-law",
    )


def score_divergences(scores: ListScores, *, seed: int, alpha: float) -> dict[str, Estimate]:
    """The divergence of D' from D in what a game saw, estimated from its scores in three ways.

    All but the first are of the scores' laws, and no more than what was seen has.

    Args:
        scores: log-likelihood ratios of the worlds, on a grid.
        seed: decides the noise that makes the scores distinct.
        alpha: the level of each interval, by itself.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, *b"divergence"]))
    present, absent = (
        world + rng.uniform(-_GRID / 2, _GRID / 2, len(world))
        for world in (scores.present, scores.absent)
    )
    found = {}
    for name, estimate in (
        ("mean log-ratio", partial(log_ratio_kl, scores.present)),
        ("normal plug-in", partial(plugin_kl, present, absent)),
        ("nearest neighbours", partial(neighbour_kl, present, absent)),
    ):
        try:
            found[name] = estimate(alpha=alpha)
        except InputError:  # too few worlds, or scores without spread
            continue
    return found
