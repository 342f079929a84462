"""Hostile records are refused in one line, or judged and rendered."""

from __future__ import annotations

import pytest
from fuzz_harness import fuzz, fuzz_long  # type: ignore[import-not-found]


@pytest.mark.long
def test_hostile_records_end_well() -> None:
    found = fuzz("records", count=60, seconds=20)
    assert found.tried >= 10
    assert not found.failures, f"{found}"


@pytest.mark.fuzz
def test_many_hostile_records_end_well() -> None:
    found = fuzz_long("records")
    print(found)  # shown with -rP
    assert not found.failures, f"{found}"
