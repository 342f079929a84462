"""Mechanisms as they are before their first call."""

from __future__ import annotations

import functools
import pickle
import random
import sys
import threading
import types
from typing import Any

import numpy as np
import pytest
import sharing_mechanisms as sharing  # type: ignore[import-not-found]

from dpaudit.audits.mechanism.kept import Pickling, Snapshot

Rng = np.random.Generator


def copies(mechanism: Any) -> list[Any]:
    """Two answers of two copies."""
    work = Snapshot.of(mechanism).work
    functions = [pickle.loads(work) for _ in range(2)]  # noqa: S301
    return [[copy([0, 1], np.random.default_rng(1)) for _ in range(2)] for copy in functions]


@pytest.mark.cases(
    "generator",
    [
        np.random.default_rng(3),
        np.random.RandomState(3),
        random.Random(3),  # noqa: S311
        random.SystemRandom(),
    ],
)
def test_a_copy_draws_its_own_numbers(generator: Any) -> None:
    first, second = copies(lambda data, rng: generator.random())
    assert len({*first, *second}) == 4


def test_a_copy_has_empty_caches() -> None:
    @functools.lru_cache(maxsize=7)
    def answer(data: tuple[int, ...]) -> float:
        return np.random.default_rng().random()

    answer((0, 1))
    first, second = copies(lambda data, rng: answer(tuple(data)))
    assert first[0] == first[1] != second[0] == second[1]


def test_what_a_module_holds_is_imported() -> None:
    assert b"ONCE" in Snapshot.of(sharing.ONCE).work
    assert b"ONCE" in Snapshot.of(calling(sharing.ONCE)).work
    assert b"ONCE" in Snapshot.of(sharing.ONCE.__call__).work


def test_what_several_modules_hold_is_imported_from_that_of_its_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    importer = types.ModuleType("tests.importer")
    importer.OTHER_NAME = sharing.ONCE  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tests.importer", importer)
    assert Pickling().place(sharing.ONCE) == ("sharing_mechanisms", "ONCE")


def test_what_other_modules_hold_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object of a library that is deprecated warns when it is asked for anything."""

    class Deprecated:
        def __getattribute__(self, name: str) -> Any:
            raise FutureWarning(name)

    library = types.ModuleType("library")
    library.old = Deprecated()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "library", library)
    assert Snapshot.of(sharing.ONCE).obstacle == ""


def test_what_cannot_be_pickled_says_so() -> None:
    lock = threading.Lock()
    snapshot = Snapshot.of(lambda data, rng: lock)
    assert snapshot.work == b""
    assert "lock" in snapshot.obstacle


def calling(part: Any) -> Any:
    """A function of another function, which no other process can import."""

    def mechanism(data: Any, rng: Rng) -> Any:
        return part(data, rng)

    return mechanism
