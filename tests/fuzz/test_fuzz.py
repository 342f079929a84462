"""Hostile inputs are refused in one line, or read, run, bounded, audited, judged and rendered."""

from __future__ import annotations

import pytest
from fuzz_harness import TARGETS, fuzz_long  # type: ignore[import-not-found]


@pytest.mark.fuzz
@pytest.mark.parametrize("target", TARGETS)
def test_hostile_inputs_end_well(target: str) -> None:
    result = fuzz_long(target)
    print(result)  # shown with -rP
    assert result.tried
    assert not result.failures, f"{result}"
