"""Charts are drawn by a process of its own."""

from __future__ import annotations

import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from dpaudit.core.errors import RunError
from dpaudit.reports.render.page import svgs

SPEC = {
    "data": {"values": [{"x": 1, "y": 2}]},
    "mark": "point",
    "encoding": {
        "x": {"field": "x", "type": "quantitative"},
        "y": {"field": "y", "type": "quantitative", "title": "lists ≥ 1"},
    },
}


def limit_address_space() -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, hard))


def drawn_in_a_fork(prepare: Callable[[], None] | None = None) -> list[str]:
    with ProcessPoolExecutor(1, get_context("fork"), prepare) as pool:
        return pool.submit(svgs, [SPEC, SPEC]).result(60)


@pytest.mark.long
@pytest.mark.drawn
def test_a_fork_draws_what_its_parent_draws() -> None:
    pictures = svgs([SPEC, SPEC])
    assert drawn_in_a_fork() == pictures
    assert "lists ≥ 1" in pictures[1]


@pytest.mark.long
@pytest.mark.drawn
def test_a_limit_of_the_address_space_is_named() -> None:
    with pytest.raises(RunError, match=r"cannot be drawn: .* exit code .*ulimit -v"):
        drawn_in_a_fork(limit_address_space)


def test_nothing_to_draw_starts_no_process() -> None:
    assert svgs([]) == []
