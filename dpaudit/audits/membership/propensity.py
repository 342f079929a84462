"""How likely a row is a member by features that the model never saw.

A logistic regression on cubic splines of each feature, products of two, and the logit of a boosted
forest of trees, which sees steps and interactions that these miss (stacking, Wolpert 1992,
doi:10.1016/S0893-6080(05)80023-1: in the fit, each third of the rows has the logit of a forest that
was fitted on the others).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.model_based.observational import Coefficients

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Basis = Callable[[Numbers], Numbers]

# The quantiles of a feature at which its cubic splines are joined; beyond they are linear.
_KNOTS = (0.02, 0.35, 0.65, 0.98)
# The fewest rows for each coefficient.
ROWS_FOR_EACH = 10
# Propensities of comparable rows, if there were as many members as non-members.
COMPARABLE = 0.05
# Folds of the forest, and the least chance that it gives.
_FOLDS, _SURE = 3, 0.02
# The variance of a coefficient beforehand: of columns of unit variance, so it hardly shrinks them.
_WIDE = 100.0


@dataclass(frozen=True, eq=False)
class Propensity:
    """A logistic regression on cubic splines of each feature and products of two.

    Attributes:
        basis: returns the basis functions at features `(n, F)` as `(n, p)`.
        odds: the coefficients of the logit.
        prior: the log-odds of a member among the rows that it is fitted on.
    """

    basis: Basis
    odds: Coefficients
    prior: float

    @classmethod
    def of(cls, features: Numbers, member: Mask, seed: int) -> Self:
        """Fit it.

        Args:
            features: the features `(n, F)`.
            member: who is a member `(n,)`; some are, and some are not.
            seed: of the forest.
        """
        from scipy.special import expit
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import StratifiedKFold, cross_val_predict

        smooth = basis_of(features)
        forest = HistGradientBoostingClassifier(max_iter=50, random_state=seed % 2**32)
        folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed % 2**32)
        others = cross_val_predict(forest, features, member, cv=folds, method="predict_proba")
        forest.fit(features, member)

        def basis(rows: Numbers) -> Numbers:
            return np.column_stack((smooth(rows), _logit(forest.predict_proba(rows))))

        x = np.column_stack((smooth(features), _logit(others)))
        fit = LogisticRegression(C=_WIDE, fit_intercept=False, max_iter=1000).fit(x, member)
        value = fit.coef_[0]
        chances = expit(x @ value)
        information = (x * (chances * (1 - chances))[:, None]).T @ x
        covariance = np.linalg.inv(information + np.eye(len(value)) / _WIDE)
        share = member.mean()
        prior = float(np.log(share / (1 - share)))
        return cls(basis, Coefficients(value, covariance), prior)

    def comparable(self, features: Numbers) -> Mask:
        """Return which rows could be members or not: neither is nearly sure by the features."""
        away = self.basis(features) @ self.odds.value - self.prior
        most: Mask = np.abs(away) <= np.log(1 / COMPARABLE - 1)
        return most

    def draws(self, features: Numbers, count: int, rng: np.random.Generator) -> Numbers:
        """Return propensities by coefficients drawn around the estimated ones `(count, n)`."""
        from scipy.special import expit

        root = np.linalg.cholesky(self.odds.covariance)
        drawn = self.odds.value + rng.standard_normal((count, len(root))) @ root.T
        chances: Numbers = expit(drawn @ self.basis(features).T)
        return chances


def _logit(chances: Numbers) -> Numbers:
    """Return the log-odds of the second of two classes, within those of sureness."""
    from scipy.special import logit

    odds: Numbers = logit(np.clip(chances[:, 1], _SURE, 1 - _SURE))
    return odds


def basis_of(features: Numbers) -> Basis:
    """Return the basis for features `(n, F)`: 1, splines of each, and products of two."""
    from sklearn.preprocessing import SplineTransformer

    varied = np.ptp(features, axis=0) > 0
    center, width = features[:, varied].mean(0), features[:, varied].std(0)
    splines = []
    for column in ((features[:, varied] - center) / width).T:
        knots = np.unique(np.quantile(column, _KNOTS))
        if len(knots) < 2:
            knots = np.array([column.min(), column.max()])
        degree = 3 if len(knots) == len(_KNOTS) else 1
        spline = SplineTransformer(
            degree=degree, knots=knots[:, None], extrapolation="linear", include_bias=False
        )
        splines.append(spline.fit(column[:, None]))

    def basis(rows: Numbers) -> Numbers:
        columns = ((rows[:, varied] - center) / width).T
        parts = [np.ones((len(rows), 1))]
        parts += [
            spline.transform(column[:, None])
            for spline, column in zip(splines, columns, strict=True)
        ]
        parts += [(one * other)[:, None] for one, other in combinations(columns, 2)]
        return np.concatenate(parts, axis=1)

    return basis
