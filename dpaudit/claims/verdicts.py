"""The verdict on a play of the catalogue, and whether it is what the catalogue leads to expect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from dpaudit.claims import record
from dpaudit.claims.entry import Check, Play, PublishedClaim
from dpaudit.core.estimate import Estimate, Number
from dpaudit.record.result import Control

# What rounding of predictions in single precision may add to the ε of a law, as a share.
_ROUNDING = 1e-5


class Played(BaseModel):
    """The outcome of one play, before it is judged with the others."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    certified: Estimate | None = None
    truth: Estimate | None = None
    p_value: Annotated[float, Field(ge=0, le=1)]
    control: Control | None = None
    tried: tuple[Control, ...] = ()
    event: str = ""
    trials: int = 0
    seconds: Number


@dataclass(frozen=True)
class Slot:
    """A play's place in the catalogue."""

    entry: PublishedClaim
    role: record.Role
    play: Play

    @property
    def claimed(self) -> float:
        """The claimed ε; 0 of a statement of algebra."""
        return 0.0 if isinstance(self.play, Check) else self.play.claimed()[0]

    @property
    def weak(self) -> str:
        """Why the data sets show too little for a mutant to be found, where that is known."""
        return self.entry.weak.get(self.play.label, "")

    @property
    def spared(self) -> bool:
        """Whether a game without power is no surprise: on real data it is none."""
        return bool(self.weak) or self.role == "real data"

    @property
    def name(self) -> str:
        """The play in words."""
        return f"{self.entry.id}, {self.role}: {self.play.label}"


def verdict_of(
    slot: Slot, played: Played, *, falsified: bool
) -> tuple[record.Found, record.Status]:
    """The verdict on a play, and whether the catalogue leads to expect it.

    Args:
        slot: the play.
        played: its outcome.
        falsified: whether its p-value, adjusted for all games, refutes the claim.
    """
    recorded = slot.entry.recorded
    # A corrected form is played on real data too, beside the published one.
    defense = getattr(slot.play, "defense", None)
    corrected = slot.role == "corrected" or getattr(defense, "variant", None) == "corrected"
    false_expected = recorded == "falsified" and not corrected
    if falsified:
        return "falsified", "as recorded" if false_expected else "differs"
    unrefuted: record.Found = "not falsified"
    if slot.role == "published" and recorded != "falsified":
        unrefuted = recorded
    if isinstance(slot.play, Check):
        return unrefuted, "differs" if false_expected else "as recorded"
    if played.control is None or not played.control.found:
        unrefuted = "no power" if slot.spared else "inconclusive"
    return _unrefuted(slot, played, unrefuted, false_expected=false_expected)


def _unrefuted(
    slot: Slot, played: Played, verdict: record.Found, *, false_expected: bool
) -> tuple[record.Found, record.Status]:
    """The verdict on a claim that a game did not refute, whose mutants gave that verdict."""
    if slot.role == "real data" and false_expected:
        # Data on which a false claim does no harm are no surprise.
        return verdict, "as recorded"
    if _law_differs(slot, played, above=not false_expected):
        return verdict, "differs"
    if false_expected:
        # A violation may be seen in rare events only, so only a miss with the game's own trials,
        # which have found it, and which find as large a one, contradicts the catalogue.
        enough = not isinstance(slot.play, Check) and played.trials >= slot.play.trials
        differs = enough and _is_found(slot, played)
        return (verdict, "differs") if differs else ("inconclusive", "too few trials")
    return verdict, "too few trials" if verdict == "inconclusive" else "as recorded"


def _law_differs(slot: Slot, played: Played, *, above: bool) -> bool:
    """Whether the mechanism's law puts the pair on the other side of the claim than recorded."""
    if played.truth is None:
        return False
    if above:
        return played.truth.lower > slot.claimed * (1 + _ROUNDING)
    return played.truth.upper <= slot.claimed


def _is_found(slot: Slot, played: Played) -> bool:
    """Whether the pair breaks the claim by what was found of a mutant, by its law."""
    if played.truth is None or played.control is None or not played.control.found:
        return False
    return played.truth.lower >= played.control.factor * slot.claimed
