"""Hostile numbers and scores are refused in one line, or bounded."""

from __future__ import annotations

import pytest
from fuzz_harness import fuzz, fuzz_long  # type: ignore[import-not-found]


@pytest.mark.long
def test_hostile_numbers_end_well() -> None:
    found = fuzz("epsilon", count=400, seconds=20)
    assert found.tried >= 40
    assert not found.failures, f"{found}"


@pytest.mark.fuzz
def test_many_hostile_numbers_end_well() -> None:
    found = fuzz_long("epsilon")
    print(found)  # shown with -rP
    assert not found.failures, f"{found}"
