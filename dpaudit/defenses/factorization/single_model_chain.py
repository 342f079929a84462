"""The Langevin chain for the posterior of a large factorisation, one trial at a time."""

from __future__ import annotations

import numpy as np

from dpaudit.core.streams import Streams
from dpaudit.defenses.factorization.sampled_training import (
    DIVERGED,
    STEPS,
    Exact,
    FactorChain,
    FactorDraw,
)
from dpaudit.defenses.factorization.single_model import SingleModel, visits
from dpaudit.defenses.factors import FIRST
from dpaudit.defenses.training_checks import end_step
from dpaudit.kernels import noise
from dpaudit.kernels.factorization import single_model as factor_model


def draw_single(chain: FactorChain, streams: Streams, attempt: int = 0) -> FactorDraw:
    """Run the chain of the only trial of `streams`; each attempt uses other noise.

    Args:
        chain: a chain with more than `TOGETHER` dimensions and no Gamma law.
        streams: one trial.
        attempt: the number of the attempt.

    Raises:
        ConfigError: an epoch needs more noise than a step of the noise source has.
        NoModelError: the chain diverged.
    """
    rows, size = chain.data.rows, chain.dimensions
    start = attempt * STEPS
    model = SingleModel.drawn(rows, size, chain.spread, streams, start)
    due = np.zeros(rows.n_users), np.zeros(rows.n_items)
    visited, trial = visits(rows, size), int(streams.trials[0])
    bounds = np.float32(chain.bounds[0]), np.float32(chain.bounds[1])
    for t, step_size in enumerate(chain.sizes):
        factor_model.sample(
            *visited,
            *model.parts(),
            size,
            np.float32(rows.mean),
            chain.gains(step_size),
            *chain.drifts(step_size),
            bounds,
            chain.temperature * step_size / len(rows),
            *due,
            FIRST + start + t,
            trial,
            streams.key,
            chain.biases,
        )
        end_step(chain.variant, chain.name, t + 1, "epoch", DIVERGED, *model.parts())
    return _settled(chain, model, due, FIRST + start + len(chain.sizes), streams)


def _settled(
    chain: FactorChain, model: SingleModel, due: tuple[Exact, Exact], step: int, streams: Streams
) -> FactorDraw:
    """Add the noise that is still due; draw users and items without ratings from the prior."""
    sides = model.joined()
    chain.leave_to_prior(sides, due)
    for place, (side, left) in enumerate(zip(sides, due, strict=True)):
        draws = np.empty((1, side.size), np.float32)
        noise.normal(draws, streams.trials, step + place, streams.key)
        deviation = np.sqrt(left).astype(np.float32)[:, None, None]
        side[:] += deviation * draws.reshape(side.shape)
        if not chain.biases:
            side[:, -1] = 0
    precisions = np.full((2, chain.dimensions + 1, 1), chain.decay)
    return FactorDraw(sides[0], sides[1], precisions, 1)
