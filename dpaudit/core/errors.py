"""Errors that are reported to the user.

Each message is one sentence that names the place, the field, the value and the remedy. Only the
command line maps them to exit codes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Self

# The most characters of a third-party error message that are shown.
_SHOWN = 300


class DpauditError(Exception):
    """Base of every error that is reported to the user without a traceback."""


class ConfigError(DpauditError):
    """A config, an option or a hyper-parameter that cannot be used.

    Attributes:
        where: the file that is to blame and its line, from 1; None if it is unknown.
    """

    where: tuple[Path, int] | None = None

    def at(self, path: Path, line: int | None) -> Self:
        """Set where, by default the first line, and return the error."""
        self.where = path, line or 1
        return self


class DataError(DpauditError):
    """Input data that is missing, malformed or too small for the audit."""


class RunError(DpauditError):
    """An audit that started and could not be finished."""


class NoModelError(RunError):
    """A training that ends without a model: it diverged, or each of its draws was rejected.

    Whether it does may depend on the data, so to an audit it is an outcome like any other.
    """


class InputError(DpauditError, ValueError):
    """Arguments outside the domain of a statistic; exit code 2."""


def said(error: BaseException) -> str:
    """Describe an exception on one short line, even if its own `__str__` fails."""
    name = type(error).__name__
    try:
        text = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return name
    return f"{name}: {shortened(text)}"


def shortened(text: str) -> str:
    """Return a text on one short line that UTF-8 can write."""
    line = " ".join(text.encode("utf-8", "backslashreplace").decode().split())
    return f"{line[:_SHOWN]}{'…' if len(line) > _SHOWN else ''}"


def installing(extra: str) -> str:
    """Return the command that installs what an extra of dpaudit needs.

    It names the libraries, with the versions that the package asks for: so it runs in any folder,
    whatever dpaudit was installed from, and leaves dpaudit itself as it is.
    """
    from importlib.metadata import requires

    parts = (line.partition(";") for line in requires("dpaudit") or ())
    of_extra = re.compile(rf"extra == (['\"]){re.escape(extra)}\1")
    libraries = [name.strip() for name, _, marker in parts if of_extra.search(marker)]
    return " ".join(["python -m pip install", *(f"'{name}'" for name in libraries)])
