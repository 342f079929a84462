"""The record and the reports that a command writes.

CI reports of a command without a result say so, so that no pipeline publishes an older one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.core.errors import ConfigError, DpauditError, RunError
from dpaudit.core.exit_codes import RUN_FAILED, exit_code
from dpaudit.core.files import check_writable, write_set
from dpaudit.core.foreign import foreign
from dpaudit.core.messages import place
from dpaudit.core.standard import streams

if TYPE_CHECKING:
    from rich.console import Console

    from dpaudit.data.source import DataSource
    from dpaudit.record.comparison import Comparison
    from dpaudit.record.result import AuditResult
    from dpaudit.reports.ci import Format

STANDARD_OUTPUT = Path("-")
_READ = f"{__name__}.read"
_FILES = {"html": "report.html", "md": "report.md"}


def echo(text: str = "", *, nl: bool = True) -> None:
    """Print text, by default a line, to the command's own standard output."""
    click.echo(text, streams.output, nl)


def screen() -> Console:
    """Return a console on the command's own standard output."""
    from rich.console import Console

    return Console(file=streams.output)


def tell(sentences: Iterable[str]) -> None:
    """Print sentences, whose lines fit the terminal, to the command's own standard output."""
    from dpaudit.reports.terminal import say

    console = screen()
    for sentence in sentences:
        say(sentence, console)


class UnwrittenError(RunError):
    """Outputs of a run that has an outcome cannot be written.

    Attributes:
        code: the exit code: 1 if the outcome is `stop`, so that no failed gate is hidden; else 3.
        reported: whether the files are written, and only standard output is not.
    """

    def __init__(self, problems: Sequence[str], outcome: str, *, reported: bool) -> None:
        """Name what cannot be written, and the outcome."""
        super().__init__(f"{'; '.join(problems)}; the outcome is {outcome}")
        self.code = exit_code(outcome) if outcome == "stop" else RUN_FAILED
        self.reported = reported


def conclude(
    outcome: str,
    write: Callable[[], None],
    show: Callable[[bool], None],
    *,
    require_decision: bool = False,
) -> int:
    """Write files, show a result whatever becomes of them, and return the exit code.

    Args:
        outcome: the outcome.
        write: writes the files.
        show: prints the result; it is told whether the files are written.
        require_decision: whether a run that decides nothing ends like an undecided one.

    Raises:
        UnwrittenError: a file or the result cannot be written.
    """
    problems: list[str] = []
    with _noted(problems):
        write()
    reported = not problems
    with _noted(problems):
        show(reported)
    if problems:
        raise UnwrittenError(problems, outcome, reported=reported)
    return exit_code(outcome, require_decision=require_decision)


@contextmanager
def _noted(problems: list[str]) -> Iterator[None]:
    """Note what cannot be written, and go on."""
    try:
        yield
    except DpauditError as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"standard output cannot be written ({error.strerror})")


@dataclass(frozen=True)
class Output:
    """Where a record and its reports are written.

    Attributes:
        folder: the folder of the record.
        reports: the format and path of each report.
    """

    folder: Path
    reports: Sequence[tuple[str, Path]]

    @classmethod
    def of(cls, folder: Path, asked: Sequence[str]) -> Output:
        """Check the paths of the record, of the usual reports and of those asked for.

        They are absolute from here on, as code that runs may change the current folder.

        Raises:
            ConfigError: as of `checked`.
        """
        from dpaudit.execution.store import NAME as STORE
        from dpaudit.record.storage import NAME

        folder = folder.absolute()
        usual = [(name, folder / file) for name, file in _FILES.items()]
        written = [folder / NAME, *(target for _, target in usual)]
        check_writable(written)
        return cls(folder, [*usual, *checked(asked, [*written, folder / STORE])])

    def finish(self, result: AuditResult, *, quiet: bool, details: bool = False) -> int:
        """Write the record and the reports, print the result, and return the exit code.

        Gates are judged before any report is rendered, so no report can change their outcome. The
        result is printed even if the disk is full.

        Raises:
            UnwrittenError: the record, a report or the result cannot be written.
        """

        def show(written: bool) -> None:
            if not quiet:
                _show(result, self.folder if written else None, details=details)

        return conclude(
            result.outcome,
            lambda: self._write(result),
            show,
            require_decision=result.require_decision,
        )

    def _write(self, result: AuditResult) -> None:
        from dpaudit.record import storage

        written = [(self.folder / storage.NAME, storage.render(result))]
        for name, target in self.reports:
            try:
                written += render(name, target, result)
            except RunError as error:  # it costs no finished run
                deliver(written)
                raise RunError(
                    f"{error}; the record is in {place(self.folder)}: render another with 'dpaudit "
                    f"report {place(self.folder)} --format md'"
                ) from error
        deliver(written)


def checked(asked: Sequence[str], others: Sequence[Path] = ()) -> list[tuple[str, Path]]:
    """Return the format and path of each report that is asked for.

    Args:
        asked: the options `--report FORMAT=FILE`.
        others: what else the command writes.

    Raises:
        ConfigError: a format is unknown, a path cannot be written or is given twice, or the command
            reads it.
    """
    reports = [parsed(option) for option in asked]
    for report in reports:
        check_target(*report)
    files = [target.resolve() for _, target in reports if target != STANDARD_OUTPUT]
    twice = Counter([*files, *(place.resolve() for place in others)])
    read = files_read(click.get_current_context())
    for file in files:
        if twice[file] > 1:
            raise ConfigError(
                f"two outputs are written to {place(file)}: give --report another file"
            )
        if file in read:
            raise ConfigError(
                f"the report would replace {place(file)}, which the command reads: give "
                "--report another file"
            )
    return reports


def check_target(name: str, target: Path) -> None:
    """Refuse a path that a report of this format cannot be written to: a file or a folder.

    Raises:
        ConfigError: it cannot.
    """
    from dpaudit.core import registry
    from dpaudit.reports.folder import Folder

    several = isinstance(registry.load("reports", name), Folder)
    if several and target == STANDARD_OUTPUT:
        raise ConfigError(f"the report {name!r} is several files: name a folder in place of -")
    check_writable([target / "*" if several else target])


def reads(ctx: click.Context, source: DataSource | None) -> None:
    """Note the files of data that a config names, so that no report replaces them."""
    if source is None:
        return
    files = source.plain
    tables = (table.path for table in (files.trust, files.budgets) if table)
    ctx.meta[_READ] = [Path(path).resolve() for path in (files.path, *tables) if path]


def files_read(ctx: click.Context) -> set[Path]:
    """Return the files that a command reads; for the folder of a run, its record.

    These are the files that its arguments name, and those noted by `reads`.
    """
    from dpaudit.record.storage import NAME

    groups = (
        argument if isinstance(argument, tuple) else (argument,) for argument in ctx.params.values()
    )
    paths = [path for group in groups for path in group if isinstance(path, Path)]
    named = {(path / NAME if path.is_dir() else path).resolve() for path in paths}
    return named.union(ctx.meta.get(_READ, ()))


def deliver(texts: Sequence[tuple[Path, str]]) -> None:
    """Write outputs: replace files, add to the job summary of GitHub, print those for `-`.

    Args:
        texts: the path and text of each; the first file is the one that the others are made from.

    Raises:
        ConfigError: a file cannot be written.
    """
    added = [STANDARD_OUTPUT, *(target for target, _ in texts if is_summary(target))]
    write_set({target: text for target, text in texts if target not in added})
    for target, text in texts:
        if target == STANDARD_OUTPUT:
            echo(text, nl=False)
        elif target in added:
            _append(target, text)


def is_summary(target: Path) -> bool:
    """Whether a path is that of the job summary, to which all commands of a step add."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    return bool(summary) and target.absolute() == Path(summary or "").absolute()


def _append(target: Path, text: str) -> None:
    try:
        with target.open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(
            f"{place(target)} cannot be written ({error.strerror}): name another place"
        ) from error


def render(
    name: str, target: Path, result: AuditResult, compared: Comparison | None = None
) -> list[tuple[Path, str]]:
    """Return the files of a report: the path and the text of each.

    Args:
        name: the format.
        target: its file, or its folder.
        result: the record.
        compared: its comparison with a baseline, which the formats of CI services show.

    Raises:
        RunError: the format raised an exception.
    """
    from dpaudit.core import registry
    from dpaudit.reports.ci import Format
    from dpaudit.reports.folder import Folder

    report = registry.load("reports", name)
    with foreign(lambda why: RunError(f"report {name!r} failed ({why})")):
        text: Any = report(result, compared) if isinstance(report, Format) else report(result)
    if not isinstance(report, Folder):
        return [(target, text)]
    if not text:
        empty = f"dpaudit: report {name!r} of this record is empty: {place(target)} gets no file"
        click.echo(empty, streams.errors)
    return [(target / file, part) for file, part in text.items()]


def parsed(option: str) -> tuple[str, Path]:
    """Return the format and the path of an option `--report FORMAT=FILE`.

    Raises:
        ConfigError: it is something else, or the format is unknown.
    """
    from dpaudit.core import registry

    name, equals, file = option.partition("=")
    if not equals or not file:
        raise ConfigError(f"the option --report {option!r} is not FORMAT=FILE: e.g. html=out.html")
    registry.load("reports", name)
    return name, Path(file)


def _show(result: AuditResult, folder: Path | None, *, details: bool) -> None:
    """Print a result, and the folder of its record if that is written."""
    from dpaudit.reports.render.console import close, show

    console = screen()
    show(result, console, details=details)
    echo(f"Seed: {result.config['seed']}")
    if folder is not None:
        echo(f"Record and reports: {place(folder)}")
    close(result, console, place(folder) if folder else None)


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
    help="Write a further report, e.g. --report html=leakage.html; - is standard output. Of svg it "
    "is a folder. 'dpaudit list reports' names the formats.",
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
