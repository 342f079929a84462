"""The blind baseline of a coin game: what no model can tell has to be at chance.

Coins are fair and independent of each other, of the data, and of all other trainings. So numbers a
that do not depend on coins c of ±1 have a sum Σ a c of which Hoeffding's inequality says

    P(|Σ a c| ≥ t) ≤ 2 exp(−t²/(2 Σ a²)),

whatever a is (Hoeffding 1963, doi:10.1080/01621459.1963.10500830, Theorem 2), without any
assumption on models. Such numbers are

- the popularity of an item and the activity of a user, counted in all data with all targets;
- what one training shows, for the coins of another one. The mean of what others show of a target is
  taken off first, of all trainings but these two.

Where one of them tells coins, something is wrong with the audit: coins that depend on the data, a
training that starts from an earlier one, or trainings that were mixed up. With all baselines of an
audit together this happens at most once in 1/`ALPHA` audits without such a fault.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.membership.calibration import Trials
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.probes import Noticed
from dpaudit.core.estimate import Estimate
from dpaudit.core.membership import OBSERVERS, Observer, Unit

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]

# How often an audit without a fault is held up.
ALPHA = 1e-3


def level_of(points: int, units: int) -> float:
    """Return the level of each baseline: two by the data, and one for each observer.

    Args:
        points: the number of models, each ε counted.
        units: the number of units.
    """
    return ALPHA / (points * units * (2 + len(OBSERVERS)))


class Baseline(NamedTuple):
    """What tells coins without a model.

    Attributes:
        name: what it is.
        area: its AUC for the coins; 0.5 is chance.
        finding: what is noticed; None at chance.
    """

    name: str
    area: Estimate
    finding: Noticed | None


def of_data(design: Design, unit: Unit, present: Mask, alpha: float) -> Iterator[Baseline]:
    """Yield how well the popularity of items and the activity of users tell the coins.

    Args:
        design: the targets.
        unit: what a target is.
        present: the coins of all trainings `(T, m)`.
        alpha: the level of each.
    """
    data = design.ratings
    kept = np.ones(len(data), np.bool_)
    kept[design.held] = False
    popularity, activity = (
        np.bincount(of[kept], minlength=count).astype(np.float64)
        for of, count in ((data.item, data.n_items), (data.user, data.n_users))
    )
    if unit == "interaction":
        numbers = {
            "item popularity": popularity[data.item[design.rows]],
            "user activity": activity[data.user[design.rows]],
        }
    else:
        total = np.bincount(data.user[kept], popularity[data.item[kept]], minlength=data.n_users)
        numbers = {
            "item popularity": total[design.users] / np.maximum(activity[design.users], 1),
            "user activity": activity[design.users],
        }
    signs = np.where(present, 1.0, -1.0)
    for name, values in numbers.items():
        ranks = _ranks(values[None])
        size = math.sqrt(signs.size * len(signs) * float((ranks**2).sum()))
        correlation = float((signs * ranks).sum()) / size if size > 0 else 0.0
        area = _area(correlation, present.size, alpha)
        yield Baseline(name, area, _off(name, unit, area) if _is_off(area) else None)


def of_other_trainings(
    trials: Trials, unit: Unit, observer: Observer, alpha: float
) -> Baseline | None:
    """Return how well a training tells the coins of another one, for the pair that tells most.

    Args:
        trials: what the first feature of the targets is in each training.
        unit: what a target is.
        observer: who observes the models.
        alpha: the level, shared by all pairs.

    Returns:
        The baseline; None with fewer than two trainings that end with a model.
    """
    ended = trials.ended
    if len(ended) < 2:
        return None
    correlations = _correlations(trials.features[ended, :, 0], trials.present[ended])
    first, other = np.unravel_index(int(np.abs(correlations).argmax()), correlations.shape)
    pairs = len(ended) * (len(ended) - 1)
    area = _area(float(correlations[first, other]), trials.present.shape[1], alpha / pairs)
    name = "another training"
    if not _is_off(area):
        return Baseline(name, area, None)
    finding = Noticed(
        "blind",
        f"What observer {observer!r} sees of training {ended[first]} tells which {unit}s are in "
        f"training {ended[other]}, with AUC {_said(area)}, where 0.5 is chance.",
        "Let every training start from nothing, and return what it shows as that of its own data; "
        "until then no gate on this model is decided.",
        undecided=True,
    )
    return Baseline(name, area, finding)


def _correlations(values: Numbers, present: Mask) -> Numbers:
    """Return the correlation of what a training shows with the coins of another `(T, T)`.

    What training t shows, less the mean of all but t and s, does not depend on the coins of s. The
    diagonal is 0.
    """
    shown, signs = _ranks(values), np.where(present, 1.0, -1.0)
    weight = 1 / (len(shown) - 2) if len(shown) > 2 else 0.0
    total = shown.sum(0)
    with_signs = np.einsum("ti,si->ts", shown, signs)
    sums = (1 + weight) * with_signs
    sums -= weight * (np.einsum("i,si->s", total, signs) - with_signs.diagonal())
    products = np.einsum("ti,si->ts", shown, shown)
    lengths, with_total = products.diagonal(), np.einsum("i,ti->t", total, shown)
    squares = (1 + weight) ** 2 * lengths[:, None] + weight**2 * (
        float((total**2).sum()) - 2 * with_total + lengths
    )
    squares -= 2 * (1 + weight) * weight * (with_total[:, None] - products)
    # Trainings that show the same leave nothing but rounding.
    able = squares > 1e-9 * lengths.max(initial=1.0)
    np.fill_diagonal(able, False)
    size = np.sqrt(np.where(able, squares, 1.0) * signs.shape[1])
    correlations: Numbers = np.where(able, sums / size, 0.0)
    return correlations


def _ranks(values: Numbers) -> Numbers:
    """Return ranks within each row, around 0, equal ones alike `(T, m)`."""
    from scipy.stats import rankdata

    ranks: Numbers = rankdata(values, axis=1) - (values.shape[1] + 1) / 2
    return ranks


def _area(correlation: float, count: int, alpha: float) -> Estimate:
    """Return the AUC of evenly spaced ranks with a correlation with coins, and its interval.

    Args:
        correlation: Σ a c/√(n Σ a²), which is √(2 ln(2/α)/n) or more, or less than −1 times that,
            with a probability of at most α.
        count: the number n of coins.
        alpha: the level.
    """
    half = math.sqrt(2 * math.log(2 / alpha) / count)
    value, low, high = (
        min(max(0.5 + at / math.sqrt(3), 0.0), 1.0)
        for at in (correlation, correlation - half, correlation + half)
    )
    return Estimate(
        value=value,
        lower=low,
        upper=high,
        confidence=1 - ALPHA,
        alpha=alpha,
        n=count,
        method="ranks against fair coins, Hoeffding",
        kind="assumes-law",
    )


def _is_off(area: Estimate) -> bool:
    return not area.lower <= 0.5 <= area.upper


def _said(area: Estimate) -> str:
    return f"{area.value:.2f} [{area.lower:.2f}, {area.upper:.2f}]"


def _off(name: str, unit: Unit, area: Estimate) -> Noticed:
    return Noticed(
        "blind",
        f"{name.capitalize()} tells without any model which {unit}s are in the trainings, with AUC "
        f"{_said(area)}, where 0.5 is chance.",
        "The coins depend on the data, so nothing that guesses them shows what a model leaks: "
        "report it as a defect of dpaudit; until then no gate on this model is decided.",
        undecided=True,
    )
