"""CI reports of a command without a result, so that no pipeline publishes an older one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.cli.writing import STANDARD_OUTPUT, deliver, files_read, is_summary, parsed
from dpaudit.core.errors import DpauditError
from dpaudit.core.exit_codes import RUN_FAILED

if TYPE_CHECKING:
    from dpaudit.reports.ci import Format

# In click's `meta`, which the group reads after a command has failed: the context of the command.
_COMMAND = f"{__name__}.command"
_RUNNING = "the run has not finished: it is still running, or was killed"


def _remember(ctx: click.Context, _: click.Parameter, value: Sequence[str]) -> Sequence[str]:
    """Keep the command, and make the paths of its reports absolute, as `begin` does."""
    ctx.meta[_COMMAND] = ctx
    return tuple(map(_absolute, value))


def _absolute(option: str) -> str:
    name, _, file = option.partition("=")
    return f"{name}={Path(file).absolute()}" if file and Path(file) != STANDARD_OUTPUT else option


# Read before the other parameters, so that an error in one of them is reported too.
report_option = click.option(
    "--report",
    "reports",
    multiple=True,
    is_eager=True,
    callback=_remember,
    metavar="FORMAT=FILE",
    help="Write a further report, e.g. --report html=leakage.html; - is standard output. 'dpaudit "
    "list reports' names the formats.",
)


def write_failure(
    ctx: click.Context, message: str, code: int, where: tuple[Path, int] | None = None
) -> list[str]:
    """Write to each CI report of a command that it has no result.

    Args:
        ctx: the context of the command or of its group.
        message: why, in one sentence.
        code: the exit code.
        where: the file that is to blame and its line; None for the first of the config.

    Returns:
        What could not be written, as sentences.
    """
    from dpaudit.config.origin import shown
    from dpaudit.reports.ci import Failure

    problems = []
    for name, target, report in _asked(ctx):
        try:
            failure = Failure(message, code, _about(ctx.meta[_COMMAND].params))
            if where is not None:
                failure = replace(failure, path=shown(where[0]), line=where[1])
            deliver([(target, report.failed(failure))])
        except Exception as error:  # a plug-in may raise anything
            problems.append(f"the failure cannot be written to report {name!r}: {error}")
    return problems


def begin(ctx: click.Context) -> None:
    """Write to the files of CI reports that the run has not finished: it may be killed.

    The paths of the command are absolute from here on: code that runs may change the folder.

    Raises:
        ConfigError: a file cannot be written.
    """
    from dpaudit.reports.ci import Failure

    paths = {name: path for name, path in ctx.params.items() if isinstance(path, Path)}
    ctx.params.update({name: path.absolute() for name, path in paths.items()})
    failure = Failure(_RUNNING, RUN_FAILED, _about(ctx.params))
    deliver(
        [
            (target, report.failed(failure))
            for _, target, report in _asked(ctx)
            if target != STANDARD_OUTPUT and not is_summary(target)
        ]
    )


def _asked(ctx: click.Context) -> Iterator[tuple[str, Path, Format]]:
    """Yield the CI reports of the command: name, target and format.

    A file that the command reads, a record, or a store is no report's.
    """
    from dpaudit.core import registry
    from dpaudit.execution.store import NAME as STORE
    from dpaudit.record.storage import NAME
    from dpaudit.reports.ci import Format

    command = ctx.meta.get(_COMMAND)
    if command is None:
        return
    read = files_read(command)
    for option in command.params.get("reports", ()):
        try:
            name, target = parsed(option)
        except DpauditError:
            continue
        report = registry.load("reports", name)
        spared = target.name in {NAME, STORE} or target.resolve() in read
        if isinstance(report, Format) and not spared:
            yield name, target, report


def _about(params: dict[str, Any]) -> str:
    """Return the path of the config of a command, or of the record that it reads."""
    from dpaudit.config.load import FILES
    from dpaudit.config.origin import shown
    from dpaudit.record.storage import NAME

    folders = params.get("folders") or [params.get("folder")]
    if folders[0]:
        return shown(folders[0] if folders[0].is_file() else folders[0] / NAME)
    return shown(params.get("config") or Path(FILES[0]))
