"""Games of known ε for verifications: coins that report the data set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dpaudit.auditor.games import GameScores
from dpaudit.claims.record import Check, PublishedClaim, Verdict
from dpaudit.core.estimate import Estimate


@dataclass(frozen=True, eq=False)
class Coin:
    """Randomised response: the data set is reported correctly with odds of e^ε to 1."""

    label: str
    true: float
    says: float = 1.0
    trials: int = 2000
    about: str = "one bit"
    law: float | None = math.nan
    mutable: bool = True
    ran: list[tuple[int, int]] = field(default_factory=list)

    def claimed(self) -> tuple[float, float]:
        return self.says, 0.0

    def mechanism(self) -> str:
        return "coin"

    def pair(self) -> str:
        return "0 or 1"

    def digest(self) -> str:
        return self.about

    def run(self, trials: int, seed: int) -> GameScores:
        self.ran.append((trials, seed))
        rng = np.random.default_rng([seed, *self.label.encode()])
        right = 1 / (1 + math.exp(-self.true))
        absent, present = (rng.random((trials, 2)) < [1 - right, right]).T
        known = self.true if self.law is not None and math.isnan(self.law) else self.law
        truth = None if known is None else Estimate.exact(known, "coin")
        return GameScores(absent.astype(float), present.astype(float), truth)

    def mutant(self, factor: float) -> Coin:
        if not self.mutable:
            raise ValueError("there is no other coin")
        return replace(self, true=factor * self.true, ran=[])


def entry(
    recorded: Verdict, *published: Coin | Check, corrected: Sequence[Coin] = (), id_: str = "aa11"
) -> PublishedClaim:
    return PublishedClaim(
        id=f"{id_}-thm1",
        sentence="A coin is private.",
        source="Coin 2011, Theorem 1",
        adjacency="rating-replace",
        observer="values",
        recorded=recorded,
        because="It is thrown.",
        published=published,
        corrected=tuple(corrected),
    )
