import numpy as np

import dpaudit


class Release:
    def __init__(self):
        self.out = np.zeros(4)

    def __call__(self, data, rng):
        self.out[:] = sum(data)
        self.out += np.round(rng.laplace(0, 0.1, 4), 6)
        return self.out


bound = dpaudit.audit(Release(), [0.0, 1.0, 2.0], [3.0, 1.0, 2.0]).epsilon.lower
print("found" if bound > 2 else "missed", bound)
