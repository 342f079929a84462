"""Groups of targets, to say who is hit hardest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.membership.design import Design
from dpaudit.core.membership import Unit
from dpaudit.recommenders.base import Trainable
from dpaudit.recommenders.forgetting import Forgetting

Mask = NDArray[np.bool_]

# The number of parts of the requests, of which the first and the last are compared.
_BATCHES = 10


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


def batches(
    design: Design, trainable: Trainable, unit: Unit, trainings: Sequence[int]
) -> Mapping[str, Mask]:
    """Return who is deleted first and last, to say whether the errors of a method add up.

    Args:
        design: the targets.
        trainable: what is trained.
        unit: what a target is.
        trainings: the trainings `(J,)`.

    Returns:
        Masks `(J, m)` of the targets in the first and the last tenth of the requests, each with all
        targets that are absent, by name of the group; none with fewer than ten requests.
    """
    if not isinstance(trainable, Forgetting) or trainable.requests < _BATCHES:
        return {}
    turns = np.stack([_turns(design, trainable, unit, training) for training in trainings])
    count = turns.max(1, keepdims=True) + 1
    first, last = turns < count / _BATCHES, turns >= count - count / _BATCHES
    masks = {"first tenth deleted": first, "last tenth deleted": last | (turns < 0)}
    return {name: among for name, among in masks.items() if (among & (turns >= 0)).any(1).all()}


def _turns(design: Design, trainable: Forgetting, unit: Unit, training: int) -> NDArray[np.int64]:
    """Return the request that deletes each target, -1 for one that is absent `(m,)`."""
    kept, data = design.kept(training), design.ratings
    turns = np.full(len(data), -1)
    turns[kept] = trainable.turns(data.only(kept), design.training_seed(training))
    if unit == "interaction":
        return turns[design.rows]
    of_user = np.full(data.n_users, -1)
    np.maximum.at(of_user, data.user, turns)
    return of_user[design.users]


def _of_targets(design: Design, users: NDArray[np.int32]) -> dict[str, Mask]:
    """Return the targets of each group of users; an empty group is left out."""
    masks = {name: among[users] for name, among in design.groups.items()}
    return {name: among for name, among in masks.items() if among.any()}


def _thirds(counts: NDArray[np.integer], few: str, many: str) -> dict[str, Mask]:
    low, high = np.quantile(counts, (1 / 3, 2 / 3), method="inverted_cdf")
    masks = {few: counts <= low, many: counts > high}
    return {name: among for name, among in masks.items() if among.any()}
