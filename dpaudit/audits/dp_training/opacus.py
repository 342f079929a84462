"""How trainings with Opacus are watched: by the hooks of its optimizer and of PyTorch's."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpaudit.audits.dp_training.forms import flat, shaped
from dpaudit.audits.dp_training.recorder import Recorder
from dpaudit.audits.dp_training.transcript import Clipping, Place, Setup, Unit
from dpaudit.core.errors import ConfigError


def watch_optimizer(
    recorder: Recorder, optimizer: Any, model: Any, accountant: Any, loader: Any, unit: Unit
) -> None:
    """Hook into an optimizer of Opacus.

    Args:
        recorder: what records the steps.
        optimizer: the optimizer.
        model: the model; None if it was not given.
        accountant: the accountant; None for that of the optimizer's hook.
        loader: the loader; None if it was not given.
        unit: what a row is.

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
    if accountant is None and inspect.isfunction(hook):
        accountant = inspect.getclosurevars(hook).nonlocals.get("self")
    watched = _Watched(recorder, optimizer, model, accountant, loader, unit)
    clip = optimizer.clip_and_accumulate

    def clipped() -> None:
        watched.see_rows()
        clip()

    optimizer.clip_and_accumulate = clipped
    optimizer.original_optimizer.register_step_pre_hook(lambda *_: watched.see_step())
    for part in ("clip_and_accumulate", "add_noise", "scale_grad"):
        code = getattr(getattr(type(optimizer), part), "__code__", None)
        if code is not None:
            recorder.places[part] = Place(code.co_filename, code.co_firstlineno)
    buffers = model.buffers if model is not None else list
    recorder.weights = lambda: [*optimizer.params, *buffers()]
    recorder.rates = lambda: optimizer.state_dict()["param_groups"]
    recorder.accounted = watched.accounted
    recorder.enlarge(optimizer.params)


@dataclass(eq=False)
class _Watched:
    """An optimizer of Opacus that is watched.

    PyTorch's own hook before a step sees what reaches the weights, whatever happens before, and may
    replace it. Rows are seen where they are clipped, in each part of a batch that is split
    (BatchMemoryManager): the method of this one optimizer is wrapped, and the library stays as it
    is.
    """

    recorder: Recorder
    optimizer: Any
    model: Any
    accountant: Any
    loader: Any
    unit: Unit
    _rows: int | None = None
    _sums: list[Any] = field(default_factory=list)
    _largest: float = 0.0

    def accounted(self) -> tuple[int | None, float | None]:
        """Return the number of steps that the accountant counted, and the ε that it states."""
        if self.accountant is None:
            return None, None
        steps, wanted = sum(count for _, _, count in self.accountant.history), self.recorder.wanted
        if not steps or not wanted.accounted:
            return steps, None
        return steps, float(self.accountant.get_epsilon(wanted.delta))

    def see_rows(self) -> None:
        """Add up what the rows of a part of a batch should sum to."""
        import torch

        optimizer, bound = self.optimizer, self._bound
        samples = [sample for sample in optimizer.grad_samples if sample is not None]
        if not samples:
            return
        self._rows = (self._rows or 0) + len(samples[0])
        # Clipping by layers has several norms; and other numbers may take the place of the sums.
        if isinstance(optimizer.max_grad_norm, list) or self.recorder.wanted.forced:
            return
        with torch.no_grad():
            norms = [sample[:, None].flatten(1).norm(dim=1) for sample in samples]
            norms = torch.stack(norms).norm(dim=0)
            # As the library does, which adds 10⁻⁶ to the norm.
            factors = (bound / (norms + 1e-6)).clamp(max=1.0)
            sums = [torch.einsum("i,i...", factors, sample) for sample in samples]
        before = self._sums or [0] * len(sums)
        self._sums = [one + other for one, other in zip(before, sums, strict=True)]
        self._largest = max([self._largest, *(norms / bound).tolist()])

    @property
    def _bound(self) -> float:
        """The norm C; of clipping by layers, that of all layers together."""
        norm = self.optimizer.max_grad_norm
        return math.hypot(*norm) if isinstance(norm, list) else float(norm)

    def see_step(self) -> None:
        """Record the step that PyTorch's optimizer is about to make."""
        optimizer, params = self.optimizer, self.optimizer.params
        divisor, bound, rows, clipping = 1.0, self._bound, self._rows, None
        if optimizer.loss_reduction == "mean":
            divisor = float(optimizer.expected_batch_size * optimizer.accumulated_iterations)
        summed = flat([param.summed_grad for param in params])
        noised = flat([param.grad for param in params]) * np.float32(divisor)
        if self._sums:
            excess = float(np.linalg.norm(flat(self._sums) - summed.astype(np.float64)))
            clipping = Clipping(excess / bound, self._largest)
        if rows is None:
            norms = getattr(self.model, "per_sample_gradient_norms", None)
            rows = None if norms is None else len(norms)
        scale = self._begun() * bound
        forced = self.recorder.see(summed, noised, divisor, scale, rows=rows, clipping=clipping)
        self._rows, self._sums, self._largest = None, [], 0.0
        if forced is not None:
            grads = [param.grad for param in params]
            for grad, other in zip(grads, shaped(forced, grads), strict=True):
                grad.copy_(other)

    def _begun(self) -> float:
        """Return σ of this step as the accountant has it; settle the setup at the first one."""
        if self.accountant is None or not self.accountant.history:
            raise ConfigError("no accountant of the optimizer is found: give watch the accountant")
        multiplier, rate, _ = self.accountant.history[-1]
        if self.recorder.setup is None:
            from opacus.utils.uniform_sampler import UniformWithReplacementSampler

            sampler: Any = getattr(self.loader, "batch_sampler", None)
            sampler = getattr(sampler, "sampler", sampler)  # of a batch that is split
            poisson = isinstance(sampler, UniformWithReplacementSampler)
            steps = None if self.loader is None else len(self.loader)
            dataset = getattr(self.loader, "dataset", None)
            records = self.recorder.records[self.unit] if dataset is None else len(dataset)
            settled = records, float(rate), float(multiplier), self._bound, steps
            known = None if self.loader is None else poisson
            self.recorder.begin(Setup(*settled, known, self.unit))
        return float(multiplier)
