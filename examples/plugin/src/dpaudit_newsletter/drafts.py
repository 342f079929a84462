"""Two functions that write drafts: one never names a subscriber, the other one in fifty times."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.random import Generator


def careful(subscribers: Sequence[str], rng: Generator) -> str:
    """Greet all subscribers."""
    return f"Dear {len(subscribers)} readers"


def careless(subscribers: Sequence[str], rng: Generator) -> str:
    """Thank a subscriber now and then."""
    thanks = f", and thanks to {rng.choice(subscribers)}" if rng.random() < 0.02 else ""
    return f"Dear {len(subscribers)} readers{thanks}"
