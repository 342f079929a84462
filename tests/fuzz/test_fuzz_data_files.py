"""Hostile files of ratings and links are refused in one line, or read."""

from __future__ import annotations

import pytest
from fuzz_harness import fuzz, fuzz_long  # type: ignore[import-not-found]


@pytest.mark.long
def test_hostile_data_files_end_well() -> None:
    found = fuzz("data_files", count=400, seconds=20)
    assert found.tried >= 40
    assert not found.failures, f"{found}"


@pytest.mark.fuzz
def test_many_hostile_data_files_end_well() -> None:
    found = fuzz_long("data_files")
    print(found)  # shown with -rP
    assert not found.failures, f"{found}"
