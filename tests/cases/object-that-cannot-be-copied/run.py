import threading

import numpy as np
import scipy.sparse as sp

import dpaudit


class Locked:
    def __init__(self):
        self.lock = threading.Lock()

    def fit(self, matrix, seed):
        self.counts = np.asarray(matrix.sum(0)).ravel()
        return self

    def scores(self, users, items):
        return self.counts[items]


matrix = sp.random(60, 40, 0.5, "csr", random_state=0)
matrix.data[:] = 1
try:
    dpaudit.audit_recommender(Locked(), matrix, trainings=8, targets=40)
except Exception as error:
    print(type(error).__name__, error)
