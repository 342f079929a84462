"""The mechanisms and the neighbouring data sets of the claims about PrivSR (Meng et al. 2018).

For the rating form all data are on the scale 1..5, so that `Δ = 4`, and two data sets differ in the
first user. For the ranking form an item is bought or not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpaudit.audits.trained.pairs import DataPair
from dpaudit.bounds.gdp import gaussian_epsilon, gaussian_mu
from dpaudit.core.estimate import Estimate
from dpaudit.data.neighbors import RatingAdded, UserReplaced, apply
from dpaudit.data.ratings import Friends, RatedItems, Ratings, Scale, from_profiles
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.defenses.social.ranking import PrivSRRanking

# Factors v of two items such that the best fit u = Σ v r / Σ v² is 1 for the ratings 5 and 5, and
# −1 for 1 and 5: Σ v² = 50/17; Σ v r = 50/17 and (25 − 75)/17 = −50/17.
_TURNING = (25 / 17, -15 / 17)

# One factor and one round that starts from u = v = 1.
_PLAIN: dict[str, Any] = {
    "dimensions": 1,
    "rounds": 1,
    "decay": 0.0,
    "social": 0.0,
    "start": "constant",
    "spread": 1.0,
}


def published(**params: Any) -> PrivSR:
    """Return the published PrivSR with ε = 1."""
    return PrivSR(**{"epsilon": 1.0, **_PLAIN, **params})


def corrected(**params: Any) -> PrivSR:
    """Return the corrected PrivSR, which protects whole users, with ε = 2 and the default δ.

    With an offset of 3 the gradients of the ratings 5 and 1 are opposite, and both are longer than
    the clipping norm.
    """
    return PrivSR(**{"epsilon": 2.0, "variant": "corrected", **_PLAIN, "offset": 3.0, **params})


def _pair(
    profiles: Sequence[RatedItems],
    after: RatedItems,
    sensitive: Sequence[bool],
    summary: str,
    friends: Friends | None = None,
) -> DataPair:
    """Return the pair in which the first user's ratings become `after`.

    `sensitive` gives the privacy setting of each row in both data sets.
    """
    n_items = 1 + max(item for profile in profiles for item, _ in profile)

    def of(first: RatedItems) -> Ratings:
        plain = from_profiles([first, *profiles[1:]], n_items)
        return replace(plain, sensitive=np.array(sensitive), friends=friends)

    before = of(profiles[0])
    return DataPair(before, of(after), before, summary)


def one_rating(*, sensitive: bool, alike: int = 0, others: int = 0) -> DataPair:
    """Return the pair in which one rating of the only item changes from 5 to 1.

    Args:
        sensitive: whether the rating is sensitive.
        alike: number of other raters with the same setting.
        others: number of other raters with the other setting.
    """
    rest: list[RatedItems] = [[(0, 3)]] * (alike + others)
    settings = [sensitive] * (1 + alike) + [not sensitive] * others
    kind = "a sensitive" if sensitive else "a non-sensitive"
    words = f"{kind} rating changes from 5 to 1"
    if rest:
        words += f"; {alike} other ratings of the item have the same setting, {others} the other"
    return _pair([[(0, 5)], *rest], [(0, 1)], settings, words)


def turned(items: int, others: int = 0) -> DataPair:
    """Return the pair in which a user's ratings change from 5 to 1; all ratings are sensitive.

    Args:
        items: number of items.
        others: number of other users, who rate all items 3.
    """
    rest: list[RatedItems] = [[(item, 3) for item in range(items)]] * others
    profiles: list[RatedItems] = [[(item, 5) for item in range(items)], *rest]
    words = "an item" if items == 1 else f"{items} items"
    return _pair(
        profiles,
        [(item, 1) for item in range(items)],
        [True] * (items * (1 + others)),
        f"a user's ratings of {words} change from highest to lowest; {others} others rate the same",
    )


def fitted(items: int) -> tuple[DataPair, tuple[float, ...]]:
    """Return a pair in which a sensitive rating turns the user's factor from 1 to −1, and V.

    Args:
        items: number of items that the user has rated, 2 or more; all but two have the factor 0.
    """
    profile: list[tuple[int, float]] = [(item, 5) for item in range(items)]
    pair = _pair(
        [profile],
        [(0, 1), *profile[1:]],
        [True] * items,
        f"a user has rated {items} items 5, all sensitive, and one rating changes to 1; the user's "
        "factor, fitted to these ratings, changes from 1 to −1",
    )
    return pair, (*_TURNING, *[0.0] * (items - 2))


def befriended(friends: int) -> tuple[DataPair, tuple[float, ...]]:
    """Return the pair of `fitted` with a friend as the observer, and V.

    The user and the observer have given a third, non-sensitive item the same rating, so S = 1.

    Args:
        friends: number of the observer's friends, all with the same ratings but for the one.
    """
    profile: list[tuple[int, float]] = [(0, 5), (1, 5), (2, 5)]
    receiver = friends
    links = Friends.build(np.full(friends, receiver), np.arange(friends), friends + 1)
    pair = _pair(
        [profile] * friends + [[(2, 5)]],
        [(0, 1), *profile[1:]],
        [True, True, False] * friends + [False],
        f"one of a user's {friends} friends changes a sensitive rating from 5 to 1, and the "
        "friend's factor, fitted to the friend's ratings, changes from 1 to −1; their ratings that "
        "are not sensitive agree",
        links,
    )
    return pair, (*_TURNING, 0.0)


# Exact ε.


def both_kinds(beta: float) -> Estimate:
    """Return the ε of a shift of 2Δ under the sum of both kinds of noise, which share one h.

    The scale is 2Δ √(1/ε_s² + 1/ε_n²) = 2Δ √(1 + β²)/((1 + β) ε).
    """
    return Estimate.exact((1 + beta) / math.hypot(1, beta), "Laplace noise, both kinds, one h")


def opposite_submissions() -> Estimate:
    """Return the ε of one round with opposite submissions, both cut to the clipping norm."""
    defense = corrected()
    variance = float(defense.noise(defense.prepare(turned(1).before)).submitted[1, 0])
    mu = 2 * defense.clip_norm * (1 - 1e-5) / math.sqrt(variance)
    return Estimate.exact(gaussian_epsilon(mu, defense.delta), "normal noise, opposite submissions")


# The ranking form.

_FRIENDS = 5
_HELD = Scale(1, 1, 1)
# One factor and one round that starts from u = v = 1; all triples, so that sums are exact.
_RANKING: dict[str, Any] = {
    "dimensions": 1,
    "rounds": 1,
    "decay": 0.0,
    "start": "constant",
    "spread": 1.0,
    "triples": "all",
}


def published_ranking(**params: Any) -> PrivSRRanking:
    """Return the published ranking form with ε = 0.5."""
    return PrivSRRanking(**{"epsilon": 0.5, **_RANKING, **params})


def corrected_ranking(**params: Any) -> PrivSRRanking:
    """Return the corrected form, which protects whole users, with ε = 2 and the default δ."""
    return PrivSRRanking(**{"epsilon": 2.0, "variant": "corrected", **_RANKING, **params})


def bought(kept: bool = False) -> DataPair:
    """Return the pair in which a user with one friend, who holds five items, buys a new item.

    Args:
        kept: whether another user keeps all items private, so that both kinds of noise are present.
    """
    others = [(item, 1.0) for item in range(2, 2 + _FRIENDS)]
    everything = [(item, 1.0) for item in range(_FRIENDS + 4)]
    profiles = [[(0, 1.0)], others, *([everything] if kept else [])]
    plain = from_profiles(profiles, _FRIENDS + 4, _HELD)
    links = Friends.build(np.array([0]), np.array([1]), len(profiles))
    before = replace(plain, friends=links, sensitive=plain.user == 2)
    words = f"a user whose friend shares {_FRIENDS} items buys an item that neither of them had"
    more = "; another user keeps all items private" if kept else ""
    return DataPair(before, apply(before, RatingAdded(0, 1, 1.0)), before, words + more)


def opposed() -> DataPair:
    """Return the worst pair of the corrected form: the user's items are replaced by others.

    Every triple is reversed, and with it the user's whole submission, which is longer than the
    clipping norm.
    """
    plain = from_profiles([[(item, 1.0) for item in range(3)], [(6, 1.0)]], 7, _HELD)
    nobody = np.zeros(0, np.int64)
    before = replace(plain, friends=Friends.build(nobody, nobody, 2))
    theirs = UserReplaced(0, np.arange(3, 6, dtype=np.int32), np.ones(3, np.float32))
    return DataPair(
        before,
        apply(before, theirs),
        before,
        "a user who holds three of seven items is replaced by one who holds three others",
    )


def opposite_rankings() -> Estimate:
    """Return the ε of opposite submissions, both cut to the clipping norm."""
    defense = corrected_ranking()
    mu = gaussian_mu(defense.epsilon, defense.delta) * (1 - 1e-5)
    return Estimate.exact(gaussian_epsilon(mu, defense.delta), "normal noise, opposite submissions")


PARTS = (
    both_kinds,
    bought,
    corrected,
    corrected_ranking,
    one_rating,
    opposed,
    opposite_rankings,
    opposite_submissions,
    published,
    published_ranking,
    turned,
)
