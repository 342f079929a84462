"""Compile kernels and choose the folder of the compiled code.

numba's on-disk cache does not notice an edited callee in another file and would reuse stale code.
The cache folder is therefore keyed by a hash of every file in this package.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numba.core.config

F = TypeVar("F", bound=Callable[..., Any])


@cache
def cache_folder() -> Path | None:
    """Return the folder of compiled kernels for exactly this source, or None if none is safe.

    It lies under `NUMBA_CACHE_DIR` if that is set, else under the user's cache folder
    (`XDG_CACHE_HOME`, `~/.cache`). Numba executes the files in it, so a folder is used only if
    nobody but this user and the administrator can put files into it; a warning says why a folder
    is rejected.
    """
    state = hashlib.sha256()
    root = Path(__file__).parent
    for file in sorted(root.rglob("*.py")):
        state.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    # Read the environment: a file in the current folder can override numba's own setting.
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):  # the standard ignores relative ones
        home = os.path.expanduser("~/.cache")
    problems, safe = list[str](), None
    # For a user without a home, `~` is not expanded and would name a folder in the current one.
    for base in filter(None, (chosen, home if os.path.isabs(home) else None)):
        folder = Path(base) / "dpaudit" / f"kernels-{state.hexdigest()[:16]}"
        problem = _made(folder) or unsafe(folder.resolve())
        if problem is None:
            safe = folder.resolve()
            break
        problems.append(problem)
    if safe is None or (chosen and problems):
        why = "; ".join(problems) or "there is no home folder"
        kept = f"are kept in {safe}" if safe else "are kept nowhere: every run compiles them anew"
        warnings.warn(
            f"compiled kernels {kept} ({why}): set NUMBA_CACHE_DIR to a folder of your own",
            RuntimeWarning,
            stacklevel=2,
        )
    return safe


def unsafe(folder: Path) -> str | None:
    """Return why other users can put files into a folder or replace it, or None if they cannot.

    Its parent folders are checked too: whoever may write to one can rename its entries, unless its
    sticky bit is set or a folder above it denies others access.

    Args:
        folder: an existing folder, without symbolic links.
    """
    if sys.platform == "win32":  # a user's profile is private
        return None
    closed = False
    for path in reversed((folder, *folder.parents)):
        status = path.lstat()
        if status.st_uid not in (os.geteuid(), 0):
            return f"{path} belongs to another user"
        sticky = status.st_mode & stat.S_ISVTX and path != folder
        if _writable(status) and not (sticky or closed):
            return f"others may write to {path}"
        closed = closed or not status.st_mode & (stat.S_IXGRP | stat.S_IXOTH)
    return None


def _writable(status: os.stat_result) -> bool:
    """Whether others may write; a private group with the user's own name does not count."""
    import grp
    import pwd

    if status.st_mode & stat.S_IWOTH or not status.st_mode & stat.S_IWGRP:
        return bool(status.st_mode & stat.S_IWOTH)
    try:
        group, user = grp.getgrgid(status.st_gid), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return True
    return group.gr_name != user or not {user}.issuperset(group.gr_mem)


def _made(folder: Path) -> str | None:
    """Make a private folder if it is missing; return the reason if that fails, else None."""
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"{folder} cannot be written ({error.strerror})"


def exact_kernel(function: F) -> F:
    """Compile a loop without floating-point reordering: every machine rounds as the source says.

    A division by 0 gives an infinity or NaN, because a check would keep loops from vectorising.
    """
    folder = cache_folder()
    before = numba.core.config.CACHE_DIR
    try:
        # Numba reads this while it decorates; kernels of other packages keep their own folder.
        numba.core.config.CACHE_DIR = str(folder or "")
        compiled: F = numba.njit(nogil=True, error_model="numpy", cache=folder is not None)(
            function
        )
    finally:
        numba.core.config.CACHE_DIR = before
    return compiled


def inline(function: F) -> F:
    """Compile a scalar function that is inlined, so that the caller's loop can vectorise."""
    compiled: F = numba.njit(inline="always")(function)
    return compiled
