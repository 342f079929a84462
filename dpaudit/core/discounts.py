"""How much each place of a list counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def discounts(k: int) -> NDArray[np.float64]:
    """Return the discount of each place p = 0, 1, … of a list, 1/log2(2 + p) `(k,)`.

    Järvelin & Kekäläinen 2002, doi:10.1145/582415.582418.
    """
    return np.asarray(1 / np.log2(2 + np.arange(k)))
