"""The table of `make_training` on Surprise's SVD and our biased factorisation, MovieLens-100K.

It needs `python -m pip install '.[bench]'`.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import surprise

from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold, files_folds
from dpaudit.data.readers.load import load
from dpaudit.data.source import DataSource
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.reports.render.markdown import row

SEED, SPLITS = 7, range(1, 6)
# The settings of examples/ml-100k-nonprivate.toml, chosen on a tenth of u1's training ratings.
LARGE = SgdFactors(math.inf, "nonprivate", 48, 50, learning_rate=0.01, decay=0.1, spread=0.05)
BIG = SgdFactors(math.inf, "nonprivate", 256, 50, learning_rate=0.01, decay=0.1, spread=0.05)
SMALL = SgdFactors(math.inf, "nonprivate", 16, 50, learning_rate=0.01, decay=0.1, spread=0.05)

Trainer = Callable[[Fold], float]


def written() -> str:
    """Return the table, with a note on how it was made."""
    home = Path(os.environ["DPAUDIT_DATA"]) / "ml-100k"
    ratings = load(DataSource(format="movielens-100k", path=str(home / "u.data")))
    folds = files_folds(ratings, [home / f"u{number}.test" for number in SPLITS])
    trainers: dict[str, Trainer] = {
        "Surprise SVD, its defaults: d = 100, 20 epochs": partial(of_surprise, {}),
        "Surprise SVD, d = 16": partial(of_surprise, {"n_factors": 16}),
        "Surprise SVD, d = 48, our epochs, rate and decay": partial(of_surprise, as_ours(LARGE)),
        "Surprise SVD, d = 256 and the same": partial(of_surprise, as_ours(BIG)),
        "`dpsgd-mf` without privacy, d = 16, 50 epochs, 1 trial": partial(of_ours, SMALL, 1),
        "`dpsgd-mf` without privacy, d = 48, 50 epochs, 1 trial": partial(of_ours, LARGE, 1),
        "the same, 16 trials at once": partial(of_ours, LARGE, 16),
        "`dpsgd-mf` without privacy, d = 256, 50 epochs, 1 trial": partial(of_ours, BIG, 1),
    }
    head = ["", *(f"u{number}" for number in SPLITS), "mean", "s"]
    rows = [head, ["---"] * len(head)]
    for name, train in trainers.items():
        train(folds[0])  # compiles and warms up
        clock = time.process_time()
        errors = [train(fold) for fold in folds]
        seconds = (time.process_time() - clock) / len(folds)
        numbers = [*(f"{error:.4f}" for error in errors), f"{np.mean(errors):.4f}"]
        rows.append([name, *numbers, f"{seconds:.2f}"])
    table = "\n".join(map(row, rows))
    return (
        f"{table}\n\nRoot mean squared error of each division, and seconds of one core for one "
        f"training with its test. Surprise {surprise.__version__}, random_state = {SEED}.\n"
    )


def of_ours(defense: SgdFactors, trials: int, fold: Fold) -> float:
    """Return the rmse of our factorisation on a fold, a mean over trials."""
    models = defense.train(defense.prepare(fold.train), Streams.first(SEED, "peers", trials))
    away = models.predict(fold.users, fold.items).astype(np.float64) - fold.values
    return float(np.sqrt((away**2).mean(1)).mean())


def of_surprise(parameters: dict[str, float], fold: Fold) -> float:
    """Return the rmse of Surprise's SVD on a fold."""
    known = fold.train
    frame = pd.DataFrame({"user": known.user, "item": known.item, "rating": known.value})
    reader = surprise.Reader(rating_scale=(known.scale.minimum, known.scale.maximum))
    rows = surprise.Dataset.load_from_df(frame, reader).build_full_trainset()
    model = surprise.SVD(random_state=SEED, **parameters).fit(rows)
    pairs = zip(fold.users.tolist(), fold.items.tolist(), strict=True)
    shown = np.array([model.predict(user, item).est for user, item in pairs])
    return float(np.sqrt(((shown - fold.values) ** 2).mean()))


def as_ours(defense: SgdFactors) -> dict[str, float]:
    """Return our parameters under Surprise's names."""
    return {
        "n_factors": defense.dimensions,
        "n_epochs": defense.epochs,
        "lr_all": defense.learning_rate,
        "reg_all": defense.decay,
        "init_std_dev": defense.spread,
    }
