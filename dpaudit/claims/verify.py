"""Run entries of the catalogue and judge them with family-wise confidence.

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
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from threadpoolctl import threadpool_limits

from dpaudit.auditor.games import Level, NoiseGame, reported
from dpaudit.audits.mechanism.game import SHARE
from dpaudit.bounds.frequentist.labels import LabelTest
from dpaudit.bounds.frequentist.sequential import EProcess
from dpaudit.bounds.multiplicity import holm, split
from dpaudit.bounds.outcomes import settled
from dpaudit.claims import record
from dpaudit.claims.record import Check, ClaimGame, Experiment, PublishedClaim, Stop
from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.estimate import Estimate, Number
from dpaudit.execution.executor import Executor
from dpaudit.execution.store import NAME, opened, others_results, seed_in
from dpaudit.execution.tasks import Progress, Task, environment, identity_of, tool_version
from dpaudit.execution.workers import ONE_THREAD, Workers, started
from dpaudit.record.result import Timing
from dpaudit.record.values import Control, Record

# Rounding of predictions to single precision may increase the exact ε by this share.
_ROUNDING = 1e-5
# Each look has so many times the rounds of the one before, and all trials so many times those of
# the last: the looks at a game that is not refuted cost at most a third of its trials again.
_GROWTH = 4
# The fewest rounds of a look.
_FEWEST = 16


class Outcome(Record):
    """The outcome of one experiment, before its p-value is adjusted for the others."""

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


def verify(
    entries: Sequence[PublishedClaim],
    *,
    extra: Sequence[tuple[str, Experiment]] = (),
    trials: int | None = None,
    confidence: float = 0.95,
    stop: record.Stop = "at-end",
    seed: int | None = None,
    folder: Path | None = None,
    fresh: bool = False,
    workers: Workers = ONE_THREAD,
    progress: Progress | None = None,
) -> record.Verification:
    """Run entries and judge them with family-wise confidence.

    Each game is a label test of the claimed (ε, δ). Holm's procedure judges the p-values, and an
    even split of the error probability makes all bounds hold together. The probability of any false
    rejection is at most 1 − `confidence`, and so is that of any bound above the true ε. A game that
    certifies no more than the claim is run again, at the same level, on mutants with too little
    noise; a game that detects no mutant has no power and gets no verdict. Mutants make no claim,
    so they do not count among the games.

    Args:
        entries: the entries to run.
        extra: experiments on real data, each with the id of its entry.
        trials: number of trials on each data set, for every game; None for each game's own number.
        confidence: family-wise confidence of all verdicts.
        stop: `when-decided` ends a game as soon as bets on its first trials refute the claim. Such
            a game has no bound on ε; in the others, bets take a tenth of the error probability.
        seed: seed of all random streams; None for the folder's seed, or a new one if it has none.
            The level of the label tests is over the choice of the seed.
        folder: where outcomes are kept, so that the same call goes on where a killed one was. A
            kept outcome is used if the game, its data, seed, trials and level, the code and the
            libraries are the same.
        fresh: whether to drop the outcomes that the folder holds.
        workers: where experiments run; the outcomes do not depend on it.
        progress: receives the number of finished experiments.

    Raises:
        ConfigError: another run works in the folder, it holds outcomes of another seed, or it
            cannot be written.
        RunError: an experiment failed, or outcomes cannot be kept.
    """
    started_at, clock = datetime.now(UTC), time.perf_counter()
    progress = progress or Progress()
    seed = seed_of(folder, seed, fresh=fresh)
    slots = list(_slots(entries, extra))
    games = sum(not isinstance(slot.experiment, Check) for slot in slots)
    alpha = split(1 - confidence, max(games, 1))
    run = _Run(slots, trials, alpha, confidence, stop, seed)
    progress.start(len(slots))
    with threadpool_limits(1), ExitStack() as stack:
        store = None
        if folder is not None:
            identity = {"tool": tool_version(), **identity_of(), "seed": str(seed)}
            others = others_results(folder / NAME, identity)
            if others and not fresh:
                raise ConfigError(f"{others}: --fresh drops them, and -o names another folder")
            store = stack.enter_context(opened(folder, identity, fresh=fresh, note=progress.note))
            store.set("trials", str(len(slots)))
            store.set("secret", "no")
        pool = stack.enter_context(started(workers))
        executor = Executor(pool, progress, store).within("experiments")
        outcomes = [Outcome.model_validate_json(text) for text in executor.run(run.tasks(progress))]
    judged = [
        (slot.entry.id, _judged(slot, outcome, p, 1 - confidence))
        for slot, outcome, p in zip(slots, outcomes, _adjusted(slots, outcomes, alpha), strict=True)
    ]
    return record.Verification(
        tool=tool_version(),
        environment=environment(),
        seed=seed,
        confidence=confidence,
        stop=stop,
        size=games,
        entries=[
            _entry(entry, [game for id_, game in judged if id_ == entry.id]) for entry in entries
        ],
        timing=Timing.since(started_at, clock),
    )


def seed_of(folder: Path | None, seed: int | None, *, fresh: bool = False) -> int:
    """Return `seed` if given, else the seed of the folder's run, else a new one."""
    if seed is None and folder is not None and not fresh:
        seed = seed_in(folder / NAME, identity_of())
    return settled(seed)


def _adjusted(slots: Sequence[Slot], outcomes: Sequence[Outcome], alpha: float) -> list[float]:
    """Adjust the games' p-values (Holm); a check's counterexample is certain and stays as it is."""
    games = [i for i, slot in enumerate(slots) if not isinstance(slot.experiment, Check)]
    adjusted = [outcome.p_value for outcome in outcomes]
    if games:
        p_values = holm([outcomes[i].p_value for i in games], alpha).adjusted
        for i, p in zip(games, p_values, strict=True):
            adjusted[i] = p
    return adjusted


def _slots(
    entries: Sequence[PublishedClaim], extra: Sequence[tuple[str, Experiment]]
) -> Iterator[Slot]:
    for entry in entries:
        yield from (Slot(entry, "published", experiment) for experiment in entry.published)
        yield from (Slot(entry, "corrected", experiment) for experiment in entry.corrected)
        yield from (Slot(entry, "real data", game) for id_, game in extra if id_ == entry.id)


@dataclass(frozen=True)
class _Part:
    """An experiment by its index, with all that its outcome depends on beside code and seed."""

    place: int
    words: str


@dataclass(frozen=True, eq=False)
class _Run:
    """All experiments of a verification; a call runs one of them.

    Attributes:
        slots: the experiments.
        trials: number of trials of every game; None for each game's own.
        alpha: the level of each game.
        confidence: family-wise confidence.
        stop: whether bets may end a game.
        seed: seed of all random streams.
    """

    slots: Sequence[Slot]
    trials: int | None
    alpha: float
    confidence: float
    stop: record.Stop
    seed: int

    def tasks(self, progress: Progress) -> Iterator[Task]:
        """Yield a task for each experiment, which returns its outcome as JSON."""
        for place, slot in enumerate(self.slots):
            progress.stage(slot.name)
            yield Task(self, _Part(place, self._words(slot)), 1)

    def _words(self, slot: Slot) -> str:
        game = slot.experiment
        if isinstance(game, Check):
            return slot.name
        about = (slot.name, game.mechanism(), game.digest(), *game.claimed())
        return repr((about, self._trials(game), self.alpha, self.confidence, self.stop))

    def _trials(self, game: ClaimGame) -> int:
        return self.trials or game.trials

    def __call__(self, part: _Part) -> str:
        """Run one experiment, and return its outcome as JSON."""
        clock, experiment = time.perf_counter(), self.slots[part.place].experiment
        if isinstance(experiment, Check):
            # A counterexample is certain, hence the p-value 0.
            counterexample = experiment.counterexample(self.seed)
            outcome = Outcome(p_value=float(counterexample is None), event=counterexample or "")
        else:
            level = Level(experiment.claimed()[1], self.alpha, self.confidence)
            trials = self._trials(experiment)
            outcome = game_outcome(experiment, trials, level, self.seed, self.stop)
        seconds = round(time.perf_counter() - clock, 3)
        return outcome.model_copy(update={"seconds": seconds}).model_dump_json()


def _judged(slot: Slot, outcome: Outcome, adjusted: float, alpha: float) -> record.GameRecord:
    """Return the record of an experiment: its outcome, verdict and status."""
    experiment = slot.experiment
    about: dict[str, Any] = {}
    if not isinstance(experiment, Check):
        epsilon, delta = experiment.claimed()
        about = {
            "mechanism": experiment.mechanism(),
            "pair": experiment.pair(),
            "claimed": epsilon,
            "delta": delta,
            "weak": slot.weak,
        }
    verdict, status = verdict_of(slot, outcome, falsified=adjusted <= alpha)
    return record.GameRecord(
        role=slot.role,
        label=experiment.label,
        adjusted=adjusted,
        verdict=verdict,
        status=status,
        **about,
        **outcome.model_dump(),
    )


def _entry(entry: PublishedClaim, games: list[record.GameRecord]) -> record.Entry:
    published = [game.verdict for game in games if game.role == "published"]
    # If no game has power, the verdict rests on the derivation.
    verdicts = [verdict for verdict in published if verdict != "no power"] or [
        entry.recorded if games else "not tested"
    ]
    order: tuple[record.Found, ...] = ("falsified", "inconclusive")
    states = {game.status for game in games}
    worst: tuple[record.Status, ...] = ("differs", "too few trials")
    fields = record.Entry.model_fields
    shared = {name: value for name, value in vars(entry).items() if name in fields}
    return record.Entry(
        **shared,
        verdict=next((word for word in order if word in verdicts), verdicts[0]),
        status=next((word for word in worst if word in states), "as recorded"),
        games=games,
    )
