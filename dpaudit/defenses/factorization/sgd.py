"""Matrix factorisation by noised stochastic gradient descent (Berlioz et al. 2015)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.factorization.sgd_observation import ClippedRounds, observed_errors
from dpaudit.defenses.factorization.sgd_training import SgdSettings, run_rounds
from dpaudit.defenses.factorization.single_model import TOGETHER, SingleModel, check_models, visits
from dpaudit.defenses.factors import (
    FIRST,
    STEPS_GROW,
    FactorBlock,
    FactorModels,
    FactorRows,
    Floats,
    Indices,
)
from dpaudit.defenses.observers import observed_steps, release_observers, step_observer
from dpaudit.defenses.training_checks import end_step, lane_blocks
from dpaudit.kernels.factorization import single_model as factor_model
from dpaudit.kernels.factorization.subsets import Subsets, lane_lists
from dpaudit.kernels.lanes import LANES

_NOBODY = np.empty(0, np.int32)
_NOTHING = np.empty(0, np.float32)


@parameters(frozen=True, config=STRICT)
class SgdFactors(SgdSettings, TrainedDefense[FactorRows]):
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

    def train(self, rows: FactorRows, streams: Streams) -> FactorModels:
        """Train the models of these trials.

        Raises:
            NoModelError: a training diverged.
        """
        if self.dimensions > TOGETHER:
            check_models(rows, self.dimensions, len(streams))
            blocks = [self._single(rows, trial).joined() for trial in streams.blocks(1)]
        else:
            parts = [self._together(rows, part) for part in lane_blocks(streams)]
            blocks = [(block.users, block.items) for block in parts]
        return FactorModels(
            users=[users for users, _ in blocks],
            items=[items for _, items in blocks],
            trials=len(streams),
            mean=rows.mean,
            scale=rows.scale,
        )

    def _single(self, rows: FactorRows, streams: Streams) -> SingleModel:
        model = SingleModel.drawn(rows, self.dimensions, self.spread, streams)
        visited, parts = visits(rows, self.dimensions), model.parts(rows.mean)
        steps, trial = self.steps(rows.scale), int(streams.trials[0])
        for t in range(self.epochs):
            factor_model.descend(visited, parts, steps, FIRST + t, trial, streams.key)
            end_step(self.variant, self.name, t + 1, "epoch", STEPS_GROW, *parts[:4])
        return model

    def _together(self, rows: FactorRows, streams: Streams) -> FactorBlock:
        block = self.drawn(rows, streams)
        if self.variant == "corrected":
            run_rounds(self, rows, block, streams)
        else:
            for t in range(self.epochs):
                self.descend(rows, block, streams, t, _NOBODY, _NOTHING)
        return block

    def trains_subsets(self) -> bool:
        """Return whether models are trained together, of at most 127 dimensions."""
        return self.dimensions <= TOGETHER

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
        rows = replace(rows, subsets=subsets_of(kept, means))
        return SubsetModels(rows, self._together(rows, streams))

    def observers(self) -> Mapping[str, Observer[FactorRows]]:
        """Return the observers of every iterate and of the final model."""
        return {
            "iterates": step_observer(self.observe, "each iterate"),
            **release_observers(self, ItemFactors),
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
        if self.dimensions > TOGETHER:
            raise ConfigError(
                f"params.dimensions = {self.dimensions}, and {what} allow at most {TOGETHER}: "
                "lower it"
            )

    def separates_ratings(self) -> bool:
        """Return whether each rating has noise of its own: true for `published`."""
        return self.variant == "published"

    def observe(
        self, before: FactorRows, after: FactorRows, trained: FactorRows, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """Train on one of two data sets; yield the noised steps at the places where they differ.

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
            yield from observed_steps([training], self.epochs, gaussian=True)
        else:
            yield observed_errors(self, before, after, trained, streams)


def subsets_of(kept: NDArray[np.bool_], means: Sequence[float]) -> Subsets:
    """Return the subsets of up to 16 models as the kernels read them.

    Args:
        kept: the rows of each model `(W, R)`.
        means: its `b_0` `(W,)`.
    """
    rows = np.flatnonzero(~np.logical_and.reduce(kept, axis=0)).astype(np.int32)
    # Unused lanes repeat the last model, so that they diverge only if it does.
    lanes = np.minimum(np.arange(LANES), len(kept) - 1)
    included = np.ascontiguousarray(kept[:, rows].T[:, lanes], np.float32)
    return Subsets(rows, included.reshape(-1), np.asarray(means, np.float32)[lanes])


@dataclass(frozen=True, eq=False)
class SubsetModels:
    """The factorisations of up to 16 trials, each trained on a subset.

    Attributes:
        rows: the rows, with the subsets.
        block: the models.
    """

    rows: FactorRows
    block: FactorBlock

    @cached_property
    def models(self) -> FactorModels:
        """The models without their subsets."""
        return FactorModels(
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

    def predict(self, users: Indices, items: Indices) -> Floats:
        """Predict the ratings of (user, item) pairs `(W, n)`."""
        return self.models.predict(users, items)

    def recommend(self, users: Indices, k: int) -> Indices:
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
