"""How likely a row is a member by features that the model never saw.

A logistic regression on cubic splines of each quantity, products of two, an indicator of each code,
and the logit of a boosted forest of trees, which sees steps and interactions that these miss
(stacking, Wolpert 1992, doi:10.1016/S0893-6080(05)80023-1: in the fit, each third of the rows has
the logit of a forest that was fitted on the others). No form holds everything: `rivals` are
learners of other kinds, which may see what this one misses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Basis = Callable[[Numbers], Numbers]

# The quantiles of a feature at which its cubic splines are joined; beyond they are linear.
_KNOTS = (0.02, 0.35, 0.65, 0.98)
# The fewest rows for each coefficient.
ROWS_FOR_EACH = 10
# Folds of the forest, and the least chance that it gives.
_FOLDS, _SURE = 3, 0.02
# The variance of a coefficient beforehand: of columns of unit variance, so it hardly shrinks them.
_WIDE = 100.0
# The least rows in a leaf, and the nearest ones that vote, of learners that see fine structure.
_LEAF, _NEAREST = 5, 15
RIVALS = 2


def log_odds(columns: Numbers, codes: Mask, member: Mask, asked: Numbers, seed: int) -> Numbers:
    """Return the logits of fitted propensities of the rows that are asked for `(k,)`.

    Args:
        columns: what is known of the rows to fit on `(n, C)`.
        codes: which columns are codes of categories `(C,)`.
        member: who is a member `(n,)`; some are, and some are not.
        asked: what is known of the rows asked for `(k, C)`.
        seed: of the forest.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    basis = basis_of(columns, codes)
    forest = HistGradientBoostingClassifier(max_iter=50, random_state=seed % 2**32)
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed % 2**32)
    others = cross_val_predict(forest, columns, member, cv=folds, method="predict_proba")
    of_forest = forest.fit(columns, member).predict_proba(asked)
    fit = LogisticRegression(C=_WIDE, fit_intercept=False, max_iter=1000)
    fit.fit(np.column_stack((basis(columns), _logit(others))), member)
    odds: Numbers = np.column_stack((basis(asked), _logit(of_forest))) @ fit.coef_[0]
    return odds


def rivals(columns: Numbers, member: Mask, asked: Numbers, seed: int) -> Iterator[Numbers]:
    """Yield chances by learners of other kinds: a forest of deep trees, and nearest rows `(k,)`.

    Args:
        columns: what is known of the rows to fit on `(n, C)`.
        member: who is a member `(n,)`.
        asked: what is known of the rows asked for `(k, C)`.
        seed: of the forest.
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    deep = RandomForestClassifier(min_samples_leaf=_LEAF, random_state=seed % 2**32)
    nearest = make_pipeline(StandardScaler(), KNeighborsClassifier(_NEAREST))
    for learner in (deep, nearest):
        yield learner.fit(columns, member).predict_proba(asked)[:, 1]


def _logit(chances: Numbers) -> Numbers:
    """Return the log-odds of the second of two classes, within those of sureness."""
    from scipy.special import logit

    odds: Numbers = logit(np.clip(chances[:, 1], _SURE, 1 - _SURE))
    return odds


def basis_of(columns: Numbers, codes: Mask) -> Basis:
    """Return the basis for columns `(n, C)`: 1, splines, products of two, indicators of codes."""
    from sklearn.preprocessing import SplineTransformer

    varied = (np.ptp(columns, axis=0) > 0) & ~codes
    center, width = columns[:, varied].mean(0), columns[:, varied].std(0)
    # The indicators of all values but the first have no sum that is constant.
    levels = [(k, np.unique(columns[:, k])[1:]) for k in np.flatnonzero(codes)]
    splines = []
    for column in ((columns[:, varied] - center) / width).T:
        knots = np.unique(np.quantile(column, _KNOTS))
        if len(knots) < 2:
            knots = np.array([column.min(), column.max()])
        degree = 3 if len(knots) == len(_KNOTS) else 1
        spline = SplineTransformer(
            degree=degree, knots=knots[:, None], extrapolation="linear", include_bias=False
        )
        splines.append(spline.fit(column[:, None]))

    def basis(rows: Numbers) -> Numbers:
        quantities = ((rows[:, varied] - center) / width).T
        parts = [np.ones((len(rows), 1))]
        parts += [
            spline.transform(column[:, None])
            for spline, column in zip(splines, quantities, strict=True)
        ]
        parts += [(one * other)[:, None] for one, other in combinations(quantities, 2)]
        parts += [np.equal.outer(rows[:, k], values).astype(np.float64) for k, values in levels]
        return np.concatenate(parts, axis=1)

    return basis
