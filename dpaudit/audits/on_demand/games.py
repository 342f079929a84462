"""The games of a config on models that serve on demand, run at each ε."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from dpaudit.auditor.distinguishing import GameMeasure, OneGame
from dpaudit.auditor.games.game import DistinguishingGame
from dpaudit.auditor.games.outcomes import GameScores
from dpaudit.auditor.measure import RecordPart
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.on_demand.list_truth import entry_truth, place_epsilon
from dpaudit.audits.on_demand.model import OnDemandModel
from dpaudit.audits.on_demand.predictions import entry_game, prediction_game, shifts
from dpaudit.audits.on_demand.search import search_pair
from dpaudit.audits.on_demand.subject import OnDemandModels
from dpaudit.bounds.accounting import laplace_vector_epsilon
from dpaudit.config import tables
from dpaudit.config.compatibility.observers import check_covered, observer_of
from dpaudit.core.claim import Claim, delta_of
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


@dataclass(frozen=True, eq=False, kw_only=True)
class PairScores(GameScores):
    """The scores of a game on a pair, and how much of it the pair shows.

    Attributes:
        shift: sum of the differences of the shown exact predictions between D and D'; None for
            lists.
        share: share of the mechanism's ε that the pair shows, in [0, 1].
    """

    shift: float | None = None
    share: float


class Match(Protocol):
    """A pair with the attack and observer that distinguish its data sets."""

    @property
    def summary(self) -> str:
        """Description of the pair in one sentence."""
        ...

    def run(self, defense: Any, trials: int, seed: int, executor: Executor = INLINE) -> PairScores:
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

    def run(
        self, defense: PredictionDefense, trials: int, seed: int, executor: Executor = INLINE
    ) -> PairScores:
        game = prediction_game(defense, self.model, self.pair, self.attack, self.observer)
        scores = game.run(trials=trials, seed=seed, executor=executor)
        return PairScores(scores.absent, scores.present, **self._law(defense, game))

    def _law(
        self, defense: PredictionDefense, game: DistinguishingGame[ExactScores]
    ) -> dict[str, Any]:
        """Return what the law of the noise says of the pair."""
        noise = defense.noise_of_predictions(self.pair.ratings.scale)
        moved = shifts(game.pair)
        shift = float(moved.sum())
        truth = laplace_vector_epsilon(moved, noise.scale, delta=delta_of(defense.claim()))
        return {
            "truth": truth, "shift": shift, "share": _shift_share(shift, noise.sensitivity),
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Anything(_Values):
    """A match in which a plug-in's own release of unknown law is shown."""

    def _law(
        self, defense: PredictionDefense, game: DistinguishingGame[ExactScores]
    ) -> dict[str, Any]:
        return {"share": 1.0}


@dataclass(frozen=True, eq=False)
class _PredictedList(_Values):
    """A match in which the list of the best predictions is shown without their values."""

    def _law(
        self, defense: PredictionDefense, game: DistinguishingGame[ExactScores]
    ) -> dict[str, Any]:
        before, after = game.pair.before, game.pair.after
        noise = defense.noise_of_predictions(self.pair.ratings.scale)
        item, k = self.pair.items[0], defense.top_k
        truth = place_epsilon(before.scores, after.scores, item, k, noise.scale)
        share = _shift_share(
            float(abs(after.scores[item] - before.scores[item])), noise.sensitivity
        )
        # The list reveals no more than the prediction.
        return {"truth": truth, "share": min(share, _share(truth, defense.claim()))}


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
    ) -> PairScores:
        game = entry_game(defense, self.pair, self.attack)
        scores = game.run(trials=trials, seed=seed, executor=executor)
        truth = entry_truth(defense, self.pair)
        share = _share(truth, defense.claim())
        return PairScores(scores.absent, scores.present, truth, share=share)


def match_of(served: OnDemandModel, game: tables.Game, seed: int) -> Match:
    """Prepare the neighbouring data sets and the attack of a game.

    Raises:
        ConfigError: the claim does not cover the observer, or the list that is observed on a pair.
        DataError: there are too few data for a pair.
    """
    attack, first = game.create("game"), served.defenses[0]
    if isinstance(first, ListDefense):
        return _DrawnList(first.pair(game.pair, served.train.scale), attack)
    pair, model = _pair_of(served, game, seed)
    defense = served.predicting[0]
    observers = defense.observers()
    observer = observer_of(game, served.model.label, observers)
    check_covered(game, served.model.label, defense.claim(), observer)
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
            f"of model {served.model.label!r} covers {defense.outputs}: remove observe, or set "
            "params.outputs"
        )
    return _PredictedList(model, pair, attack, observer)


def _pair_of(
    served: OnDemandModel, game: tables.Game, seed: int
) -> tuple[PredictionPair, ItemModel]:
    defense = served.predicting[0]
    if game.pair != "data":
        pair = defense.pair(game.pair, served.train.scale)
        return pair, defense.prepare(pair.ratings)
    counts = np.diff(served.train.by_user.start)
    users = np.flatnonzero(counts >= defense.min_ratings)
    if len(users) < 2:
        raise DataError(
            f"{len(users)} of the users that the similarity is built from have at least "
            f"{defense.min_ratings} ratings and a pair needs 2 such users: use more data"
        )
    pair = search_pair(defense, served.prepared, users, candidates=game.candidates, seed=seed)
    return pair, served.prepared


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


class Games(GameMeasure[OnDemandConfig, OnDemandModel]):
    """`epsilon` of every game at every ε, with its controls; and `attack.advantage`, `leak`."""

    def __init__(self, subject: OnDemandModels[Any]) -> None:
        """Keep the context."""
        self.context = subject.context

    def games(self, model: OnDemandModel) -> Iterator[RecordPart]:
        """Run each game of the config at every ε."""
        for game in self.context.config.game:
            stage = f"{model.label}: game {game.label}"
            self.context.progress.stage(stage)
            match = match_of(model, game, self.context.seed)
            yield records.PairRecord(model=model.label, pair=game.label, summary=match.summary)
            for defense in model.defenses:
                measured = partial(self._measured, stage, model, defense, game, match)
                yield from self.context.unit(stage, measured)

    def _measured(
        self,
        stage: str,
        model: OnDemandModel,
        defense: OnDemandDefense,
        game: tables.Game,
        match: Match,
    ) -> Iterator[RecordPart]:
        def score(defense: OnDemandDefense, seed: int) -> PairScores:
            executor = self.context.tasks(stage, model.model, game, of=[defense], controlled=True)
            return match.run(defense, game.trials, seed, executor)

        one = OneGame(model.label, defense, game, score, trainings=2 * game.trials)
        certificate = self.certificate(one)
        yield from self.measurements(one, certificate, shift=certificate.outcomes.shift)


def _shift_share(shift: float, sensitivity: float) -> float:
    return min(1.0, shift / sensitivity) if sensitivity else 0.0


def _share(truth: Estimate | None, claim: Claim | None) -> float:
    """Return the share of the claimed ε that a pair shows if the noise keeps the claim."""
    return min(1.0, truth.value / claim.epsilon) if claim and truth else 1.0
