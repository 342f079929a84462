"""Tests that loop over cases: `@pytest.mark.cases(names, values)` is parametrization in one test.

All cases run, and the failures of all are shown together, with the names of their cases. A case
has a `tmp_path`, a `monkeypatch` and what `capsys` reads for itself; the test's other fixtures are
made once. With `--each-case` each case is a test of its own.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from itertools import product
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "make a test of each case of a loop"
    parser.addoption("--each-case", action="store_true", help=text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for mark in metafunc.definition.iter_markers("cases"):
        if metafunc.config.getoption("each_case"):
            metafunc.parametrize(*mark.args, **mark.kwargs)
        else:
            names = names_of(mark)
            metafunc.parametrize(names, [[None] * len(names)], ids=[pytest.HIDDEN_PARAM])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    marks = list(pyfuncitem.iter_markers("cases"))
    if not marks or pyfuncitem.config.getoption("each_case"):
        return None
    fixtures = {name: pyfuncitem.funcargs[name] for name in signature(pyfuncitem.obj).parameters}
    failed, details = list[str](), list[str]()
    skipped: list[BaseException] = []
    combined = [merged(parts) for parts in product(*map(cases_of, marks))]
    if not combined:
        pytest.skip("there is no case")
    for number, (name, values) in enumerate(combined):
        with own(fixtures, number) as arguments:
            try:
                pyfuncitem.obj(**{**arguments, **values})
            except pytest.skip.Exception as reason:
                skipped.append(reason)
            except (Exception, pytest.fail.Exception) as failure:
                # The first frame is this one.
                failure.with_traceback(failure.__traceback__ and failure.__traceback__.tb_next)
                failed.append(name)
                details.append("".join(traceback.format_exception(failure)))
    if failed:
        text = f"{len(failed)} of {len(combined)} cases fail: {', '.join(failed)}"
        for name, detail in zip(failed, details, strict=True):
            text += f"\n\nIn the case {name}:\n{detail}"
        pytest.fail(text, pytrace=False)
    if skipped and len(skipped) == len(combined):
        raise skipped[0]
    pyfuncitem.user_properties += [("skipped", str(reason)) for reason in skipped]
    return True


def names_of(mark: pytest.Mark) -> list[str]:
    names = mark.args[0]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


Case = tuple[str, dict[str, Any]]


def cases_of(mark: pytest.Mark) -> list[Case]:
    """Each case's name and arguments."""
    names, ids = names_of(mark), mark.kwargs.get("ids")
    single = isinstance(mark.args[0], str) and len(names) == 1
    if any(isinstance(part, Iterator) for part in (mark.args[1], ids)):
        raise TypeError("the cases of a loop and their ids are lists: several tests may read them")
    cases: list[Case] = []
    for place, given in enumerate(mark.args[1]):
        marked = isinstance(given, type(pytest.param()))
        if marked and given.marks:
            raise ValueError(f"a case of a loop has no marks of its own, and {given} has")
        values = given.values if marked else (given,) if single else tuple(given)
        if marked and given.id is not None:
            name = given.id
        elif callable(ids):
            name = "-".join(str(part) for part in map(ids, values) if part is not None)
        else:
            name = str(list(ids)[place]) if ids else "-".join(map(word, values))
        if any(name == earlier for earlier, _ in cases):
            name = f"{name} #{place}"
        cases.append((name, dict(zip(names, values, strict=True))))
    return cases


def word(value: object) -> str:
    """A value in the name of its case."""
    try:
        text = str(getattr(value, "__name__", None) or repr(value))
    except Exception:  # the value is hostile on purpose
        text = type(value).__name__
    return text if len(text) <= 60 else f"{text[:59]}…"


def merged(parts: tuple[Case, ...]) -> Case:
    values = {name: value for _, case in parts for name, value in case.items()}
    return "-".join(name for name, _ in parts), values


@contextmanager
def own(fixtures: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The fixtures of one case: what an earlier case wrote, patched or printed is not in them."""
    with pytest.MonkeyPatch.context() as patch:
        arguments = dict(fixtures)
        if "monkeypatch" in fixtures:
            arguments["monkeypatch"] = patch
        if "tmp_path" in fixtures:
            folder = fixtures["tmp_path"]
            arguments["tmp_path"] = folder / f"{folder.name}_{number}"
            arguments["tmp_path"].mkdir()
        for name in fixtures.keys() & {"capsys", "capfd"}:
            fixtures[name].readouterr()
        yield arguments
