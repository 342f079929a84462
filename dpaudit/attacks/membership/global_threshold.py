"""One threshold for all targets: the attack that needs no trainings of the attacker's own."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import MembershipInference, Numbers, Signals
from dpaudit.core.plugin import STRICT


@parameters(frozen=True, config=STRICT)
class GlobalThreshold(MembershipInference):
    """Call a target present where the model fits it well, with one threshold for all targets.

    The attacker's trainings only decide the direction: a list that leaves out what its user has
    seen fits an interaction worse if it is present (Yeom et al. 2018, adversary 2). They also
    standardise the fit, so that a threshold chosen with some trainings holds with others.
    """

    compares_targets: ClassVar[bool] = False
    name: ClassVar[str] = "global-threshold"
    title: ClassVar[str] = "One threshold on how well the model fits, the same for all targets"
    source: ClassVar[str] = (
        "Yeom, Giacomelli, Fredrikson & Jha, Privacy Risk in Machine Learning, 2018, "
        "arXiv:1709.01604, adversary 2"
    )
    rank: ClassVar[int] = 3

    def score(self, seen: Signals, reference: Signals, present: NDArray[np.bool_]) -> Numbers:
        """Score each target; arguments as in `MembershipInference.score`."""
        within = reference.fit[present].mean() if present.any() else 0.0
        without = reference.fit[~present].mean() if not present.all() else 0.0
        scale = np.copysign(float(reference.fit.std()) or 1.0, within - without)
        scores: Numbers = (seen.fit - (within + without) / 2) / scale
        return scores
