"""Most popular items, from noised counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.claim import Claim, Variant
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import Observer, PreparedPair, View
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.observers import release_observers
from dpaudit.defenses.precision import check_finite, grid, rounded
from dpaudit.kernels import exact_noise
from dpaudit_newsletter.release import Counts, Newsletter

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ItemCounts:
    """How often each item was rated `(M,)`, and the rating scale."""

    counts: Numbers
    scale: Scale


@dataclass(frozen=True, eq=False)
class Popular:
    """The noised counts of each trial `(W, M)`; an item's share of the largest is its score."""

    counts: Numbers
    scale: Scale

    def predict(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> NDArray[np.float32]:
        """The same for every user, on the rating scale `(W, n)`."""
        largest = np.maximum(self.counts.max(1, keepdims=True), 1.0)
        share = np.clip(self.counts[:, items] / largest, 0.0, 1.0)
        return (self.scale.minimum + share * self.scale.width).astype(np.float32)


@parameters(frozen=True, config=STRICT)
class NoisyPopularity(TrainedDefense[ItemCounts]):
    """Recommends the items with the largest noised counts of ratings.

    Every count is released with noise `Lap(1/ε)`: one rating more or less moves one count by one,
    so all counts together are ε-differentially private (Dwork, McSherry, Nissim, Smith 2006,
    Proposition 1).

    Attributes:
        epsilon: the ε that the noise is scaled to.
        variant: `published` is the above; `nonprivate` has no noise; there is no `corrected`.
    """

    epsilon: Annotated[float, Field(ge=1e-3)]
    variant: Variant = "published"

    name: ClassVar[str] = "noisy-popularity"
    title: ClassVar[str] = "Most popular items by noised counts"
    source: ClassVar[str] = (
        "Dwork, McSherry, Nissim & Smith, Calibrating noise to sensitivity in private data "
        "analysis, 2006, doi:10.1007/11681878_14"
    )

    @model_validator(mode="after")
    def _check(self) -> NoisyPopularity:
        check_finite(self.epsilon, self.variant)
        if self.variant == "corrected":
            raise ValueError("variant 'corrected' does not exist: the published claim is true")
        return self

    def claim(self) -> Claim | None:
        """ε for one rating."""
        if self.variant == "nonprivate":
            return None
        return Claim(
            epsilon=self.epsilon,
            delta=0.0,
            adjacency="rating-add-remove",
            observer="newsletter",
            public="which items there are",
            source="Proposition 1 of the paper",
        )

    def observers(self) -> Mapping[str, Observer[ItemCounts]]:
        """Subscribers of the newsletter, and users who are shown predictions."""
        newsletter = Observer(
            shows=(Newsletter, Counts),
            views=self._newsletter,
            words="the noised count of every item",
            purpose="newsletter",
            block=1024,
        )
        return {"newsletter": newsletter, **release_observers(self, None)}

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> ItemCounts:
        """The exact counts; `public` has no say in them."""
        counts = np.bincount(ratings.item, minlength=ratings.n_items)
        return ItemCounts(counts.astype(np.float64), ratings.scale)

    def train(self, prepared: ItemCounts, streams: Streams) -> Popular:
        """The noised counts of each trial."""
        counts = np.tile(prepared.counts, (len(streams), 1))
        if self.variant == "nonprivate":
            return Popular(counts, prepared.scale)
        noise = np.empty(counts.shape)
        exact_noise.laplace(noise, streams.trials, 0, streams.key)
        # b = 1/ε; rounded to a public grid, as the low bits of a sum would tell its exact part.
        scale = 1 / self.epsilon
        shown = rounded(counts + scale * noise, grid(scale))
        return Popular(shown.astype(np.float64), prepared.scale)

    def _newsletter(
        self, pair: PreparedPair[ItemCounts], trained: ItemCounts, streams: Streams
    ) -> Iterator[View]:
        newsletter = Newsletter(self.train(trained, streams).counts)
        yield View(newsletter, Counts(pair.before.counts, pair.after.counts))
