"""Clocks: each is known, and none decides a number or a verdict."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import dpaudit

PACKAGE = Path(dpaudit.__file__).parent
CLOCKS = {
    *("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time", "time_ns"),
    *("process_time_ns", "thread_time", "thread_time_ns", "time", "now", "utcnow", "today"),
}
# What reads a clock, and what for.
SHOWN, LIMIT = "a duration or a date that is shown", "a limit that is an error when it runs out"
KEPT, DAY = "when results are kept, which the next run computes again", "the day of a waiver"
KNOWN = {
    "auditor/run.py": SHOWN,
    "audits/on_demand/games.py": "what `plan` forecasts",
    "claims/verify.py": SHOWN,
    "cli/stopping.py": "how long a signal waits for an import",
    "data/readers/binary.py": LIMIT,
    "execution/reporter.py": SHOWN,
    "execution/sampling.py": "what `plan` forecasts",
    "execution/store.py": KEPT,
    "execution/workers.py": SHOWN,
    "record/result.py": f"{SHOWN}, and {DAY}",
    "recommenders/base.py": SHOWN,
    "recommenders/command.py": "a duration that is shown, and a limit",
    "recommenders/python_class.py": SHOWN,
    "reports/ci.py": SHOWN,
    "tuning/run.py": "how many trainings fit into a time that the user gives, before any is read",
    "tuning/tuner.py": SHOWN,
}


def read(tree: ast.Module) -> Iterator[str]:
    """Yield the clocks that a module names, also those that it imports or hands on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in {"time", "datetime", "date"} and node.attr in CLOCKS:
                yield node.attr
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (name.name for name in node.names)


def test_no_clock_but_these_is_read() -> None:
    """A clock that is added here decides neither how many trials are run nor what is judged."""
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(read(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found == KNOWN.keys()
