"""The distinguishing games of a config, on models of any kind."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from dpaudit.auditor.context import Context
from dpaudit.auditor.games.certify import Certificate, Level, NoiseGame
from dpaudit.auditor.games.controls import mutant_of
from dpaudit.auditor.games.outcomes import CoinScores, GameScores
from dpaudit.auditor.gate import bars
from dpaudit.auditor.leak import leaks
from dpaudit.auditor.means import joint_mean
from dpaudit.auditor.measure import Measure, MetricKey, RecordPart, gated, points
from dpaudit.bounds.frequentist.roc import best_advantage
from dpaudit.config.models import ModelsConfig
from dpaudit.config.tables import Game
from dpaudit.core.claim import delta_of
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Family, FindingRecord, Measurement

C = TypeVar("C", bound=ModelsConfig)
M = TypeVar("M")


@dataclass(frozen=True)
class OneGame:
    """A game of the config on a model at one ε.

    Attributes:
        label: the model's label.
        defense: the model's defense.
        game: the game.
        score: runs the game on the defense, or on a mutant, with a seed.
        trainings: the number of trials or trainings of a mutant, for the progress.
    """

    label: str
    defense: Any
    game: Game
    score: Callable[[Any, int], GameScores | CoinScores]
    trainings: int

    def key(self, metric: str = "epsilon") -> MetricKey:
        """Return the key of a number of the game, by default that of its bound."""
        return game_key(metric, self.label, self.defense.epsilon, self.game)


class GameMeasure(Measure[C, M]):
    """`epsilon` of every game at every ε, with its controls; and `attack.advantage`, `leak`."""

    context: Context[C]

    @classmethod
    def plan(cls, config: C) -> Iterator[MetricKey]:
        """Yield one bound per game and point, and the advantages and leaks that gates judge."""
        for model, epsilon in points(config):
            for game in config.game:
                yield game_key("epsilon", model, epsilon, game)
        for model, epsilon in points(config) if _judges_advantage(config) else ():
            for game in config.game:
                yield game_key("attack.advantage", model, epsilon, game)
            yield MetricKey("leak", model, epsilon)

    def run(self, model: M) -> Iterator[RecordPart]:
        """Run each game of the config at every ε."""
        measurements = list(self.games(model))
        yield from (*measurements, *leaks(measurements))

    @abstractmethod
    def games(self, model: M) -> Iterator[RecordPart]:
        """Yield what each game measures at every ε, and its pair."""

    def certificate(self, one: OneGame) -> Certificate[Any]:
        """Certify ε, with mutants that exceed the claim and the limits of gates."""
        claim, context = one.defense.claim(), self.context

        def weaken(defense: Any, factor: float) -> Any:
            mutant = mutant_of(defense, factor)
            context.progress.expect(one.trainings)
            return mutant

        game = NoiseGame(
            one.defense,
            one.score,
            weaken,
            Level.of(context.family, delta_of(claim)),
            context.seed,
            claim and claim.epsilon,
        )
        return game.certified(bars(context.config.gate, one.key(), game.claimed))

    def measurements(
        self, one: OneGame, certificate: Certificate[Any], **fields: Any
    ) -> Iterator[Measurement | FindingRecord]:
        """Yield the bound, mutants that failed and, if a gate judges it, the advantage.

        Args:
            one: the game.
            certificate: its bound.
            fields: further fields of the bound's measurement.
        """
        truth = certificate.outcomes.truth
        yield one.key().measured(**certificate.fields, theory=truth, **fields)
        for failed in certificate.failed:
            yield FindingRecord(
                model=one.label,
                about="control",
                text=f"Game {one.game.label}: {failed}, so its power there is not measured.",
                remedy="Let the defense run with less noise too, or take a game that can be run on "
                "it: no gate passes by a control that was not run.",
                epsilon=one.defense.epsilon,
                metrics=("epsilon",),
            )
        if _judges_advantage(self.context.config):
            estimate = _advantage(certificate.outcomes, self.context.family)
            yield one.key("attack.advantage").measured(estimate)


def game_key(
    metric: str, model: str, epsilon: float, game: Game, *, joint: bool = True
) -> MetricKey:
    """Return the key of a number of a game on a model at one ε."""
    return MetricKey(metric, model, epsilon, attack=game.attack, pair=game.label, joint=joint)


def _judges_advantage(config: ModelsConfig) -> bool:
    """Return whether the advantage of games is measured: only if a gate judges it or the leak."""
    return bool(config.game) and gated(config, "leak", "attack.advantage")


def _advantage(outcomes: GameScores | CoinScores, family: Family) -> Estimate:
    """Estimate how much better than chance the scores tell the data.

    The advantage of guessing a fair coin by the sign of its score is twice the share of right
    guesses, less 1. The sample are the trainings, as the coins of one training share its noise.
    """
    if isinstance(outcomes, GameScores):
        return best_advantage(
            outcomes.absent, outcomes.present, alpha=family.alpha, confidence=family.confidence
        )
    right = (outcomes.scores > 0) == (outcomes.coins == 1)
    shares = right.reshape(outcomes.trainings, -1).mean(1)
    return joint_mean(np.asarray(2 * shares - 1), family, least=-1.0)
