import functools

import numpy as np


@functools.lru_cache(None)
def cached(key):
    return float(np.random.default_rng().laplace())


def once_per_data(data, rng):
    return cached(tuple(data))


class Once:
    def __init__(self):
        self.noise = np.random.default_rng().laplace()

    def __call__(self, data, rng):
        return sum(data) + self.noise


class FirstSeen:
    def __init__(self):
        self.first = None

    def __call__(self, data, rng):
        if self.first is None:
            self.first = data
        return float(data is self.first) + rng.normal()


once, first = Once(), FirstSeen()
