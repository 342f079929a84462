"""Infer membership of a rating or a user from how well a released model fits the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import LearnedDistinguisher, Ratio, Readable
from dpaudit.core.errors import InputError
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import (
    ItemFactors,
    ItemList,
    Predictions,
    Profile,
    SimilarityRows,
    TargetUser,
)
from dpaudit.kernels.normal_equations import inverses, ridged, solved

Features = NDArray[np.float64]
Lists = NDArray[np.int32]
Exact = NDArray[np.float64]
# Pseudo-count of lists with an item and of lists without it, so that no frequency is 0 or 1.
_SMOOTH = 0.5
# Pseudo-count of each place of an item, since there are many places and few lists.
_PLACES = 8.0
# Added to each feature's variance, so that a constant feature has a density too; about the rounding
# error of a prediction in single precision.
_FLOOR = 1e-12


@parameters(frozen=True, config=STRICT)
class Canary(LearnedDistinguisher):
    """Infer which version of one user's ratings a model was trained on from the losses of both.

    For a released factorisation, the user's own factors are fitted to each version of their
    ratings, and the features are the mean squared errors of the two fits. With a neighbourhood
    model, each rating of a version is predicted from its others. Predictions are used as features
    directly. One normal distribution per data set is fitted to the features of shadow models, and
    the score is the log-likelihood ratio (Carlini et al. 2022, section V, with shadow models for
    both data sets). For lists, it is the log-ratio of item frequencies in each place.

    The distributions are fitted to other trials than those that certify, so the score is valid even
    if they fit badly.

    Attributes:
        calibration: number of trials per data set that the distributions are fitted to.
        ridge: λ of the fit of the user's own factors.
        top_k: the length of a shown list.
    """

    calibration: Annotated[int, Field(ge=16, le=1_000_000)] = 256
    ridge: Annotated[float, Field(ge=1e-6, le=1e6)] = 0.1
    top_k: Annotated[int, Field(ge=1, le=10_000)] = 10

    name: ClassVar[str] = "canary"
    title: ClassVar[str] = "Fit of a released model to one user, compared with shadow models"
    source: ClassVar[str] = (
        "Carlini, Chien, Nasr, Song, Terzis, Tramèr, Membership Inference Attacks From First "
        "Principles, 2022, doi:10.1109/SP46214.2022.9833649, section V"
    )
    rank: ClassVar[int] = 3

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
        """Return the features of each trial `(W, F)`.

        They are the losses of both versions, the predictions, or the items of a list, best first.
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
        """Fit distributions of features in data sets D and D': normal, or item frequencies.

        Raises:
            InputError: too few trials of a data set, or a feature that is not finite.
        """
        if absent.dtype.kind == "i":
            return PlaceRatio.fit(absent, present)
        return NormalRatio.fit(absent, present)

    def _factor_loss(self, release: ItemFactors, version: Profile) -> Features:
        """Return the mean squared error of the user's ridge fit `(W,)`."""
        # A fixed memory order, whatever W is, because it decides how sums are rounded.
        x = release.factors[:, version.items].astype(np.float64, order="C")
        y = version.values - release.mean - x[:, :, -1]
        x[:, :, -1] = 1.0
        fitted = solved(ridged(x, self.ridge), np.einsum("wif,wi->wf", x, y)[:, :, None])[:, :, 0]
        return np.mean((y - np.einsum("wif,wf->wi", x, fitted)) ** 2, axis=1)


def _row_loss(release: SimilarityRows, version: Profile) -> Features:
    """Mean squared error of the ratings of items with released rows, from the others `(W,)`."""
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
    """The log-likelihood ratio of two normal distributions.

    Attributes:
        means: means of the features in data sets D and D' `(2, F)`.
        precisions: the inverses of their covariances `(2, F, F)`.
        log_determinants: log-determinants of the covariances `(2,)`.
    """

    means: Features
    precisions: Features
    log_determinants: Features

    @classmethod
    def fit(cls, absent: Features, present: Features) -> NormalRatio:
        """Fit the means and the shrunk covariances (Ledoit & Wolf 2004) of the features.

        Raises:
            InputError: fewer than two trials of a data set, or a feature that is not finite.
        """
        laws = []
        for features, trial in ((absent, "absent"), (present, "present")):
            if len(features) < 2:
                raise InputError(f"{trial} has {len(features)} trials: give at least 2 to fit")
            if not np.isfinite(features).all():
                raise InputError(f"{trial} holds a feature that is not finite: leave it out")
            laws.append((features.mean(0), _shrunk(features)))
        means, covariances = (np.stack(moments) for moments in zip(*laws, strict=True))
        return cls(means, *inverses(covariances + _FLOOR * np.eye(means.shape[1])))

    def score(self, features: Features) -> Features:
        """Return the log-likelihood ratio, larger where data set D' is more likely `(W,)`."""
        logs = []
        for mean, precision, log in zip(
            self.means, self.precisions, self.log_determinants, strict=True
        ):
            away = np.subtract(features, mean, order="C")
            logs.append(-0.5 * (np.einsum("wi,ij,wj->w", away, precision, away) + log))
        return logs[1] - logs[0]


def _shrunk(features: Features) -> Features:
    """The covariance `(F, F)`, shrunk towards a multiple of the identity.

    Equations (14) to (17) of Ledoit & Wolf 2004, doi:10.1016/S0047-259X(03)00096-4.
    """
    away = features - features.mean(0)
    count, size = away.shape
    covariance: Features = np.einsum("wi,wj->ij", away, away) / count
    target = np.trace(covariance) / size * np.eye(size)
    error = ((away**2).sum(1) ** 2).sum() / count**2 - (covariance**2).sum() / count
    distance = ((covariance - target) ** 2).sum()
    return (
        covariance
        if error <= 0 or distance <= 0
        else covariance + min(error / distance, 1.0) * (target - covariance)
    )


@dataclass(frozen=True, eq=False)
class PlaceRatio:
    """The log-likelihood ratio of two distributions of a list, with items taken as independent.

    Let c_ip of n lists of length k have item i in place p, and c_i = Σ_p c_ip. Then

        P(i in no place) = (n − c_i + ½) / (n + 1),
        P(i in place p) = (c_i + ½) / (n + 1) · (c_ip + 8) / (c_i + 8 k),

    and the score is the sum over all items that occurred in the fitted lists.

    Attributes:
        items: the items that occurred, increasing `(S,)`.
        base: the log-ratio of a list with none of them.
        gains: the change of the log-ratio by each item in each place `(k, S)`.
    """

    items: Lists
    base: float
    gains: Exact

    @classmethod
    def fit(cls, absent: Lists, present: Lists) -> PlaceRatio:
        """Fit smoothed frequencies to lists `(n, k)` of data sets D and D'.

        Raises:
            InputError: a data set has no list, or the lengths of lists differ.
        """
        for lists, trial in ((absent, "absent"), (present, "present")):
            if not len(lists):
                raise InputError(f"{trial} has no list: give at least 1 to fit")
        if absent.shape[1] != present.shape[1]:
            raise InputError(
                f"absent has lists of {absent.shape[1]} items and present of {present.shape[1]}: "
                "show as many in both"
            )
        items = np.unique(np.concatenate([absent, present]))
        (out, placed), (out_after, placed_after) = (
            _logs(lists, items) for lists in (absent, present)
        )
        out = out_after - out
        return cls(items, float(out.sum()), placed_after - placed - out)

    def score(self, features: Lists) -> Exact:
        """Return scores, larger where D' is more likely `(W,)`; unknown items are ignored."""
        total = np.full(len(features), self.base)
        for gains, shown in zip(self.gains, features.T, strict=True):
            place = np.minimum(np.searchsorted(self.items, shown), len(self.items) - 1)
            total += np.where(self.items[place] == shown, gains[place], 0.0)
        return total


def _logs(lists: Lists, items: Lists) -> tuple[Exact, Exact]:
    """Log-probabilities that each item is in no place `(S,)`, and in each place `(k, S)`."""
    n, k = lists.shape
    counts = np.zeros((k, len(items)))
    for place, shown in enumerate(lists.T):
        counts[place] = np.bincount(np.searchsorted(items, shown), minlength=len(items))
    inside = counts.sum(0)
    out = np.log((n - inside + _SMOOTH) / (n + 2 * _SMOOTH))
    listed = np.log((inside + _SMOOTH) / (n + 2 * _SMOOTH))
    return out, listed + np.log((counts + _PLACES) / (inside + k * _PLACES))
