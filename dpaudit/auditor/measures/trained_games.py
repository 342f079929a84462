"""The games of models that are trained: which one a config means, and what it certifies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dpaudit.auditor.games.controls import Trial, control_seed, controls_of, mutant_of, reported
from dpaudit.auditor.games.game import Scores
from dpaudit.auditor.games.one_training import play_coins_game, rare_ratings
from dpaudit.auditor.games.steps_law import score_divergences, steps_epsilon
from dpaudit.auditor.games.trained import trained_game
from dpaudit.auditor.gate import bars
from dpaudit.auditor.measures.observers import check_observed, observed, sees_steps
from dpaudit.auditor.measures.pairs import Pairs, adjacency_of
from dpaudit.bounds.frequentist.labels import LabelTest, label_epsilon
from dpaudit.bounds.frequentist.one_run import one_run_scores_epsilon
from dpaudit.config import schema as configs
from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Estimate
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import TrainedDefense
from dpaudit.record import result as records

# Who observes where many ratings are in doubt.
_MANY = "iterates"


@dataclass(frozen=True)
class _Found:
    """What a game found.

    Attributes:
        summary: its pair in words.
        estimate: its bound.
        event: the event that certifies.
        observer: who saw steps of users who submit to a recommender.
        theory: the ε by the law of the noise.
        divergences: of D' from D, by the way in which they were estimated.
    """

    summary: str
    estimate: Estimate
    event: str
    observer: str | None = None
    theory: Estimate | None = None
    divergences: dict[str, Estimate] = field(default_factory=dict)


# Plays the game on a defense with a seed.
_Certify = Callable[[Any, int], Estimate]


@dataclass(frozen=True)
class TrainedGames:
    """Plays the games of a config.

    Attributes:
        ratings: what the models learn from.
        family: the level of each bound.
        seed: decides every stream.
        threads: number of threads; the numbers do not depend on it.
        advance: told the number of trainings done.
        gates: those of the config; they say which mutants have to be found.
    """

    ratings: Ratings
    family: records.Family
    seed: int
    threads: int
    advance: Callable[[int], None]
    gates: Sequence[configs.Gate] = ()

    def play(
        self, label: str, defenses: Sequence[Any], game: configs.Game
    ) -> tuple[records.PairRecord, list[records.Measurement]]:
        """The certified lower bound on ε of one pair at every ε of a model, with its controls."""
        attack = game.create("game")
        summary, found = "", []
        for defense in defenses:
            started = self._many if game.pair == "many" else self._pair
            one, certify = started(label, defense, attack, game)
            summary = one.summary
            where: dict[str, Any] = {
                "model": label, "epsilon": defense.epsilon, "attack": game.attack,
                "pair": game.label,
            }  # fmt: skip
            tried = self._controls(defense, one, certify, where)
            found.append(
                records.Measurement(
                    metric="epsilon",
                    estimate=one.estimate,
                    event=one.event,
                    theory=one.theory,
                    observer=one.observer,
                    control=reported(tried),
                    tried=tried if len(tried) > 1 else (),
                    **where,
                )
            )
            found += [
                records.Measurement(metric="game.kl", estimate=estimate, states=name, **where)
                for name, estimate in one.divergences.items()
            ]
            self.advance(trainings(game))
        return records.PairRecord(model=label, pair=game.label, summary=summary), found

    def _controls(
        self, defense: Any, found: _Found, certify: _Certify, where: dict[str, Any]
    ) -> tuple[records.Control, ...]:
        """What the same game finds on mutants of a defense that claims something."""
        claim = defense.claim()
        if claim is None:
            return ()

        def of_mutant(factor: float) -> float:
            return certify(mutant_of(defense, factor), control_seed(self.seed, factor)).lower

        trial = Trial(claim.epsilon, claim.delta, found.estimate, found.theory)
        return controls_of(of_mutant, trial, bars(self.gates, where, claim.epsilon))

    def _pair(
        self, label: str, defense: Any, attack: Any, game: configs.Game
    ) -> tuple[_Found, _Certify]:
        """Two neighbouring data sets, told apart by the label test."""
        adjacency, observe, pair, target = Pairs(self.ratings).of(label, game, defense)
        claim = defense.claim()
        delta = claim.delta if claim else 0.0

        def played(defense: Any, seed: int) -> tuple[Scores, Estimate, LabelTest]:
            playing = trained_game(defense, pair, attack, observe, target)
            scores = playing.run(trials=game.trials, seed=seed, threads=self.threads)
            estimate, test = label_epsilon(
                scores.absent,
                scores.present,
                delta=delta,
                alpha=self.family.alpha,
                confidence=self.family.confidence,
                seed=seed,
            )
            return scores, estimate, test

        scores, estimate, test = played(defense, self.seed)
        said = pair.details if game.details else pair.summary
        summary = f"{said} ({adjacency}, observer {observe})"
        found = _Found(summary, estimate, str(test))
        if sees_steps(defense, observe) and "recommender" in defense.observers():
            playing = trained_game(defense, pair, attack, observe, target)
            theory = steps_epsilon(playing, delta=delta, seed=self.seed, threads=self.threads)
            kl = score_divergences(scores, seed=self.seed, alpha=1 - self.family.confidence)
            found = replace(found, observer=observe, theory=theory, divergences=kl)
        return found, lambda mutant, seed: played(mutant, seed)[1]

    def _many(
        self, label: str, defense: Any, attack: Any, game: configs.Game
    ) -> tuple[_Found, _Certify]:
        """Many ratings, each decided by a coin that is guessed."""
        rows = rare_ratings(self.ratings, game.candidates)

        def certify(defense: Any, seed: int) -> Estimate:
            found = play_coins_game(
                defense,
                _MANY,
                self.ratings,
                rows,
                attack,
                trainings=game.trials,
                seed=seed,
                threads=self.threads,
            )
            return one_run_scores_epsilon(
                found.scores,
                found.coins,
                alpha=self.family.alpha,
                confidence=self.family.confidence,
                seed=seed,
            )

        estimate = certify(defense, self.seed)
        summary = (
            f"in each of {game.trials} trainings {len(rows)} ratings, one of each of as many users "
            "on the items with the fewest raters, are at either end of the scale by coins of their "
            "own (rating-replace, observer iterates)"
        )
        return _Found(summary, estimate, estimate.method), certify


def check_games(model: configs.Model, games: Sequence[configs.Game]) -> None:
    """Refuse games that the model's claim does not cover, before anything is trained.

    Raises:
        ConfigError: with the game and the remedy.
    """
    for defense in model.defenses("model"):
        for game in games:
            if game.pair == "many":
                _check_many(model.label, defense)
                continue
            adjacency_of(model.label, game, defense.claim())
            observed(model.label, game, defense)


def trainings(game: configs.Game) -> int:
    """The trainings of a game."""
    return game.trials if game.pair == "many" else 2 * game.trials


def _check_many(label: str, defense: TrainedDefense[Any]) -> None:
    """Refuse many ratings in doubt where the steps do not show each apart.

    Raises:
        ConfigError: they do not.
    """
    if not defense.separates_ratings():
        raise ConfigError(
            f"[[game]] pair = 'many': the steps of model {label!r} do not show each rating apart: "
            "use pair = 'data', or the published 'dpsgd-mf'"
        )
    check_observed(label, defense, _MANY)
