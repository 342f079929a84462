"""The games of a config on trained models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from dpaudit.auditor.games.controls import (
    GameResult,
    control_seed,
    controls_of,
    mutant_of,
    reported,
)
from dpaudit.auditor.games.game import Scores
from dpaudit.auditor.gate import bars
from dpaudit.auditor.leak import judges_advantage, leaks, plan_of_games
from dpaudit.auditor.means import joint_mean
from dpaudit.auditor.measure import Found, Measure, MetricKey, gated, points
from dpaudit.auditor.no_model import attempted
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.audits.trained.observers import sees_steps
from dpaudit.audits.trained.one_training import CoinScores, rare_ratings, run_coins_game
from dpaudit.audits.trained.pairs import MANY, Pairs
from dpaudit.audits.trained.steps_law import (
    TRAININGS,
    joint_divergence,
    score_divergences,
    steps_law,
)
from dpaudit.audits.trained.subject import TrainedModel, TrainedModels, fitting
from dpaudit.audits.trained.trained_game import trained_game
from dpaudit.bounds.frequentist.advantage import best_advantage
from dpaudit.bounds.frequentist.labels import LabelTest, label_epsilon
from dpaudit.bounds.frequentist.one_run import one_run_scores_epsilon
from dpaudit.config.tables import Game
from dpaudit.core.estimate import Estimate
from dpaudit.execution.executor import Executor
from dpaudit.record import result as records


@dataclass(frozen=True)
class _Outcome:
    """The outcome of a game.

    Attributes:
        summary: description of its pair.
        estimate: its certified bound.
        event: the event that certifies the bound.
        advantage: how well the game's scores tell the data; None if no gate judges it.
        observer: the observer, if it sees the steps of users who submit to a recommender.
        theory: the ε by the law of the noise.
        divergences: divergence of D' from D, by the name of the estimator.
    """

    summary: str
    estimate: Estimate
    event: str
    advantage: Estimate | None
    observer: str | None = None
    theory: Estimate | None = None
    divergences: dict[str, Estimate] = field(default_factory=dict)


# Returns the executor of the trainings of a defense.
_Executors = Callable[[Any], Executor]
# Runs the game on a defense with a seed.
_Certify = Callable[[Any, int], Estimate]


class TrainedGames(Measure[TrainedConfig, TrainedModel]):
    """`epsilon` of every game at every ε, with its controls; advantages, `leak` and `game.kl`."""

    def __init__(self, subject: TrainedModels[Any]) -> None:
        """Keep the context and the ratings, and whether gates judge advantages or divergences."""
        self.context, self.ratings = subject.context, subject.learned
        self.judges = judges_advantage(self.context.config)
        self.diverges = gated(self.context.config, "game.kl")

    @classmethod
    def plan(cls, config: TrainedConfig) -> Iterator[MetricKey]:
        """Yield one bound and one key of divergences per game and point, and gated advantages."""
        for model, epsilon in points(config):
            for game in config.game:
                yield MetricKey("epsilon", model, epsilon, attack=game.attack, pair=game.label)
        yield from plan_of_games(config)
        for model, epsilon in points(config):
            for game in config.game:
                key = partial(MetricKey, "game.kl", model, epsilon)
                if game.pair != "many" and gated(config, "game.kl"):
                    yield key(attack=game.attack, pair=game.label)
                yield key(attack=game.attack, pair=game.label, joint=False)

    def run(self, model: TrainedModel) -> Iterator[Found]:
        """Run each game of the config at every ε."""
        found = list(self._games(model))
        yield from (*found, *leaks(found))

    def _games(self, model: TrainedModel) -> Iterator[Found]:
        for game in self.context.config.game:
            stage = f"{model.label}: game {game.label}"
            summaries: list[str] = []
            for defense in model.defenses:
                measured = partial(self._measured, stage, model, defense, game, summaries)
                yield from self.context.unit(stage, measured)
            # All values of ε have the same pair.
            for summary in summaries[-1:]:
                yield records.PairRecord(model=model.label, pair=game.label, summary=summary)

    def _measured(
        self,
        stage: str,
        model: TrainedModel,
        defense: Any,
        game: Game,
        summaries: list[str],
    ) -> Iterator[records.Measurement]:
        label, started = model.label, self._many if game.pair == "many" else self._pair

        def executor(defense: Any) -> Executor:
            return self.context.tasks(stage, model.model, game, of=[defense])

        one, certify = started(label, defense, game.create("game"), game, executor)
        summaries.append(one.summary)
        where: dict[str, Any] = {
            "model": label, "epsilon": defense.epsilon, "attack": game.attack, "pair": game.label,
        }  # fmt: skip
        tried = self._controls(defense, one, certify, where, game)
        yield records.Measurement(
            metric="epsilon",
            estimate=one.estimate,
            event=one.event,
            theory=one.theory,
            observer=one.observer,
            control=reported(tried),
            tried=tried if len(tried) > 1 else (),
            **where,
        )
        if one.advantage is not None:
            yield records.Measurement(metric="attack.advantage", estimate=one.advantage, **where)
        for name, estimate in one.divergences.items():
            yield records.Measurement(metric="game.kl", estimate=estimate, estimator=name, **where)

    def _controls(
        self,
        defense: Any,
        found: _Outcome,
        certify: _Certify,
        where: dict[str, Any],
        game: Game,
    ) -> tuple[records.Control, ...]:
        """Run the same game on mutants of the defense; empty if it claims nothing."""
        claim = defense.claim()
        if claim is None:
            return ()

        def of_mutant(factor: float) -> float:
            mutant = mutant_of(defense, factor)
            self.context.progress.expect(game.trainings + fitting(game))
            return certify(mutant, control_seed(self.context.seed, factor)).lower

        trial = GameResult(claim.epsilon, claim.delta, found.estimate, found.theory)
        return controls_of(of_mutant, trial, bars(self.context.config.gate, where, claim.epsilon))

    def _pair(
        self, label: str, defense: Any, attack: Any, game: Game, executor: _Executors
    ) -> tuple[_Outcome, _Certify]:
        """Run the game of two neighbouring data sets, certified by the label test.

        Returns:
            The outcome, and a function that runs the game on a mutant with a seed.
        """
        adjacency, observe, pair, target = Pairs(self.ratings).of(label, game, defense)
        claim = defense.claim()
        delta = claim.delta if claim else 0.0

        def certify(defense: Any, seed: int) -> tuple[Scores, Estimate, LabelTest]:
            running = trained_game(defense, pair, attack, observe, target)
            scores = running.run(trials=game.trials, seed=seed, executor=executor(defense))
            estimate, test = label_epsilon(
                scores.absent,
                scores.present,
                delta=delta,
                alpha=self.context.family.alpha,
                confidence=self.context.family.confidence,
                seed=seed,
            )
            return scores, estimate, test

        scores, estimate, test = certify(defense, self.context.seed)
        said = pair.details if game.details else pair.summary
        summary = f"{said} ({adjacency}, observer {observe})"
        advantage, family = None, self.context.family
        if self.judges:
            advantage = best_advantage(
                scores.absent, scores.present, alpha=family.alpha, confidence=family.confidence
            )
        found, law = _Outcome(summary, estimate, str(test), advantage), None
        if sees_steps(defense, observe) and "recommender" in defense.observers():
            running = trained_game(defense, pair, attack, observe, target)
            self.context.progress.expect(2 * TRAININGS)
            law = attempted(
                partial(
                    steps_law,
                    running,
                    delta=delta,
                    seed=self.context.seed,
                    executor=executor(defense),
                ),
                None,
            )
            kl = score_divergences(
                scores, seed=self.context.seed, alpha=1 - self.context.family.confidence
            )
            found = replace(found, observer=observe, theory=law and law.epsilon, divergences=kl)
        if self.diverges:
            joint = joint_divergence(
                scores,
                law,
                defense.steps_mu(defense.prepare(pair.after, pair.public)),
                alpha=family.alpha,
                confidence=family.confidence,
            )
            found = replace(found, divergences={**found.divergences, "one threshold": joint})
        return found, lambda mutant, seed: certify(mutant, seed)[1]

    def _many(
        self, label: str, defense: Any, attack: Any, game: Game, executor: _Executors
    ) -> tuple[_Outcome, _Certify]:
        """Run the game of many ratings, each decided by a coin that is guessed.

        Returns:
            The outcome, and a function that runs the game on a mutant with a seed.
        """
        rows = rare_ratings(self.ratings, game.candidates)

        def certify(defense: Any, seed: int) -> tuple[CoinScores, Estimate]:
            found = run_coins_game(
                defense,
                MANY,
                self.ratings,
                rows,
                attack,
                trainings=game.trials,
                seed=seed,
                executor=executor(defense),
            )
            return found, one_run_scores_epsilon(
                found.scores,
                found.coins,
                alpha=self.context.family.alpha,
                confidence=self.context.family.confidence,
                seed=seed,
            )

        found, estimate = certify(defense, self.context.seed)
        summary = (
            f"in each of {game.trials} trainings {len(rows)} ratings, one of each of as many users "
            "on the items with the fewest raters, are at either end of the scale by coins of their "
            "own (rating-replace, observer iterates)"
        )
        advantage = _advantage(found, game.trials, self.context.family) if self.judges else None
        outcome = _Outcome(summary, estimate, estimate.method, advantage)
        return outcome, lambda mutant, seed: certify(mutant, seed)[1]


def _advantage(found: CoinScores, trainings: int, family: records.Family) -> Estimate:
    """Estimate the advantage of guessing each coin by the sign of its score.

    For a fair coin the true- minus the false-positive rate is twice the share of right guesses,
    less 1. The sample are the trainings, as the coins of one training share its noise.
    """
    right = (found.scores > 0) == (found.coins == 1)
    return joint_mean(2 * right.reshape(trainings, -1).mean(1) - 1, family, least=-1.0)
