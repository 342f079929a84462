"""What made a record: versions and the type of machine, never a name of a machine or a person."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np

_SCIPY = {"scipy", "scipy.libs"}
_LIBRARIES = ("numpy", "numba", "scipy", "statsmodels")


def environment() -> dict[str, str]:
    """Versions of Python and of the libraries that make numbers, and the type of machine.

    `blas` and `instructions` are those of numpy: its linear algebra, which fits learned scores, and
    the widest vectors that its logarithms and powers are computed in.
    """
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "blas": _blas(),
        "instructions": _instructions(),
        **{name: version(name) for name in _LIBRARIES},
    }


def _blas() -> str:
    """The BLAS of numpy, its version and the type of processor that its kernel is for."""
    from threadpoolctl import threadpool_info

    found = [each for each in threadpool_info() if each["user_api"] == "blas"]
    # scipy may bring another one, in scipy.libs or scipy/.dylibs, which is loaded or not.
    own = [x for x in found if not _SCIPY & set(Path(x["filepath"]).parts[-3:-1])]
    if not own:
        built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{built['name']} {built['version']}"
    keys = ("internal_api", "version", "architecture")
    return " ".join(str(own[0][key]) for key in keys if own[0].get(key))


def _instructions() -> str:
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    names = [*simd.get("baseline", ()), *simd.get("found", ())]
    return names[-1] if names else "none"
