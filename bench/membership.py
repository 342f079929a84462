"""What the trainings of a membership game cost: in blocks, and of a library's model.

    python -m pip install '.[implicit]' && DPAUDIT_DATA=… python bench/membership.py [ROUNDS]

First models a second of `dpsgd-mf` on MovieLens-1M, d = 16, on one thread: prepared, trained, and
asked for the scores of all targets and the lists of all users that the observers `scores` and
`own-list` need, with the features that attacks read. Sixteen models are trained together, in turn
with one, and with one whose lists are made from predictions of all pairs, as for defenses that do
not train on subsets. The fastest of some rounds counts. Then seconds of whole audits.
"""

from __future__ import annotations

import math
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

# One thread for every library, before any of them is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
from bench_peers import ml_1m_ratings, seconds
from pydantic.dataclasses import dataclass as parameters

from dpaudit.auditor.run import run_audit
from dpaudit.audits.membership.config import Membership
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.training import Training
from dpaudit.audits.models.subject import DefenseRecommender
from dpaudit.config.schema import Config
from dpaudit.core.plugin import STRICT
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.execution.workers import Workers
from dpaudit.kernels.lanes import LANES

SEED = 7
OBSERVERS: Any = ["scores", "own-list"]
BLOCK = tuple(range(LANES))
VARIANTS: dict[Any, float] = {"nonprivate": math.inf, "published": 10.0, "corrected": 10.0}


@parameters(frozen=True, config=STRICT)
class OneAtATime(SgdFactors):
    """The same factorisation, as if it could not train on subsets."""

    def trains_subsets(self) -> bool:
        """Return False."""
        return False


def together(ratings: Ratings, rounds: int) -> None:
    """Print models a second, and ratios; the model is the same in the three ways."""
    table = Membership(observers=OBSERVERS)
    design = Design.of(ratings, table, SEED)
    asked = f"{len(design.query.users):,} scores and {len(design.listed):,} lists of {design.k}"
    print(f"models a second: {len(ratings):,} ratings, {asked}, one thread")
    for variant, epsilon in VARIANTS.items():
        every, alone = (
            Training(
                DefenseRecommender(kind(epsilon, variant), ratings),
                design,
                [("interaction", observer) for observer in OBSERVERS],
            )
            for kind in (SgdFactors, OneAtATime)
        )
        calls = {
            "sixteen together": lambda work=every: work.together(BLOCK),
            "one": lambda work=every: work.together(BLOCK[:1]),
            "one, all pairs": lambda work=alone: work.together(BLOCK[:1]),
        }
        first, *others = [call()[0] for call in calls.values()]
        for other in others:
            np.testing.assert_allclose(other, first, rtol=1e-3, atol=1e-3)
        turns = [{name: seconds(call) for name, call in calls.items()} for _ in range(rounds)]
        spent = {name: min(turn[name] for turn in turns) for name in calls}
        each = spent["sixteen together"] / LANES
        print(f"  {variant:<12}sixteen together{1 / each:>8.2f}")
        for name in ("one", "one, all pairs"):
            slower = f"{spent[name] / each:>6.0f} times slower"
            print(f"  {'':<12}{name:<16}{1 / spent[name]:>8.2f}{slower}")


def audits(trainings: int) -> None:
    """Print seconds of audits of so many trainings on MovieLens-100K, on two workers."""
    path = Path(os.environ.get("DPAUDIT_DATA", "")) / "ml-100k" / "u.data"
    if not path.exists():
        print("audits: set DPAUDIT_DATA to a folder with ml-100k/u.data")
        return
    models: dict[str, dict[str, Any]] = {
        "ALS of implicit, 64 factors": {
            "recommender": [
                {"library": "implicit", "params": {"model": "als", "settings": {"factors": 64}}}
            ]
        },
        "dpsgd-mf, corrected, d = 16": {
            "model": [
                {"label": "own", "defense": "dpsgd-mf", "variant": "corrected", "epsilon": [10]}
            ]
        },
    }
    print(f"seconds of an audit: {trainings} trainings, MovieLens-100K, two workers")
    for title, model in models.items():
        config = Config.model_validate(
            {
                "seed": SEED,
                "data": {"format": "movielens-100k", "path": str(path)},
                "membership": {"trainings": trainings, "observers": OBSERVERS},
                **model,
            }
        )
        spent = seconds(partial(run_audit, config, workers=Workers(2)))
        print(f"  {title:<30}{spent:>6.1f}")


def main(ratings: Ratings, rounds: int = 2, trainings: int = 64) -> None:
    """Print both."""
    together(ratings, rounds)
    audits(trainings)


if __name__ == "__main__":
    main(ml_1m_ratings(), *map(int, sys.argv[1:]))
