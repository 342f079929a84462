"""The net reports a changed number or cell, and nothing that the day or the machine decides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import net  # type: ignore[import-not-found]
import pytest

from dpaudit.record import storage
from dpaudit.record.result import AuditResult
from dpaudit.reports.render import html, markdown


def parts(result: AuditResult, folder: Path) -> Any:
    for name, module in (("record.json", storage), ("report.md", markdown), ("report.html", html)):
        (folder / name).write_text(module.render(result), encoding="utf-8")
    net.keep(folder / "kept", net.reports(folder))
    return net.kept(folder / "kept", config=True)


@pytest.fixture
def before(make: Callable[..., AuditResult], tmp_path: Path) -> Any:
    return parts(make(), tmp_path)


def test_a_changed_number_is_reported_in_the_record_and_in_its_cells(
    make: Callable[..., AuditResult], before: Any, tmp_path: Path
) -> None:
    result = make()
    first, *others = result.measurements
    changed = first.estimate.model_copy(update={"value": 0.75})
    measurements = [first.model_copy(update={"estimate": changed}), *others]
    after = parts(result.model_copy(update={"measurements": measurements}), tmp_path)
    found = net.differences(before, after)
    assert {line.split(":")[0].strip() for line in found} >= {"record", "markdown", "html"}
    for part in ("markdown", "html"):
        cells = [line for line in found if line.startswith(f"  {part}: +") and " | " in line]
        assert any("accuracy" in cell and "0.750" in cell for cell in cells)


def test_a_renamed_column_and_caption_are_reported(before: Any) -> None:
    for part in ("markdown", "html"):
        lines = [line.replace("rmse", "error").replace("Gates", "Limits") for line in before[part]]
        found = net.differences(before, {**before, part: lines})
        assert any("columns:" in line and "error" in line for line in found)
        assert any(line.startswith(f"  {part}: +Limits") for line in found)


def test_day_machine_and_version_are_not_compared(
    make: Callable[..., AuditResult], before: Any, tmp_path: Path
) -> None:
    result = make()
    timing = result.timing.model_copy(update={"started": "2027-02-03T00:00:00+00:00"})
    changes = {"timing": timing, "tool": "9.9.9", "environment": {"python": "3.99"}}
    assert net.differences(before, parts(result.model_copy(update=changes), tmp_path)) == []
