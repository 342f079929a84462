"""What the steps of a matrix factorisation show of two neighbouring data sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.defenses.factorization.sgd_training import play_round, sum_clipped, taking_part
from dpaudit.defenses.factors import FactorBlock, FactorRows
from dpaudit.defenses.precision import grid, on_grid
from dpaudit.kernels.lanes import LANES

if TYPE_CHECKING:
    from dpaudit.defenses.factorization.sgd_settings import SgdSettings

Part = tuple[NoisedSteps, StepsPair]


def watched_errors(
    defense: SgdSettings,
    before: FactorRows,
    after: FactorRows,
    trained: FactorRows,
    streams: Streams,
) -> Part:
    """The noised errors of the ratings in which two data sets differ, in up to 16 worlds.

    An observer of every iterate knows r̂ − b_0 at every step, and so what a rating's error is in
    either data set, each with its own b_0; its noised error is read off the updates.

    Args:
        defense: the published form.
        before: world `D`.
        after: world `D'`.
        trained: what is learned from: one of the two, or some ratings of either.
        streams: the worlds.

    Raises:
        ConfigError: the data sets differ in more than the values of ratings.
        RunError: a training diverged.
    """
    same = np.array_equal(before.start, after.start) and np.array_equal(before.items, after.items)
    if not same:
        raise ConfigError(
            "the claim of the published dpsgd-mf is about a rating's value: play it on a pair "
            "that replaces ratings"
        )
    offsets = [rows.values.astype(np.float64) - rows.mean for rows in (before, after)]
    rows = np.flatnonzero(offsets[0] != offsets[1]).astype(np.int32)
    block = defense.drawn(trained, streams)
    seen = np.empty((defense.passes, len(rows), 2, LANES), np.float32)
    for t in range(defense.passes):
        defense.descend(trained, block, streams, t, rows, seen[t].reshape(-1))
    exact, shown = (
        np.moveaxis(seen[:, :, part, : len(streams)], 2, 0).astype(np.float64) for part in (0, 1)
    )
    # What the factors and biases add to b_0; the observer knows it.
    learned = trained.values[rows].astype(np.float64) - trained.mean - exact
    whole = (len(streams), -1)
    scale = np.full(defense.passes * len(rows), defense.noise_scale(trained.scale))
    return NoisedSteps(shown.reshape(whole)), StepsPair(
        absent=(offsets[0][rows] - learned).reshape(whole),
        present=(offsets[1][rows] - learned).reshape(whole),
        scale=scale,
        gaussian=False,
        bound=float(np.float32(defense.bound)),  # as the kernel clamps
        grid=grid(defense.noise_scale(trained.scale)),
    )


def watched_rounds(
    defense: SgdSettings,
    before: FactorRows,
    after: FactorRows,
    trained: FactorRows,
    streams: Streams,
) -> Iterator[Part]:
    """The noised sums of each round at the items of the one user in whom two data sets differ.

    What all others sent is known to the observer; it is taken off. Where users are sampled the
    observer does not know whether she took part: the pair is then the law of rounds in which she
    did, and the likelihood ratio a score like any other.

    Args:
        defense: the corrected form.
        before: world `D`.
        after: world `D'`.
        trained: which of the two is learned from.
        streams: the worlds, up to 16.

    Raises:
        ConfigError: the data sets differ in more than one user.
        RunError: a training diverged.
    """
    user = _one_user(before, after)
    both = [_only(rows, user) for rows in (before, after)]
    block = defense.drawn(trained, streams)
    shadows = [
        FactorBlock(block.users[user : user + 1].copy(), block.items, block.worlds, block.count)
        for _ in both
    ]
    items = np.union1d(both[0].items, both[1].items)
    deviation = defense.noise_deviation(before.n_items)
    scale = np.full(len(items) * (defense.dimensions + 1), deviation)
    others = np.zeros(block.items.size)
    mine, step = int(trained is after), grid(deviation)
    keep = np.float32(1) - np.float32(defense.item_rate) * np.float32(defense.decay)

    def at_items(whole: NDArray[np.floating]) -> NDArray[np.float64]:
        picked = whole.reshape(block.items.shape)[items][:, :, : len(streams)]
        return picked.reshape(-1, len(streams)).T.astype(np.float64)

    for t in range(defense.passes):
        parts = []
        for rows, shadow in zip(both, shadows, strict=True):
            part = np.zeros(block.items.size)
            sum_clipped(defense, rows, shadow, part)
            parts.append(at_items(part))
        start = block.items.copy()
        play_round(defense, trained, block, streams, t, others)
        # v' = keep v + η (sum + noise); the sum of the others is sum − mine
        noised = (at_items(block.items) - keep * at_items(start)) / defense.item_rate
        noised = on_grid(noised, step)
        # 1 in the worlds where she took part in this round.
        part_taken = taking_part(defense, trained.n_users, streams, t)[user, : len(streams), None]
        yield (
            NoisedSteps(noised - at_items(others) + part_taken * parts[mine]),
            StepsPair(parts[0], parts[1], scale, gaussian=True, grid=step),
        )


def _one_user(before: FactorRows, after: FactorRows) -> int:
    if before.n_users != after.n_users or before.mean != after.mean:
        raise ConfigError("the two data sets have different users: keep the indices of the users")
    found = []
    for user in range(before.n_users):
        a, b = _only(before, user), _only(after, user)
        if not (np.array_equal(a.items, b.items) and np.array_equal(a.values, b.values)):
            found.append(user)
    if len(found) != 1:
        raise ConfigError(f"the two data sets differ in {len(found)} users: one must differ")
    return found[0]


def _only(rows: FactorRows, user: int) -> FactorRows:
    """The rows of one user, who becomes user 0."""
    mine = slice(int(rows.start[user]), int(rows.start[user + 1]))
    count = mine.stop - mine.start
    return FactorRows(
        start=np.array([0, count], np.int64),
        users=np.zeros(count, np.int32),
        items=rows.items[mine],
        values=rows.values[mine],
        n_items=rows.n_items,
        mean=rows.mean,
        scale=rows.scale,
    )
