"""Neighbouring data sets for the claims about fake gradients (Luo et al. 2020).

One user in whom the two data sets differ stands among others who are all alike. From there a
federation with one factor learns in some rounds what can be told beforehand: with e the others'
error before anything is learned and λ the decay, their u and the items' v tend to √(e − λ) in size
and to the same sign, and their gradients to −λ v. The candidates are those of the larger data set
(`public`), so that the item is one in both: rated in one, faked in the other.

All are on the scale 1..5 and made for the offset 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.auditor.games.trained import DataPair
from dpaudit.data.instances import from_profiles
from dpaudit.data.ratings import Scale

STARS = Scale(1, 5, 1)

Profile = Sequence[tuple[int, float]]


def _rating_added(own: Profile, added: tuple[int, float], others: int, value: float) -> DataPair:
    """A user rates one item more; the others have given all her items the same value."""
    items = [added[0], *(item for item, _ in own)]
    rest: list[Profile] = [[(item, value) for item in sorted(items)]] * others
    before, after = (
        from_profiles([mine, *rest], len(items), STARS) for mine in (own, [added, *own])
    )
    ratings = ", ".join(f"{rating:g}" for _, rating in own)
    return DataPair(
        before,
        after,
        after,
        f"{others} users have rated {len(items)} items with {value:g}, one more has rated all but "
        f"one ({ratings}) and adds it with {added[1]:g}; in both it is her candidate",
    )


def against(others: int) -> DataPair:
    """She agrees with the others on three items; the fourth she rates lowest, as they highest.

    With λ = 4/3: v² = 2/3, a fake is −λ v = −1.09 for v > 0. Her u (λ + v²) = v mean(e) is 0.41, so
    her gradient is −(−2 − u v) u = 0.95, against it.
    """
    return _rating_added([(1, 5), (2, 5), (3, 5)], (0, 1), others, 5)


def undecided(own: int, others: int) -> DataPair:
    """She has rated items that the others like, half of them highest, half lowest; one more tips.

    Without it her factor is 0 but for noise, and so are all her gradients; with it she has one.
    """
    mine: Profile = [(item, 5 if item % 2 else 1) for item in range(1, own + 1)]
    return _rating_added(mine, (0, 5), others, 4)


def alike(own: int, others: int) -> DataPair:
    """She gives items the rating that everybody gives, then one more; her factor does not move."""
    return _rating_added([(item, 5) for item in range(1, own + 1)], (0, 5), others, 5)


def turned(items: int) -> DataPair:
    """One user alone, who goes from the highest to the lowest rating of some items."""
    before, after = (
        from_profiles([[(item, value) for item in range(items)]], items, STARS)
        for value in (5.0, 1.0)
    )
    words = "an item" if items == 1 else f"{items} items"
    return DataPair(
        before, after, after, f"one user, who goes from the highest rating of {words} to the lowest"
    )
