"""The rounds of the corrected factorisation: sums of clipped gradients with Gaussian noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import FIRST, STEPS_GROW, FactorBlock, FactorRows
from dpaudit.defenses.precision import grid, hair
from dpaudit.defenses.training_checks import end_step
from dpaudit.kernels import exact_noise
from dpaudit.kernels.factorization import sixteen_models as kernels
from dpaudit.kernels.lanes import LANES, aligned

if TYPE_CHECKING:
    from dpaudit.defenses.factorization.sgd_settings import SgdSettings


def run_rounds(
    defense: SgdSettings, rows: FactorRows, block: FactorBlock, streams: Streams
) -> None:
    """Run all rounds of the corrected form.

    Args:
        defense: the corrected form.
        rows: the training data.
        block: the models; changed in place.
        streams: their trials.

    Raises:
        NoModelError: the training diverged.
    """
    total = np.zeros(block.items.size)
    for t in range(defense.epochs):
        run_round(defense, rows, block, streams, t, total)


def run_round(
    defense: SgdSettings,
    rows: FactorRows,
    block: FactorBlock,
    streams: Streams,
    t: int,
    total: NDArray[np.float64],
) -> None:
    """Run round t of the corrected form.

    Args:
        defense: the corrected form.
        rows: the training data.
        block: the models; changed in place.
        streams: their trials.
        t: the round, from 0 on.
        total: receives the sum of the users' gradients without noise, of the size of `block.items`.

    Raises:
        NoModelError: the training diverged.
    """
    deviation = defense.noise_deviation(rows.n_items)
    total[:] = 0
    sum_clipped(defense, rows, block, total, taking_part(defense, rows.n_users, streams, t))
    kernels.take_step(
        block.items.reshape(-1),
        total,
        np.float32(defense.item_learning_rate),
        np.float32(defense.decay),
        deviation,
        grid(deviation),
        FIRST + 2 * t,
        block.trials,
        streams.key,
    )
    end_step(defense.variant, defense.name, t + 1, "round", STEPS_GROW, block.users, block.items)


def sum_clipped(
    defense: SgdSettings,
    rows: FactorRows,
    block: FactorBlock,
    total: NDArray[np.float64],
    taken: NDArray[np.float32] | None = None,
) -> None:
    """Fit every user's own factors, and add their clipped gradients to `total`.

    Args:
        defense: the corrected form.
        rows: the users' ratings.
        block: the models; the users' side is changed in place.
        total: the sum to add to, of the size of `block.items`.
        taken: 1 where a user takes part, else 0, `(N, 16)`; all take part unless given.
    """
    if taken is None:
        taken = np.ones((rows.n_users, LANES), np.float32)
    most = int(np.diff(rows.start).max(initial=0))
    kernels.sum_clipped(
        rows.start,
        rows.items,
        rows.values,
        block.users.reshape(-1),
        block.items.reshape(-1),
        total,
        taken.reshape(-1),
        defense.dimensions,
        np.float32(rows.mean),
        np.float32(defense.learning_rate),
        np.float32(defense.decay),
        np.float32(defense.clip_norm * (1 - hair(rows.n_items + defense.dimensions))),
        aligned(most * LANES),
        rows.subsets,
    )


def taking_part(defense: SgdSettings, users: int, streams: Streams, t: int) -> NDArray[np.float32]:
    """Draw a Poisson sample of the users in round t: 1 for participants, else 0, `(N, 16)`."""
    if defense.sampling_rate == 1:
        return np.ones((users, LANES), np.float32)
    draws = np.empty((len(streams), users))
    exact_noise.uniform(draws, streams.trials, FIRST + 2 * t + 1, streams.key)
    # Unused lanes repeat the last trial here too, so that they diverge only if it does.
    full = np.pad(draws, ((0, LANES - len(streams)), (0, 0)), mode="edge")
    return np.ascontiguousarray((defense.sampling_rate > full.T).astype(np.float32))
