"""Write ratings of 400 users as Parquet."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

rng = np.random.default_rng(5)
pairs = rng.permutation(400 * 30)[:4700]
users, items, stars = pairs // 30, pairs % 30, rng.integers(1, 6, 4700).astype(float)
columns = {
    "user_id": pa.array([int(u).to_bytes(4, "big") for u in users], pa.binary()),
    "item_id": items,
    "rating": stars,
}
pq.write_table(pa.table(columns), "ratings.parquet")
