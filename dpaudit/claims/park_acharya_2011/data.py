"""Neighbouring data sets for the claims of Park & Acharya 2011.

Each is an instance of the paper's setting: ratings on the scale 1..5 or purchases, `T = 20` ratings
of every user who is shown predictions, and of every other user too. User 0 is the target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpaudit.data.instances import from_profiles
from dpaudit.data.neighbors import RatingAdded, RatingChange, RatingReplaced
from dpaudit.data.ratings import Scale
from dpaudit.defenses.base import WorldPair
from dpaudit.defenses.item_item.recommender import ItemItem

STARS = Scale(1, 5, 1)
PURCHASES = Scale(1, 1, 1)
_T, _CO_RATERS = 20, 11

Worlds = Callable[[ItemItem], WorldPair]
Profiles = list[list[tuple[int, float]]]


def named(name: str, scale: Scale) -> Worlds:
    """One of the defense's own worst pairs, by name."""

    def worlds(defense: ItemItem) -> WorldPair:
        return defense.pair(name, scale)

    return worlds


def _rows(items: Sequence[int], rating: float) -> list[tuple[int, float]]:
    return [(item, rating) for item in items]


def _stars(
    profiles: Profiles, change: RatingChange, items: Sequence[int], summary: str
) -> WorldPair:
    n_items = 1 + max(item for profile in profiles for item, _ in profile)
    n_items = max(n_items, 1 + max(items), 1 + change.item)
    ratings = from_profiles(profiles, n_items, STARS)
    return WorldPair(ratings, change, target=0, items=tuple(items), summary=summary)


def no_crossing(_: ItemItem) -> WorldPair:
    """Eleven co-raters put the similarities at −4, a twelfth differs by +4: they move by 8/12."""
    rest = range(1, _T + 1)
    profiles = [_rows(rest, 3), _rows(rest, 1), *[[(0, 1.0), *_rows(rest, 5)]] * _CO_RATERS]
    return _stars(
        profiles,
        RatingAdded(user=1, item=0, value=5),
        (0,),
        f"{_CO_RATERS} users rate the predicted item lowest and the target's items highest; one "
        "more user does the opposite: every count of co-raters stays above the threshold",
    )


def own_added(_: ItemItem) -> WorldPair:
    """The target's terms are 1 − 4 and she adds one of 5 + 4: a mean of 20 moves by 12/21."""
    rest, new = range(1, _T + 1), _T + 1
    others = range(_T + 2, 2 * _T + 1)
    low = [(0, 1.0), *_rows(rest, 5)]
    high = [(0, 5.0), (new, 1.0), *_rows(others, 3)]
    return _stars(
        [_rows(rest, 1), *[low] * _CO_RATERS, *[high] * _CO_RATERS],
        RatingAdded(user=0, item=new, value=5),
        (0,),
        f"{_CO_RATERS} users rate the predicted item 4 below each of the target's, as many rate it "
        "4 above one more item; the target, who gave all her items the lowest rating, gives that "
        "item the highest",
    )


def other_replaced(_: ItemItem) -> WorldPair:
    """Eleven co-raters, one of whom changes her rating from end to end: 4/11."""
    rest = range(1, _T + 1)
    profiles = [_rows(rest, 3), *[[(0, 1.0), *_rows(rest, 3)]] * _CO_RATERS]
    return _stars(
        profiles,
        RatingReplaced(user=1, item=0, value=5),
        (0,),
        f"the least number of co-raters above the threshold, {_CO_RATERS}; one of them changes her "
        "rating of the predicted item from lowest to highest",
    )


def own_replaced(outputs: int) -> Worlds:
    """The target's own rating goes from end to end: each of her predictions moves by 4/20."""

    def worlds(_: ItemItem) -> WorldPair:
        rest, shown = range(outputs, outputs + _T), range(outputs)
        viewers = _rows(range(max(outputs, _T)), 3)
        mine = [(rest[0], 1.0), *_rows(rest[1:], 3)]
        return _stars(
            [mine, viewers, viewers],
            RatingReplaced(user=0, item=rest[0], value=5),
            tuple(shown),
            f"the target has {_T} ratings, one of which goes from lowest to highest; she is shown "
            f"{outputs} {'prediction' if outputs == 1 else 'predictions'}",
        )

    return worlds


def two_to_show(_: ItemItem) -> WorldPair:
    """P13 where only one other item can be shown: the list says which of two is first."""
    rest, other = range(1, _T + 1), _T + 1
    agree = [(0, 5.0), *_rows(rest, 1)]
    liked = [(other, 5.0), *_rows(rest, 1)]
    profiles = [_rows(rest, 3), _rows(rest, 1), *[agree] * (_CO_RATERS - 1), *[liked] * _CO_RATERS]
    return _stars(
        profiles,
        RatingAdded(user=1, item=0, value=5),
        (0, other),
        "the target is shown which of two items she will like best; one more user rates one of "
        "them, and the count of its co-raters crosses the threshold",
    )


def two_to_show_anew(_: ItemItem) -> WorldPair:
    """One of two items that nobody has rated gets its first rating."""
    rest, other = range(1, _T + 1), _T + 1
    return _stars(
        [_rows(rest, 3), _rows(rest, 1)],
        RatingAdded(user=1, item=0, value=5),
        (0, other),
        "the target is shown which of two items she will like best; nobody has rated either, and "
        "one user rates one of them",
    )


def own_listed(_: ItemItem) -> WorldPair:
    """One item is predicted 4 above all others, until the target rates it."""
    rest, new, others = range(_T), _T, range(_T + 1, 2 * _T + 1)
    admirers = [(new, 5.0), *_rows(rest, 1), *_rows(others, 1)]
    return _stars(
        [_rows(rest, 3), *[admirers] * _CO_RATERS],
        RatingAdded(user=0, item=new, value=5),
        (new,),
        "an item is predicted far above all others, until the target rates it herself",
    )
