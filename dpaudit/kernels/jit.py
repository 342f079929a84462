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

# Sums may be reordered for SIMD; a NaN or an infinity must survive to be reported.
REASSOCIATE = {"reassoc", "contract", "arcp", "nsz"}


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


def _compile(function: F, **options: Any) -> F:
    folder = cache_folder()
    before = numba.core.config.CACHE_DIR
    try:
        # Read by numba while it decorates; other packages' kernels keep their own folder.
        numba.core.config.CACHE_DIR = str(folder or "")
        compiled: F = numba.njit(nogil=True, cache=folder is not None, **options)(function)
    finally:
        numba.core.config.CACHE_DIR = before
    return compiled


def kernel(function: F) -> F:
    """Compile a loop whose sums may be reordered (see `REASSOCIATE`)."""
    return _compile(function, fastmath=REASSOCIATE)


def exact_kernel(function: F) -> F:
    """Compile a loop whose every operation is rounded as written, on any type of machine."""
    return _compile(function)


def inline(function: F) -> F:
    """Compile a scalar helper that is copied into its caller, whose loop then vectorises."""
    compiled: F = numba.njit(inline="always")(function)
    return compiled
