"""Neighbouring data sets for the claims of Park & Acharya 2011.

Each is an instance of the paper's setting: ratings on the scale 1..5, or purchases, and at least
`T = 20` of them for every user, whether or not the user is shown predictions. User 0 is the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.data.neighbors import RatingAdded, RatingChange, RatingReplaced
from dpaudit.data.ratings import STARS, Scale, from_profiles
from dpaudit.defenses.base import PredictionPair
from dpaudit.defenses.item_item.recommender import ItemItem

_T, _CO_RATERS = 20, 11

MakePair = Callable[[ItemItem], PredictionPair]
Profiles = list[list[tuple[int, float]]]


def worst_pair(name: str, purchases: bool = False) -> Callable[[Any], Any]:
    """Return a function that builds the defense's own worst pair with this name.

    The pair is on stars, unless on `purchases`.
    """
    return lambda defense: defense.pair(name, Scale(1, 1, 1) if purchases else STARS)


def _rows(items: Sequence[int], rating: float) -> list[tuple[int, float]]:
    return [(item, rating) for item in items]


def _stars(
    profiles: Profiles, change: RatingChange, items: Sequence[int], summary: str
) -> PredictionPair:
    n_items = 1 + max(item for profile in profiles for item, _ in profile)
    n_items = max(n_items, 1 + max(items), 1 + change.item)
    ratings = from_profiles(profiles, n_items)
    return PredictionPair(ratings, change, target=0, items=tuple(items), summary=summary)


def above_threshold(_: ItemItem) -> PredictionPair:
    """Return a pair in which a twelfth co-rater changes similarities of −4 by 8/12."""
    rest = range(1, _T + 1)
    profiles = [_rows(rest, 3), _rows(rest, 1), *[[(0, 1.0), *_rows(rest, 5)]] * _CO_RATERS]
    return _stars(
        profiles,
        RatingAdded(user=1, item=0, value=5),
        (0,),
        f"{_CO_RATERS} users rate the predicted item lowest and the target's items highest; one "
        "more user, with opposite ratings, adds the one of the predicted item; every count of "
        "co-raters stays above the threshold",
    )


def own_added(_: ItemItem) -> PredictionPair:
    """Return a pair in which the target's own rating changes a mean of 20 terms by 12/21.

    The terms are 1 − 4, and the added one is 5 + 4.
    """
    rest, new = range(1, _T + 1), _T + 1
    others = range(_T + 2, 2 * _T + 1)
    low = [(0, 1.0), *_rows(rest, 5)]
    high = [(0, 5.0), (new, 1.0), *_rows(others, 3)]
    return _stars(
        [_rows(rest, 1), *[low] * _CO_RATERS, *[high] * _CO_RATERS],
        RatingAdded(user=0, item=new, value=5),
        (0,),
        f"{_CO_RATERS} users rate the predicted item 4 below each of the target's, and as many "
        "rate it 4 above one more item; the target, who gave all items the lowest rating, gives "
        "that item the highest",
    )


def other_replaced(_: ItemItem) -> PredictionPair:
    """Return a pair in which one of 11 co-raters moves a rating from end to end: 4/11."""
    rest = range(1, _T + 1)
    profiles = [_rows(rest, 3), *[[(0, 1.0), *_rows(rest, 3)]] * _CO_RATERS]
    return _stars(
        profiles,
        RatingReplaced(user=1, item=0, value=5),
        (0,),
        f"the least number of co-raters above the threshold, {_CO_RATERS}; one of them changes the "
        "rating of the predicted item from lowest to highest",
    )


def own_replaced(outputs: int) -> MakePair:
    """Return a builder of a pair in which the target's own rating shifts all predictions by 4/20.

    Args:
        outputs: number of predictions shown to the target.
    """

    def make_pair(_: ItemItem) -> PredictionPair:
        rest, shown = range(outputs, outputs + _T), range(outputs)
        viewers = _rows(range(max(outputs, _T)), 3)
        mine = [(rest[0], 1.0), *_rows(rest[1:], 3)]
        return _stars(
            [mine, viewers, viewers],
            RatingReplaced(user=0, item=rest[0], value=5),
            tuple(shown),
            f"the target has {_T} ratings, one of which changes from lowest to highest, and is "
            f"shown {outputs} {'prediction' if outputs == 1 else 'predictions'}",
        )

    return make_pair


def two_to_show(_: ItemItem) -> PredictionPair:
    """Return a support-threshold pair in which the list shows which of two items is first."""
    rest, other = range(1, _T + 1), _T + 1
    agree = [(0, 5.0), *_rows(rest, 1)]
    liked = [(other, 5.0), *_rows(rest, 1)]
    profiles = [_rows(rest, 3), _rows(rest, 1), *[agree] * (_CO_RATERS - 1), *[liked] * _CO_RATERS]
    return _stars(
        profiles,
        RatingAdded(user=1, item=0, value=5),
        (0, other),
        "the target is shown the better of two items; one more user rates one of them, and the "
        "count of its co-raters crosses the threshold",
    )


def two_to_show_anew(_: ItemItem) -> PredictionPair:
    """Return a pair in which one of two items that nobody has rated gets its first rating."""
    rest, other = range(1, _T + 1), _T + 1
    return _stars(
        [_rows(rest, 3), _rows(rest, 1)],
        RatingAdded(user=1, item=0, value=5),
        (0, other),
        "the target is shown the better of two items; nobody has rated either of them, and one "
        "user rates one",
    )


def own_listed(_: ItemItem) -> PredictionPair:
    """Return a pair in which the target rates the item that is predicted 4 above all others."""
    rest, new, others = range(_T), _T, range(_T + 1, 2 * _T + 1)
    admirers = [(new, 5.0), *_rows(rest, 1), *_rows(others, 1)]
    return _stars(
        [_rows(rest, 3), *[admirers] * _CO_RATERS],
        RatingAdded(user=0, item=new, value=5),
        (new,),
        "an item is predicted far above all others, until the target rates it",
    )


def first_of_two(before: NDArray[np.float64], after: NDArray[np.float64], scale: float) -> float:
    """Return the ε of revealing which of two predictions with Laplace noise is larger.

    The difference of two Laplace draws of scale b exceeds d·b with probability

        p(d) = e^{−d} (1/2 + d/4)   for d ≥ 0,   1 − p(−d) below,

    and ε is the larger of |ln p(d')/p(d)| and |ln (1 − p(d'))/(1 − p(d))|.

    Args:
        before: the two exact predictions on data set D.
        after: the same on data set D'.
        scale: the Laplace scale b of each noise.
    """

    def second_wins(predictions: NDArray[np.float64]) -> tuple[float, float]:
        """Return the probability that the second is shown, and that the first is."""
        d = float(predictions[0] - predictions[1]) / scale
        tail = math.exp(-abs(d)) * (0.5 + abs(d) / 4)
        return (tail, 1 - tail) if d >= 0 else (1 - tail, tail)

    pairs = zip(second_wins(before), second_wins(after), strict=True)
    return max(abs(math.log(q / p)) for p, q in pairs)


def common_shift(before: NDArray[np.float64], after: NDArray[np.float64], scale: float) -> float:
    """Return 0: a shift that all predictions share changes no ranked list.

    Raises:
        ValueError: the predictions do not all shift by the same amount.
    """
    if np.ptp(after - before) > 1e-5 * scale:
        raise ValueError("the predictions have no common shift: the list has no closed form here")
    return 0.0


def infinite(before: NDArray[np.float64], after: NDArray[np.float64], scale: float) -> float:
    """Return ∞: some list is possible on one data set only."""
    return math.inf


PARTS = (
    above_threshold,
    common_shift,
    first_of_two,
    infinite,
    other_replaced,
    own_added,
    own_listed,
    own_replaced,
    two_to_show,
    two_to_show_anew,
    worst_pair,
)
