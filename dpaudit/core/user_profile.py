"""One user's ratings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]


FloatArray = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Profile:
    """One user's own ratings: `items` increasing, shape `(n,)`, with their `values`."""

    items: IntArray
    values: FloatArray

    def __len__(self) -> int:
        return len(self.items)
