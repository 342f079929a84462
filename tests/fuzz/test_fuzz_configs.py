"""Hostile configs are refused in one line, or run."""

from __future__ import annotations

import pytest
from fuzz_harness import fuzz, fuzz_long  # type: ignore[import-not-found]


@pytest.mark.long
def test_hostile_configs_end_well() -> None:
    found = fuzz("configs", count=300, seconds=20)
    assert found.tried >= 30
    assert not found.failures, f"{found}"


@pytest.mark.fuzz
def test_many_hostile_configs_end_well() -> None:
    found = fuzz_long("configs")
    print(found)  # shown with -rP
    assert not found.failures, f"{found}"
