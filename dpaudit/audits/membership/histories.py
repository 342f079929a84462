"""What an attacker asks a model of sequences: what follows the history before a target.

Asked for a target at the end of the user's history, such a model says what comes next there, which
hardly depends on whether it was trained on the target. It was trained to predict the target from
what came before it, and from both what came after it. So the attacker sends these histories.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.membership.features import STEPS, Pairs, Users
from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings
from dpaudit.recommenders.histories import Histories

# The most items of a history that are sent, its last ones.
_LONGEST = 200
# The number of items, drawn from all, beside whose scores that of an item counts.
_REFERENCES = 100


def asked(
    data: Ratings, known: NDArray[np.bool_], tested: Pairs, of: Users, seed: int
) -> Histories:
    """Return the histories that are sent for each target, and the items that are asked after them.

    A history is what the attacker knows of the user, in the order of `Interactions.table` and
    without ratings of 0. It ends before the target, and before each of the `STEPS - 1` items that
    come next, once without the target in its place and once with it. After each the target, the
    next item of the user and others are asked. Where the user has no further item, the first of the
    others stands in for it.

    Args:
        data: the data.
        known: the rows that are neither held out nor target interactions `(R,)`.
        tested: interactions that are targets or held out.
        of: users who are targets; their items `held` are asked after the tested ones, row by row.
        seed: of the draw of the others.

    Returns:
        `2 STEPS` rows for each target, step by step, without it and with it.
    """
    users = np.concatenate((tested.users, np.repeat(of.users, of.held.shape[1])))
    items = np.concatenate((tested.items, of.held.reshape(-1)))
    # Rows are by user, then item.
    key = data.user.astype(np.int64) * data.n_items + data.item
    rows = np.searchsorted(key, users.astype(np.int64) * data.n_items + items)
    order = np.arange(len(data)) if data.time is None else np.lexsort((data.time, data.user))
    rank = np.empty(len(data), np.int64)
    rank[order] = np.arange(len(data))
    kept = order[(known & (data.value != 0))[order]]
    history, owner = np.append(data.item[kept], np.int32(-1)), data.user[kept]
    place = np.searchsorted(rank[kept], rank[rows])
    start, end = (np.searchsorted(owner, users, side) for side in ("left", "right"))
    size = np.minimum(place - start, _LONGEST - STEPS)
    at = np.arange(-int(size.max(initial=0)), 0)
    before = np.where(at >= -size[:, None], history[place[:, None] + at], -1)
    # An item of a target user stands at its own place in the known history.
    later = (place + (known & (data.value != 0))[rows])[:, None] + np.arange(STEPS)
    within = later < end[:, None]
    drawn = generator(seed, "membership reference items").permutation(data.n_items)[:_REFERENCES]
    following = np.where(within, history[np.where(within, later, 0)], drawn[0])
    nothing = np.full((len(items), STEPS), -1)
    sent = [
        np.hstack((nothing[:, step + len(target) :], before, *target, following[:, :step]))
        for step in range(STEPS)
        for target in ((), (items[:, None],))
    ]
    wanted = np.empty((len(items), STEPS, 2, 2 + len(drawn)), np.int32)
    wanted[..., 0], wanted[..., 1] = items[:, None, None], following[:, :, None]
    wanted[..., 2:] = drawn
    every = np.stack(sent, axis=1).astype(np.int32)
    return Histories(every.reshape(-1, every.shape[2]), wanted.reshape(-1, wanted.shape[3]))
