"""What a training gets to be watched: one line beside its optimizer, or one in its own loop."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpaudit.audits.dp_training.forms import flat, shaped
from dpaudit.audits.dp_training.jax_plans import watch_plan
from dpaudit.audits.dp_training.opacus import watch_optimizer
from dpaudit.audits.dp_training.recorder import Recorder
from dpaudit.audits.dp_training.transcript import Place, Setup, Unit
from dpaudit.core.errors import ConfigError


class Watch(Recorder):
    """Watches one training."""

    def __call__(
        self,
        watched: Any,
        *,
        model: Any = None,
        accountant: Any = None,
        loader: Any = None,
        unit: Unit = "interaction",
    ) -> Any:
        """Watch an optimizer of Opacus, or a plan of jax-privacy, from here on.

        Args:
            watched: the optimizer that `make_private` returned; or the plan.
            model: the model, whose buffers are compared.
            accountant: the accountant, if a hook of your own calls it.
            loader: the loader of batches, as `make_private` returned it.
            unit: what batches take, and what is clipped: an `interaction`, or all of a `user`.

        Returns:
            The optimizer; or the plan to train with in place of the one that was given.

        Raises:
            ConfigError: it is no optimizer of Opacus and no plan, or is watched already.
        """
        self._called()
        plans = sys.modules.get("jax_privacy.experimental.execution_plan")
        if plans is not None and isinstance(watched, plans.DPExecutionPlan):
            return watch_plan(self, watched, unit)
        watch_optimizer(self, watched, model, accountant, loader, unit)
        return watched

    def own(
        self,
        *,
        noise_multiplier: float,
        max_grad_norm: float,
        sample_rate: float,
        records: int | None = None,
        weights: Sequence[Any] = (),
        steps: int | None = None,
        epsilon: float | None = None,
        unit: Unit = "interaction",
    ) -> None:
        """Say what a loop of your own states, before its first step.

        Args:
            noise_multiplier: σ over the norm, as the accountant has it.
            max_grad_norm: the norm C to which the gradient of a row is clipped.
            sample_rate: the probability with which a batch takes a row.
            records: the number of rows that batches are drawn from; all by default.
            weights: the arrays or tensors that are trained, which are compared, and enlarged in
                place.
            steps: the number of steps that are planned.
            epsilon: the ε that your accountant states.
            unit: what a row is: an `interaction`, or all of a `user`.

        Raises:
            ConfigError: a number is not above 0, or it is called twice.
        """
        self._called()
        count = self.records[unit] if records is None else records
        self.begin(Setup(count, sample_rate, noise_multiplier, max_grad_norm, steps, unit=unit))
        self.weights = lambda: weights
        self.accounted = lambda: (None, epsilon)
        self.enlarge(weights)

    def step(self, summed: Any, noise: Any, divisor: float, *, rows: int | None = None) -> Any:
        """Record a step of a loop of your own, and return what moves the weights.

        Args:
            summed: the sum of the clipped gradients: an array or a tensor, or a list of these.
            noise: the noise, of the same form.
            divisor: what their sum is divided by.
            rows: the number of rows of the batch.

        Returns:
            `(summed + noise) / divisor`, in the form of `noise`; in a training that is compared
            with another one, the recorded numbers in their place.

        Raises:
            ConfigError: `own` was not called before, or the forms differ.
        """
        if self.setup is None:
            raise ConfigError(
                "watch.step is called before watch.own: say there what your training states"
            )
        self.places.setdefault("step", _caller())
        one, two = flat(summed), flat(noise)
        if one.shape != two.shape:
            raise ConfigError(
                f"watch.step gets {one.size} sums and {two.size} draws of noise: give one of each "
                "coordinate"
            )
        noised = (one.astype(np.float64) + two).astype(np.float32)
        forced = self.see(one, noised, float(divisor), rows=rows)
        return shaped(noised / np.float32(divisor) if forced is None else forced, noise)

    def _called(self) -> None:
        if "watch" in self.places:
            raise ConfigError("watch is called twice in one training: call it once")
        self.places["watch"] = _caller()


def _caller() -> Place:
    """Return the line of the training that called this module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
