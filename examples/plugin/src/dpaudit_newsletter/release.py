"""What a newsletter shows, and what its reader knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Newsletter:
    """Observer `newsletter`: how often each item was rated, noised.

    Attributes:
        counts: the noised counts in each trial `(W, M)`.
    """

    counts: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Counts:
    """The exact counts in D and in D' `(M,)`, known to an attacker who knows all ratings but one.

    Attributes:
        absent: the counts in D.
        present: the counts in D'.
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]
