"""What the servers of federated trainings see, as a config asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import SubmissionTest
from dpaudit.auditor.federated.scores import Finding, Truth, averaged, gated
from dpaudit.auditor.federated.transcripts import play_transcript
from dpaudit.auditor.measures.training_errors import in_threads
from dpaudit.bounds.frequentist.clusters import student_mean
from dpaudit.config import schema as configs
from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold
from dpaudit.record import result as records

# The error is measured after about so many numbers of rounds.
_CURVE = 40


@dataclass(frozen=True)
class Transcripts:
    """Plays the `[transcript]` of a config.

    Attributes:
        wanted: the table.
        attacks: the attackers, by label.
        fold: what is learned from, and what it is tested on.
        family: the level of the intervals that may gate.
        gated: whether areas are gated, and so have a share of the family's level.
        seed: decides every stream.
        threads: number of threads; the numbers do not depend on it.
        advance: told the number of trainings done.
    """

    wanted: configs.Transcript
    attacks: dict[str, SubmissionTest]
    fold: Fold
    family: records.Family
    gated: bool
    seed: int
    threads: int
    advance: Callable[[int], None]

    def play(self, label: str, defenses: Sequence[Any]) -> list[records.Measurement]:
        """What is seen of a model at every ε.

        Raises:
            ConfigError: the data do not fit the model, or rounds are asked for that it has not.
            RunError: a training diverged.
        """
        prepared = [defense.prepare(self.fold.train) for defense in defenses]
        worlds = self.wanted.worlds
        streams = Streams.first(self.seed, "transcript", worlds)
        pieces = (
            partial(self._training, defense, data, world)
            for defense, data in zip(defenses, prepared, strict=True)
            for world in streams.blocks(1)
        )
        played = in_threads(pieces, self.threads, lambda _: self.advance(1))
        found = []
        for place, defense in enumerate(defenses):
            mine = played[place * worlds : (place + 1) * worlds]
            for finding in self._together(mine, defense.rounds):
                found.append(
                    records.Measurement(model=label, epsilon=defense.epsilon, **vars(finding))
                )
        return found

    def _together(self, worlds: list[list[Finding]], last: int) -> Iterator[Finding]:
        measured = [[each for each in world if each.metric != _ERROR] for world in worlds]
        if self.gated:
            yield from gated(measured, last, self.family.alpha, self.family.confidence)
        yield from averaged(measured)
        errors: dict[int, list[float]] = {}
        for world in worlds:
            for each in world:
                if each.metric == _ERROR:
                    errors.setdefault(each.step, []).append(each.estimate.value)
        for step, values in errors.items():
            mean = student_mean(values, 1 - self.family.confidence, "trainings")
            yield Finding(_ERROR, step, mean)

    def _training(self, defense: Any, prepared: Any, world: Streams) -> list[Finding]:
        """One training, its attackers asked and its error measured as it goes."""
        transcript = defense.transcript(prepared, world, self._users(prepared.n_users))
        if self.attacks and defense.variant != "nonprivate":
            _check_pairs(transcript)
        last = defense.rounds
        asked = self.wanted.steps(last)
        every = max(1, last // _CURVE)
        # Without privacy users submit no fakes.
        attacks = self.attacks if defense.variant != "nonprivate" else {}
        truth = Truth(transcript.pairs, transcript.real, self.family.confidence)
        floor = Estimate.exact(float(transcript.floored), "counted")
        asks = defense.public_share is None
        found = [Finding("assumption.floor", 0, floor)] if asks else []
        for checkpoint in play_transcript(
            transcript, attacks, sorted({*asked, *range(every, last + 1, every)}), asked, self.seed
        ):
            step = checkpoint.step
            found.append(Finding(_ERROR, step, Estimate.exact(self._error(transcript), "rmse")))
            if checkpoint.seen:
                found += truth.findings(checkpoint, last=step == last)
        return found

    def _users(self, count: int) -> NDArray[np.bool_] | None:
        if self.wanted.users >= count:
            return None
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, *b"watched users"]))
        watched = np.zeros(count, np.bool_)
        watched[rng.choice(count, self.wanted.users, replace=False)] = True
        return watched

    def _error(self, transcript: Any) -> float:
        fold = self.fold
        shown = transcript.models().predict(fold.users, fold.items)[0].astype(np.float64)
        return float(np.sqrt(np.mean((shown - fold.values) ** 2)))


_ERROR: records.Metric = "transcript.rmse"


def _check_pairs(transcript: Any) -> None:
    """Refuse pairs that no interval can be made of, before anything is played.

    Raises:
        ConfigError: fewer than two users have real ones, or fakes.
    """
    real, users = transcript.real, transcript.pairs.users
    for what, these in (("real pairs", real), ("fakes", ~real)):
        if len(np.unique(users[these])) < 2:
            raise ConfigError(
                f"fewer than two of the watched users submit {what}, so nothing can be said of "
                "users like them: raise transcript.users or params.density, or use more data"
            )


def check_transcript(config: configs.Config) -> None:
    """Refuse what no model shows, and attacks that do not exist, before anything is trained.

    Raises:
        ConfigError: with the remedy.
    """
    if config.transcript is None:
        return
    for attack in config.watching:
        attack.create("attack")
    for model in config.model:
        for defense in model.defenses("model"):
            config.transcript.steps(defense.rounds)
            if defense.variant != "nonprivate" and defense.density == 0:
                raise ConfigError(
                    f"model {model.label!r} has params.density = 0, so nobody submits a fake that "
                    "[transcript] could tell from real ones: raise it, or remove [transcript]"
                )
            if model.grid:
                raise ConfigError(
                    f"model {model.label!r} has a grid, and [transcript] watches one combination: "
                    "set params to what was chosen"
                )
