"""What is printed and returned where outputs cannot be written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dpaudit.cli import main
from dpaudit.cli.writing import UnwrittenError, conclude
from dpaudit.core.errors import ConfigError

TINY = """
seed = 3
[data]
synthetic = { n_users = 60, n_items = 50, mean_per_user = 25 }
[[attack]]
[audit]
trials = 100
fail_on_false_claim = false
[[gate]]
metric = "attack.accuracy"
"""


def run(folder: Path, gate: str, *options: object) -> Result:
    config = folder / "audit.toml"
    config.write_text(f"{TINY}{gate}\n", encoding="utf-8")
    words = ("run", config, "-o", folder / "out", "--workers", 1, *options)
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.mark.long
@pytest.mark.parametrize(("gate", "code"), [("max = 0.001", 1), ("max = 0.999", 3)])
def test_a_full_disk_costs_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: str, code: int
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("dpaudit.core.files.os.fsync", full)
    result = run(tmp_path, gate)
    assert result.exit_code == code
    assert ("FAIL" if code == 1 else "PASS") in result.stdout
    assert "Record and reports" not in result.stdout
    said = result.stderr.splitlines()[-1]
    assert said.startswith(f"dpaudit: {tmp_path / 'out' / 'record.json'} cannot be written")
    assert said.endswith(f"; the outcome is {'stop' if code == 1 else 'go'}")
    assert not (tmp_path / "out" / "record.json").exists()
    assert not list((tmp_path / "out").glob("*.draft"))
    # The results are kept, so the same command needs only the disk.
    monkeypatch.undo()
    assert run(tmp_path, gate, "-q").exit_code == (1 if code == 1 else 0)
    assert (tmp_path / "out" / "record.json").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_a_report_that_cannot_be_written_is_named_after_the_result(tmp_path: Path) -> None:
    result = run(tmp_path, "max = 0.999", "--report", "md=/dev/full")
    assert result.exit_code == 3
    assert "PASS" in result.stdout
    assert "/dev/full cannot be written (No space" in result.stderr
    assert (tmp_path / "out" / "record.json").exists()


def full() -> None:
    raise ConfigError("the disk is full")


def closed(_: bool) -> None:
    raise BlockingIOError(errno.EAGAIN, "try again")


@pytest.mark.cases(("outcome", "code"), [("stop", 1), ("go", 3), ("undecided", 3)])
def test_only_a_failed_gate_outranks_what_is_not_written(outcome: str, code: int) -> None:
    with pytest.raises(UnwrittenError) as caught:
        conclude(outcome, full, closed)
    assert (caught.value.code, caught.value.reported) == (code, False)
    said = str(caught.value)
    for part in ("disk is full", "standard output", "try again", f"outcome is {outcome}"):
        assert part in said


def test_a_result_that_cannot_be_shown_leaves_its_reports() -> None:
    with pytest.raises(UnwrittenError) as caught:
        conclude("go", lambda: None, closed)
    assert caught.value.reported


def test_an_outcome_has_its_own_code_where_all_is_written() -> None:
    written: list[bool] = []
    codes = [
        conclude(outcome, lambda: None, written.append) for outcome in ("go", "stop", "undecided")
    ]
    assert codes == [0, 1, 4]
    assert written == [True] * 3
