"""Synthetic transcripts of DP-SGD."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.audits.dp_training.law import Law
from dpaudit.audits.dp_training.runs import Examination, Examined, Trainer
from dpaudit.audits.dp_training.transcript import Clipping, Setup, Step, Transcript, Vector
from dpaudit.audits.dp_training.verdict import Verdict
from dpaudit.data.ratings import Ratings, Scale

SCRIPTS = Path(__file__).parents[2] / "dpaudit" / "cli" / "scripts"
DELTA = 1e-5
RECORDS, RATE, COORDINATES = 1000, 1 / 16, 2000
Noise = Callable[[np.random.Generator, int, Vector], np.ndarray]


def honest(rng: np.random.Generator, step: int, summed: Vector) -> np.ndarray:
    """Draw the noise as it is stated."""
    return rng.standard_normal(len(summed))


def transcript(
    seed: int,
    *,
    steps: int = 16,
    noise: Noise = honest,
    rows: Callable[[np.random.Generator], int] | None = None,
    excess: float = 0.0,
    largest: float = 2.0,
    by_batch: bool = False,
    counted: int | None = -1,
    **changes: Any,
) -> Transcript:
    """Return a transcript of sums on a tenth of the coordinates, with σ = C = 1."""
    rng = np.random.default_rng(seed)
    setup = Setup(RECORDS, RATE, 1.0, 1.0, 16, divisor=64.0, coordinates=COORDINATES)
    made = []
    for index in range(steps):
        summed = np.zeros(COORDINATES, np.float32)
        touched = rng.integers(COORDINATES, size=COORDINATES // 10)
        summed[touched] = rng.normal(0, 1, len(touched))
        batch = int(rng.binomial(RECORDS, RATE)) if rows is None else rows(rng)
        noised = (summed + noise(rng, index, summed)).astype(np.float32)
        if by_batch:
            noised = (noised * 64 / batch).astype(np.float32)
        made.append(
            Step.of(summed, noised, 64.0, 1.0, rows=batch, clipping=Clipping(excess, largest))
        )
    counts = steps if counted == -1 else counted
    return Transcript(**{"setup": setup, "steps": made, "counted": counts, **changes})


def law(transcript: Transcript) -> Law:
    """Return what a transcript states."""
    return Law.of(transcript.setup, len(transcript.steps), DELTA)


def failing(verdicts: Iterable[Verdict]) -> set[str]:
    """Return the names of the checks that fail."""
    return {verdict.check for verdict in verdicts if verdict.fails}


def examined(train: Callable[..., Any], ratings: Ratings, **options: Any) -> Examined:
    """Return what all parts of an examination find of a training with a claim of ε = 4."""
    trainer = Trainer(train, "train", 3, DELTA)
    examination = Examination(trainer, ratings, **{"claimed": 4.0, **options})
    first, *others = (part() for _, part in examination.parts())
    return first.joined(others)


def script(name: str, **settings: Any) -> Any:
    """Return the module of a training that `init` writes, with some of its settings changed."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for setting, value in settings.items():
        setattr(module, setting, value)
    return module


def ratings(rows: int, users: int, items: int) -> Ratings:
    """Return random ratings of different pairs."""
    source = np.random.default_rng(0)
    user, item = np.divmod(source.permutation(users * items)[:rows], items)
    values = source.integers(1, 6, rows).astype(np.float32)
    return Ratings.build(user, item, values, users, items, Scale())
