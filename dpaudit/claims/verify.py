"""Run entries of the catalogue and judge them with family-wise confidence."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import dpaudit
from dpaudit.auditor.games.controls import GameResult, control_seed, controls_of, reported
from dpaudit.bounds.frequentist.labels import LabelTest, label_epsilon
from dpaudit.bounds.frequentist.seeds import settled
from dpaudit.bounds.multiplicity import holm, split
from dpaudit.claims import record
from dpaudit.claims.entry import Check, Experiment, Game, GameScores, PublishedClaim
from dpaudit.claims.verdicts import Outcome, Slot, verdict_of
from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Estimate
from dpaudit.core.files import read_text, write_text
from dpaudit.core.provenance import environment
from dpaudit.record.result import Timing

# File with the seed of the outcomes in a folder.
_SEED = "seed.txt"
# Largest size of an outcome's file, in characters.
_LARGEST = 2**20


def verify(
    entries: Sequence[PublishedClaim],
    *,
    extra: Sequence[tuple[str, Experiment]] = (),
    trials: int | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    folder: Path | None = None,
    stage: Callable[[str], None] = lambda text: None,
    advance: Callable[[int], None] = lambda done: None,
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
        seed: seed of all random streams; None for the folder's seed, or a new one if it has none.
            The level of the label tests is over the choice of the seed.
        folder: where outcomes are stored. A stored outcome is reused if the game, its data, seed,
            trials and level, the code and the libraries are the same.
        stage: called with the name of each experiment before it runs.
        advance: called with the number of experiments that finished since the last call.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    seed = seed_of(folder, seed)
    slots = list(_slots(entries, extra))
    games = sum(not isinstance(slot.experiment, Check) for slot in slots)
    alpha = split(1 - confidence, max(games, 1))
    outcomes = []
    for slot in slots:
        stage(slot.name)
        outcomes.append(_once(slot, trials, alpha, confidence, seed, folder))
        advance(1)
    judged = [
        (slot.entry.id, _judged(slot, outcome, p, 1 - confidence))
        for slot, outcome, p in zip(slots, outcomes, _adjusted(slots, outcomes, alpha), strict=True)
    ]
    return record.Verification(
        tool=dpaudit.__version__,
        environment=environment(),
        seed=seed,
        confidence=confidence,
        size=games,
        entries=[
            _entry(entry, [game for id_, game in judged if id_ == entry.id]) for entry in entries
        ],
        timing=Timing.since(started, clock),
    )


def seed_of(folder: Path | None, seed: int | None) -> int:
    """Return `seed` if given, else the folder's stored seed, else a new one; store it there.

    An interrupted verification thus continues with its own seed.
    """
    if folder is None:
        return settled(seed)
    place = folder / _SEED
    if seed is None and place.is_file():
        with contextlib.suppress(ValueError, UnicodeDecodeError, ConfigError):
            kept = int(read_text(place, 100))
            if 0 <= kept < 2**64:
                return kept
    seed = settled(seed)
    write_text(place, f"{seed}\n")
    return seed


def _adjusted(slots: Sequence[Slot], outcomes: Sequence[Outcome], alpha: float) -> list[float]:
    """Adjust the games' p-values (Holm); a check's counterexample is certain and stays as it is."""
    games = [i for i, slot in enumerate(slots) if not isinstance(slot.experiment, Check)]
    adjusted = [outcome.p_value for outcome in outcomes]
    if games:
        found = holm([outcomes[i].p_value for i in games], alpha).adjusted
        for i, p in zip(games, found, strict=True):
            adjusted[i] = p
    return adjusted


def count(entries: Sequence[PublishedClaim]) -> int:
    """Return the number of experiments of these entries."""
    return sum(len(entry.published) + len(entry.corrected) for entry in entries)


def _slots(
    entries: Sequence[PublishedClaim], extra: Sequence[tuple[str, Experiment]]
) -> Iterator[Slot]:
    for entry in entries:
        yield from (Slot(entry, "published", experiment) for experiment in entry.published)
        yield from (Slot(entry, "corrected", experiment) for experiment in entry.corrected)
        yield from (Slot(entry, "real data", game) for id_, game in extra if id_ == entry.id)


def _once(
    slot: Slot, trials: int | None, alpha: float, confidence: float, seed: int, folder: Path | None
) -> Outcome:
    """Return the outcome of an experiment, from the folder if the same game was run before."""
    if isinstance(slot.experiment, Check):
        return _check(slot.experiment, seed)
    count = trials or slot.experiment.trials
    if folder is None:
        return _run(slot.experiment, count, alpha, confidence, seed)
    words = (
        slot.name,
        slot.experiment.mechanism(),
        slot.experiment.digest(),
        *slot.experiment.claimed(),
    )
    key = repr((_code(), words, count, alpha, confidence, seed)).encode()
    digest = hashlib.blake2b(key, digest_size=8).hexdigest()
    place = folder / f"{slot.entry.id}-{digest}.json"
    if place.is_file():
        # An unreadable outcome is computed again and replaced.
        with contextlib.suppress(ValidationError, UnicodeDecodeError, ConfigError):
            return Outcome.model_validate_json(read_text(place, _LARGEST))
    outcome = _run(slot.experiment, count, alpha, confidence, seed)
    write_text(place, outcome.model_dump_json(indent=1) + "\n")
    return outcome


@functools.cache
def _code() -> str:
    """Digest of the package's source and the libraries' versions.

    It prevents the reuse of outcomes that other code computed.
    """
    state = hashlib.blake2b(repr(environment()).encode(), digest_size=16)
    root = Path(dpaudit.__file__).parent
    for path in sorted(root.rglob("*.py")):
        state.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return state.hexdigest()


def _check(check: Check, seed: int) -> Outcome:
    clock = time.perf_counter()
    found = check.counterexample(seed)
    # A counterexample is certain, hence the p-value 0.
    return Outcome(p_value=float(found is None), event=found or "", seconds=_since(clock))


def _run(game: Game, trials: int, alpha: float, confidence: float, seed: int) -> Outcome:
    clock = time.perf_counter()
    epsilon, delta = game.claimed()

    def certified(game: Game, seed: int) -> tuple[GameScores, Estimate, LabelTest]:
        scores = game.run(trials, seed)
        return scores, *label_epsilon(
            scores.absent,
            scores.present,
            delta=delta,
            alpha=alpha,
            confidence=confidence,
            seed=seed,
        )

    scores, estimate, test = certified(game, seed)
    tried = controls_of(
        lambda factor: certified(game.mutant(factor), control_seed(seed, factor))[1].lower,
        GameResult(epsilon, delta, estimate, scores.truth),
    )
    return Outcome(
        certified=estimate,
        truth=scores.truth,
        p_value=test.p_value(epsilon, delta, alpha),
        control=reported(tried),
        tried=tried,
        event=str(test),
        trials=trials,
        seconds=_since(clock),
    )


def _since(clock: float) -> float:
    return round(time.perf_counter() - clock, 3)


def _judged(slot: Slot, outcome: Outcome, adjusted: float, alpha: float) -> record.Game:
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
    return record.Game(
        role=slot.role,
        label=experiment.label,
        adjusted=adjusted,
        verdict=verdict,
        status=status,
        **about,
        **outcome.model_dump(),
    )


def _entry(entry: PublishedClaim, games: list[record.Game]) -> record.Entry:
    published = [game.verdict for game in games if game.role == "published"]
    # If no game has power, the verdict rests on the derivation.
    told = [verdict for verdict in published if verdict != "no power"] or [entry.recorded]
    order: tuple[record.Found, ...] = ("falsified", "inconclusive")
    states = {game.status for game in games}
    worst: tuple[record.Status, ...] = ("differs", "too few trials")
    return record.Entry(
        id=entry.id,
        sentence=entry.sentence,
        source=entry.source,
        adjacency=entry.adjacency,
        observer=entry.observer,
        reading=entry.reading,
        basis=entry.basis,
        because=entry.because,
        recorded=entry.recorded,
        verdict=next((word for word in order if word in told), told[0]),
        status=next((word for word in worst if word in states), "as recorded"),
        games=games,
    )
