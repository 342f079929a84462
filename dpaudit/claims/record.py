"""An entry of the catalogue, and the record of a verification.

An entry is a published claim and the experiments that test it. A record has the claim, certified
bounds and verdict of every entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as validated

from dpaudit.auditor.games import GameScores
from dpaudit.core.claim import Adjacency
from dpaudit.core.estimate import Estimate, Number
from dpaudit.record.result import Timing
from dpaudit.record.values import Control, Record

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


SCHEMA = 1
# `no power`: the game detected no mutant either, so the entry's verdict rests on its other games or
# on its derivation.
# `not tested`: the entry has no experiment.
Found = Literal[
    "falsified",
    "not falsified",
    "holds",
    "unprovable as stated",
    "no power",
    "inconclusive",
    "not tested",
]
Status = Literal["as recorded", "differs", "too few trials"]
Role = Literal["published", "corrected", "real data"]
Stop = Literal["at-end", "when-decided"]


class GameRecord(Record):
    """The result of one experiment: a game or a check.

    Attributes:
        role: `published`, `corrected`, or `real data` for a game on real ratings.
        label: name of the experiment within its entry.
        mechanism: the defense with its parameters; empty for a check.
        pair: the two data sets, in one sentence; empty for a check.
        claimed: the claimed ε; None for a check.
        delta: the claimed δ.
        certified: lower bound on ε of the pair; None for a check, and for a game that ended early.
        truth: the pair's exact ε, from the mechanism's law, if known.
        p_value: p-value of the claim, from this experiment alone.
        adjusted: the p-value adjusted for all games of the verification (Holm).
        control: the mutant with the smallest factor that the game detects, else the last one that
            it misses; None if no mutant was run, as when the game refutes the claim itself.
        tried: all mutants that were run.
        weak: why the pair leaks too little for a mutant to be detected, if known.
        event: the event that yields the certificate, or the counterexample.
        trials: number of trials on each data set; of a game that ended early, those until its claim
            was refuted.
        early: whether bets refuted the claim before the end.
        seconds: duration of the experiment.
        verdict: verdict of this experiment.
        status: whether the catalogue expects this verdict.
    """

    role: Role
    label: str
    mechanism: str = ""
    pair: str = ""
    claimed: Number | None = None
    delta: Number = 0.0
    certified: Estimate | None = None
    truth: Estimate | None = None
    p_value: Number
    adjusted: Number
    control: Control | None = None
    tried: tuple[Control, ...] = ()
    weak: str = ""
    event: str = ""
    trials: int = 0
    early: bool = False
    seconds: Number
    verdict: Found
    status: Status


class Entry(Record):
    """One published claim with its verdict.

    Attributes:
        id: the entry's id.
        sentence: the claim in words.
        source: paper, theorem, equation.
        adjacency: neighbours in the claim.
        observer: who sees what.
        reading: which reading of an ambiguous text is meant.
        basis: whether a false claim is false as stated or on a reading.
        because: the derivation in short.
        recorded: the verdict in the catalogue.
        verdict: the verdict of this verification.
        status: whether all experiments have the verdicts that the catalogue expects.
        held_by: the test module that holds the derivation of an entry without experiments.
        games: the results of the entry's experiments.
    """

    id: str
    sentence: str
    source: str
    adjacency: str | None
    observer: str | None
    reading: str
    basis: Basis = "as stated"
    because: str
    recorded: Found
    verdict: Found
    status: Status
    held_by: str = ""
    games: list[GameRecord]


def verdict_text(verdict: str, basis: Basis) -> str:
    """Return the verdict in words; a false claim also gets its basis."""
    return f"falsified {basis}" if verdict == "falsified" else verdict


class Verification(Record):
    """The results of all entries of one verification.

    Attributes:
        schema_version: version of this layout.
        tool: dpaudit's version.
        environment: versions of Python and the numeric libraries, and the type of machine.
        seed: seed of all random streams.
        confidence: family-wise confidence of all verdicts, and of all bounds.
        stop: whether bets could end a game as soon as they refuted its claim.
        size: the number of games that share the error probability.
        entries: the entries' results, in the catalogue's order.
        timing: start time and duration.
    """

    schema_version: int = SCHEMA
    tool: str
    environment: dict[str, str]
    seed: int
    confidence: Number
    stop: Stop = "at-end"
    size: int
    entries: list[Entry]
    timing: Timing
