"""Randomness that calls share accuses nobody, and what is broken is still found.

Bounds have the confidence 1 − 1e-6, which is each test's false-failure rate.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sharing_mechanisms import (  # type: ignore[import-not-found]
    KEEPING,
    ONCE_AND_FRESH,
    SETTINGS,
    SHARING,
    FirstSeen,
    Once,
    cached,
    hashed,
    numpys,
)

import dpaudit
from dpaudit.audits.mechanism.audit import BlackBoxAudit, audit
from dpaudit.core.errors import InputError
from dpaudit.testing import assert_satisfies_dp

SURE = 1 - 1e-6
PAIR = [0, 1], [1, 1]
Rng = np.random.Generator


def values(outputs: Any) -> Any:
    return np.asarray([np.sum(output) for output in outputs], np.float64)


@pytest.mark.long
@pytest.mark.parametrize("name", SHARING)
def test_what_calls_share_accuses_nobody(name: str) -> None:
    make, epsilon = SHARING[name]
    given = audit(make(), *PAIR, trials=200, confidence=SURE, score=values)
    learned = audit(make(), *PAIR, trials=400, confidence=SURE)
    assert max(given.epsilon.lower, learned.epsilon.lower) <= epsilon


@pytest.mark.long
def test_a_fixed_seed_is_no_violation_where_one_process_makes_all_releases() -> None:
    """Every fresh process has the same noise; the calls of one process certify at most ε = 1."""
    make, epsilon = SHARING["generator of a module, with a fixed seed"]
    result = audit(make(), *PAIR, trials=1000, claim=1.0, score=values)
    assert result.epsilon.lower <= epsilon
    assert not result.doubtful
    assert not result.noiseless


@pytest.mark.long
@pytest.mark.parametrize("name", ["numpy's global generator", "hash of the data"])
def test_fresh_processes_share_nothing(name: str) -> None:
    make, epsilon = SHARING[name]
    result = audit(make(), *PAIR, trials=200, confidence=SURE, fresh_process=True, score=values)
    assert result.epsilon.lower <= epsilon
    assert not result.noiseless


@pytest.mark.long
def test_a_fixed_seed_of_hashes_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    result = audit(hashed, *PAIR, trials=300, confidence=SURE, score=values)
    assert result.epsilon.lower == 0


@pytest.mark.long
@pytest.mark.parametrize("make", [lambda: cached, FirstSeen, Once])
def test_a_test_does_not_fail_for_what_calls_share(make: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match="cannot be decided: ") as caught:
        assert_satisfies_dp(make(), PAIR, 0.05, trials=400, score=values, false_alarm=0.01)
    assert "\n" not in str(caught.value)


@pytest.mark.long
@pytest.mark.parametrize("trials", [None, 400])
def test_what_was_called_before_the_audit_is_forgotten(trials: int | None) -> None:
    """Choosing the number of trials calls the mechanism, which then keeps noise."""
    kept: dict[str, float] = {}

    def keeping(data: list[int], rng: Rng) -> float:
        return round(kept.setdefault(str(data), np.random.default_rng().laplace()), 6)

    with pytest.raises(InputError, match="do not repeat the ε"):
        assert_satisfies_dp(keeping, PAIR, 0.5, trials=trials, score=values)


@pytest.mark.long
def test_noise_of_the_process_has_the_full_power() -> None:
    """Calls are seeded, so they repeat, and the trials of one process are independent."""
    state = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    result = audit(numpys, [0, 0], [1, 1], trials=4000, confidence=SURE, score=values, seed=1)
    again = audit(numpys, [0, 0], [1, 1], trials=4000, confidence=SURE, score=values, seed=1)
    assert result == again
    assert (np.random.get_state()[1] == state).all()  # type: ignore[index]  # noqa: NPY002
    assert 1.2 < result.epsilon.lower <= 2
    assert (result.epsilon.n, result.repetition) == (4000, None)


@pytest.mark.long
def test_a_violation_by_noise_of_its_own_is_counted_in_fresh_processes() -> None:
    """ε = 8 where 1 is claimed."""

    def mechanism(data: list[int], rng: Rng) -> float:
        return round(sum(data) + np.random.default_rng().laplace() / 8, 6)

    result = audit(mechanism, *PAIR, trials=400, claim=1.0, score=values)
    assert result.epsilon.lower > 1
    assert not result.doubtful
    assert result.repetition is not None
    assert "the bound is that of " in result.repetition
    assert result.epsilon.n <= 100


@pytest.mark.long
def test_without_noise_a_claim_is_broken() -> None:
    result = audit(lambda data, rng: sum(data), *PAIR, trials=200, claim=1.0, score=values)
    assert result.epsilon.lower > 1
    assert (result.noiseless, result.repetition) == (True, None)


def check_withheld(result: BlackBoxAudit, *, noiseless: bool) -> None:
    """Nothing is certified, with the reason, and no gate passes."""
    assert (result.epsilon.lower, result.noiseless, result.doubtful) == (0, noiseless, True)
    assert result.repetition is not None
    assert "which may be its noise" in result.repetition
    assert result.control is not None
    assert not result.control.found


def test_what_may_hold_its_noise_is_neither_broken_nor_passed() -> None:
    """A function holds nothing; the number of a closure may be noise, which nobody draws again."""
    noise = float(np.random.default_rng().laplace())
    result = audit(lambda data, rng: sum(data) + noise, *PAIR, trials=400, claim=1.0, score=values)
    check_withheld(result, noiseless=True)
    assert "was made (noise), " in str(result.repetition)


@pytest.mark.long
@pytest.mark.parametrize("name", KEEPING)
def test_kept_noise_beside_fresh_noise_accuses_nobody(name: str) -> None:
    """One answer has ε = 1; given the kept noise, any ε. Certain, as nothing is certified."""
    result = audit(KEEPING[name](), *PAIR, trials=200, claim=1.0, score=values)
    check_withheld(result, noiseless=False)


@pytest.mark.long
def test_kept_noise_of_a_module_is_drawn_again() -> None:
    """The bound given this noise is about 3; one answer has ε = 0.1.

    So forks of few processes mostly certify nothing, and no call needs a new Python.
    """
    result = audit(ONCE_AND_FRESH, *PAIR, trials=200, claim=1.0, confidence=0.999, score=values)
    assert result.epsilon.lower <= 0.1
    assert "do not repeat the ε of at least" in str(result.repetition)


@pytest.mark.long
@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_a_broken_mechanism_do_not_hide_it(name: str) -> None:
    """ε = 10 where 1 is claimed: 200 trials certify about 4."""
    result = audit(SETTINGS[name](), *PAIR, trials=200, claim=1.0, score=values)
    assert result.epsilon.lower > 1
    assert (result.repetition, result.doubtful) == (None, False)


def test_what_cannot_be_repeated_is_not_certified() -> None:
    lock = threading.Lock()

    def locked(data: list[int], rng: Rng) -> float:
        with lock:
            return sum(data) + round(rng.laplace(), 6)

    result = audit(locked, [0, 0], [3, 3], trials=400, claim=1.0, score=values)
    assert (result.epsilon.lower, result.doubtful) == (0, True)
    assert result.repetition is not None
    assert "cannot be sent" in result.repetition


@pytest.mark.long
def test_a_reused_buffer_is_copied() -> None:
    out = np.zeros(4)

    def reusing(data: list[float], rng: Rng) -> Any:
        out[:] = np.round(sum(data) + rng.laplace(scale=0.1, size=4), 6)
        return out

    result = dpaudit.audit(reusing, *PAIR, trials=400, score=values, seed=1)
    assert result.epsilon.lower > 3
    assert result.repetition is None


class Release:
    """An output whose type compares identities."""

    def __init__(self, value: float) -> None:
        self.value = value


def released(data: int, rng: np.random.Generator) -> Release:
    return Release(data + round(float(rng.laplace(scale=0.1)), 6))


@pytest.mark.long
def test_outputs_that_compare_identities_are_repeated_by_their_states() -> None:
    assert audit(released, 0, 1, trials=400, seed=1).repetition is None
