"""Seeds of audits, drawn from the operating system's entropy unless given.

The level of an audit holds over the random choice of its seed. It does not hold for a seed that all
audits share or that was chosen by its result: if scores take few values, a fixed seed draws the
same coins in many audits.
"""

from __future__ import annotations

import secrets

import numpy as np

from dpaudit.core.errors import InputError

# Every TOML and JSON reader accepts integers of this many bits.
_BITS = 63


def fresh_seed() -> int:
    """Draw a seed from the operating system's entropy."""
    return secrets.randbits(_BITS)


def settled(seed: int | None) -> int:
    """Return the given seed, or a fresh one for None.

    Raises:
        InputError: the seed is not a whole number of at least 0.
    """
    if seed is None:
        return fresh_seed()
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed = {seed!r} is not a whole number of at least 0")
    return int(seed)
