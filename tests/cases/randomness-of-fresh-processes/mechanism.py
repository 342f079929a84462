import numpy as np


def noisy_sum(data, rng):
    return round(float(sum(data) + np.random.laplace()), 6)


def hashed(data, rng):
    return round(hash(str(data)) % 5 + rng.normal(), 6)
