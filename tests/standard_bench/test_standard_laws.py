"""The exact log-ratios of the standard bench, by an identity that only the true ones satisfy.

Stochastic assertions with a false-failure rate of about 1e-6 each.
"""

from __future__ import annotations

import numpy as np
import pytest
from dp_sniper import PUBLISHED  # type: ignore[import-not-found]
from standard_laws import log_ratio  # type: ignore[import-not-found]
from standard_mechanisms import bloom  # type: ignore[import-not-found]
from standard_records import MECHANISMS  # type: ignore[import-not-found]

N = 20_000
BY_NAME = {mechanism.name: mechanism for mechanism in MECHANISMS}
# Their two laws have different supports, or a ratio of e^10: a mean says nothing.
APART = {"svt-5", "noisy-max-4", "noisy-hist-2"}


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - APART))
def test_the_mean_of_the_ratio_is_one(name: str) -> None:
    """E over D of Q/P is 1, and E over D' of P/Q; on bounded functions f, E_Q f = E_P f·Q/P."""
    pair = PUBLISHED[name][1]
    ratio = log_ratio(name, *pair)
    found = [
        ratio(BY_NAME[name].run(data, np.random.default_rng([5, i]), N))
        for i, data in enumerate(pair)
    ]
    assert np.abs(found[0]).max() <= BY_NAME[name].truth + 1e-6
    assert found[1].mean() > found[0].mean()
    for sign, log_odds in zip((1, -1), found, strict=True):
        ratios = np.exp(sign * log_odds)
        assert ratios.mean() == pytest.approx(1, abs=5 * ratios.std() / np.sqrt(N) + 1e-9)
    # The share of outputs with a positive ratio, from either data set.
    weighted = np.exp(found[0]) * (found[0] > 0)
    error = np.hypot(weighted.std(), (found[1] > 0).std()) / np.sqrt(N)
    assert weighted.mean() == pytest.approx((found[1] > 0).mean(), abs=5 * error + 1e-9)


def test_infinite_ratios_are_bounded() -> None:
    pair = PUBLISHED["svt-5"][1]
    outputs = BY_NAME["svt-5"].run(pair[0], np.random.default_rng(0), N)
    assert set(np.round(np.abs(log_ratio("svt-5", *pair)(outputs)), 1)) >= {50.0}


def test_the_filters_are_those_of_dp_sniper() -> None:
    """Its regression on Rappor's values 1 and 0 has six weights that are not small."""
    assert np.flatnonzero(bloom(0) != bloom(1)).tolist() == [0, 3, 10, 11, 13, 18]
