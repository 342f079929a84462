"""The random streams that releases are drawn from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WorldArray = NDArray[np.int64]


Key = NDArray[np.uint32]


def stream_key(seed: int, purpose: str) -> Key:
    """The noise source's key `(2,)` for one purpose of one seed; purposes never share a stream."""
    words = [seed & 0xFFFFFFFF, seed >> 32, *purpose.encode()]
    return np.random.SeedSequence(words).generate_state(2).astype(np.uint32)


@dataclass(frozen=True, eq=False)
class Streams:
    """The random streams of some worlds: world `w` draws from `(key, w, step, coordinate)`.

    The seed that a key is made of is a secret where a release is real: the source is a function of
    counters, so whoever knows the seed computes all noise and takes it off.

    Attributes:
        key: from `stream_key`.
        worlds: the worlds' indices `(W,)`, below 2^47; the index alone decides a world's stream.
    """

    key: Key
    worlds: WorldArray

    @classmethod
    def first(cls, seed: int, purpose: str, count: int) -> Streams:
        """Worlds `0 … count − 1` of a purpose."""
        return cls(stream_key(seed, purpose), np.arange(count, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.worlds)

    def blocks(self, size: int) -> Iterator[Streams]:
        """The same worlds, `size` at a time."""
        for start in range(0, len(self), size):
            yield Streams(self.key, self.worlds[start : start + size])
