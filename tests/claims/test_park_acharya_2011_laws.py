"""Exact ε of lists: closed forms against draws and other formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpaudit.claims.park_acharya_2011 import common_shift, first_of_two

RARE = 1e-6


def two(before: float, after: float, scale: float) -> float:
    return first_of_two(np.array([before, 0.0]), np.array([after, 0.0]), scale)


# Which of two is shown.


@pytest.mark.parametrize(("before", "after", "scale"), [(-2.0, 0.5, 1.3), (0.0, 1.0, 0.4)])
def test_first_of_two_is_what_draws_say(before: float, after: float, scale: float) -> None:
    rng, trials = np.random.default_rng(8), 400_000
    first = [
        int((gap + rng.laplace(0, scale, trials) > rng.laplace(0, scale, trials)).sum())
        for gap in (before, after)
    ]
    ends = []
    for count in first:
        # Clopper-Pearson, four limits in all.
        from scipy.stats import beta

        low = float(beta.ppf(RARE / 4, count, trials - count + 1))
        high = float(beta.isf(RARE / 4, count + 1, trials - count))
        ends.append((low, high))
    (p, q), (r, s) = ends

    def widest(pairs: list[tuple[float, float]]) -> float:
        return max(max(abs(math.log(y / x)), abs(math.log((1 - y) / (1 - x)))) for x, y in pairs)

    most = widest([(p, s), (q, r), (p, r), (q, s)])
    least = max(math.log(r / q), math.log((1 - q) / (1 - r)))
    epsilon = two(before, after, scale)
    assert least <= epsilon <= most
    # The test detects a wrong tail, that of one Laplace draw.
    wrong = abs(math.log(one_draw(after / scale) / one_draw(before / scale)))
    assert not least <= wrong <= most


def one_draw(gap: float) -> float:
    return 1 - math.exp(-gap) / 2 if gap >= 0 else math.exp(gap) / 2


def test_first_of_two_is_the_closed_form() -> None:
    # P(L1 − L2 > t) = ½ e^{−t} (1 + t/2): from a gap of 5 to none.
    assert two(-5, 0, 1) == pytest.approx(5 - math.log(3.5), rel=1e-12)
    assert two(-4, 0, 1) == pytest.approx(4 - math.log(3), rel=1e-12)
    assert two(-10, 0, 1) == pytest.approx(10 - math.log(6), rel=1e-12)
    assert two(-4, -8, 0.8) == pytest.approx(5 + math.log(7 / 12), rel=1e-12)
    assert two(3, 3, 1) == 0


def test_first_of_two_does_not_depend_on_names_order_level_or_unit() -> None:
    for before, after, scale in [(-2.0, 0.5, 1.3), (1.0, 4.0, 0.4), (-3.0, -1.0, 1.0)]:
        value = two(before, after, scale)
        assert two(after, before, scale) == pytest.approx(value)
        assert two(-before, -after, scale) == pytest.approx(value)
        assert two(7 * before, 7 * after, 7 * scale) == pytest.approx(value)
        level = first_of_two(np.array([before + 3, 3.0]), np.array([after - 2, -2.0]), scale)
        assert level == pytest.approx(value)


def test_first_of_two_loses_less_than_the_two_numbers() -> None:
    for gap in np.linspace(-6, 6, 25):
        for shift in (0.1, 1.0, 4.0):
            assert 0 < two(gap, gap + shift, 0.7) < shift / 0.7


# A common shift.


def test_a_common_shift_tells_nothing() -> None:
    before = np.array([1.0, 4.5, 2.0])
    assert common_shift(before, before + 0.3, 0.5) == 0
    with pytest.raises(ValueError, match="common shift"):
        common_shift(before, before + np.array([0.3, 0.3, 0.31]), 0.5)
