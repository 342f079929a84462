"""Matrix factorisation with biases, and of ranks: the training data and the models.

Large models are trained one trial at a time (`SingleModel`), others sixteen together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.memory import check_memory
from dpaudit.core.releases import ItemFactors
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Csr, Ratings, Scale
from dpaudit.defenses.training_checks import UserRows, check_predictions, columns_of
from dpaudit.kernels import noise
from dpaudit.kernels.factorization import sixteen_models as kernels
from dpaudit.kernels.factorization.single_model import Model
from dpaudit.kernels.factorization.sixteen_models import Visits
from dpaudit.kernels.factorization.subsets import Subsets
from dpaudit.kernels.lane_noise import Source, trial_words
from dpaudit.kernels.lanes import LANES, aligned
from dpaudit.kernels.top_k import best

Floats = NDArray[np.float32]
Indices = NDArray[np.int32]
M = TypeVar("M", "FactorModels", "RankingModels")

# Steps of the noise source: USERS and ITEMS draw the initial factors, training starts at FIRST.
USERS, ITEMS, FIRST = 0, 1, 2

# The cause and remedy in the message about a diverged descent.
STEPS_GROW = (
    "its steps grow instead of shrinking; lower params.learning_rate (or item_learning_rate), or "
    "raise decay"
)


# Numbers gathered at a time from either side: 16 MiB.
_GATHERED = 2**22


@dataclass(frozen=True, eq=False)
class FactorRows(UserRows):
    """The ratings of a factorisation.

    Attributes:
        mean: `b_0`.
        subsets: the rows and the `b_0` of each of 16 models that are trained together; all rows and
            `mean` if None.
    """

    mean: float
    subsets: Subsets | None = None

    @property
    def visits(self) -> kernels.Visits:
        """The rows in their order."""
        return kernels.Visits(self.users, self.items, self.values)

    @classmethod
    def of(cls, ratings: Ratings, mean: float) -> FactorRows:
        """Build the rows of `ratings`; `mean` is `b_0`."""
        return cls(**columns_of(ratings), mean=mean)


@dataclass(frozen=True, eq=False)
class FactorBlock:
    """Up to 16 models in training, one per SIMD lane.

    Attributes:
        users: the users' factors, then their bias, `(N, d + 1, 16)`.
        items: the items' factors, then their bias, `(M, d + 1, 16)`.
        trials: the trials' indices as words for the noise source.
        count: the number of lanes that are trials.
    """

    users: Floats
    items: Floats
    trials: NDArray[np.uint32]
    count: int

    def models(self, mean: float = 0.0) -> kernels.Models:
        """Return the models as kernels take them; `mean` is `b_0`."""
        users, items = self.users.reshape(-1), self.items.reshape(-1)
        return kernels.Models(users, items, self.users.shape[1] - 1, np.float32(mean))

    @classmethod
    def drawn(
        cls, rows: FactorRows, size: int, spread: float, streams: Streams, first: int = 0
    ) -> FactorBlock:
        """Draw initial models: factors from `N(0, spread²)`, biases 0.

        Args:
            rows: the ratings.
            size: d.
            spread: the standard deviation of the factors.
            streams: up to 16 trials.
            first: the first step of the noise source to use.

        Raises:
            ConfigError: the models do not fit the memory.
        """
        check_factors(rows.n_users, rows.n_items, size, 4 * LANES, f"{LANES} trials together")
        trials = trial_words(streams.trials)
        sides = []
        for count, step in ((rows.n_users, USERS), (rows.n_items, ITEMS)):
            side = aligned(count, size + 1, LANES)
            variance = np.full(count, spread**2)
            source = Source(first + step, trials, streams.key)
            kernels.settle(side.reshape(-1), size, variance, source)
            side[:, size] = 0
            sides.append(side)
        return cls(sides[0], sides[1], trials, len(streams))


@dataclass(frozen=True, eq=False)
class FactorModels:
    """Trained factorisations of W trials: `r̂_ui = b_0 + b_u + a_u b_i + u·v`, clipped to the scale.

    Attributes:
        users: for each block of trials the users' factors, then their bias, `(N, d + 1, L)`. L is
            16, or 1 for models that are trained one at a time.
        items: for each block the items' factors, then their bias, `(M, d + 1, L)`.
        trials: W.
        mean: `b_0`.
        scale: the rating scale.
        shares: `a_u`, for each block `(N, L)`; None if all are 1.
        means: `b_0` of each trial, for each block `(L,)`; None if all are `mean`.
    """

    users: Sequence[Floats]
    items: Sequence[Floats]
    trials: int
    mean: float
    scale: Scale
    shares: Sequence[Floats] | None = None
    means: Sequence[Floats] | None = None

    @classmethod
    def single(
        cls, users: Floats, items: Floats, dimensions: int, mean: float, scale: Scale
    ) -> FactorModels:
        """Build one model without biases from the first `dimensions` columns of both sides."""

        def side(factors: Floats) -> Floats:
            kept = factors[:, :dimensions]
            return np.column_stack([kept, np.zeros(len(kept), np.float32)])[:, :, None]

        return cls([side(users)], [side(items)], 1, mean, scale)

    def predict(self, users: Indices, items: Indices) -> Floats:
        """Predict the ratings of (user, item) pairs `(W, n)`.

        Raises:
            ConfigError: the predictions do not fit the memory.
        """
        check_predictions(self.trials, len(users))
        lanes = self.users[0].shape[2]
        shown = np.empty((len(self.users) * lanes, len(users)), np.float32)
        for block, (left, right) in enumerate(zip(self.users, self.items, strict=True)):
            part = shown[block * lanes : (block + 1) * lanes]
            mean = self.mean if self.means is None else self.means[block][:, None]
            pairs_at_once = max(1, _GATHERED // left[0].size)
            for start in range(0, len(users), pairs_at_once):
                pairs = slice(start, start + pairs_at_once)
                u, v = left[users[pairs]], right[items[pairs]]
                dot = np.einsum("nfw,nfw->wn", u[:, :-1], v[:, :-1])
                biases = v[:, -1]
                if self.shares is not None:
                    biases = biases * self.shares[block][users[pairs]]
                part[:, pairs] = mean + (u[:, -1] + biases).T + dot
        predictions = shown[: self.trials]
        return np.clip(predictions, self.scale.minimum, self.scale.maximum, out=predictions)

    def public(self, items: Indices) -> ItemFactors:
        """Return the published part: the factors and bias of every item; `items` is ignored."""
        whole = np.concatenate([np.moveaxis(block, 2, 0) for block in self.items])
        return ItemFactors(whole[: self.trials], self.mean)


@dataclass(frozen=True, eq=False)
class RankingModels:
    """Factorisations of W trials that rank items by `u_i · v_j`.

    Attributes:
        users: U of each trial `(N, size)`, zero beyond the dimensions.
        items: V of each trial `(M, size)`, zero beyond the dimensions.
        dimensions: d.
    """

    users: Sequence[Floats]
    items: Sequence[Floats]
    dimensions: int

    def predict(self, users: Indices, items: Indices) -> Floats:
        """Return the scores `u · v` of pairs of a user and an item `(W, n)`, on no rating scale."""
        scores = np.empty((len(self.users), len(users)), np.float32)
        at_once = _GATHERED // self.users[0].shape[1]
        for row, left, right in zip(scores, self.users, self.items, strict=True):
            for start in range(0, len(users), at_once):
                pairs = slice(start, start + at_once)
                row[pairs] = np.einsum("nf,nf->n", left[users[pairs]], right[items[pairs]])
        return scores

    def top(self, users: Indices, k: int, seen: Csr) -> Indices:
        """Return the k items with the largest scores among those that each user has not seen.

        Args:
            users: the users of the lists `(n,)`.
            k: the length of a list, at least 1.
            seen: the items that each user has seen, increasing: those they hold,
                `Ratings.by_user`.

        Returns:
            `(W, n, k)`, best first; with equal scores, the lower item index is first. Lists that
            run out of items are filled with −1.
        """
        ranked = np.empty((len(self.users), len(users), k), np.int32)
        scores = np.empty((len(users), k), np.float32)
        for lists, left, right in zip(ranked, self.users, self.items, strict=True):
            best(
                users, left.reshape(-1), right.reshape(-1), left.shape[1], seen.start,
                seen.column, lists, scores,
            )  # fmt: skip
        return ranked

    def public(self, items: Indices) -> ItemFactors:
        """Return the published part: every item's factors, whatever `items`, with bias 0."""
        factors = np.stack([right[:, : self.dimensions] for right in self.items])
        return ItemFactors(np.pad(factors, ((0, 0), (0, 0), (0, 1))), 0.0)


def joined(models: Sequence[M]) -> M:
    """Join models, each of one trial and without shares or means, into one, in their order."""
    users, items = (
        [factors for model in models for factors in getattr(model, side)]
        for side in ("users", "items")
    )
    count: Any = {"trials": len(models)} if isinstance(models[0], FactorModels) else {}
    return replace(models[0], users=users, items=items, **count)


def check_factors(users: int, items: int, dimensions: int, bytes_each: int, trained: str) -> None:
    """Check that the factors and biases of all users and items fit the memory.

    Args:
        users: N.
        items: M.
        dimensions: d.
        bytes_each: the bytes of one coordinate of a user or item, in all models and copies.
        trained: how models are trained, for the message, such as `one trial at a time`.

    Raises:
        ConfigError: they do not fit.
    """
    check_memory(
        f"the factors of models that train {trained}",
        f"the number of users and items ({users + items:,}) times params.dimensions "
        f"({dimensions}) + 1",
        bytes_each * (users + items) * (dimensions + 1),
        "lower params.dimensions, raise data.least_raters",
    )


def width(dimensions: int) -> int:
    """Return the row length for d factors: the least power of two that is at least max(d, 16)."""
    return max(LANES, 1 << (dimensions - 1).bit_length())


# The largest number of dimensions at which sixteen models are trained together. Factors of larger
# models no longer fit the caches, and one model's coordinates fill the lanes.
TOGETHER = 127

# Size of a group of items that are visited together, in numbers: half of a second-level cache.
_NEAR = 2**17


@dataclass(frozen=True, eq=False)
class SingleModel:
    """One model in training.

    Attributes:
        users: the users' factors `(N, d)`.
        items: the items' factors `(M, d)`.
        user_bias: the users' biases `(N,)`.
        item_bias: the items' biases `(M,)`.
    """

    users: Floats
    items: Floats
    user_bias: Floats
    item_bias: Floats

    @classmethod
    def drawn(
        cls, rows: FactorRows, size: int, spread: float, streams: Streams, first: int = 0
    ) -> SingleModel:
        """Draw the initial model of the only trial of `streams`; see `FactorBlock.drawn`."""

        def side(count: int, step: int) -> Floats:
            factors = aligned(count, size)
            noise.normal(factors.reshape(1, -1), streams.trials, first + step, streams.key)
            factors *= np.float32(spread)
            return factors

        return cls(
            users=side(rows.n_users, USERS),
            items=side(rows.n_items, ITEMS),
            user_bias=np.zeros(rows.n_users, np.float32),
            item_bias=np.zeros(rows.n_items, np.float32),
        )

    def parts(self, mean: float) -> Model:
        """Return the model as kernels take it; `mean` is `b_0`."""
        users, items = self.users.reshape(-1), self.items.reshape(-1)
        size = self.users.shape[1]
        return Model(users, items, self.user_bias, self.item_bias, size, np.float32(mean))

    def joined(self) -> tuple[Floats, Floats]:
        """Return the users' factors, then their bias, `(N, d + 1, 1)`, and the items' likewise."""
        users = np.column_stack([self.users, self.user_bias])
        items = np.column_stack([self.items, self.item_bias])
        return users[:, :, None], items[:, :, None]


def visits(rows: FactorRows, size: int) -> Visits:
    """Return the users, items and values of the rows in the order in which a model visits them.

    Items are sorted by their number of ratings and divided into groups that fit a cache. Rows are
    visited group by group, and within a group user by user. A few items have most ratings, so most
    rows find both sides in a cache (Liu, Wang, Smola 2015, section 4).

    Args:
        rows: the ratings, by user, then item.
        size: d.
    """
    counts = np.bincount(rows.items, minlength=rows.n_items)
    ranks = np.empty(rows.n_items, np.int64)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(rows.n_items)
    group = ranks[rows.items] // max(1, _NEAR // size)
    order = np.argsort(group, kind="stable")
    return Visits(rows.users[order], rows.items[order], rows.values[order])


def check_size(size: int) -> None:
    """Check that a large number of dimensions fills the lanes.

    Raises:
        ValueError: `size` is above `TOGETHER` and not a multiple of 16.
    """
    if size > TOGETHER and size % LANES:
        raise ValueError(
            f"dimensions = {size} is no multiple of 16, which is required above {TOGETHER}: use "
            f"{-(-size // LANES) * LANES}"
        )


def check_models(rows: FactorRows, size: int, trials: int) -> None:
    """Check that models that are trained one at a time, and then kept together, fit the memory.

    Args:
        rows: the ratings.
        size: d.
        trials: the number of models.

    Raises:
        ConfigError: they do not fit.
    """
    # Two more while one is trained: without its biases beside them, and its noise.
    check_factors(
        rows.n_users, rows.n_items, size, 4 * (trials + 2), f"one at a time in {trials} trials"
    )
