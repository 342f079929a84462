from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dpaudit.execution.tasks import environment

READ = """
import {first}
from dpaudit.execution.tasks import environment
print(environment()["blas"])
"""


def test_the_type_of_machine_is_named_and_no_path() -> None:
    versions = environment()
    assert {"python", "machine", "blas", "instructions", "numpy", "numba"} <= set(versions)
    assert all(value and os.sep not in value for value in versions.values())


@pytest.mark.long
def test_the_blas_is_the_same_whatever_is_loaded() -> None:
    given = [
        subprocess.check_output([sys.executable, "-c", READ.format(first=first)], text=True)
        for first in ("numpy", "scipy.linalg")
    ]
    assert given[0] == given[1]
