"""What programs change on the way to a file, by the values of a column."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.data.readers import doubts


@pytest.mark.cases(
    ("read", "written"),
    [
        (["e\u0301", "a\u0308"], ["\u00e9", "\u00e4"]),
        (["\ufeff1", "a\u200bb", "\u200e1", "x\u00a0y", "\u00ad"], ["1", "ab", "1", "x y", ""]),
        (["\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"], None),
        (["1.0", "NaN", "12.0"], ["1", "NaN", "12"]),
        (["1.00", "12.00", "7"], ["1", "12", "7"]),
        (["1.00", "12.50"], None),
        (["1.0", "1.5"], None),
        (["99999", "1e+05", "1.2e+07"], ["99999", "100000", "12000000"]),
        (["1.0E7", "1.2345678E7", "9999999.0"], ["10000000", "12345678", "9999999"]),
        (["1.5e+00", "2"], None),
        (["1.000e+00", "1.200e+01"], ["1", "12"]),
        (["7.656119796028793E16", "2"], None),
        (["1E5", "2F5"], None),
        (["1E5", "a"], None),
    ],
)
def test_an_id_has_one_writing(read: list[str], written: list[str] | None) -> None:
    assert doubts.one_writing(read) == (read if written is None else written)


@pytest.mark.cases(
    ("names", "index"),
    [
        (["1", "5.90124E+12"], 1),
        (["5,90124E+12"], 0),
        (["1.20E+35", "AB-12"], 0),
        (["1.23E+05", "123456"], 0),
        (["7.656119796028793e+16"], 0),
        (["7.6561197960287931e+16"], 0),
        (["5.90124E12", "5.90125E12"], 0),
        (["7.656119796028793E16"], 0),
        (["1.5E3", "a"], None),
        (["1e+05", "a"], None),
        (["1E5", "9E4", "0012"], None),
        (["12E+3x"], None),
        (["7-8", "9-Mar"], 1),
        (["7/8", "Mar-05"], 1),
        (["7-8", "02. Mrz"], 1),
        (["7-8", "Mrz 05"], 1),
        (["7-8", "2-mars"], 1),
        (["7-8", "ago-05"], 1),
        (["7-8", "2023-03-02 00:00:00"], 1),
        (["7-8", "9 Marten"], None),
        (["50/50", "Mai 68", *(f"Film {k}" for k in range(20))], None),
        (["a", "9-Mar"], None),
        (["1", "########"], 1),
        (["1", "##"], None),
        ([f"7656119796{k}0" for k in range(111113, 111130)], 0),
        ([f"12345678901{k}00" for k in range(111113, 111130)], 0),
        (["7-8", "9-Marble"], None),
        ([f"7656119796028{k}100" for k in range(11, 30)], None),
        ([f"76561197960{k}900"[:15] + "00" for k in range(1111, 1130)], 0),
        ([f"59012{k}0000000" for k in range(1, 9)], 0),
        ([str(k * 10**15) for k in range(10, 40)], None),
        ([f"2024013112{k}00" for k in range(10, 60)], None),
        ([f"2024013{k}0000000" for k in range(10)], None),
    ],
)
def test_rounded_ids_are_known(names: list[str], index: int | None) -> None:
    doubt = doubts.lost_digits(names, names)
    assert (doubt and doubt[0]) == index


def test_large_floating_point_numbers_are_no_ids() -> None:
    assert doubts.lost_digits(["76561197960287931.0"], ["76561197960287931"]) is not None
    assert doubts.lost_digits(["76561197960287931.0"], ["76561197960287931.0"]) is None
    assert doubts.lost_digits(["e\u0301.0"], ["\u00e9.0"]) is None
    assert doubts.lost_digits([2.0**53 - 2], ["9007199254740990"]) is None
    assert doubts.lost_digits([1.0, 2.0**53], ["1", "9007199254740992"]) is not None


@pytest.mark.cases(
    ("values", "index"),
    [
        ([float(np.float32(2e7 + k)) for k in range(0, 60, 2)], 0),
        ([float(np.float16(3000 + k)) for k in range(0, 60, 2)], 0),
        ([1.0, *(float(np.float32(2e7 + k)) for k in range(0, 60, 2))], 1),
        ([2e7 + k for k in range(60)], None),
        ([3000.0 + k for k in range(60)], None),
        ([float(k) for k in range(2000)], None),
        ([3000.0, 3002.0], None),
        ([100.0 * k for k in range(60)], None),
        ([2048.0 * k for k in range(60)], None),
    ],
)
def test_ids_in_short_floating_point_numbers_are_known(
    values: list[float], index: int | None
) -> None:
    doubt = doubts.lost_digits(values, [f"{value:.0f}" for value in values])
    assert (doubt and doubt[0]) == index


@pytest.mark.cases(
    ("names", "lists"),
    [
        (["['a', 'b']", "['c']"], True),
        (["[1, 2]", "[3]", "[]"], True),
        (["[1 2]", "[3 4]"], True),
        (["{a,b}", "{c}"], True),
        (
            ["{550e8400-e29b-41d4-a716-446655440000}", "{550e8400-e29b-41d4-a716-446655440001}"],
            False,
        ),
        (['c("a", "b")', 'c("a", "c")', "a"] * 20, False),
        (['c("a", "b")', 'c("a", "c")', 'c("b")'], True),
        (["array([1, 2])", "array([3])"], True),
        (["WrappedArray(a, b)", "WrappedArray(c)"], True),
        (["Up (2009)", "Heat (1995)"], False),
        (["[12]", "[13]"], False),
        (["[re:jazz]", "The Beatles", "(hed), p.e."], False),
        (["", ""], False),
    ],
)
def test_lists_in_brackets_are_known(names: list[str], lists: bool) -> None:
    assert (doubts.bracketed(names) is not None) is lists


@pytest.mark.cases(
    ("names", "labelled"),
    [
        ([f"N{k // 2}-{k % 2}" for k in range(20)], True),
        ([f"N{k}-{k % 2}" for k in range(20)], False),
        ([*(f"N{k // 2}-{k % 2}" for k in range(20)), "N1"], False),
        (["a-0", "a-1"], False),
        ([], False),
    ],
)
def test_labels_behind_ids_are_known(names: list[str], labelled: bool) -> None:
    assert (doubts.clicked(names) is not None) is labelled


@pytest.mark.cases(
    ("names", "separator"),
    [
        (["N1 N22 N3", "N22 N4 N1", "N4"], " "),
        (["N1-1 N2-0", "N2-0 N3-1"], " "),
        (["1|2", "2|3"], "|"),
        (["1,2", "2,3,1"], ","),
        (["1, 2", "2, 3"], ", "),
        (["a|b|c", "a|c", "b|c"], "|"),
        (["The Beatles", "The Who", "The The"], None),
        (["Toy Story 2", "Toy Story 3", "Toy Story"], None),
        (["Smith, John", "Smith, Jane", "Doe, John", "Doe, Jane", "Smith, Al"], None),
        (["Matrix, The", "Alien", "Heat"], None),
        (["user 1", "user 2", "user 3"], None),
        ([f"{k:x}{k}f0a {k + 1:x}{k + 1}f0a" for k in range(90, 99)], " "),
        ([f"{k % 2}|{k}" for k in range(9)], None),
        (["12", "13"], None),
        ([], None),
    ],
)
def test_lists_with_separators_are_known(names: list[str], separator: str | None) -> None:
    assert doubts.separated(names) == separator


@pytest.mark.cases(
    ("value", "others", "said"),
    [
        ("2,564", ["12"], "write 2564"),
        ("1,234,567", ["3"], "write 1234567"),
        ("1.234.567", ["3"], "write 1234567"),
        ("1 234", ["3"], "write 1234"),
        ("1\u202f234", [], "write 1234"),
        ("1'234", [], "write 1234"),
        ("3,5", [], "write decimals with a point"),
        ("2,564", ["3,5"], "write decimals with a point"),
        ("1,500", ["3,000"], "write 1500 or 1.500"),
        ("1,500", ["30,000"], "write 1500"),
        ("1,000", ["0,500"], "write decimals with a point"),
        ("abc", [], ""),
        ("12,34,567", [], "write 1234567"),
        ("1,23,4567", [], ""),
        ("1,847.50", ["3"], "write 1847.50"),
        ("1.847,00", ["3"], "write 1847.00"),
        ("1 847,5", ["3"], "write 1847.5"),
        ("1,847,5", ["3"], ""),
    ],
)
def test_marks_in_numbers_are_known(value: str, others: list[str], said: str) -> None:
    sentence = doubts.punctuated("it", value, [value, *others])
    assert said in sentence
    assert bool(said) == bool(sentence)


@pytest.mark.cases(
    ("values", "index"),
    [
        (["53", *(f"1.{k}" for k in range(100, 120))], 1),
        ([*(f"1.{k}" for k in range(100, 120))], None),
        (["53", "1.5", *(f"1.{k}" for k in range(100, 120))], None),
        (["53", "0.125", *(f"1.{k}" for k in range(100, 120))], None),
        (["53", "1.125"], None),
        ([53, 1.125], None),
    ],
)
def test_points_between_thousands_are_known(values: list[object], index: int | None) -> None:
    assert doubts.pointed(values) == index
