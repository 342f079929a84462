"""Runs of federated trainings in which attacks infer which submissions are real, round by round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import SubmissionTest, TranscriptReader
from dpaudit.core.streams import generator
from dpaudit.core.transcripts import Round, UserItemPairs, Verdicts
from dpaudit.defenses.federated.observation import Distances, TrainingTranscript
from dpaudit.kernels.federated.transcripts import add_normal, add_two_valued

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Seen:
    """What one attack infers from the rounds so far.

    Attributes:
        rows: the pairs that the attack observed, increasing `(n,)`.
        verdicts: its scores and p-values of these pairs.
    """

    rows: Rows
    verdicts: Verdicts


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of one training after some rounds.

    Attributes:
        step: number of rounds.
        seen: what each attack infers, by label; empty if attacks are not evaluated here.
        divergence: Kullback-Leibler divergence of each pair's real submissions from fake ones so
            far, in nats `(P,)`; for a fake pair, of the submissions that a real one would make.
        parts: the components of the divergence, averaged over all ratings, in nats; None unless
            fakes are the same for all users and nothing is clipped.
    """

    step: int
    seen: Mapping[str, Seen]
    divergence: NDArray[np.float64]
    parts: Distances | None


def run_transcript(
    transcript: TrainingTranscript,
    attacks: Mapping[str, SubmissionTest],
    steps: Sequence[int],
    asked: Sequence[int],
    seed: int,
) -> Iterator[Checkpoint]:
    """Run a training to its end, and yield a checkpoint after each of the given rounds.

    Args:
        transcript: a training that has not started.
        attacks: the attacks, by label.
        steps: numbers of rounds after which to yield a checkpoint.
        asked: those of `steps` at which the attacks are evaluated.
        seed: seed of the choice of pairs for attacks that must store whole sequences.
    """
    pairs, total = transcript.pairs, None
    eyes = {label: _Shown.of(attack, transcript, seed) for label, attack in attacks.items()}
    divergence = np.zeros(len(pairs))
    wanted = set(steps)
    for step, (round_, distances) in enumerate(transcript.rounds(), 1):
        _add(divergence, pairs, round_)
        total = _sum(total, distances)
        for eye in eyes.values():
            eye.see(round_)
        if step in wanted:
            views = eyes if step in asked else {}
            yield Checkpoint(
                step=step,
                seen={label: Seen(one.rows, one.reader.verdicts()) for label, one in views.items()},
                divergence=divergence.copy(),
                parts=_nats(total, pairs.sigma),
            )


@dataclass(frozen=True, eq=False)
class _Shown:
    """The view of one attack."""

    rows: Rows
    reader: TranscriptReader
    local: NDArray[np.int32] | None  # each pair's place in `rows`, or −1; None: all are observed

    @classmethod
    def of(cls, attack: SubmissionTest, transcript: TrainingTranscript, seed: int) -> _Shown:
        pairs = transcript.pairs
        if attack.most_pairs is None:
            return cls(np.arange(len(pairs)), attack.reader(pairs), None)
        rows = _some(transcript.real, attack.most_pairs, seed)
        local = np.full(len(pairs), -1, np.int32)
        local[rows] = np.arange(len(rows))
        subset = replace(pairs, users=pairs.users[rows], items=pairs.items[rows])
        return cls(rows, attack.reader(subset), local)

    def see(self, round_: Round) -> None:
        if self.local is None:
            self.reader.see(round_)
            return
        place = self.local[round_.place]
        mask = place >= 0
        made_up = round_.made_up
        self.reader.see(
            replace(
                round_,
                place=place[mask],
                shown=round_.shown[mask],
                gradients=round_.gradients[mask],
                made_up=None if made_up is None else made_up[mask],
            )
        )


def _some(real: NDArray[np.bool_], count: int, seed: int) -> Rows:
    """Draw at most `count` pairs, half real and half fake, increasing."""
    rng = generator(seed, "watched pairs")
    chosen = []
    for label in (True, False):
        rows = np.flatnonzero(real == label)
        chosen.append(rng.choice(rows, min(len(rows), count // 2), replace=False))
    return np.sort(np.concatenate(chosen))


def _add(divergence: NDArray[np.float64], pairs: UserItemPairs, round_: Round) -> None:
    """Add a round's divergence of real submissions from fakes to each pair's total."""
    if pairs.level is not None:
        add_two_valued(round_.place, round_.gradients, pairs.level, divergence)
    elif not pairs.sigma:
        return  # without noise the divergence is not finite; it stays 0
    elif round_.made_up is None:
        add_normal(
            round_.place, round_.gradients, round_.fakes, pairs.items, pairs.sigma, divergence
        )
    else:
        apart = (round_.gradients - round_.made_up).astype(np.float64)
        divergence[round_.place] += (apart**2).sum(1) / (2 * pairs.sigma**2)


def _sum(total: Distances | None, more: Distances | None) -> Distances | None:
    if total is None or more is None:
        return more
    return Distances(*(a + b for a, b in zip(astuple(total), astuple(more), strict=True)))


def _nats(total: Distances | None, sigma: float) -> Distances | None:
    """Convert squared distances to divergences of normal submissions; None without noise."""
    if total is None or not sigma:
        return None
    return Distances(*(distance / (2 * sigma**2) for distance in astuple(total)))
