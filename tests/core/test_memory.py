"""The limit on memory: where it comes from, and the sentence of a refusal."""

from __future__ import annotations

import math
import re

import pytest

from dpaudit.core import memory
from dpaudit.core.errors import ConfigError
from dpaudit.core.memory import VARIABLE, amount, check_memory, fits


@pytest.mark.cases(
    ("given", "limit"),
    [
        ("1000", 1e3),
        ("8GiB", 8 * 2**30),
        (" 500 MB ", 5e8),
        ("1.5kb", 1500),
        ("2 TiB", 2**41),
        ("inf", math.inf),
    ],
)
def test_the_variable_gives_the_limit(
    given: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, given)
    assert fits(limit)
    assert fits(math.nextafter(limit, math.inf)) == math.isinf(limit)


@pytest.mark.cases("given", ["many", "8 parsecs", "-1", "nan", "1e9", "0x10"])
def test_a_malformed_limit_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, given)
    with pytest.raises(ConfigError, match=r"such as 8GiB"):
        fits(1)


def test_the_limit_is_a_share_of_what_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(memory, "_available", lambda: 10**9)
    assert fits(0.8e9 - 1)
    assert not fits(0.8e9 + 1)
    with pytest.raises(ConfigError, match=re.escape("800 MB (80%")):
        check_memory("it", "its size", 9e8, "do less")


def test_this_system_says_what_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert fits(2**25)
    assert not fits(2**60)


def test_the_system_is_not_asked_about_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(memory, "_available", lambda: 0)
    assert fits(2**24)
    assert not fits(2**24 + 1)
    monkeypatch.setenv(VARIABLE, "1 MB")
    assert not fits(2**24)


def test_a_container_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_group", lambda: [10**6])
    assert memory._available() == 10**6


def test_a_refusal_names_growth_bytes_limit_and_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2 GB")
    check_memory("the table", "the square of its side (10)", 2e9, "make it smaller")
    with pytest.raises(ConfigError) as refused:
        check_memory("the table", "the square of its side (10)", 2.5e9, "make it smaller")
    said = str(refused.value)
    for part in ("the table would take 2.5 GB", "its side (10)", "2 GB (DPAUDIT_MEMORY)"):
        assert part in said
    assert "make it smaller, or set DPAUDIT_MEMORY higher" in said


@pytest.mark.cases(
    ("size", "words"),
    [(12, "12 bytes"), (1500, "1.5 kB"), (2.86e9, "2.86 GB"), (5e13, "50 TB"), (3e6, "3 MB")],
)
def test_amounts_are_written_in_words(size: float, words: str) -> None:
    assert amount(size) == words
