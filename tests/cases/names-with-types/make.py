"""Write some 600 interactions of 40 users."""

import numpy as np

rng = np.random.default_rng(5)
pairs = np.sort(rng.permutation(40 * 30)[:600])
with open("ratings.inter", "w") as file:
    file.write("user_id:token\titem_id:token\trating:float\ttimestamp:float\n")
    for number, pair in enumerate(pairs):
        user, item, star = pair // 30, pair % 30, rng.integers(1, 6)
        file.write(f"{user}\t{item}\t{star}.0\t{8800000000 + number}\n")
