"""`dpaudit plan`: the violations that a budget of trials can detect."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
from click.core import ParameterSource

from dpaudit.cli import options
from dpaudit.cli.options import NumberRange, NumberType, PathType, WholeRange
from dpaudit.cli.writing import echo, screen, tell
from dpaudit.core.errors import ConfigError
from dpaudit.core.messages import plain
from dpaudit.core.rounding import duration, size

if TYPE_CHECKING:
    from rich.table import Table

    from dpaudit.auditor.kind import Forecast
    from dpaudit.config.schema import Config
    from dpaudit.execution.sampling import Cost, Sample
    from dpaudit.execution.workers import Workers

_GAMES = ("laplace", "gaussian", "randomized-response")
# What the table of a forecast says.
_FORECAST = (
    "finds ε from: a model that truly leaks this ε, or more, would be shown to break its claim "
    "in 95 of 100 runs. nothing: with so few trials no model would be, however much it leaks.",
    "This is an optimistic forecast, for Laplace noise, or Gaussian noise where δ is above 0. "
    "The run itself measures what its games find, and gates on epsilon ask for that.",
)
# Options that CONFIG replaces.
_CLAIM = ("epsilon", "delta", "confidence", "trials", "game")


@click.command()
@click.argument("config", required=False, type=PathType())
@click.option("--epsilon", type=NumberType(), help="The claimed ε, without CONFIG.")
@options.defaulted("--delta", NumberType(), 0.0, "The claimed δ.")
@options.defaulted("--confidence", NumberType(), 0.95, "Confidence of the bounds.")
@options.defaulted("--trials", WholeRange(2), 20_000, "Trials on both data sets together.")
@options.defaulted("--game", click.Choice(_GAMES), "laplace", "The mechanism that is assumed.")
@click.option(
    "--factor", type=NumberType(), help="Also print how many trials detect this multiple of ε."
)
@click.option(
    "--minutes", type=NumberType(), help="With CONFIG: use as many trials as fit into this time."
)
@options.defaulted(
    "--timing",
    NumberRange(0, 1e6, min_open=True),
    4.0,
    "With CONFIG: the time in which the first tasks of the stages are timed.",
    metavar="SECONDS",
)
@options.overrides("CONFIG")
@options.workers
@options.allow_code
@click.pass_context
def plan(
    ctx: click.Context,
    config: Path | None,
    epsilon: float | None,
    delta: float,
    confidence: float,
    trials: int,
    game: str,
    factor: float | None,
    minutes: float | None,
    timing: float,
    overrides: tuple[str, ...],
    workers: Workers | None,
    allow_code: bool,
) -> None:
    """Forecast what a run costs, and the smallest violation that its trials detect.

    With CONFIG, the first task of each stage is run, which gives the time and memory of the run and
    what --workers changes; what does not end within --timing seconds is not timed, and games
    without training are forecast as they would be run. Without it, all methods are compared on an
    assumed mechanism by the smallest true ε that each detects to exceed --epsilon.
    """
    if config is not None:
        for name in _CLAIM:
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise ConfigError(f"--{name} belongs to a plan without CONFIG: remove one")
        _plan_config(config, overrides, factor, minutes, timing, workers, allow_code)
        return
    timed = ctx.get_parameter_source("timing") is ParameterSource.COMMANDLINE
    for name, given in (("timing", timed), ("set", overrides), ("allow-code", allow_code)):
        if given:
            raise ConfigError(f"--{name} belongs to a plan with CONFIG: remove it")
    if minutes is not None:
        raise ConfigError("--minutes belongs to a plan with CONFIG: give --trials")
    if epsilon is None:
        raise ConfigError("neither CONFIG nor --epsilon is given: give one of them")
    for name, value, least, example in (
        ("epsilon", epsilon, 0.0, "1"),
        ("delta", delta, 0.0, "1e-5"),
        ("confidence", confidence, 0.5, "0.95 for 95 %"),
    ):
        if not least <= value < (math.inf if name == "epsilon" else 1):
            span = "finite and at least 0" if name == "epsilon" else f"in [{least:g}, 1)"
            raise ConfigError(f"--{name} {value:g} is not {span}: use e.g. {example}")
    _plan_methods(epsilon, delta, confidence, trials, game, factor)


def _plan_config(
    path: Path,
    overrides: tuple[str, ...],
    factor: float | None,
    minutes: float | None,
    timing: float,
    workers: Workers | None,
    allow_code: bool,
) -> None:

    from dpaudit.auditor.plan import Plan
    from dpaudit.auditor.run import cost_of
    from dpaudit.config import load as config_file
    from dpaudit.execution.reporter import Reporter

    checked = config_file.load(path, overrides, checks=[lambda config: Plan(config).check_named()])
    planned = Plan(checked, allow_code=allow_code)
    rows = planned.kind.forecast(checked, factor=factor, minutes=minutes)
    if not rows and (factor is not None or minutes is not None):
        raise ConfigError(
            f"{path} has no games whose power can be forecast: leave out --factor and --minutes"
        )
    if allow_code:
        options.import_from(path.parent, checked.code)
    placed = config_file.placing(checked, path, overrides)
    with Reporter(quiet=True) as reporter, placed:
        cost = cost_of(planned, reporter, timing)
    tell(cost.decisions)
    workers = options.workers_of(checked, workers)
    # On threads such tasks run one after the other.
    alone = checked.processes and workers.backend == "threads"
    _show_cost(cost, timing, replace(workers, count=1) if alone else workers)
    tell(_tuning(checked, cost))
    if rows:
        _show_forecast(rows)


def _tuning(config: Config, cost: Cost) -> Iterator[str]:
    """Say what `dpaudit tune` would train, and how long it takes, if the config has [tune]."""
    from dpaudit.audits.membership.config import MembershipConfig
    from dpaudit.tuning.run import forecast

    if isinstance(config, MembershipConfig) and config.tune is not None:
        each = [one.seconds / one.trials for one in cost.stages if one.seconds and one.trials]
        yield forecast(config, each[0] if each else None)


def _show_forecast(rows: Sequence[Forecast]) -> None:
    """Print what each game can detect."""
    from rich.text import Text

    wanted = any(row.needed is not None for row in rows)
    table = _table(["model", "pair", "claimed ε", "trials", "finds ε from", "seconds"])
    if wanted:
        table.add_column("needed", justify="right")
    for row in rows:
        cells = [row.model, row.pair, f"{row.claimed:g}", f"{row.trials}", _least(row.detectable)]
        cells.append(f"{row.seconds:.2g}")
        if wanted:
            cells.append(_whole(row.needed))
        table.add_row(*(Text(plain(cell)) for cell in cells))
    screen().print(table)
    tell(_FORECAST)


def _show_cost(cost: Cost, timing: float, workers: Workers) -> None:
    """Print the stages, and what the whole run takes on one worker and on those asked for."""
    from rich.text import Text

    table = _table(["stage", "tasks", "trials", "a task", "all, one worker"])
    for stage in cost.stages:
        cells = (plain(stage.stage), str(stage.tasks), str(stage.trials), *_times(stage))
        table.add_row(*map(Text, cells))
    screen().print(table)
    tell([*_sums(cost, workers), *_gaps(cost, timing), f"memory: {_memory(cost)}"])
    echo()


def _memory(cost: Cost) -> str:

    least = "at least " if cost.untimed else ""
    one = f"{least}{size(cost.memory(1))}"
    if len(cost.untimed) == len(cost.stages):
        return f"{one} with one worker"
    return (
        f"{one} with one worker, {least}{size(cost.task)} more for each further thread, {one} for "
        "each process or Dask worker"
    )


def _times(stage: Sample) -> tuple[str, str]:
    """Write the time of one task and of all."""
    if stage.seconds is None:
        return f"> {duration(stage.limit)}" if stage.limit else "", "not timed"
    most = "≤ " if stage.once else ""
    return f"{most}{duration(stage.seconds / stage.tasks)}", f"{most}{duration(stage.seconds)}"


def _sums(cost: Cost, workers: Workers) -> Iterator[str]:
    """Say what the timed stages take together."""
    most = "at most " if cost.once else ""
    count = workers.count or 1
    if len(cost.untimed) == len(cost.stages):
        yield "the run: not timed"
    else:
        times = [f"{most}{duration(cost.seconds)} on one worker"]
        if count > 1:
            times.append(f"{most or 'about '}{duration(cost.seconds / count)} on {workers}")
        sums = f"{', '.join(times)}; each as fast as this one"
        if cost.untimed:
            untimed = f"{len(cost.untimed)} of {len(cost.stages)} stages are not timed"
            sums = f"{untimed}; the others take {sums}"
        yield f"the run: {sums}"
    if cost.controlled:
        least = "at least" if any(stage.controlled for stage in cost.untimed) else "about"
        yield (
            f"positive controls run games again on mutants, which their results choose: {least} "
            f"{duration(cost.controlled)} more on one worker if each game needs one, and up to "
            "five times as much"
        )


def _gaps(cost: Cost, timing: float) -> Iterator[str]:
    """Say which times are not known, or are limits, and how to know them."""
    if cost.once:
        yield "≤: its first task ran once, and may have prepared what further tasks share"
    if cost.untimed:
        yield (
            f"not timed: the first task of the stage did not end in its part of the {timing:g} "
            f"seconds that plan takes for all. Give them more: --timing {15 * timing:g}"
        )


def _plan_methods(
    epsilon: float, delta: float, confidence: float, trials: int, game: str, factor: float | None
) -> None:

    from dpaudit.bounds import planning
    from dpaudit.reports import words

    supposed = cast(planning.Game, game)
    methods = planning.plan(
        epsilon, delta=delta, confidence=confidence, trials=trials, game=supposed
    )
    method = methods.recommended or "label test"
    needed = None
    if factor is not None:
        needed = planning.trials_needed(
            epsilon, factor, delta=delta, confidence=confidence, game=supposed, method=method
        )
    table = _table(["method", "kind", "may gate", "80 % power", "95 % power", "rounds"])
    for reach in methods.reaches:
        table.add_row(
            reach.method,
            reach.kind,
            "yes" if reach.may_gate else "no",
            _least(reach.at_80),
            _least(reach.at_95),
            "" if reach.rounds is None else f"{reach.rounds:.0f}",
        )
    screen().print(table)
    sentences = [
        f"80 % and 95 % power: a mechanism of kind {game} that truly leaks this ε, or more, would "
        f"be shown to leak more than {epsilon:g} at δ = {delta:g} in 80 or 95 of 100 runs of "
        f"{trials} trials, each with {words.percent(confidence)} confidence; nothing: none would "
        "be",
        f"recommended: {methods.recommended or 'more trials: no method finds anything'}",
    ]
    if factor is not None:
        sentences.append(f"{factor:g} times the claim needs {needed} trials of the {method}")
    tell(sentences)


def _table(names: list[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in names:
        left = name in {"model", "pair", "method", "kind", "may gate", "stage"}
        table.add_column(name, justify="left" if left else "right", overflow="fold")
    return table


def _least(value: float) -> str:
    return "nothing" if math.isinf(value) else f"{value:.4g}"


def _whole(value: float | None) -> str:
    if value is None:
        return ""
    return "none" if math.isinf(value) else f"{value:.0f}"
