"""Audit a training by DP-SGD from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal

from pydantic import ValidationError

from dpaudit.auditor.plan import Plan
from dpaudit.auditor.run import run_audit
from dpaudit.audits.dp_training.config import DPTrainingConfig
from dpaudit.audits.dp_training.runs import Trainer
from dpaudit.audits.membership.audit import Audit
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.data.interactions import given_ratings
from dpaudit.execution.tasks import Progress
from dpaudit.execution.workers import Workers


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

    The training is run as it is, on its data and on others beside them: about `far + 5` times.

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
    from dpaudit.execution.reporter import Reporter, interactive

    ratings = given_ratings(interactions)
    name = f"{train.__module__}:{train.__qualname__}"
    if epsilon is None:
        epsilon = Trainer(train, name, seed or 0, delta).run(ratings, gradients=True).stated
    if epsilon is None:
        raise ConfigError("no accountant of the training states an ε: give epsilon")
    values = {
        **({} if seed is None else {"seed": seed}),
        **({"gate": list(gates)} if gates else {}),
        "dp-training": {
            "target": name,
            "epsilon": epsilon,
            "delta": delta,
            "unit": unit,
            "far": far,
            "number_is_public": number_is_public,
        },
    }
    try:
        config = DPTrainingConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(registry.first_problem(error, "audit_dp_training", (), values)) from error
    config = config.model_copy(update={"dp-training": config.training.given(train)})
    Plan(config).check_gates()
    with Reporter() if progress is None and interactive() else nullcontext(progress) as shown:
        workers = Workers()
        record = run_audit(
            config, workers=workers, progress=shown, allow_code=True, ratings=ratings
        )
    return Audit(record)
