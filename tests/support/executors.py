"""Executors for tests."""

from __future__ import annotations

from dpaudit.execution.executor import Executor
from dpaudit.execution.workers import Pool, Workers


def on_threads(count: int) -> Executor:
    """Return an executor on this many threads that stores nothing."""
    return Executor(Pool(Workers(count)))
