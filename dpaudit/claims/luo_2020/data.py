"""Neighbouring data sets for the claims about fake gradients (Luo et al. 2020).

The two data sets differ in one user; all other users have the same ratings. So the limit of a
training with one factor is known: with e the others' error before training and λ the decay, their u
and the items' v tend to √(e − λ) in absolute value, with the same sign, and their gradients to
−λ v. The candidates are those of the larger data set (`public`), so the changed item is a candidate
in both: rated in one, faked in the other.

All are on the scale 1..5 and assume the offset 3.
"""

from __future__ import annotations

from dpaudit.audits.trained.pairs import DataPair
from dpaudit.data.instances import Profile, from_profiles


def _rating_added(
    profile: Profile, added: tuple[int, float], others: int, value: float
) -> DataPair:
    """Return the pair in which a user adds a rating; the others rate all these items with `value`.

    Args:
        profile: the user's ratings before.
        added: the added item and its rating.
        others: number of other users.
        value: the rating that each of them gives to each item.
    """
    items = [added[0], *(item for item, _ in profile)]
    rest: list[Profile] = [[(item, value) for item in sorted(items)]] * others
    before, after = (
        from_profiles([mine, *rest], len(items)) for mine in (profile, [added, *profile])
    )
    ratings = ", ".join(f"{rating:g}" for _, rating in profile)
    return DataPair(
        before,
        after,
        after,
        f"{others} users have rated {len(items)} items with {value:g}; one more user has rated all "
        f"but one of them ({ratings}) and adds it with {added[1]:g}; it is that user's candidate "
        "in both data sets",
    )


def against(others: int) -> DataPair:
    """Return the pair in which the user adds the lowest rating of an item that others rate highest.

    The user agrees with the others on three other items. With λ = 4/3: v² = 2/3 and a fake is
    −λ v = −1.09 for v > 0. The user's u, from u (λ + v²) = v mean(e), is 0.41, so the gradient is
    −(−2 − u v) u = 0.95, opposite to the fake.
    """
    return _rating_added([(1, 5), (2, 5), (3, 5)], (0, 1), others, 5)


def undecided(rated: int, others: int) -> DataPair:
    """Return the pair in which one more rating makes an undecided user's factor differ from 0.

    The user has rated half of `rated` items highest and half lowest; the others like all of them.
    Without the added rating the user's factor and gradients are 0 up to noise.
    """
    mine: Profile = [(item, 5 if item % 2 else 1) for item in range(1, rated + 1)]
    return _rating_added(mine, (0, 5), others, 4)


def agreeing(rated: int, others: int) -> DataPair:
    """Return the pair in which a user who rates as everybody does adds a rating of the same kind.

    The user's factor does not change.
    """
    return _rating_added([(item, 5) for item in range(1, rated + 1)], (0, 5), others, 5)


def turned(items: int) -> DataPair:
    """Return the pair of a single user whose ratings change from highest to lowest."""
    before, after = (
        from_profiles([[(item, value) for item in range(items)]], items) for value in (5.0, 1.0)
    )
    words = "an item" if items == 1 else f"{items} items"
    return DataPair(
        before, after, after, f"one user, whose ratings of {words} change from highest to lowest"
    )
