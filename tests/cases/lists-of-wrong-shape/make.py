"""Write 1500 ratings of 90 users."""

import numpy as np

rng = np.random.default_rng(3)
pairs = rng.permutation(90 * 60)[:1500]
stars = rng.integers(1, 6, 1500)
with open("base.csv", "w") as file:
    file.write("user_id,item_id,rating\n")
    file.writelines(f"{p // 60},{p % 60},{s}\n" for p, s in zip(pairs, stars))
