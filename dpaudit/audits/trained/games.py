"""The games of a config on trained models.

The game of a pair has two neighbouring data sets. In that of many ratings every training tests many
canary ratings at once: an independent coin decides whether a canary has the least or the largest
value of the scale, and the canary's own numbers in the noised steps score its coin. The scores of
one training suffice for a bound (Steinke, Nasr, Jagielski 2023, arXiv:2305.08846); those of several
trainings, with fresh coins each, are certified together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Distinguisher
from dpaudit.auditor.distinguishing import GameMeasure, OneGame, game_key
from dpaudit.auditor.games.game import CERTAIN, DistinguishingGame
from dpaudit.auditor.games.outcomes import CoinScores, GameScores
from dpaudit.auditor.measure import MetricKey, RecordPart, gated, points
from dpaudit.auditor.no_model import attempted
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.audits.trained.pairs import MANY, PairSearch, sees_steps, trained_game
from dpaudit.audits.trained.steps_law import (
    TRAININGS,
    StepsLaw,
    joint_divergence,
    score_divergences,
    steps_law,
)
from dpaudit.audits.trained.subject import TrainedModel, TrainedModels, fitting
from dpaudit.config import tables
from dpaudit.core.claim import delta_of
from dpaudit.core.errors import DataError
from dpaudit.core.observation import PreparedPair
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams, generator
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import TrainedDefense
from dpaudit.execution.executor import INLINE, Executor
from dpaudit.record import result as records


def rare_ratings(ratings: Ratings, count: int) -> NDArray[np.int64]:
    """Return `count` rows of good canaries, increasing: one per user, rarest items first.

    Raises:
        DataError: fewer than `count` users have ratings.
    """
    raters = np.bincount(ratings.item, minlength=ratings.n_items)[ratings.item]
    order = np.lexsort((ratings.item, raters))
    _, first = np.unique(ratings.user[order], return_index=True)
    rows = order[np.sort(first)[:count]]
    if len(rows) < count:
        raise DataError(
            f"{len(rows)} users have ratings and {count} canaries need a user each: lower "
            "game.candidates"
        )
    return np.sort(rows)


def run_coins_game(
    defense: TrainedDefense[Any],
    ratings: Ratings,
    rows: NDArray[np.int64],
    attack: Distinguisher,
    *,
    trainings: int,
    seed: int,
    executor: Executor = INLINE,
) -> CoinScores:
    """Train `trainings` models with fresh coins, and score every canary by its training steps.

    A training that ends without a model shows no numbers of its canaries, and all score 0.

    Args:
        defense: a defense whose steps show each rating separately, as `PairSearch.check` requires.
        ratings: the audited data; their statistics count as public.
        rows: the canaries' rows, increasing `(C,)`.
        attack: scores the steps.
        trainings: number of trained models.
        seed: seed of coins and streams.
        executor: runs the trainings; the result does not depend on it.
    """
    scale = ratings.scale
    low, high = (
        defense.prepare(_set(ratings, rows, np.full(len(rows), value)), ratings)
        for value in (scale.minimum, scale.maximum)
    )
    coins = generator(seed, "coins").integers(0, 2, (trainings, len(rows)))
    streams = Streams.first(seed, "coins", trainings)

    views = defense.observers()[MANY].views

    def scores(training: tuple[NDArray[np.int64], Streams]) -> NDArray[np.float64]:
        tossed, trial = training
        values = np.where(tossed, scale.maximum, scale.minimum)
        trained = defense.prepare(_set(ratings, rows, values), ratings)
        parts = views(PreparedPair(low, high), trained, trial)
        return attempted(
            lambda: np.concatenate([_apart(attack, *training, len(rows)) for training in parts]),
            np.zeros(len(rows)),
        )

    parts = zip(coins, streams.blocks(1), strict=True)
    results = executor.map("coins", scores, parts, lambda part: len(part[1]))
    return CoinScores(np.concatenate(results), coins.reshape(-1), trainings)


def _set(ratings: Ratings, rows: NDArray[np.int64], values: NDArray[Any]) -> Ratings:
    """Return the ratings with new values in the given rows."""
    column = ratings.value.copy()
    column[rows] = values
    return Ratings.build(
        ratings.user, ratings.item, column, ratings.n_users, ratings.n_items, ratings.scale
    )


def _apart(
    attack: Distinguisher, release: NoisedSteps, pair: StepsPair, count: int
) -> NDArray[np.float64]:
    """Score each canary in a single trial `(C,)`; a canary's numbers are `count` places apart."""

    def scores() -> Iterator[float]:
        for c in range(count):
            own_columns = slice(c, None, count)
            canary = StepsPair(
                absent=pair.absent[:, own_columns],
                present=pair.present[:, own_columns],
                scale=pair.scale[..., own_columns],
                gaussian=pair.gaussian,
                bound=pair.bound,
            )
            yield float(attack.score(NoisedSteps(release.shown[:, own_columns]), canary)[0])

    return np.clip(np.fromiter(scores(), np.float64, count), -CERTAIN, CERTAIN)


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
        adjacency, observe, pair, target = PairSearch(self.ratings).of(model.label, game, defense)
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

        played = OneGame(model.label, defense, game, score, game.trainings + fitting(game))
        certificate = self.certificate(played)
        scores = certificate.outcomes
        observer = observe if submits else None
        yield from self.measurements(played, certificate, observer=observer)
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
            yield played.key("game.kl").measured(estimate, estimator=name)
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
                self.ratings,
                rows,
                attack,
                trainings=game.trials,
                seed=seed,
                executor=self._executor(stage, model, game, mechanism),
            )

        played = OneGame(model.label, defense, game, score, game.trainings + fitting(game))
        yield from self.measurements(played, self.certificate(played))
        summary = (
            f"in each of {game.trials} trainings {len(rows)} ratings, one of each of as many users "
            "on the items with the fewest raters, are at either end of the scale by coins of their "
            "own (rating-replace, observer iterates)"
        )
        yield records.PairRecord(model=model.label, pair=game.label, summary=summary)
