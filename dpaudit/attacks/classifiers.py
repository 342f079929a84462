"""Models of the log-odds of two worlds given rows of entries, for a score learned from outputs.

A row holds the entries of an output, padded by infinity, and their number. Equal rows get equal
log-odds, however they are batched: sums run entry by entry, never through BLAS, whose rounding
depends on a row's place.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
# Rows of worlds D and of worlds D'.
Worlds = tuple[Matrix, Matrix]

# A value that makes up this share of all entries is an atom, e.g. the mark of "no answer".
_ATOM_SHARE, _ATOMS = 0.01, 8
# Knots of an additive model: at most so many a feature, and segments in all.
_KNOTS, _SEGMENTS = 9, 150
# How many outputs the smooth model's opinion of an atom is worth.
_PRIOR = 10.0


class Model(Protocol):
    """The log-odds of world D' row by row."""

    def log_odds(self, rows: Matrix) -> Vector:
        """One finite number a row; equal rows have equal ones."""
        ...


Fitter = Callable[[Worlds], Model]


def keys(rows: Matrix) -> list[bytes]:
    """The bytes of each row."""
    return [row.tobytes() for row in rows]


def common_values(rows: Matrix) -> Vector:
    """The values that are at least 1 % of all finite entries: the 8 most frequent, sorted."""
    entries = rows[:, :-1]
    values, counts = np.unique(entries[np.isfinite(entries)], return_counts=True)
    often = np.flatnonzero(counts >= _ATOM_SHARE * counts.sum())
    return np.sort(values[often[np.argsort(-counts[often], kind="stable")[:_ATOMS]]])


def features(rows: Matrix, atoms: Vector) -> Matrix:
    """What a violation may show in `(n, F)`.

    The entries and their number; differences of neighbouring entries (the noise of a running sum);
    the number of entries that equal each atom, and of neighbours that are equal; the least, the
    largest and the sum of the entries that are no atoms. What does not exist is 0.
    """
    padded, number = rows[:, :-1], rows[:, -1:]
    entries = np.where(np.isfinite(padded), padded, 0.0)
    if entries.shape[1] < 2:
        return np.hstack((entries, number))
    free = np.isfinite(padded) & ~np.isin(padded, atoms)
    steps = np.where(free[:, 1:] & free[:, :-1], np.diff(entries, axis=1), 0.0)
    counts = [(padded == atom).sum(1) for atom in atoms]
    equal = ((padded[:, 1:] == padded[:, :-1]) & np.isfinite(padded[:, 1:])).sum(1)
    some = free.any(1)
    least = np.where(some, np.where(free, entries, np.inf).min(1), 0.0)
    largest = np.where(some, np.where(free, entries, -np.inf).max(1), 0.0)
    total = np.zeros(len(rows))
    for entry in np.where(free, entries, 0.0).T:
        total = total + entry
    summary = np.column_stack((*counts, equal, least, largest, total))
    return np.hstack((entries, number, steps, summary))


@dataclass(frozen=True)
class Additive:
    """A sum of functions of one feature each: linear between knots, constant beyond them.

    Attributes:
        atoms: see `features`.
        segments: of each segment the feature, its two ends, and the rise along it.
        intercept: the log-odds below all knots.
    """

    atoms: Vector
    segments: tuple[tuple[int, float, float, float], ...]
    intercept: float

    def log_odds(self, rows: Matrix) -> Vector:
        """The sum over all segments."""
        found = np.full(len(rows), self.intercept)
        columns = features(rows, self.atoms)
        for feature, start, end, rise in self.segments:
            found += rise * _climb(columns[:, feature], start, end)
        return found


def _climb(values: Vector, start: float, end: float) -> Vector:
    """0 up to the start, 1 from the end on."""
    return np.clip((values - start) / (end - start), 0.0, 1.0)


def fit_additive(worlds: Worlds, inverse_penalty: float) -> Additive:
    """Logistic regression on piecewise linear functions of each feature, with an L2 penalty.

    The log-ratio of two Laplace densities is of this form: linear between the two centres and
    constant beyond them. Knots are quantiles at equal steps of the normal score.
    """
    from scipy.special import ndtr
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    rows, labels = _labelled(worlds)
    atoms = common_values(rows)
    columns = features(rows, atoms)
    varying = np.flatnonzero((columns != columns[0]).any(0))
    knots = int(np.clip(_SEGMENTS // max(1, len(varying)), 3, _KNOTS))
    levels = ndtr(np.linspace(-2.9, 2.9, knots))
    places = [
        (int(j), float(start), float(end))
        for j in varying
        for ends in (np.unique(np.quantile(columns[:, j], levels)),)
        for start, end in pairwise(ends)
    ]
    if not places:
        return Additive(atoms, (), 0.0)
    basis = np.column_stack([_climb(columns[:, j], start, end) for j, start, end in places])
    model = LogisticRegression(C=inverse_penalty, max_iter=200)
    with warnings.catch_warnings():
        # A model short of its optimum is still a score.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(basis, labels)
    segments = tuple((*place, float(w)) for place, w in zip(places, model.coef_[0], strict=True))
    return Additive(atoms, segments, float(model.intercept_[0]))


@dataclass(frozen=True)
class Trees:
    """Boosted trees on the features."""

    atoms: Vector
    trees: Any

    def log_odds(self, rows: Matrix) -> Vector:
        """The sum of the leaves of a row, tree by tree."""
        return self.trees.decision_function(features(rows, self.atoms))


def fit_trees(worlds: Worlds, seed: int) -> Trees:
    """Gradient-boosted trees of log-loss (Friedman 2001, doi:10.1214/aos/1013203451).

    Leaves of less than half a percent of the outputs would follow their luck.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows, labels = _labelled(worlds)
    atoms = common_values(rows)
    trees = HistGradientBoostingClassifier(
        max_iter=60,
        max_leaf_nodes=8,
        min_samples_leaf=max(5, len(rows) // 200),
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    )
    return Trees(atoms, trees.fit(features(rows, atoms), labels))


@dataclass(frozen=True)
class Frequencies:
    """The log-odds of rows that were seen; those of a smooth model for others."""

    known: dict[bytes, float]
    smooth: Model

    def log_odds(self, rows: Matrix) -> Vector:
        """Looked up, or else modelled."""
        found = self.smooth.log_odds(rows)
        for i, key in enumerate(keys(rows)):
            found[i] = self.known.get(key, found[i])
        return found


def fit_frequencies(worlds: Worlds, smooth: Fitter) -> Frequencies:
    """ln((n₁ + κm)/(n₀ + κ(1 − m))) for n₁ and n₀ occurrences of a row, m the smooth model's P."""
    base = smooth(worlds)
    counts = [Counter(keys(rows)) for rows in worlds]
    rows = np.unique(np.concatenate(worlds), axis=0)
    known = keys(rows)
    absent, present = (np.array([count[key] for key in known], np.float64) for count in counts)
    odds = np.exp(base.log_odds(rows).clip(-30, 30))
    prior = _PRIOR / (1 + odds)
    log_odds = np.log((present + prior * odds) / (absent + prior))
    return Frequencies(dict(zip(known, log_odds.tolist(), strict=True)), base)


def _labelled(worlds: Worlds) -> tuple[Matrix, NDArray[np.int64]]:
    """All rows, and 1 for those of world D'."""
    return np.concatenate(worlds), np.repeat([0, 1], [len(rows) for rows in worlds])
