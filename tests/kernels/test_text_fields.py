from __future__ import annotations

import numpy as np
import pytest

from dpaudit.kernels.text_fields import (
    increasing,
    look_up,
    mark_used,
    number_values,
    place_values,
    sort_pairs,
    split_lines,
)


def split(text: bytes, width: int = 3, *, quoted: bool = True) -> list[list[bytes]] | None:
    """The fields of lines; None if one is unusual."""
    at = np.empty((text.count(b"\n"), width, 2), np.int32)
    data = np.frombuffer(text, np.uint8)
    lines = split_lines(data, ord(","), quoted, width, 9, np.arange(width), at)
    return None if lines < 0 else [[text[a:b] for a, b in line] for line in at[:lines].tolist()]


@pytest.mark.cases(
    ("text", "fields"),
    [
        (b"1,2,3\n", [[b"1", b"2", b"3"]]),
        (b"1,2,3\n,,x\n", [[b"1", b"2", b"3"], [b"", b"", b"x"]]),
        (b'"1","a,b","3"\n', [[b"1", b"a,b", b"3"]]),
        (b'"","2",""\n', [[b"", b"2", b""]]),
        (b"", []),
    ],
)
def test_usual_lines_are_split(text: bytes, fields: list[list[bytes]]) -> None:
    assert split(text) == fields


@pytest.mark.cases(
    "text",
    [
        b"\n", b",,\n", b"1,,\n", b"1,2\n", b"1,2,3,4\n", b'"1,2,3\n', b'1"1,2,3\n', b'"1"1,2,3\n',
        b'"1""1",2,3\n', b'"1\n1",2,3\n', b'1,2,"\n', b'1,2,"3"4\n', b"1,0123456789,3\n",
    ],
)  # fmt: skip
def test_unusual_lines_are_refused(text: bytes) -> None:
    assert split(text) is None
    assert split(b"1,2,3\n" + text) is None


def test_quotes_are_plain_where_they_enclose_nothing() -> None:
    assert split(b'"1,2",3\n', quoted=False) == [[b'"1', b'2"', b"3"]]


def test_values_that_share_a_hash_end_the_numbering() -> None:
    text, at = np.frombuffer(b"ab", np.uint8), np.array([[0, 1], [1, 2]], np.int32)
    codes, hashes, ends = np.empty(2, np.int32), np.empty(1024, np.int64), np.zeros(1025, np.int64)
    space = np.full(2048, -1, np.int32), hashes, ends, np.empty(9, np.uint8)
    assert number_values(text, at, 0, 5, codes, *space, 0) == (2, 2)
    assert codes.tolist() == [0, 1]
    crowded = np.zeros(2048, np.int32), *space[1:]  # every slot is taken by the first value
    assert number_values(text, at, 0, 5, codes, *crowded, 1) == (1, -1)


def test_a_value_that_may_not_fit_waits_for_space() -> None:
    text, at = np.frombuffer(b"abc", np.uint8), np.array([[0, 1], [1, 3]], np.int32)
    codes, ends = np.empty(2, np.int32), np.zeros(5, np.int64)
    space = np.full(8, -1, np.int32), np.empty(4, np.int64), ends, np.empty(2, np.uint8)
    assert number_values(text, at, 0, 5, codes, *space, 0) == (1, 1)
    larger = np.full(16, -1, np.int32)
    place_values(space[1][:1], larger)
    space = larger, *space[1:3], np.append(space[3], space[3])
    assert number_values(text, at, 1, 5, codes, *space, 1) == (2, 2)
    assert codes.tolist() == [0, 1]


@pytest.mark.cases("seed", range(5))
def test_pairs_are_sorted_as_by_lexsort(seed: int) -> None:
    draws = np.random.default_rng(seed)
    n, m, count = draws.integers(1, 40, 3)
    first, second = (draws.integers(0, most, 50 * count, dtype=np.int32) for most in (n, m))
    order = np.empty(len(first), np.int32)
    sort_pairs(first, second, np.zeros(n + 1, np.int64), np.zeros(m + 1, np.int64), order)
    np.testing.assert_array_equal(order, np.lexsort((second, first)))
    sorted_order = np.empty_like(order)
    look_up(first, order, sorted_order)
    np.testing.assert_array_equal(sorted_order, first[order])
    pairs = np.unique(np.column_stack((first, second)), axis=0)
    assert increasing(*np.ascontiguousarray(pairs.T))
    assert not increasing(*np.ascontiguousarray(np.repeat(pairs, 2, 0).T))
    assert not increasing(*np.ascontiguousarray(pairs[::-1].T)) or len(pairs) == 1


def test_the_index_of_a_missing_value_is_the_last_entry() -> None:
    values, used = np.empty(3, np.int32), np.zeros(4, np.bool_)
    index = np.array([1, -1, 0], np.int32)
    look_up(np.array([5, 6, 7], np.int32), index, values)
    assert values.tolist() == [6, 7, 5]
    mark_used(index, used)
    assert used.tolist() == [True, True, False, True]
