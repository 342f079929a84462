"""Records the steps of a training, and puts noised sums in place if it is asked to."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpaudit.audits.dp_training.forms import digest, state_of
from dpaudit.audits.dp_training.transcript import Place, Setup, Step, Transcript, Vector
from dpaudit.core.errors import ConfigError

# How many numbers of all noised sums are kept, to be put in place in other trainings.
_MOST = 2**27
TWICE = "watch is called twice in one training: call it once"


class Enough(BaseException):
    """Ends a training of which enough was seen; no loop catches it by mistake."""


@dataclass(frozen=True)
class Wanted:
    """What is wanted of one training.

    Attributes:
        delta: the δ at which the accountant's ε is read.
        steps: after how many steps it ends; None for all.
        forced: the noised sums to put in place, step by step; empty for its own. It ends with them.
        enlarged: the factor by which weights are multiplied before the first step.
        sums: whether the sums are kept.
        gradients: whether G is kept.
    """

    delta: float
    steps: int | None = None
    forced: Sequence[Vector] = ()
    enlarged: float = 1.0
    sums: bool = False
    gradients: bool = False


@dataclass(eq=False)
class Recorder:
    """The steps of one training.

    Attributes:
        wanted: what is wanted.
        records: the number of interactions, unless the training says what its rows are.
        setup: what was settled; None before.
        places: the lines that are to blame if a part of a step is at fault.
    """

    wanted: Wanted
    records: int
    setup: Setup | None = None
    places: dict[str, Place] = field(default_factory=dict)
    _steps: list[Step] = field(default_factory=list)
    _gradients: list[Vector] = field(default_factory=list)

    def begin(self, setup: Setup) -> None:
        """Settle what holds for all steps.

        Raises:
            ConfigError: a number is not above 0, or it is called twice.
        """
        if self.setup is not None:
            raise ConfigError(TWICE)
        for name in ("records", "rate", "noise_multiplier", "bound"):
            value = getattr(setup, name)
            if not 0 < value < math.inf:
                raise ConfigError(
                    f"the training states {name} = {value}, and DP-SGD needs one above 0: correct "
                    "it, or audit a training with noise"
                )
        self.setup = setup

    def settle(self, **changes: Any) -> None:
        """Complete what is settled with what the first step shows."""
        if self.setup is not None and not self._steps:
            self.setup = replace(self.setup, **changes)

    def see(
        self,
        summed: Vector,
        noised: Vector,
        divisor: float,
        scale: float | None = None,
        **seen: Any,
    ) -> Vector | None:
        """Record a step; return the G to put in place, or None.

        Args:
            summed: S.
            noised: G D.
            divisor: D.
            scale: σC of this step; that of the setup if None.
            seen: `rows`, `clipping` and `state`.

        Raises:
            Enough: enough was seen.
            ConfigError: a number is not finite.
        """
        if self.setup is None:
            raise TypeError("a step is seen before the setup")
        wanted, index = self.wanted, len(self._steps)
        if not np.isfinite(noised).all() and wanted.enlarged == 1:
            raise ConfigError(
                f"the gradient of step {index + 1} is not finite: lower the learning rate, or "
                "correct the loss"
            )
        scale = scale or self.setup.noise_multiplier * self.setup.bound
        bound = self.setup.bound if wanted.sums else None
        self._steps.append(Step.of(summed, noised, divisor, scale, bound, **seen))
        if wanted.gradients and (index + 1) * noised.size <= _MOST:
            self._gradients.append(noised / np.float32(divisor))
        if index + 1 == wanted.steps:
            raise Enough
        if not len(wanted.forced):
            return None
        if index >= len(wanted.forced) or len(wanted.forced[index]) != noised.size:
            # The other training ended here, and this one goes on; or it is of another size.
            raise Enough
        return wanted.forced[index]

    def transcript(self, weights: Sequence[Any], returned: Any, **known: Any) -> Transcript:
        """Return what was seen.

        Args:
            weights: the trained weights.
            returned: what the training returned.
            known: `counted`, `stated` and `finished`.

        Raises:
            ConfigError: it made no step.
        """
        if self.setup is None or not self._steps:
            raise ConfigError("the training makes no step that is watched: watch its optimizer")
        final = f"{state_of(weights)} {digest(returned)}" if known["finished"] else ""
        whole = len(self._gradients) == len(self._steps)
        gradients = tuple(self._gradients) if whole else ()
        places, steps = dict(self.places), tuple(self._steps)
        return Transcript(self.setup, steps, final=final, forced=gradients, places=places, **known)


def caller(file: str) -> Place:
    """Return the line that called a module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename in (__file__, file):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
