"""The observations of a matrix factorisation's training steps on two neighbouring data sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.defenses.factorization.sgd_training import run_round, sum_clipped, taking_part
from dpaudit.defenses.factors import FactorBlock, FactorRows
from dpaudit.defenses.precision import grid, on_grid
from dpaudit.kernels.lanes import LANES

if TYPE_CHECKING:
    from dpaudit.defenses.factorization.sgd_settings import SgdSettings

Part = tuple[NoisedSteps, StepsPair]


def observed_errors(
    defense: SgdSettings,
    before: FactorRows,
    after: FactorRows,
    trained: FactorRows,
    streams: Streams,
) -> Part:
    """Return the noised errors of the ratings in which two data sets differ, and their laws.

    An observer of every iterate knows r̂ − b_0 at every step. So they know a rating's error in
    either data set, each with its own b_0, and read the noised error off the updates.

    Args:
        defense: the published form.
        before: data set `D`.
        after: data set `D'`.
        trained: the data to train on: one of the two, or a mixture of their ratings.
        streams: up to 16 trials.

    Raises:
        ConfigError: the data sets differ in more than the values of ratings.
        RunError: a training diverged.
    """
    same = np.array_equal(before.start, after.start) and np.array_equal(before.items, after.items)
    if not same:
        raise ConfigError(
            "the claim of the published dpsgd-mf is about a rating's value: use a pair of data "
            "sets that replaces ratings"
        )
    offsets = [rows.values.astype(np.float64) - rows.mean for rows in (before, after)]
    rows = np.flatnonzero(offsets[0] != offsets[1]).astype(np.int32)
    block = defense.drawn(trained, streams)
    seen = np.empty((defense.epochs, len(rows), 2, LANES), np.float32)
    for t in range(defense.epochs):
        defense.descend(trained, block, streams, t, rows, seen[t].reshape(-1))
    exact, shown = (
        np.moveaxis(seen[:, :, part, : len(streams)], 2, 0).astype(np.float64) for part in (0, 1)
    )
    # r̂ − b_0, which the observer knows.
    learned = trained.values[rows].astype(np.float64) - trained.mean - exact
    whole = (len(streams), -1)
    scale = np.full(defense.epochs * len(rows), defense.noise_scale(trained.scale))
    return NoisedSteps(shown.reshape(whole)), StepsPair(
        absent=(offsets[0][rows] - learned).reshape(whole),
        present=(offsets[1][rows] - learned).reshape(whole),
        scale=scale,
        gaussian=False,
        bound=float(np.float32(defense.error_bound)),  # as the kernel clamps
        grid=grid(defense.noise_scale(trained.scale)),
    )


def observed_rounds(
    defense: SgdSettings,
    before: FactorRows,
    after: FactorRows,
    trained: FactorRows,
    streams: Streams,
) -> Iterator[Part]:
    """Yield each round's noised sums at the items of the one user in whom two data sets differ.

    The observer knows what all other users sent, so it is subtracted. If users are sampled, the
    observer does not know whether the target user took part. The laws are then those of a round in
    which they did, and the likelihood ratio is only a score, not the true ratio.

    Args:
        defense: the corrected form.
        before: data set `D`.
        after: data set `D'`.
        trained: the one of the two to train on.
        streams: up to 16 trials.

    Raises:
        ConfigError: the data sets differ in more than one user.
        RunError: a training diverged.
    """
    user = _one_user(before, after)
    both = [_only(rows, user) for rows in (before, after)]
    block = defense.drawn(trained, streams)
    counterfactuals = [
        FactorBlock(block.users[user : user + 1].copy(), block.items, block.trials, block.count)
        for _ in both
    ]
    items = np.union1d(both[0].items, both[1].items)
    deviation = defense.noise_deviation(before.n_items)
    scale = np.full(len(items) * (defense.dimensions + 1), deviation)
    others = np.zeros(block.items.size)
    which, step = int(trained is after), grid(deviation)
    keep = np.float32(1) - np.float32(defense.item_learning_rate) * np.float32(defense.decay)

    def at_items(whole: NDArray[np.floating]) -> NDArray[np.float64]:
        picked = whole.reshape(block.items.shape)[items][:, :, : len(streams)]
        return picked.reshape(-1, len(streams)).T.astype(np.float64)

    for t in range(defense.epochs):
        parts = []
        for rows, counterfactual in zip(both, counterfactuals, strict=True):
            part = np.zeros(block.items.size)
            sum_clipped(defense, rows, counterfactual, part)
            parts.append(at_items(part))
        start = block.items.copy()
        run_round(defense, trained, block, streams, t, others)
        # v' = keep v + η_v (sum + noise)
        noised = (at_items(block.items) - keep * at_items(start)) / defense.item_learning_rate
        noised = on_grid(noised, step)
        # 1 in the trials in which the target user took part in this round.
        part_taken = taking_part(defense, trained.n_users, streams, t)[user, : len(streams), None]
        yield (
            NoisedSteps(noised - at_items(others) + part_taken * parts[which]),
            StepsPair(parts[0], parts[1], scale, gaussian=True, grid=step),
        )


def _one_user(before: FactorRows, after: FactorRows) -> int:
    if before.n_users != after.n_users or before.mean != after.mean:
        raise ConfigError(
            "the two data sets have different users or means b_0: keep the indices of the users"
        )
    found = []
    for user in range(before.n_users):
        a, b = _only(before, user), _only(after, user)
        if not (np.array_equal(a.items, b.items) and np.array_equal(a.values, b.values)):
            found.append(user)
    if len(found) != 1:
        raise ConfigError(
            f"the two data sets differ in {len(found)} users: use two that differ in one"
        )
    return found[0]


def _only(rows: FactorRows, user: int) -> FactorRows:
    """Return the rows of one user, who becomes user 0."""
    own = slice(int(rows.start[user]), int(rows.start[user + 1]))
    count = own.stop - own.start
    return FactorRows(
        start=np.array([0, count], np.int64),
        users=np.zeros(count, np.int32),
        items=rows.items[own],
        values=rows.values[own],
        n_items=rows.n_items,
        mean=rows.mean,
        scale=rows.scale,
    )
