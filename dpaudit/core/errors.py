"""The errors a user can cause or meet.

Each message is one sentence that names the place, the field, the value and the remedy. The command
line turns them into exit codes; nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Of a message of foreign code so many characters are shown.
_SHOWN = 300


class DpauditError(Exception):
    """Base of every error that is reported to the user without a traceback."""


class ConfigError(DpauditError):
    """A config, an option or a hyper-parameter that cannot be used as it stands."""


class DataError(DpauditError):
    """Input data that is missing, malformed or too small for the audit."""


class RunError(DpauditError):
    """An audit that started and could not be finished."""


class InputError(DpauditError, ValueError):
    """Numbers given to a statistic are not what it is defined for; exit code 2."""


@contextmanager
def foreign(failure: Callable[[str], DpauditError]) -> Iterator[None]:
    """Turn whatever foreign code raises into an error of ours; only an interrupt gets through.

    Args:
        failure: makes the error from what was raised, in words.
    """
    try:
        yield
    except (KeyboardInterrupt, DpauditError):
        raise
    except BaseException as error:
        raise failure(said(error)) from error


def said(error: BaseException) -> str:
    """An error of foreign code on one short line, whatever its own code does."""
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except KeyboardInterrupt:
        raise
    except BaseException:
        return name
    return f"{name}: {text[:_SHOWN]}{'…' if len(text) > _SHOWN else ''}"
