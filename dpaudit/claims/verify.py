"""Plays entries of the catalogue and judges them together."""

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
from dpaudit.auditor.games.controls import Trial, control_seed, controls_of, reported
from dpaudit.bounds.frequentist.labels import LabelTest, label_epsilon
from dpaudit.bounds.frequentist.seeds import settled
from dpaudit.bounds.multiplicity import holm, split
from dpaudit.claims import record
from dpaudit.claims.entry import Check, Game, Play, PublishedClaim, Worlds
from dpaudit.claims.verdicts import Played, Slot, verdict_of
from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Estimate
from dpaudit.core.files import read_text, write_text
from dpaudit.core.provenance import environment
from dpaudit.record.result import Timing

# Holds the seed of a folder's outcomes.
_SEED = "seed.txt"
# Of an outcome, in characters.
_LARGEST = 2**20


def verify(
    entries: Sequence[PublishedClaim],
    *,
    extra: Sequence[tuple[str, Play]] = (),
    trials: int | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    folder: Path | None = None,
    stage: Callable[[str], None] = lambda text: None,
    advance: Callable[[int], None] = lambda done: None,
) -> record.Verification:
    """Play entries and judge them with simultaneous confidence.

    Each game is a label test of the claimed (ε, δ); the p-values are judged by Holm's procedure,
    and the bounds hold together by an even split of the error probability. The chance of any false
    accusation, or of any bound above the truth, is at most 1 − `confidence` each. A game that
    certifies no more than the claim is played again on mutants whose noise is too small for it, at
    the same level: one that finds none has no power and no verdict. Mutants accuse nobody, so they
    do not count among the games.

    Args:
        entries: what to play.
        extra: plays on real data, each with the id of the entry that it belongs to.
        trials: worlds of either data set for every game; each game's own number if None.
        confidence: of all verdicts together.
        seed: decides every stream; None for that of the folder, or for one that is drawn. The level
            of the label tests is that over the choice of the seed.
        folder: where outcomes are kept as they come, and taken from when the same game has been
            played before on the same data with the same seed, trials and level, by the same code
            and the same libraries.
        stage: told what is being played.
        advance: told that so many plays are done.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    seed = seed_of(folder, seed)
    slots = list(_slots(entries, extra))
    games = sum(not isinstance(slot.play, Check) for slot in slots)
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
    """The given seed, else that of the folder's outcomes, else one that is drawn; it is kept there.

    So a run that was interrupted goes on with its own seed.
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


def _adjusted(slots: Sequence[Slot], outcomes: Sequence[Played], alpha: float) -> list[float]:
    """The games' p-values adjusted for one another; what is certain needs no adjustment."""
    played = [i for i, slot in enumerate(slots) if not isinstance(slot.play, Check)]
    adjusted = [outcome.p_value for outcome in outcomes]
    if played:
        found = holm([outcomes[i].p_value for i in played], alpha).adjusted
        for i, p in zip(played, found, strict=True):
            adjusted[i] = p
    return adjusted


def count(entries: Sequence[PublishedClaim]) -> int:
    """The number of plays of these entries."""
    return sum(len(entry.published) + len(entry.corrected) for entry in entries)


def _slots(entries: Sequence[PublishedClaim], extra: Sequence[tuple[str, Play]]) -> Iterator[Slot]:
    for entry in entries:
        yield from (Slot(entry, "published", play) for play in entry.published)
        yield from (Slot(entry, "corrected", play) for play in entry.corrected)
        yield from (Slot(entry, "real data", game) for id_, game in extra if id_ == entry.id)


def _once(
    slot: Slot, trials: int | None, alpha: float, confidence: float, seed: int, folder: Path | None
) -> Played:
    """The outcome of a play, from the folder if the same was played before."""
    if isinstance(slot.play, Check):
        return _check(slot.play, seed)
    worlds = trials or slot.play.trials
    if folder is None:
        return _play(slot.play, worlds, alpha, confidence, seed)
    words = (slot.name, slot.play.mechanism(), slot.play.digest(), *slot.play.claimed())
    key = repr((_code(), words, worlds, alpha, confidence, seed)).encode()
    digest = hashlib.blake2b(key, digest_size=8).hexdigest()
    place = folder / f"{slot.entry.id}-{digest}.json"
    if place.is_file():
        # What cannot be read is played again and replaced.
        with contextlib.suppress(ValidationError, UnicodeDecodeError, ConfigError):
            return Played.model_validate_json(read_text(place, _LARGEST))
    outcome = _play(slot.play, worlds, alpha, confidence, seed)
    write_text(place, outcome.model_dump_json(indent=1) + "\n")
    return outcome


@functools.cache
def _code() -> str:
    """A digest of the package's source and of the libraries' versions.

    An outcome of other code is not taken for this one's.
    """
    state = hashlib.blake2b(repr(environment()).encode(), digest_size=16)
    root = Path(dpaudit.__file__).parent
    for path in sorted(root.rglob("*.py")):
        state.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return state.hexdigest()


def _check(check: Check, seed: int) -> Played:
    clock = time.perf_counter()
    found = check.counterexample(seed)
    # A counterexample to a statement of algebra is certain.
    return Played(p_value=float(found is None), event=found or "", seconds=_since(clock))


def _play(game: Game, trials: int, alpha: float, confidence: float, seed: int) -> Played:
    clock = time.perf_counter()
    epsilon, delta = game.claimed()

    def certified(played: Game, seed: int) -> tuple[Worlds, Estimate, LabelTest]:
        worlds = played.play(trials, seed)
        return worlds, *label_epsilon(
            worlds.absent,
            worlds.present,
            delta=delta,
            alpha=alpha,
            confidence=confidence,
            seed=seed,
        )

    worlds, estimate, test = certified(game, seed)
    tried = controls_of(
        lambda factor: certified(game.mutant(factor), control_seed(seed, factor))[1].lower,
        Trial(epsilon, delta, estimate, worlds.truth),
    )
    return Played(
        certified=estimate,
        truth=worlds.truth,
        p_value=test.p_value(epsilon, delta, alpha),
        control=reported(tried),
        tried=tried,
        event=str(test),
        trials=trials,
        seconds=_since(clock),
    )


def _since(clock: float) -> float:
    return round(time.perf_counter() - clock, 3)


def _judged(slot: Slot, played: Played, adjusted: float, alpha: float) -> record.Game:
    """A play with its verdict, and whether it is what the catalogue leads to expect."""
    play = slot.play
    about: dict[str, Any] = {}
    if not isinstance(play, Check):
        epsilon, delta = play.claimed()
        about = {
            "mechanism": play.mechanism(),
            "pair": play.pair(),
            "claimed": epsilon,
            "delta": delta,
            "weak": slot.weak,
        }
    verdict, status = verdict_of(slot, played, falsified=adjusted <= alpha)
    return record.Game(
        role=slot.role,
        label=play.label,
        adjusted=adjusted,
        verdict=verdict,
        status=status,
        **about,
        **played.model_dump(),
    )


def _entry(entry: PublishedClaim, games: list[record.Game]) -> record.Entry:
    published = [game.verdict for game in games if game.role == "published"]
    # What no game could show rests on the derivation.
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
