"""The energy detector: submissions with a larger squared norm than noise."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import Form, SubmissionTest, TranscriptReader
from dpaudit.attacks.federated.base import About, Numbers, Residuals
from dpaudit.core.plugin import STRICT
from dpaudit.core.transcripts import Floats, Indices, UserItemPairs
from dpaudit.kernels.federated import transcripts as folds


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

    def fold(self, place: Indices, shown: Floats, fakes: Floats) -> None:
        folds.fold_energy(place, shown, fakes, self.pairs.items, self.count, self.energy)

    def terms(self) -> Indices:
        """Return the number of squared norms in the energy `(P,)`."""
        return self.count

    def judge(self) -> tuple[Numbers, Numbers]:
        from scipy import special

        terms = np.maximum(self.terms(), 1)
        if self.pairs.sigma == 0:
            return self.energy / terms, np.ones(len(self.pairs))
        degrees = terms * float(self.pairs.dimensions)
        energy = self.energy / self.scale**2
        spread = 2 / (9 * degrees)
        score = (np.cbrt(energy / degrees) - (1 - spread)) / np.sqrt(spread)
        seen = self.terms() > 0
        p_values = special.chdtrc(degrees, energy)
        return np.where(seen, score, 0.0), np.where(seen, p_values, 1.0)


class _Difference(_Each):
    def __init__(self, pairs: UserItemPairs, about: About) -> None:
        super().__init__(pairs, about)
        self.last = np.zeros((len(pairs), pairs.dimensions), np.float32)

    def fold(self, place: Indices, shown: Floats, fakes: Floats) -> None:
        items = self.pairs.items
        folds.fold_differences(place, shown, fakes, items, self.count, self.last, self.energy)

    def terms(self) -> Indices:
        return self.count // 2
