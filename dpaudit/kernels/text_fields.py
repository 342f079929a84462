"""Read the fields of text, number their values, and sort rows by two columns.

The texts are bytes, and their values are numbered in order of first appearance. Nothing here
depends on the encoding or the meaning of a field.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Codes = NDArray[np.int32]

_NEWLINE, _QUOTE = np.uint8(10), np.uint8(34)
# No hash table that is at most half full has such a run of occupied slots by chance.
_LONGEST_RUN = 1000


@exact_kernel
def split_lines(
    text: Bytes, delimiter: int, quoted: bool, width: int, longest: int, slots: Integers, at: Codes
) -> int:
    """Find fields in lines; return the number of lines, or −1 if a line is unusual.

    A line is usual if it has `width` fields, of which one after the first is not empty, no field is
    longer than `longest`, and quotes only enclose a whole field within the line.

    Args:
        text: whole lines, each with a line end.
        delimiter: the byte between fields.
        quoted: whether a field may be enclosed in double quotes.
        width: the number of fields of a line.
        longest: the largest length of a field.
        slots: for each field of a line its index in `at`, or −1 if it is not needed `(width,)`.
        at: result, the start and the end of each needed field `(lines, needed, 2)`.
    """
    line, k = 0, 0
    while k < len(text):
        filled = False
        for field in range(width):
            start = k
            if quoted and k < len(text) and text[k] == _QUOTE:
                start = k = k + 1
                while text[k] != _QUOTE:
                    if text[k] == _NEWLINE:
                        return -1
                    k += 1
                end = k
                k += 1
            else:
                while text[k] != delimiter and text[k] != _NEWLINE:
                    if quoted and text[k] == _QUOTE:
                        return -1
                    k += 1
                end = k
            last = field == width - 1
            if end - start > longest or text[k] != (_NEWLINE if last else delimiter):
                return -1
            k += 1
            filled |= field > 0 and end > start
            if slots[field] >= 0:
                at[line, slots[field], 0], at[line, slots[field], 1] = start, end
        if not filled:
            return -1
        line += 1
    return line


@exact_kernel
def number_values(
    text: Bytes, at: Codes, first: int, seed: int, codes: Codes, slots: Codes, hashes: Integers,
    ends: Integers, pool: Bytes, count: int,
) -> tuple[int, int]:  # fmt: skip
    """Number the values of fields until the space for new values may be too small.

    Args:
        text: the text of the fields.
        at: the start and the end of each field `(n, 2)`.
        first: the first field to number.
        seed: the start of every hash, so that nobody can prepare values of one hash.
        codes: result, the number of each value `(n,)`.
        slots: a hash table of 2^k numbers; −1 is an empty slot.
        hashes: the hash of each known value; its length is at most half of that of `slots`.
        ends: the end of each known value in `pool`, from index 1; `ends[0]` is 0.
        pool: the known values.
        count: the number of known values.

    Returns:
        the number of known values, and the first field that was not numbered: n if all were, −1
        if too many values share a hash.
    """
    mask = len(slots) - 1
    for k in range(first, len(at)):
        start, end = at[k, 0], at[k, 1]
        if count == len(hashes) or ends[count] + end - start > len(pool):
            return count, k
        digest = np.int64(seed)
        for j in range(start, end):
            digest = (digest ^ np.int64(text[j])) * 0x100000001B3
        digest ^= (digest >> 29) & 0x7FFFFFFFF
        digest *= -0x40A7B892E31B1A47
        digest ^= (digest >> 32) & 0xFFFFFFFF
        place, code = digest & mask, -1
        for _ in range(_LONGEST_RUN):
            known = slots[place]
            if known < 0:
                pool[ends[count] : ends[count] + end - start] = text[start:end]
                ends[count + 1] = ends[count] + end - start
                hashes[count] = digest
                slots[place] = code = count
                count += 1
                break
            if hashes[known] == digest and ends[known + 1] - ends[known] == end - start:
                j, begin = 0, ends[known]
                while j < end - start and pool[begin + j] == text[start + j]:
                    j += 1
                if j == end - start:
                    code = int(known)
                    break
            place = (place + 1) & mask
        if code < 0:
            return count, -1
        codes[k] = code
    return count, len(at)


@exact_kernel
def place_values(hashes: Integers, slots: Codes) -> None:
    """Fill an empty hash table with known values `0 … n − 1`, of which `hashes` are the hashes."""
    mask = len(slots) - 1
    for code in range(len(hashes)):
        place = hashes[code] & mask
        while slots[place] >= 0:
            place = (place + 1) & mask
        slots[place] = code


@exact_kernel
def look_up(table: Codes, index: Codes, result: Codes) -> None:
    """Write `table[index]` to `result`; the index −1 is the last entry."""
    for k in range(len(index)):
        result[k] = table[index[k]]


@exact_kernel
def mark_used(index: Codes, used: NDArray[np.bool_]) -> None:
    """Set the entries of `used` that an index leads to; the index −1 is the last entry."""
    for k in range(len(index)):
        used[index[k]] = True


@exact_kernel
def increasing(first: Codes, second: Codes) -> bool:
    """Whether the pairs `(first, second)` strictly increase."""
    for k in range(1, len(first)):
        if first[k] < first[k - 1] or (first[k] == first[k - 1] and second[k] <= second[k - 1]):
            return False
    return True


@exact_kernel
def sort_pairs(
    first: Codes, second: Codes, starts: Integers, marks: Integers, order: Codes
) -> None:
    """Sort pairs by `first`, then `second`, then place: two stable counting sorts.

    Args:
        first: values of `0 … n − 1` `(R,)`.
        second: values of `0 … m − 1` `(R,)`.
        starts: zeros `(n + 1,)`; overwritten.
        marks: zeros `(m + 1,)`; overwritten.
        order: result, the place of each sorted pair `(R,)`.
    """
    for k in range(len(first)):
        starts[first[k] + 1] += 1
        marks[second[k] + 1] += 1
    for k in range(1, len(starts)):
        starts[k] += starts[k - 1]
    for k in range(1, len(marks)):
        marks[k] += marks[k - 1]
    by_second = np.empty(len(first), np.int64)
    for k in range(len(first)):
        by_second[marks[second[k]]] = (np.int64(first[k]) << 32) | k
        marks[second[k]] += 1
    for k in range(len(first)):
        one = by_second[k] >> 32
        order[starts[one]] = by_second[k] & 0xFFFFFFFF
        starts[one] += 1
