"""Tries many inputs in a child process, and tells which ended badly.

An input is made from a seed and an index alone, so it can be made again by itself:
`python tests/fuzz/fuzz_harness.py records --start 17 --count 1`.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

PATIENCE = 60.0  # seconds for one input, so that only one that hangs fails on a busy machine
MOST_KIB = 2**20  # of memory for one input
MOST_INPUTS = 50_000  # of one target
# What is fuzzed, and its share of the time: the more, the more inputs a second it tries.
TARGETS = {
    "configs": 0.22,
    "runs": 0.12,
    "data_files": 0.3,
    "records": 0.1,
    "epsilon": 0.18,
    "outputs": 0.08,
}
_ROOT = Path(__file__).parents[2]
# Beyond this much memory an allocation fails: it keeps the machine alive. Address space has no
# limit, as the process that draws charts reserves 64 GiB that it does not use.
_MEMORY = 4 * 2**30
_SHOWN = 700
_DUMP = "most recent call first"  # of a dying process


@dataclass(frozen=True)
class Case:
    """One input: how it is shown, and what tries it and says what is wrong, if anything."""

    shown: Callable[[], str]
    attempt: Callable[[], str | None]


Make = Callable[[Random], Case]


@dataclass
class Failure:
    """What went wrong in one way: how often, and the shortest input that shows it."""

    kind: str
    index: int
    shown: str
    said: str
    count: int = 1


@dataclass
class Found:
    """What a number of inputs led to."""

    tried: int = 0
    seconds: float = 0.0
    failures: dict[str, Failure] = field(default_factory=dict)

    def add(self, index: int, shown: str, said: str) -> None:
        kind = signature(said)
        known = self.failures.get(kind)
        count = known.count + 1 if known else 1
        if known is None or len(shown) < len(known.shown):
            known = self.failures[kind] = Failure(kind, index, shown, _tail(said))
        known.count = count

    def __str__(self) -> str:
        rate = self.tried / max(self.seconds, 1e-9)
        lines = [f"{self.tried} inputs in {self.seconds:.1f} s ({rate:.0f}/s)"]
        for each in self.failures.values():
            lines += [f"{each.count} x {each.kind}", f"  input {each.index}: {each.shown}"]
            lines += [f"  | {line}" for line in each.said.splitlines()]
        return "\n".join(lines)


def signature(said: str) -> str:
    """The same for failures of one cause: the kind of error and its place, else the first line."""
    places = re.findall(r'File "[^"]*/(dpaudit/[^"]+)", line (\d+)', said)
    place = ":".join(places[0 if _DUMP in said else -1]) if places else ""
    errors = re.findall(r"^([\w.]+(?:Error|Exception|Exit|Interrupt|Warning))\b", said, re.M)
    if errors and place:
        return f"{errors[-1]} at {place}"
    return " ".join(filter(None, [said.partition("\n")[0][:90], place]))


def _tail(said: str) -> str:
    lines = [line[:300] for line in said.splitlines()]
    return "\n".join(lines[:14] if _DUMP in said else lines[:2] + lines[2:][-10:])


def fuzz(target: str, *, count: int, seconds: float, seed: int = 0) -> Found:
    """Try inputs in a fresh interpreter, in which nothing has started threads before it forks."""
    command = [sys.executable, __file__, target, "--json"]
    command += ["--count", str(count), "--seconds", str(seconds), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    if done.returncode:
        raise RuntimeError(f"the fuzzer itself failed:\n{done.stderr}")
    values = json.loads(done.stdout.splitlines()[-1])
    failures = {kind: Failure(**each) for kind, each in values.pop("failures").items()}
    return Found(**values, failures=failures)


def fuzz_long(target: str) -> Found:
    """As many inputs as the time allows, others with every seed."""
    seconds = float(os.environ.get("DPAUDIT_FUZZ_SECONDS", "720")) * TARGETS[target]
    seed = int(os.environ.get("DPAUDIT_FUZZ_SEED", "1"))
    return fuzz(target, count=MOST_INPUTS, seconds=seconds, seed=seed)


def _environment() -> dict[str, str]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**os.environ, **threads}


def try_all(
    make: Make, *, first: int, count: int, seconds: float, seed: int, folder: Path
) -> Found:
    """Try inputs one after another, in as many children as they cost."""
    found, began = Found(), time.monotonic()
    index, end = first, first + count
    while index < end and time.monotonic() - began < seconds:
        index = _one_child(make, range(index, end), began + seconds, seed, folder, found)
    found.tried, found.seconds = index - first, time.monotonic() - began
    return found


def _one_child(
    make: Make, indices: range, until: float, seed: int, folder: Path, found: Found
) -> int:
    """Try inputs until the child ends; the index to go on with."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    dump = folder / "dump"
    child = context.Process(target=_work, args=(make, indices, until, seed, dump, theirs))
    child.start()
    theirs.close()
    index, ended, problem = indices[0], False, None
    try:
        while not ended:
            if not ours.poll(PATIENCE):
                problem = _killed(child, dump)
                break
            index, said, ended = ours.recv()
            if said is not None:
                found.add(index, _shown(make, seed, index), said)
    except EOFError:
        child.join()
        if child.exitcode == 1:
            raise RuntimeError(f"input {index} could not be made") from None
        problem = f"the process ended with {child.exitcode}\n{_read(dump)}"
    child.join()
    if problem is not None:
        found.add(index, _shown(make, seed, index), problem)
    return index + 1


def _killed(child: Any, dump: Path) -> str:
    """End a child that hangs; where it was."""
    os.kill(child.pid, signal.SIGUSR1)
    time.sleep(0.3)  # until it has written where it is
    child.kill()
    return f"more than {PATIENCE:g} s\n{_read(dump)}"


def _read(dump: Path) -> str:
    return dump.read_text(encoding="utf-8", errors="replace")[-5000:]


def _shown(make: Make, seed: int, index: int) -> str:
    shown = make(_source(seed, index)).shown()
    if len(shown) <= _SHOWN:
        return shown
    return f"{shown[: _SHOWN // 2]} ... {shown[-_SHOWN // 2 :]} ({len(shown)} characters)"


def _source(seed: int, index: int) -> Random:
    return Random(f"{seed}/{index}")  # noqa: S311  # no secret


def _work(
    make: Make, indices: range, until: float, seed: int, dump: Path, pipe: Connection
) -> None:
    """In the child: tell the index of each input before it is tried, and what was wrong with it."""
    file = dump.open("w", encoding="utf-8")
    faulthandler.enable(file)
    faulthandler.register(signal.SIGUSR1, file)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for index in indices:
        pipe.send((index, None, False))
        problem = _tried(make(_source(seed, index)))
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if grown > MOST_KIB and problem is None:
            problem = f"more than 1 GiB of memory: {grown / 2**20:.1f}"
        # The greatest use of memory never falls, so such a child cannot go on.
        ended = grown > MOST_KIB or time.monotonic() > until or index == indices[-1]
        if problem is not None or ended:
            pipe.send((index, problem, ended))
        if ended:
            return


def _tried(case: Case) -> str | None:
    try:
        return case.attempt()
    except BaseException as error:  # whatever ends an input, the next one is tried
        return "".join(traceback.format_exception(error))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.environ.update(_environment())  # before numerical libraries are imported
    sys.path[:0] = [str(_ROOT), str(_ROOT / "tests" / "support")]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        make = import_module(f"fuzz_{given.target}").maker(folder)
        found = try_all(
            make,
            first=given.start,
            count=given.count,
            seconds=given.seconds,
            seed=given.seed,
            folder=folder,
        )
    print(json.dumps(asdict(found)) if given.json else found)


if __name__ == "__main__":
    main()
