"""A recommender of one's own, as a Python class: see docs/guides/own-models.md."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds


class Fitted:
    """A trained model."""

    def __init__(self, users: np.ndarray, items: np.ndarray) -> None:
        """Keep the factors of users (N, d) and items (M, d)."""
        self.users, self.items = users, items

    def scores(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Score (user, item) pairs (n,)."""
        return np.einsum("nd,nd->n", self.users[users], self.items[items])

    def factors(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the factors of items and users, for the observer `factors` alone."""
        return self.items, self.users


class Recommender:
    """A truncated singular value decomposition."""

    def __init__(self, factors: int = 16, noise: float = 0.0) -> None:
        """Keep the number of factors, and the noise in those of items, in standard deviations."""
        self.factors, self.noise = factors, noise

    def fit(self, interactions: csr_array, seed: int) -> Fitted:
        """Train on users x items (N, M); the seed decides where the iterations start."""
        rng = np.random.default_rng(seed)
        start = rng.random(min(interactions.shape))
        users, weights, items = svds(interactions, k=self.factors, v0=start)
        items += self.noise * items.std(axis=1, keepdims=True) * rng.normal(size=items.shape)
        return Fitted(users * weights, items.T)
