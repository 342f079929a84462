"""The verdict on an experiment of the catalogue, and whether the catalogue expects it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from dpaudit.claims import record
from dpaudit.claims.entry import Check, Experiment, PublishedClaim
from dpaudit.core.estimate import Estimate, Number
from dpaudit.record.values import Control

# Rounding of predictions to single precision may increase the exact ε by this share.
_ROUNDING = 1e-5


class Outcome(BaseModel):
    """The outcome of one experiment, before its p-value is adjusted for the others."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    certified: Estimate | None = None
    truth: Estimate | None = None
    p_value: Annotated[float, Field(ge=0, le=1)]
    control: Control | None = None
    tried: tuple[Control, ...] = ()
    event: str = ""
    trials: int = 0
    early: bool = False
    seconds: Number = 0.0


@dataclass(frozen=True)
class Slot:
    """An experiment with its entry and its role there."""

    entry: PublishedClaim
    role: record.Role
    experiment: Experiment

    @property
    def claimed(self) -> float:
        """The claimed ε; 0 for a check."""
        return 0.0 if isinstance(self.experiment, Check) else self.experiment.claimed()[0]

    @property
    def weak(self) -> str:
        """Why the data sets leak too little for a mutant to be detected; empty if unknown."""
        return self.entry.weak.get(self.experiment.label, "")

    @property
    def spared(self) -> bool:
        """Whether the game may lack power: its pair is known to be weak, or it is on real data."""
        return bool(self.weak) or self.role == "real data"

    @property
    def name(self) -> str:
        """Name of the experiment, with its entry and role."""
        return f"{self.entry.id}, {self.role}: {self.experiment.label}"


def verdict_of(
    slot: Slot, outcome: Outcome, *, falsified: bool
) -> tuple[record.Found, record.Status]:
    """Return the verdict on an experiment, and whether the catalogue expects it.

    Args:
        slot: the experiment.
        outcome: its outcome.
        falsified: whether its p-value, adjusted for all games, refutes the claim.
    """
    recorded = slot.entry.recorded
    # Games on real data include corrected forms too, which must satisfy the claim.
    defense = getattr(slot.experiment, "defense", None)
    corrected = slot.role == "corrected" or getattr(defense, "variant", None) == "corrected"
    false_expected = recorded == "falsified" and not corrected
    if falsified:
        return "falsified", "as recorded" if false_expected else "differs"
    unrefuted: record.Found = "not falsified"
    if slot.role == "published" and recorded != "falsified":
        unrefuted = recorded
    if isinstance(slot.experiment, Check):
        return unrefuted, "differs" if false_expected else "as recorded"
    if outcome.control is None or not outcome.control.found:
        unrefuted = "no power" if slot.spared else "inconclusive"
    return _unrefuted(slot, outcome, unrefuted, false_expected=false_expected)


def _unrefuted(
    slot: Slot, outcome: Outcome, verdict: record.Found, *, false_expected: bool
) -> tuple[record.Found, record.Status]:
    """Return `verdict` for a game that did not refute the claim, with its status.

    `verdict` is the verdict after the game's mutants are taken into account.
    """
    if slot.role == "real data" and false_expected:
        # A false claim need not be violated on every data set.
        return verdict, "as recorded"
    if _law_differs(slot, outcome, above=not false_expected):
        return verdict, "differs"
    if false_expected:
        # The violation may show only in rare events. So a miss contradicts the catalogue only if
        # the game had its own number of trials, and detected a mutant that leaks no more.
        enough = not isinstance(slot.experiment, Check) and outcome.trials >= slot.experiment.trials
        differs = enough and _is_found(slot, outcome)
        return (verdict, "differs") if differs else ("inconclusive", "too few trials")
    return verdict, "too few trials" if verdict == "inconclusive" else "as recorded"


def _law_differs(slot: Slot, outcome: Outcome, *, above: bool) -> bool:
    """Whether the pair's exact ε contradicts the catalogue.

    Args:
        slot: the experiment.
        outcome: its outcome.
        above: test for an ε above the claim; else for one that is within it.
    """
    if outcome.truth is None:
        return False
    if above:
        return outcome.truth.lower > slot.claimed * (1 + _ROUNDING)
    return outcome.truth.upper <= slot.claimed


def _is_found(slot: Slot, outcome: Outcome) -> bool:
    """Whether the pair's exact ε is at least the detected mutant's, `factor` times the claim."""
    if outcome.truth is None or outcome.control is None or not outcome.control.found:
        return False
    return outcome.truth.lower >= outcome.control.factor * slot.claimed
