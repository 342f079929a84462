"""Audits that tempt a certificate: few atoms, state between calls, batches, scores of batches.

None is given a seed, so that each draws its own.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from dpaudit.audits.mechanism.audit import audit
from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.bounds.frequentist.one_run import balanced_grid, one_run_scores_epsilon

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from null_mechanisms import BATCHED, SCORES, SHAPED, STATEFUL, itself, noise
from sharing_mechanisms import SHARING

# What calls share that each have a process of their own, and that have one together.
_INHERITED = ("numpy's global generator", "hash of the data")
_SHARED = (
    "lru_cache",
    "noise drawn in __init__",
    "noise drawn in __init__ of a module's object",
    "noise kept for each data set",
    "budget of each data set",
    "first data set seen",
    "hash of the data",
    "address of the data",
)
# Odds of a right answer that few trials show.
_RARE = 6.36


@dataclass(frozen=True)
class Case:
    """One kind of audit.

    Attributes:
        name: what it is.
        epsilon: the true ε.
        bound: the certified bound of one audit.
        audits: how many audits are simulated.
    """

    name: str
    epsilon: float
    bound: Callable[[], float]
    audits: int


def _fresh() -> np.random.Generator:
    """A generator that is of this audit alone."""
    return np.random.default_rng()


def _two_atoms() -> float:
    absent, present = _fresh().integers(0, 2, (2, 20)).astype(float)
    return label_epsilon(absent, present)[0].lower


def _answers() -> float:
    wrong = _fresh().random((2, 1000)) < 1 / (1 + math.exp(_RARE))
    return label_epsilon(wrong[0].astype(float), (~wrong[1]).astype(float))[0].lower


def _answer(data: int, rng: np.random.Generator) -> int:
    return data ^ int(rng.random() < 1 / (1 + math.exp(_RARE)))


def _answers_of_calls() -> float:
    return audit(_answer, 0, 1, trials=2000, score=np.asarray).epsilon.lower


def _stateful(name: str) -> float:
    return audit(STATEFUL[name](), 0, 1, trials=1000, score=itself).epsilon.lower


def _sharing(name: str) -> float:
    return audit(SHARING[name][0](), [0, 1], [1, 1], trials=400, score=itself).epsilon.lower


def _fresh_processes(name: str) -> float:
    found = audit(SHARING[name][0](), [0, 1], [1, 1], trials=300, fresh_process=True, score=itself)
    return found.epsilon.lower


def _batched(name: str) -> float:
    return audit(BATCHED[name](), 0, 1, trials=1000, score=itself, batched=True).epsilon.lower


def _shaped(name: str) -> float:
    return audit(SHAPED[name](), 0, 1, trials=400, batched=True).epsilon.lower


def _scored(name: str) -> float:
    return audit(noise, 0, 1, trials=400, score=SCORES[name]).epsilon.lower


def _unequal() -> float:
    order = _fresh().permutation(1000)
    grid = balanced_grid(1000)
    return one_run_scores_epsilon(_fresh().normal(size=1000), order < 560, grid=grid).lower


CASES = [
    Case("label test: two atoms, 20 trials on either data set", 0.0, _two_atoms, 1000),
    Case("label test: randomised response, 1000 trials of either", _RARE, _answers, 1000),
    Case("black box: randomised response, 2000 calls", _RARE, _answers_of_calls, 150),
    *(Case(f"black box: {name}", 0.0, partial(_stateful, name), 150) for name in STATEFUL),
    *(
        Case(
            f"black box, fresh processes: {name}",
            SHARING[name][1],
            partial(_fresh_processes, name),
            100,
        )
        for name in _INHERITED
    ),
    *(
        Case(f"black box: {name}", SHARING[name][1], partial(_sharing, name), 100)
        for name in _SHARED
    ),
    *(Case(f"black box, batched: {name}", 0.0, partial(_batched, name), 150) for name in BATCHED),
    *(Case(f"black box, learned: {name}", 0.0, partial(_shaped, name), 40) for name in SHAPED),
    *(Case(f"black box, score: {name}", 0.0, partial(_scored, name), 150) for name in SCORES),
    Case("one run: 560 canaries in and 440 out by design", 0.0, _unequal, 1000),
]


def false_claims(number: int) -> int:
    """How many audits of a case claim more than the truth."""
    case = CASES[number]
    return sum(case.bound() > case.epsilon * (1 + 1e-12) for _ in range(case.audits))
