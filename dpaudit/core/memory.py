"""The limit on memory: what would exceed it is refused before it is allocated.

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
# What is assumed where the system does not say.
_UNKNOWN = 4 * 2**30

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
    limit, source = _limit()
    if needed > limit:
        raise ConfigError(
            f"{what} would take {amount(needed)} of memory, which grows with {growth}, and the "
            f"limit is {amount(limit)} ({source}): {remedy}, or set {VARIABLE} higher"
        )


def memory_limit() -> float:
    """Return the limit in bytes; infinite if there is none.

    Raises:
        ConfigError: the environment variable is malformed.
    """
    return _limit()[0]


def amount(size: float) -> str:
    """Return a number of bytes in words, such as `2.9 GB`."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.0f} bytes"


def _limit() -> tuple[float, str]:
    """Return the limit in bytes, and where it comes from."""
    given = os.environ.get(VARIABLE, "").strip()
    if not given:
        return _SHARE * _available(), f"{_SHARE:.0%} of the memory that is available"
    if given.lower() == "inf":
        return math.inf, VARIABLE
    found = _GIVEN.fullmatch(given.lower())
    if found is None or found[2] not in _UNITS:
        raise ConfigError(
            f"{VARIABLE} = {given!r} is no amount of memory: write a number of bytes, or a unit "
            "with it, such as 8GiB or 500MB, or inf for no limit"
        )
    return float(found[1]) * _UNITS[found[2]], VARIABLE


def _available() -> float:
    """Return the bytes that this process can still allocate, as far as the system says."""
    found = [_UNKNOWN]
    if sys.platform == "win32":
        found = [_windows()]
    elif hasattr(os, "sysconf"):
        # Memory in use counts as available where only the total is known.
        found = [_meminfo() or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    return min(found + _group())


def _meminfo() -> int | None:
    """Return what Linux can give without swapping, with what it would drop from its caches."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s*(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


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


def _windows() -> int:  # pragma: no cover
    """Return the physical memory that Windows can give."""
    if sys.platform != "win32":
        return _UNKNOWN
    import ctypes

    class Status(ctypes.Structure):
        _fields_ = (
            ("size", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *((name, ctypes.c_ulonglong) for name in ("total", "available", *"abcde")),
        )

    status = Status(size=ctypes.sizeof(Status))
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return _UNKNOWN
    return int(status.available)
