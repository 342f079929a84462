"""Leaks that are easily overlooked are certified; mechanisms without them are not.

Certificates have the confidence 1 − 1e-6: the rate of a false accusation in each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from subtle_mechanisms import EPSILON, LEAKS, twin  # type: ignore[import-not-found]

from dpaudit.audits.mechanism.audit import audit

SURE = 1 - 1e-6


@pytest.mark.long
@pytest.mark.parametrize("name", LEAKS)
def test_a_subtle_leak_breaks_its_claim(name: str) -> None:
    """With 1000 outputs, of which half certify."""
    found = audit(LEAKS[name], 0, 1, trials=1000, confidence=SURE)
    assert found.epsilon.lower > EPSILON, found.score
    unfounded = audit(twin(LEAKS[name]), 0, 1, trials=1000, confidence=SURE)
    assert unfounded.epsilon.lower == 0


def rarely(kind: str, data: int, teller: int, rng: np.random.Generator, n: int) -> Any:
    """Return n outputs, of which one in a thousand tells that the data are those of the teller."""
    rare = (rng.random(n) < 1e-3) & (data == teller)
    if kind == "number":
        return np.where(rare, 77.0, np.round(rng.laplace(size=n), 6))
    return np.where(rare, "leak", np.array(["a", "b", "c"])[rng.integers(3, size=n)])


RARELY: dict[str, Any] = {"trials": 400_000, "confidence": SURE, "batched": True, "seed": 1}


@pytest.mark.long
@pytest.mark.parametrize("teller", [0, 1])
@pytest.mark.parametrize("kind", ["number", "word"])
def test_a_rare_leak_breaks_its_claim(kind: str, teller: int) -> None:
    """With 400,000 outputs some 100 leaks are held out.

    100 right guesses certify 1.91 with confidence 1 − 1e-6: ln(p/(1 − p)), p = 1e-6^(1/100).
    """
    found = audit(lambda data, rng, n: rarely(kind, data, teller, rng, n), 0, 1, **RARELY)
    assert found.epsilon.lower > EPSILON, found.score
    assert found.event.size < 300


@pytest.mark.long
@pytest.mark.parametrize("kind", ["number", "word"])
def test_what_is_as_rare_on_both_data_sets_breaks_no_claim(kind: str) -> None:
    unfounded = audit(lambda _, rng, n: rarely(kind, 0, 0, rng, n), 0, 1, **RARELY)
    assert unfounded.epsilon.lower == 0


@pytest.mark.long
def test_the_low_bits_of_a_floating_sum_break_its_claim() -> None:
    """Noise that is added to 0 and to 1 leaves different low bits (Mironov 2012)."""

    def textbook(data: float, rng: np.random.Generator, n: int) -> Any:
        return data + rng.laplace(size=n)

    def rounded(data: float, rng: np.random.Generator, n: int) -> Any:
        return np.round(textbook(data, rng, n), 9)

    options: dict[str, Any] = {"trials": 4000, "confidence": SURE, "batched": True, "seed": 1}
    assert audit(textbook, 0.0, 1.0, **options).epsilon.lower > EPSILON
    assert 0.3 < audit(rounded, 0.0, 1.0, **options).epsilon.lower <= EPSILON
