from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for what the benches share
# One thread for every peer, before any of them is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def key() -> np.ndarray:
    from dpaudit.core.streams import stream_key

    return stream_key(1, "bench")


@pytest.fixture
def rate(benchmark: Any) -> Callable[[float, str], None]:
    """Print what a second of the fastest call does; nothing if nothing is timed."""

    def show(count: float, unit: str) -> None:
        if benchmark.enabled:
            per_second = count / benchmark.stats["min"]
            benchmark.extra_info[f"{unit}/s"] = round(per_second)
            print(f"\n{benchmark.name}: {per_second:.3g} {unit}/s")

    return show
