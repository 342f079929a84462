"""What made a record: versions and the type of machine, never a name of a machine or a person."""

from __future__ import annotations

import platform
from importlib.metadata import version

_LIBRARIES = ("numpy", "numba", "scipy", "statsmodels")


def environment() -> dict[str, str]:
    """Versions of Python and of the libraries that make numbers, and the type of machine."""
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        **{name: version(name) for name in _LIBRARIES},
    }
