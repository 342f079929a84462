"""The ε and the divergence of a game on noised training steps, by the law of their noise."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.games.game import CERTAIN, DistinguishingGame, in_blocks
from dpaudit.auditor.games.outcomes import GameScores
from dpaudit.bounds.divergence import log_ratio_kl, neighbour_kl, plugin_kl, threshold_kl
from dpaudit.bounds.frequentist.means import nonnegative_mean
from dpaudit.bounds.gdp import gaussian_delta, gaussian_epsilon
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams, generator
from dpaudit.execution.executor import INLINE, Executor

# Trainings on each data set that sample the distances of the steps.
TRAININGS = 64
# The spacing of the grid that scores lie on; noise of this width makes them distinct.
_GRID = 2.0**-8
# Columns of `_apart`.
_SQUARES, _SUM, _LAPLACE = range(3)


class StepsLaw(NamedTuple):
    """What the law of the noise of a pair's steps says.

    Attributes:
        epsilon: the ε.
        divergences: of each training on D', the sum of the divergences `‖difference‖²/(2σ²)` of its
            steps, in nats `(W,)`; infinite if the noise is not normal.
    """

    epsilon: Estimate
    divergences: NDArray[np.float64]


def steps_law(
    game: DistinguishingGame[Any],
    *,
    delta: float,
    seed: int,
    trainings: int = TRAININGS,
    executor: Executor = INLINE,
) -> StepsLaw:
    """Compute the ε and the divergence of a pair by the law of its steps' noise, from trainings.

    **Normal noise.** Given everything shown before, a step follows one of two normal distributions
    a known distance apart, and all steps of a training together are equivalent to one such step at
    `μ = √Σ ‖difference‖²/σ²`. μ varies between trainings. If the server knew μ in advance, the
    pair's ε would solve

        E[δ_μ(ε)] = δ,    δ_μ the profile of normals at μ

    The result is this ε. It ignores only the effect of the target user's own noise on later
    differences through V and F, in which the sums over all users dominate. The larger of the two
    data sets' values is returned. It rests on a sample of μ, whose largest values weigh most.

    **Laplace noise in one step.** Given the start of a training, the log-ratio is at most

        Σ_j |difference_j| / b_j

    and attains it with positive probability, when every number lies beyond both of its means: this
    is the ε at δ = 0, and an upper bound at any other δ (Dwork, McSherry, Nissim, Smith 2006,
    Proposition 1, doi:10.1007/11681878_14). The largest value over the trainings is returned, which
    is exact if all start alike. **In several steps** the ε is infinite: users' factors depend on V,
    and V on the earlier noise, which is unbounded, and so the differences of later steps are
    unbounded. The sum over the steps of a training only bounds what that training shows.

    **The divergence.** Given what was shown before, two normal steps have the Kullback-Leibler
    divergence `‖difference‖²/(2σ²)`. Its sum over the steps, averaged over trainings on D', is the
    divergence of all that the observer sees on D' from that on D, by the chain rule; at least as
    much if the differences depend on what the observer does not see (Cover & Thomas 2006, Theorem
    2.5.3, doi:10.1002/047174882X).

    Args:
        game: a game whose observer sees steps with noise of a known law.
        delta: the δ.
        seed: seed of the trainings.
        trainings: number of trainings on each data set.
        executor: runs the trainings; the result does not depend on it.

    Raises:
        NoModelError: a training diverged: no law says how likely that is.
    """
    reads = [
        (partial(_apart, game, trained), Streams.first(seed, f"law/{name}", trainings))
        for name, trained in (("absent", game.pair.before), ("present", game.pair.after))
    ]
    apart = in_blocks(reads, game.observer.block, executor)
    steps = max(float(distances[:, _LAPLACE].max()) for distances in apart)
    if steps:
        largest = max(float(distances[:, _SUM].max()) for distances in apart)
        value, noise = math.inf if steps > 1 and largest else largest, "Laplace"
    else:
        shifts = [np.sqrt(distances[:, _SQUARES]) for distances in apart]
        value, noise = max(_mixture(mu, delta) for mu in shifts), "normal"
    present = apart[1]
    epsilon = Estimate(
        value=value,
        lower=0.0,
        upper=value,
        confidence=0.0,
        alpha=1.0,
        n=trainings,
        method=f"{noise} steps, their distances met in {trainings} trainings of either data set",
        kind="assumes-law",
    )
    normal = present[:, _LAPLACE] == 0
    return StepsLaw(epsilon, np.where(normal, present[:, _SQUARES] / 2, math.inf))


def joint_divergence(
    scores: GameScores, law: StepsLaw | None, mu: float, *, alpha: float, confidence: float
) -> Estimate:
    """Estimate the divergence of a game's observations on D' from those on D, so that it may gate.

    The lower end is that of `binary.threshold_kl` and assumes nothing but independent trials: it
    tests the game's scores, whose divergence is at most that of the observations. Without a law
    there is no upper end. With normal steps whose distance clipping bounds, the upper end is that
    of the mean of `StepsLaw.divergences` over trainings (`means.nonnegative_mean`), which are
    independent and at most μ²/2. Each end has α/2. The upper end assumes that the noise is normal
    with the σ in use, as the mechanism's code says.

    Args:
        scores: the game's scores of independent trials.
        law: the law of its steps; None if they have none.
        mu: the largest distance of all steps (`TrainedDefense.steps_mu`).
        alpha: the level.
        confidence: the confidence to state.
    """
    clipped = law is not None and mu < math.inf and bool(np.isfinite(law.divergences).all())
    level = alpha / 2 if clipped else alpha
    tested = threshold_kl(scores.present, scores.absent, alpha=level, confidence=confidence)
    tested = tested.changed(alpha=alpha)
    if law is None or not clipped:
        return tested
    # Its upper end alone is used, which has half of the level.
    mean = nonnegative_mean(law.divergences, alpha, confidence, most=mu**2 / 2)
    upper = max(mean.upper, tested.lower)
    return tested.changed(
        value=min(max(mean.value, tested.lower), upper),
        upper=upper,
        method=f"{tested.method}; above, steps are normal and clipped",
    )


def _apart(game: DistinguishingGame[Any], trained: Any, streams: Streams) -> NDArray[np.float64]:
    """Measure how far apart the steps of each training are, in units of their noise `(W, 3)`.

    The columns are the sum of squares, the sum of absolute values, and the number of steps with
    Laplace noise.
    """
    sums = np.zeros((len(streams), 3))
    for _, law in game.observer.views(game.pair, trained, streams):
        away = abs(law.present - law.absent) / law.scale
        sums[:, _SQUARES] += (away**2).sum(1)
        sums[:, _SUM] += away.sum(1)
        sums[:, _LAPLACE] += not law.gaussian
    return sums


def _mixture(mu: NDArray[np.float64], delta: float) -> float:
    """Solve for the ε at which the mean of the normal profiles at these distances is δ."""
    from scipy.optimize import brentq

    def excess(epsilon: float) -> float:
        return float(np.mean([gaussian_delta(epsilon, float(one)) for one in mu])) - delta

    if excess(0.0) <= 0:
        return 0.0
    if delta == 0:
        return math.inf
    # Upper end of the bracket: at the ε of the largest distance no profile exceeds δ.
    return float(brentq(excess, 0.0, gaussian_epsilon(float(mu.max()), delta) + 1e-9))


def score_divergences(scores: GameScores, *, seed: int, alpha: float) -> dict[str, Estimate]:
    """Estimate the Kullback-Leibler divergence of D' from D in a game's views in three ways.

    All but the first estimate the divergence between the two distributions of scores, which is at
    most that between the distributions of views.

    Args:
        scores: log-likelihood ratios of the trials, on a grid.
        seed: seed of the noise that makes the scores distinct.
        alpha: the level of each interval separately.

    Returns:
        The estimates by the name of the estimator; one that cannot be computed is left out, as all
        are if an output is possible in only one data set, or a training ended without a model.
    """
    if max(abs(values).max() for values in (scores.absent, scores.present)) >= CERTAIN:
        return {}
    rng = generator(seed, "divergence")
    present, absent = (
        values + rng.uniform(-_GRID / 2, _GRID / 2, len(values))
        for values in (scores.present, scores.absent)
    )
    estimates = {}
    for name, estimate in (
        ("mean log-ratio", partial(log_ratio_kl, scores.present)),
        ("normal plug-in", partial(plugin_kl, present, absent)),
        ("nearest neighbours", partial(neighbour_kl, present, absent)),
    ):
        try:
            estimates[name] = estimate(alpha=alpha)
        except InputError:  # too few trials, or scores without spread
            continue
    return estimates
