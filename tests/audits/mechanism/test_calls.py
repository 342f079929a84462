"""Audits of mechanisms with memory, of batches, and of scores that read their whole batch.

All of them ignore their data. Every rate has the false-failure probability 1e-6.
"""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from null_mechanisms import (  # type: ignore[import-not-found]
    BATCHED,
    SCORES,
    SHAPED,
    STATEFUL,
    counting,
    failing,
    itself,
    leaving,
    noise,
)
from scipy.stats import binom

from dpaudit.audits.mechanism import game
from dpaudit.audits.mechanism.audit import audit
from dpaudit.audits.mechanism.calls import Calls
from dpaudit.audits.mechanism.one_call import Raised
from dpaudit.core.errors import InputError
from dpaudit.testing import assert_satisfies_dp

AUDITS = 60
MANY = int(binom.isf(1e-6, AUDITS, 0.05))


@pytest.mark.parametrize("name", STATEFUL)
@pytest.mark.long
@pytest.mark.usefixtures("unrepeated")
def test_a_state_between_calls_accuses_nobody(name: str) -> None:
    """Audit with the default seed, with a given and with a learned score."""
    false = sum(
        audit(STATEFUL[name](), 0, 1, trials=1000, score=itself).epsilon.lower > 0
        for _ in range(AUDITS)
    )
    assert false <= MANY
    learned = [audit(STATEFUL[name](), 0, 1, trials=400, confidence=1 - 1e-6) for _ in range(3)]
    assert [result.epsilon.lower for result in learned] == [0, 0, 0]
    assert assert_satisfies_dp(STATEFUL[name](), (0, 1), 0.1, trials=400).epsilon.lower == 0


@pytest.mark.parametrize("name", BATCHED)
@pytest.mark.long
@pytest.mark.usefixtures("unrepeated")
def test_what_the_outputs_of_a_call_share_accuses_nobody(name: str) -> None:
    false = sum(
        audit(BATCHED[name](), 0, 1, trials=1000, score=itself, batched=True).epsilon.lower > 0
        for _ in range(AUDITS)
    )
    assert false <= MANY


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPED)
def test_the_form_of_a_call_accuses_nobody(name: str) -> None:
    for _ in range(3):
        result = audit(SHAPED[name](), 0, 1, trials=400, confidence=1 - 1e-6, batched=True)
        assert result.epsilon.lower == 0


@pytest.mark.parametrize("name", BATCHED)
def test_calls_of_many_outputs_are_refused_where_these_are_alike(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(game, "MOST", 1000)
    with pytest.raises(InputError, match="are alike"):
        audit(BATCHED[name](), 0, 1, trials=8000, score=itself, batched=True)


@pytest.mark.long
def test_independent_batches_are_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Independent outputs, also on different data sets, as the test is within each data set."""
    monkeypatch.setattr(game, "MOST", 1000)

    def mechanism(data: float, rng: np.random.Generator, n: int) -> Any:
        return np.round(data + rng.laplace(size=n), 1)

    for data in (1e-9, 3.0):
        for _ in range(20):
            result = audit(mechanism, 0.0, data, trials=8000, score=itself, batched=True)
            assert result.epsilon.n == 8000


@pytest.mark.long
@pytest.mark.parametrize("name", SCORES)
def test_a_score_that_reads_its_batch_accuses_nobody(name: str) -> None:
    false = sum(
        audit(noise, 0, 1, trials=400, score=SCORES[name]).epsilon.lower > 0 for _ in range(AUDITS)
    )
    assert false <= MANY


def test_every_call_gets_its_own_coin_and_its_own_stream() -> None:
    asked: list[tuple[int, float]] = []

    def mechanism(data: int, rng: np.random.Generator) -> float:
        asked.append((data, rng.random()))
        return 0.0

    draws = Calls(mechanism, False, 5).run((0, 1), "test", 2000)
    trials = [data for data, _ in asked]
    assert trials == draws.present.astype(int).tolist()
    assert binom.ppf(5e-7, 2000, 0.5) <= sum(trials) <= binom.ppf(1 - 5e-7, 2000, 0.5)
    changes = sum(a != b for a, b in pairwise(trials))
    assert binom.ppf(5e-7, 1999, 0.5) <= changes <= binom.ppf(1 - 5e-7, 1999, 0.5)
    assert len({number for _, number in asked}) == 2000
    # The stream does not reveal the data set: it depends only on the call's number.
    other = asked.copy()
    asked.clear()
    Calls(mechanism, False, 5).run((1, 0), "test", 2000)
    assert [number for _, number in asked] == [number for _, number in other]


def test_blocks_give_each_output_the_data_set_of_its_coin() -> None:
    sizes: list[int] = []

    def mechanism(data: int, rng: np.random.Generator, n: int) -> Any:
        sizes.append(n)
        return np.full(n, data)

    trials = Calls(mechanism, True, 5).run((0, 1), "test", 5000, most=100)
    assert len(sizes) == 100
    assert sum(sizes) == 5000
    assert (trials.outputs == trials.present).all()
    assert np.array_equal(np.bincount(trials.calls), sizes)
    firsts = [trials.present[trials.calls == call][0] for call in range(0, 100, 2)]
    assert 5 < sum(firsts) < 45


@pytest.mark.cases(
    ("name", "said"),
    [
        ("drift of 1e-4 a call", "change with the number of the call"),
        ("ids by first use", "change with the number of the call"),
        ("spent budget", "change with the number of the call"),
        ("AR(1) noise", "depend on those of the call before"),
    ],
)
def test_drift_is_said(name: str, said: str) -> None:
    result = audit(STATEFUL[name](), 0, 1, trials=2000, score=itself)
    assert result.drift is not None
    assert said in result.drift


def test_drift_is_said_where_the_score_does_not_see_it() -> None:
    result = audit(STATEFUL["ids by first use"](), 0, 1, trials=400, score=np.zeros_like)
    assert result.drift is not None


@pytest.mark.long
@pytest.mark.parametrize("data", [0.0, 5.0])
def test_no_drift_is_said_where_there_is_none(data: float) -> None:
    """Twenty audits, also of a leaky mechanism, whose coins do not count as drift."""
    for values in (1.0, 0.01, 20.0):
        result = audit(
            lambda shift, rng, v=values: np.round(shift + rng.laplace(scale=v)),
            -1.0,
            data,
            trials=1000,
            score=itself,
        )
        assert result.drift is None


def test_fresh_processes_keep_no_state() -> None:
    trials = Calls(counting, False, 1, fresh_process=True).run((0, 1), "test", 8)
    assert trials.outputs.tolist() == [0] * 8
    alone = Calls(noise, False, 1, fresh_process=True).run((0, 1), "test", 8)
    assert (alone.outputs == Calls(noise, False, 1).run((0, 1), "test", 8).outputs).all()


def test_what_ends_a_fresh_process_is_an_output() -> None:
    trials = Calls(failing, False, 1, fresh_process=True).run((0, 1), "test", 3)
    assert trials.outputs == [Raised("ZeroDivisionError", "no answer today")] * 3
    trials = Calls(leaving, False, 1, fresh_process=True).run((0, 1), "test", 3)
    assert trials.outputs == [Raised("the process ended without an answer", "")] * 3


def test_a_mechanism_that_cannot_be_sent_is_refused() -> None:
    lock = threading.Lock()

    def locked(data: int, rng: np.random.Generator) -> float:
        with lock:
            return rng.random()

    with pytest.raises(InputError, match="without locks"):
        Calls(locked, False, 1, fresh_process=True).run((0, 1), "test", 3)


def test_a_mechanism_that_changes_its_data_is_refused() -> None:
    """A counter stored there would distinguish the data sets: their numbers of calls differ."""

    def mechanism(data: list[int], rng: np.random.Generator) -> int:
        data[0] += 1
        return data[0]

    with pytest.raises(InputError, match="in place"):
        audit(mechanism, [0, 1], [0, 2], trials=400, score=itself)
    # Data that cannot be compared are not checked.
    audit(lambda data, rng: rng.normal(), object(), object(), trials=400, score=itself)
