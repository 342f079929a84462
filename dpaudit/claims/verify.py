"""Plays entries of the catalogue and judges them together."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from dpaudit import __version__
from dpaudit.auditor.result import Timing
from dpaudit.bounds.estimate import Estimate
from dpaudit.bounds.labels import label_epsilon
from dpaudit.bounds.multiplicity import holm, split
from dpaudit.bounds.power import detectable_epsilon
from dpaudit.claims import record
from dpaudit.claims.entry import Check, Game, Play, PublishedClaim
from dpaudit.files import write_text
from dpaudit.provenance import environment

# A game that finds nothing says something only if it would have found this multiple of the claim.
SLACK = 1.5


class _Played(BaseModel):
    """The outcome of one play, before it is judged with the others."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    certified: Estimate | None = None
    truth: Estimate | None = None
    p_value: float
    detectable: float | None = None
    event: str = ""
    trials: int = 0
    seconds: float


@dataclass(frozen=True)
class _Slot:
    """A play's place in the catalogue."""

    entry: PublishedClaim
    role: record.Role
    play: Play

    @property
    def claimed(self) -> float:
        return 0.0 if isinstance(self.play, Check) else self.play.claimed()[0]

    @property
    def name(self) -> str:
        return f"{self.entry.id}, {self.role}: {self.play.label}"


def verify(
    entries: Sequence[PublishedClaim],
    *,
    extra: Sequence[tuple[str, Game]] = (),
    trials: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    folder: Path | None = None,
    stage: Callable[[str], None] = lambda text: None,
    advance: Callable[[int], None] = lambda done: None,
) -> record.Verification:
    """Play entries and judge them with simultaneous confidence.

    Each game is a label test of the claimed (ε, δ); the p-values are judged by Holm's procedure,
    and the bounds hold together by an even split of the error probability. The chance of any false
    accusation, or of any bound above the truth, is at most 1 − `confidence` each.

    Args:
        entries: what to play.
        extra: games on real data, each with the id of the entry that it belongs to.
        trials: worlds of either data set for every game; each game's own number if None.
        confidence: of all verdicts together.
        seed: decides every stream.
        folder: where outcomes are kept as they come, and taken from when the same game has been
            played before with the same seed, trials and level.
        stage: told what is being played.
        advance: told that so many plays are done.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
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
        tool=__version__,
        environment=environment(),
        seed=seed,
        confidence=confidence,
        size=games,
        entries=[
            _entry(entry, [game for id_, game in judged if id_ == entry.id]) for entry in entries
        ],
        timing=Timing.since(started, clock),
    )


def _adjusted(slots: Sequence[_Slot], outcomes: Sequence[_Played], alpha: float) -> list[float]:
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


def _slots(entries: Sequence[PublishedClaim], extra: Sequence[tuple[str, Game]]) -> Iterator[_Slot]:
    for entry in entries:
        yield from (_Slot(entry, "published", play) for play in entry.published)
        yield from (_Slot(entry, "corrected", play) for play in entry.corrected)
        yield from (_Slot(entry, "real data", game) for id_, game in extra if id_ == entry.id)


def _once(
    slot: _Slot, trials: int | None, alpha: float, confidence: float, seed: int, folder: Path | None
) -> _Played:
    """The outcome of a play, from the folder if the same was played before."""
    if isinstance(slot.play, Check):
        return _check(slot.play, seed)
    worlds = trials or slot.play.trials
    words = (slot.name, slot.play.mechanism(), slot.play.pair(), *slot.play.claimed())
    key = repr((__version__, words, worlds, alpha, confidence, seed)).encode()
    digest = hashlib.blake2b(key, digest_size=8).hexdigest()
    place = folder and folder / f"{slot.entry.id}-{digest}.json"
    if place and place.is_file():
        # What cannot be read is played again and replaced.
        with contextlib.suppress(ValidationError, UnicodeDecodeError):
            return _Played.model_validate_json(place.read_text(encoding="utf-8"))
    outcome = _play(slot.play, worlds, alpha, confidence, seed)
    if place:
        write_text(place, outcome.model_dump_json(indent=1) + "\n")
    return outcome


def _check(check: Check, seed: int) -> _Played:
    clock = time.perf_counter()
    found = check.counterexample(seed)
    # A counterexample to a statement of algebra is certain.
    return _Played(p_value=float(found is None), event=found or "", seconds=_since(clock))


def _play(game: Game, trials: int, alpha: float, confidence: float, seed: int) -> _Played:
    clock = time.perf_counter()
    epsilon, delta = game.claimed()
    worlds = game.play(trials, seed)
    estimate, test = label_epsilon(
        worlds.absent, worlds.present, delta=delta, alpha=alpha, confidence=confidence, seed=seed
    )
    return _Played(
        certified=estimate,
        truth=worlds.truth,
        p_value=test.p_value(epsilon, delta, alpha),
        detectable=detectable_epsilon(epsilon, estimate.n, alpha, delta=delta),
        event=str(test),
        trials=trials,
        seconds=_since(clock),
    )


def _since(clock: float) -> float:
    return round(time.perf_counter() - clock, 3)


def _judged(slot: _Slot, played: _Played, adjusted: float, alpha: float) -> record.Game:
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
        }
    verdict, status = _verdict(slot, played, falsified=adjusted <= alpha)
    return record.Game(
        role=slot.role,
        label=play.label,
        adjusted=adjusted,
        verdict=verdict,
        status=status,
        **about,
        **played.model_dump(),
    )


def _verdict(
    slot: _Slot, played: _Played, *, falsified: bool
) -> tuple[record.Found, record.Status]:
    recorded = slot.entry.recorded
    false_expected = recorded == "falsified" and slot.role != "corrected"
    if falsified:
        return "falsified", "as recorded" if false_expected else "differs"
    unrefuted: record.Found = "not falsified"
    if slot.role == "published" and recorded != "falsified":
        unrefuted = recorded
    if played.detectable is None or slot.role == "real data":
        return (
            unrefuted,
            "differs" if slot.role == "published" and false_expected else "as recorded",
        )
    if false_expected:
        would_be_found = played.truth is not None and played.truth.lower >= played.detectable
        return (unrefuted, "differs") if would_be_found else ("inconclusive", "too few trials")
    if played.detectable > SLACK * slot.claimed:
        return "inconclusive", "too few trials"
    return unrefuted, "as recorded"


def _entry(entry: PublishedClaim, games: list[record.Game]) -> record.Entry:
    published = [game.verdict for game in games if game.role == "published"]
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
        because=entry.because,
        recorded=entry.recorded,
        verdict=next((word for word in order if word in published), published[0]),
        status=next((word for word in worst if word in states), "as recorded"),
        games=games,
    )
