"""The one place that says how kernels are compiled and where the compiled code is kept.

numba's on-disk cache does not notice an edited callee in another file and would serve the old code.
The cache folder is therefore keyed by a hash of every file in this package.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numba.core.config

F = TypeVar("F", bound=Callable[..., Any])


@cache
def cache_folder() -> Path | None:
    """The folder of compiled kernels for exactly this source, or None where nothing is writable.

    It lies under `NUMBA_CACHE_DIR` where that is set, else under the user's cache folder
    (`XDG_CACHE_HOME`, `~/.cache`), else under the temporary folder.
    """
    state = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        state.update(file.name.encode() + b"\0" + file.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    candidates = [numba.core.config.CACHE_DIR, home, tempfile.gettempdir()]
    for base in filter(None, candidates):
        folder = Path(base) / "dpaudit" / f"kernels-{state.hexdigest()[:16]}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    return None


def exact_kernel(function: F) -> F:
    """Compile a loop whose every operation is rounded as written, on any type of machine.

    A division by 0 gives an infinity or NaN: a check of each would keep loops from vectorising.
    """
    folder = cache_folder()
    before = numba.core.config.CACHE_DIR
    try:
        # Read by numba while it decorates; other packages' kernels keep their own folder.
        numba.core.config.CACHE_DIR = str(folder or "")
        compiled: F = numba.njit(nogil=True, error_model="numpy", cache=folder is not None)(
            function
        )
    finally:
        numba.core.config.CACHE_DIR = before
    return compiled


def inline(function: F) -> F:
    """Compile a scalar helper that is copied into its caller, whose loop then vectorises."""
    compiled: F = numba.njit(inline="always")(function)
    return compiled
