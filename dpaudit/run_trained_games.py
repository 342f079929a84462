"""The games of models that are trained: which one a config means, and what it certifies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dpaudit import config as configs
from dpaudit.auditor import result as records
from dpaudit.auditor.game import ListScores
from dpaudit.auditor.one_training import play_coins_game, rare_ratings
from dpaudit.auditor.steps_law import score_divergences, steps_epsilon
from dpaudit.auditor.trained_game import DataPair, SeenBy, play_release_game, play_steps_game
from dpaudit.bounds.estimate import Estimate
from dpaudit.bounds.labels import label_epsilon
from dpaudit.bounds.one_run import default_grid, one_run_scores_epsilon
from dpaudit.bounds.planning import detectable_normal_epsilon
from dpaudit.bounds.power import detectable_epsilon, least_found, one_run_power
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import Claim, ObserverName
from dpaudit.defenses.sgd_factors import SgdFactors
from dpaudit.defenses.trained import watchers
from dpaudit.errors import ConfigError
from dpaudit.releases import Suspect
from dpaudit.run_trained_observers import STEPS, check_watched, observed
from dpaudit.run_trained_pairs import Pairs, adjacency_of

# The chance at which a violation counts as found.
_POWER = 0.95


@dataclass(frozen=True)
class _Found:
    """What a game found.

    Attributes:
        summary: its pair in words.
        estimate: its bound.
        event: the event that certifies.
        least: what would have been found.
        observer: who saw steps of users who submit to a recommender.
        theory: the ε by the law of the noise.
        divergences: of D' from D, by the way in which they were estimated.
    """

    summary: str
    estimate: Estimate
    event: str
    least: float | None
    observer: ObserverName | None = None
    theory: Estimate | None = None
    divergences: dict[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainedGames:
    """Plays the games of a config.

    Attributes:
        ratings: what the models learn from.
        family: the level of each bound.
        seed: decides every stream.
        threads: number of threads; the numbers do not depend on it.
        advance: told the number of trainings done.
    """

    ratings: Ratings
    family: records.Family
    seed: int
    threads: int
    advance: Callable[[int], None]

    def play(
        self, label: str, defenses: Sequence[Any], game: configs.Game
    ) -> tuple[records.PairRecord, list[records.Measurement]]:
        """The certified lower bound on ε of one pair at every ε of a model."""
        attack = game.create("game")
        summary, found = "", []
        for defense in defenses:
            claim = defense.claim()
            played = self._many if game.pair == "many" else self._pair
            one = played(label, defense, claim, attack, game)
            summary = one.summary
            where: dict[str, Any] = {
                "model": label, "epsilon": defense.epsilon, "attack": game.attack,
                "pair": game.label,
            }  # fmt: skip
            found.append(
                records.Measurement(
                    metric="epsilon",
                    estimate=one.estimate,
                    detectable=one.least,
                    event=one.event,
                    theory=one.theory,
                    observer=one.observer,
                    **where,
                )
            )
            found += [
                records.Measurement(metric="game.kl", estimate=estimate, states=name, **where)
                for name, estimate in one.divergences.items()
            ]
            self.advance(trainings(game))
        return records.PairRecord(model=label, pair=game.label, summary=summary), found

    def _pair(
        self, label: str, defense: Any, claim: Claim | None, attack: Any, game: configs.Game
    ) -> _Found:
        """Two neighbouring data sets, told apart by the label test."""
        adjacency, observe, pair, suspect = Pairs(self.ratings).of(label, game, defense)
        scores = self._scores(defense, pair, suspect, observe, attack, game)
        alpha, delta = self.family.alpha, claim.delta if claim else 0.0
        estimate, event = label_epsilon(
            scores.absent,
            scores.present,
            delta=delta,
            alpha=alpha,
            confidence=self.family.confidence,
            seed=self.seed,
        )
        summary = f"{pair.summary} ({adjacency}, observer {observe})"
        found = _Found(summary, estimate, str(event), None)
        if observe in STEPS and "recommender" in watchers(defense):
            seen = SeenBy(defense, watchers(defense)[observe])
            return self._with_law(replace(found, observer=observe), seen, pair, claim, scores)
        if not claim:
            return found
        share = _share(defense, suspect, observe, self.ratings.scale.width)
        least = detectable_epsilon(claim.epsilon, estimate.n, alpha, delta=delta)
        return replace(found, least=least / share if share else math.inf)

    def _with_law(
        self, found: _Found, seen: SeenBy, pair: DataPair, claim: Claim | None, scores: ListScores
    ) -> _Found:
        """What the law of the steps' noise says of a game besides."""
        delta, least = claim.delta if claim else 0.0, None
        theory = steps_epsilon(seen, pair, delta=delta, seed=self.seed, threads=self.threads)
        n, alpha = found.estimate.n, self.family.alpha
        if claim and delta:
            least = detectable_normal_epsilon(
                claim.epsilon, n, alpha, delta=delta, shown=theory.value
            )
        elif claim:
            least = _detectable(claim, theory, n, alpha)
        divergences = score_divergences(scores, seed=self.seed, alpha=1 - self.family.confidence)
        return replace(found, least=least, theory=theory, divergences=divergences)

    def _many(
        self, label: str, defense: Any, claim: Claim | None, attack: Any, game: configs.Game
    ) -> _Found:
        """Many ratings, each decided by a coin that is guessed."""
        rows = rare_ratings(self.ratings, game.candidates)
        found = play_coins_game(
            defense,
            self.ratings,
            rows,
            attack,
            trainings=game.trials,
            seed=self.seed,
            threads=self.threads,
        )
        estimate = one_run_scores_epsilon(
            found.scores,
            found.coins,
            alpha=self.family.alpha,
            confidence=self.family.confidence,
            seed=self.seed,
        )
        summary = (
            f"in each of {game.trials} trainings {len(rows)} ratings, one of each of as many users "
            "on the items with the fewest raters, are at either end of the scale by coins of their "
            "own (rating-replace, observer iterates)"
        )
        claimed = claim.epsilon if claim else math.inf
        # The bound tries several numbers of guesses, each at its share of the level.
        level = self.family.alpha / len(default_grid(estimate.n))

        def chance(epsilon: float) -> float:
            p, q = 0.5, 0.5 * math.exp(-epsilon)
            return one_run_power(p, q, estimate.n, claimed=claimed, delta=0.0, alpha=level)

        return _Found(summary, estimate, estimate.method, least_found(chance, claimed, _POWER))

    def _scores(
        self,
        defense: Any,
        pair: DataPair,
        suspect: Suspect,
        observe: ObserverName,
        attack: Any,
        game: configs.Game,
    ) -> Any:
        options = {"trials": game.trials, "seed": self.seed, "threads": self.threads}
        if observe == "public" or observe == "values" or observe == "list":  # noqa: PLR1714 (narrows)
            return play_release_game(defense, pair, suspect, observe, attack, **options)
        seen = SeenBy(defense, watchers(defense)[observe])
        return play_steps_game(seen, pair, attack, **options)


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


def _share(defense: Any, suspect: Suspect, observe: str, width: float) -> float:
    """How much of the mechanism's ε the pair shows by its law; 0 where nothing is known of it."""
    known = isinstance(defense, SgdFactors) and defense.variant == "published"
    if not known or observe != "iterates" or len(suspect.before) != len(suspect.after):
        return 0.0
    return float(abs(suspect.after.values - suspect.before.values).max()) / width


def _detectable(claim: Claim, theory: Estimate, n: int, alpha: float) -> float:
    """The least ε that would be certified above a claim of which δ is 0.

    Infinite where the pair's own ε has no bound, as of normal noise, or is 0: then it is no measure
    of how small a noise would be found.
    """
    if not 0 < theory.value < math.inf:
        return math.inf
    return detectable_epsilon(claim.epsilon, n, alpha) / min(1.0, theory.value / claim.epsilon)


def _check_many(label: str, defense: Any) -> None:
    """Refuse many ratings in doubt where the steps do not show each apart.

    Raises:
        ConfigError: they do not.
    """
    if not (isinstance(defense, SgdFactors) and defense.variant == "published"):
        raise ConfigError(
            f"[[game]] pair = 'many': the steps of model {label!r} do not show each rating apart: "
            "use pair = 'data', or the published 'dpsgd-mf'"
        )
    check_watched(label, defense)
