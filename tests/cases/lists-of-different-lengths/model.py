import numpy as np


class Model:
    def fit(self, matrix, seed):
        self.counts = np.asarray(matrix.sum(0)).ravel().astype(float)
        return self

    def scores(self, users, items):
        return self.counts[items]

    def recommend(self, users, k):
        return [list(range(n % k)) for n, _ in enumerate(users)]
