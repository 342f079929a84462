"""The text of a module with a recommender whose scores are the ratings that it was given."""

from __future__ import annotations

CLASS = """
import numpy as np

class Model:
    def fit(self, interactions, seed):
        self.seen = interactions
        return self

    def scores(self, users, items):
        return np.asarray(self.seen[users, items]).reshape(-1)
"""
