"""Models of the log-odds of D' against D given encoded outputs, for a score learned from outputs.

Equal outputs get equal log-odds in any batch: sums run column by column and never use BLAS, whose
rounding depends on a row's position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box import leaves
from dpaudit.attacks.black_box.encoding import EncodedOutputs
from dpaudit.attacks.black_box.features import Feature, FeatureColumns, Labels, Vector, climb

Single = NDArray[np.float32]
# Blocks of the rows of the design matrix, in single precision, and their labels.
Blocks = Callable[[], Iterator[tuple[Single, Labels]]]
# The share of outputs above which a feature's value has its own term, and the most such terms.
_ATOM_SHARE, _ATOMS = 0.005, 12
# The most knots per feature of an additive model, and the approximate total number of terms.
_KNOTS, _TERMS = 9, 240
# The number of rows that determine knots, and the number of rows of a block of a fit.
_PLACED, _BLOCK = 100_000, 32_768
# The most entries of a design matrix that is stored; a larger one is recomputed in every pass.
_HELD = 100_000_000
# The most rows that trees are fitted to.
_GROWN = 100_000
# The most Newton steps per penalty, and the decrease of the loss per row that ends them.
_STEPS, _ENOUGH = 6, 1e-7
# The most blocks used for the Hessian, which need only be approximate.
_CURVED = 4
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))


class OddsModel(Protocol):
    """A model of the log-odds of data set D' for each row."""

    def log_odds(self, table: EncodedOutputs) -> Vector:
        """Return one finite number per row, equal for equal rows."""


@dataclass(frozen=True)
class LabelledOutputs:
    """Encoded outputs, labelled by data set.

    Attributes:
        table: the outputs.
        labels: 0 for data set D, 1 for data set D' `(n,)`.
        atoms: frequent values.
    """

    table: EncodedOutputs
    labels: Labels
    atoms: Vector

    def thinned(self, most: int) -> LabelledOutputs:
        """Return at most the first `most` rows; rows are in random order."""
        rows = slice(0, most)
        return LabelledOutputs(self.table.take(rows), self.labels[rows], self.atoms)

    @property
    def columns(self) -> FeatureColumns:
        """Feature columns of the outputs."""
        return FeatureColumns(self.table, self.atoms)


Fitter = Callable[[LabelledOutputs], OddsModel]


@dataclass(frozen=True)
class Term:
    """A function of one feature: the indicator of a value, or a ramp.

    Attributes:
        feature: the feature.
        value: the term is the indicator of this value; if None, it is the ramp `climb`.
        ends: start and end of the ramp; None for the feature itself.
        marks: values with a term of their own, at which the ramp is 0.
    """

    feature: Feature
    value: float | None = None
    ends: tuple[float, float] | None = None
    marks: tuple[float, ...] = ()

    def of(self, column: Vector) -> Vector:
        """Evaluate the term on the feature's column."""
        if self.value is not None:
            return (column == self.value).astype(np.float64)
        if self.ends is None:
            return column
        ramp = climb(column, *self.ends)
        return np.where(np.isin(column, self.marks), 0.0, ramp) if self.marks else ramp


@dataclass(frozen=True)
class Additive:
    """A sum of functions of one feature each.

    Attributes:
        atoms: frequent values.
        terms: the terms, grouped by feature.
        weights: the weight of each term `(T,)`.
        intercept: the log-odds where all terms are 0.
    """

    atoms: Vector
    terms: tuple[Term, ...]
    weights: Vector
    intercept: float

    def log_odds(self, table: EncodedOutputs) -> Vector:
        """Return the intercept plus the weighted sum of all terms."""
        total = np.full(len(table), self.intercept)
        columns = FeatureColumns(table, self.atoms)
        for j, column in enumerate(_design(columns, self.terms)):
            total += self.weights[j] * column
        return total


def _design(columns: FeatureColumns, terms: Sequence[Term]) -> Iterator[Vector]:
    """Yield the column of each term."""
    feature, column = None, np.empty(0)
    for term in terms:
        if term.feature != feature:
            feature, column = term.feature, columns.column(term.feature)
        yield term.of(column)


def terms_of(sample: LabelledOutputs, features: Sequence[Feature]) -> tuple[Term, ...]:
    """Return indicators of each feature's frequent values, and ramps for the other values.

    The log-ratio of two Laplace densities is such a sum: linear between the two centres and
    constant outside. Knots are quantiles at equally spaced normal scores.
    """
    from scipy.special import ndtr

    few = sample.thinned(_PLACED)
    terms: list[Term] = []
    budget = _TERMS // max(1, len(features))
    for feature in features:
        column = few.columns.column(feature)
        values, counts = np.unique(column, return_counts=True)
        often = np.flatnonzero(counts >= max(_ATOM_SHARE * len(column), 3))
        often = often[np.argsort(-counts[often], kind="stable")]
        if len(values) <= _ATOMS + 1:
            terms += [Term(feature, float(values[i])) for i in often[1:]]
            continue
        marks = tuple(sorted(float(values[i]) for i in often[:_ATOMS]))
        terms += [Term(feature, mark) for mark in marks]
        knots = int(np.clip(budget - len(marks) + 1, 3, _KNOTS))
        free = column[~np.isin(column, marks)]
        if len(free):
            ends = np.unique(np.quantile(free, ndtr(np.linspace(-2.9, 2.9, knots))))
            terms += [Term(feature, None, (float(a), float(b)), marks) for a, b in pairwise(ends)]
    return tuple(terms)


def pooled_terms(sample: LabelledOutputs) -> tuple[Term, ...]:
    """Return ramps with one weight for all leaves: sums of the same ramp over every leaf."""
    from scipy.special import ndtr

    table = sample.thinned(_PLACED // max(1, sample.table.number.shape[1])).table
    free = (table.kind == leaves.FLOAT) | (table.kind == leaves.INTEGER)
    entries = table.number[free & ~np.isin(table.number, sample.atoms)]
    if sample.table.number.shape[1] < 2 or not len(entries):
        return ()
    ends = np.unique(np.quantile(entries, ndtr(np.linspace(-2.9, 2.9, 2 * _KNOTS))))
    return tuple(Term(Feature("climb", ends=(float(a), float(b)))) for a, b in pairwise(ends))


def fit_additive(
    sample: LabelledOutputs, terms: Sequence[Term], penalties: Sequence[float]
) -> list[Additive]:
    """Fit logistic regressions on terms, one for each ridge penalty, in decreasing order."""
    if not terms:
        return [Additive(sample.atoms, (), np.empty(0), 0.0) for _ in penalties]

    def blocks() -> Iterator[tuple[Single, Labels]]:
        for start in range(0, len(sample.labels), _BLOCK):
            rows = slice(start, start + _BLOCK)
            columns = FeatureColumns(sample.table.take(rows), sample.atoms)
            design = np.empty((len(terms), len(columns.table)), np.float32)
            for row, column in zip(design, _design(columns, terms), strict=True):
                row[:] = column
            yield design.T, sample.labels[rows]

    held = list(blocks()) if len(sample.labels) * len(terms) <= _HELD else None
    solutions = fit_logistic(blocks if held is None else held.__iter__, len(terms), penalties)
    return [
        Additive(sample.atoms, tuple(terms), solution[1:], float(solution[0]))
        for solution in solutions
    ]


def fit_logistic(blocks: Blocks, width: int, penalties: Sequence[float]) -> list[Vector]:
    """Return the intercept and the weights for each penalty; penalties must decrease.

    Minimises Σ ln(1 + e^(−y·z)) + ½ penalty · ‖weights‖² with y = ±1 and z the log-odds; the
    intercept is not penalised. A step is H⁻¹g with H = XᵀWX + penalty and W = p(1 − p); it is
    halved while the loss rises. H is estimated from the first blocks, so rows should be in random
    order. Each solution starts the fit for the next smaller penalty.
    """
    at = np.zeros(width + 1)
    solutions = []
    for penalty in penalties:
        ridge = np.r_[1e-9, np.full(width, penalty)]
        best: tuple[float, Vector] = np.inf, at
        step = np.zeros_like(at)
        for _ in range(_STEPS):
            loss, gradient, hessian, rows = _derivatives(blocks, at)
            loss += 0.5 * float(ridge @ at**2)
            if loss > best[0]:
                step = step / 2
                at = best[1] + step
                continue
            done = best[0] - loss < _ENOUGH * rows
            best = loss, at
            if done:
                break
            gradient = gradient - ridge * at
            step = np.linalg.solve(hessian + np.diag(ridge), gradient)
            step *= min(1.0, 10.0 / max(float(np.abs(step).max()), 1e-300))
            at = at + step
        at = best[1]
        solutions.append(at)
    return solutions


def _derivatives(blocks: Blocks, at: Vector) -> tuple[float, Vector, Vector, int]:
    """Return the loss, the gradient of its negative, the Hessian and the number of rows."""
    from scipy.special import expit

    loss, rows, curved = 0.0, 0, 0
    gradient, hessian = np.zeros_like(at), np.zeros((len(at), len(at)))
    for i, (block, labels) in enumerate(blocks()):
        log_odds = at[0] + block @ at[1:].astype(np.float32)
        share = expit(log_odds)
        loss += float(np.logaddexp(0, np.where(labels == 1, -log_odds, log_odds)).sum())
        excess, weight = labels - share, share * (1 - share)
        gradient += np.r_[excess.sum(), excess.astype(np.float32) @ block]
        rows += len(labels)
        if i < _CURVED:
            curved = rows
            weighted = block * weight[:, None].astype(np.float32)
            hessian[0, 0] += weight.sum()
            hessian[0, 1:] += weighted.sum(0)
            hessian[1:, 1:] += weighted.T @ block
    hessian[1:, 0] = hessian[0, 1:]
    return loss, gradient, hessian * (rows / curved), rows


@dataclass(frozen=True)
class Trees:
    """Boosted trees on features."""

    atoms: Vector
    features: tuple[Feature, ...]
    trees: Any

    def log_odds(self, table: EncodedOutputs) -> Vector:
        """Return the sum over all trees for each row."""
        return self.trees.decision_function(_stacked(table, self.atoms, self.features))


def _stacked(table: EncodedOutputs, atoms: Vector, features: Sequence[Feature]) -> Vector:
    columns = FeatureColumns(table, atoms)
    return np.column_stack([columns.column(feature) for feature in features])


def fit_trees(sample: LabelledOutputs, features: Sequence[Feature], seed: int) -> Trees:
    """Fit gradient-boosted trees to the log-loss (Friedman 2001, doi:10.1214/aos/1013203451).

    Tree leaves hold at least half a percent of the outputs, to avoid overfitting.
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


def row_keys(table: EncodedOutputs) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row; equal outputs have equal hashes."""
    keys = np.zeros(len(table), np.uint64)
    parts = [table.form, table.skeleton, table.count, table.length]
    parts += [*table.kind.T, *table.low.T, *table.number.T, *table.characters.T]
    for part in parts:
        bits = part.view(np.uint64) if part.dtype.itemsize == 8 else part.astype(np.uint64)
        keys = (keys ^ bits) * _MIX[0]
        keys = (keys ^ (keys >> np.uint64(29))) * _MIX[1]
        keys ^= keys >> np.uint64(32)
    return keys


@dataclass(frozen=True)
class Frequencies:
    """Log-odds of rows that occurred in training, and of a smooth model for all others.

    Attributes:
        keys: hashes of the training rows, increasing `(K,)`.
        known: their log-odds `(K,)`.
        smooth: the model for other rows.
    """

    keys: NDArray[np.uint64]
    known: Vector
    smooth: OddsModel

    def log_odds(self, table: EncodedOutputs) -> Vector:
        """Return the stored log-odds of known rows, else those of the smooth model."""
        keys = row_keys(table)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.known[at], self.smooth.log_odds(table))


def fit_frequencies(sample: LabelledOutputs, smooth: OddsModel, prior: float) -> Frequencies:
    """Estimate the log-odds of each distinct row as ln((n₁ + κm)/(n₀ + κ(1 − m))).

    n₁ and n₀ are the row's counts in D' and D, m is the smooth model's probability of D', and κ is
    the prior, the weight of m in pseudo-counts.
    """
    keys, first, codes = np.unique(row_keys(sample.table), return_index=True, return_inverse=True)
    present = np.bincount(codes, sample.labels, len(keys))
    absent = np.bincount(codes, 1 - sample.labels, len(keys))
    odds = np.exp(smooth.log_odds(sample.table.take(first)).clip(-30, 30))
    of_absent = prior / (1 + odds)
    return Frequencies(keys, np.log((present + of_absent * odds) / (absent + of_absent)), smooth)


def fewer_than(sample: LabelledOutputs, share: float) -> bool:
    """Whether the number of distinct rows is less than this share of all rows."""
    keys = row_keys(sample.thinned(_PLACED).table)
    return len(np.unique(keys)) < share * len(keys)
