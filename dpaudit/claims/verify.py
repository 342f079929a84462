"""Plays entries of the catalogue and judges them together."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import dpaudit
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
# What rounding of predictions in single precision may add to the ε of a law, as a share.
_ROUNDING = 1e-5


class _Played(BaseModel):
    """The outcome of one play, before it is judged with the others."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    certified: Estimate | None = None
    truth: Estimate | None = None
    p_value: Annotated[float, Field(ge=0, le=1)]
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
    extra: Sequence[tuple[str, Play]] = (),
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
        extra: plays on real data, each with the id of the entry that it belongs to.
        trials: worlds of either data set for every game; each game's own number if None.
        confidence: of all verdicts together.
        seed: decides every stream.
        folder: where outcomes are kept as they come, and taken from when the same game has been
            played before on the same data with the same seed, trials and level, by the same code
            and the same libraries.
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


def _slots(entries: Sequence[PublishedClaim], extra: Sequence[tuple[str, Play]]) -> Iterator[_Slot]:
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
    if folder is None:
        return _play(slot.play, worlds, alpha, confidence, seed)
    words = (slot.name, slot.play.mechanism(), slot.play.digest(), *slot.play.claimed())
    key = repr((_code(), words, worlds, alpha, confidence, seed)).encode()
    digest = hashlib.blake2b(key, digest_size=8).hexdigest()
    place = folder / f"{slot.entry.id}-{digest}.json"
    if place.is_file():
        # What cannot be read is played again and replaced.
        with contextlib.suppress(ValidationError, UnicodeDecodeError):
            return _Played.model_validate_json(place.read_text(encoding="utf-8"))
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
    # A corrected form is played on real data too, beside the published one.
    defense = getattr(slot.play, "defense", None)
    corrected = slot.role == "corrected" or getattr(defense, "variant", None) == "corrected"
    false_expected = recorded == "falsified" and not corrected
    if falsified:
        return "falsified", "as recorded" if false_expected else "differs"
    unrefuted: record.Found = "not falsified"
    if slot.role == "published" and recorded != "falsified":
        unrefuted = recorded
    would_say = isinstance(slot.play, Check) or (
        played.detectable is not None and played.detectable <= SLACK * slot.claimed
    )
    if slot.role == "real data" and false_expected:
        # Data on which a false claim does no harm are no surprise.
        return unrefuted if would_say else "inconclusive", "as recorded"
    if isinstance(slot.play, Check):
        return unrefuted, "differs" if false_expected else "as recorded"
    if _law_differs(slot, played, above=not false_expected):
        return unrefuted if would_say else "inconclusive", "differs"
    if false_expected:
        # The plan is that of Laplace noise on one number. Other pairs show theirs in rarer events,
        # so only a miss with the game's own trials, which have found it, contradicts the catalogue.
        enough = played.trials >= slot.play.trials and _is_found(played)
        return (unrefuted, "differs") if enough else ("inconclusive", "too few trials")
    return (unrefuted, "as recorded") if would_say else ("inconclusive", "too few trials")


def _law_differs(slot: _Slot, played: _Played, *, above: bool) -> bool:
    """Whether the mechanism's law puts the pair on the other side of the claim than recorded."""
    if played.truth is None:
        return False
    if above:
        return played.truth.lower > slot.claimed * (1 + _ROUNDING)
    return played.truth.upper <= slot.claimed


def _is_found(played: _Played) -> bool:
    """Whether a pair of this ε is one that so many trials find."""
    if played.truth is None or played.detectable is None:
        return False
    return played.truth.lower >= played.detectable


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
