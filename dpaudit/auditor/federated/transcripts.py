"""What the submissions of a federated training give away: which are real, round by round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import SubmissionTest, Watcher
from dpaudit.core.transcripts import Pairs, Round, Verdicts
from dpaudit.defenses.federated.transcript import Distances, Transcript
from dpaudit.kernels.federated import divergences

Rows = NDArray[np.int64]

# The pairs that an attacker watches who must keep whole sequences and says nothing else.


@dataclass(frozen=True, eq=False)
class Seen:
    """What one attacker makes of what he was shown so far.

    Attributes:
        rows: the pairs that he watched `(n,)`; all of them in their order, or some.
        verdicts: his scores and p-values of these.
    """

    rows: Rows
    verdicts: Verdicts


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What is known after some rounds of one training.

    Attributes:
        step: how many rounds.
        seen: what each attacker makes of them, by label; empty where none was asked.
        divergence: of each pair's real submissions from fake ones so far, in nats `(P,)`; for a
            pair that is fake, of those that she would have made.
        parts: the means over all ratings of what it consists of, in nats, where fakes are the same
            for all users and nothing is cut.
    """

    step: int
    seen: Mapping[str, Seen]
    divergence: NDArray[np.float32]
    parts: Distances | None


def play_transcript(
    transcript: Transcript,
    attacks: Mapping[str, SubmissionTest],
    steps: Sequence[int],
    asked: Sequence[int],
    seed: int,
) -> Iterator[Checkpoint]:
    """Play a training to its end, and stop after some rounds.

    Args:
        transcript: the training, of which nothing was played.
        attacks: the attackers, by label.
        steps: after how many rounds to stop.
        asked: those of them after which the attackers are asked.
        seed: decides which pairs are watched by attackers who must keep whole sequences.
    """
    pairs, total = transcript.pairs, None
    eyes = {label: _Eyes.of(attack, transcript, seed) for label, attack in attacks.items()}
    divergence = np.zeros(len(pairs), np.float32)
    wanted = set(steps)
    for step, (round_, distances) in enumerate(transcript.rounds(), 1):
        _add(divergence, pairs, round_)
        total = _sum(total, distances)
        for each in eyes.values():
            each.see(round_)
        if step in wanted:
            told = eyes if step in asked else {}
            yield Checkpoint(
                step=step,
                seen={label: Seen(one.rows, one.watcher.verdicts()) for label, one in told.items()},
                divergence=divergence.copy(),
                parts=_nats(total, pairs.sigma),
            )


@dataclass(frozen=True, eq=False)
class _Eyes:
    """What one attacker is shown."""

    rows: Rows
    watcher: Watcher
    local: NDArray[np.int32] | None  # the place of each pair among his own, −1 of another's

    @classmethod
    def of(cls, attack: SubmissionTest, transcript: Transcript, seed: int) -> _Eyes:
        pairs = transcript.pairs
        if attack.most_pairs is None:
            return cls(np.arange(len(pairs)), attack.watch(pairs), None)
        rows = _some(transcript.real, attack.most_pairs, seed)
        local = np.full(len(pairs), -1, np.int32)
        local[rows] = np.arange(len(rows))
        own = replace(pairs, users=pairs.users[rows], items=pairs.items[rows])
        return cls(rows, attack.watch(own), local)

    def see(self, round_: Round) -> None:
        if self.local is None:
            self.watcher.see(round_)
            return
        place = self.local[round_.place]
        mine = place >= 0
        made_up = round_.made_up
        self.watcher.see(
            replace(
                round_,
                place=place[mine],
                shown=round_.shown[mine],
                gradients=round_.gradients[mine],
                made_up=None if made_up is None else made_up[mine],
            )
        )


def _some(real: NDArray[np.bool_], count: int, seed: int) -> Rows:
    """At most `count` pairs, as many real as fake, increasing."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, *b"watched pairs"]))
    chosen = []
    for label in (True, False):
        rows = np.flatnonzero(real == label)
        chosen.append(rng.choice(rows, min(len(rows), count // 2), replace=False))
    return np.sort(np.concatenate(chosen))


def _add(divergence: NDArray[np.float32], pairs: Pairs, round_: Round) -> None:
    """Add a round's divergence of real submissions from fakes to each pair's."""
    if pairs.level is not None:
        divergences.add_two_valued(round_.place, round_.gradients, pairs.level, divergence)
    elif not pairs.sigma:
        return  # without noise nothing is as likely as a fake
    elif round_.made_up is None:
        divergences.add_normal(
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
    """Squared distances as divergences of normal submissions; None without noise."""
    if total is None or not sigma:
        return None
    return Distances(*(each / (2 * sigma**2) for each in astuple(total)))
