"""The record of a verification: claim, certified bounds and verdict of every entry."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from dpaudit.claims.entry import Basis
from dpaudit.core.estimate import Estimate, Number
from dpaudit.record.result import Timing
from dpaudit.record.values import Control

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


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class GameRecord(_Record):
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


class Entry(_Record):
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


class Verification(_Record):
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
