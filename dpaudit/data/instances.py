"""Small constructed data sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpaudit.data.ratings import Ratings, Scale

# The items and values of one user.
Profile = Sequence[tuple[int, float]]
STARS = Scale(1, 5, 1)


def from_profiles(profiles: Sequence[Profile], n_items: int, scale: Scale = STARS) -> Ratings:
    """Build ratings from one list of (item, value) per user, in the order of the users."""
    rows = [(user, *entry) for user, profile in enumerate(profiles) for entry in profile]
    user, item, value = (np.array(column) for column in zip(*rows, strict=True))
    return Ratings.build(user, item, value.astype(np.float32), len(profiles), n_items, scale)
