"""Two-sample tests: a pair's submissions against as many fakes that the attacker draws himself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import SubmissionTest, TranscriptReader
from dpaudit.attacks.federated.base import About, Numbers, Residuals, fisher
from dpaudit.core.plugin import STRICT
from dpaudit.core.streams import stream_key
from dpaudit.core.transcripts import Floats, Indices, Pairs
from dpaudit.kernels import noise
from dpaudit.kernels.federated import transcripts as folds
from dpaudit.kernels.social.preference_fits import exponentials


@parameters(frozen=True, config=STRICT)
class TwoSample(SubmissionTest):
    """Tell real submissions by their whole law, not by its mean alone.

    The k residuals `x − F` of a pair (or x itself) stand against k draws of `N(0, σ²I)`; of
    two-valued submissions against k two-valued fakes.

        ks       per coordinate the statistic `D = sup|F̂ − Ĝ|` of Kolmogorov and Smirnov with its
                 exact law for equal sizes (Gnedenko & Korolyuk 1951); coordinates by Fisher's
                 method: conservative, as D has few values
        energy   the energy distance of Székely & Rizzo, which sees every difference of the joint
                 law; p is `(1 + #≥)/(1 + n)` among n pairs of k fakes each, simulated: exact, and
                 at least 1/(1 + n)

    All pairs are compared with the same n, so their p-values depend on each other a little. Scores
    of `energy` are in standard deviations from the mean of the simulated fakes of the same k.
    Two-valued submissions have p-values by `energy` alone: they are one coordinate at a time, so
    coordinates depend on each other.

    Attributes:
        statistic: see above.
        about: `fake` takes `x − F_t`, as a server does that broadcast F; `zero` takes x.
        pairs: how many it observes: it keeps all of their submissions.
        simulated: n of `energy`.
        seed: of its own draws; the place of a pair among those observed decides its stream.
    """

    statistic: Literal["ks", "energy"] = "ks"
    about: About = "fake"
    pairs: Annotated[int, Field(ge=200, le=1_000_000)] = 1000
    simulated: Annotated[int, Field(ge=19, le=100_000)] = 999
    seed: Annotated[int, Field(ge=0, lt=2**64)] = 0

    name: ClassVar[str] = "two-sample"
    title: ClassVar[str] = "Law of a sequence of submissions against simulated fakes"
    source: ClassVar[str] = (
        "Székely & Rizzo, Energy statistics: A class of statistics based on distances, 2013, "
        "doi:10.1016/j.jspi.2013.03.018, section 7; Gnedenko & Korolyuk, On the maximum "
        "discrepancy between two empirical distributions, 1951"
    )

    @property
    def most_pairs(self) -> int | None:
        """`pairs`."""
        return self.pairs

    def reader(self, pairs: Pairs) -> TranscriptReader:
        """A observer of these pairs that has seen nothing yet."""
        if self.statistic == "ks":
            return _Kolmogorov(pairs, self.about, self.seed, any_level=False)
        return _Energy(pairs, self.about, self.seed, any_level=True, simulated=self.simulated)


class _Kept(Residuals):
    """Keeps every residual."""

    def __init__(self, pairs: Pairs, about: About, seed: int, *, any_level: bool) -> None:
        super().__init__(pairs, about, any_level=any_level)
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
        """Each pair that submitted, its residuals in order and as many drawn `(k, d)`."""
        if not self.parts:
            return
        order = np.argsort(np.concatenate(self.places), kind="stable")
        residuals = np.concatenate(self.parts)[order]
        ends = np.cumsum(self.count)
        for pair in np.flatnonzero(self.count).tolist():
            k = int(self.count[pair])
            yield pair, residuals[ends[pair] - k : ends[pair]], self.draw("own", pair, k)

    def draw(self, purpose: str, trial: int, count: int) -> Floats:
        """Residuals of fakes `(k, d)`; the first of more are the same."""
        pairs = self.pairs
        flat = np.empty((1, count * pairs.dimensions), np.float32)
        noise.normal(flat, np.array([trial], np.int64), 0, self.keys[purpose])
        normal = flat.reshape(count, pairs.dimensions)
        if pairs.level is None:
            return normal * np.float32(pairs.sigma)
        # By symmetry the longest coordinate is any of them, and of either sign, evenly.
        rows, sent = np.arange(count), np.abs(normal).argmax(1)
        drawn = np.zeros_like(normal)
        drawn[rows, sent] = np.copysign(np.float32(pairs.level), normal[rows, sent])
        return drawn


class _Kolmogorov(_Kept):
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
    """`P(kD ≥ c)` of two samples of k for `c = 0 … k` `(k + 1,)`.

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
        exponentials(np.clip(log, -700.0, 0.0), share)
        tail[c] = min(1.0, 2 * float(np.sum(share * np.where(j % 2, 1, -1))))
    return tail


class _Energy(_Kept):
    def __init__(
        self, pairs: Pairs, about: About, seed: int, *, any_level: bool, simulated: int
    ) -> None:
        super().__init__(pairs, about, seed, any_level=any_level)
        self.simulated = simulated

    def judge(self) -> tuple[Numbers, Numbers]:
        scores, p_values = np.zeros(len(self.pairs)), np.ones(len(self.pairs))
        fakes = self._fakes(int(self.count.max(initial=0)))
        for pair, shown, drawn in self.sequences():
            found = np.empty(len(shown))
            folds.energy_distances(np.ascontiguousarray(shown), drawn, found)
            null, distance = fakes[:, len(shown) - 1], found[-1]
            scores[pair] = (distance - null.mean()) / (null.std() or 1.0)
            p_values[pair] = (1 + np.count_nonzero(null >= distance)) / (1 + len(null))
        return scores, p_values

    def _fakes(self, longest: int) -> Numbers:
        """The statistic of simulated pairs of fakes, of every k `(n, K)`."""
        null = np.empty((self.simulated, longest))
        for trial, row in enumerate(null):
            left, right = (self.draw(which, trial, longest) for which in ("left", "right"))
            folds.energy_distances(left, right, row)
        return null
