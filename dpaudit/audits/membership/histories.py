"""What an attacker asks a model of sequences: what follows the history before a target.

Asked for a target at the end of the user's history, such a model says what comes next there, which
hardly depends on whether it was trained on the target. It was trained to predict the target from
what came before it, and from both what came after it. So the attacker sends these histories.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.membership.features import Pairs, Users
from dpaudit.data.ratings import Ratings
from dpaudit.recommenders.histories import Histories

# The most items of a history that are sent, its last ones.
_LONGEST = 200
# The number of items, the most popular ones, beside whose scores those of an item count.
_REFERENCES = 100


def asked(data: Ratings, known: NDArray[np.bool_], tested: Pairs, of: Users) -> Histories:
    """Return the histories that are sent for each target, and the items that are asked after them.

    A history is what the attacker knows of the user, in the order of `Interactions.table` and
    without ratings of 0. It ends before the target in the first
    half of the histories, and with the target in the second half. After each the target itself, the
    next item of the user's history and popular items are asked; where nothing is next, the target
    stands in its place.

    Args:
        data: the data.
        known: the rows that are neither held out nor target interactions `(R,)`.
        tested: interactions that are targets or held out.
        of: users who are targets; their items `held` are asked after the tested ones, row by row.
    """
    users = np.concatenate((tested.users, np.repeat(of.users, of.held.shape[1])))
    items = np.concatenate((tested.items, of.held.reshape(-1)))
    # Rows are by user, then item.
    key = data.user.astype(np.int64) * data.n_items + data.item
    rows = np.searchsorted(key, users.astype(np.int64) * data.n_items + items)
    order = np.arange(len(data)) if data.time is None else np.lexsort((data.time, data.user))
    rank = np.empty(len(data), np.int64)
    rank[order] = np.arange(len(data))
    kept = order[known[order] & (data.value[order] != 0)]
    history, owner = np.append(data.item[kept], np.int32(-1)), data.user[kept]
    place = np.searchsorted(rank[kept], rank[rows])
    start, end = (np.searchsorted(owner, users, side) for side in ("left", "right"))
    # An item of a target user stands at its own place in the known history.
    later = place + (known & (data.value != 0))[rows]
    following = np.where(later < end, history[np.minimum(later, end)], items)
    size = np.minimum(place - start, _LONGEST - 1)
    width = int(size.max(initial=0))
    at = place[:, None] + np.arange(-width, 0)
    before = np.where(at >= (place - size)[:, None], history[at], -1)
    sent = np.vstack((np.pad(before, ((0, 0), (1, 0)), constant_values=-1), np.c_[before, items]))
    popular = np.bincount(data.item[known], minlength=data.n_items)
    references = np.argsort(-popular, kind="stable")[:_REFERENCES]
    beside = np.broadcast_to(references, (len(items), len(references)))
    wanted = np.tile(np.column_stack((items, following, beside)), (2, 1))
    return Histories(sent.astype(np.int32), wanted.astype(np.int32))
