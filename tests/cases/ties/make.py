"""Write scores of 2000 members and 2000 others."""

import numpy as np

rng = np.random.default_rng(1)
for name, share in (("in", 0.9), ("out", 0.012)):
    scores = rng.normal(size=2000)
    scores[: int(2000 * share)] = 10
    np.savetxt(f"{name}.csv", scores)
