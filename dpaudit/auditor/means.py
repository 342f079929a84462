"""Means over trainings, with intervals that hold jointly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.frequentist.means import betting_mean
from dpaudit.core.errors import RunError
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Family

Numbers = NDArray[np.float64]

# Relative rounding error of a number computed from single precision.
_ROUNDING = 1e-6


def joint_mean(values: Numbers, family: Family, least: float = 0.0, most: float = 1.0) -> Estimate:
    """Estimate the mean over trainings of a number from `least` to `most`, jointly with all others.

    The sample are the trainings, which are independent given the data. Nothing is assumed of the
    law of the number, so the interval may gate. It is about trainings on these data, tested on
    these data, and not about other data.

    Args:
        values: the number in each training `(T,)`, or in a training on each of F folds `(T, F)`;
            the mean over the folds of their means is estimated, with T F independent trainings.
        family: the family of the run's intervals.
        least: the least possible number.
        most: the largest possible number.

    Raises:
        RunError: a number is larger.
    """
    width = most - least or 1.0
    unit = (values.reshape(-1) - least) / width
    if unit.max() > 1 + _ROUNDING:
        raise RunError(
            f"a training gives numbers of up to {values.max():g}, and {most:g} is the largest for "
            "predictions on the rating scale: correct the model's predict"
        )
    folds = values.size // len(values)
    bet = betting_mean(np.clip(unit, 0, 1), family.alpha, family.confidence, together=folds)
    return bet.mapped(lambda share: least + width * share).changed(
        method="betting over trainings" + (f" on {folds} folds" if folds > 1 else "")
    )
