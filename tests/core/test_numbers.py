"""Text becomes a number as other languages read it."""

from __future__ import annotations

import pytest

from dpaudit.core.numbers import plain_number


@pytest.mark.cases("text", ["1", " -2.5e3 ", "+.5", "1e400", "-inf", "nan"])
def test_numbers_are_read(text: str) -> None:
    assert repr(plain_number(text)) == repr(float(text))


@pytest.mark.cases("text", ["1_0", "٣", "１", "0x10", "1,5", "", "NA", "−1"])
def test_what_only_python_takes_for_a_number_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="could not convert string to float"):
        plain_number(text)
