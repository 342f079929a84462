"""The games of a config on models that serve on demand, run at each ε."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.context import Context
from dpaudit.auditor.games.controls import (
    Bar,
    GameResult,
    control_seed,
    controls_of,
    mutant_of,
    reported,
)
from dpaudit.auditor.games.game import Game
from dpaudit.auditor.gate import bars
from dpaudit.auditor.leak import judges_advantage, leaks, plan_of_games
from dpaudit.auditor.measure import Found, Measure, MetricKey, points
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.on_demand.list_truth import entry_truth, place_epsilon
from dpaudit.audits.on_demand.models import Sweep
from dpaudit.audits.on_demand.predictions import entry_game, prediction_game, shifts
from dpaudit.audits.on_demand.search import search_pair
from dpaudit.audits.on_demand.subject import OnDemandModels
from dpaudit.bounds.accounting import laplace_vector_epsilon
from dpaudit.bounds.frequentist.advantage import best_advantage
from dpaudit.bounds.frequentist.labels import LabelTest, label_epsilon
from dpaudit.bounds.power.power import detectable_epsilon
from dpaudit.config import tables
from dpaudit.config.compatibility.observers import check_covered, observer_of
from dpaudit.config.model import Model
from dpaudit.core.claim import Claim
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import ItemList, LaplacePair
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import (
    EntryPair,
    ListDefense,
    OnDemandDefense,
    PredictionDefense,
    PredictionPair,
)
from dpaudit.defenses.item_model import ExactScores, ItemModel
from dpaudit.execution.executor import INLINE, Executor
from dpaudit.record import result as records


@dataclass(frozen=True, eq=False)
class Round:
    """The outcome of a game at one ε.

    Attributes:
        absent: the attack's score in each trial on D `(T,)`.
        present: its score in each trial on D' `(T,)`.
        theory: the true ε of the release on this pair, if its law is known.
        shift: sum of the differences of the shown exact predictions between D and D'; None for
            lists.
        share: share of the mechanism's ε that the pair shows, in [0, 1].
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]
    theory: Estimate | None
    shift: float | None
    share: float

    def detectable(self, claim: Claim, trials: int, alpha: float) -> float:
        """Forecast, optimistically, the least true ε at which the claim would be found broken."""
        least = detectable_epsilon(claim.epsilon, trials, alpha, delta=claim.delta)
        return least / self.share if self.share > 0 else math.inf


class Match(Protocol):
    """A pair with the attack and observer that distinguish its data sets."""

    @property
    def summary(self) -> str:
        """Description of the pair in one sentence."""
        ...

    def run(self, defense: Any, trials: int, seed: int, executor: Executor = INLINE) -> Round:
        """Run `trials` trials on each data set with one of the model's defenses."""
        ...


@dataclass(frozen=True, eq=False)
class _Values:
    """A match in which predictions are shown."""

    model: ItemModel
    pair: PredictionPair
    attack: Any
    observer: str

    @property
    def summary(self) -> str:
        return self.pair.summary

    def game(self, defense: PredictionDefense) -> Game[ExactScores]:
        return prediction_game(defense, self.model, self.pair, self.attack, self.observer)

    def run(
        self, defense: PredictionDefense, trials: int, seed: int, executor: Executor = INLINE
    ) -> Round:
        game = self.game(defense)
        found = game.run(trials=trials, seed=seed, executor=executor)
        noise = defense.noise_of_predictions(self.pair.ratings.scale)
        moved = shifts(game.pair)
        return Round(
            found.absent,
            found.present,
            theory=laplace_vector_epsilon(moved, noise.scale, delta=_delta(defense)),
            shift=float(moved.sum()),
            share=_shift_share(float(moved.sum()), noise.sensitivity),
        )


@dataclass(frozen=True, eq=False)
class _Anything(_Values):
    """A match in which a plug-in's own release of unknown law is shown."""

    def run(
        self, defense: PredictionDefense, trials: int, seed: int, executor: Executor = INLINE
    ) -> Round:
        found = self.game(defense).run(trials=trials, seed=seed, executor=executor)
        return Round(found.absent, found.present, theory=None, shift=None, share=1.0)


@dataclass(frozen=True, eq=False)
class _PredictedList(_Values):
    """A match in which the list of the best predictions is shown without their values."""

    def run(
        self, defense: PredictionDefense, trials: int, seed: int, executor: Executor = INLINE
    ) -> Round:
        game = self.game(defense)
        found = game.run(trials=trials, seed=seed, executor=executor)
        before, after = game.pair.before, game.pair.after
        noise = defense.noise_of_predictions(self.pair.ratings.scale)
        item, k = self.pair.items[0], defense.top_k
        theory = place_epsilon(before.scores, after.scores, item, k, noise.scale)
        shift = float(abs(after.scores[item] - before.scores[item]))
        share = _shift_share(shift, noise.sensitivity)
        return Round(
            found.absent,
            found.present,
            theory=theory,
            shift=None,
            # The list reveals no more than the prediction.
            share=share if theory is None else min(share, _share(theory, defense.claim())),
        )


@dataclass(frozen=True, eq=False)
class _DrawnList:
    """A match in which a list of known law is shown."""

    pair: EntryPair
    attack: Any

    @property
    def summary(self) -> str:
        return self.pair.summary

    def run(
        self, defense: ListDefense, trials: int, seed: int, executor: Executor = INLINE
    ) -> Round:
        found = entry_game(defense, self.pair, self.attack).run(
            trials=trials, seed=seed, executor=executor
        )
        theory = entry_truth(defense, self.pair)
        share = 1.0 if theory is None else _share(theory, defense.claim())
        return Round(found.absent, found.present, theory, None, share)


def match_of(sweep: Sweep, game: tables.Game, seed: int) -> Match:
    """Prepare the neighbouring data sets and the attack of a game.

    Raises:
        ConfigError: the claim does not cover the observer, or the list that is observed on a pair.
        DataError: there are too few data for a pair.
    """
    attack, first = game.create("game"), sweep.defenses[0]
    if isinstance(first, ListDefense):
        return _DrawnList(first.pair(game.pair, sweep.train.scale), attack)
    pair, model = _pair_of(sweep, game, seed)
    defense = sweep.predicting[0]
    observers = defense.observers()
    observer = observer_of(game, sweep.model.label, observers)
    check_covered(game, sweep.model.label, defense.claim(), observer)
    release, knowledge = observers[observer].shows
    if issubclass(knowledge, LaplacePair):
        return _Values(model, pair, attack, observer)
    if not issubclass(release, ItemList):
        return _Anything(model, pair, attack, observer)
    wider = _widened(pair, defense.top_k)
    if wider is not pair:
        pair, model = wider, defense.prepare(wider.ratings)
    before = defense.exact(model, pair.ratings.profile(pair.target)).scores
    moved = int((defense.exact_after(model, pair.change, pair.target).scores != before).sum())
    if moved > defense.outputs:
        raise ConfigError(
            f"game.observe = 'list': on pair {game.pair!r} {moved} predictions move but the claim "
            f"of model {sweep.model.label!r} covers {defense.outputs}: remove observe, or set "
            "params.outputs"
        )
    return _PredictedList(model, pair, attack, observer)


def _pair_of(sweep: Sweep, game: tables.Game, seed: int) -> tuple[PredictionPair, ItemModel]:
    defense = sweep.predicting[0]
    if game.pair != "data":
        pair = defense.pair(game.pair, sweep.train.scale)
        return pair, defense.prepare(pair.ratings)
    counts = np.diff(sweep.train.by_user.start)
    users = np.flatnonzero(counts >= defense.min_ratings)
    if len(users) < 2:
        raise DataError(
            f"{len(users)} of the users that the similarity is built from have at least "
            f"{defense.min_ratings} ratings and a pair needs 2 such users: use more data"
        )
    pair = search_pair(defense, sweep.prepared, users, candidates=game.candidates, seed=seed)
    return pair, sweep.prepared


def _widened(pair: PredictionPair, k: int) -> PredictionPair:
    """Add unrated items to the pair until a list of k leaves out at least one item."""
    ratings = pair.ratings
    more = k + 1 - (ratings.n_items - len(ratings.profile(pair.target)))
    if more <= 0:
        return pair
    wider = Ratings.build(
        ratings.user,
        ratings.item,
        ratings.value,
        ratings.n_users,
        ratings.n_items + more,
        ratings.scale,
    )
    items = "item that nobody has rated is" if more == 1 else "items that nobody has rated are"
    return replace(pair, ratings=wider, summary=f"{pair.summary}; {more} {items} listed too")


class Games(Measure[OnDemandConfig, Sweep]):
    """`epsilon` of every game at every ε, with its controls; and `attack.advantage`, `leak`."""

    def __init__(self, subject: OnDemandModels[Any]) -> None:
        """Keep the context."""
        self.context = subject.context

    @classmethod
    def plan(cls, config: OnDemandConfig) -> Iterator[MetricKey]:
        """Yield one bound per game and point, and the advantages that gates judge."""
        for model, epsilon in points(config):
            for game in config.game:
                yield MetricKey("epsilon", model, epsilon, attack=game.attack, pair=game.label)
        yield from plan_of_games(config)

    def run(self, model: Sweep) -> Iterator[Found]:
        """Run each game of the config at every ε."""
        found = list(self._games(model))
        yield from (*found, *leaks(found))

    def _games(self, model: Sweep) -> Iterator[Found]:
        for game in self.context.config.game:
            stage = f"{model.label}: game {game.label}"
            self.context.progress.stage(stage)
            match = match_of(model, game, self.context.seed)
            yield records.PairRecord(model=model.label, pair=game.label, summary=match.summary)
            for defense in model.defenses:
                run = _Run(self.context, stage, model.model, game, match)
                certified = partial(self._certify, run, model.label, game, defense)
                yield from self.context.unit(stage, certified)

    def _certify(
        self, run: _Run, label: str, game: tables.Game, defense: OnDemandDefense
    ) -> Iterator[records.Measurement]:
        seed = self.context.seed
        found, estimate, test = run.certified(defense, seed)
        where: dict[str, Any] = {
            "model": label, "epsilon": defense.epsilon, "attack": game.attack, "pair": game.label,
        }  # fmt: skip
        claimed = claim.epsilon if (claim := defense.claim()) else None
        asked = bars(self.context.config.gate, where, claimed)
        tried = _controls(run, defense, (found, estimate), seed, asked)
        yield records.Measurement(
            metric="epsilon",
            estimate=estimate,
            event=str(test),
            shift=found.shift,
            theory=found.theory,
            control=reported(tried),
            tried=tried if len(tried) > 1 else (),
            **where,
        )
        if judges_advantage(self.context.config):
            family = self.context.family
            advantage = best_advantage(
                found.absent, found.present, alpha=family.alpha, confidence=family.confidence
            )
            yield records.Measurement(metric="attack.advantage", estimate=advantage, **where)


@dataclass(frozen=True)
class _Run:
    """The runs of one game of the config on the defenses of one model."""

    context: Context[OnDemandConfig]
    stage: str
    model: Model
    game: tables.Game
    match: Match

    def certified(self, defense: OnDemandDefense, seed: int) -> tuple[Round, Estimate, LabelTest]:
        """Run the game and certify its bound; a mutant keeps the δ of the claim that it breaks."""
        family = self.context.family
        executor = self.context.tasks(self.stage, self.model, self.game, of=[defense])
        found = self.match.run(defense, self.game.trials, seed, executor)
        estimate, test = label_epsilon(
            found.absent,
            found.present,
            delta=_delta(defense),
            alpha=family.alpha,
            confidence=family.confidence,
            seed=seed,
        )
        return found, estimate, test


def _controls(
    run: _Run,
    defense: OnDemandDefense,
    made: tuple[Round, Estimate],
    seed: int,
    asked: Sequence[Bar],
) -> tuple[records.Control, ...]:
    """Run the same game on mutants of the defense; empty if it claims nothing."""
    claim, (found, estimate) = defense.claim(), made
    if claim is None:
        return ()

    def certify(factor: float) -> float:
        mutant, fresh = mutant_of(defense, factor), control_seed(seed, factor)
        run.context.progress.expect(2 * run.game.trials)
        return run.certified(mutant, fresh)[1].lower

    trial = GameResult(claim.epsilon, claim.delta, estimate, found.theory)
    return controls_of(certify, trial, asked)


def _delta(defense: OnDemandDefense) -> float:
    claim = defense.claim()
    return claim.delta if claim else 0.0


def _shift_share(shift: float, sensitivity: float) -> float:
    return min(1.0, shift / sensitivity) if sensitivity else 0.0


def _share(theory: Estimate, claim: Claim | None) -> float:
    """Return the share of the claimed ε that a pair shows if the noise keeps the claim."""
    return min(1.0, theory.value / claim.epsilon) if claim else 1.0
