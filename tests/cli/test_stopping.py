"""Runs that Ctrl-C or SIGTERM stops: their exit codes, what they say, and what they leave."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import psutil
import pytest
from click.testing import CliRunner

from dpaudit.cli import main, stopping
from dpaudit.cli.stopping import StopSignal, stoppable
from dpaudit.execution.store import count


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Let signals be heard, which a caller such as `nohup` may ignore, here and in children."""
    before = [(signum, signal.getsignal(signum)) for signum in (signal.SIGINT, signal.SIGTERM)]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for signum, handler in before:
        signal.signal(signum, handler)


LONG = """
seed = 5
[data]
synthetic = { n_users = 60, n_items = 80, mean_per_user = 30 }
[train]
folds = 3
trials = 10_000
[[model]]
defense = "dpsgd-mf"
epsilon = [1]
params = { epochs = 20, dimensions = 8 }
"""
OWN = """
seed = 5
[data]
synthetic = { n_users = 60, n_items = 80, mean_per_user = 30 }
[[recommender]]
label = "slow"
%s
[membership]
trainings = 8
held_out = 200
interactions = 300
"""
MODULE = """
import pathlib
import time

PLACE = pathlib.Path(__file__).with_name("begun")


class Slow:
    def fit(self, interactions, seed):
        PLACE.write_text("")
        try:
            time.sleep(60)
        except KeyboardInterrupt:  # as code does that is hard to stop
            PLACE.with_name("asked").write_text("")
            time.sleep(60)


def release(data, rng):
    PLACE.write_text("")
    time.sleep(0.05)
    return 1.0
"""
SIGNALS = {
    signal.SIGINT: (130, "dpaudit: interrupted: "),
    signal.SIGTERM: (143, "dpaudit: terminated: "),
}


def command(folder: Path, text: str, *options: str) -> list[str]:
    config = folder / "audit.toml"
    config.write_text(text, encoding="utf-8")
    (folder / "slow.py").write_text(MODULE, encoding="utf-8")
    run = ["run", str(config), "-o", str(folder / "out"), "--allow-code", *options]
    return [sys.executable, "-m", "dpaudit", *run]


def started(words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(words, start_new_session=True, stderr=subprocess.PIPE, text=True)


def waited(process: subprocess.Popen[str], there: Path, tasks: int = 0) -> None:
    """Wait until a file exists, and as a store holds so many tasks."""
    for _ in range(600):
        assert process.poll() is None, process.communicate()
        if there.exists() and (not tasks or count(there) >= tasks):
            return
        time.sleep(0.1)
    pytest.fail(f"{there} does not come")


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return list(psutil.Process(process.pid).children(recursive=True))


def check_stopped(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Stop a run and all its processes, as a terminal does, and return its last line."""
    there = family(process)
    os.killpg(process.pid, number)
    _, said = process.communicate(timeout=60)
    code, words = SIGNALS[number]
    assert process.returncode == code, said
    last = said.splitlines()[-1]
    assert last.startswith(words)
    assert "Traceback" not in said, said[said.index("Traceback") - 200 :][:3000]
    _, alive = psutil.wait_procs(there, timeout=10)
    assert alive == []
    return last


@pytest.mark.parametrize(
    ("workers", "number"),
    [
        pytest.param("1", signal.SIGTERM, marks=pytest.mark.long),
        ("2", signal.SIGINT),
        pytest.param("2", signal.SIGTERM, marks=pytest.mark.long),
        pytest.param("processes:2", signal.SIGINT, marks=pytest.mark.long),
        pytest.param("processes:2", signal.SIGTERM, marks=pytest.mark.long),
        pytest.param("dask:2", signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_a_run_that_is_stopped_says_what_is_kept(
    tmp_path: Path, workers: str, number: signal.Signals
) -> None:
    process = started(command(tmp_path, LONG, "--workers", workers))
    store = tmp_path / "out" / "tasks.sqlite"
    waited(process, store, tasks=2)
    last = check_stopped(process, number)
    kept = count(store)  # the file is whole, and nobody locks it
    assert f"{kept} finished tasks are kept in {tmp_path / 'out'};" in last
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        ".tasks.sqlite.lock",
        "tasks.sqlite",
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "workers", "number"),
    [
        ("command", "2", signal.SIGTERM),
        ("command", "processes:2", signal.SIGINT),
        ("target", "2", signal.SIGINT),
        ("target", "processes:2", signal.SIGTERM),
    ],
)
def test_trainings_of_one_s_own_are_stopped_too(
    tmp_path: Path, model: str, workers: str, number: signal.Signals
) -> None:
    begun = tmp_path / "begun"
    wait = f"import pathlib, time; pathlib.Path('{begun}').touch(); time.sleep(60)"
    line = {
        "command": f'command = "{sys.executable} -c \\"{wait}\\""',
        "target": "target = 'slow:Slow'",
    }
    process = started(command(tmp_path, OWN % line[model], "--workers", workers))
    waited(process, begun)
    assert "nothing is kept" in check_stopped(process, number)
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    process = started(command(tmp_path, OWN % "target = 'slow:Slow'", "--workers", "1"))
    waited(process, tmp_path / "begun")
    process.send_signal(signal.SIGINT)
    waited(process, tmp_path / "asked")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=5)
    assert process.returncode == -signal.SIGINT  # a shell's 130
    assert "dpaudit: " not in said


@pytest.mark.long
def test_of_a_black_box_nothing_is_kept(tmp_path: Path) -> None:
    text = "seed = 5\n[defense]\nkind = 'python'\ntarget = 'slow:release'\nd = 0\nd_prime = 1\n"
    process = started(command(tmp_path, f"{text}epsilon = 1.0\n"))
    waited(process, tmp_path / "begun")
    assert "calls of a black box" in check_stopped(process, signal.SIGTERM)
    assert not (tmp_path / "out").exists()


def test_after_fresh_the_command_without_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    words = command(tmp_path, LONG.replace("10_000", "16"), "-q")[3:]
    assert CliRunner().invoke(main, words).exit_code == 0
    monkeypatch.setattr("dpaudit.auditor.run.Measured.record", stopped)
    result = CliRunner().invoke(main, [*words, "--fresh"])
    assert result.exit_code == 130
    assert "without --fresh" in result.stderr


def test_a_signal_is_an_interrupt_with_its_own_code() -> None:
    before = {signum: signal.getsignal(signum) for signum in SIGNALS}
    try:
        with pytest.raises(StopSignal) as caught, stoppable():
            signal.raise_signal(signal.SIGTERM)
        assert caught.value.code == 143
        # The next one ends the process.
        assert {signal.getsignal(signum) for signum in SIGNALS} == {signal.SIG_DFL}
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def closed_import(folder: Path) -> None:
    text = "import signal; signal.raise_signal(signal.SIGTERM); whole = True"
    (folder / "asks_to_stop.py").write_text(text, encoding="utf-8")
    importlib.import_module("asks_to_stop")


class Finalized:
    """Asks to stop where an exception would be lost."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def closed_finalizer(_: Path) -> None:
    del [Finalized()][:]


def closed_callback(_: Path) -> None:
    import ctypes

    names: dict[str, Any] = {"__name__": "llvmlite.binding.executionengine"}
    code = "import signal\ndef notify():\n    signal.raise_signal(signal.SIGTERM)"
    exec(code, names)  # noqa: S102
    ctypes.CFUNCTYPE(None)(names["notify"])()


@pytest.mark.cases("closed", [closed_import, closed_finalizer, closed_callback])
def test_a_signal_waits_for_code_that_is_closed_to_exceptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: Callable[[Path], None]
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    ended = False

    def run() -> None:
        nonlocal ended
        closed(tmp_path)
        ended = True
        time.sleep(10)

    with pytest.raises(StopSignal) as caught, stoppable():
        run()
    assert ended
    assert caught.value.code == 143
    if closed is closed_import:
        assert sys.modules.pop("asks_to_stop").whole


def test_a_signal_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "_LONGEST", 0.1)
    monkeypatch.syspath_prepend(tmp_path)
    text = "import signal, time; signal.raise_signal(signal.SIGTERM); time.sleep(10)"
    (tmp_path / "never_ends.py").write_text(text, encoding="utf-8")
    with pytest.raises(StopSignal), stoppable():
        importlib.import_module("never_ends")


def test_a_signal_is_known_behind_the_error_that_code_makes_of_it() -> None:
    class Attribute:
        def __set_name__(self, owner: type, name: str) -> None:
            raise StopSignal(signal.SIGTERM)

    with pytest.raises((RuntimeError, StopSignal)) as caught:
        type("Owner", (), {"attribute": Attribute()})
    stopped = StopSignal.of(caught.value)
    assert stopped is not None
    assert stopped.code == 143
    assert StopSignal.of(RuntimeError()) is None


@pytest.mark.cases("module", ["dpaudit.cli", "click", "dpaudit.cli.stopping"])
@pytest.mark.cases("number", SIGNALS)
def test_a_signal_ends_a_command_that_is_still_imported(
    module: str, number: signal.Signals
) -> None:
    code = f"""
import os, sys
def hook(event, words):
    if event == "import" and words[0] == {module!r}:
        os.kill(os.getpid(), {number:d})
sys.addaudithook(hook)
from dpaudit.__main__ import main
main()
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (128 + number, "")


def test_what_the_caller_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stoppable():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_question_without_an_answer_is_no_signal() -> None:
    assert StopSignal.of(click.Abort()) is None
    answer = CliRunner().invoke(main, ["data", "get", "ml-100k", "--folder", "x"], input="")
    assert answer.exit_code == 2
    assert "the input ended" in answer.stderr


def test_the_help_names_the_codes() -> None:
    said = " ".join(CliRunner().invoke(main, ["--help"]).output.split())
    assert "130 interrupted (Ctrl-C), 143 terminated (SIGTERM)" in said


@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
def test_a_fork_that_is_ended_at_once_ends() -> None:
    """As a pool does with a worker that it has just started."""
    with stoppable():
        for _ in range(20):
            child = os.fork()
            if child == 0:
                time.sleep(5)
                os._exit(0)
            os.kill(child, signal.SIGTERM)
            assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
@pytest.mark.cases("late", [False, True])
@pytest.mark.cases("number", SIGNALS)
def test_a_fork_ends_by_a_signal_as_any_process(number: signal.Signals, late: bool) -> None:
    reader, writer = os.pipe()
    with stoppable():
        handler = signal.getsignal(number)
        child = os.fork()
        if not child:  # no code of pytest may run here
            try:
                if late:  # as before what follows a fork
                    signal.signal(number, handler)
                os.write(writer, b".")
                time.sleep(60)
            finally:
                os._exit(0 if sys.exc_info()[0] is KeyboardInterrupt else 9)
        os.read(reader, 1)
        os.kill(child, number)
        _, status = os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)
    interrupted = number == signal.SIGINT and not late
    assert os.waitstatus_to_exitcode(status) == (0 if interrupted else -number)
