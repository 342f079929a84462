import numpy as np


class Base:
    def fit(self, matrix, seed):
        self.counts = np.asarray(matrix.sum(0)).ravel().astype(float)
        return self

    def scores(self, users, items):
        return self.counts[items]


class Short(Base):
    def recommend(self, users, k):
        return np.tile(np.arange(k - 3), (len(users), 1))


class Long(Base):
    def recommend(self, users, k):
        return np.tile(np.arange(k + 3), (len(users), 1))


class Ragged(Base):
    def recommend(self, users, k):
        return [list(range(n % k)) for n, _ in enumerate(users)]


class WithScores(Base):
    def recommend(self, users, k):
        return np.tile(np.arange(k), (len(users), 1)), np.ones((len(users), k))
