"""The probabilistic neighbourhood model by noised gradient descent (Wang & Tang 2017, §3).

**Algorithm 1's assumption on its denominators.** `ΔF = 2 e_max φ/C` bounds a gradient's coordinate
only if `|S_i| I_u = Σ_j |s_ij| ≥ C`. The algorithm assumes this and never checks it. Here the
training of some rows is repeated and its denominators below C are counted, so the training
itself is not slowed down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.claim import Assumption, Claim, Variant
from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Estimate
from dpaudit.core.memory import check_memory
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import NoisedSteps, Observer, SimilarityRows, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses import observers, training_checks
from dpaudit.defenses.neighborhood.similarity import (
    Batches,
    Floats,
    Neighborhood,
    SimilarityData,
    SimilarityDefense,
    Slope,
    item_means,
    middle_means,
    moved_rows,
)
from dpaudit.defenses.precision import LAPLACE_EXCESS, check_pure, grid, kept_epsilon, on_grid
from dpaudit.kernels import exact_noise
from dpaudit.kernels import neighborhood as kernels
from dpaudit.kernels.lane_noise import trial_words
from dpaudit.kernels.lanes import LANES

# The share by which single precision may round down a sum that equals C.
_ROUNDING = 1e-5


# The number of evenly spread rows of similarities that are checked, and of trainings of each.
_ROWS, _TRAININGS = 200, 4


@dataclass(frozen=True, eq=False)
class Shortfall:
    """How often one step's denominators were below C.

    Attributes:
        step: t, from 1 on.
        below: the number of predictions with `Σ_j |s_ij| < C` in each trial `(W,)`.
        of: the number of predictions: training ratings of users with at least one other rating.
        least: the smallest denominator in each trial `(W,)`; inf without predictions.
    """

    step: int
    below: NDArray[np.int64]
    of: int
    least: NDArray[np.float64]

    @property
    def share(self) -> float:
        """The share of predictions below C, averaged over the trials; 0 without predictions."""
        return float(self.below.mean()) / max(self.of, 1)


def shortfalls(
    defense: SgdSimilarity,
    prepared: SimilarityData,
    streams: Streams,
    items: Sequence[int] | NDArray[np.int32] | None = None,
) -> tuple[Shortfall, Shortfall]:
    """Count the denominators below C at the first step and at the last.

    With mini-batches, all ratings that a step may draw are counted, whether drawn or not.

    Args:
        defense: the algorithm, with C.
        prepared: the training data.
        streams: the trials.
        items: the rows to check, at least one; all unless given.

    Raises:
        NoModelError: a training diverged.
    """
    rows = range(prepared.n_items) if items is None else items
    parts = []
    for part in training_checks.lane_blocks(streams):
        batches = defense.batches(prepared, part)
        parts.append([_row(defense, prepared, int(item), part, batches) for item in rows])
    first, last = (
        _shortfall(step, [[row[place] for row in part] for part in parts])
        for place, step in enumerate((1, defense.steps))
    )
    return first, last


def _row(
    defense: SgdSimilarity,
    prepared: SimilarityData,
    item: int,
    part: Streams,
    batches: Batches | None,
) -> tuple[Shortfall, Shortfall]:
    """Count one row's denominators in the trials of one block, at both steps."""
    counts = []
    # Step t predicts from the iterate before it.
    iterates = defense.iterates(prepared, item, part, batches)
    for t, row in enumerate(islice(iterates, defense.steps), 1):
        if t in (1, defense.steps):
            sums = denominators(prepared, item, row[:, : len(part)], defense.neighbors)
            short = (sums < defense.weight * (1 - _ROUNDING)).sum(0)
            counts.append(Shortfall(t, short, len(sums), sums.min(0, initial=np.inf)))
    return counts[0], counts[-1]


def _shortfall(step: int, parts: list[list[Shortfall]]) -> Shortfall:
    """Combine the counts of all rows, one list per block of trials."""
    return Shortfall(
        step=step,
        below=np.concatenate([np.sum([row.below for row in part], axis=0) for part in parts]),
        of=sum(row.of for row in parts[0]),
        least=np.concatenate([np.min([row.least for row in part], axis=0) for part in parts]),
    )


def denominators(
    data: SimilarityData, item: int, row: Floats, neighbors: int
) -> NDArray[np.float64]:
    """Return `Σ_j |s_ij|` over the N_k largest of each rater's other items, `(n, W)`.

    As in the gradient, items that tie with the N_k-th largest count too. Raters of no other item
    are left out.

    Args:
        data: the ratings.
        item: i.
        row: the similarities of item i `(M, W)`.
        neighbors: N_k.
    """
    users = data.raters.column[data.entries(item)]
    start, stop = data.profiles.start[users], data.profiles.start[users + 1]
    start, counts = start[stop - start > 1], (stop - start)[stop - start > 1]
    if not len(start):
        return np.empty((0, row.shape[1]))
    first = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) + np.repeat(start - first, counts)
    columns = data.profiles.column[places]
    sizes = abs(row[columns])
    sizes[columns == item] = 0
    for k in np.flatnonzero(counts - 1 > neighbors):
        segment = sizes[first[k] : first[k] + counts[k]]
        kth = np.partition(segment, -neighbors, axis=0)[-neighbors]
        segment[segment < kth] = 0
    sums: NDArray[np.float64] = np.add.reduceat(sizes, first, axis=0, dtype=np.float64)
    return sums


# What removing "paranoid" records is for, section 3. Which records those are depends on the model,
# which changes in every step, and on ratings, which a removal would show: none is removed.
_NEAR = "|r_uj − r̂_ui I_uj| of at most the scale's width (no “paranoid” record), not enforced"
# The least initial similarity: one of 0 would enter no prediction and never change its sign.
_LEAST = 1e-3


@parameters(frozen=True, config=STRICT)
class SgdSimilarity(SimilarityDefense):
    """Item-item similarities learned by gradient descent with Laplace noise on every coordinate.

    **Published**, Algorithm 1. Every similarity starts at β s_1. For t = 1 … K,

        e_ui = clamp(r̂_ui − r_ui, ±e_max),  e_max = 0.5 + (φ − 1)/(t + 1),  φ = Δr
        G = Σ_{(u,i) in Φ} e_ui ∂r̂_ui/∂S_i + Lap(γ K ΔF/ε) on every coordinate,  ΔF = 2 e_max φ/C
        S ← S − η (β G + λ S)

    where Φ is a uniform sample of a share γ of the ratings, drawn anew in every step and trial. Its
    claim, Theorem 1, is false for two reasons. First, ΔF bounds one coordinate of a rater's
    gradient. But a rating changes the rater's whole gradient in its item's row and, as a feature,
    the rater's whole gradient in the row of every other item that they rated. Second, sampling
    multiplies ε by γ only if the ε of a step is small and only one drawn rating depends on the
    record, not all ratings of its user. `|S_i| I_u ≥ C` is assumed and never enforced; `Slope.of`
    returns its least value. So is `|r_uj − r̂_ui I_uj| ≤ φ`, for which the paper removes "paranoid"
    records and does not say how.

    **Corrected** protects whole users, with adjacency `user-replace`. In each of a user's `n_u`
    rows the gradient is clipped to the L1 norm `c/n_u`, so all rows together have an L1 norm of at
    most c. With `Lap(2c/ε_0)` on every coordinate, a step on all users has ε_0. A step on a uniform
    sample of fixed size, a share γ of the users, has `ln(1 + γ (e^{ε_0} − 1))`: the law given a
    batch with the user is within ε_0 both of the law with the user's replacement and of the law
    with another user in their place. So K steps have ε for

        ε_0 = ln(1 + (e^{ε/K} − 1)/γ).

    A gradient is clipped slightly below its bound, by the error that single precision may make in
    its norm. Gradients are summed in double precision. So c also bounds the computed gradients. The
    noised sum is rounded to a public grid, and the step is computed from the rounded sum
    (`precision`).

    The sample has `⌊γ N⌋` users, so its true share is at most γ. The means are the middle of the
    scale. Who rates what is not public, since every coordinate is noised. (Clipping row by row
    loses little compared with clipping a user's whole gradient to c, since the norms of the rows
    are similar, and it leaves the rows independent.)

    Attributes:
        epsilon: ε, 1e-3 to 1e6; `inf` only for `nonprivate`.
        variant: `nonprivate` is Algorithm 1 without noise and clamp.
        steps: K, the number of updates, each on a fresh sample of rate `sampling_rate`.
        learning_rate: η.
        decay: λ.
        rescale: β. Only β s_1 and β η matter, and λ η.
        start: s_1, before the rescaling: the value of every similarity, or the mean of each row.
            Gradients are in proportion to 1/(β s_1) while the published noise is not. So a small
            β s_1 learns more, and breaks the assumption for raters of fewer than C/(β s_1) others.
        initial: `constant` starts every similarity at s_1; `cosine` starts each row in proportion
            to its cosine similarities. These are computed from the ratings without noise, so only
            `nonprivate` may use them.
        weight: C, the assumed least `|S_i| I_u`.
        neighbors: N_k.
        sampling_rate: γ, the share of the ratings in a step's sample, whose size is rounded to the
            nearest whole number; for `corrected` the share of the users, rounded down.
        more_than: only users with more ratings than this are trained on.
        clip_norm: c.
    """

    epsilon: Annotated[float, Field(ge=1e-3)]
    variant: Variant = "published"
    steps: Annotated[int, Field(ge=1, le=10_000)] = 10
    learning_rate: Annotated[float, Field(ge=1e-12, le=1e3)] = 0.1
    decay: Annotated[float, Field(ge=0, le=1)] = 0.005
    rescale: Annotated[float, Field(ge=1e-12, le=1e6)] = 10.0
    start: Annotated[float, Field(ge=1e-12, le=1e6)] = 1.0
    initial: Literal["constant", "cosine"] = "constant"
    weight: Annotated[float, Field(ge=1e-12, le=1e9)] = 10.0
    neighbors: Annotated[int, Field(ge=1, le=1_000_000)] = 500
    sampling_rate: Annotated[float, Field(ge=1e-12, le=1)] = 1.0
    more_than: Annotated[int, Field(ge=0, le=1_000_000)] = 20
    clip_norm: Annotated[float, Field(ge=1e-12, le=1e9)] = 1.0

    name: ClassVar[str] = "dpsgd-pnbm"
    quick: ClassVar[Mapping[str, Any]] = {"steps": 2, "more_than": 1}
    title: ClassVar[str] = "Item similarities learned by gradient descent with Laplace noise"
    source: ClassVar[str] = (
        "Wang & Tang, Differentially Private Neighborhood-Based Recommender Systems, 2017, "
        "Algorithm 1 and Theorem 1, doi:10.1007/978-3-319-58469-0_31"
    )

    @model_validator(mode="after")
    def _check(self) -> SgdSimilarity:
        training_checks.check_private_epsilon(self.epsilon, self.variant, "noise")
        if self.variant == "corrected":
            check_pure(self.epsilon)
        if self.variant != "nonprivate" and self.initial != "constant":
            raise ValueError(
                "initial = 'cosine' reveals the ratings without noise: use 'constant', or the "
                "variant 'nonprivate'"
            )
        return self

    def claim(self) -> Claim | None:
        """Return the claim: ε for a rating's value, or for a user if corrected."""
        if self.variant == "nonprivate":
            return None
        corrected = self.variant == "corrected"
        return Claim(
            epsilon=self.epsilon,
            delta=0.0,
            adjacency="user-replace" if corrected else "rating-replace",
            observer="iterates",
            public="the numbers of users and items, the scale"
            if corrected
            else "the means of the items, who rates what",
            assumes=()
            if corrected
            else (f"|S_i| I_u of {self.weight:g} or more, not enforced", _NEAR),
            source="class docstring" if corrected else "Wang & Tang 2017, Theorem 1",
        )

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> SimilarityData:
        """Prepare the ratings, with item means of `public` or the scale's middle if corrected.

        Raises:
            ConfigError: there are no ratings, no user has more than `more_than`, or the corrected
                form would sample no user.
            DataError: the ratings have one value.
        """
        training_checks.check_rated(self.name, ratings)
        if self.variant == "corrected" and math.floor(self.sampling_rate * ratings.n_users) < 1:
            raise ConfigError(
                f"params.sampling_rate = {self.sampling_rate:g} of {ratings.n_users} users is less "
                f"than one user: give at least {1 / max(ratings.n_users, 1):.3g}"
            )
        known = ratings if public is None else public
        means = middle_means(known) if self.variant == "corrected" else item_means(known)
        data = SimilarityData.of(ratings, means, self.more_than)
        if self.initial == "constant":
            return data
        similarity = Neighborhood(similarity="cosine").prepare(ratings).similarity
        sizes = np.maximum(
            similarity.sum(1, keepdims=True) / np.maximum((similarity > 0).sum(1), 1)[:, None],
            _LEAST,
        )
        return replace(data, initial=np.maximum(similarity / sizes, _LEAST).astype(np.float32))

    def largest_error(self, t: int, scale: Scale) -> float:
        """Return `e_max` of step t, from 1 on."""
        return 0.5 + (scale.width - 1) / (t + 1)

    def noise_scale(self, t: int, scale: Scale, n_items: int) -> float:
        """Return the scale of the Laplace noise on each coordinate of the gradient of step t.

        In the corrected form, finite precision takes a part of ε, since all M² coordinates of a
        step may differ.

        Raises:
            ConfigError: that part is too large.
        """
        if self.variant == "nonprivate":
            return 0.0
        if self.variant == "published":
            # γ K ΔF/ε,  ΔF = 2 e_max φ/C
            sensitivity = 2 * self.largest_error(t, scale) * scale.width / self.weight
            return self.sampling_rate * self.steps * sensitivity / self.epsilon
        # 2c/ε_0,  ε_0 = ln(1 + (e^{ε/K} − 1)/γ), written so that nothing overflows
        one = kept_epsilon(self.epsilon, self.steps * n_items**2 * LAPLACE_EXCESS) / self.steps
        if one > 50:
            return 2 * self.clip_norm / (one - math.log(self.sampling_rate))
        return 2 * self.clip_norm / math.log1p(math.expm1(one) / self.sampling_rate)

    def slope(self, data: SimilarityData, t: int) -> Slope:
        """Return how the gradient of step t is computed."""
        if self.variant == "nonprivate":
            return Slope(self.neighbors)
        if self.variant == "published":
            return Slope(self.neighbors, bound=self.largest_error(t, data.scale))
        return Slope(self.neighbors, clip=self.clip_norm)

    def iterates(
        self, data: SimilarityData, item: int, streams: Streams, batches: Batches | None = None
    ) -> Iterator[NDArray[np.float32]]:
        """Yield the row `(M, 16)` before the first step and after each, always the same array.

        Args:
            data: the ratings.
            item: the item of the row.
            streams: up to 16 trials.
            batches: the trials' mini-batches, if already drawn for other rows.

        Raises:
            NoModelError: a training diverged.
        """
        row = np.full((data.n_items, LANES), self.rescale * self.start, np.float32)
        if data.initial is not None:
            row *= data.initial[item][:, None]
        trials = trial_words(streams.trials)
        batches = batches or self.batches(data, streams)
        yield row
        for t in range(1, self.steps + 1):
            taken = batches.taken(t, self._units(data, item)) if batches else None
            slope, _ = self.slope(data, t).of(data, item, row, taken)
            gain = self.learning_rate * self.rescale
            noise_scale = self.noise_scale(t, data.scale, data.n_items)
            kernels.descend(
                row.reshape(-1),
                slope.reshape(-1),
                np.float32(gain),
                np.float32(self.learning_rate * self.decay),
                noise_scale,
                grid(noise_scale),
                item * data.row_space,
                2 * t,
                trials,
                streams.key,
            )
            training_checks.end_step(
                self.variant,
                self.name,
                t,
                "step",
                "lower params.learning_rate or params.rescale",
                row,
            )
            yield row

    def batches(self, data: SimilarityData, streams: Streams) -> Batches | None:
        """Return the mini-batches of these trials, None if every step uses all ratings."""
        if self.sampling_rate == 1:
            return None
        count = len(data.places)
        size = max(1, round(self.sampling_rate * count))
        if self.variant == "corrected":
            # Rounding up would sample a larger share than ε_0 is computed for.
            count = len(data.profiles.start) - 1
            size = math.floor(self.sampling_rate * count)

        def draw(trial: Streams, t: int) -> NDArray[np.bool_]:
            draws = np.empty((1, count))
            exact_noise.uniform(draws, trial.trials, 2 * t + 1, trial.key)
            return smallest(draws[0], size)

        units = "users" if self.variant == "corrected" else "ratings"
        return Batches.of(draw, streams, self.steps, count, units)

    def _units(self, data: SimilarityData, item: int) -> slice | NDArray[np.int32]:
        """Return the indices of an item's ratings (its raters if corrected) in a mini-batch."""
        entries = data.entries(item)
        return data.raters.column[entries] if self.variant == "corrected" else entries

    def revealed(
        self, data: SimilarityData, row: NDArray[np.float32], following: NDArray[np.float32], t: int
    ) -> NDArray[np.float64]:
        """Return the noised gradient of step t, computed from the iterates before and after it.

        Args:
            data: the training data, of which only the sizes and the scale are read.
            row: the iterate before the step.
            following: the iterate after the step.
            t: the step, from 1 on.
        """
        step = grid(self.noise_scale(t, data.scale, data.n_items))
        gain, pull = self.learning_rate * self.rescale, self.learning_rate * self.decay
        before, after = row.astype(np.float64), following.astype(np.float64)
        # s' = s − η λ s − gain (gradient + noise)
        return on_grid((before - after - pull * before) / gain, step)

    def observers(self) -> Mapping[str, Observer[SimilarityData]]:
        """Return the observers of every iterate and of the final model."""
        return {
            "iterates": observers.step_observer(self.observe, "each iterate"),
            **observers.release_observers(self, SimilarityRows),
        }

    counts: ClassVar[tuple[str, ...]] = ("assumption.denominator",)

    def assumptions(self, ratings: Ratings, seed: int) -> Iterator[Assumption]:
        """Yield the share of denominators below C in some rows, at the first step and the last."""
        prepared = self.prepare(ratings)
        items = np.unique(np.linspace(0, prepared.n_items - 1, _ROWS).astype(np.int32))
        streams = Streams.first(seed, "assumptions", _TRAININGS)
        first, last = shortfalls(self, prepared, streams, items)
        for counted in (first, last) if self.steps > 1 else (first,):
            words = f"counted among {counted.of} predictions in {_TRAININGS} trainings"
            estimate = Estimate.exact(counted.share, words)
            yield Assumption("assumption.denominator", estimate, counted.step)

    def observe(
        self,
        before: SimilarityData,
        after: SimilarityData,
        trained: SimilarityData,
        streams: Streams,
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """Train on one of two data sets; yield the noised gradients where they differ, row by row.

        An observer of every iterate knows the gradient in either data set, and reads the noised
        gradient off the update. With mini-batches they do not know who is in them. The laws are
        then those of full batches, and the noised gradient is divided by γ.

        Args:
            before: data set `D`.
            after: data set `D'`.
            trained: the one of the two to train on.
            streams: up to 16 trials.

        Raises:
            ConfigError: the steps do not fit the memory.
            NoModelError: a training diverged.
        """
        numbers = before.n_items * LANES
        check_memory(
            "the observed steps of a row",
            f"params.steps ({self.steps:,}) times the number of items ({before.n_items:,})",
            (self.steps + 1) * numbers * (4 + 6 * 8),
            "lower params.steps, raise data.least_raters",
        )
        batches = self.batches(trained, streams)
        for item in moved_rows(before, after):
            iterates = [row.copy() for row in self.iterates(trained, int(item), streams, batches)]
            shown, absent, present, scales, steps = [], [], [], [], []
            for t, (row, following) in enumerate(pairwise(iterates), 1):
                both = [self.slope(data, t).of(data, int(item), row)[0] for data in (before, after)]
                moved = np.flatnonzero((both[0] != both[1]).any(1))
                seen = self.revealed(before, row[moved], following[moved], t)
                shown.append(seen / self.sampling_rate)
                absent.append(both[0][moved])
                present.append(both[1][moved])
                spread = self.noise_scale(t, before.scale, before.n_items)
                scales.append(np.full(len(moved), spread / self.sampling_rate))
                steps.append(np.full(len(moved), grid(spread) / self.sampling_rate))
            count = len(streams)
            yield (
                NoisedSteps(np.concatenate(shown)[:, :count].T.astype(np.float64)),
                StepsPair(
                    absent=np.concatenate(absent)[:, :count].T.astype(np.float64),
                    present=np.concatenate(present)[:, :count].T.astype(np.float64),
                    scale=np.concatenate(scales),
                    gaussian=False,
                    grid=np.concatenate(steps),
                ),
            )


def smallest(draws: NDArray[np.float64], size: int) -> NDArray[np.bool_]:
    """Return a mask of the `size` smallest draws, ties by index: a uniform sample `(n,)`."""
    last = np.partition(draws, size - 1)[size - 1]
    taken: NDArray[np.bool_] = draws < last
    taken[np.flatnonzero(draws == last)[: size - taken.sum()]] = True
    return taken
