"""What an entry of the catalogue says: a published claim and the plays that test it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.claim import Adjacency
from dpaudit.core.estimate import Estimate

Verdict = Literal["falsified", "not falsified", "holds", "unprovable as stated"]
# What a verdict of false is about.
Basis = Literal["as stated", "on a reading", "by a misprint"]


@dataclass(frozen=True, eq=False)
class Worlds:
    """The outcome of a game's worlds.

    Attributes:
        absent: a score of each world D `(T,)`.
        present: a score of each world D' `(T,)`.
        truth: the ε of this pair by the mechanism's law, None where it is not known in closed form.
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]
    truth: Estimate | None


class Game(Protocol):
    """A mechanism on two neighbouring data sets, and an attack that tells them apart."""

    @property
    def label(self) -> str:
        """What sets it apart from the entry's other plays."""
        ...

    @property
    def trials(self) -> int:
        """Worlds of either data set, unless told otherwise."""
        ...

    def claimed(self) -> tuple[float, float]:
        """The claimed ε and δ."""
        ...

    def mechanism(self) -> str:
        """The defense with its parameters."""
        ...

    def pair(self) -> str:
        """The two data sets, in one sentence."""
        ...

    def digest(self) -> str:
        """Tells the two data sets from all others."""
        ...

    def play(self, trials: int, seed: int) -> Worlds:
        """Run the mechanism on both data sets so many times, and score every output."""
        ...

    def mutant(self, factor: float) -> Game:
        """The same game, data sets and score on a copy with the noise of `factor` times its ε.

        Raises:
            ValueError: there is no such copy.
        """
        ...


@dataclass(frozen=True)
class Check:
    """A statement of algebra, tried on instances.

    Attributes:
        label: what is tried, with the number of instances.
        counterexample: from a seed, the instance on which the statement fails, in words, or None.
    """

    label: str
    counterexample: Callable[[int], str | None]


Play = Game | Check


@dataclass(frozen=True)
class PublishedClaim:
    """A published guarantee with its verdict.

    Attributes:
        id: the paper, the statement and what is tried, e.g. `pa11-thm3.1-crossing`.
        sentence: the claim, in our words.
        source: paper, theorem, equation.
        adjacency: which data sets are neighbours in the claim; None of a statement of algebra.
        observer: who sees what; None of a statement of algebra.
        recorded: the verdict, derived and played before it was written down.
        because: the derivation, in short; `docs/claims.md` has it in full.
        published: the mechanism as published, or the statement.
        corrected: mechanisms that keep the claim, on the same or their own worst data.
        reading: which reading of an ambiguous text is meant; empty where there is one only.
        basis: of a false claim, whether it is false as the paper states it, on a reading of ours,
            where the text is silent or allows another, or by a misprint alone.
        weak: of games whose data sets show too little for a mutant to be found, by label, why.
    """

    id: str
    sentence: str
    source: str
    adjacency: Adjacency | None
    observer: str | None
    recorded: Verdict
    because: str
    published: tuple[Play, ...]
    corrected: tuple[Game, ...] = ()
    reading: str = ""
    basis: Basis = "as stated"
    weak: Mapping[str, str] = field(default_factory=dict)
