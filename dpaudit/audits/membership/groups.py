"""Groups of targets, to say who is hit hardest."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.membership.design import Design
from dpaudit.core.membership import Unit

Mask = NDArray[np.bool_]


def groups_of(design: Design, unit: Unit) -> Mapping[str, Mask]:
    """Return the thirds of targets with the most and the fewest interactions, and named groups.

    Users and items are counted in what the attacker knows, the same in every training.

    Returns:
        Masks of the targets `(m,)` by name of the group. Targets with the same count are in the
        same group, so a group may be larger or smaller than a third; an empty one is left out.
    """
    history = design.knowledge.history
    active = np.diff(history.indptr)
    if unit == "user":
        thirds = _thirds(active[design.users], "users with few interactions", "active users")
        return thirds | _of_targets(design, design.users)
    popular = np.bincount(history.indices, minlength=history.shape[1])
    data, rows = design.ratings, design.rows
    return {
        **_thirds(active[data.user[rows]], "users with few interactions", "active users"),
        **_thirds(popular[data.item[rows]], "rare items", "popular items"),
        **_of_targets(design, data.user[rows]),
    }


def _of_targets(design: Design, users: NDArray[np.int32]) -> dict[str, Mask]:
    """Return the targets of each group of users; an empty group is left out."""
    masks = {name: among[users] for name, among in design.groups.items()}
    return {name: among for name, among in masks.items() if among.any()}


def _thirds(counts: NDArray[np.integer], few: str, many: str) -> dict[str, Mask]:
    low, high = np.quantile(counts, (1 / 3, 2 / 3), method="inverted_cdf")
    masks = {few: counts <= low, many: counts > high}
    return {name: among for name, among in masks.items() if among.any()}
