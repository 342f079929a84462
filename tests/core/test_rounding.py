from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, localcontext

import pytest

from dpaudit.core.rounding import measured, percent, plain_number


@pytest.mark.cases(
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


@pytest.mark.cases(
    ("share", "rounding", "text"),
    [
        (1 / 22, ROUND_CEILING, "4.6 %"),
        (0.3 / 7, ROUND_FLOOR, "4.2 %"),
        (0.05 / 7, ROUND_CEILING, "0.72 %"),
        # Rounding errors of floating point are none of the share.
        (1 - 0.95, ROUND_CEILING, "5 %"),
        (0.07, ROUND_CEILING, "7 %"),
        (0.29, ROUND_FLOOR, "29 %"),
    ],
)
def test_a_bound_is_rounded_so_that_it_holds(share: float, rounding: str, text: str) -> None:
    assert percent(share, 2, rounding) == text


def test_the_precision_that_code_of_others_sets_changes_no_number() -> None:
    with localcontext(prec=2):
        assert percent(0.995) == "99.5 %"
        assert measured(1234.5678) == "1234.568"


@pytest.mark.cases("text", ["1", " -2.5e3 ", "+.5", "1e400", "-inf", "nan"])
def test_numbers_are_read(text: str) -> None:
    assert repr(plain_number(text)) == repr(float(text))


@pytest.mark.cases("text", ["1_0", "٣", "１", "0x10", "1,5", "", "NA", "−1"])
def test_what_only_python_takes_for_a_number_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="could not convert string to float"):
        plain_number(text)
