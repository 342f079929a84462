"""The privacy losses of single users, for mechanisms with an ε for each user."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class PersonalLosses:
    """The ε of each user who has ratings, and their losses in draws of the model.

    Attributes:
        epsilon: ε_u: a quarter of it bounds what all ratings of the user change in the log-density
            `(N,)`.
        loss: four times what they change at the models of W trials `(N, W)`; above ε_u where
            predictions leave the range that the claim assumes.
    """

    epsilon: NDArray[np.float64]
    loss: NDArray[np.float64]
