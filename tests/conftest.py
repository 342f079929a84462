from __future__ import annotations

import os
from pathlib import Path

import pytest

# Threads that wait for others would spin, and tests on all cores leave them none to wait on.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

_SHARED = Path(__file__).parents[2] / "shared" / "data"
if _SHARED.is_dir():
    os.environ.setdefault("DPAUDIT_DATA", str(_SHARED))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; tests that need one are skipped where there is none."""
    folder = os.environ.get("DPAUDIT_DATA")
    if not folder:
        pytest.skip("DPAUDIT_DATA is not set: it names a folder of real data sets")
    return Path(folder)
