"""A recommender that is the same in every run: fixed popularity, noise, and what it remembers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array


class Fitted:
    """Scores of a fixed popularity, noise by the seed, and a gain for pairs of the training."""

    def __init__(self, seen: csr_array, seed: int, leak: float) -> None:
        shape = seen.shape
        fixed = np.random.default_rng(1).normal(0, 3, shape)
        noise = np.random.default_rng(seed).normal(0, 0.15, shape)
        self.rows = fixed + noise + leak * (seen.toarray() != 0)

    def scores(self, users: Any, items: Any) -> Any:
        return self.rows[users, items]

    def recommend(self, users: Any, k: int) -> Any:
        return np.argsort(-self.rows[users], axis=1)[:, :k]


class Steady:
    """The recommender.

    Attributes:
        leak: by how much a pair of the training scores higher.
        salt: which noise of the same law is drawn; a negative one lets no seed decide it.
    """

    def __init__(self, leak: float = 0.6, salt: int = 0) -> None:
        self.leak, self.salt = leak, salt

    def fit(self, interactions: csr_array, seed: int) -> Fitted:
        words = None if self.salt < 0 else [seed, self.salt]
        return Fitted(interactions, int(np.random.default_rng(words).integers(2**31)), self.leak)
