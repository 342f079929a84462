"""A planted leak is found if at most one of twenty runs misses it, by the law that shows least."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dpaudit.audits.membership.calibration import planted_control
from dpaudit.record.values import Control, Noise


def found(
    *laws: Sequence[float], limit: float = 1.0, least: float = 1.0
) -> tuple[Control, list[tuple[Noise, int]]]:
    """The control where runs of each law certify these bounds, and the runs."""
    noises: tuple[Noise, ...] = ("Gaussian", "Laplace")
    tried: list[tuple[Noise, int]] = []

    def certified(noise: Noise, run: int) -> float:
        tried.append((noise, run))
        return laws[noises.index(noise)][run]

    return planted_control(certified, noises[: len(laws)], 2.0, 0.1, limit, least), tried


@pytest.mark.cases(
    ("missed", "hits", "runs", "is_found"),
    [((), 20, 20, True), ((3,), 19, 20, True), ((3, 19), 18, 20, False), ((0, 1), 0, 2, False)],
)
def test_it_is_found_if_one_run_misses_it_and_not_if_two_do(
    missed: tuple[int, ...], hits: int, runs: int, is_found: bool
) -> None:
    bounds = [0.5 if run in missed else 1.5 for run in range(20)]
    control, tried = found(bounds)
    assert (control.hits, control.runs, control.found) == (hits, runs, is_found)
    assert control.certified == (1.5 if is_found else 0.5)
    assert tried == [("Gaussian", run) for run in range(runs)]
    assert (control.factor, control.epsilon, control.delta) == (2.0, 2.0, 0.1)


def test_the_law_that_shows_least_decides() -> None:
    control, _ = found([1.5] * 20, [1.2] * 20)
    assert (control.noise, control.certified) == ("Laplace", 1.2)
    control, tried = found([0.5] * 20, [1.2] * 20)
    assert (control.noise, len(tried)) == ("Gaussian", 2)


def test_runs_go_on_as_long_as_a_smaller_limit_may_be_exceeded() -> None:
    """A gate below the claim may be decided by a leak that breaks no claim."""
    control, _ = found([1.5] * 20, limit=2.0, least=1.0)
    assert (control.found, control.hits, control.runs, control.certified) == (False, 0, 20, 1.5)


def test_what_is_stated_names_the_law_and_the_runs() -> None:
    control, _ = found([1.5] * 20)
    assert control.condition.endswith("Gaussian (20 of 20)")
    assert Control(mutant="m", factor=2, epsilon=2, certified=2, found=True).condition == ""
