"""Seeds of audits: drawn from the operating system's entropy where none is given.

A level holds over the choice of the seed. A seed that is the same in every audit, or that was
chosen after looking at what it gives, has no such level: where scores take few values, the coins of
a fixed seed fall alike in many audits.
"""

from __future__ import annotations

import secrets

import numpy as np

from dpaudit.core.errors import InputError

# Every TOML and JSON reader takes integers of so many bits.
_BITS = 63


def fresh_seed() -> int:
    """Draw a seed from the operating system's entropy."""
    return secrets.randbits(_BITS)


def settled(seed: int | None) -> int:
    """The given seed, or a fresh one for None.

    Raises:
        InputError: it is no whole number of at least 0.
    """
    if seed is None:
        return fresh_seed()
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed = {seed!r} is not a whole number of at least 0")
    return int(seed)
