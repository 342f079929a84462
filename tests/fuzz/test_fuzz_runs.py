"""Hostile numbers of the right kind, and hostile names: a run ends well."""

from __future__ import annotations

import pytest
from fuzz_harness import fuzz_long  # type: ignore[import-not-found]


@pytest.mark.fuzz
def test_many_hostile_runs_end_well() -> None:
    found = fuzz_long("runs")
    print(found)  # shown with -rP
    assert not found.failures, f"{found}"
