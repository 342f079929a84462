"""Records the steps of a training, and puts noised sums in place if it is asked to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpaudit.audits.dp_training.forms import digest, enlarge, state_of
from dpaudit.audits.dp_training.transcript import Forced, Place, Setup, Step, Transcript, Vector
from dpaudit.core.errors import ConfigError

# How many numbers of noised sums are kept, to be put in place in other trainings: 1 GiB.
_MOST = 2**28


class Enough(BaseException):
    """Ends a training of which enough was seen; no loop catches it by mistake."""


@dataclass(frozen=True)
class Wanted:
    """What is wanted of one training.

    Attributes:
        delta: the δ at which the accountant's ε is read.
        steps: after how many steps it ends; None for all.
        forced: what to put in place, step by step; None for its own. It ends with them.
        enlarged: the factor by which weights are multiplied before the first step.
        sums: whether the sums are kept.
        gradients: whether G is kept, of as many first steps as `_MOST` numbers are.
        accounted: whether the accountant's ε is read, which takes longer than some trainings.
    """

    delta: float
    steps: int | None = None
    forced: Forced | None = None
    enlarged: float = 1.0
    sums: bool = False
    gradients: bool = False
    accounted: bool = False


@dataclass(eq=False)
class Recorder:
    """The steps of one training.

    Attributes:
        wanted: what is wanted.
        records: the numbers of interactions and of users, of which one is that of its rows.
        setup: what was settled; None before.
        places: the lines that are to blame if a part of a step is at fault.
        weights: returns the weights and buffers.
        rates: returns the learning rates.
        accounted: returns the number of steps that an accountant counted, and the ε that it
            states; None for what is not known.
    """

    wanted: Wanted
    records: Mapping[str, int]
    setup: Setup | None = None
    places: dict[str, Place] = field(default_factory=dict)
    weights: Callable[[], Sequence[Any]] = list
    rates: Callable[[], Any] = list
    accounted: Callable[[], tuple[int | None, float | None]] = lambda: (None, None)
    _steps: list[Step] = field(default_factory=list)
    _gradients: list[Vector] = field(default_factory=list)

    def begin(self, setup: Setup) -> None:
        """Settle what holds for all steps.

        Raises:
            ConfigError: a number is not above 0.
        """
        for name in ("records", "rate", "noise_multiplier", "bound"):
            value = getattr(setup, name)
            if not 0 < value < math.inf:
                raise ConfigError(
                    f"the training states {name} = {value}, and DP-SGD needs one above 0: correct "
                    "it, or audit a training with noise"
                )
        self.setup = setup

    def enlarge(self, weights: Sequence[Any]) -> None:
        """Multiply weights in place by the wanted factor."""
        for weight in weights if self.wanted.enlarged != 1 else ():
            enlarge(weight, self.wanted.enlarged)

    def see(
        self, summed: Vector, noised: Vector, divisor: float, scale: float = 0.0, **seen: Any
    ) -> Vector | None:
        """Record a step; return the G to put in place, or None.

        Args:
            summed: S.
            noised: G D.
            divisor: D.
            scale: σC of this step; 0 for that of the setup.
            seen: `rows` and `clipping`.

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
        if not index:
            self.setup = replace(self.setup, divisor=divisor, coordinates=noised.size)
        scale = scale or self.setup.noise_multiplier * self.setup.bound
        seen["sums"] = (summed / self.setup.bound).astype(np.float32) if wanted.sums else None
        self._steps.append(Step.of(summed, noised, divisor, scale, state=self.state(), **seen))
        if wanted.gradients and (index + 1) * noised.size <= _MOST:
            self._gradients.append(noised / np.float32(divisor))
        if index + 1 == wanted.steps:
            raise Enough
        if wanted.forced is None:
            return None
        if index >= wanted.forced.count or wanted.forced.setup.coordinates != noised.size:
            # The other training ended here, and this one goes on; or it is of another size.
            raise Enough
        return wanted.forced.at(index)

    def state(self) -> str:
        """Return a digest of weights, buffers and learning rates; empty if none is known."""
        weights = self.weights()
        return state_of(weights, self.rates()) if len(weights) else ""

    def transcript(self, returned: Any, *, finished: bool) -> Transcript:
        """Return what was seen.

        Args:
            returned: what the training returned.
            finished: whether it ended by itself.

        Raises:
            ConfigError: the training was not watched, or made no step.
        """
        if "watch" not in self.places:
            raise ConfigError(
                "the training calls no watch: add watch(optimizer, …) after make_private, or "
                "watch.own(…) and watch.step(…) to a loop of your own"
            )
        if self.setup is None or not self._steps:
            raise ConfigError("the training makes no step that is watched: watch its optimizer")
        counted, stated = self.accounted()
        final = f"{state_of(self.weights())} {digest(returned)}" if finished else ""
        kept = self._gradients
        return Transcript(self.setup, self._steps, counted, stated, final, kept, self.places)
