"""Hostile outputs are refused in one line, or audited."""

from __future__ import annotations

import pytest
from fuzz_harness import fuzz, fuzz_long  # type: ignore[import-not-found]


@pytest.mark.long
def test_hostile_outputs_end_well() -> None:
    found = fuzz("outputs", count=40, seconds=20)
    assert found.tried >= 10
    assert not found.failures, f"{found}"


@pytest.mark.fuzz
def test_many_hostile_outputs_end_well() -> None:
    found = fuzz_long("outputs")
    print(found)  # shown with -rP
    assert not found.failures, f"{found}"
