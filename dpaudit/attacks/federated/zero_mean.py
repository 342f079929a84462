"""Tests of the mean of each pair's submissions: t, sign, Hotelling's T² and z."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import Form, SubmissionTest, TranscriptReader
from dpaudit.attacks.federated.base import About, Numbers, Residuals, fisher, log_score
from dpaudit.core.plugin import STRICT
from dpaudit.core.transcripts import Floats, Indices, UserItemPairs
from dpaudit.kernels.federated import transcripts as folds
from dpaudit.kernels.normal_equations import solved

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

    def fold(self, place: Indices, shown: Floats, fakes: Floats) -> None:
        items = self.pairs.items
        folds.fold_moments(place, shown, fakes, items, self.count, self.mean, self.square)

    def judge(self) -> tuple[Numbers, Numbers]:
        from scipy import special

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

    def fold(self, place: Indices, shown: Floats, fakes: Floats) -> None:
        folds.fold_signs(place, shown, fakes, self.pairs.items, self.above, self.below)

    def judge(self) -> tuple[Numbers, Numbers]:
        from scipy import special

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

    def fold(self, place: Indices, shown: Floats, fakes: Floats) -> None:
        folds.fold_means(place, shown, fakes, self.pairs.items, self.count, self.mean)

    def judge(self) -> tuple[Numbers, Numbers]:
        from scipy import special

        score = self.count * np.square(self.mean, dtype=np.float64).sum(1) / self.scale**2
        return score, special.chdtrc(self.pairs.dimensions, score)


class _Hotelling(Residuals):
    def __init__(self, pairs: UserItemPairs, about: About) -> None:
        super().__init__(pairs, about)
        size = pairs.dimensions
        self.mean = np.zeros((len(pairs), size))
        self.scatter = np.zeros((len(pairs), size, size))

    def fold(self, place: Indices, shown: Floats, fakes: Floats) -> None:
        items = self.pairs.items
        folds.fold_scatter(place, shown, fakes, items, self.count, self.mean, self.scatter)

    def judge(self) -> tuple[Numbers, Numbers]:
        from scipy import special

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
