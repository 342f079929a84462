from __future__ import annotations

import pytest

from dpaudit.core.rounding import percent


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [
        (1.0, 2, "100 %"),
        (0.999, 2, "100 %"),
        (0.123, 2, "12 %"),
        (0.001, 6, "0.1 %"),
        (1e-7, 6, "0.00001 %"),
        (0.95, 6, "95 %"),
        (10.0, 6, "1000 %"),
        (0.0, 3, "0 %"),
    ],
)
def test_no_share_is_shown_with_an_exponent(share: float, digits: int, text: str) -> None:
    assert percent(share, digits) == text
