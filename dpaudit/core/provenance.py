"""Versions and machine type for a record; never the name of a machine or a person."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np

_SCIPY = {"scipy", "scipy.libs"}
_LIBRARIES = ("numpy", "numba", "scipy", "statsmodels")


def tool_version() -> str:
    """Return the version of dpaudit."""
    return version("dpaudit")


def environment() -> dict[str, str]:
    """Return the versions of Python and of the numeric libraries, and the machine type.

    `blas` is numpy's linear algebra library, which fits learned scores. `instructions` are the
    widest vector instructions that numpy computes logarithms and powers with.
    """
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "blas": _blas(),
        "instructions": _instructions(),
        **{name: version(name) for name in _LIBRARIES},
    }


def _blas() -> str:
    """Return the name and version of numpy's BLAS and the processor type of its kernel."""
    from threadpoolctl import threadpool_info

    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    # scipy may have loaded another BLAS, from scipy.libs or scipy/.dylibs.
    of_numpy = [x for x in libraries if not _SCIPY & set(Path(x["filepath"]).parts[-3:-1])]
    if not of_numpy:
        built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{built['name']} {built['version']}"
    keys = ("internal_api", "version", "architecture")
    return " ".join(str(of_numpy[0][key]) for key in keys if of_numpy[0].get(key))


def _instructions() -> str:
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    names = [*simd.get("baseline", ()), *simd.get("found", ())]
    return names[-1] if names else "none"
