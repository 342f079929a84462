"""The mechanisms and the neighbouring data sets of the claims about PrivSR (Meng et al. 2018).

All data are on the scale 1..5, so that `Δ = 4`. Two data sets differ in the first user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpaudit.auditor.games.trained import DataPair
from dpaudit.data.instances import from_profiles
from dpaudit.data.ratings import Friends, Ratings, Scale
from dpaudit.defenses.social.privsr import PrivSR

STARS = Scale(1, 5, 1)

Profile = Sequence[tuple[int, float]]

# One factor of two items for which the best u, Σ v r / Σ v², is 1 of the ratings 5 and 5, and −1
# once the first is 1: Σ v² = 50/17, Σ v r = 50/17 and (25 − 75)/17 = −50/17.
_TURNING = (25 / 17, -15 / 17)

# One factor and one round, which begins with u = v = 1.
_PLAIN: dict[str, Any] = {
    "dimensions": 1,
    "rounds": 1,
    "decay": 0.0,
    "social": 0.0,
    "start": "constant",
    "spread": 1.0,
}


def published(**params: Any) -> PrivSR:
    """PrivSR with ε = 1."""
    return PrivSR(**{"epsilon": 1.0, **_PLAIN, **params})


def corrected(**params: Any) -> PrivSR:
    """Whole users with ε = 2 and the default δ.

    The offset of 3 makes the gradients of 5 and 1 point apart, and both are so long that they are
    cut.
    """
    return PrivSR(**{"epsilon": 2.0, "variant": "corrected", **_PLAIN, "offset": 3.0, **params})


def _pair(
    profiles: Sequence[Profile],
    after: Profile,
    sensitive: Sequence[bool],
    summary: str,
    friends: Friends | None = None,
) -> DataPair:
    """The first user's ratings become `after`; each row's setting is that of both data sets."""
    n_items = 1 + max(item for profile in profiles for item, _ in profile)

    def of(own: Profile) -> Ratings:
        plain = from_profiles([own, *profiles[1:]], n_items, STARS)
        return replace(plain, sensitive=np.array(sensitive), friends=friends)

    before = of(profiles[0])
    return DataPair(before, of(after), before, summary)


def one_rating(*, sensitive: bool, alike: int = 0, others: int = 0) -> DataPair:
    """One item, of which a rating goes from 5 to 1.

    Args:
        sensitive: whether it is sensitive.
        alike: how many others rate the item with the same setting.
        others: how many rate it with the other setting.
    """
    rest: list[Profile] = [[(0, 3)]] * (alike + others)
    settings = [sensitive] * (1 + alike) + [not sensitive] * others
    kind = "a sensitive" if sensitive else "a non-sensitive"
    words = f"{kind} rating goes from 5 to 1"
    if rest:
        words += f"; {alike} others of the item have the same setting, {others} the other"
    return _pair([[(0, 5)], *rest], [(0, 1)], settings, words)


def turned(items: int, others: int = 0) -> DataPair:
    """A user who goes from 5 to 1 on some items; others rate all of them 3; all sensitive."""
    rest: list[Profile] = [[(item, 3) for item in range(items)]] * others
    profiles: list[Profile] = [[(item, 5) for item in range(items)], *rest]
    words = "an item" if items == 1 else f"{items} items"
    return _pair(
        profiles,
        [(item, 1) for item in range(items)],
        [True] * (items * (1 + others)),
        f"a user goes from the highest rating of {words} to the lowest; {others} others rate them",
    )


def fitted(items: int) -> tuple[DataPair, tuple[float, ...]]:
    """A sensitive rating that turns the user's factor from 1 to −1, and the items' factors.

    Args:
        items: how many she has rated, 2 or more; all but two have the factor 0.
    """
    own: list[tuple[int, float]] = [(item, 5) for item in range(items)]
    pair = _pair(
        [own],
        [(0, 1), *own[1:]],
        [True] * items,
        f"a user has rated {items} items 5, all sensitive, and one of them goes to 1; her factor, "
        "fitted to her ratings, goes from 1 to −1",
    )
    return pair, (*_TURNING, *[0.0] * (items - 2))


def befriended(friends: int) -> tuple[DataPair, tuple[float, ...]]:
    """As `fitted`, seen by one whose friend she is, and the items' factors.

    Both have rated a third item, which is not sensitive, alike: S = 1.

    Args:
        friends: how many friends the one who sees has, alike but for that one rating.
    """
    own: list[tuple[int, float]] = [(0, 5), (1, 5), (2, 5)]
    receiver = friends
    links = Friends.build(np.full(friends, receiver), np.arange(friends), friends + 1)
    pair = _pair(
        [own] * friends + [[(2, 5)]],
        [(0, 1), *own[1:]],
        [True, True, False] * friends + [False],
        f"one of a user's {friends} friends changes a sensitive rating from 5 to 1, and her "
        "factor, fitted to her ratings, goes from 1 to −1; the two are alike in what they show",
        links,
    )
    return pair, (*_TURNING, 0.0)
