"""Training code that prints, closes and replaces streams, forks and moves: the exit code says all.

1 means STOP alone, and a report on standard output is a report, whatever the code does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from forked_commands import Commands, commands  # type: ignore[import-not-found]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform == "win32", reason="there are no forks"),
]

CONFIG = """
seed = 7
[data]
synthetic = { n_users = 60, n_items = 80, mean_per_user = 24 }
[[recommender]]
label = "mine"
target = "own:Model"
[membership]
trainings = %s
interactions = 300
held_out = 300
rates = [0.1]
observers = ["scores"]
"""
GATE = """
[[gate]]
metric = "attack.tpr"
where = { observer = "scores", at = 0.1 }
"""
MODULE = """
import atexit, io, logging, multiprocessing, os, pathlib, shutil, subprocess, sys, threading, time
import warnings
import numpy as np

def act():%s

class Model:
    def fit(self, interactions, seed):
        act()
        %s
        dense = interactions.toarray()
        self.table = dense + np.random.default_rng(seed).normal(0, 1e-3, dense.shape)
        return self

    def scores(self, users, items):
        return self.table[users, items]
"""
# By exit code: the config, and what fit does in the end.
OUTCOMES = {
    0: (CONFIG % 3, "pass"),
    1: (CONFIG % 3 + GATE + 'max = 0.5\nof = "this-model"\n', "pass"),
    2: (CONFIG % -3, "pass"),
    3: (CONFIG % 3, "raise ValueError('no luck')"),
    4: (CONFIG % 3 + GATE + "max = 0.99\n", "pass"),
}
# What the code of the user does at each training.
ACTS = {
    "prints": """
    print("1")
    sys.__stdout__ and sys.__stdout__.write("2")
    atexit.register(print, "4")
    logging.basicConfig()
    logging.error("5")
    warnings.warn(str(time.time()))
    run = lambda: [(print("6"), time.sleep(0.01)) for _ in range(999)]
    threading.Thread(target=run, daemon=True).start()""",
    "prints below": """
    os.write(1, b"0")
    subprocess.run(["echo", "1"], check=True)
    os.system("echo 2")
    process = multiprocessing.get_context("fork").Process(target=print, args=(3,))
    process.start()
    process.join()""",
    "closes": """
    print("1")
    sys.stdout.close()
    print("2", file=sys.stderr)
    sys.stderr.close()""",
    "replaces and closes": """
    with open(os.devnull, "w") as sys.stderr, open(os.devnull, "w") as sys.stdout:
        print("1", file=sys.stderr)""",
    "replaces": """
    sys.stdout, sys.stderr = io.StringIO(), open("/dev/full", "w")""",
    "removes": """
    sys.stdout = sys.stderr = sys.__stderr__ = None""",
    "changes descriptors": """
    os.close(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 2)""",
    "forks": """
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(abs, range(4))
    os.fork()""",
    "moves": """
    os.makedirs("gone")
    os.chdir("gone")
    shutil.rmtree("../gone")""",
}
# Where standard output and standard error lead from the start; None for closed.
STARTS = {
    "standard error closed": ("out.txt", None),
    "standard error full": ("out.txt", "/dev/full"),
    "standard output closed": (None, "err.txt"),
    "both closed": (None, None),
}


def crossed(names: Iterable[str]) -> list[Any]:
    """Return each name with each exit code: by night, but for STOP and for the first name."""
    first, *others = names
    often = [(first, code) for code in OUTCOMES] + [(name, 1) for name in others]
    rest = [(name, code) for name in others for code in OUTCOMES if code != 1]
    return [*often, *(pytest.param(*pair, marks=pytest.mark.nightly) for pair in rest)]


@pytest.fixture(scope="module")
def forked() -> Iterator[Commands]:
    """Commands that start at once."""
    with commands() as forks:
        yield forks


def written(folder: Path, code: int, act: str) -> list[str]:
    """Write a config and a module for this exit code, and return the words of the command."""
    config, end = OUTCOMES[code]
    (folder / "audit.toml").write_text(config)
    (folder / "own.py").write_text(MODULE % (ACTS[act], end))
    return ["run", "audit.toml", "--allow-code", "--workers", "1", "-o", "out", "--report",
            "junit=junit.xml"]  # fmt: skip


def checked(folder: Path, code: int, *, out: bool, err: bool) -> None:
    """Check that reports are where they belong, and whole, and that no traceback is printed."""
    assert ("NO RESULT" in (folder / "junit.xml").read_text()) == (code in {2, 3})
    assert (folder / "out" / "report.html").exists() == (code in {0, 1, 4})
    if out:
        assert "schemaVersion" in json.loads((folder / "out.txt").read_text())
    if err:
        assert "dpaudit/" not in (folder / "err.txt").read_text()  # no traceback


@pytest.mark.parametrize(("act", "code"), crossed(ACTS))
def test_the_exit_code_is_the_outcome_whatever_code_does(
    tmp_path: Path, forked: Commands, act: str, code: int
) -> None:
    words = [*written(tmp_path, code, act), "-q", "--report", "badge=-"]
    places = {"out": str(tmp_path / "out.txt"), "err": str(tmp_path / "err.txt")}
    assert forked.run(tmp_path, *words, **places) == code
    checked(tmp_path, code, out=True, err=True)


def test_a_module_may_handle_signals_where_threads_train(tmp_path: Path, forked: Commands) -> None:
    words = written(tmp_path, 0, "prints")
    words[words.index("--workers") + 1] = "2"
    module = tmp_path / "own.py"
    handler = "import signal\nsignal.signal(signal.SIGUSR1, print)\n"
    module.write_text(handler + module.read_text())
    places = {"out": str(tmp_path / "out.txt"), "err": str(tmp_path / "err.txt")}
    assert forked.run(tmp_path, *words, **places) == 0


@pytest.mark.parametrize(("start", "code"), crossed(STARTS))
def test_the_exit_code_is_the_outcome_whatever_it_starts_with(
    tmp_path: Path, forked: Commands, start: str, code: int
) -> None:
    words = [*written(tmp_path, code, "prints"), "--report", "badge=-", "-q"]
    out, err = (place if place is None else str(tmp_path / place) for place in STARTS[start])
    assert forked.run(tmp_path, *words, out=out, err=err) == code
    checked(tmp_path, code, out=out is not None, err=bool(err) and err != "/dev/full")
