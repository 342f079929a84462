"""An entry of the catalogue: a published claim and the experiments that test it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as validated

from dpaudit.auditor.games.certify import GameScores
from dpaudit.core.claim import Adjacency

Verdict = Literal["falsified", "not falsified", "holds", "unprovable as stated"]
# What exactly is false where the verdict is "falsified".
Basis = Literal["as stated", "on a reading"]


@runtime_checkable
class ClaimGame(Protocol):
    """A mechanism, two neighbouring data sets, and an attack that distinguishes them."""

    @property
    def label(self) -> str:
        """Name of the game, unique among the entry's experiments of one role."""
        ...

    @property
    def trials(self) -> int:
        """Default number of trials on each data set."""
        ...

    def claimed(self) -> tuple[float, float]:
        """The claimed ε and δ."""
        ...

    def mechanism(self) -> str:
        """Description of the defense with its parameters."""
        ...

    def pair(self) -> str:
        """Description of the two data sets, in one sentence."""
        ...

    def digest(self) -> str:
        """Digest that identifies the two data sets."""
        ...

    def run(self, trials: int, seed: int) -> GameScores:
        """Run the mechanism `trials` times on each data set, and score every output.

        The seed and a trial's index decide its noise, so more trials begin with the same scores.
        """
        ...

    def mutant(self, factor: float) -> ClaimGame:
        """The same game on the same data sets, with noise calibrated to `factor` times ε.

        Raises:
            ValueError: the mechanism has no such mutant.
        """
        ...


@dataclass(frozen=True)
class Check:
    """A false mathematical statement, or one without a proof, that is tested on instances.

    Attributes:
        label: what is tested, with the number of instances.
        counterexample: maps a seed to a description of an instance on which the statement fails,
            or to None if no tested instance fails.
    """

    label: str
    counterexample: Callable[[int], str | None]


Experiment = ClaimGame | Check


@validated(frozen=True, config=ConfigDict(extra="forbid", arbitrary_types_allowed=True))
class PublishedClaim:
    """A published guarantee with its verdict: the schema of a `[[claim]]` in the file of a paper.

    Attributes:
        id: the paper, the statement and what is tested, e.g. `pa11-thm3.1-threshold`.
        sentence: the claim, in our words.
        source: paper, theorem, equation.
        adjacency: which data sets are neighbours in the claim; None for a mathematical statement.
        observer: who sees what; None for a mathematical statement.
        recorded: the expected verdict; it was derived and confirmed by runs before it was recorded.
        because: the derivation in short; `docs/claims/pa11.md` has it in full.
        published: games on the mechanism as published, or checks of the statement; none if it holds
            by algebra alone.
        corrected: games on corrected mechanisms, which satisfy the claim, on the same data sets or
            on their own worst pair.
        reading: which reading of an ambiguous text is tested; empty if there is only one.
        basis: whether a false claim is false as the paper states it, or on a reading of ours, where
            the text is silent or allows another. A misprint is no entry: nobody claims it.
        weak: for games whose data sets leak too little for a mutant to be detected: the reason, by
            label.
        held_by: the test module of the source tree that tries the derivation on instances, for an
            entry without experiments.
    """

    id: str
    sentence: str
    source: str
    recorded: Verdict
    because: str
    adjacency: Adjacency | None = None
    observer: str | None = None
    published: tuple[Experiment, ...] = ()
    corrected: tuple[ClaimGame, ...] = ()
    reading: str = ""
    basis: Basis = "as stated"
    weak: Mapping[str, str] = field(default_factory=dict)
    held_by: str = ""
