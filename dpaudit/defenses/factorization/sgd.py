"""Matrix factorisation by noised stochastic gradient descent (Berlioz et al. 2015).

With what is observed of training steps on two neighbouring data sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.errors import ConfigError
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemFactors, NoisedSteps, Observer, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses import factors, observers, precision
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.factorization import sgd_training
from dpaudit.defenses.training_checks import end_step, lane_blocks
from dpaudit.kernels.factorization import single_model as factor_model
from dpaudit.kernels.factorization.subsets import Subsets, lane_lists
from dpaudit.kernels.lanes import LANES


class ClippedRounds(observers.ObservedTraining["_Counterfactual"]):
    """The trainings of up to 16 trials, with the target user's clipped gradients on D and on D'.

    Each round shows the noised sums at the items of the one user in whom D and D' differ. The
    observer knows what all other users sent, so it is subtracted. If users are sampled, the
    observer does not know whether the target user took part. The laws are then those of a round in
    which they did, and the likelihood ratio is only a score, not the true ratio.
    """

    def __init__(
        self,
        defense: sgd_training.SgdSettings,
        before: factors.FactorRows,
        after: factors.FactorRows,
        trained: factors.FactorRows,
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

    def submit(self) -> observers.ObservedRound:
        """Run a round, and return the noised sum less what all other users sent."""
        defense, block, streams = self._defense, self._block, self._streams
        parts = [
            self._at_items(counterfactual.clipped()) for counterfactual in self.counterfactuals
        ]
        start = block.items.copy()
        sgd_training.run_round(defense, self._trained, block, streams, self._done, self._others)
        # v' = keep v + η_v (sum + noise)
        keep = np.float32(1) - np.float32(defense.item_learning_rate) * np.float32(defense.decay)
        moved = self._at_items(block.items) - keep * self._at_items(start)
        step = precision.grid(self._deviation)
        noised = precision.on_grid(moved / defense.item_learning_rate, step)
        # 1 in the trials in which the target user took part in this round.
        took_part = sgd_training.taking_part(defense, self._trained.n_users, streams, self._done)
        took_part = took_part[self._user, : len(streams), None]
        self._done += 1
        shown = noised - self._at_items(self._others) + took_part * parts[self._which]
        scale, steps = (np.full(shown.shape, value) for value in (self._deviation, step))
        return observers.ObservedRound(shown, parts[0], parts[1], scale, steps)

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
        self,
        defense: sgd_training.SgdSettings,
        rows: factors.FactorRows,
        block: factors.FactorBlock,
        user: int,
    ) -> None:
        self._defense, self.rows = defense, rows
        user_side = block.users[user : user + 1].copy()
        self._block = factors.FactorBlock(user_side, block.items, block.trials, block.count)

    def clipped(self) -> NDArray[np.float64]:
        """Fit the user's factors to the published items, and return the clipped gradient."""
        part = np.zeros(self._block.items.size)
        sgd_training.sum_clipped(self._defense, self.rows, self._block, part)
        return part

    def learn(self) -> None:
        """Leave the factors as they are: each gradient fits them first."""


def _one_user(before: factors.FactorRows, after: factors.FactorRows) -> int:
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


def _only(rows: factors.FactorRows, user: int) -> factors.FactorRows:
    """Return the rows of one user, who becomes user 0."""
    part = slice(int(rows.start[user]), int(rows.start[user + 1]))
    count = part.stop - part.start
    return factors.FactorRows(
        start=np.array([0, count], np.int64),
        users=np.zeros(count, np.int32),
        items=rows.items[part],
        values=rows.values[part],
        n_items=rows.n_items,
        mean=rows.mean,
        scale=rows.scale,
    )


_NOBODY = np.empty(0, np.int32)
_NOTHING = np.empty(0, np.float32)


@parameters(frozen=True, config=STRICT)
class SgdFactors(sgd_training.SgdSettings, TrainedDefense[factors.FactorRows]):
    """Matrix factorisation with biases, trained by stochastic gradient descent with noise.

    **Published** (Berlioz et al. 2015, as used by Wang & Tang 2017). There are K epochs over the
    ratings in a fixed order. The error of each rating is noised, then clamped, and drives the
    updates,

        e = clamp(r − r̂ + Lap(K Δr/ε), ±e_max),   u ← u + η (e v − λ u),   v ← v + η (e u − λ v).

    Its claim, ε for one rating's value, holds against an observer of every iterate, including the
    users' factors. A rating enters only through its own K errors. Given all that was observed
    before, each of them changes by at most Δr. Everything else is computed from the noised errors.
    Who rates what, the order and `b_0` are public by assumption.

    **Corrected** protects whole users. In each of K rounds every user fits their own factors, which
    stay with the user, to the items' factors published so far. The user's gradient for the items'
    side, as one vector, is clipped to the L2 norm c. The sum over users is published with Gaussian
    noise on every coordinate:

        v ← (1 − η_v λ) v + η_v (Σ_u cut_c(g_u) + N(0, σ² c²)).

    What a user sends is a function of their own ratings and of what was published, with norm at
    most c. So K rounds are K Gaussian mechanisms of sensitivity c if a user joins or leaves, and 2c
    if a user is replaced, each on a Poisson sample of the users with rate q. σ is the least for
    which their composition is (ε, δ)-private. `b_0` is the middle of the scale. The norm needs no
    second pass over a user's ratings: ‖g_u‖² = (‖u‖² + 1) Σ_i e_ui². The gradient is clipped
    slightly below c to allow for rounding, sums are in double precision, and the noised sum is
    rounded to a public grid before anything is computed from it (`precision`).

    Whether a training diverges depends on users' own factors, and an error would tell it. So it
    never ends in one. Numbers beyond ±2^20 are clipped (`end_step`), and a user's own step,

        u ← (u + η e v/(1 + η (‖v‖² + 1)))/(1 + η λ),

    is implicit: it does not overshoot however large η and the noise in v are.

    Attributes:
        epsilon: ε, 1e-3 to 1e6; `inf` only for `nonprivate`.
        variant: `nonprivate` is plain descent.
        dimensions: d, 1 to 1024; above 127 a multiple of 16. Models of more than 127 dimensions are
            trained one at a time and visit the popular items first. They have no corrected form.
        epochs: K, the number of passes over the ratings, or of rounds for `corrected`.
        learning_rate: η of the descent; for `corrected` that of each user's own factors.
        decay: λ.
        spread: the standard deviation of the initial factors.
        error_bound: e_max, the largest error; `nonprivate` has none.
        clip_norm: c, the largest norm of a user's gradient in a round.
        item_learning_rate: η_v, the step size of a round. An item's step is the sum over its
            raters; it overshoots if there are more than about 2/η_v of them.
        sampling_rate: q, the probability with which each user takes part in a round.
        delta: δ of the corrected claim; at least 1e-60, since normal draws end at 21 deviations.
        adjacency: the adjacency relation of the corrected claim.
    """

    def train(self, rows: factors.FactorRows, streams: Streams) -> factors.FactorModels:
        """Train the models of these trials.

        Raises:
            NoModelError: a training diverged.
        """
        if self.dimensions > factors.TOGETHER:
            factors.check_models(rows, self.dimensions, len(streams))
            blocks = [self._single(rows, trial).joined() for trial in streams.blocks(1)]
        else:
            parts = [self._together(rows, part) for part in lane_blocks(streams)]
            blocks = [(block.users, block.items) for block in parts]
        return factors.FactorModels(
            users=[users for users, _ in blocks],
            items=[items for _, items in blocks],
            trials=len(streams),
            mean=rows.mean,
            scale=rows.scale,
        )

    def _single(self, rows: factors.FactorRows, streams: Streams) -> factors.SingleModel:
        model = factors.SingleModel.drawn(rows, self.dimensions, self.spread, streams)
        visited, parts = factors.visits(rows, self.dimensions), model.parts(rows.mean)
        steps, trial = self.steps(rows.scale), int(streams.trials[0])
        for t in range(self.epochs):
            factor_model.descend(visited, parts, steps, factors.FIRST + t, trial, streams.key)
            end_step(self.variant, self.name, t + 1, "epoch", factors.STEPS_GROW, *parts[:4])
        return model

    def _together(self, rows: factors.FactorRows, streams: Streams) -> factors.FactorBlock:
        block = self.drawn(rows, streams)
        if self.variant == "corrected":
            total = np.zeros(block.items.size)
            for t in range(self.epochs):
                sgd_training.run_round(self, rows, block, streams, t, total)
        else:
            for t in range(self.epochs):
                self.descend(rows, block, streams, t, _NOBODY, _NOTHING)
        return block

    def trains_subsets(self) -> bool:
        """Return whether models are trained together, of at most 127 dimensions."""
        return self.dimensions <= factors.TOGETHER

    def train_subsets(
        self,
        ratings: Ratings,
        kept: NDArray[np.bool_],
        streams: Streams,
        public: Ratings | None = None,
    ) -> SubsetModels:
        """Train a model on each of up to 16 subsets; see `TrainedDefense.train_subsets`.

        Raises:
            ConfigError: a subset is empty, or the models are large.
            NoModelError: a training diverged.
        """
        self._check_small("trainings on subsets")
        rows = self.prepare(ratings, public)
        means = [self.prepare(ratings.only(subset), public).mean for subset in kept]
        partial = np.flatnonzero(~np.logical_and.reduce(kept, axis=0)).astype(np.int32)
        # Unused lanes repeat the last model, so that they diverge only if it does.
        lanes = np.minimum(np.arange(LANES), len(kept) - 1)
        included = np.ascontiguousarray(kept[:, partial].T[:, lanes], np.float32)
        subsets = Subsets(partial, included.reshape(-1), np.asarray(means, np.float32)[lanes])
        rows = replace(rows, subsets=subsets)
        return SubsetModels(rows, self._together(rows, streams))

    def observers(self) -> Mapping[str, Observer[factors.FactorRows]]:
        """Return the observers of every iterate and of the final model."""
        return {
            "iterates": observers.step_observer(self.observe, "each iterate"),
            **observers.release_observers(self, ItemFactors),
        }

    def check_observed(self, observer: str) -> None:
        """Check that the observer can observe a model of this size.

        Raises:
            ConfigError: the observer sees every iterate, and models this large are trained alone.
        """
        if observer == "iterates":
            self._check_small("games with observe = 'iterates'")

    def _check_small(self, what: str) -> None:
        """Refuse models too large to be trained together, which `what` needs."""
        if self.dimensions > factors.TOGETHER:
            raise ConfigError(
                f"params.dimensions = {self.dimensions}, and {what} allow at most "
                f"{factors.TOGETHER}: lower it"
            )

    def separates_ratings(self) -> bool:
        """Return whether each rating has noise of its own: true for `published`."""
        return self.variant == "published"

    def observe(
        self,
        before: factors.FactorRows,
        after: factors.FactorRows,
        trained: factors.FactorRows,
        streams: Streams,
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """Train on one of two data sets; yield the noised steps at the places where they differ.

        In the published form these are the noised errors of the ratings in which the data sets
        differ. An observer of every iterate knows r̂ − b_0 at every step. So they know a rating's
        error in either data set, each with its own b_0, and read the noised error off the updates.

        Args:
            before: data set `D`.
            after: data set `D'`.
            trained: the one of the two to train on.
            streams: up to 16 trials.

        Raises:
            ConfigError: the data sets are not neighbours under the claim, or the model is large.
            NoModelError: a training diverged.
        """
        self._check_small("observers of every iterate")
        if self.variant == "corrected":
            training = ClippedRounds(self, before, after, trained, streams)
            yield from observers.observed_steps([training], self.epochs, gaussian=True)
            return
        if not before.rates_as(after):
            raise ConfigError(
                "the claim of the published dpsgd-mf is about a rating's value: use a pair of data "
                "sets that replaces ratings"
            )
        offsets = [rows.values.astype(np.float64) - rows.mean for rows in (before, after)]
        rows = np.flatnonzero(offsets[0] != offsets[1]).astype(np.int32)
        block = self.drawn(trained, streams)
        seen = np.empty((self.epochs, len(rows), 2, LANES), np.float32)
        for t in range(self.epochs):
            self.descend(trained, block, streams, t, rows, seen[t].reshape(-1))
        exact, shown = (
            np.moveaxis(seen[:, :, part, : len(streams)], 2, 0).astype(np.float64)
            for part in (0, 1)
        )
        # r̂ − b_0, which the observer knows.
        learned = trained.values[rows].astype(np.float64) - trained.mean - exact
        whole = (len(streams), -1)
        scale = np.full(self.epochs * len(rows), self.noise_scale(trained.scale))
        yield (
            NoisedSteps(shown.reshape(whole)),
            StepsPair(
                absent=(offsets[0][rows] - learned).reshape(whole),
                present=(offsets[1][rows] - learned).reshape(whole),
                scale=scale,
                gaussian=False,
                bound=float(np.float32(self.error_bound)),  # as the kernel clamps
                grid=precision.grid(self.noise_scale(trained.scale)),
            ),
        )


@dataclass(frozen=True, eq=False)
class SubsetModels:
    """The factorisations of up to 16 trials, each trained on a subset.

    Attributes:
        rows: the rows, with the subsets.
        block: the models.
    """

    rows: factors.FactorRows
    block: factors.FactorBlock

    @cached_property
    def models(self) -> factors.FactorModels:
        """The models without their subsets."""
        return factors.FactorModels(
            users=[self.block.users],
            items=[self.block.items],
            trials=self.block.count,
            mean=self.rows.mean,
            scale=self.rows.scale,
            means=[self._subsets.means],
        )

    @property
    def _subsets(self) -> Subsets:
        if self.rows.subsets is None:
            raise TypeError("these rows have no subsets")
        return self.rows.subsets

    def predict(self, users: factors.Indices, items: factors.Indices) -> factors.Floats:
        """Predict the ratings of (user, item) pairs `(W, n)`."""
        return self.models.predict(users, items)

    def recommend(self, users: factors.Indices, k: int) -> factors.Indices:
        """Return each user's `k` best items that they have not rated `(W, n, k)`; -1 pads."""
        rows, block, scale = self.rows, self.block, self.rows.scale
        lists = np.empty((len(users), LANES, k), np.int32)
        lane_lists(
            lists,
            users,
            block.users.reshape(-1),
            block.items.reshape(-1),
            block.users.shape[1] - 1,
            (np.float32(scale.minimum), np.float32(scale.maximum)),
            rows.start,
            rows.items,
            self._subsets,
        )
        return np.ascontiguousarray(np.moveaxis(lists, 1, 0)[: block.count])
