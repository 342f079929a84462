"""Tells D' from D by the newsletter."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import Distinguisher, Readable
from dpaudit.core.plugin import STRICT
from dpaudit_newsletter.release import Counts, Newsletter


@parameters(frozen=True, config=STRICT)
class NewsletterReader(Distinguisher):
    """Compares each noised count with what it is without noise in D and in D'.

    The score is `Σ_j |A_j − f_j| − |A_j − f'_j|`, A being the counts that are shown and f and f'
    the exact ones: the log-likelihood ratio of Laplace noise, up to its scale.
    """

    name: ClassVar[str] = "newsletter-reader"
    title: ClassVar[str] = "Counts of a newsletter against the exact counts"
    source: ClassVar[str] = (
        "Neyman & Pearson, On the problem of the most efficient tests of statistical hypotheses, "
        "1933, doi:10.1098/rsta.1933.0009"
    )
    reads: ClassVar[tuple[Readable, ...]] = ((Newsletter, Counts),)

    def score(self, release: Newsletter, knowledge: Counts) -> NDArray[np.float64]:
        """Large where D' is likelier `(W,)`."""
        away = abs(release.counts - knowledge.absent) - abs(release.counts - knowledge.present)
        score: NDArray[np.float64] = away.sum(1)
        return score
