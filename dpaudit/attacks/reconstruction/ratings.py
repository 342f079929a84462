"""Reconstruct sensitive ratings from a released factorisation and users' shared ratings."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import RatingReconstruction
from dpaudit.core.memory import check_memory
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemFactors
from dpaudit.data.ratings import Ratings
from dpaudit.kernels.normal_equations import inverses, solved

Indices = NDArray[np.int32]
Numbers = NDArray[np.float64]

# The largest number of entries of factor products in memory at a time.
_AT_ONCE = 2**22


@parameters(frozen=True, config=STRICT)
class Reconstruction(RatingReconstruction):
    """Fit each user to their shared ratings, then predict their private ones.

    Equation (21) of Meng et al. 2018, solved exactly for each user by ridge regression on the
    released V instead of by gradient descent:

        ũ_i = argmin_u Σ_j (r_ij − b_j − u · v_j)² + λ ‖u − ū‖²,    j over the shared ratings,

    with ū the mean of the users' fits with ū = 0, so that a user who shares little is close to an
    average one. Private ratings are predicted by `b_j + ũ_i · v_j`, clipped to the scale.

    Attributes:
        ridge: λ; near 0 it is the paper's attack.
        average: whether users are shrunk towards ū instead of 0.
    """

    ridge: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    average: bool = True

    name: ClassVar[str] = "reconstruction"
    title: ClassVar[str] = "Sensitive ratings from a released model and shared ratings"
    source: ClassVar[str] = (
        "Meng, Wang, Shu, Li, Chen, Liu, Zhang, Towards privacy preserving social recommendation "
        "under personalized privacy settings, 2018, doi:10.1007/s11280-018-0620-z, equation (21)"
    )

    def reconstruct(
        self, release: ItemFactors, shared: Ratings, users: Indices, items: Indices
    ) -> Numbers:
        """Recover the ratings of (user, item) pairs `(W, n)`.

        Args:
            release: the items' side of the models.
            shared: the ratings that are not sensitive.
            users: the user of each pair `(n,)`.
            items: the item of each pair `(n,)`.
        """
        recovered = []
        for trial in release.factors:
            factors, bias = _parts(trial, release.mean)
            fitted = self._fitted(factors, bias, shared)
            recovered.append(bias[items] + np.einsum("nf,nf->n", fitted[users], factors[items]))
        scale = shared.scale
        return np.clip(np.stack(recovered), scale.minimum, scale.maximum)

    def left_out(self, release: ItemFactors, shared: Ratings) -> float:
        """Return the leave-one-out mean squared error of shared ratings in the first trial.

        With the fit's residual `e` of a rating and `h = v' (Σ v v' + λ)⁻¹ v`, the residual of the
        fit without this rating is `e/(1 − h)`; ū is held fixed.

        Args:
            release: the items' side of the model.
            shared: the ratings; if there are none, the result is the square of half the scale.
        """
        if not len(shared):
            return (shared.scale.width / 2) ** 2
        factors, bias = _parts(release.factors[0], release.mean)
        fitted = self._fitted(factors, bias, shared)
        squares, _ = _sums(factors, bias, shared)
        inverse, _ = inverses(squares + self.ridge * np.eye(factors.shape[1]))
        total, parts = 0.0, 1 + squares[0].size * len(shared) // _AT_ONCE
        for rows in np.array_split(np.arange(len(shared)), parts):
            users, v = shared.user[rows], factors[shared.item[rows]]
            left = shared.value[rows] - bias[shared.item[rows]] - (fitted[users] * v).sum(1)
            weight = np.einsum("nf,nfg,ng->n", v, inverse[users], v)
            total += float(((left / (1 - weight)) ** 2).sum())
        return total / len(shared)

    def _fitted(self, factors: Numbers, bias: NDArray[np.float32], shared: Ratings) -> Numbers:
        """Return every user's fitted factors `(N, d)`.

        Raises:
            ConfigError: the fits do not fit the memory.
        """
        squares, products = _sums(factors, bias, shared)
        squares += self.ridge * np.eye(factors.shape[1])
        fitted: Numbers = solved(squares, products[:, :, None])[:, :, 0]
        sharing = np.diff(shared.by_user.start) > 0
        if not self.average or not sharing.any():
            return fitted
        products += self.ridge * fitted[sharing].mean(0)
        return solved(squares, products[:, :, None])[:, :, 0]


def _parts(trial: NDArray[np.float32], mean: float) -> tuple[Numbers, NDArray[np.float32]]:
    """Return the items' factors `(M, d)`, and what is added to their products `(M,)`."""
    return trial[:, :-1].astype(np.float64), trial[:, -1] + mean


def _sums(factors: Numbers, bias: NDArray[np.float32], shared: Ratings) -> tuple[Numbers, Numbers]:
    """Return `Σ v vᵀ` `(N, d, d)` and `Σ (r − b) v` `(N, d)` over each user's shared ratings."""
    d, start = factors.shape[1], shared.by_user.start
    check_memory(
        "the fit of every user by the attack 'reconstruction'",
        f"the number of users ({shared.n_users:,}) times the square of the dimensions ({d})",
        # The sums, and a copy while they are solved or inverted.
        8 * 3 * shared.n_users * d * (d + 1),
        "lower the model's params.dimensions, use fewer users",
    )
    squares = np.zeros((shared.n_users, d, d))
    products = np.zeros((shared.n_users, d))
    sharing = np.flatnonzero(np.diff(start))
    for users in np.array_split(sharing, max(1, len(shared) * d * d // _AT_ONCE)):
        if not len(users):
            continue
        first, last = start[users[0]], start[users[-1] + 1]
        v = factors[shared.item[first:last]]
        rest = shared.value[first:last] - bias[shared.item[first:last]].astype(np.float64)
        begins = start[users] - first
        squares[users] = np.add.reduceat(v[:, :, None] * v[:, None], begins)
        products[users] = np.add.reduceat(v * rest[:, None], begins)
    return squares, products
