"""A training by DP-SGD in its own loop: put yours in its place, with both calls of watch."""

import numpy as np

STEPS, RATE, NOISE, NORM, FACTORS, LEARNING = 200, 0.01, 1.0, 1.0, 16, 0.5


def train(interactions, seed, watch):
    """Train a factorisation by DP-SGD with numpy."""
    rng = np.random.default_rng(seed)  # all that is random follows from the seed
    table = interactions.table
    p, q = (rng.normal(0, 0.1, (count, FACTORS)) for count in interactions.shape)
    watch.own(noise_multiplier=NOISE, max_grad_norm=NORM, sample_rate=RATE, weights=[p, q])
    divisor = 100.0  # a constant, which no data decide
    for _ in range(STEPS):
        rows = np.flatnonzero(rng.random(len(table.user)) < RATE)
        users, items = table.user[rows], table.item[rows]
        error = 2 * ((p[users] * q[items]).sum(1) - table.rating[rows])[:, None]
        of_users, of_items = error * q[items], error * p[users]
        norms = np.sqrt((of_users**2).sum(1) + (of_items**2).sum(1))
        factors = np.minimum(1, NORM / np.maximum(norms, 1e-12))[:, None]
        sums = [np.zeros_like(p), np.zeros_like(q)]
        np.add.at(sums[0], users, factors * of_users)
        np.add.at(sums[1], items, factors * of_items)
        noise = [rng.normal(0, NOISE * NORM, part.shape) for part in sums]
        moves = watch.step(sums, noise, divisor, rows=len(rows))
        p -= LEARNING * moves[0]
        q -= LEARNING * moves[1]
    return p, q
