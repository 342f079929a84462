"""What the law of noised steps says of a game on them, beside what was certified."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.games.game import Game, Scores, in_blocks
from dpaudit.bounds.divergence.estimates import log_ratio_kl, neighbour_kl, plugin_kl
from dpaudit.bounds.model_based.gdp import gaussian_delta, gaussian_epsilon
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams

# Of each data set, to learn how far apart its steps are.
_TRAININGS = 64
# The step of the grid that scores lie on: as much noise makes them differ from one another.
_GRID = 2.0**-8
# What is read off a training.
_SQUARES, _SUM, _LAPLACE = range(3)


def steps_epsilon(
    game: Game[Any],
    *,
    delta: float,
    seed: int,
    trainings: int = _TRAININGS,
    threads: int = 1,
) -> Estimate:
    """The ε of a pair by the law of its steps' noise, from some trainings on either data set.

    **Normal noise.** Given all that was shown before, a step is one of two normals at a distance,
    and all steps of a training are one at `μ = √Σ ‖difference‖²/σ²`. μ differs from training to
    training; were it known to the server beforehand, the pair's ε would solve

        E[δ_μ(ε)] = δ,    δ_μ the profile of normals at μ

    and so it is, but for what a suspect's own noise does to later differences through V and F,
    where the sums of all users count. The larger of both data sets' counts. It rests on a sample of
    μ, whose largest values weigh most.

    **Laplace noise in one step.** Given how a training starts, the log-ratio is at most

        Σ_j |difference_j| / b_j

    and is that with positive probability, where every number lies beyond both of its means: the ε
    at δ = 0, and no less than that at another (Dwork, McSherry, Nissim, Smith 2006, Proposition 1,
    doi:10.1007/11681878_14). The largest over the trainings counts, which is exact where all start
    alike. **In more steps** it is infinite: users' factors follow V, V the earlier noise, which
    has no bound, and so the differences of later steps have none. The sum over the steps of a
    training bounds what that training shows, and no other.

    Args:
        game: one whose observer sees steps with noise of a known law.
        delta: δ.
        seed: decides the trainings.
        trainings: of each data set.
        threads: number of threads; the number does not depend on it.
    """

    def of(name: str, trained: Any) -> NDArray[np.float64]:
        streams = Streams.first(seed, f"law/{name}", trainings)
        return in_blocks(partial(_apart, game, trained), streams, game.observer.block, threads)

    apart = [of("absent", game.pair.before), of("present", game.pair.after)]
    steps = max(float(each[:, _LAPLACE].max()) for each in apart)
    if steps:
        largest = max(float(each[:, _SUM].max()) for each in apart)
        found, noise = math.inf if steps > 1 and largest else largest, "Laplace"
    else:
        found, noise = max(_mixture(np.sqrt(each[:, _SQUARES]), delta) for each in apart), "normal"
    return Estimate(
        value=found,
        lower=0.0,
        upper=found,
        confidence=0.0,
        alpha=1.0,
        n=trainings,
        method=f"{noise} steps, their distances met in {trainings} trainings of either data set",
        kind="assumes-law",
    )


def _apart(game: Game[Any], trained: Any, streams: Streams) -> NDArray[np.float64]:
    """How far apart the steps of each training are, in units of their noise `(W, 3)`.

    The sum of squares, the sum, and how many of the steps have Laplace noise.
    """
    found = np.zeros((len(streams), 3))
    for _, law in game.observer.views(game.pair, trained, streams):
        away = abs(law.present - law.absent) / law.scale
        found[:, _SQUARES] += (away**2).sum(1)
        found[:, _SUM] += away.sum(1)
        found[:, _LAPLACE] += not law.gaussian
    return found


def _mixture(mu: NDArray[np.float64], delta: float) -> float:
    """The ε at which the mean of the profiles of normals at these distances is δ."""
    from scipy.optimize import brentq

    def excess(epsilon: float) -> float:
        return float(np.mean([gaussian_delta(epsilon, float(one)) for one in mu])) - delta

    if excess(0.0) <= 0:
        return 0.0
    if delta == 0:
        return math.inf
    # At the ε of the largest distance no profile is above δ.
    return float(brentq(excess, 0.0, gaussian_epsilon(float(mu.max()), delta) + 1e-9))


def score_divergences(scores: Scores, *, seed: int, alpha: float) -> dict[str, Estimate]:
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
