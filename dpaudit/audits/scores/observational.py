"""Membership inference on one trained model, corrected for how its members differ from others.

Members are paired with others that are alike by the features, at random and without regard to
scores. All rows that are in pairs have one law of features on either side, so an attack that reads
features alone is at chance there.

- **Equal pairs** have equal features. They need no model of who is a member, and ε is certified
  (`one_run.paired_epsilon`).
- **Near pairs** are made where equal ones are few: rows whose propensities, fitted on the other
  half of the rows, are nearly equal (Rosenbaum & Rubin 1983, doi:10.1093/biomet/70.1.41). Nothing
  says how wrong a fitted propensity is, so near pairs are a sensitivity analysis: by what factor Γ
  the odds within a pair have to differ to explain the scores without a leak (Rosenbaum 2002, ch. 4;
  Tan 2006, doi:10.1198/016214506000000023). Numbers need a Γ that the user names.
- **Refused** is what pairs cannot carry: too few of them, or near ones in which a learner of
  another kind still tells the member by the features, with larger odds than Γ.

**Features.** Rows with equal features are alike whatever a feature means. Rows with nearly equal
ones are alike only by a model of what it means, and a code of a category or a time of day is no
quantity. So whole numbers of few values are asked about, and are not taken for quantities.

**Γ for rates.** Let the odds of being a member differ by a factor of at most Γ between rows of one
stratum, those that are paired with each other. Weighted to the members' law of what the features
leave out, a share a of the others of a stratum becomes one with odds between 1/Γ and Γ times those
of a. a/(a + Γ (1 − a)) is convex in a and Γ a/(1 − a + Γ a) concave, so by Jensen's inequality the
same holds for all strata together: for the AUC, and for the false-positive rate of a threshold.

**Propensities.** A logistic regression on cubic splines of each quantity, products of two, an
indicator of each code, and the logit of a boosted forest of trees, which sees steps and
interactions that these miss (stacking, Wolpert 1992, doi:10.1016/S0893-6080(05)80023-1: in the fit,
each third of the rows has the logit of a forest that was fitted on the others). No form holds
everything: `rivals` are learners of other kinds, which may see what this one misses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.membership.calibration import noise_laws, planted, planted_control
from dpaudit.bounds.frequentist.one_run import paired_epsilon
from dpaudit.bounds.frequentist.roc import clustered_auc, least_absent, rate_of
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate, Kind
from dpaudit.core.messages import show
from dpaudit.core.rounding import at_least
from dpaudit.core.streams import generator
from dpaudit.record.values import Control, Noise

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]

# What a feature is: a quantity; a code; seconds since 1970, of which the hour, the weekday and the
# trend may matter; or what says which rows are members only together, such as the user.
FeatureKind = Literal["number", "category", "time", "group"]
KINDS: tuple[FeatureKind, ...] = get_args(FeatureKind)
# Whole numbers of up to so many values may be codes; of two values they are.
_MOST_CODES = 50
_HOUR, _DAY = 3600, 86400

Basis = Callable[[Numbers], Numbers]
# The member and the other of each pair, `(k, 2)`.
RowPairs = NDArray[np.int64]

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
# The factor Γ of equal pairs if none is named: nobody's coin is fair to the last digit.
WITHIN = 1.1
# The fewest pairs that say something.
LEAST_PAIRS = 100
# By how much fitted log-odds of near pairs differ at most.
_WIDTH = 0.1
# A leak is planted to see whether one of this size would be found.
PLANTED = 2.0


@dataclass(frozen=True, eq=False)
class Features:
    """Features of rows.

    Attributes:
        values: finite numbers `(n, F)`.
        kinds: what each column is, where it is said.
    """

    values: Numbers
    kinds: Mapping[int, FeatureKind]

    def __post_init__(self) -> None:
        """Refuse kinds of columns that are not there, and kinds that are none."""
        width = self.values.shape[1]
        for column, kind in self.kinds.items():
            if column not in range(width) or kind not in KINDS:
                raise InputError(
                    f"kinds holds {show(column)}: {show(kind)}, and features have the columns 0 to "
                    f"{width - 1}: name a column, and one of {', '.join(KINDS)}"
                )
        if all(self.kinds.get(column) == "group" for column in range(width)):
            raise InputError("all features are groups: give one that tells members from others")

    def of(self, rows: Rows) -> Self:
        """Return the features of some rows."""
        return type(self)(self.values[rows], self.kinds)

    def alone(self) -> Rows:
        """Return the first row of each group, in their order; all rows without groups."""
        groups = [k for k, kind in self.kinds.items() if kind == "group"]
        if not groups:
            return np.arange(len(self.values))
        return np.sort(np.unique(self.values[:, groups], axis=0, return_index=True)[1])

    def equal(self) -> Rows:
        """Return a number for each row, the same for rows with equal features `(n,)`."""
        kept = [k for k in range(self.values.shape[1]) if self.kinds.get(k) != "group"]
        # -0.0 is 0.0.
        numbers: Rows = np.unique(self.values[:, kept] + 0.0, axis=0, return_inverse=True)[1]
        return numbers.reshape(-1)

    def unsaid(self) -> str | None:
        """Return a question about the first column that may hold quantities or codes."""
        for column, values in enumerate(self.values.T):
            distinct = np.unique(values)
            codes = 2 < len(distinct) <= _MOST_CODES and (distinct == np.floor(distinct)).all()
            if column not in self.kinds and codes:
                return (
                    f"column {column} (counted from 0) of the features holds {len(distinct)} whole "
                    "numbers: name its kind, number or category"
                )
        return None

    def columns(self) -> tuple[Numbers, Mask]:
        """Return the columns that a learner reads `(n, C)`, and which of them are codes `(C,)`."""
        columns, codes = zip(*self._columns(), strict=True)
        return np.column_stack(columns), np.array(codes)

    def _columns(self) -> Iterator[tuple[Numbers, bool]]:
        for column, values in enumerate(self.values.T):
            kind = self.kinds.get(column)
            if kind == "time":
                yield values // _HOUR % 24, True
                yield values // _DAY % 7, True
            if kind != "group":
                yield values, kind == "category"


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
    return np.column_stack((basis(asked), _logit(of_forest))) @ fit.coef_[0]


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

    return logit(np.clip(chances[:, 1], _SURE, 1 - _SURE))


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


@dataclass(frozen=True)
class Corrected:
    """What is left of an attack once the features are accounted for.

    Attributes:
        pairs: how many members are paired with another each.
        equal: whether the features in a pair are equal.
        gamma: the factor Γ by which the odds within a pair may differ; `WITHIN` for equal pairs if
            none is named, None if nothing is corrected.
        explains: the Γ that explains the scores without a leak: none below it does; None without
            pairs.
        refused: why nothing is corrected; None if it is.
        auc: corrected AUC; None if it is refused.
        tpr: corrected true-positive rates by false-positive rate; None with too few pairs.
        epsilon: the lower bound on ε, certified of equal pairs; None if it is refused.
        planted: what the same bound says of a leak with `PLANTED` times the largest ε allowed that
            is planted in place of the scores; None without a largest one.
    """

    pairs: int
    equal: bool = False
    gamma: float | None = None
    explains: float | None = None
    refused: str | None = None
    auc: Estimate | None = None
    tpr: Mapping[float, Estimate | None] | None = None
    epsilon: Estimate | None = None
    planted: Control | None = None

    @property
    def condition(self) -> str:
        """What every number rests on, as nothing that was measured tests it."""
        if self.gamma is None:
            return "if the features hold all by which members and others differ"
        alike = "equal features" if self.equal else "nearly equal propensities"
        return (
            f"if the odds of being a member differ by a factor of at most {self.gamma:g} between "
            f"rows with {alike}"
        )


@dataclass(frozen=True, eq=False)
class Observed:
    """Scores and features of members and non-members, in random order.

    Attributes:
        scores: the attack's scores `(n,)`.
        member: who is a member `(n,)`.
        features: what the model never saw.
        seed: of the draws.
        alpha: the level of each interval.
        gamma: the factor Γ that is named; None if none is.
    """

    scores: Numbers
    member: Mask
    features: Features
    seed: int
    alpha: float
    gamma: float | None = None

    def corrected(self, rates: Sequence[float], at_most: float | None = None) -> Corrected:
        """Correct the attack for the features.

        Args:
            rates: false-positive rates.
            at_most: the largest ε allowed, to see whether more would be found.
        """
        pairs = paired(self.features.equal(), self.member)
        if len(pairs) >= LEAST_PAIRS:
            return self._compared(pairs, self.gamma or WITHIN, rates, at_most, equal=True)
        few = (
            f"{len(pairs)} pairs of a member and another have equal features, and {LEAST_PAIRS} "
            "are needed; "
        )
        near = self._near()
        if isinstance(near, str):
            return Corrected(len(pairs), refused=few + near)
        if self.gamma is None:
            explains = self._explains(near)
            return Corrected(
                len(near),
                explains=explains,
                refused=f"{few}{len(near)} have nearly equal propensities, and odds that differ by "
                f"a factor of {at_least(explains, 2)} within these explain their scores without a "
                "leak: name the factor gamma by which the odds may differ",
            )
        return self._compared(near, self.gamma, rates, at_most, equal=False)

    def _compared(
        self,
        pairs: RowPairs,
        gamma: float,
        rates: Sequence[float],
        at_most: float | None,
        *,
        equal: bool,
    ) -> Corrected:
        kind: Kind = "frequentist" if equal else "assumes-law"

        def bound(scores: Numbers) -> Estimate:
            epsilon = paired_epsilon(*scores[pairs.T], gamma=gamma, alpha=self.alpha)
            return epsilon.changed(kind=kind)

        return Corrected(
            len(pairs),
            equal,
            gamma,
            self._explains(pairs),
            auc=self._area(pairs, gamma),
            tpr={rate: self._rate(pairs, rate, gamma) for rate in rates},
            epsilon=bound(self.scores),
            planted=None if at_most is None else self._planted(bound, at_most),
        )

    def _explains(self, pairs: RowPairs) -> float:
        """Return the least Γ at which these pairs say nothing: e^(2 ε) for the bound at Γ = 1."""
        return math.exp(2 * paired_epsilon(*self.scores[pairs.T], alpha=self.alpha).lower)

    def _area(self, pairs: RowPairs, gamma: float) -> Estimate:
        rows = pairs.reshape(-1)
        scores, member = self.scores[rows], self.member[rows]
        area = clustered_auc(scores, member, np.arange(len(rows)), alpha=self.alpha)
        return area.changed(
            lower=_with_odds(area.lower, 1 / gamma),
            upper=_with_odds(area.upper, gamma),
            method=f"auc of rows in pairs, odds {gamma:g}",
        )

    def _rate(self, pairs: RowPairs, rate: float, gamma: float) -> Estimate | None:
        least, most = (_with_odds(rate, odds) for odds in (1 / gamma, gamma))
        if len(pairs) < 2 * least_absent(least):
            return None
        rows = pairs.reshape(-1)
        low, middle, high = (
            rate_of(self.scores[rows], self.member[rows], at, self.alpha, self.seed)
            for at in (least, rate, most)
        )
        return middle.changed(
            lower=low.lower, upper=high.upper, method=f"rate of rows in pairs, odds {gamma:g}"
        )

    def _planted(self, bound: Callable[[Numbers], Estimate], at_most: float) -> Control:
        """Bound ε of scores that show every membership through noise."""
        epsilon = PLANTED * at_most

        def of_mutant(noise: Noise, run: int) -> float:
            rng = generator((self.seed, run), f"membership planted {noise}")
            return bound(planted(noise, epsilon, 0.0, self.member, rng)).lower

        return planted_control(of_mutant, noise_laws(0.0), epsilon, 0.0, at_most, at_most)

    def _near(self) -> RowPairs | str:
        """Return pairs of rows with nearly equal propensities, or why there are none."""
        if question := self.features.unsaid():
            return question
        columns, codes = self.features.columns()
        n, size = len(columns), basis_of(columns, codes)(columns[:1]).shape[1]
        if n // 2 < ROWS_FOR_EACH * size:
            return (
                f"{n} rows are too few for the {size} coefficients of propensities: give "
                f"{2 * ROWS_FOR_EACH * size} rows, or fewer features"
            )
        fewest = min(int(self.member.sum()), int((~self.member).sum()))
        if fewest < LEAST_PAIRS:
            return f"give {LEAST_PAIRS} members and others, instead of {fewest}"
        first = np.arange(n) < n // 2
        strata, blind = np.empty(n, np.int64), np.empty((RIVALS, n))
        for judged in (first, ~first):
            fit, of, asked = columns[~judged], self.member[~judged], columns[judged]
            odds = log_odds(fit, codes, of, asked, self.seed)
            strata[judged] = np.floor(odds / _WIDTH)
            blind[:, judged] = list(rivals(fit, of, asked, self.seed))
        pairs = paired(2 * strata + first, self.member)
        if len(pairs) < LEAST_PAIRS:
            return (
                f"{len(pairs)} have nearly equal propensities: give members and others that are "
                "more alike"
            )
        return self._told(pairs, blind, first[pairs[:, 0]]) or pairs

    def _told(self, pairs: RowPairs, blind: Numbers, first: Mask) -> str | None:
        """Say if a rival tells the members in near pairs by the features, with odds above Γ.

        Args:
            pairs: the pairs.
            blind: what each rival gives each row, fitted on the other half `(RIVALS, n)`.
            first: which pairs are in the first half.
        """
        gamma, level = self.gamma or 1.0, self.alpha / (2 * RIVALS)
        largest = max(
            paired_epsilon(*told[of.T], gamma=gamma, alpha=level).lower
            for of in (pairs[first], pairs[~first])
            for told in blind
            if len(of)
        )
        if largest == 0:
            return None
        return (
            f"{len(pairs)} have nearly equal propensities, and in these a learner of another kind "
            f"tells the member by the features alone, with odds of "
            f"{at_least(gamma * math.exp(2 * largest), 2)} or more: name the kind of each feature, "
            "give features that are equal in more rows, or a larger gamma"
        )


def paired(strata: Rows, member: Mask) -> RowPairs:
    """Pair members with others of the same stratum, each in the order of the rows `(k, 2)`.

    In random order that is a random pairing.

    Args:
        strata: the stratum of each row `(n,)`.
        member: who is a member `(n,)`.
    """
    numbers = np.unique(strata, return_inverse=True)[1]

    def places(which: Mask) -> tuple[Rows, Rows]:
        rows = np.flatnonzero(which)
        rows = rows[np.argsort(numbers[rows], kind="stable")]
        of = numbers[rows]
        # The place of a row among those of its stratum.
        return rows, of * len(member) + np.arange(len(rows)) - np.searchsorted(of, of)

    (members, into), (others, out) = places(member), places(~member)
    _, first, second = np.intersect1d(into, out, assume_unique=True, return_indices=True)
    return np.column_stack((members[first], others[second]))


def _with_odds(share: float, factor: float) -> float:
    """Return the share whose odds are those of another times a factor."""
    # a Γ / (1 − a + a Γ)
    return share * factor / (1 - share + share * factor)
