"""A command that trains a model of RecBole for dpaudit, in an environment of its own.

Set MODEL and SETTINGS below, and install RecBole beside this file, with Python 3.11 or older:

    python3.11 -m venv recbole-venv
    recbole-venv/bin/python -m pip install \
        'recbole==1.2.1' 'numpy<2' 'scipy<1.13' 'pandas<3' 'setuptools<81'
"""

import json
import os
import sys
import tempfile

try:
    import numpy as np
    import pandas as pd
    import torch
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.data.interaction import Interaction
    from recbole.utils import ModelType, get_model, get_trainer, init_seed
except (ImportError, AttributeError) as error:
    sys.exit(
        f"{sys.executable} cannot import RecBole ({error}): install it as the head of "
        f"{sys.argv[0]} says, or let the command name a Python that has it"
    )

# A general or sequential model, and its settings in RecBole. It trains on all interactions, so
# nothing is left to stop it early: set as many epochs as your own training takes.
MODEL = "LightGCN"
SETTINGS = {"epochs": 100}  # SASRec: {"epochs": 100, "train_neg_sample_args": None}

with open(sys.argv[1]) as file:
    task = json.load(file)
table = pd.read_csv(task["interactions"])  # in the order of time, if there are times
pairs = pd.read_csv(task["pairs"])
listed = pd.read_csv(task["users"])

kind = get_model(MODEL).type
if kind not in (ModelType.GENERAL, ModelType.TRADITIONAL, ModelType.SEQUENTIAL):
    sys.exit(f"{MODEL} needs more than interactions: set MODEL to a general or sequential one")
if kind == ModelType.SEQUENTIAL and "time" not in table:
    sys.exit(f"{MODEL} needs times: name columns.time in [data], or set in_order = true there")

config = {
    **SETTINGS,
    "seed": task["seed"],
    "data_path": ".",
    "load_col": {"inter": ["user_id", "item_id", "rating", "timestamp"]},
    "eval_args": {"split": {"RS": [1, 0, 0]}, "group_by": "user", "order": "TO", "mode": "full"},
    "show_progress": False,
}
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)  # RecBole writes its logs there
    os.mkdir("task")
    # RecBole rounds times to a minute or so. A place in the user's history is exact.
    table["place"] = table.groupby("user").cumcount()
    columns = ["user_id:token", "item_id:token", "rating:float", "timestamp:float"]
    atomic = table[["user", "item", "rating", "place"]].set_axis(columns, axis=1)
    atomic.to_csv("task/task.inter", sep="\t", index=False)

    config = Config(MODEL, "task", config_dict=config)
    init_seed(task["seed"], reproducibility=True)
    dataset = create_dataset(config)
    training = data_preparation(config, dataset)[0]
    model = get_model(MODEL)(config, training.dataset).to(config["device"])
    get_trainer(config["MODEL_TYPE"], MODEL)(config, model).fit(training, saved=False)

# RecBole's indices of our users and items, from 1. Those without interactions have none.
user_of, item_of = (
    pd.Series({int(token): i for i, token in enumerate(dataset.field2id_token[name]) if i})
    for name in ("user_id", "item_id")
)
histories = table.groupby("user").item.agg(list)


@torch.no_grad()
def scored(users, histories):
    """Return the scores of all known items, in RecBole's order, for users with their histories."""
    rows = {"user_id": torch.tensor(user_of[users].to_numpy())}
    if kind == ModelType.SEQUENTIAL:
        length = config["MAX_ITEM_LIST_LENGTH"]
        last = [torch.tensor(item_of[items[-length:]].to_numpy()) for items in histories]
        full = torch.zeros(length, dtype=torch.int64)  # all are padded to its length
        rows[model.ITEM_SEQ] = torch.nn.utils.rnn.pad_sequence([full, *last], batch_first=True)[1:]
        rows[model.ITEM_SEQ_LEN] = torch.tensor([len(items) for items in last])
    rows = Interaction(rows).to(config["device"])
    try:
        scores = model.full_sort_predict(rows)
    except NotImplementedError:  # it scores one item at a time
        rows = rows.repeat_interleave(dataset.item_num)
        rows.update(dataset.get_item_feature().to(config["device"]).repeat(len(users)))
        scores = model.predict(rows)
    return scores.view(len(users), dataset.item_num)[:, 1:].cpu().numpy()


model.eval()
pairs = pairs[pairs.user.isin(user_of.index) & pairs.item.isin(item_of.index)]
listed = listed[listed.user.isin(user_of.index)]
users = np.union1d(pairs.user, listed.user)
scores, lists = [], []
for some in np.array_split(users, len(users) // 256 + 1):
    values = scored(some, histories[some])
    row = pd.Series(range(len(some)), some)
    asked = pairs[pairs.user.isin(some)]
    scores.append(asked.assign(score=values[row[asked.user], item_of[asked.item] - 1]))
    seen = table[table.user.isin(some)]  # lists leave out what the user has
    values[row[seen.user], item_of[seen.item] - 1] = -np.inf
    best = np.argsort(-values, kind="stable")[:, : task["k"]]
    ranked = {"rank": np.tile(range(1, best.shape[1] + 1), len(some)), "best": best.ravel()}
    ranked["score"] = np.take_along_axis(values, best, 1).ravel()
    lists.append(pd.DataFrame({"user": np.repeat(some, best.shape[1]), **ranked}))
pd.concat(scores).to_csv(task["scores"], index=False)
lists = pd.concat(lists)
lists = lists[lists.user.isin(listed.user) & (lists.score > -np.inf)]
lists = lists.assign(item=item_of.index[lists.best])
lists[["user", "rank", "item"]].to_csv(task["lists"], index=False)

if task["histories"]:  # what comes after histories that an attacker sends
    if kind != ModelType.SEQUENTIAL:
        sys.exit(f"{MODEL} reads no order: remove the observer 'asked-histories'")
    sent, after = pd.read_csv(task["histories"]), pd.read_csv(task["after"])
    sent = sent[sent.item.isin(item_of.index)].groupby("history").item.agg(list)
    after = after[after.history.isin(sent.index) & after.item.isin(item_of.index)]
    scores = []
    for some in np.array_split(sent.index, len(sent) // 256 + 1):
        values = scored(user_of.index[[0] * len(some)], sent[some])
        row, asked = pd.Series(range(len(some)), some), after[after.history.isin(some)]
        scores.append(asked.assign(score=values[row[asked.history], item_of[asked.item] - 1]))
    pd.concat(scores).to_csv(task["after_scores"], index=False)
