"""Limits on what is read, so that a small hostile file cannot fill the memory or take hours.

A compressed file may unpack to far more than its size. Each limit is many times what files of
ratings need, and an uncompressed file is always within it.
"""

from __future__ import annotations

GIB, MIB = 2**30, 2**20

LARGEST = 4 * GIB  # a file and its unpacked text, in bytes
LINE = MIB  # a line of text, in bytes
COLUMNS = 10_000
TEXT = 4096  # a value of a binary file, in characters

# The number of generated ratings, and of the cells of the tables they are drawn from.
DRAWN, DRAWN_FROM = 10**8, 10**10


def unpacked(size: int) -> int:
    """Return the largest size of the unpacked text of a file of `size` bytes, in bytes."""
    return min(LARGEST, 32 * MIB + 20 * size)


def rows(size: int) -> int:
    """Return the largest number of rows or lines of a compressed file of `size` bytes."""
    return min(2**31 - 1, 1_000_000 + 2 * size)


def memory(size: int) -> int:
    """Return the memory limit for unpacking a file of `size` bytes, in bytes."""
    return GIB + 64 * size


def seconds(size: int) -> int:
    """Return the time limit for unpacking a file of `size` bytes, in seconds."""
    return 60 + size // MIB
