"""Run one experiment of the catalogue, and judge it.

**An early end.** Looks at a growing part of the trials settle bets against the claimed (ε, δ), a
round being a trial on D and one on D' (`EProcess`). A game whose claim is refuted ends there; any
other is run to its end, and judged by the label test of all its trials.

**One error probability, two parts.** The label test of all trials reads the same scores as the
bets, so the two share the game's level a: the bets have c·a, with c = `SHARE`, and the label test
has (1 − c)·a. Under the claim the p-value of the bets at any time, q, and that of the label test,
p, are each at most u with probability at most u. So

    P(q/c ≤ u or p/(1 − c) ≤ u) ≤ c·u + (1 − c)·u = u,

whatever their dependence. A stopped game has the p-value q/c, any other p/(1 − c); either is at
least the smaller of the two, and therefore valid. Bets end a game only at q/c ≤ α/m of m games,
which Holm's procedure rejects whatever the other games show.

**Rounds are independent.** The noise of a trial has a stream of its own, by the trial's index, and
D and D' have different keys: so a longer look begins with the rounds of a shorter one, and so do
all trials. What a game computes once (gradients, normalisers, the fit of a learned attack) depends
on the data sets or on other trials only. Given these, the scores of all trials are independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from dpaudit.auditor.games.certify import Level, NoiseGame, reported
from dpaudit.audits.mechanism.game import SHARE
from dpaudit.bounds.frequentist.labels import LabelTest
from dpaudit.bounds.frequentist.sequential import EProcess
from dpaudit.claims import record
from dpaudit.claims.entry import Check, ClaimGame, Experiment, PublishedClaim
from dpaudit.claims.record import Stop
from dpaudit.core.errors import RunError
from dpaudit.core.estimate import Estimate, Number
from dpaudit.record.values import Control

# Rounding of predictions to single precision may increase the exact ε by this share.
_ROUNDING = 1e-5
# Each look has so many times the rounds of the one before, and all trials so many times those of
# the last: the looks at a game that is not refuted cost at most a third of its trials again.
_GROWTH = 4
# The fewest rounds of a look.
_FEWEST = 16


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


def check_outcome(check: Check, seed: int) -> Outcome:
    """Try a statement on instances; a counterexample is certain, hence the p-value 0."""
    counterexample = check.counterexample(seed)
    return Outcome(p_value=float(counterexample is None), event=counterexample or "")


def game_outcome(game: ClaimGame, trials: int, level: Level, seed: int, stop: Stop) -> Outcome:
    """Run a game, to its end unless bets may end it and do.

    Args:
        game: the game.
        trials: number of trials on each data set.
        level: the level of the game.
        seed: the seed of its trials.
        stop: whether bets may end it.

    Raises:
        RunError: it cannot be run on a mutant.
    """
    if stop == "at-end":
        return _whole(game, trials, level, seed)
    early = refuted(game, trials, SHARE * level.alpha, seed)
    share = SHARE if early else 1 - SHARE
    outcome = early or _whole(game, trials, replace(level, alpha=share * level.alpha), seed)
    return outcome.model_copy(update={"p_value": min(1.0, outcome.p_value / share)})


def _whole(game: ClaimGame, trials: int, level: Level, seed: int) -> Outcome:
    """Run all trials of a game, and its mutants, at this level."""
    epsilon, delta = game.claimed()
    certificate = NoiseGame(
        mechanism=game,
        score=lambda mechanism, seed: mechanism.run(trials, seed),
        weaken=lambda mechanism, factor: mechanism.mutant(factor),
        level=level,
        seed=seed,
        claimed=epsilon,
    ).certified()
    if certificate.failed:
        raise RunError(f"{game.label}: {certificate.failed[0]}")
    test = certificate.event
    if not isinstance(test, LabelTest):
        raise TypeError(f"{game.label} has no scores of two data sets")
    return Outcome(
        certified=certificate.estimate,
        truth=certificate.outcomes.truth,
        p_value=test.p_value(epsilon, delta, level.alpha),
        control=reported(certificate.controls),
        tried=certificate.controls,
        event=str(test),
        trials=trials,
    )


def refuted(game: ClaimGame, trials: int, alpha: float, seed: int) -> Outcome | None:
    """Bet on the first trials of a game, up to a quarter; None if its claim is not refuted.

    The wealth is looked at after every round. So neither the number of rounds nor the p-value
    depends on the sizes of the looks.

    Args:
        game: the game.
        trials: its number of trials on each data set.
        alpha: the level of the bets.
        seed: the seed of all trials.
    """
    process = EProcess(*game.claimed(), likelihood=True)
    for count in looks(trials):
        scores, settled = game.run(count, seed), process.rounds
        wealth = process.update(scores.absent[settled:], scores.present[settled:])
        enough = np.flatnonzero(wealth >= -math.log(alpha))
        if len(enough):
            rounds = settled + int(enough[0]) + 1
            return Outcome(
                truth=scores.truth,
                p_value=math.exp(-wealth[enough[0]]),
                event=f"bets win {math.exp(wealth[enough[0]]):.4g} for 1 on {2 * rounds} outputs",
                trials=rounds,
                early=True,
            )
    return None


def looks(trials: int) -> Iterator[int]:
    """Yield the numbers of rounds at which a game of so many trials is looked at, increasing."""
    most = trials // _GROWTH
    if most >= _FEWEST:
        yield from looks(most)
        yield most


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
