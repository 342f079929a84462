"""How trainings with Opacus are watched: by the hooks of its optimizer and of PyTorch's."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from dpaudit.audits.dp_training.forms import flat, shaped, state_of
from dpaudit.audits.dp_training.recorder import Recorder
from dpaudit.audits.dp_training.transcript import Clipping, Place, Setup
from dpaudit.core.errors import ConfigError


@dataclass(eq=False)
class Watched:
    """An optimizer of Opacus that is watched.

    PyTorch's own hook before a step sees what reaches the weights, whatever happens before, and may
    replace it. Rows are seen where they are clipped, in each part of a batch that is split
    (BatchMemoryManager): the method of this one optimizer is wrapped, and the library stays as it
    is.

    Attributes:
        recorder: what records the steps.
        optimizer: the optimizer.
        model: the model; None if it was not given.
        accountant: the accountant; None if none is found.
        loader: the loader; None if it was not given.
        rate: the rate that the accountant's hook has; None if it is not known before the first
            step.
    """

    recorder: Recorder
    optimizer: Any
    model: Any
    accountant: Any
    loader: Any
    rate: float | None
    _rows: int | None = None
    _sums: list[Any] = field(default_factory=list)
    _largest: float = 0.0

    @classmethod
    def of(
        cls, recorder: Recorder, optimizer: Any, model: Any, accountant: Any, loader: Any
    ) -> Self:
        """Hook into an optimizer.

        Raises:
            ConfigError: it is not one of Opacus.
        """
        from opacus.optimizers import DPOptimizer

        if not isinstance(optimizer, DPOptimizer):
            raise ConfigError(
                f"watch got {type(optimizer).__name__}, which is no optimizer of Opacus: give what "
                "make_private returned, or call watch.own and watch.step in a loop of your own"
            )
        hook = optimizer.step_hook
        known = inspect.getclosurevars(hook).nonlocals if inspect.isfunction(hook) else {}
        watched = cls(
            recorder=recorder,
            optimizer=optimizer,
            model=model,
            accountant=known.get("self") if accountant is None else accountant,
            loader=loader,
            rate=known.get("sample_rate"),
        )
        watched._hook()
        return watched

    @property
    def weights(self) -> Sequence[Any]:
        """The weights and buffers."""
        buffers = [] if self.model is None else list(self.model.buffers())
        return [*self.optimizer.params, *buffers]

    def state(self) -> str:
        """Return a digest of weights, buffers and learning rates."""
        rates = [
            {name: value for name, value in group.items() if isinstance(value, int | float)}
            for group in self.optimizer.param_groups
        ]
        return state_of(self.weights, rates)

    def accounted(self) -> tuple[int | None, float | None]:
        """Return the number of steps that the accountant counted, and the ε that it states."""
        if self.accountant is None:
            return None, None
        steps = sum(count for _, _, count in self.accountant.history)
        if not steps or not self.recorder.wanted.gradients:
            return steps, None  # an accountant takes longer than some trainings
        return steps, float(self.accountant.get_epsilon(self.recorder.wanted.delta))

    def _hook(self) -> None:
        optimizer = self.optimizer
        clip = optimizer.clip_and_accumulate

        def clipped() -> None:
            self._see_rows()
            clip()

        optimizer.clip_and_accumulate = clipped
        optimizer.original_optimizer.register_step_pre_hook(lambda *_: self._see())
        kind = type(optimizer)
        for what in ("clip_and_accumulate", "add_noise", "scale_grad"):
            place = _source(getattr(kind, what))
            if place is not None:
                self.recorder.places[what] = place
        if self.recorder.wanted.enlarged != 1:
            for weight in optimizer.params:
                weight.data.mul_(self.recorder.wanted.enlarged)

    def _see_rows(self) -> None:
        """Add up what the rows of a part of a batch should sum to."""
        import torch

        optimizer, bound = self.optimizer, self._bound
        samples = [sample for sample in optimizer.grad_samples if sample is not None]
        if not samples or isinstance(optimizer.max_grad_norm, list):
            return
        with torch.no_grad():
            squares = [sample.reshape(len(sample), -1).square().sum(1) for sample in samples]
            norms = torch.stack(squares, 1).sum(1).sqrt()
            # As the library does, which adds 10⁻⁶ to the norm.
            factors = (bound / (norms + 1e-6)).clamp(max=1.0)
            sums = [torch.einsum("i,i...", factors, sample) for sample in samples]
        self._sums = (
            sums if not self._sums else [a + b for a, b in zip(self._sums, sums, strict=True)]
        )
        self._rows = (self._rows or 0) + len(norms)
        if len(norms):
            self._largest = max(self._largest, float(norms.max()) / bound)

    @property
    def _bound(self) -> float:
        """The norm C; of clipping by layers, that of all layers together."""
        norm = self.optimizer.max_grad_norm
        return math.hypot(*norm) if isinstance(norm, list) else float(norm)

    def _see(self) -> None:
        """Record the step that PyTorch's optimizer is about to make."""
        optimizer, params = self.optimizer, self.optimizer.params
        divisor = 1.0
        if optimizer.loss_reduction == "mean":
            divisor = float(optimizer.expected_batch_size * optimizer.accumulated_iterations)
        summed = flat([param.summed_grad for param in params])
        gradient = flat([param.grad for param in params])
        clipping = None
        if self._sums:
            excess = float(np.linalg.norm(flat(self._sums) - summed.astype(np.float64)))
            clipping = Clipping(excess / self._bound, self._largest)
        multiplier = self._begin(summed.size, divisor)
        forced = self.recorder.see(
            summed,
            gradient * np.float32(divisor),
            divisor,
            rows=self._batch(),
            clipping=clipping,
            state=self.state(),
            scale=multiplier * self._bound,
        )
        self._rows, self._sums, self._largest = None, [], 0.0
        if forced is not None:
            grads = [param.grad for param in params]
            for param, grad in zip(params, shaped(forced, grads), strict=True):
                param.grad.copy_(grad)

    def _begin(self, coordinates: int, divisor: float) -> float:
        """Settle the setup at the first step; return σ of this step as the accountant has it."""
        optimizer = self.optimizer
        multiplier, rate = float(optimizer.noise_multiplier), self.rate
        if self.accountant is not None and self.accountant.history:
            multiplier, rate = (float(number) for number in self.accountant.history[-1][:2])
        if self.recorder.setup is not None:
            return multiplier
        sampler: Any = getattr(self.loader, "batch_sampler", None)
        sampler = getattr(sampler, "sampler", sampler)  # of a batch that is split
        if rate is None:
            raise ConfigError("no accountant of the optimizer is found: give watch the accountant")
        from opacus.utils.uniform_sampler import UniformWithReplacementSampler

        poisson = isinstance(sampler, UniformWithReplacementSampler)
        dataset = getattr(self.loader, "dataset", None)
        self.recorder.begin(
            Setup(
                records=self.recorder.records if dataset is None else len(dataset),
                rate=rate,
                noise_multiplier=multiplier,
                bound=self._bound,
                divisor=divisor,
                coordinates=coordinates,
                steps=None if self.loader is None else len(self.loader),
                poisson=None if self.loader is None else poisson,
            )
        )
        return multiplier

    def _batch(self) -> int | None:
        """Return the number of rows of the batch, if it is known."""
        if self._rows is not None:
            return self._rows
        norms = getattr(self.model, "per_sample_gradient_norms", None)
        return None if norms is None else len(norms)


def _source(method: Any) -> Place | None:
    """Return the first line of a method."""
    code = getattr(method, "__code__", None)
    return None if code is None else Place(code.co_filename, code.co_firstlineno)
