"""Records the steps of a training, and puts noised sums in place if it is asked to."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpaudit.audits.dp_training.forms import digest, state_of
from dpaudit.audits.dp_training.transcript import Clipping, Place, Setup, Step, Transcript, Vector
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
        *,
        rows: int | None,
        clipping: Clipping | None = None,
        state: str = "",
        multiplier: float | None = None,
    ) -> Vector | None:
        """Record a step; return the G to put in place, or None.

        Args:
            summed: S.
            noised: G D.
            divisor: D.
            rows: the number of rows.
            clipping: what clipping did.
            state: a digest of the state.
            multiplier: σ of this step; that of the setup if None.

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
        scale = (multiplier or self.setup.noise_multiplier) * self.setup.bound
        self._steps.append(
            Step.of(
                summed,
                noised,
                divisor,
                scale,
                rows=rows,
                clipping=clipping,
                bound=self.setup.bound if wanted.sums else None,
                state=state,
            )
        )
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

    def transcript(
        self,
        weights: Sequence[Any],
        accounted: tuple[int | None, float | None],
        *,
        finished: bool,
        returned: Any,
    ) -> Transcript:
        """Return what was seen.

        Args:
            weights: the trained weights.
            accounted: how many steps the accountant counted, and the ε that it states.
            finished: whether the training ended by itself.
            returned: what it returned.

        Raises:
            ConfigError: it made no step.
        """
        if self.setup is None or not self._steps:
            raise ConfigError("the training makes no step that is watched: watch its optimizer")
        counted, stated = accounted
        return Transcript(
            setup=self.setup,
            steps=tuple(self._steps),
            counted=counted,
            stated=stated,
            finished=finished,
            final=f"{state_of(weights)} {digest(returned)}" if finished else "",
            forced=tuple(self._gradients) if len(self._gradients) == len(self._steps) else (),
            places=dict(self.places),
        )


def caller(file: str) -> Place:
    """Return the line that called a module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename in (__file__, file):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
