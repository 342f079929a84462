"""A mechanism of one's own, audited from its outputs alone by black_box.toml."""

from __future__ import annotations

import numpy as np

RATINGS = np.array([4.0, 5.0, 3.0, 4.0, 1.0])


def noisy_mean(ratings: np.ndarray, rng: np.random.Generator, n: int) -> np.ndarray:
    """The mean rating with Laplace noise for ε = 1, scaled to 1/n instead of the range 4/n.

    Rounded: the low-order bits of the sum would tell the mean, whatever the noise.
    """
    noise: np.ndarray = rng.laplace(scale=1 / len(ratings), size=n)
    return np.asarray(np.round(ratings.mean() + noise, 2))


def pairs() -> list[tuple[np.ndarray, np.ndarray]]:
    """Neighbours: one user's rating becomes the lowest or the highest."""
    found = []
    for user in range(len(RATINGS)):
        for value in (1.0, 5.0):
            changed = RATINGS.copy()
            changed[user] = value
            if changed[user] != RATINGS[user]:
                found.append((RATINGS, changed))
    return found
