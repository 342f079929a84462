"""The distinguishing games of a config, on models of any kind, and the leak that attacks show.

The leak is how much better than chance the strongest measured attack distinguishes the data sets.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from dpaudit.auditor.games import Certificate, CoinScores, GameScores, Level, NoiseGame, mutant_of
from dpaudit.auditor.gate import bars
from dpaudit.auditor.measure import Context, Measure, MetricKey, RecordPart, gated, points
from dpaudit.auditor.trainings import joint_mean
from dpaudit.bounds.frequentist.roc import best_advantage
from dpaudit.config.tables import Game, ModelsConfig
from dpaudit.core.claim import delta_of
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Family, FindingRecord, Measurement
from dpaudit.record.values import Census, PlantedLeak

# What rounding may add to a number.
_ROUNDING = 1e-9


def leaks(parts: Iterable[RecordPart]) -> Iterator[Measurement]:
    """Yield the leak of each model and ε: the largest of its advantages, at least 0.

    The intervals of the advantages hold together: wherever they all do, the largest true advantage
    lies between the largest lower and the largest upper end, and so does the leak, since an
    attacker may also keep silent, or answer the reverse of an attack that is wrong more often than
    right. So the leak takes no share of the error probability. The attack and the observer that it
    names have the largest lower end.

    An advantage counts if coins of the auditor, or the choice between D and D', decide what is to
    be told. Then chance has the advantage 0, whatever the attacker knows. The share of recovered
    ratings (`attack.accuracy`) does not count: what an attacker with the same side information
    would guess without the release is not known.

    Args:
        parts: what was measured of one or more models.
    """
    at: dict[tuple[Any, ...], list[Measurement]] = {}
    for part in parts:
        if (
            isinstance(part, Measurement)
            and part.metric == "attack.advantage"
            and (part.census or part.estimate.kind == "frequentist")
        ):
            at.setdefault(_about(part), []).append(part)
    for here in at.values():
        most = max(here, key=lambda measurement: max(_directions(measurement.estimate)))
        estimate = _largest([measurement.estimate for measurement in here])
        census = None
        if censuses := [measurement.census for measurement in here if measurement.census]:
            # The leak of each training; its interval holds where those of all advantages do.
            silent = Census.known([0.0] * len(censuses[0].values))
            census = Census.largest([silent, *censuses, *(one.reverse for one in censuses)])
            if any(measurement.estimate.kind == "range" for measurement in here):
                estimate = census.estimate
        update = {"metric": "leak", "estimate": estimate, "census": census}
        update["planted"] = tuple(_missed(here))
        rising = max(here, key=lambda one: one.learning[-1].gain if one.learning else -math.inf)
        update["learning"] = rising.learning
        yield most.model_copy(update=update)


def _about(number: Measurement) -> tuple[Any, ...]:
    """Return the model and ε of a number, its statement and its attacker."""
    return number.model, number.epsilon, number.statement, number.attacker


def _missed(advantages: Sequence[Measurement]) -> Iterator[PlantedLeak]:
    """Yield, of each leak that is planted in what every observer sees, the one caught least."""
    leaks: dict[tuple[float, float, str], list[PlantedLeak]] = {}
    for planted in (one for advantage in advantages for one in advantage.planted):
        leaks.setdefault((planted.limit, planted.leak, planted.form), []).append(planted)
    for here in leaks.values():
        yield min(here, key=attrgetter("sureness"))


def contradictions(
    leaks: Iterable[Measurement], parts: Sequence[RecordPart]
) -> Iterator[FindingRecord]:
    """Yield a finding for each leak that is smaller than what other numbers of its model imply.

    The largest difference J of true- and false-positive rate is at least TPR(r) − r for every r,
    and AUC ≤ 1 − (1 − J)²/2, as no ROC curve with J encloses more. So J ≥ 1 − √(2(1 − AUC)), which
    is convex, so it holds for means too. Where an upper end of the leak is below a lower end of
    these, in one training or on average, an interval is wrong, or another attack leaks more.

    Args:
        leaks: the leaks of models.
        parts: what was measured of the same models.
    """
    for leak in leaks:
        implied = [
            (least, part)
            for part in parts
            if isinstance(part, Measurement)
            and _about(part) == _about(leak)
            and part.metric in ("attack.tpr", "attack.auc")
            for low, high in zip(_ends(part, 0), _ends(leak, 1), strict=False)
            if (least := _implied(part, low)) > high + _ROUNDING
        ]
        if implied:
            least, part = max(implied, key=lambda pair: pair[0])
            yield FindingRecord(
                model=leak.model,
                about="contradiction",
                text=f"{part.place}: {part.metric} implies a leak of at least {least:.3g}, where "
                "the interval for the leak ends below that.",
                remedy="Gate attack.tpr and attack.auc, and do not rely on the leak of this run.",
                undecided=True,
                epsilon=leak.epsilon,
                metrics=("leak", "attack.advantage"),
            )


def _ends(measurement: Measurement, side: int) -> Iterator[float]:
    """Yield the lower (0) or upper (1) end of a number, then those of each training.

    A range over trainings is no interval, and says nothing.
    """
    known = measurement.estimate.kind == "frequentist"
    yield (measurement.estimate.lower, measurement.estimate.upper)[side] if known else side
    if measurement.census:
        yield from (measurement.census.lower, measurement.census.upper)[side]


def _implied(measurement: Measurement, low: float) -> float:
    """Return the least leak of a model that has at least this rate, or area."""
    if measurement.at is not None:
        return low - measurement.at
    return 1 - math.sqrt(2 * max(0.0, 1 - low))


def _largest(estimates: list[Estimate]) -> Estimate:
    directions = [direction for estimate in estimates for direction in _directions(estimate)]
    lower, value, upper = (max(0.0, *ends) for ends in zip(*directions, strict=True))
    several = f"largest of {len(estimates)} joint intervals"
    method = several if len(estimates) > 1 else estimates[0].method
    return estimates[0].changed(
        value=value,
        lower=lower,
        upper=upper,
        n=min(estimate.n for estimate in estimates),
        method=method,
    )


def _directions(estimate: Estimate) -> tuple[tuple[float, float, float], ...]:
    """Return the lower end, value and upper end of an advantage, and of its reverse."""
    return (estimate.lower, estimate.value, estimate.upper), (
        -estimate.upper,
        -estimate.value,
        -estimate.lower,
    )


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
