"""The record of a verification: what was claimed, certified and found, for every entry."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from dpaudit.claims.entry import Basis
from dpaudit.core.estimate import Estimate, Number
from dpaudit.record.result import Control, Timing

SCHEMA = 1
# `no power`: of a game that found no mutant either; its entry rests on others or its derivation.
Found = Literal[
    "falsified", "not falsified", "holds", "unprovable as stated", "no power", "inconclusive"
]
Status = Literal["as recorded", "differs", "too few trials"]
Role = Literal["published", "corrected", "real data"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Game(_Part):
    """One game or check, as played.

    Attributes:
        role: `published`, `corrected`, or the published mechanism on `real data`.
        label: what sets it apart within its entry.
        mechanism: the defense with its parameters; empty for a statement of algebra.
        pair: the two data sets, in one sentence; empty for a statement of algebra.
        claimed: the claimed ε, None for a statement of algebra.
        delta: the claimed δ.
        certified: lower bound on ε of the pair, None for a statement of algebra.
        truth: the pair's ε by the mechanism's law, where it is known.
        p_value: of the claim, from this game alone.
        adjusted: the same, adjusted for all games that were played together (Holm).
        control: the least mutant that the same game found to break the claim, or the last that it
            did not find; None where none was tried, as where the game broke the claim itself.
        tried: every mutant that was tried.
        weak: why the pair shows too little for a mutant to be found, where that is known.
        event: the event that certifies, or the counterexample.
        trials: worlds of either data set.
        seconds: how long it took.
        verdict: what this game says.
        status: whether that is what the catalogue expects of it.
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
    seconds: Number
    verdict: Found
    status: Status


class Entry(_Part):
    """One published claim with its verdict.

    Attributes:
        id: the entry's id.
        sentence: the claim in words.
        source: paper, theorem, equation.
        adjacency: neighbours in the claim.
        observer: who sees what.
        reading: which reading of an ambiguous text is meant.
        basis: of a false claim, whether it is false as stated, on a reading or by a misprint.
        because: the derivation in short.
        recorded: the verdict in the catalogue.
        verdict: the verdict that was found.
        status: whether the two agree, for every game.
        games: what was played.
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
    games: list[Game]


def told(verdict: str, basis: Basis) -> str:
    """A verdict in words: of a false claim also whether it is false as stated."""
    return f"falsified {basis}" if verdict == "falsified" else verdict


class Verification(_Part):
    """All entries that were played together.

    Attributes:
        schema_version: version of this layout.
        tool: dpaudit's version.
        environment: versions of Python and the numeric libraries, and the type of machine.
        seed: decides every stream.
        confidence: of all verdicts and of all bounds together.
        size: the number of games that share the error probability.
        entries: in the catalogue's order.
        timing: when, and how long.
    """

    schema_version: int = SCHEMA
    tool: str
    environment: dict[str, str]
    seed: int
    confidence: Number
    size: int
    entries: list[Entry]
    timing: Timing
