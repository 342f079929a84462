"""Two-sample tests of a pair's submissions against as many simulated fakes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import Form, SubmissionTest, TranscriptReader
from dpaudit.attacks.federated.base import About, Numbers, Residuals, fisher
from dpaudit.core.plugin import STRICT
from dpaudit.core.streams import stream_key
from dpaudit.core.transcripts import Floats, Indices, UserItemPairs
from dpaudit.kernels import noise
from dpaudit.kernels.federated import transcripts as folds
from dpaudit.kernels.social.preference_fits import powers


@parameters(frozen=True, config=STRICT)
class TwoSample(SubmissionTest):
    """Detect real submissions by their whole distribution, not only its mean.

    The k residuals `x − F` of a pair (or x itself) are compared with k draws of `N(0, σ²I)`, or for
    two-valued submissions with k two-valued fakes.

        ks       per coordinate the Kolmogorov-Smirnov statistic `D = sup|F̂ − Ĝ|` with its exact
                 distribution for equal sizes (Gnedenko & Korolyuk 1951); coordinates are combined
                 by Fisher's method, which is conservative since D is discrete
        energy   the energy distance of Székely & Rizzo, which detects any difference of the joint
                 distribution; p is `(1 + #≥)/(1 + n)` among n simulated pairs of k fakes each,
                 which is exact and at least 1/(1 + n)

    All pairs are compared with the same n simulations, so their p-values are slightly dependent.
    Scores of `energy` are in standard deviations from the mean of the simulations with the same k.
    Two-valued submissions have p-values with `energy` only: each has one non-zero coordinate, so
    the coordinates are dependent.

    Attributes:
        statistic: see above.
        about: `fake` uses `x − F_t`, as a server that broadcast F can; `zero` uses x.
        pairs: the number of observed pairs; all of their submissions are stored.
        simulated: n of `energy`.
        seed: seed of the simulated fakes; the index of an observed pair selects its stream.
    """

    statistic: Literal["ks", "energy"] = "ks"
    about: About = "fake"
    pairs: Annotated[int, Field(ge=200, le=1_000_000)] = 1000
    simulated: Annotated[int, Field(ge=19, le=100_000)] = 999
    seed: Annotated[int, Field(ge=0, lt=2**64)] = 0

    name: ClassVar[str] = "two-sample"
    title: ClassVar[str] = "Distribution of a sequence of submissions against simulated fakes"
    source: ClassVar[str] = (
        "Székely & Rizzo, Energy statistics: A class of statistics based on distances, 2013, "
        "doi:10.1016/j.jspi.2013.03.018, section 7; Gnedenko & Korolyuk, On the maximum "
        "discrepancy between two empirical distributions, 1951"
    )
    usual: ClassVar[tuple[Form, ...]] = (
        Form({"statistic": "ks", "about": "fake"}),
        Form({"statistic": "energy", "about": "fake"}),
    )
    rank: ClassVar[int] = 3

    @property
    def most_pairs(self) -> int | None:
        """`pairs`."""
        return self.pairs

    def reader(self, pairs: UserItemPairs) -> TranscriptReader:
        """Return a new reader of these pairs."""
        if self.statistic == "ks":
            return _Kolmogorov(pairs, self.about, self.seed)
        return _EnergyDistance(pairs, self.about, self.seed, self.simulated)


class _StoredResiduals(Residuals):
    """A reader that stores every residual."""

    def __init__(self, pairs: UserItemPairs, about: About, seed: int) -> None:
        super().__init__(pairs, about)
        self.keys = {
            purpose: stream_key(seed, f"two-sample {purpose}")
            for purpose in ("own", "left", "right")
        }
        self.places: list[Indices] = []
        self.parts: list[Floats] = []

    def fold(self, place: Indices, shown: Floats, fakes: Floats) -> None:
        self.places.append(place.copy())
        self.parts.append(shown - fakes[self.pairs.items[place]])
        self.count[place] += 1

    def sequences(self) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield each pair with submissions, its residuals in order, and as many fakes `(k, d)`."""
        if not self.parts:
            return
        order = np.argsort(np.concatenate(self.places), kind="stable")
        residuals = np.concatenate(self.parts)[order]
        ends = np.cumsum(self.count)
        for pair in np.flatnonzero(self.count).tolist():
            k = int(self.count[pair])
            yield pair, residuals[ends[pair] - k : ends[pair]], self.draw("own", pair, k)

    def draw(self, purpose: str, trial: int, count: int) -> Floats:
        """Draw residuals of fakes `(count, d)`; a larger count has the same first rows."""
        pairs = self.pairs
        flat = np.empty((1, count * pairs.dimensions), np.float32)
        noise.normal(flat, np.array([trial], np.int64), 0, self.keys[purpose])
        normal = flat.reshape(count, pairs.dimensions)
        if pairs.level is None:
            return normal * np.float32(pairs.sigma)
        # By symmetry the index of the largest coordinate and its sign are uniform.
        rows, sent = np.arange(count), np.abs(normal).argmax(1)
        drawn = np.zeros_like(normal)
        drawn[rows, sent] = np.copysign(np.float32(pairs.level), normal[rows, sent])
        return drawn


class _Kolmogorov(_StoredResiduals):
    def judge(self) -> tuple[Numbers, Numbers]:
        p_values = np.ones((len(self.pairs), self.pairs.dimensions))
        steps = np.empty(self.pairs.dimensions, np.int32)
        for pair, shown, drawn in self.sequences():
            left, right = np.sort(shown.T, axis=1), np.sort(drawn.T, axis=1)
            folds.kolmogorov_steps(left, right, steps)
            p_values[pair] = _kolmogorov_tail(len(shown))[steps]
        return fisher(p_values)


@cache
def _kolmogorov_tail(k: int) -> Numbers:
    """Return `P(kD ≥ c)` of two samples of size k for `c = 0 … k` `(k + 1,)`.

    Gnedenko & Korolyuk: `2 Σ_{j ≥ 1} (−1)^{j+1} C(2k, k − jc)/C(2k, k)`, by reflection.
    """
    from scipy import special

    steps = np.arange(1, k + 1)
    tail = np.ones(k + 1)
    for c in range(1, k + 1):
        j = steps[: k // c]
        log = 2 * special.gammaln(k + 1) - special.gammaln(k - j * c + 1)
        log -= special.gammaln(k + j * c + 1)
        share = np.empty(len(log))
        powers(np.clip(log, -700.0, 0.0), share)
        tail[c] = min(1.0, 2 * float(np.sum(share * np.where(j % 2, 1, -1))))
    return tail


class _EnergyDistance(_StoredResiduals):
    any_level = True

    def __init__(self, pairs: UserItemPairs, about: About, seed: int, simulated: int) -> None:
        super().__init__(pairs, about, seed)
        self.simulated = simulated

    def judge(self) -> tuple[Numbers, Numbers]:
        scores, p_values = np.zeros(len(self.pairs)), np.ones(len(self.pairs))
        simulations = self._simulated_distances(int(self.count.max(initial=0)))
        for pair, shown, drawn in self.sequences():
            distance = _distances(np.ascontiguousarray(shown), drawn)[-1]
            null = simulations[:, len(shown) - 1]
            scores[pair] = (distance - null.mean()) / (null.std() or 1.0)
            p_values[pair] = (1 + np.count_nonzero(null >= distance)) / (1 + len(null))
        return scores, p_values

    def _simulated_distances(self, longest: int) -> Numbers:
        """Return the statistic of n simulated pairs of fakes, for every k `(n, K)`."""
        simulations = np.empty((self.simulated, longest))
        for trial in range(self.simulated):
            left, right = (self.draw(purpose, trial, longest) for purpose in ("left", "right"))
            simulations[trial] = _distances(left, right)
        return simulations


def _distances(left: Floats, right: Floats) -> Numbers:
    """Return the energy distance of the first k rows of two samples, k from 1 on `(K,)`."""
    distances = np.empty(len(left))
    folds.energy_distances(left, right, distances)
    return distances
