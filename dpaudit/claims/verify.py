"""Run entries of the catalogue and judge them with family-wise confidence."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from dpaudit.auditor.games.certify import Level
from dpaudit.bounds.multiplicity import holm, split
from dpaudit.bounds.outcomes import settled
from dpaudit.claims import record
from dpaudit.claims.entry import Check, ClaimGame, Experiment, PublishedClaim
from dpaudit.claims.experiment import Outcome, Slot, check_outcome, game_outcome, verdict_of
from dpaudit.core.errors import ConfigError
from dpaudit.execution.executor import Executor
from dpaudit.execution.store import NAME, opened, others_results, seed_in
from dpaudit.execution.tasks import Progress, Task, environment, identity_of, tool_version
from dpaudit.execution.workers import ONE_THREAD, Workers, started
from dpaudit.record.result import Timing


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
        outcome = (
            check_outcome(experiment, self.seed)
            if isinstance(experiment, Check)
            else self._game_outcome(experiment)
        )
        seconds = round(time.perf_counter() - clock, 3)
        return outcome.model_copy(update={"seconds": seconds}).model_dump_json()

    def _game_outcome(self, game: ClaimGame) -> Outcome:
        level = Level(game.claimed()[1], self.alpha, self.confidence)
        return game_outcome(game, self._trials(game), level, self.seed, self.stop)


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
