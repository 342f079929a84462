"""What a training gets to be watched: one line beside its optimizer, or one in its own loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpaudit.audits.dp_training.forms import enlarge, flat, shaped, state_of
from dpaudit.audits.dp_training.opacus import Watched
from dpaudit.audits.dp_training.recorder import TWICE, Recorder, Wanted, caller
from dpaudit.audits.dp_training.transcript import Setup, Transcript
from dpaudit.core.errors import ConfigError


class Watch:
    """Watches one training."""

    def __init__(self, wanted: Wanted, records: int) -> None:
        """Watch for what is wanted of a training on so many interactions."""
        self._recorder = Recorder(wanted, records)
        self._weights: Sequence[Any] = ()
        self._library: Watched | None = None
        self._stated: float | None = None

    def __call__(
        self, optimizer: Any, *, model: Any = None, accountant: Any = None, loader: Any = None
    ) -> None:
        """Watch an optimizer of Opacus from here on.

        Args:
            optimizer: what `make_private` returned.
            model: the model, whose buffers are compared.
            accountant: the accountant, if a hook of your own calls it.
            loader: the loader of batches, as `make_private` returned it.

        Raises:
            ConfigError: the optimizer is not one of Opacus, or is watched already.
        """
        if self._library is not None or self._recorder.setup is not None:
            raise ConfigError(TWICE)
        self._recorder.places["watch"] = caller(__file__)
        self._library = Watched.of(self._recorder, optimizer, model, accountant, loader)

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
    ) -> None:
        """Say what a loop of your own states, before its first step.

        Args:
            noise_multiplier: σ over the norm, as the accountant has it.
            max_grad_norm: the norm C to which the gradient of a row is clipped.
            sample_rate: the probability with which a batch takes a row.
            records: the number of rows that batches are drawn from; the interactions by default.
            weights: the arrays or tensors that are trained, which are compared, and enlarged in
                place.
            steps: the number of steps that are planned.
            epsilon: the ε that your accountant states.

        Raises:
            ConfigError: a number is not above 0.
        """
        self._recorder.places["watch"] = caller(__file__)
        self._recorder.begin(
            Setup(
                records=self._recorder.records if records is None else records,
                rate=sample_rate,
                noise_multiplier=noise_multiplier,
                bound=max_grad_norm,
                divisor=0.0,
                coordinates=0,
                steps=steps,
            )
        )
        self._weights, self._stated = weights, epsilon
        if self._recorder.wanted.enlarged != 1:
            for weight in weights:
                enlarge(weight, self._recorder.wanted.enlarged)

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
        if self._recorder.setup is None:
            raise ConfigError(
                "watch.step is called before watch.own: say there what your training states"
            )
        self._recorder.places.setdefault("step", caller(__file__))
        one, two = flat(summed), flat(noise)
        if one.shape != two.shape:
            raise ConfigError(
                f"watch.step gets {one.size} sums and {two.size} draws of noise: give one of each "
                "coordinate"
            )
        self._recorder.settle(divisor=float(divisor), coordinates=one.size)
        noised = (one.astype(np.float64) + two).astype(np.float32)
        forced = self._recorder.see(one, noised, float(divisor), rows=rows, state=self.state())
        return shaped(noised / np.float32(divisor) if forced is None else forced, noise)

    def state(self) -> str:
        """Return a digest of weights, buffers and learning rates; empty before `watch`."""
        if self._library is not None:
            return self._library.state()
        return state_of(self._weights) if self._weights else ""

    def transcript(self, *, finished: bool, returned: Any) -> Transcript:
        """Return what was seen; see `Recorder.transcript`.

        Raises:
            ConfigError: the training was not watched, or made no step.
        """
        if self._library is None and self._recorder.setup is None:
            raise ConfigError(
                "the training calls no watch: add watch(optimizer, …) after make_private, or "
                "watch.own(…) and watch.step(…) to a loop of your own"
            )
        library, counted, stated = self._library, None, self._stated
        if library is not None:
            counted, stated = library.accounted()
        return self._recorder.transcript(
            self._weights if library is None else library.weights,
            returned,
            counted=counted,
            stated=stated,
            finished=finished,
        )
