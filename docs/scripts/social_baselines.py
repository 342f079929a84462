"""What `make_social` shows beside the examples.

Predictions without a model, trainings with the paper's settings, friends' similarity, and errors
round by round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import social_words as words
import social_words_lists as lists
from numpy.typing import NDArray
from social_numbers import Metric, Numbers, Point, name
from social_verdicts import PAPERS, Places

from dpaudit.attacks.reconstruction import RankingReconstruction, Reconstruction
from dpaudit.auditor.trainings import most_popular, precision_and_recall
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.audits.trained.subject import Grids, guess_means, mean_errors, scores_of
from dpaudit.core.errors import RunError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold, random_folds
from dpaudit.data.ratings import Friends, Ratings
from dpaudit.data.readers.load import load as read
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.defenses.social.ranking import PrivSRRanking
from dpaudit.defenses.social.rows import friends_similarity
from dpaudit.defenses.social.training import SocialTraining
from dpaudit.record.bases import BEYOND_MEANS
from dpaudit.reports.table import NONE, Table
from dpaudit.reports.words import measured

Array = NDArray[np.float64]

# γ, λ and d of section 7.1. The start, the rounds, and the triples of a round are not said: these
# are the defaults, but fewer rounds of lists.
_PAPER: dict[str, Any] = {"learning_rate": 1e-4, "decay": 1e-3, "dimensions": 10}
ROUNDS = {"ratings": 400, "lists": 100}
_FREE: dict[str, Any] = {"epsilon": math.inf, "variant": "nonprivate"}
_RIDGE = {"recover": Reconstruction(), "list": RankingReconstruction(most=100)}
# That of the examples.
_SEED = 1
# Ratings that a mean is shrunk by, of users and of items.
_SHRUNK = (8, 3)
# Figure 5.
_ROUNDS = (10, 30, 100, 300)


def rating_systems() -> dict[Point, PrivSR]:
    """Return the systems of Figures 6 to 9 with the paper's settings."""
    found = {
        words.MF: _rating({**_FREE, "social": 0.0}),
        words.SOREG: _rating(_FREE),
        words.DPMF: _rating({"epsilon": 0.1, "noise_kind": "equal", "social": 0.0}),
    }
    return found | {at: _rating({"epsilon": at[1]}) for at in (words.LOW, words.EQUAL, words.FULL)}


def swept_systems() -> dict[Point, PrivSR]:
    """Return the points of Figures 10 and 11 with the paper's settings."""
    points = dict.fromkeys([*words.SWEEP, *reversed(words.BETAS)])
    return {
        at: _rating({"epsilon": at[1], "beta": float(at[0].removeprefix("β = "))}) for at in points
    }


def list_systems() -> dict[Point, PrivSRRanking]:
    """Return the systems of Figures 12 and 13 with the paper's settings."""
    own = {
        lists.BPR: {**_FREE, "social": False},
        lists.SBPR: _FREE,
        lists.RANKING: {"epsilon": 0.1},
    }
    return {at: PrivSRRanking(**_PAPER, **each, rounds=ROUNDS["lists"]) for at, each in own.items()}


def _rating(own: Mapping[str, Any]) -> PrivSR:
    return PrivSR(**_PAPER, **own, rounds=ROUNDS["ratings"])


def scored(systems: Mapping[Point, Any], fold: Fold) -> list[list[str]]:
    """Train each system once on a fold; return its scores on test ratings and of an attack.

    Returns:
        Rows: the name, two scores on test ratings, and two of what is recovered.
    """
    kept = fold.train.kept_private
    cells = []
    for point, defense in systems.items():
        attack = _RIDGE["list" if defense.ranks else "recover"]
        scores = scores_of(defense, 5)
        probes = [scores.tested(fold)]
        if kept.any():
            probes.append(scores.recovered(attack, fold.train, [kept]))
        try:
            models = defense.train(defense.prepare(fold.train), Streams.first(_SEED, "fold/0", 1))
        except RunError:
            cells.append([name(point), "diverges", *[NONE] * 3])
        else:
            numbers = [measured(float(each)) for probe in probes for each in probe(models)[0][:2]]
            cells.append([name(point), *numbers, *[NONE] * (4 - len(numbers))])
    return cells


@dataclass(frozen=True)
class Papers:
    """Scores of systems with the paper's settings.

    Attributes:
        cells: what `scored` returned.
        rated: whether they are errors; else hits of lists.
        points: the systems; empty if they are not compared.
    """

    cells: list[list[str]]
    rated: bool
    points: Sequence[Point] = ()

    def table(self, figures: str) -> Table:
        """Show the scores."""
        kinds = ("rmse", "mae") if self.rated else ("precision@5", "recall@5")
        return Table(
            f"{figures} with the paper's γ = 1e-4, λ = 1e-3, α = 1e-2, d = 10, from a normal "
            f"start, {ROUNDS['ratings' if self.rated else 'lists']} rounds, on the first fold",
            ["model", *kinds, *(f"{kind} of what is recovered" for kind in kinds)],
            self.cells,
        )

    @property
    def by_category(self) -> Places:
        """Return the scores of lists by what is sensitive, which names each row."""
        metrics = (*lists.HITS, *lists.TAKEN)
        values = {place: map(float, row) for place, *row in self.cells if NONE not in row}
        return {
            place: Numbers(
                {
                    metric: _exact({lists.RANKING: value})
                    for metric, value in zip(metrics, row, strict=True)
                }
            )
            for place, row in values.items()
        }

    @property
    def places(self) -> Places:
        """Return the scores as numbers without intervals, at the share that they are of."""
        named = {name(point): point for point in self.points}
        rows = {named[row[0]]: row[1:] for row in self.cells if NONE not in row}
        against = words.DPMF if self.rated else lists.BPR
        by: dict[Metric, dict[Point, Estimate]] = {}
        for place, kind in enumerate(("rmse", "mae") if self.rated else ("precision", "recall")):
            useful = {point: float(row[place]) for point, row in rows.items()}
            # All are compared with the same item means, or with the same most popular items.
            sign = -1 if self.rated else 1
            by[f"utility.{kind}", None] = _exact(useful)
            by[f"reconstruction.{kind}", BEYOND_MEANS] = _exact(
                {point: sign * float(row[place + 2]) for point, row in rows.items()}
            )
            if against in useful:
                by["utility.difference", kind] = _exact(
                    {point: value - useful[against] for point, value in useful.items()}
                )
        return {PAPERS: Numbers(by, against=name(against))}


def _exact(values: Mapping[Point, float]) -> dict[Point, Estimate]:
    method = "one training on one fold"
    return {point: Estimate.exact(value, method) for point, value in values.items()}


def tested_folds(config: TrainedConfig, ratings: Ratings) -> list[Fold]:
    """Return the folds of an example without the test ratings that chose from its grids."""
    train = config.training
    folds = random_folds(ratings, train.folds, config.seed)[: train.evaluate_folds]
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
    guesses = {
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
        for name, guess in guesses.items()
    ]
    return Table(
        "Without a model: errors on test ratings, mean over folds", ["", "rmse", "mae"], cells
    )


def similarities(configs: Mapping[float, TrainedConfig]) -> Table:
    """Figure 4: friends' similarity from all ratings and from those that are not sensitive."""
    cells = []
    for share, config in configs.items():
        ratings = read(config.data)
        whole, shared = (
            friends_similarity(each, friends(ratings)) for each in (ratings, ratings.shared)
        )
        alike = whole > 0
        lost = alike & (shared == 0)
        away = abs(shared - whole)[alike & ~lost]
        cells.append(
            [
                f"{100 * share:.0f} %",
                f"{100 * alike.mean():.1f} %",
                f"{100 * lost.sum() / max(alike.sum(), 1):.1f} %",
                *(f"{value:.4f}" for value in (away.mean(), np.quantile(away, 0.95))),
            ]
        )
    return Table(
        "Cosine of friends from all ratings, and from those that are not sensitive",
        [
            "x",
            "links whose ends rated something both",
            "of these nothing both is left",
            "mean difference of the others",
            "95 % of them differ by at most",
        ],
        cells,
    )


def by_rounds(which: str, defense: PrivSR, fold: Fold) -> Table:
    """Figure 5: quantiles of absolute errors on test ratings after some rounds."""
    rows = defense.prepare(fold.train)
    training = SocialTraining(defense, rows, Streams.first(_SEED, "fold/0", 1))
    levels = (0.25, 0.5, 0.75, 0.9)
    cells, means = [], []
    for rounds in _ROUNDS:
        while training.done < rounds:
            training.run_round()
        shown = training.models().predict(fold.users, fold.items)[0]
        away = abs(shown.astype(np.float64) - fold.values)
        quantiles = [measured(float(each)) for each in np.quantile(away, levels)]
        means.append(float(away.mean()))
        cells.append([str(rounds), *quantiles, measured(means[-1])])
    lowest = _ROUNDS[int(np.argmin(means))]
    return Table(
        f"Absolute errors of PrivSR {which}, ε = 0.1, x = 10 %, after so many rounds of the rate "
        f"{defense.learning_rate:g}",
        ["rounds", *(f"{100 * level:.0f} % are at most" for level in levels), "mean"],
        cells,
        note=f"The mean is lowest after {lowest} rounds.",
    )


def friends(ratings: Ratings) -> Friends:
    """Return the links between users; none if the data have none."""
    return ratings.friends or Friends.none(ratings.n_users)


def _errors(guess: Array, fold: Fold) -> Array:
    scale = fold.train.scale
    return mean_errors(np.clip(guess, scale.minimum, scale.maximum)[None], fold.values)[0]


def _biases(fold: Fold, by_user: float, by_item: float) -> Array:
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


def _shrunk(places: NDArray[np.int32], values: Array, count: int, by: float) -> Array:
    return np.asarray(
        np.bincount(places, values, count) / (np.bincount(places, minlength=count) + by)
    )


def _popular(fold: Fold) -> list[float]:
    users = np.unique(fold.users)
    lists = most_popular(fold.train, users, 5)[None]
    hits = precision_and_recall(lists, users, fold.users, fold.items)
    return [float(each[0]) for each in hits]
