"""Membership inference on one trained model, corrected for how its members differ from others.

Rows are divided in halves at random. Each half fits propensities (`propensity`) for the other.

- **AUC and TPR.** A member is kept with a probability in proportion to 1 − e(x), a non-member to
  e(x). What is kept of both has one law of features, f(x) e(x) (1 − e(x)) (the overlap weights of
  Li, Morgan & Zaslavsky 2018, doi:10.1080/01621459.2016.1260466), so an attack that reads features
  alone is at chance there. The propensities are drawn around the estimated ones several times, and
  the interval is from the least lower to the largest upper end: it has their error too.
- **ε.** One half chooses between the score and what the features leave of it, and the numbers of
  guesses; the other half is guessed, and `observational_epsilon` bounds how many guesses are right.
- **Refused** is what the propensities cannot carry: too few comparable rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.membership import planted
from dpaudit.audits.membership.propensity import COMPARABLE, ROWS_FOR_EACH, Propensity, basis_of
from dpaudit.audits.membership.rates import least_absent
from dpaudit.bounds.frequentist.roc import clustered_auc, rate_of
from dpaudit.bounds.model_based.observational import observational_epsilon
from dpaudit.core.estimate import Estimate
from dpaudit.core.rounding import percent
from dpaudit.core.streams import generator
from dpaudit.record.result import Control, Noise

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]

# How often the propensities are drawn.
_DRAWS = 20
# The fewest members, and non-members, that are kept.
LEAST_KEPT = 100
# The least share of rows that are comparable.
LEAST_COMPARABLE = 0.5
# Shares of the rows to guess, at either end of the scores.
_SHARES = (0.5, 0.25, 0.125, 0.0625)
_FEWEST_GUESSES = 8
# By how much the level is stricter at which a number of guesses is chosen.
_STRICTER = 10
# The size of the leak that is planted to see whether it would be found.
_PLANTED = 2.0


@dataclass(frozen=True)
class Corrected:
    """What is left of an attack once the features are accounted for.

    Attributes:
        comparable: the share of the rows whose features do not almost decide who is a member.
        kept: how many members and non-members are compared, mean over draws.
        refused: why nothing is corrected; None if it is.
        auc: corrected AUC; None if it is refused.
        tpr: corrected true-positive rates by false-positive rate; None with too few non-members.
        epsilon: the certified lower bound on ε; None if it is refused.
        planted: what the same bound certifies of a leak of twice the largest ε allowed that is
            planted in place of the scores; None without a largest one.
    """

    comparable: float
    kept: tuple[int, int]
    refused: str | None = None
    auc: Estimate | None = None
    tpr: Mapping[float, Estimate | None] | None = None
    epsilon: Estimate | None = None
    planted: Control | None = None


@dataclass(frozen=True, eq=False)
class _Half:
    """Rows that are judged, with propensities that others fit; all of them are comparable.

    Attributes:
        fitted: the propensities.
        fit: the comparable rows that they are fitted on, in random order.
        rows: the comparable rows that are judged, likewise.
    """

    fitted: Propensity
    fit: Rows
    rows: Rows


@dataclass(frozen=True, eq=False)
class Observed:
    """Scores and features of members and non-members, in random order.

    Attributes:
        scores: the attack's scores `(n,)`.
        member: who is a member `(n,)`.
        features: what the model never saw `(n, F)`.
        seed: of the draws.
        alpha: the level of each interval.
    """

    scores: Numbers
    member: Mask
    features: Numbers
    seed: int
    alpha: float

    def corrected(self, rates: Sequence[float], at_most: float | None = None) -> Corrected:
        """Correct the attack for the features.

        Args:
            rates: false-positive rates.
            at_most: the largest ε allowed, to see whether more would be found.
        """
        n, middle = len(self.member), len(self.member) // 2
        size = basis_of(self.features)(self.features[:1]).shape[1]
        if middle < ROWS_FOR_EACH * size:
            return Corrected(
                0.0,
                (0, 0),
                f"{n} rows are too few for the {size} coefficients of {self.features.shape[1]} "
                f"features: give {2 * ROWS_FOR_EACH * size} rows, or fewer features",
            )
        parts = np.arange(middle), np.arange(middle, n)
        fewest = min(int((self.member[part] == kind).sum()) for part in parts for kind in (0, 1))
        if 2 * fewest < LEAST_KEPT:
            few = min(int(self.member.sum()), int((~self.member).sum()))
            return Corrected(
                0.0,
                (0, 0),
                f"{few} members or others are too few to tell how the two differ: give more than "
                f"{LEAST_KEPT} of each",
            )
        halves = [self._half(*parts), self._half(*parts[::-1])]
        comparable = sum(len(half.rows) for half in halves) / n
        draws = list(self._kept(halves))
        members = [int(self.member[kept].sum()) for kept in draws]
        kept = (
            int(np.mean(members)),
            int(np.mean([len(d) - m for d, m in zip(draws, members, strict=True)])),
        )
        reason = self._refused(halves, comparable, kept)
        if reason:
            return Corrected(comparable, kept, reason)
        epsilon = self._certified(halves[0], self.scores)
        mutant = None if at_most is None else self._planted(halves[0], at_most)
        return Corrected(
            comparable,
            kept,
            auc=_envelope([self._area(rows) for rows in draws]),
            tpr={rate: self._rate(draws, rate) for rate in rates},
            epsilon=epsilon,
            planted=mutant,
        )

    def _half(self, fit: Rows, rows: Rows) -> _Half:
        fitted = Propensity.of(self.features[fit], self.member[fit], self.seed)
        able, known = (part[fitted.comparable(self.features[part])] for part in (rows, fit))
        return _Half(fitted, known, able)

    def _refused(
        self, halves: Sequence[_Half], comparable: float, kept: tuple[int, int]
    ) -> str | None:
        if comparable < LEAST_COMPARABLE or min(kept) < LEAST_KEPT:
            return (
                f"by the features {percent(1 - comparable)} of the rows almost surely are members, "
                f"or are none (propensity outside {COMPARABLE:g} to {1 - COMPARABLE:g}), and "
                f"{kept[0]} of the members can be compared with {kept[1]} of the others: give "
                f"members and others that are more alike, at least {percent(LEAST_COMPARABLE)} of "
                f"them and {LEAST_KEPT} of each"
            )
        return None

    def _kept(self, halves: Sequence[_Half]) -> Iterator[Rows]:
        """Yield the rows that are kept at each draw of the propensities."""
        rng = generator(self.seed, "membership propensities")
        able = [half for half in halves if len(half.rows)]
        chances = [half.fitted.draws(self.features[half.rows], _DRAWS, rng) for half in able]
        for number in range(_DRAWS):
            rows = [np.arange(0)]
            for half, drawn in zip(able, chances, strict=True):
                one = drawn[number]
                share = np.where(
                    self.member[half.rows], (1 - one) / (1 - one).max(), one / one.max()
                )
                rows.append(half.rows[rng.random(len(one)) < share])
            yield np.concatenate(rows)

    def _area(self, rows: Rows) -> Estimate:
        area = clustered_auc(
            self.scores[rows], self.member[rows], np.arange(len(rows)), alpha=self.alpha
        )
        return area.changed(method="auc of comparable rows, envelope over propensities")

    def _rate(self, draws: Sequence[Rows], rate: float) -> Estimate | None:
        fewest = min(int((~self.member[rows]).sum()) for rows in draws)
        if fewest < 2 * least_absent(rate):
            return None
        of = partial(rate_of, rate=rate, alpha=self.alpha, seed=self.seed)
        estimates = [of(self.scores[rows], self.member[rows]) for rows in draws]
        return _envelope(estimates).changed(
            method="rate of comparable rows at the threshold of the others, envelope over "
            "propensities"
        )

    def _planted(self, half: _Half, at_most: float) -> Control:
        """Certify scores that show every membership through noise."""
        epsilon = _PLANTED * at_most

        def of_mutant(noise: Noise, run: int) -> float:
            rng = generator((self.seed, run), f"membership planted {noise}")
            return self._certified(half, planted.shown(noise, epsilon, 0.0, self.member, rng)).lower

        return planted.control(of_mutant, planted.laws(0.0), epsilon, 0.0, at_most, at_most)

    def _certified(self, half: _Half, scores: Numbers) -> Estimate:
        """Certify ε by guesses on the judged rows that the others choose."""
        basis = half.fitted.basis(self.features)
        weights = np.linalg.lstsq(basis[half.fit], scores[half.fit], rcond=None)[0]
        ties = generator(self.seed, "membership ties").random(len(scores))

        def bound(rows: Rows, choice: tuple[Numbers, float, float], alpha: float) -> Estimate:
            values, low, high = choice
            order = rows[np.lexsort((ties[rows], values[rows]))]
            out, into = int(low * len(rows)), int(high * len(rows))
            picked = np.concatenate((order[:out], order[len(order) - into :]))
            guessed = np.arange(out + into) >= out
            return observational_epsilon(
                basis[picked], guessed, self.member[picked], half.fitted.odds, alpha=alpha
            )

        def promise(choice: tuple[Numbers, float, float]) -> tuple[float, float]:
            # Few guesses that happen to be right promise less at a stricter level.
            estimate = bound(half.fit, choice, self.alpha / _STRICTER)
            return estimate.lower, estimate.value

        choices = [
            (values, low, share)
            for values in (scores, scores - basis @ weights)
            for share in _SHARES
            if share * len(half.fit) >= _FEWEST_GUESSES
            for low in (share, 0.0)
        ]
        return bound(half.rows, max(choices, key=promise), self.alpha)


def _envelope(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean, from the least lower to the largest upper end."""
    return estimates[0].changed(
        value=float(np.mean([one.value for one in estimates])),
        lower=min(one.lower for one in estimates),
        upper=max(one.upper for one in estimates),
    )
