"""Memory: how much a process has had, and the limit, beyond which nothing is allocated.

The limit is a share of the memory that is available at that moment, or what the environment
variable `DPAUDIT_MEMORY` says, such as `8GiB` or `500 MB`; `inf` is no limit. It decides only
whether something runs, never a number.
"""

from __future__ import annotations

import math
import os
import re
import sys
from pathlib import Path

from dpaudit.core.errors import ConfigError

VARIABLE = "DPAUDIT_MEMORY"
# The share of the available memory that one part of a run may take.
_SHARE = 0.8
# Up to this size, asking the system for the available memory takes longer than the allocation.
_LITTLE = 2**24

_UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_GIVEN = re.compile(r"(\d+(?:\.\d*)?)\s*([a-z]*)")


def check_memory(what: str, growth: str, needed: float, remedy: str) -> None:
    """Check that something fits the memory, before it is allocated.

    Args:
        what: the subject of the sentence, such as `the similarities of neighborhood`.
        growth: what its memory grows with, and how much that is, such as `the square of the number
            of items (26744)`.
        needed: the bytes that it takes at its peak, besides what is allocated already.
        remedy: what the user can do, as imperatives.

    Raises:
        ConfigError: it takes more than the limit, or the environment variable is malformed.
    """
    if _little(needed):
        return
    limit, source = _limit()
    if needed > limit:
        raise ConfigError(
            f"{what} would take {amount(needed)} of memory, which grows with {growth}, and the "
            f"limit is {amount(limit)} ({source}): {remedy}, or set {VARIABLE} higher"
        )


def fits(needed: float) -> bool:
    """Return whether so many bytes are within the limit.

    The system is not asked about 16 MiB and less: they fit, unless the environment variable says
    otherwise.

    Raises:
        ConfigError: the environment variable is malformed.
    """
    return _little(needed) or needed <= _limit()[0]


def amount(size: float) -> str:
    """Return a number of bytes in words, such as `2.9 GB`."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.0f} bytes"


def _little(needed: float) -> bool:
    return needed <= _LITTLE and VARIABLE not in os.environ


def _limit() -> tuple[float, str]:
    """Return the limit in bytes, and where it comes from."""
    given = os.environ.get(VARIABLE, "").strip()
    if not given:
        return _SHARE * _available(), f"{_SHARE:.0%} of the memory that is available"
    if given.lower() == "inf":
        return math.inf, VARIABLE
    match = _GIVEN.fullmatch(given.lower())
    if match is None or match[2] not in _UNITS:
        raise ConfigError(
            f"{VARIABLE} = {given!r} is no amount of memory: write a number of bytes, or a unit "
            "with it, such as 8GiB or 500MB, or inf for no limit"
        )
    return float(match[1]) * _UNITS[match[2]], VARIABLE


def _available() -> float:
    """Return the bytes that this process can still allocate, as far as the system says."""
    import psutil

    return float(min([psutil.virtual_memory().available, *_group()]))


def _group() -> list[int]:
    """Return what a container's limit leaves, if there is one; file caches do not count as used."""
    for folder, most, used in (
        ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        try:
            limit, taken, stat = (
                (Path(folder) / name).read_text(encoding="ascii")
                for name in (most, used, "memory.stat")
            )
            cached = re.search(r"^(?:total_)?inactive_file (\d+)", stat, re.MULTILINE)
            return [max(int(limit) - int(taken) + int(cached[1] if cached else 0), 0)]
        except (OSError, ValueError):  # no such file, or `max`
            continue
    return []


def peak_memory() -> int:
    """Return the largest memory that this process has had so far, in bytes."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "darwin":
        return peak
    # Linux counts into `ru_maxrss` what the process held that started this one.
    status = Path("/proc/self/status")
    own = re.search(rb"^VmHWM:\s*(\d+)", status.read_bytes(), re.M) if status.exists() else None
    return 1024 * (int(own[1]) if own else peak)
