"""Membership of a rating or a user, judged by how well a released model fits her."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import LearnedDistinguisher, Ratio, Readable
from dpaudit.attacks.membership.list_places import PlaceRatio
from dpaudit.core.errors import InputError
from dpaudit.core.plugin import STRICT
from dpaudit.core.profile import Profile
from dpaudit.core.releases import ItemFactors, ItemList, Predictions, SimilarityRows, TargetUser
from dpaudit.kernels.normal_equations import inverses, ridged, solved

Features = NDArray[np.float64]

# Added to each feature's variance, so that one that never varies has a law too: about what rounding
# to single precision leaves of a prediction.
_FLOOR = 1e-12


@parameters(frozen=True, config=STRICT)
class Canary(LearnedDistinguisher):
    """Tell whose ratings a model was trained on by the losses of both versions of one user.

    A released factorisation is completed by her own factors, fitted to either version of her
    ratings, and either leaves a mean squared error; a neighbourhood model predicts either version
    from the rest of it. A recipient of predictions has these numbers themselves. What is seen in
    worlds trained for the purpose is fitted by one normal law for each data set, and the score is
    the ratio of the two (Carlini et al. 2022, section V, with shadow models on either side). Of
    lists, which hold no numbers, it is the ratio of the items' frequencies in each place.

    The laws are fitted to other worlds than those that certify, so the score is valid however badly
    they fit.

    Attributes:
        calibration: worlds of either data set that the laws are fitted to.
        ridge: λ of the fit of her own factors.
        top_k: the length of a list that is shown.
    """

    calibration: Annotated[int, Field(ge=16, le=1_000_000)] = 256
    ridge: Annotated[float, Field(ge=1e-6, le=1e6)] = 0.1
    top_k: Annotated[int, Field(ge=1, le=10_000)] = 10

    name: ClassVar[str] = "canary"
    title: ClassVar[str] = "Fit of a released model to one user, against worlds trained to compare"
    source: ClassVar[str] = (
        "Carlini, Chien, Nasr, Song, Terzis, Tramèr, Membership Inference Attacks From First "
        "Principles, 2022, doi:10.1109/SP46214.2022.9833649, section V"
    )

    reads: ClassVar[tuple[Readable, ...]] = (
        (ItemFactors, TargetUser),
        (SimilarityRows, TargetUser),
        (Predictions, TargetUser),
        (ItemList, TargetUser),
    )

    @property
    def fitted_on(self) -> int:
        """`calibration`."""
        return self.calibration

    @property
    def list_length(self) -> int:
        """`top_k`."""
        return self.top_k

    def features(
        self, release: ItemFactors | SimilarityRows | Predictions | ItemList, knowledge: TargetUser
    ) -> NDArray[Any]:
        """What is read off each world `(W, F)`.

        The loss of either version, the predictions, or the items of a list, best first.
        """
        if isinstance(release, ItemList):
            return release.items
        if isinstance(release, Predictions):
            return release.values.astype(np.float64)
        loss = self._factor_loss if isinstance(release, ItemFactors) else _row_loss
        return np.stack(
            [
                loss(release, version)  # type: ignore[arg-type]
                for version in (knowledge.before, knowledge.after)
                if len(version)
            ],
            axis=1,
        )

    def fit(self, absent: NDArray[Any], present: NDArray[Any]) -> Ratio:
        """The laws of features seen in worlds D and D': normal of numbers, frequencies of items.

        Raises:
            InputError: fewer than two worlds of either, or a feature that is not finite.
        """
        if absent.dtype.kind == "i":
            return PlaceRatio.fit(absent, present)
        return NormalRatio.fit(absent, present)

    def _factor_loss(self, release: ItemFactors, version: Profile) -> Features:
        """Of her ridge fit `(W,)`."""
        # In one order, whatever W: it decides how sums are rounded.
        x = release.factors[:, version.items].astype(np.float64, order="C")
        y = version.values - release.mean - x[:, :, -1]
        x[:, :, -1] = 1.0
        own = solved(ridged(x, self.ridge), np.einsum("wif,wi->wf", x, y)[:, :, None])[:, :, 0]
        return np.mean((y - np.einsum("wif,wf->wi", x, own)) ** 2, axis=1)


def _row_loss(release: SimilarityRows, version: Profile) -> Features:
    """Of her ratings of the items whose rows are seen, each predicted from the others `(W,)`."""
    centred = version.values - release.means[version.items]
    total, count = np.zeros(len(release.rows)), 0
    for place, item in enumerate(release.items):
        at = np.flatnonzero(version.items == item)
        if len(at):
            weights = release.rows[:, place, version.items].astype(np.float64, order="C")
            weights[:, at[0]] = 0
            size = np.maximum(np.abs(weights).sum(1), 1e-30)
            total += (np.einsum("wi,i->w", weights, centred) / size - centred[at[0]]) ** 2
            count += 1
    return total / max(count, 1)


@dataclass(frozen=True, eq=False)
class NormalRatio:
    """The log-likelihood ratio of two normal laws.

    Attributes:
        means: of the features in worlds D and D' `(2, F)`.
        precisions: the inverses of their covariances `(2, F, F)`.
        log_determinants: of the covariances `(2,)`.
    """

    means: Features
    precisions: Features
    log_determinants: Features

    @classmethod
    def fit(cls, absent: Features, present: Features) -> NormalRatio:
        """The laws with the features' means and their covariances, shrunk (Ledoit & Wolf 2004).

        Raises:
            InputError: fewer than two worlds of either, or a feature that is not finite.
        """
        laws = []
        for features, world in ((absent, "absent"), (present, "present")):
            if len(features) < 2:
                raise InputError(f"{world} has {len(features)} worlds: give at least 2 to fit")
            if not np.isfinite(features).all():
                raise InputError(f"{world} holds a feature that is not finite: leave it out")
            laws.append((features.mean(0), _shrunk(features)))
        means, covariances = (np.stack(each) for each in zip(*laws, strict=True))
        return cls(means, *inverses(covariances + _FLOOR * np.eye(means.shape[1])))

    def score(self, features: Features) -> Features:
        """Large where world D' is likelier `(W,)`."""
        logs = []
        for mean, precision, log in zip(
            self.means, self.precisions, self.log_determinants, strict=True
        ):
            away = np.subtract(features, mean, order="C")
            logs.append(-0.5 * (np.einsum("wi,ij,wj->w", away, precision, away) + log))
        found: Features = logs[1] - logs[0]
        return found


def _shrunk(features: Features) -> Features:
    """The covariance `(F, F)`, moved to a multiple of the identity as far as its error asks for.

    Equations (14) to (17) of Ledoit & Wolf 2004, doi:10.1016/S0047-259X(03)00096-4.
    """
    away = features - features.mean(0)
    count, size = away.shape
    found: Features = np.einsum("wi,wj->ij", away, away) / count
    target = np.trace(found) / size * np.eye(size)
    error = ((away**2).sum(1) ** 2).sum() / count**2 - (found**2).sum() / count
    distance = ((found - target) ** 2).sum()
    return (
        found
        if error <= 0 or distance <= 0
        else found + min(error / distance, 1.0) * (target - found)
    )
