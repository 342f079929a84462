"""The observations of a matrix factorisation's training steps on two neighbouring data sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.defenses.factorization.sgd_training import (
    SgdSettings,
    run_round,
    sum_clipped,
    taking_part,
)
from dpaudit.defenses.factors import FactorBlock, FactorRows
from dpaudit.defenses.observers import ObservedRound, ObservedTraining
from dpaudit.defenses.precision import grid, on_grid
from dpaudit.kernels.lanes import LANES


def observed_errors(
    defense: SgdSettings,
    before: FactorRows,
    after: FactorRows,
    trained: FactorRows,
    streams: Streams,
) -> tuple[NoisedSteps, StepsPair]:
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
        NoModelError: a training diverged.
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


class ClippedRounds(ObservedTraining["_Counterfactual"]):
    """The trainings of up to 16 trials, with the target user's clipped gradients on D and on D'.

    Each round shows the noised sums at the items of the one user in whom D and D' differ. The
    observer knows what all other users sent, so it is subtracted. If users are sampled, the
    observer does not know whether the target user took part. The laws are then those of a round in
    which they did, and the likelihood ratio is only a score, not the true ratio.
    """

    def __init__(
        self,
        defense: SgdSettings,
        before: FactorRows,
        after: FactorRows,
        trained: FactorRows,
        streams: Streams,
    ) -> None:
        self._user = _one_user(before, after)
        self._defense, self._trained, self._streams = defense, trained, streams
        self._block = defense.drawn(trained, streams)
        self.counterfactuals = [
            _Counterfactual(defense, _only(rows, self._user), self._block, self._user)
            for rows in (before, after)
        ]
        self._which, self._done = int(trained is after), 0
        self._items = np.union1d(
            *(counterfactual.rows.items for counterfactual in self.counterfactuals)
        )
        self._deviation = defense.noise_deviation(before.n_items)
        self._others = np.zeros(self._block.items.size)

    def submit(self) -> ObservedRound:
        """Run a round, and return the noised sum less what all other users sent."""
        defense, block, streams = self._defense, self._block, self._streams
        parts = [
            self._at_items(counterfactual.clipped()) for counterfactual in self.counterfactuals
        ]
        start = block.items.copy()
        run_round(defense, self._trained, block, streams, self._done, self._others)
        # v' = keep v + η_v (sum + noise)
        keep = np.float32(1) - np.float32(defense.item_learning_rate) * np.float32(defense.decay)
        moved = self._at_items(block.items) - keep * self._at_items(start)
        step = grid(self._deviation)
        noised = on_grid(moved / defense.item_learning_rate, step)
        # 1 in the trials in which the target user took part in this round.
        took_part = taking_part(defense, self._trained.n_users, streams, self._done)
        took_part = took_part[self._user, : len(streams), None]
        self._done += 1
        shown = noised - self._at_items(self._others) + took_part * parts[self._which]
        scale, steps = (np.full(shown.shape, value) for value in (self._deviation, step))
        return ObservedRound(shown, parts[0], parts[1], scale, steps)

    def learn(self) -> None:
        """Leave the models as they are: they learned in the round that was observed."""

    def _at_items(self, whole: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the values at the target user's items in each trial `(W, C)`."""
        trials = len(self._streams)
        picked = whole.reshape(self._block.items.shape)[self._items][:, :, :trials]
        return picked.reshape(-1, trials).T.astype(np.float64)


class _Counterfactual:
    """The target user with their ratings of one data set."""

    def __init__(
        self, defense: SgdSettings, rows: FactorRows, block: FactorBlock, user: int
    ) -> None:
        self._defense, self.rows = defense, rows
        factors = block.users[user : user + 1].copy()
        self._block = FactorBlock(factors, block.items, block.trials, block.count)

    def clipped(self) -> NDArray[np.float64]:
        """Fit the user's factors to the published items, and return the clipped gradient."""
        part = np.zeros(self._block.items.size)
        sum_clipped(self._defense, self.rows, self._block, part)
        return part

    def learn(self) -> None:
        """Leave the factors as they are: each gradient fits them first."""


def _one_user(before: FactorRows, after: FactorRows) -> int:
    if before.n_users != after.n_users or before.mean != after.mean:
        raise ConfigError(
            "the two data sets have different users or means b_0: use the same users, items and "
            "rating scale in both"
        )
    differs = np.diff(before.start) != np.diff(after.start)
    # The rows of users with as many ratings in both stand in the same order in both.
    rows, others = ~differs[before.users], ~differs[after.users]
    moved = (before.items[rows] != after.items[others]) | (
        before.values[rows] != after.values[others]
    )
    differs[before.users[rows][moved]] = True
    users = np.flatnonzero(differs)
    if len(users) != 1:
        raise ConfigError(
            f"the two data sets differ in {len(users)} users: use two that differ in one"
        )
    return int(users[0])


def _only(rows: FactorRows, user: int) -> FactorRows:
    """Return the rows of one user, who becomes user 0."""
    part = slice(int(rows.start[user]), int(rows.start[user + 1]))
    count = part.stop - part.start
    return FactorRows(
        start=np.array([0, count], np.int64),
        users=np.zeros(count, np.int32),
        items=rows.items[part],
        values=rows.values[part],
        n_items=rows.n_items,
        mean=rows.mean,
        scale=rows.scale,
    )
