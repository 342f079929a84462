"""What is kept of a command's output, and what of it is shown in an error."""

from __future__ import annotations

import pytest

from dpaudit.recommenders.command import Log


@pytest.mark.cases("piece", [1000, 2**16, 2**21 + 1])
def test_the_first_and_the_last_half_mib_are_kept_in_bounded_memory(piece: int) -> None:
    log, text = Log(), bytes(range(256)) * 2**14
    for start in range(0, len(text), piece):
        log.add(text[start : start + piece])
        assert len(log._last) <= 2**20 + piece
    kept = log.kept()
    assert log.total == len(text)
    assert kept.startswith(text[: 2**19])
    assert kept.endswith(text[-(2**19) :])
    assert kept[2**19 : -(2**19)] == b"\n[dpaudit dropped 3145728 bytes here]\n"


def test_a_short_output_is_kept_whole() -> None:
    log = Log()
    assert (log.kept(), log.tail(10, 600)) == (b"", "")
    log.add(b"a" * 2**19)
    log.add(b"b" * 2**19)
    assert log.kept() == b"a" * 2**19 + b"b" * 2**19


@pytest.mark.cases(
    ("text", "shown"),
    [
        (b"one\ntwo\n\n  \nthree\n", "two | three"),
        (b"10 %\r50 %\r100 %\r\ndone", "100 % | done"),
        (b"\x1b[1;31mred\x1b[0m\n\x1b]0;title\x07text\x1b", "red | text"),
        ("caf\xe9\n\u202eevil".encode("latin-1", "replace"), "caf\ufffd | ?evil"),
        ("\u202eevil\x00\x07".encode(), "evil"),
        (b"a" * 100, "…" + "a" * 20),
    ],
)
def test_the_tail_is_one_line_that_steers_no_terminal(text: bytes, shown: str) -> None:
    log = Log()
    log.add(text)
    assert log.tail(2, 20) == shown
