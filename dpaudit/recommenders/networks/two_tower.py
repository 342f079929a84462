"""Two towers: what is known of a user and of an item, made into factors of one space.

Yi et al. 2019, Sampling-bias-corrected neural modeling for large corpus item recommendations,
doi:10.1145/3298689.3346996.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from torch import Tensor

from dpaudit.recommenders.networks.pairs import Factorisation
from dpaudit.recommenders.networks.stack import Array, Initial, applied, linear


class TwoTower(Factorisation):
    """Models whose score of (u, i) is `b_i + <f(u), g(i)>` (Yi et al. 2019, section 3).

    The tower f has a layer of `2 d` rectified units and one of `d` units. Its inputs are `d`
    factors of the user's own and the user's features, of `columns_of`; g is likewise. The loss is
    that of `Pairs`, not a softmax over a batch.
    """

    def prepare(self) -> None:
        """Encode features; they are those of the whole data set, in each training alike."""
        super().prepare()
        first = self.data[0]
        frames = (first.user_features, self.users), (first.item_features, self.items)
        self._features = [columns_of(frame, count) for frame, count in frames]

    def initial(self, source: np.random.Generator) -> Initial:
        """Draw factors and layers; biases are 0."""
        d, parameters = self.settings.dimensions, dict(super().initial(source))
        for name, features in zip(("users", "items"), self._features, strict=True):
            parameters |= linear(source, d + features.shape[1], 2 * d, f"{name}.0")
            parameters |= linear(source, 2 * d, d, f"{name}.1")
        return parameters

    def factors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the outputs of both towers, and biases; see `Factorisation.factors`."""
        own = super().factors()
        users, items = (
            self._tower(name, factors, features)
            for name, factors, features in zip(
                ("users", "items"), own, self._features, strict=False
            )
        )
        return users, items, own[2]

    def _tower(self, name: str, factors: Tensor, features: Array) -> Tensor:
        """Return the output of a tower for all users or items: a batch has most of them."""
        known = self.tensor(features).expand(len(factors), -1, -1)
        hidden = applied(self.parameters, f"{name}.0", torch.cat([factors, known], 2)).relu()
        return applied(self.parameters, f"{name}.1", hidden)


def columns_of(frame: Any, count: int) -> Array:
    """Return features as numbers `(count, F)`.

    A column of numbers is shifted and scaled to mean 0 and variance 1, with 0 where it is missing.
    Any other is one column for each of its values, 1 where a row has it.

    Args:
        frame: a data frame of `count` rows; None for no features.
        count: the number of users or items.
    """
    columns = [np.empty((count, 0), np.float32)]
    for name in [] if frame is None else frame.columns:
        column = frame[name]
        if is_numeric_dtype(column) and not is_bool_dtype(column):
            values = column.to_numpy(np.float64, na_value=np.nan)
            spread = np.nanstd(values) if np.isfinite(values).any() else 0.0
            centred = (values - np.nanmean(values)) / spread if spread > 0 else np.zeros(count)
            columns.append(np.nan_to_num(centred)[:, None].astype(np.float32))
        else:
            texts = column.astype("string").fillna("").to_numpy(str)
            columns.append((texts[:, None] == np.unique(texts)).astype(np.float32))
    return np.hstack(columns)
