"""Write scores of 100 members and 100 others."""

import numpy as np

rng = np.random.default_rng(1)
np.savetxt("in.csv", rng.normal(1, 1, 100))
np.savetxt("out.csv", rng.normal(0, 1, 100))
