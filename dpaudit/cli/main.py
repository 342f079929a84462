"""The `dpaudit` command."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import click

from dpaudit.cli.audit import merge, report, run, runs, split
from dpaudit.cli.catalogue import data, list_, schema, show
from dpaudit.cli.claims import claims
from dpaudit.cli.epsilon import epsilon
from dpaudit.cli.gate import diff, gate
from dpaudit.cli.init import init
from dpaudit.cli.membership import membership
from dpaudit.cli.plan import plan
from dpaudit.cli.stopping import StopSignal, stoppable
from dpaudit.cli.tune import tune
from dpaudit.cli.writing import UnwrittenError, write_failure
from dpaudit.core.errors import ConfigError, DpauditError, InputError, RunError
from dpaudit.core.exit_codes import RUN_FAILED, USER_ERROR
from dpaudit.core.messages import plain
from dpaudit.core.standard import streams

# Messages contain values of configs and records, which may be long.
_LONGEST = 1000
# A message about data or from the user's code may quote ids and ratings, which no report holds.
_UNSAID = "the command's output says why; this report does not, as the reason may quote the data"


class _Group(click.Group):
    """Map errors to exit codes: 2 for what the user can correct, 3 for a run that failed.

    The exit code 1 of Python, click and rich would be read as a failed gate.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they are added."""
        return list(self.commands)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command, and end the process with its exit code."""
        with stoppable():
            try:
                code = super().main(*args, **{**options, "standalone_mode": False})
            except click.ClickException as error:
                error.show(streams.errors)
                code = USER_ERROR
            except (Exception, KeyboardInterrupt) as error:
                # Raised before a command began, as by `--help` on a full disk.
                end = _end(click.Context(self), error)
                _tell(end.message)
                code = end.code
        sys.exit(code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and say in a sentence why it has no result."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                streams.output.flush()
        except click.exceptions.Exit:
            raise
        except click.ClickException as error:
            context = error.ctx if isinstance(error, click.UsageError) else ctx
            said = error.format_message()
            for problem in write_failure(ctx, said, USER_ERROR):
                _tell(problem)
            raise click.UsageError(_shown(said), context) from error
        except BaseException as error:
            end = _end(ctx, error)
            lines = [end.message]
            if end.written is not None:
                lines += write_failure(ctx, end.written or end.message, end.code, end.where)
            for line in lines:
                _tell(line)
            ctx.exit(end.code)


class _End(NamedTuple):
    """Why a command has no result.

    Attributes:
        message: why, in one sentence.
        code: the exit code, which no report changes.
        written: what CI reports say instead; None if they are written already.
        where: the file that is to blame and its line, if they are known.
    """

    message: str
    code: int
    written: str | None = ""
    where: tuple[Path, int] | None = None


def _end(ctx: click.Context, error: BaseException) -> _End:  # noqa: PLR0911  one kind of error each
    if stopped := StopSignal.of(error):  # first, as code may make other errors of it
        return _End(stopped.message(ctx), stopped.code, f"the command was {stopped.word}")
    if isinstance(error, UnwrittenError):
        return _End(str(error), error.code, None if error.reported else "")
    if isinstance(error, ConfigError | InputError):
        return _End(str(error), USER_ERROR, where=getattr(error, "where", None))
    if isinstance(error, DpauditError):
        code = RUN_FAILED if isinstance(error, RunError) else USER_ERROR
        return _End(str(error), code, _UNSAID)
    if isinstance(error, click.Abort):
        said = "the input ended before the question was answered: give the option that answers it"
        return _End(f"{said} (see --help)", USER_ERROR)
    if isinstance(error, SystemExit):
        said = "the code named in the config called sys.exit: remove that call"
        return _End(said, RUN_FAILED)
    if isinstance(error, MemoryError):
        return _End("there is not enough memory: use fewer trials or less data", RUN_FAILED)
    if isinstance(error, OSError):
        why, kind = "the system refused: ", error.strerror or type(error).__name__
        return _End(f"{why}{str(error) or kind}", RUN_FAILED, f"{why}{kind}")
    traceback.print_exception(error, file=streams.errors)
    from dpaudit.core.registry import plugin_of

    whose = plugin_of(error) or "dpaudit"
    return _End(f"this is a defect of {whose}; please report it", RUN_FAILED)


def _tell(message: str) -> None:
    """Print why a command has no result, or what could not be written."""
    click.echo(f"dpaudit: {_shown(message)}", streams.errors)


def _shown(message: str) -> str:
    """Put a message on one line; cut a long one in the middle, as the remedy is at its end."""
    said = plain(message)
    if len(said) <= _LONGEST:
        return said
    return f"{said[: _LONGEST // 2]}…{said[1 - _LONGEST // 2 :]}"


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dpaudit")
def main() -> None:
    """Attack and audit recommender systems.

    Exit codes: 0 GO (all gates pass) or NO DECISION, 1 STOP alone (a gate failed, or a claim is
    false), 2 usage, config or data error, 3 the run failed, or outputs could not be written and
    the outcome is no STOP, 4 UNDECIDED (a gate is inconclusive), 130 interrupted (Ctrl-C), 143
    terminated (SIGTERM). 'dpaudit claims --verify' has its own.
    """


# The commands in the order of use, and the exit codes of those that judge and of the others.
_JUDGING = (run, tune, merge, gate, membership)
_COMMANDS = (
    init, data, list_, show, plan, run, tune, report, gate, diff, split, merge, runs,
    membership, epsilon, claims, schema,
)  # fmt: skip
_FAILED = "2 usage, config or data error, 3 the command failed, or outputs could not be written"
_OUTCOMES = f"0 GO or NO DECISION, 1 STOP alone, {_FAILED} and the outcome is no STOP, 4 UNDECIDED"
_OF_CONFIGS = f"{_OUTCOMES}, or NO DECISION with audit.require_decision = true"


def _with_codes(command: click.Command, codes: str) -> None:
    """Let the help of a command end with its exit codes."""
    command.epilog = "\n\n".join(filter(None, (command.epilog, f"Exit codes: {codes}.")))
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        _with_codes(inner, codes)


for command in _COMMANDS:
    main.add_command(command)
    if command is not claims:
        codes = _OUTCOMES if command in (membership, tune) else _OF_CONFIGS
        _with_codes(command, codes if command in _JUDGING else f"0 done, {_FAILED}")
