"""What is wrong with how a call ended."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any

import click
from click.testing import CliRunner, Result
from hostile import unseen  # type: ignore[import-not-found]

from dpaudit.cli import main
from dpaudit.core.errors import DpauditError

LONGEST = 2000
_NOT_A_NUMBER = re.compile(r"(?<![\w'\"/])-?nan(?![\w'\"])", re.IGNORECASE)
# A line of progress.
_PROGRESS = re.compile(r" elapsed(,|$)")
# What judges or certifies shows numbers alone.
_JUDGES = ("gate", "plan", "epsilon")


def command(*arguments: object, data: bool = False) -> str | None:
    """Run the command line; what is wrong with its end, `data` where it prints a file.

    A file may hold letters as they are; what else is printed may steer no terminal.
    """
    name = arguments[0]
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    problem = _ending(result)
    if problem or data:
        return problem
    if name in _JUDGES and result.exit_code == 0 and _NOT_A_NUMBER.search(result.stdout):
        return f"NaN in the output of {name}\n{result.stdout}"
    return steering(result.stdout, f"the output of {name}")


def call(function: Callable[[], Any]) -> str | None:
    """Call what may refuse its input; what is wrong with its refusal, as a user sees it."""
    try:
        function()
    except DpauditError as error:
        return refusal(error)
    return None


def refusal(error: DpauditError) -> str | None:
    """What is wrong with an error as the command line tells it."""

    @click.command()
    def refused() -> None:
        raise error

    group = type(main)(commands=[refused])
    return _ending(CliRunner().invoke(group, ["refused"]))


def _ending(result: Result) -> str | None:
    """What is wrong with the exit code and the message of a command."""
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        return "".join(traceback.format_exception(error))
    if "Traceback" in result.stderr or "defect of dpaudit" in result.stderr:
        return result.stderr
    if result.exit_code not in range(5):
        return f"exit code {result.exit_code}\n{result.output}"
    if "there is not enough memory" in result.stderr:
        return "there was not enough memory"
    if result.exit_code == 0 and "Warning: " in result.stderr:
        return f"a warning on standard error\n{result.stderr}"
    lines = [each for each in result.stderr.rstrip("\n").split("\n") if not _PROGRESS.search(each)]
    # Click's own errors begin with the usage of the command.
    usage, _, said = "\n".join(lines).rpartition("\nError: ")
    seen = steering(result.stderr, "standard error")
    return seen or _message("a usage error" if usage else "a message", said)


def _message(what: str, said: str) -> str | None:
    if len(said) > LONGEST:
        return f"{what} is too long\n{len(said)} characters: {said[:200]!r} ... {said[-200:]!r}"
    if "\n" in said:
        return f"{what} has several lines\n{said!r}"
    return steering(said, what)


def steering(text: str, where: str) -> str | None:
    """Control characters in what is printed, if there are any."""
    found = sorted(unseen(text.replace("\t", "")))
    if not found:
        return None
    start = max(0, text.index(found[0]) - 150)
    return f"control characters in {where}\n{text[start : start + 300]!r}"
