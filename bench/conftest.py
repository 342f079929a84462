from __future__ import annotations

import os

# One thread for every peer, before any of them is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from dpaudit.data.ratings import Ratings


@pytest.fixture(scope="session")
def ml_1m() -> Ratings:
    from bench_peers import ml_1m_ratings

    return ml_1m_ratings()


@pytest.fixture(scope="session")
def key() -> np.ndarray:
    from dpaudit.core.streams import stream_key

    return stream_key(1, "bench")
