import numpy as np

from dpaudit.core.errors import RunError
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Scale, from_profiles
from dpaudit.defenses.factorization.sgd import SgdFactors

rng = np.random.default_rng(1)


def profile(ratings):
    items = np.sort(rng.choice(300, ratings, replace=False))
    return [(int(item), float(rng.integers(1, 6))) for item in items]


few = [profile(5) for _ in range(50)]
errors = 0
for data in ([*few, []], [*few, profile(200)]):
    ratings = from_profiles(data, 300, Scale(1, 5, 1))
    for epsilon in (0.5, 1.0):
        model = SgdFactors(epsilon=epsilon, variant="corrected")
        for trial in range(5):
            try:
                model.train(model.prepare(ratings), Streams.first(trial, "x", 1))
            except RunError:
                errors += 1
print(errors, "errors")
