"""Baselines of PrivSR in `make_social`: predictions without a model, and the paper's settings."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.reconstruction.rankings import guess_popular
from dpaudit.attacks.reconstruction.ratings import guess_means
from dpaudit.auditor.trained.errors import mean_errors
from dpaudit.auditor.trained.grids import Grids
from dpaudit.auditor.trained.top_lists import precision_and_recall
from dpaudit.config.schema import Config
from dpaudit.core.errors import RunError
from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold, random_folds
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.reports.table import Table
from dpaudit.reports.words import measured

Numbers = NDArray[np.float64]

# γ, λ, α and d of section 7.1; its number of rounds and its start are not said.
_PAPER = {"learning_rate": 1e-4, "decay": 1e-3, "dimensions": 10, "rounds": 400}
_SYSTEMS = {
    "MF": {"epsilon": math.inf, "variant": "nonprivate", "social": 0.0},
    "SoReg": {"epsilon": math.inf, "variant": "nonprivate", "social": 0.01},
    "DPMF, ε = 0.1": {"epsilon": 0.1, "noise_kind": "equal", "social": 0.0},
    "PrivSR, ε = 0.1": {"epsilon": 0.1, "social": 0.01},
}
# Ratings that a mean is shrunk by, of users and of items.
_SHRUNK = (8, 3)


def tested_folds(config: Config, ratings: Ratings) -> list[Fold]:
    """Return the folds of an example without the test ratings that chose from its grids."""
    folds = random_folds(ratings, config.training.folds, config.seed)
    return Grids(config, folds[0]).untouched(folds)


def without_model(folds: list[Fold]) -> Table:
    """Errors of predictions without a model, or hits of the most popular items, over folds."""
    if not folds[0].train.scale.width:
        hits = np.mean([_popular(fold) for fold in folds], axis=0)
        return Table(
            "Without a model: lists of test items, mean over folds",
            ["", "precision@5", "recall@5"],
            [["the most popular items", *map(measured, map(float, hits))]],
        )
    found = {
        "the mean of all ratings": lambda fold: np.full(len(fold.values), fold.train.value.mean()),
        "items' means": lambda fold: guess_means(fold.train, fold.items),
        "means shrunk by item": lambda fold: _biases(fold, np.inf, _SHRUNK[1]),
        "means shrunk by user and item": lambda fold: _biases(fold, *_SHRUNK),
    }
    cells = [
        [
            name,
            *(
                measured(float(each))
                for each in np.mean([_errors(guess(fold), fold) for fold in folds], axis=0)
            ),
        ]
        for name, guess in found.items()
    ]
    return Table(
        "Without a model: errors on test ratings, mean over folds", ["", "rmse", "mae"], cells
    )


def as_the_paper(fold: Fold, seed: int) -> Table:
    """Errors on one fold with the settings that the paper states, from a normal start."""
    cells = []
    for name, own in _SYSTEMS.items():
        for offset in (0.0, round(float(fold.train.value.mean()), 1)):
            defense = PrivSR(**_PAPER, **own, offset=offset)
            streams = Streams.first(seed, "fold/0", 1)
            try:
                models = defense.train(defense.prepare(fold.train), streams)
            except RunError:
                shown = ["diverges", ""]
            else:
                guess = models.predict(fold.users, fold.items)[0]
                shown = [measured(float(each)) for each in _errors(guess, fold)]
            cells.append([name, f"{offset:g}", *shown])
    return Table(
        "With the paper's γ = 1e-4, λ = 1e-3, α = 1e-2 and d = 10, from a normal start, 400 "
        "rounds, on the first fold (offset 0 is the paper's)",
        ["model", "offset", "rmse", "mae"],
        cells,
    )


def _errors(guess: Numbers, fold: Fold) -> Numbers:
    scale = fold.train.scale
    return mean_errors(np.clip(guess, scale.minimum, scale.maximum)[None], fold.values)[0]


def _biases(fold: Fold, by_user: float, by_item: float) -> Numbers:
    """Predict by the mean plus users' and items' mean deviations, shrunk by so many ratings."""
    train = fold.train
    mean = float(train.value.mean())
    users, items = np.zeros(train.n_users), np.zeros(train.n_items)
    for _ in range(15):
        rest = train.value - mean - users[train.user]
        items = _shrunk(train.item, rest, train.n_items, by_item)
        rest = train.value - mean - items[train.item]
        users = _shrunk(train.user, rest, train.n_users, by_user)
    return np.asarray(mean + users[fold.users] + items[fold.items])


def _shrunk(places: NDArray[np.int32], values: Numbers, count: int, by: float) -> Numbers:
    return np.asarray(
        np.bincount(places, values, count) / (np.bincount(places, minlength=count) + by)
    )


def _popular(fold: Fold) -> list[float]:
    users = np.unique(fold.users)
    lists = guess_popular(fold.train, users, 5)[None]
    hits = precision_and_recall(lists, users, fold.users, fold.items)
    return [float(each[0]) for each in hits]
