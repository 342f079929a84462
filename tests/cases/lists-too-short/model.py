import numpy as np


class Model:
    def fit(self, matrix, seed):
        self.counts = np.asarray(matrix.sum(0)).ravel().astype(float)
        return self

    def scores(self, users, items):
        return self.counts[items]

    def recommend(self, users, k):
        return np.tile(np.arange(k - 3), (len(users), 1))
