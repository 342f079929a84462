"""How trainings with jax-privacy are watched: by the parts of their execution plan.

A plan holds what draws batches, what clips and what adds noise. The plan that a training gets in
its place draws the same batches and noise, and shows each step to the recorder. Values leave
compiled code by an ordered callback, in which nothing may be raised: what ends a training is raised
where it draws its next batch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dpaudit.audits.dp_training.forms import flat, shaped
from dpaudit.audits.dp_training.recorder import Recorder
from dpaudit.audits.dp_training.transcript import Setup, Unit
from dpaudit.core.errors import ConfigError


def watch_plan(recorder: Recorder, plan: Any, unit: Unit) -> Any:
    """Return a plan that does the same, and is watched.

    Args:
        recorder: what records the steps.
        plan: a `DPExecutionPlan` with independent noise and Poisson batches.
        unit: what a row is.

    Raises:
        ConfigError: the plan is none of DP-SGD.
    """
    from dp_accounting import SelfComposedDpEvent
    from jax_privacy.batch_selection import CyclicPoissonSampling

    batches = plan.batch_selection_strategy
    cyclic = isinstance(batches, CyclicPoissonSampling) and batches.cycle_length == 1
    composed = isinstance(plan.dp_event, SelfComposedDpEvent)
    if not cyclic or not composed or batches.truncated_batch_size is not None:
        raise ConfigError(
            f"watch got a plan with batches by {batches}, and plans with one band and without "
            "truncation are audited: make one of these"
        )
    watched = _Watched(recorder, plan, unit)
    recorder.accounted = watched.accounted
    strategy = copy.copy(batches)
    # It is frozen, and no other object gets the method.
    object.__setattr__(strategy, "batch_iterator", watched.batches)
    noise = plan.noise_addition_transform._replace(update=watched.update)
    return replace(plan, batch_selection_strategy=strategy, noise_addition_transform=noise)


@dataclass(eq=False)
class _Watched:
    """A plan that is watched."""

    recorder: Recorder
    plan: Any
    unit: Unit
    _rows: int = 0
    _error: BaseException | None = None

    def accounted(self) -> tuple[int, float | None]:
        """Return the number of steps that the plan counts, and the ε that it states."""
        from dp_accounting import NeighboringRelation
        from dp_accounting.pld import PLDAccountant

        wanted, event = self.recorder.wanted, self.plan.dp_event
        if not wanted.accounted:
            return event.count, None
        accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE).compose(event)
        return event.count, float(accountant.get_epsilon(wanted.delta))

    def batches(self, num_examples: int, rng: Any = None) -> Iterator[Any]:
        """Yield the plan's batches, and settle what it states; see `BatchSelectionStrategy`."""
        import jax

        event, strategy = self.plan.dp_event, self.plan.batch_selection_strategy
        sampled, bound = event.event, self.plan.clipped_grad(lambda: None).l2_norm_bound
        multiplier = float(sampled.event.noise_multiplier)
        settled = num_examples, float(sampled.sampling_probability), multiplier, float(bound)
        self.recorder.begin(Setup(*settled, poisson=True, unit=self.unit))
        for batch in strategy.batch_iterator(num_examples, rng):
            self._rows = len(batch)
            yield batch
            jax.effects_barrier()
            if self._error is not None:
                raise self._error

    def update(self, sums: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        """Add noise as the plan does, and return what moves the weights; see optax."""
        import jax
        from jax.experimental import io_callback

        noised, state = self.plan.noise_addition_transform.update(sums, state, params)
        leaves, form = jax.tree.flatten(noised)
        seen = io_callback(self._see, leaves, jax.tree.leaves(sums), leaves, ordered=True)
        return jax.tree.unflatten(form, seen), state

    def _see(self, sums: Any, noised: Any) -> Any:
        """Record a step; return the numbers to put in place, or its own."""
        try:
            forced = self.recorder.see(flat(sums), flat(noised), 1.0, rows=self._rows)
        except BaseException as error:  # raised where the next batch is drawn
            self._error = self._error or error
            forced = None
        return noised if forced is None else shaped(forced, noised)
