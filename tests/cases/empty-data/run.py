import pandas as pd
import scipy.sparse as sp

import dpaudit

columns = {"user_id": [], "item_id": [], "rating": []}
given = {
    "frame": pd.DataFrame(columns),
    "matrix": sp.csr_matrix((50, 40)),
    "nothing": sp.csr_matrix((0, 0)),
}
for name, data in given.items():
    try:
        dpaudit.audit_recommender("most-popular", data, trainings=8, targets=40, seed=1)
        print(name, "ok")
    except Exception as error:
        print(name, type(error).__name__, error)
