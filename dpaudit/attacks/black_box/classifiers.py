"""Models of the log-odds of two trials given encoded outputs, for a score learned from outputs.

Equal outputs get equal log-odds, however they are batched: sums run column by column, never through
BLAS, whose rounding depends on a row's place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box import leaves
from dpaudit.attacks.black_box.encoding import Table
from dpaudit.attacks.black_box.features import Columns, Feature, climb
from dpaudit.attacks.black_box.logistic import fit_logistic

Vector = NDArray[np.float64]
Labels = NDArray[np.int64]
Single = NDArray[np.float32]

# A value of a feature with this share has a term of its own; at most so many a feature.
_ATOM_SHARE, _ATOMS = 0.005, 12
# Knots of an additive model: at most so many a feature, and terms in all.
_KNOTS, _TERMS = 9, 240
# Rows by which knots are placed, and those of one block of a fit.
_PLACED, _BLOCK = 100_000, 32_768
# Entries of a design that is computed once, at most; of a larger one, in every pass.
_HELD = 100_000_000
# Rows that trees are grown on, at most.
_GROWN = 100_000


class Model(Protocol):
    """The log-odds of data set D' row by row."""

    def log_odds(self, table: Table) -> Vector:
        """One finite number a row; equal rows have equal ones."""
        ...


@dataclass(frozen=True)
class Sample:
    """Encoded outputs with the trial of each: 1 for D'.

    Attributes:
        table: the outputs.
        labels: 0 for data set D, 1 for data set D' `(n,)`.
        atoms: values that occur often.
    """

    table: Table
    labels: Labels
    atoms: Vector

    def thinned(self, most: int) -> Sample:
        """Return the first rows, which are in random order: so many of them at most."""
        rows = slice(0, most)
        return Sample(self.table.take(rows), self.labels[rows], self.atoms)

    @property
    def columns(self) -> Columns:
        """Features of the outputs."""
        return Columns(self.table, self.atoms)


@dataclass(frozen=True)
class Term:
    """A function of one feature: of a value, or of what lies among the values with no term.

    Attributes:
        feature: the feature.
        value: the indicator of this value; if None, `climb` from one end to the other.
        ends: of the climb; None for the feature itself.
        marks: values at which the climb is 0.
    """

    feature: Feature
    value: float | None = None
    ends: tuple[float, float] | None = None
    marks: tuple[float, ...] = ()

    def of(self, column: Vector) -> Vector:
        """Return the term of each entry of the feature's column."""
        if self.value is not None:
            return (column == self.value).astype(np.float64)
        if self.ends is None:
            return column
        found = climb(column, *self.ends)
        return np.where(np.isin(column, self.marks), 0.0, found) if self.marks else found


@dataclass(frozen=True)
class Additive:
    """A sum of functions of one feature each.

    Attributes:
        atoms: values that occur often.
        terms: grouped by feature.
        weights: of each term `(T,)`.
        intercept: the log-odds where all terms are 0.
    """

    atoms: Vector
    terms: tuple[Term, ...]
    weights: Vector
    intercept: float

    def log_odds(self, table: Table) -> Vector:
        """The sum over all terms."""
        found = np.full(len(table), self.intercept)
        columns = Columns(table, self.atoms)
        for j, column in enumerate(_design(columns, self.terms)):
            found += self.weights[j] * column
        return found


def _design(columns: Columns, terms: Sequence[Term]) -> Iterator[Vector]:
    """Columns of the terms, one by one."""
    feature, column = None, np.empty(0)
    for term in terms:
        if term.feature != feature:
            feature, column = term.feature, columns.column(term.feature)
        yield term.of(column)


def terms_of(sample: Sample, features: Sequence[Feature]) -> tuple[Term, ...]:
    """Return indicators of each feature's frequent values, and climbs among the others.

    The log-ratio of two Laplace densities is such a sum: linear between the two centres and
    constant beyond them. Knots are quantiles at equal steps of the normal score.
    """
    from scipy.special import ndtr

    few = sample.thinned(_PLACED)
    found: list[Term] = []
    budget = _TERMS // max(1, len(features))
    for feature in features:
        column = few.columns.column(feature)
        values, counts = np.unique(column, return_counts=True)
        often = np.flatnonzero(counts >= max(_ATOM_SHARE * len(column), 3))
        often = often[np.argsort(-counts[often], kind="stable")]
        if len(values) <= _ATOMS + 1:
            found += [Term(feature, float(values[i])) for i in often[1:]]
            continue
        marks = tuple(sorted(float(values[i]) for i in often[:_ATOMS]))
        found += [Term(feature, mark) for mark in marks]
        knots = int(np.clip(budget - len(marks) + 1, 3, _KNOTS))
        free = column[~np.isin(column, marks)]
        if len(free):
            ends = np.unique(np.quantile(free, ndtr(np.linspace(-2.9, 2.9, knots))))
            found += [Term(feature, None, (float(a), float(b)), marks) for a, b in pairwise(ends)]
    return tuple(found)


def pooled_terms(sample: Sample) -> tuple[Term, ...]:
    """Return climbs that all leaves share: the sum of one function of every leaf."""
    from scipy.special import ndtr

    table = sample.thinned(_PLACED // max(1, sample.table.number.shape[1])).table
    free = (table.kind == leaves.FLOAT) | (table.kind == leaves.INTEGER)
    entries = table.number[free & ~np.isin(table.number, sample.atoms)]
    if sample.table.number.shape[1] < 2 or not len(entries):
        return ()
    ends = np.unique(np.quantile(entries, ndtr(np.linspace(-2.9, 2.9, 2 * _KNOTS))))
    return tuple(Term(Feature("climb", ends=(float(a), float(b)))) for a, b in pairwise(ends))


def fit_additive(
    sample: Sample, terms: Sequence[Term], penalties: Sequence[float]
) -> list[Additive]:
    """Logistic regression on terms, with a ridge penalty; one model a penalty, from the largest."""
    if not terms:
        return [Additive(sample.atoms, (), np.empty(0), 0.0) for _ in penalties]

    def blocks() -> Iterator[tuple[Single, Labels]]:
        for start in range(0, len(sample.labels), _BLOCK):
            rows = slice(start, start + _BLOCK)
            columns = Columns(sample.table.take(rows), sample.atoms)
            design = np.empty((len(terms), len(columns.table)), np.float32)
            for row, column in zip(design, _design(columns, terms), strict=True):
                row[:] = column
            yield design.T, sample.labels[rows]

    held = list(blocks()) if len(sample.labels) * len(terms) <= _HELD else None
    found = fit_logistic(blocks if held is None else held.__iter__, len(terms), penalties)
    return [Additive(sample.atoms, tuple(terms), each[1:], float(each[0])) for each in found]


@dataclass(frozen=True)
class Trees:
    """Boosted trees on features."""

    atoms: Vector
    features: tuple[Feature, ...]
    trees: Any

    def log_odds(self, table: Table) -> Vector:
        """The sum of the leaves of a row, tree by tree."""
        found: Vector = self.trees.decision_function(_stacked(table, self.atoms, self.features))
        return found


def _stacked(table: Table, atoms: Vector, features: Sequence[Feature]) -> Vector:
    columns = Columns(table, atoms)
    return np.column_stack([columns.column(feature) for feature in features])


def fit_trees(sample: Sample, features: Sequence[Feature], seed: int) -> Trees:
    """Gradient-boosted trees of log-loss (Friedman 2001, doi:10.1214/aos/1013203451).

    Leaves of less than half a percent of the outputs would follow their luck.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    few = sample.thinned(_GROWN)
    trees = HistGradientBoostingClassifier(
        max_iter=60,
        max_leaf_nodes=8,
        min_samples_leaf=max(5, len(few.labels) // 200),
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    )
    rows = _stacked(few.table, few.atoms, features)
    return Trees(few.atoms, tuple(features), trees.fit(rows, few.labels))


_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))


def row_keys(table: Table) -> NDArray[np.uint64]:
    """Return a hash of each row: rows of equal outputs have equal ones, others hardly ever."""
    found = np.zeros(len(table), np.uint64)
    parts = [table.form, table.skeleton, table.count, table.length]
    parts += [*table.kind.T, *table.low.T, *table.number.T, *table.characters.T]
    for part in parts:
        bits = part.view(np.uint64) if part.dtype.itemsize == 8 else part.astype(np.uint64)
        found = (found ^ bits) * _MIX[0]
        found = (found ^ (found >> np.uint64(29))) * _MIX[1]
        found ^= found >> np.uint64(32)
    return found


@dataclass(frozen=True)
class Frequencies:
    """The log-odds of rows that were seen; those of a smooth model for others.

    Attributes:
        keys: hashes of the rows that were seen, increasing `(K,)`.
        known: their log-odds `(K,)`.
        smooth: the model for others.
    """

    keys: NDArray[np.uint64]
    known: Vector
    smooth: Model

    def log_odds(self, table: Table) -> Vector:
        """Looked up, or else modelled."""
        keys = row_keys(table)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.known[at], self.smooth.log_odds(table))


def fit_frequencies(sample: Sample, smooth: Model, prior: float) -> Frequencies:
    """ln((n₁ + κm)/(n₀ + κ(1 − m))) for n₁ and n₀ occurrences of a row, m the smooth model's P.

    κ is the prior: how many outputs the smooth model's opinion is worth.
    """
    keys, first, codes = np.unique(row_keys(sample.table), return_index=True, return_inverse=True)
    present = np.bincount(codes, sample.labels, len(keys))
    absent = np.bincount(codes, 1 - sample.labels, len(keys))
    odds = np.exp(smooth.log_odds(sample.table.take(first)).clip(-30, 30))
    of_absent = prior / (1 + odds)
    known = np.log((present + of_absent * odds) / (absent + of_absent))
    return Frequencies(keys, known, smooth)


def fewer_than(sample: Sample, share: float) -> bool:
    """Return whether there are fewer distinct rows than this share of all."""
    keys = row_keys(sample.thinned(_PLACED).table)
    return len(np.unique(keys)) < share * len(keys)


Fitter = Callable[[Sample], Model]
