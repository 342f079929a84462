"""What DP-Sniper certified, and on which pairs of inputs.

From the reference results that the paper's authors publish beside its code (Bichsel, Steffen,
Bogunovic & Vechev 2021, doi:10.1109/SP40001.2021.00081; eth-sri/dp-sniper,
eval_sp2021/reference-results): the lower bound at 90 % confidence from 200 million final outputs
for each input, after 32 million for each of the pairs; here the larger of those that its two
classifiers reached, and that one's pair.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CONFIDENCE, FINAL = 0.9, 200_000_000

Pair = tuple[NDArray[np.float64], NDArray[np.float64]]


def _pair(one: str, other: str) -> Pair:
    """Inputs from their digits."""
    first, second = (np.array([float(digit) for digit in word]) for word in (one, other))
    return first, second


_HALVES = _pair("0000011111", "1111100000")
_APART = _pair("1111111111", "2222200000")

# Name: the bound, and the pair.
PUBLISHED: dict[str, tuple[float, Pair]] = {
    "laplace": (0.0976, _pair("0", "1")),
    "laplace-parallel": (0.0350, _pair("1", "0")),
    "truncated-geometric": (0.1156, _pair("2", "1")),
    "noisy-hist-1": (0.0978, _pair("01111", "11111")),
    "noisy-hist-2": (4.6020, _pair("01111", "11111")),
    "noisy-max-1": (0.0925, _pair("11111", "02222")),
    "noisy-max-2": (0.0979, _pair("11111", "02222")),
    "noisy-max-3": (0.2488, _pair("11111", "22222")),
    "noisy-max-4": (0.3534, _pair("11111", "22222")),
    "svt-1": (0.0858, _HALVES),
    "svt-2": (0.0859, _HALVES),
    "svt-3": (0.1822, _HALVES),
    "svt-4": (0.1696, _APART),
    "svt-5": (1.7612, _APART[::-1]),
    "svt-6": (0.2720, _HALVES),
    "svt-numerical": (0.0345, _HALVES),
    "svt-34-parallel": (0.2616, _APART),
    "prefix-sum-all": (0.5774, _pair("1111111111", "0000000000")),
    "rappor": (0.3008, _pair("1", "0")),
    "rappor-one-time": (0.5999, _pair("1", "0")),
}
