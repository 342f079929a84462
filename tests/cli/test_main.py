"""Outputs that fail while a command writes them, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from dpaudit.cli.main import main

TINY = """
seed = 3
[data]
synthetic = { n_users = 100, n_items = 80, mean_per_user = 30 }
[model]
params = { top_k = 5 }
[[attack]]
[audit]
trials = 300
[[game]]
trials = 300
[[gate]]
metric = "attack.accuracy"
max = 0.01
"""


def command(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dpaudit", *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        **options,
    )


def unread(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command whose output pipe is already closed by its reader."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return command(*arguments, stdout=writer)
    finally:
        os.close(writer)


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the config of an audit whose gate fails, and its run in `out`."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "audit.toml").write_text(TINY)
    result = unread("run", folder / "audit.toml", "-o", folder / "out")
    assert result.returncode == 1, result.stderr
    return folder


@pytest.mark.long
def test_a_run_keeps_its_exit_code_and_its_record_when_nobody_reads(failed: Path) -> None:
    assert json.loads((failed / "out" / "record.json").read_text())["outcome"] == "stop"
    assert (failed / "out" / "report.html").exists()


@pytest.mark.long
def test_a_gate_keeps_its_exit_code_when_nobody_reads(failed: Path) -> None:
    result = unread("gate", failed / "out")
    assert (result.returncode, result.stderr) == (1, "")


@pytest.mark.long
@pytest.mark.parametrize("what", ["claims", "plan", "schema", "report", "--help"])
def test_a_reader_who_leaves_is_no_failure(failed: Path, what: str) -> None:
    place = {"plan": [failed / "audit.toml"], "report": [failed / "out"]}.get(what, [])
    result = unread(what, *place)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
@pytest.mark.parametrize("what", ["claims", "schema"])
def test_a_full_disk_is_told_in_a_sentence(what: str) -> None:
    with Path("/dev/full").open("w") as full:
        result = command(what, stdout=full)
    assert result.returncode == 3
    assert result.stderr.startswith("dpaudit: the system refused: ")
    assert len(result.stderr.splitlines()) == 1


def test_commands_are_listed_in_the_order_of_use() -> None:
    text = CliRunner().invoke(main, ["--help"]).output.partition("Commands:")[2]
    names = [line.split()[0] for line in text.splitlines() if re.match(r"  \w", line)]
    assert sorted(names) == sorted(main.commands)
    use = ["init", "plan", "run", "report", "gate", "diff"]
    assert [name for name in names if name in use] == use


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


@pytest.mark.cases("path", [(), *commands(main)])
def test_every_help_has_all_exit_codes(path: tuple[str, ...]) -> None:
    text = " ".join(CliRunner().invoke(main, [*path, "--help"]).output.split())
    codes = re.findall(r"\b(\d+) ", text.partition("Exit codes")[2])
    judging = {(), ("run",), ("tune",), ("merge",), ("gate",), ("membership",), ("claims",)}
    wanted = {"0", "1", "2", "3", "4"} if path in judging else {"0", "2", "3"}
    assert wanted <= set(codes), text
    if path not in judging:
        assert "STOP" not in text.partition("Exit codes")[2]


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
def test_a_caller_may_ignore_how_processes_end(tmp_path: Path) -> None:
    def ignoring() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    place = tmp_path / "audit.toml"
    result = command("run", place, "--allow-code", stdout=subprocess.DEVNULL, preexec_fn=ignoring)
    assert (result.returncode, "Traceback" in result.stderr) == (2, False)
