"""The random streams from which releases are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TrialArray = NDArray[np.int64]


Key = NDArray[np.uint32]


def stream_key(seed: int, purpose: str) -> Key:
    """Return the noise source's key `(2,)` for a seed and a purpose; each purpose has its own."""
    words = [seed & 0xFFFFFFFF, seed >> 32, *purpose.encode()]
    return np.random.SeedSequence(words).generate_state(2).astype(np.uint32)


def seed_sequence(
    seed: int | Sequence[int], purpose: str = "", *, child: int | None = None
) -> np.random.SeedSequence:
    """Return numpy's seed sequence of a purpose; purposes and children never share a stream.

    Args:
        seed: the run's seed, or several numbers that identify the stream.
        purpose: names what is drawn. A purpose is data: another name gives other numbers.
        child: index of a sub-stream, such as one user's.

    Raises:
        ValueError: a number is negative.
    """
    numbers = [seed] if isinstance(seed, int | np.integer) else seed
    key = () if child is None else (child,)
    words = [word for number in numbers for word in _words(int(number))]
    # As one array: numpy takes six times as long for a list, which it reads number by number.
    return np.random.SeedSequence(np.array([*words, *purpose.encode()], np.uint32), spawn_key=key)


def _words(number: int) -> list[int]:
    """Return the words of 32 bits of a number, the lowest first, as numpy's entropy has them.

    Raises:
        ValueError: it is negative.
    """
    if number < 0:
        raise ValueError(f"the seed {number} is negative: give numbers from 0")
    return [number >> low & 0xFFFFFFFF for low in range(0, max(number.bit_length(), 1), 32)]


def generator(
    seed: int | Sequence[int], purpose: str = "", *, child: int | None = None
) -> np.random.Generator:
    """Return numpy's generator on `seed_sequence`, for choices that no claim rests on."""
    return np.random.default_rng(seed_sequence(seed, purpose, child=child))


@dataclass(frozen=True, eq=False)
class Streams:
    """The random streams of some trials: trial `w` draws from `(key, w, step, coordinate)`.

    The seed behind the key of a real release is secret: the source is a function of counters, so
    anyone who knows the seed can compute all noise and subtract it.

    Attributes:
        key: from `stream_key`.
        trials: the trials' indices `(W,)`, below 2^47; the index alone decides a trial's stream.
    """

    key: Key
    trials: TrialArray

    @classmethod
    def first(cls, seed: int, purpose: str, count: int) -> Streams:
        """Return the streams of trials `0 … count − 1` of a purpose."""
        return cls(stream_key(seed, purpose), np.arange(count, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.trials)

    def blocks(self, size: int) -> Iterator[Streams]:
        """Yield the same trials in blocks of at most `size`."""
        for start in range(0, len(self), size):
            yield Streams(self.key, self.trials[start : start + size])
