from __future__ import annotations

import pytest

from dpaudit.data.readers.cells import is_missing, missing_among


@pytest.mark.cases(
    "name",
    [
        *("", "  ", "NaN", "nan", "NA", "N/A", "n/a", "null", "NULL", "None", "<NA>", "\\N", "-"),
        *("?", "-1", "-1.0", "inf", "-Infinity", "#N/A", "NaT", "nil", "(null)", " NA "),
    ],
)
def test_markers_are_missing(name: str) -> None:
    assert is_missing(name)


@pytest.mark.cases("name", ["0", "1", "-2", "Nancy", "n", "N", "nan1", "u-1", "NANA", "a.b", "."])
def test_other_ids_are_not(name: str) -> None:
    assert not is_missing(name)


def test_minus_1_beside_other_negative_numbers_is_an_id() -> None:
    assert missing_among(["-1", "0", "7", "NA"]) == {"-1", "NA"}
    assert missing_among(["-1", "-2", "7", "NA"]) == {"NA"}
    assert missing_among(["-1", "-2.5", "-x"]) == {"-1"}
