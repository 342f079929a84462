"""Audit a training by DP-SGD from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from dpaudit.audits.dp_training.config import DPTrainingConfig
from dpaudit.audits.dp_training.runs import Trainer
from dpaudit.audits.membership.audit import Audit, checked, recorded
from dpaudit.core.errors import ConfigError
from dpaudit.data.interactions import given_ratings
from dpaudit.execution.tasks import Progress


def audit_dp_training(
    train: Callable[..., Any],
    interactions: Any,
    *,
    delta: float,
    unit: Literal["interaction", "user"] = "interaction",
    epsilon: float | None = None,
    far: int = 4,
    number_is_public: bool = False,
    gates: Sequence[Mapping[str, Any]] = (),
    seed: int | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Check step by step whether a training by DP-SGD has the ε that is stated for it.

    The training is run as it is, on its data and on others beside them: with `far = 4` six times,
    and for some hundred steps. All runs in this process, and nothing is kept.

    Args:
        train: `train(interactions, seed, watch)`, which draws all but its noise from `seed`. With
            Opacus it calls `watch(optimizer, model=…, loader=…)` after `make_private`; a loop of
            its own calls `watch.own(…)`, and `watch.step(…)` in each step.
        interactions: a sparse matrix of users × items; a data frame of pandas, polars, Arrow or
            another library that narwhals reads; or the path of a file.
        delta: the δ of the claim.
        unit: what the claim is about: one `interaction`, or all of a `user`.
        epsilon: the claimed ε; None for what the accountant of the training states.
        far: the number of data sets that differ in all rows, for the recorded noised sums.
        number_is_public: whether the number of interactions is public.
        gates: thresholds, as tables of `[[gate]]`; by default no check may fail.
        seed: decides everything that is random; None draws one, which the record holds.
        progress: receives progress reports; by default they are shown on a terminal and in a
            notebook.

    Raises:
        ConfigError: an argument is out of range, the training is not watched, its seed does not
            repeat it, or nothing states an ε.
        DataError: the interactions cannot be used.
        RunError: the training raises an exception.
    """
    ratings = given_ratings(interactions)
    name = f"{train.__module__}:{train.__qualname__}"
    if epsilon is None:
        epsilon = Trainer(train, name, seed or 0, delta).run(ratings, accounted=True).stated
    if epsilon is None:
        raise ConfigError("no accountant of the training states an ε: give epsilon")
    claim = {"target": name, "epsilon": epsilon, "delta": delta, "unit": unit}
    table = {**claim, "far": far, "number_is_public": number_is_public}
    tables: dict[str, Any] = {"dp-training": table, **({"gate": list(gates)} if gates else {})}
    config = checked(DPTrainingConfig, "audit_dp_training", seed=seed, **tables)
    config = config.model_copy(update={"dp-training": config.training.given(train)})
    return Audit(recorded(config, ratings, progress))
