import numpy as np


class Fitted:
    def __init__(self, table):
        self.table = table

    def scores(self, users, items):
        return self.table[users, items]


class Model:
    fits = 0

    def fit(self, matrix, seed):
        Model.fits += 1
        if Model.fits % 2:
            return Fitted((matrix.toarray() > 0).astype(float))
        return Fitted(np.random.default_rng(seed).normal(size=matrix.shape))
