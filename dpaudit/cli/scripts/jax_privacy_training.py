"""A training by DP-SGD with jax-privacy: put yours in its place, with the line that calls watch.

It needs jax-privacy: python -m pip install 'jax-privacy>=2.0'
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

STEPS, RATE, NOISE, NORM, FACTORS, LEARNING = 200, 0.01, 1.0, 1.0, 16, 0.005


def loss(weights, users, items, ratings):
    """Return the loss of a batch of one row."""
    p, q = weights
    return ((p[users] * q[items]).sum(1) - ratings).mean() ** 2


def train(interactions, seed, watch):
    """Train a factorisation by DP-SGD with jax-privacy."""
    rng = np.random.default_rng(seed)  # all that is random follows from the seed
    table = interactions.table
    weights = tuple(
        jnp.asarray(rng.normal(0, 0.1, (count, FACTORS)), jnp.float32)
        for count in interactions.shape
    )
    plan = BandMFExecutionPlanConfig(
        strategy=np.ones(1),
        iterations=STEPS,
        epsilon=None,
        delta=None,
        noise_multiplier=NOISE,
        l2_clip_norm=NORM,
        sampling_prob=RATE,
        noise_seed=int(rng.integers(2**31)),
    ).plan
    plan = watch(plan)  # the one line that an audit needs
    clipped = jax.jit(plan.clipped_grad(loss, batch_argnums=(1, 2, 3)))
    state = plan.noise_addition_transform.init(weights)
    most = int(2 * RATE * len(table.user)) + 64  # batches are filled up to this number of rows
    for batch in plan.batch_selection_strategy.batch_iterator(len(table.user), rng=rng):
        rows = np.pad(batch, (0, max(0, most - len(batch))))
        sums = clipped(
            weights,
            table.user[rows],
            table.item[rows],
            table.rating[rows],
            is_padding_example=np.arange(len(rows)) >= len(batch),
        )
        noised, state = plan.noise_addition_transform.update(sums, state)
        weights = tuple(w - LEARNING * g for w, g in zip(weights, noised, strict=True))
    return weights
