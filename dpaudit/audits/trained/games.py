"""The games of a config on trained models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from dpaudit.auditor.distinguishing import GameMeasure, OneGame, game_key
from dpaudit.auditor.games.game import DistinguishingGame
from dpaudit.auditor.games.outcomes import CoinScores, GameScores
from dpaudit.auditor.measure import MetricKey, RecordPart, gated, points
from dpaudit.auditor.no_model import attempted
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.audits.trained.observers import sees_steps
from dpaudit.audits.trained.one_training import rare_ratings, run_coins_game
from dpaudit.audits.trained.pairs import MANY, Pairs
from dpaudit.audits.trained.steps_law import (
    TRAININGS,
    StepsLaw,
    joint_divergence,
    score_divergences,
    steps_law,
)
from dpaudit.audits.trained.subject import TrainedModel, TrainedModels, fitting
from dpaudit.audits.trained.trained_game import trained_game
from dpaudit.config import tables
from dpaudit.core.claim import delta_of
from dpaudit.execution.executor import Executor
from dpaudit.record import result as records


class TrainedGames(GameMeasure[TrainedConfig, TrainedModel]):
    """`epsilon` of every game at every ε, with its controls; advantages, `leak` and `game.kl`."""

    def __init__(self, subject: TrainedModels[Any]) -> None:
        """Keep the context and the ratings."""
        self.context, self.ratings = subject.context, subject.learned

    @classmethod
    def plan(cls, config: TrainedConfig) -> Iterator[MetricKey]:
        """Yield the keys of games, and one key of divergences per game and point."""
        yield from super().plan(config)
        for model, epsilon in points(config):
            for game in config.game:
                if game.pair != "many" and gated(config, "game.kl"):
                    yield game_key("game.kl", model, epsilon, game)
                yield game_key("game.kl", model, epsilon, game, joint=False)

    def games(self, model: TrainedModel) -> Iterator[RecordPart]:
        """Run each game of the config at every ε."""
        for game in self.context.config.game:
            stage = f"{model.label}: game {game.label}"
            run = self._many if game.pair == "many" else self._pair
            pairs: list[records.PairRecord] = []
            for defense in model.defenses:
                for measured in self.context.unit(stage, partial(run, stage, model, defense, game)):
                    if isinstance(measured, records.PairRecord):
                        pairs.append(measured)
                    else:
                        yield measured
            # All values of ε have the same pair.
            yield from pairs[-1:]

    def _executor(
        self, stage: str, model: TrainedModel, game: tables.Game, defense: Any
    ) -> Executor:
        return self.context.tasks(stage, model.model, game, of=[defense], controlled=True)

    def _pair(
        self, stage: str, model: TrainedModel, defense: Any, game: tables.Game
    ) -> Iterator[RecordPart]:
        """Run the game of two neighbouring data sets, certified by the label test."""
        adjacency, observe, pair, target = Pairs(self.ratings).of(model.label, game, defense)
        executor = partial(self._executor, stage, model, game)
        attack, seed, family = game.create("game"), self.context.seed, self.context.family
        submits = sees_steps(defense, observe) and "recommender" in defense.observers()
        laws: list[StepsLaw | None] = []

        def score(mechanism: Any, seed: int) -> GameScores:
            running = trained_game(mechanism, pair, attack, observe, target)
            scores = running.run(trials=game.trials, seed=seed, executor=executor(mechanism))
            if mechanism is not defense or not submits:
                return scores
            laws.append(self._law(running, defense, executor(defense)))
            return replace(scores, truth=laws[0] and laws[0].epsilon)

        one = OneGame(model.label, defense, game, score, game.trainings + fitting(game))
        certificate = self.certificate(one)
        scores = certificate.outcomes
        observer = observe if submits else None
        yield from self.measurements(one, certificate, observer=observer)
        divergences = {}
        if submits:
            divergences = score_divergences(scores, seed=seed, alpha=1 - family.confidence)
        if gated(self.context.config, "game.kl"):
            divergences["one threshold"] = joint_divergence(
                scores,
                laws[0] if laws else None,
                defense.steps_mu(defense.prepare(pair.after, pair.public)),
                alpha=family.alpha,
                confidence=family.confidence,
            )
        for name, estimate in divergences.items():
            yield one.key("game.kl").measured(estimate, estimator=name)
        words = pair.details if game.details else pair.summary
        summary = f"{words} ({adjacency}, observer {observe})"
        yield records.PairRecord(model=model.label, pair=game.label, summary=summary)

    def _law(
        self, running: DistinguishingGame[Any], defense: Any, executor: Executor
    ) -> StepsLaw | None:
        """Return what the law of the steps' noise says; None if a training diverges."""
        self.context.progress.expect(2 * TRAININGS)
        law = partial(
            steps_law,
            running,
            delta=delta_of(defense.claim()),
            seed=self.context.seed,
            executor=executor,
        )
        return attempted(law, None)

    def _many(
        self, stage: str, model: TrainedModel, defense: Any, game: tables.Game
    ) -> Iterator[RecordPart]:
        """Run the game of many ratings, each decided by a coin that is guessed."""
        rows, attack = rare_ratings(self.ratings, game.candidates), game.create("game")

        def score(mechanism: Any, seed: int) -> CoinScores:
            return run_coins_game(
                mechanism,
                MANY,
                self.ratings,
                rows,
                attack,
                trainings=game.trials,
                seed=seed,
                executor=self._executor(stage, model, game, mechanism),
            )

        one = OneGame(model.label, defense, game, score, game.trainings + fitting(game))
        yield from self.measurements(one, self.certificate(one))
        summary = (
            f"in each of {game.trials} trainings {len(rows)} ratings, one of each of as many users "
            "on the items with the fewest raters, are at either end of the scale by coins of their "
            "own (rating-replace, observer iterates)"
        )
        yield records.PairRecord(model=model.label, pair=game.label, summary=summary)
