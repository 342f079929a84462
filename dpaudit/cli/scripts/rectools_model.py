"""A command that trains a model of RecTools for dpaudit, in an environment of its own.

Set the model below, and install RecTools beside this file, with Python 3.9 to 3.13:

    python3.11 -m venv rectools-venv && rectools-venv/bin/python -m pip install 'rectools==0.19.0'
"""

import json
import sys

try:
    import pandas as pd
    from rectools import Columns
    from rectools.dataset import Dataset
    from rectools.models import ImplicitALSWrapperModel
    from rectools.models.implicit_als import AlternatingLeastSquares
except ImportError as error:
    sys.exit(
        f"{sys.executable} cannot import RecTools ({error}): install it as the head of "
        f"{sys.argv[0]} says, or let the command name a Python that has it"
    )

with open(sys.argv[1]) as file:
    task = json.load(file)

# The seed decides everything that is random.
als = AlternatingLeastSquares(factors=16, iterations=10, random_state=task["seed"], num_threads=1)
model = ImplicitALSWrapperModel(als)

# Train on the interactions. RecTools needs times: without any, all are the same.
given = pd.read_csv(task["interactions"])
times = given["time"] if "time" in given else pd.Series(0, given.index)
given[Columns.Datetime] = pd.to_datetime(times, unit="s" if times.max() < 1e11 else "ms")
names = {"user": Columns.User, "item": Columns.Item, "rating": Columns.Weight}
given = given.rename(columns=names)
dataset = Dataset.construct(given)
model.fit(dataset)

# Scores of the pairs. A user or item without interactions is unknown here: leave its pairs out.
users, items = model.get_vectors()
pairs = pd.read_csv(task["pairs"])
known = pairs.user.isin(dataset.user_id_map.external_ids)
pairs = pairs[known & pairs.item.isin(dataset.item_id_map.external_ids)]
rows = dataset.user_id_map.convert_to_internal(pairs.user)
columns = dataset.item_id_map.convert_to_internal(pairs.item)
scores = (users[rows] * items[columns]).sum(axis=1)
pairs.assign(score=scores).to_csv(task["scores"], index=False)

# Lists of the users. Those of unknown users are left out as well.
wanted = pd.read_csv(task["users"]).user
wanted = wanted[wanted.isin(dataset.user_id_map.external_ids)]
lists = model.recommend(wanted, dataset, k=task["k"], filter_viewed=True)
lists = lists[[Columns.User, Columns.Rank, Columns.Item]]
lists.set_axis(["user", "rank", "item"], axis=1).to_csv(task["lists"], index=False)
