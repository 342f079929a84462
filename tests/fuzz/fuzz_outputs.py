"""Outputs of mechanisms of which nothing is known: whatever a Python function may return."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import fractions
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from fuzz_checks import call, command  # type: ignore[import-not-found]
from fuzz_harness import Case, Make  # type: ignore[import-not-found]
from fuzz_values import NUMBERS, TEXTS  # type: ignore[import-not-found]
from scipy import sparse

import dpaudit

_ARRAYS: list[Any] = [
    *(np.array([]), np.zeros((0, 3)), np.zeros((2, 0)), np.array(1.0), np.array([np.nan, 1.0])),
    *(np.array([1, "a"], object), np.array([[1], [2, 3]], object), np.array(["a\0", "\u2028"])),
    *(np.array([1 + 2j]), np.array(["2020-01-01"], "M8[D]"), np.array(["NaT"], "m8[s]")),
    *(
        np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
        np.float16(np.inf),
        np.longdouble("1e4000"),
    ),
    *(np.uint64(2**64 - 1), np.int64(-(2**63)), np.bool_(True), np.zeros((1,) * 30), np.ones(3000)),
    *(np.ma.masked, np.ma.array([1, 2], mask=[False, True]), np.array([None]), np.array([b"\xff"])),
]
_OBJECTS: list[Any] = [
    *(None, ..., NotImplemented, object(), int, len, 1j, complex(math.nan, 1), b"", b"\xff\x00"),
    *(
        bytearray(b"x"),
        memoryview(b"x"),
        range(5),
        range(10**18),
        slice(1),
        {1, 2},
        frozenset("ab"),
    ),
    *({}, {"a": 1}, {1: "a", "b": math.nan}, {"a": {"b": [1]}}, (), (1, "a"), [[1], [1, 2]], [[]]),
    *([[[[[[1]]]]]], [None], [1, None], ["\ud800"], [1, "a", 2.0], [math.nan], {"\ud800": 1}),
    *(decimal.Decimal("NaN"), decimal.Decimal("sNaN"), decimal.Decimal("1e999999")),
    *(fractions.Fraction(10**400, 3), datetime.datetime(1, 1, 1), datetime.timedelta.max),
    *(OrderedDict(a=1), deque([1, 2]), Exception("x"), pd.DataFrame({"a": [1]}), pd.NA, pd.NaT),
    *(pd.Series([1, 2]), pd.Timestamp(0), sparse.csr_matrix([[1, 0]]), "x" * 10**5, [0] * 3000),
    *(iter([1]), (each for each in "ab"), {"a": set()}, [{"a": 1}, {"b": 2}], 10**4000, [10**4000]),
]


class _RudeError(Exception):
    """An error that cannot even be shown."""

    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


class _Odd:
    """An object whose every answer is an error."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("never equal")

    def __hash__(self) -> int:
        raise ValueError("no hash")

    def __len__(self) -> int:
        return -1  # noqa: PLE0303  # a length that there is not

    def __float__(self) -> float:
        raise OverflowError("no number")

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class _Array:
    def __array__(self, *options: Any, **named: Any) -> NoReturn:
        raise RuntimeError("no array")


def _knotted() -> list[Any]:
    knot: list[Any] = []
    knot.append(knot)
    return knot


def _deep(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


_MADE: list[Callable[[], Any]] = [_Odd, _Array, _RudeError, _knotted, object]
_MADE += [
    lambda: _deep(50),
    lambda: _deep(5000),
    lambda: {"a": _knotted()},
    lambda: (i for i in "ab"),
]

_ERRORS: list[Callable[[], BaseException]] = [
    *(ValueError, KeyError, ZeroDivisionError, StopIteration, StopAsyncIteration, RecursionError),
    *(
        MemoryError,
        OSError,
        AssertionError,
        UnicodeError,
        FloatingPointError,
        LookupError,
        EOFError,
    ),
    *(
        SystemExit,
        GeneratorExit,
        asyncio.CancelledError,
        BaseException,
        BrokenPipeError,
        _RudeError,
    ),
    lambda: SystemExit(0),
    lambda: SystemExit("\x1b[1mx"),
    lambda: ValueError("\x1b]52;c;aGk=\a" + "long " * 3000),
    lambda: ValueError("line one\nline two\u2028three\r\u202e"),
    lambda: ValueError("\ud800"),
    lambda: BaseExceptionGroup("g", [SystemExit(3), ValueError()]),
    lambda: ExceptionGroup("g", [ValueError()]),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"),
    lambda: UserWarning("x"),
    KeyboardInterrupt,
]


# The mechanism that the config names.
_named: list[Callable[..., Any]] = []
_CONFIG = """
[defense]
kind = "python"
target = "fuzz_outputs:mechanism"
d = 0
d_prime = 1
epsilon = 1.0
score = "fuzz_outputs:spread"
"""


def mechanism(data: Any, source: Any) -> Any:
    return _named[0](data, source)


def spread(outputs: Any) -> Any:
    return np.arange(len(outputs))


def maker(folder: Path) -> Make:
    dpaudit.audit(lambda data, rng: data + rng.laplace(), 0, 1, trials=400, seed=1)
    dpaudit.audit(lambda data, rng: f"{data + rng.integers(3)}", 0, 1, trials=400, claim=1, seed=1)
    path = folder / "audit.toml"
    path.write_text(_CONFIG, encoding="utf-8")

    def make(rng: Random) -> Case:
        words, returned, errors = _mechanism(rng)
        return (
            _called(rng, words, returned, errors)
            if rng.random() < 0.9
            else _ran(path, words, returned, errors)
        )

    return make


def _mechanism(rng: Random) -> tuple[str, Callable[[Any], Any], list[BaseException]]:
    """Returns one of a few things at random; also, which errors it has raised."""
    errors: list[BaseException] = []
    kinds = [_value(rng, errors) for _ in range(rng.choice((1, 1, 2, 3)))]
    plain = rng.random() < 0.3

    def returned(source: Any) -> Any:
        if plain and source.random() < 0.5:
            return source.normal()
        return kinds[int(source.integers(len(kinds)))][1](source)

    words = " | ".join(word for word, _ in kinds)
    return f"{words}{' | normal' if plain else ''}", returned, errors


def _ran(
    path: Path, words: str, returned: Callable[[Any], Any], errors: list[BaseException]
) -> Case:
    """By the command line, which must not end as if nothing had happened."""

    def attempt() -> str | None:
        _named[:] = [lambda data, source: returned(source)]
        given = (
            "run",
            path,
            "-o",
            path.parent / "out",
            "--allow-code",
            "-q",
            "--workers",
            1,
            "--fresh",
        )
        said: str | None = command(*given, "--seed", 1, "-s", "audit.trials=200")
        interrupted = any(isinstance(error, KeyboardInterrupt) for error in errors)
        return None if interrupted else said

    return Case(lambda: f"dpaudit run: {words}", attempt)


def _called(
    rng: Random, words: str, returned: Callable[[Any], Any], errors: list[BaseException]
) -> Case:
    options: dict[str, Any] = {"trials": rng.choice((200, 201, 300)), "seed": rng.randrange(1000)}
    if rng.random() < 0.8:
        options["score"] = _score(rng, errors)
    options.update({name: rng.choice(values) for name, values in _OPTIONS if rng.random() < 0.1})
    batched = rng.random() < 0.2
    pair = rng.choice([(0, 1), (0, 1), (0, 1), ("a", "b"), ([0], [1]), (_Odd(), 1)])

    def called(data: Any, source: Any, *size: int) -> Any:
        one = returned(source)
        return [one] * size[0] if size and source.random() < 0.99 else one

    def attempt() -> str | None:
        found: list[Any] = []

        def audit() -> None:
            found.append(dpaudit.audit(called, *pair, batched=batched, **options))

        try:
            said: str | None = call(audit)
        except BaseException as error:
            if any(error is own for own in errors):
                return None  # a mechanism's own error is its author's to see
            raise
        lower = found[0].epsilon.lower if found else 0.0
        return said if lower >= 0 else f"a bound that is NaN or less than 0: {lower}"

    named = {name: getattr(each, "__name__", each) for name, each in options.items()}
    return Case(lambda: f"{words} {named} batched={batched} {type(pair[0])}", attempt)


_OPTIONS: list[tuple[str, list[Any]]] = [
    ("claim", [1.0, 1e-300, 1e300, math.nan, 0.0, -1, 30.0, math.inf]),
    ("detectable", [1.5, 1e300, math.nan, 1.0 + 1e-16, 1e6]),
    ("delta", [0.0, 1e-300, 0.5, 1 - 1e-16, math.nan, -1e-9]),
    ("confidence", [0.95, 1e-300, 1 - 1e-16, 0.0, 1.0, math.nan, 2]),
    ("trials", [200, 199, 10**18 * 0, True, 200.0, "200", math.nan]),
    ("seed", [0, 2**64, 2**200, -1, None, 1.5, "x", True]),
]


def _value(rng: Random, errors: list[BaseException]) -> tuple[str, Callable[[Any], Any]]:
    way = rng.randrange(6)
    if way == 0:
        error = rng.choice(_ERRORS)
        share = rng.choice((1.0, 0.01))

        def fail(source: Any) -> Any:
            if source.random() < share:
                errors.append(error())
                raise errors[-1]
            return 1.0

        return f"raise {error.__name__} {_ERRORS.index(error)}", fail
    if way == 1:
        make = rng.choice(_MADE)
        return f"made {make.__name__} {_MADE.index(make)}", lambda source: make()
    value = rng.choice((_ARRAYS, _OBJECTS, NUMBERS, TEXTS)[way - 2])
    return f"{type(value).__name__} {_words(value)}", lambda source: value


def _words(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**300:
        return "a long number"
    return ascii(value)[:80]


def _score(rng: Random, errors: list[BaseException]) -> Callable[[Any], Any]:
    scores: list[Callable[[Any], Any]] = [
        spread,
        lambda outputs: np.zeros(len(outputs)),
        lambda outputs: outputs,
        lambda outputs: [float(each) for each in outputs],
        lambda outputs: np.full(len(outputs), np.nan),
        lambda outputs: [rng.choice(TEXTS)] * len(outputs),
        lambda outputs: None,
        lambda outputs: 10**400,
        lambda outputs: [10**400] * len(outputs),
        lambda outputs: (1 for _ in outputs),
    ]
    chosen = rng.choice(scores)

    def score(outputs: Any) -> Any:
        try:
            return chosen(outputs)
        except Exception as error:
            errors.append(error)
            raise

    score.__name__ = f"score {scores.index(chosen)}"
    return score
