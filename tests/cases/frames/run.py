import polars as pl
import pyarrow as pa

import dpaudit

columns = {
    "user_id": [k % 60 for k in range(2400)],
    "item_id": [k // 60 for k in range(2400)],
    "rating": [1 + k % 5 for k in range(2400)],
}
frame = pl.DataFrame(columns)
for name, data in {"polars": frame, "lazy": frame.lazy(), "arrow": pa.table(columns)}.items():
    dpaudit.audit_recommender("most-popular", data, trainings=8, targets=40)
    print(name, "ok")
