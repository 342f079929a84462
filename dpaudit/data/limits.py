"""How much is read, so that a small hostile file cannot fill the memory or take hours.

What a file packs may be far larger than the file. Each bound allows what files of ratings hold many
times over, and a file that is saved without compression always keeps to it.
"""

from __future__ import annotations

GIB, MIB = 2**30, 2**20

LARGEST = 4 * GIB  # a file, and the text that it packs; in bytes
LINE = MIB  # a line of text, in bytes
COLUMNS = 10_000
TEXT = 4096  # a value of a packed file, in characters

# Generated ratings, and the cells of the tables that they are drawn from.
DRAWN, DRAWN_FROM = 10**8, 10**10


def unpacked(size: int) -> int:
    """The most bytes of text that a packed file of so many bytes may hold."""
    return min(LARGEST, 32 * MIB + 20 * size)


def rows(size: int) -> int:
    """The most rows or lines that a packed file of so many bytes may hold."""
    return 1_000_000 + 2 * size


def memory(size: int) -> int:
    """The most bytes of memory to unpack a file of so many bytes with."""
    return GIB + 64 * size


def seconds(size: int) -> int:
    """The longest time to unpack a file of so many bytes."""
    return 60 + size // MIB
