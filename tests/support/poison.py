"""A folder in which a file has the name of every module that Python or dpaudit may import."""

from __future__ import annotations

import sys
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

# Modules that libraries try to import, and that need not be installed.
OPTIONAL = {"IPython", "bottleneck", "cuda", "cupy", "lz4", "numexpr", "setproctitle", "tbb"}
SITE = {"sitecustomize", "usercustomize", "conftest"}


def installed() -> set[str]:
    """The names of all modules of the standard library, and of all that is installed."""
    names = {*sys.stdlib_module_names, *packages_distributions()}
    return {name for name in names if name.isidentifier()}


def elsewhere() -> set[str]:
    """The names of modules of the standard library that other systems have, such as `winreg`."""
    return {name for name in sys.stdlib_module_names if find_spec(name) is None}


class Poison:
    """Files that leave a mark where one is run, and then fail."""

    def __init__(self, folder: Path, names: set[str]) -> None:
        """Write the files."""
        self._marks = folder.with_name(f"{folder.name}-marks")
        self._marks.mkdir()
        for name in names:
            # 65 is O_WRONLY | O_CREAT; posix is built in.
            mark = f"posix.close(posix.open({str(self._marks / name)!r}, 65))"
            text = f"import posix\n{mark}\nraise ImportError({name!r} ' of the folder')\n"
            (folder / f"{name}.py").write_text(text, encoding="utf-8")

    def ran(self) -> list[str]:
        """Return the names of the files that were run since the last call."""
        marks = sorted(self._marks.iterdir())
        for mark in marks:
            mark.unlink()
        return [mark.name for mark in marks]
