"""Calls in fresh processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

from dpaudit.audits.mechanism.isolated import each_in_a_process
from dpaudit.audits.mechanism.outcome import Raised
from dpaudit.audits.mechanism.snapshot import Snapshot
from dpaudit.core.errors import InputError
from dpaudit.core.streams import seed_sequence


def answers(mechanism: Any, units: int = 3, size: int = 2, **options: Any) -> list[list[Any]]:
    streams = seed_sequence(1, "test").spawn(units)
    jobs = [[([0, 1], stream, None)] * size for stream in streams]
    return list(each_in_a_process(Snapshot.of(mechanism).work, jobs, 2, **options))


@pytest.mark.long
def test_every_unit_has_a_process_and_some_share_hashes() -> None:
    units = answers(lambda data, rng: (os.getpid(), hash("a")), units=4)
    processes = [{process for process, _ in unit} for unit in units]
    assert all(len(unit) == 1 for unit in processes)
    assert len(set.union(*processes, {os.getpid()})) == 5
    assert len({code for unit in units for _, code in unit}) <= 2
    alone = answers(lambda data, rng: hash("a"), own_hash=True)
    assert len({code for unit in alone for code in unit}) == 3
    assert alone == answers(lambda data, rng: hash("a"), own_hash=True)


def test_a_mechanism_may_print_read_and_end() -> None:
    def hostile(data: Any, rng: Any) -> Any:
        print("hello")
        if rng.random() < 2:
            os.kill(os.getpid(), signal.SIGKILL)

    assert answers(hostile) == [[Raised("the process ended without an answer", "")] * 2] * 3
    assert answers(lambda data, rng: os.read(0, 1))[0] == [b""] * 2


def test_what_cannot_be_sent_is_said() -> None:
    with pytest.raises(InputError, match="the mechanism's answer cannot be sent back"):
        answers(lambda data, rng: threading.Lock())
    with pytest.raises(InputError, match="the data cannot be sent"):
        list(each_in_a_process(b"", [[(threading.Lock(), seed_sequence(1), None)]], 1))
    with pytest.raises(InputError, match="cannot load the mechanism"):
        list(each_in_a_process(b"cno_such_module\nf\n.", [[(1, seed_sequence(1), None)]], 1))


def test_processes_end_with_their_caller() -> None:
    def slow(data: Any, rng: Any) -> int:
        if data:
            time.sleep(600)
        return os.getpid()

    jobs = [[(data, seed_sequence(1), None)] for data in (0, 1, 1)]
    running = each_in_a_process(Snapshot.of(slow).work, jobs, 2)
    next(running)
    running.close()  # type: ignore[attr-defined]
