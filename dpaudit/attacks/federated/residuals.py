"""Tests of whether submissions of a federated training are fakes, by what is left without them.

A fake is `F_t + N(0, σ²I)` with fresh noise, where the server knows `F_t` before the round. So the
residuals `r = x − F_t` of a fake pair are independent draws of `N(0, σ²I)`, whatever the other
pairs submit and however `F_t` depends on earlier rounds. All p-values except those of a known
gradient assume only this. A two-valued fake is ± the level in one coordinate, with coordinate and
sign uniform, and `F_t` is zero. If fakes are gradients of made-up ratings, the server does not know
their mean; then only the ideal attacker, who knows it, has p-values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters
from scipy import special

from dpaudit.attacks.base import Form, SubmissionTest, TranscriptReader
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import FloatArray, IntArray, Round, UserItemPairs, Verdicts
from dpaudit.core.streams import stream_key
from dpaudit.kernels import noise
from dpaudit.kernels.exact_noise import minus_logs
from dpaudit.kernels.federated import transcripts as folds
from dpaudit.kernels.normal_equations import solved
from dpaudit.kernels.social.preference_fits import powers

About = Literal["zero", "fake"]
Numbers = NDArray[np.float64]

# The lower bound of p-values, so that logarithms are finite.
_LEAST = 1e-300


class Residuals(ABC):
    """A reader of the residuals of submissions, about zero or about the broadcast fakes.

    Attributes:
        any_level: whether p-values are also valid for two-valued submissions.
        pairs: the observed pairs.
        scale: σ, or 1 without noise, where scores still rank pairs.
        count: number of submissions of each pair so far `(P,)`.
    """

    any_level: ClassVar[bool] = False

    def __init__(self, pairs: UserItemPairs, about: About) -> None:
        """Set up a reader without rounds.

        Args:
            pairs: the observed pairs.
            about: what is subtracted: nothing (`zero`) or the broadcast F_t (`fake`).
        """
        self.pairs = pairs
        self.scale = pairs.sigma or 1.0
        self.count = np.zeros(len(pairs), np.int32)
        self._about = about
        self._known = self.any_level if pairs.level is not None else pairs.sigma > 0
        self._zeros = np.zeros((len(pairs.shares), pairs.dimensions), np.float32)

    def see(self, round_: Round) -> None:
        """Process one round."""
        fakes = round_.fakes
        self._known = self._known and round_.made_up is None
        if self._about == "zero":
            # A non-zero fake does not follow the distribution about zero.
            self._known = self._known and not fakes.any()
            fakes = self._zeros
        self.fold(round_.place, round_.shown, fakes)

    def verdicts(self) -> Verdicts:
        """Return scores, with p-values if the distribution of fakes is known."""
        scores, p_values = self.judge()
        return Verdicts(scores, p_values if self._known else None)

    @abstractmethod
    def fold(self, place: IntArray, shown: FloatArray, fakes: FloatArray) -> None:
        """Process the residuals `shown − fakes` of the pairs in `place`."""

    @abstractmethod
    def judge(self) -> tuple[Numbers, Numbers]:
        """Return scores and p-values, each `(P,)`."""


def log_score(p_values: Numbers) -> Numbers:
    """Return `−ln p`, at most 691, so that it is finite."""
    score = np.empty(p_values.shape)
    # Discrete p-values give many equal sums; the machine's rounding must not break such ties.
    minus_logs(np.maximum(p_values, _LEAST).reshape(-1), score.reshape(-1))
    return score


def fisher(p_values: Numbers) -> tuple[Numbers, Numbers]:
    """Combine p-values of coordinates `(P, d)` to scores and p-values of pairs, each `(P,)`.

    `−2 Σ ln p ~ χ²_2d` for independent uniform p-values; if they are conservative, so is the result
    (Fisher, Statistical Methods for Research Workers, 1932, section 21.1).
    """
    score: Numbers = 2 * log_score(p_values).sum(1)
    return score, special.chdtrc(2 * p_values.shape[1], score)


# Ridge, relative to the mean eigenvalue of a scatter matrix: below the rounding error, but it makes
# a singular matrix invertible.
_RIDGE = 1e-12


@parameters(frozen=True, config=STRICT)
class ZeroMean(SubmissionTest):
    """Detect real submissions by a mean that differs from that of a fake.

    With k submissions of a pair, `r = x − F` (or x itself) and its mean m:

        t           per coordinate `m √k / s ~ t_{k−1}`, two-sided; combined by Fisher's method
        sign        per coordinate the exact binomial test on non-zero values; combined likewise
        hotelling   `T² = k mᵀ S⁻¹ m`, `T² (k − d)/(d (k − 1)) ~ F_{d, k−d}`; p = 1 for k ≤ d
        z           `k ‖m‖²/σ² ~ χ²_d`, with σ known

    The distributions are exact for normal noise. `sign` is also exact for two-valued submissions:
    given the coordinates sent, their signs are fair and independent. The others have no p-values
    then. About `zero`, there are no p-values once a non-zero fake was broadcast, since the mean of
    a fake x is then not zero.

    Attributes:
        statistic: see above.
        about: `fake` tests `x − F_t`, as a server that broadcast F can; `zero` tests x.
        pairs: the number of pairs observed by `hotelling`, which stores a matrix for each.
    """

    statistic: Literal["t", "sign", "hotelling", "z"] = "t"
    about: About = "fake"
    pairs: Annotated[int, Field(ge=200, le=1_000_000)] = 2000

    name: ClassVar[str] = "zero-mean"
    title: ClassVar[str] = "Mean of a sequence of submissions against that of fakes"
    source: ClassVar[str] = (
        "Luo, Zhang, Zhang, Liu & Wang, A Smart Privacy-Preserving Learning Method by Fake "
        "Gradients to Protect Users Items in Recommender Systems, 2020, "
        "doi:10.1155/2020/6683834, section 3 (a test of mean 0); Hotelling, The Generalization of "
        "Student's Ratio, 1931, doi:10.1214/aoms/1177732979"
    )
    usual: ClassVar[tuple[Form, ...]] = (
        Form({"statistic": "t", "about": "zero"}),
        Form({"statistic": "t", "about": "fake"}),
        Form({"statistic": "sign", "about": "zero"}),
        Form({"statistic": "sign", "about": "fake"}),
        Form({"statistic": "z", "about": "fake"}),
        Form({"statistic": "hotelling", "about": "fake"}),
    )
    rank: ClassVar[int] = 2

    @property
    def most_pairs(self) -> int | None:
        """`pairs` for `hotelling`, else None."""
        return self.pairs if self.statistic == "hotelling" else None

    def reader(self, pairs: UserItemPairs) -> TranscriptReader:
        """Return a new reader of these pairs."""
        readers: dict[str, type[Residuals]]
        readers = {"t": _Student, "sign": _Sign, "hotelling": _Hotelling, "z": _Normal}
        return readers[self.statistic](pairs, self.about)


class _Student(Residuals):
    def __init__(self, pairs: UserItemPairs, about: About) -> None:
        super().__init__(pairs, about)
        self.mean = np.zeros((len(pairs), pairs.dimensions), np.float32)
        self.square = np.zeros_like(self.mean)

    def fold(self, place: IntArray, shown: FloatArray, fakes: FloatArray) -> None:
        items = self.pairs.items
        folds.fold_moments(place, shown, fakes, items, self.count, self.mean, self.square)

    def judge(self) -> tuple[Numbers, Numbers]:
        k = self.count[:, None].astype(np.float64)
        mean = self.mean.astype(np.float64)
        degrees = np.maximum(k - 1, 1)
        error = np.sqrt(self.square / degrees / np.maximum(k, 1))
        # t is 0 for a zero mean, and infinite for a non-zero mean without spread.
        with np.errstate(divide="ignore"):
            t = np.divide(np.abs(mean), error, out=np.zeros_like(mean), where=mean != 0)
        return fisher(np.where(k > 1, 2 * special.stdtr(degrees, -t), 1.0))


class _Sign(Residuals):
    any_level = True

    def __init__(self, pairs: UserItemPairs, about: About) -> None:
        super().__init__(pairs, about)
        self.above = np.zeros((len(pairs), pairs.dimensions), np.int32)
        self.below = np.zeros_like(self.above)

    def fold(self, place: IntArray, shown: FloatArray, fakes: FloatArray) -> None:
        folds.fold_signs(place, shown, fakes, self.pairs.items, self.above, self.below)

    def judge(self) -> tuple[Numbers, Numbers]:
        n = self.above + self.below
        fewer = np.minimum(self.above, self.below)
        # Few pairs (n, fewer) occur, so tabulate P(Bin(n, ½) ≤ fewer); it is 1 for n = 0.
        sizes = np.flatnonzero(np.bincount(n.reshape(-1)))
        row = np.zeros(sizes[-1] + 1, np.intp)
        row[sizes] = np.arange(len(sizes))
        tail = special.bdtr(np.arange(fewer.max() + 1.0), sizes[:, None], 0.5)
        return fisher(np.minimum(1.0, 2 * tail)[row[n], fewer])


class _Normal(Residuals):
    def __init__(self, pairs: UserItemPairs, about: About) -> None:
        super().__init__(pairs, about)
        self.mean = np.zeros((len(pairs), pairs.dimensions), np.float32)

    def fold(self, place: IntArray, shown: FloatArray, fakes: FloatArray) -> None:
        folds.fold_means(place, shown, fakes, self.pairs.items, self.count, self.mean)

    def judge(self) -> tuple[Numbers, Numbers]:
        score = self.count * np.square(self.mean, dtype=np.float64).sum(1) / self.scale**2
        return score, special.chdtrc(self.pairs.dimensions, score)


class _Hotelling(Residuals):
    def __init__(self, pairs: UserItemPairs, about: About) -> None:
        super().__init__(pairs, about)
        size = pairs.dimensions
        self.mean = np.zeros((len(pairs), size))
        self.scatter = np.zeros((len(pairs), size, size))

    def fold(self, place: IntArray, shown: FloatArray, fakes: FloatArray) -> None:
        items = self.pairs.items
        folds.fold_scatter(place, shown, fakes, items, self.count, self.mean, self.scatter)

    def judge(self) -> tuple[Numbers, Numbers]:
        size = self.pairs.dimensions
        scores, p_values = np.zeros(len(self.pairs)), np.ones(len(self.pairs))
        able = np.flatnonzero(self.count > size)
        k, mean, scatter = self.count[able], self.mean[able], self.scatter[able]
        ridge = _RIDGE * np.trace(scatter, axis1=1, axis2=2) / size + np.finfo(np.float64).tiny
        scatter = scatter + ridge[:, None, None] * np.eye(size)
        turned = solved(scatter, mean[:, :, None])[:, :, 0]
        # T² = k (k − 1) mᵀ (Σ(r − m)(r − m)ᵀ)⁻¹ m;  F = T² (k − d)/(d (k − 1))
        ratio = k * (k - size) / size * np.maximum(np.einsum("pd,pd->p", mean, turned), 0)
        p_values[able] = special.fdtrc(size, k - size, ratio)
        scores[able] = log_score(p_values[able])
        return scores, p_values


@parameters(frozen=True, config=STRICT)
class Energy(SubmissionTest):
    """Detect real submissions by their squared distance from the noiseless fake.

    With k submissions of a pair in d dimensions and `r = x − F` (or x itself), for a fake pair:

        each         `Σ‖r‖²/σ² ~ χ²_{kd}`
        difference   `Σ_s ‖r_2s − r_2s−1‖²/(2σ²) ~ χ²_{d⌊k/2⌋}`, over consecutive submissions

    The difference cancels a mean that is the same in both rounds. The distributions are exact for
    normal noise. For a real pair they are noncentral χ², with noncentrality `Σ‖g − F‖²/σ²` and
    `Σ_s ‖Δ(g − F)‖²/(2σ²)`.

    Pairs with different k are ranked by Wilson and Hilferty's (1931) cube root, which makes χ²
    nearly standard normal for any k; without noise, by the mean of `‖r‖²`.

    Attributes:
        rounds: see above.
        about: `fake` uses `x − F_t`, as a server that broadcast F can; `zero` uses x.
    """

    rounds: Literal["each", "difference"] = "each"
    about: About = "fake"

    name: ClassVar[str] = "energy"
    title: ClassVar[str] = "Energy of a sequence of submissions against that of its noise"
    source: ClassVar[str] = (
        "Urkowitz, Energy detection of unknown deterministic signals, 1967, "
        "doi:10.1109/PROC.1967.5573; Wilson & Hilferty, The Distribution of Chi-Square, 1931, "
        "doi:10.1073/pnas.17.12.684"
    )
    usual: ClassVar[tuple[Form, ...]] = (
        Form({"about": "fake"}),
        Form({"rounds": "difference", "about": "fake"}),
    )
    rank: ClassVar[int] = 4

    def reader(self, pairs: UserItemPairs) -> TranscriptReader:
        """Return a new reader of these pairs."""
        return (_Each if self.rounds == "each" else _Difference)(pairs, self.about)


class _Each(Residuals):
    def __init__(self, pairs: UserItemPairs, about: About) -> None:
        super().__init__(pairs, about)
        self.energy = np.zeros(len(pairs))

    def fold(self, place: IntArray, shown: FloatArray, fakes: FloatArray) -> None:
        folds.fold_energy(place, shown, fakes, self.pairs.items, self.count, self.energy)

    def terms(self) -> IntArray:
        """Return the number of squared norms in the energy `(P,)`."""
        return self.count

    def judge(self) -> tuple[Numbers, Numbers]:
        terms = np.maximum(self.terms(), 1)
        if self.pairs.sigma == 0:
            return self.energy / terms, np.ones(len(self.pairs))
        degrees = terms * float(self.pairs.dimensions)
        energy = self.energy / self.scale**2
        spread = 2 / (9 * degrees)
        score = (np.cbrt(energy / degrees) - (1 - spread)) / np.sqrt(spread)
        seen = self.terms() > 0
        return np.where(seen, score, 0.0), np.where(seen, special.chdtrc(degrees, energy), 1.0)


class _Difference(_Each):
    def __init__(self, pairs: UserItemPairs, about: About) -> None:
        super().__init__(pairs, about)
        self.last = np.zeros((len(pairs), pairs.dimensions), np.float32)

    def fold(self, place: IntArray, shown: FloatArray, fakes: FloatArray) -> None:
        items = self.pairs.items
        folds.fold_differences(place, shown, fakes, items, self.count, self.last, self.energy)

    def terms(self) -> IntArray:
        return self.count // 2


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
        self.places: list[IntArray] = []
        self.parts: list[FloatArray] = []

    def fold(self, place: IntArray, shown: FloatArray, fakes: FloatArray) -> None:
        self.places.append(place.copy())
        self.parts.append(shown - fakes[self.pairs.items[place]])
        self.count[place] += 1

    def sequences(self) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """Yield each pair with submissions, its residuals in order, and as many fakes `(k, d)`."""
        if not self.parts:
            return
        order = np.argsort(np.concatenate(self.places), kind="stable")
        residuals = np.concatenate(self.parts)[order]
        ends = np.cumsum(self.count)
        for pair in np.flatnonzero(self.count).tolist():
            k = int(self.count[pair])
            yield pair, residuals[ends[pair] - k : ends[pair]], self.draw("own", pair, k)

    def draw(self, purpose: str, trial: int, count: int) -> FloatArray:
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
        longest = int(self.count.max(initial=0))
        # The statistic of n simulated pairs of fakes, for every k `(n, K)`.
        simulations = np.empty((self.simulated, longest))
        for trial in range(self.simulated):
            left, right = (self.draw(purpose, trial, longest) for purpose in ("left", "right"))
            simulations[trial] = _distances(left, right)
        for pair, shown, drawn in self.sequences():
            distance = _distances(np.ascontiguousarray(shown), drawn)[-1]
            null = simulations[:, len(shown) - 1]
            scores[pair] = (distance - null.mean()) / (null.std() or 1.0)
            p_values[pair] = (1 + np.count_nonzero(null >= distance)) / (1 + len(null))
        return scores, p_values


def _distances(left: FloatArray, right: FloatArray) -> Numbers:
    """Return the energy distance of the first k rows of two samples, k from 1 on `(K,)`."""
    distances = np.empty(len(left))
    folds.energy_distances(left, right, distances)
    return distances
