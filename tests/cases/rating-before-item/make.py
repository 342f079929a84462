"""Write some 600 interactions of 40 users."""

import numpy as np

rng = np.random.default_rng(5)
pairs = np.sort(rng.permutation(40 * 30)[:600])
with open("rows.csv", "w") as file:
    for number, pair in enumerate(pairs):
        user, item, star = pair // 30, pair % 30, rng.integers(1, 6)
        file.write(f"{user},{star},2005-09-06,{item}\n")
