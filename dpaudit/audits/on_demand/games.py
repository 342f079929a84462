"""The games of a config on models that serve on demand: their set-up, their law, and each ε."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Distinguisher
from dpaudit.auditor.distinguishing import GameMeasure, OneGame
from dpaudit.auditor.games.certify import GameScores
from dpaudit.auditor.games.game import DistinguishingGame
from dpaudit.auditor.measure import RecordPart
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.on_demand.search import search_pair
from dpaudit.audits.on_demand.subject import OnDemandModel
from dpaudit.bounds.accounting import laplace_vector_epsilon
from dpaudit.config import tables
from dpaudit.config.tables import check_covered, observer_of
from dpaudit.core.claim import Claim, delta_of
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import ItemList, LaplacePair, PreparedPair
from dpaudit.data.neighbors import check
from dpaudit.data.ratings import Ratings, Scale
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


def prediction_game(
    defense: PredictionDefense,
    model: ItemModel,
    pair: PredictionPair,
    attack: Distinguisher,
    observer: str = "values",
) -> DistinguishingGame[ExactScores]:
    """Set up the game on what the target user is shown: predictions of `pair.items`, or the list.

    Raises:
        DataError: the pair's change has no effect, so that D and D' are the same data set.
    """
    check(pair.ratings, pair.change)
    prepared = PreparedPair(
        before=defense.exact(model, pair.ratings.profile(pair.target)),
        after=defense.exact_after(model, pair.change, pair.target),
        items=np.array(pair.items, np.int32),
    )
    return DistinguishingGame(defense.observers()[observer], prepared, attack)


def shifts(pair: PreparedPair[ExactScores]) -> NDArray[np.float64]:
    """Compute the noiseless difference of each shown prediction between D and D' `(k,)`."""
    before, after = (
        exact.scores[pair.items].astype(np.float64) for exact in (pair.before, pair.after)
    )
    return abs(after - before)


def entry_game(
    defense: ListDefense, pair: EntryPair, attack: Distinguisher
) -> DistinguishingGame[ExactScores]:
    """Set up the game on the list drawn from a row of the completed matrix.

    Raises:
        DataError: no entry differs, so that D and D' are the same.
    """
    if np.array_equal(pair.before.scores, pair.after.scores):
        raise DataError(f"no entry of the two rows differs ({pair.summary}): change one")
    return DistinguishingGame(
        defense.observers()["list"], PreparedPair(pair.before, pair.after), attack
    )


Scores = NDArray[np.float32]
# The integration grid, in units of the Laplace scale: how far it extends beyond the predictions,
# its greatest length, and the number of nodes per unit.
_REACH, _LONGEST, _NODES = 40.0, 500.0, 20.0


def entry_truth(defense: ListDefense, pair: EntryPair) -> Estimate | None:
    """Return the exact ε of the list on this pair; None if it is not known."""
    epsilon = defense.pair_epsilon(pair)
    return None if epsilon is None else Estimate.exact(epsilon, "law of the list")


def place_epsilon(
    before: Scores, after: Scores, item: int, k: int, scale: float
) -> Estimate | None:
    """Compute the ε of one item's place in a list of the k best predictions with Laplace noise.

    No other prediction differs between D and D'. Given the item's noisy prediction x, the others
    exceed x independently. The distribution of their number is computed by convolution for every x
    of a grid and integrated by the trapezoidal rule (relative error 1e-3 of the ε). The rounding of
    released values to a public grid is ignored.

    Args:
        before: the exact predictions on D, `−inf` where none is shown.
        after: the exact predictions on D'.
        item: the item whose place is observed.
        k: the length of the list.
        scale: the Laplace scale b.

    Returns:
        The ε; None if there is no noise, or if the predictions spread over so many b that the grid
        would be too long.
    """
    rivals = np.delete(before, item)
    rivals = rivals[np.isfinite(rivals)].astype(np.float64)
    ends = [*rivals, float(before[item]), float(after[item])]
    low, high = min(ends) - _REACH * scale, max(ends) + _REACH * scale
    if scale == 0 or (high - low) / scale > _LONGEST:
        return None
    x = np.linspace(low, high, int((high - low) / scale * _NODES) + 2)
    # The distribution of the number of others above x, 0 to k − 1 and "k or more", `(k + 1, X)`.
    number = np.zeros((k + 1, len(x)))
    number[0] = 1.0
    for other in rivals:
        above = laplace_tail((x - other) / scale)
        up = number * above
        number -= up
        number[1:] += up[:-1]
        number[-1] += up[-1]

    def places(score: float) -> NDArray[np.float64]:
        density = np.exp(-np.abs(x - score) / scale) / (2 * scale)
        return np.trapezoid(number * density, x, axis=1)

    absent, present = places(float(before[item])), places(float(after[item]))
    ratio = np.abs(np.log(present) - np.log(absent))
    return Estimate.exact(float(ratio.max()), "law of the item's place, integrated")


def laplace_tail(distance: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the probability that Laplace noise of scale 1 exceeds each distance."""
    half = np.exp(-np.abs(distance)) / 2
    return np.where(distance > 0, half, 1 - half)


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


class PairLaw(NamedTuple):
    """What the law of the noise says of a pair.

    Attributes:
        truth: the pair's ε; None if it is not known.
        share: share of the mechanism's ε that the pair shows, in [0, 1].
        shift: sum of the differences of the shown exact predictions; None for lists.
    """

    truth: Estimate | None = None
    share: float = 1.0
    shift: float | None = None


@dataclass(frozen=True, eq=False)
class Match:
    """A pair with the attack and observer that distinguish its data sets.

    Attributes:
        summary: description of the pair in one sentence.
        game: sets up the game of one of the model's defenses.
        law: returns what the law of a defense's noise says of the prepared pair.
    """

    summary: str
    game: Callable[[Any], DistinguishingGame[ExactScores]]
    law: Callable[[Any, PreparedPair[ExactScores]], PairLaw]

    def run(self, defense: Any, trials: int, seed: int, executor: Executor = INLINE) -> PairScores:
        """Run `trials` trials on each data set with one of the model's defenses."""
        game = self.game(defense)
        scores = game.run(trials=trials, seed=seed, executor=executor)
        law = self.law(defense, game.pair)
        return PairScores(
            scores.absent, scores.present, law.truth, share=law.share, shift=law.shift
        )


def _values_law(
    defense: PredictionDefense, pair: PreparedPair[ExactScores], scale: Scale
) -> PairLaw:
    """Return the law of shown predictions."""
    noise, moved = defense.noise_of_predictions(scale), shifts(pair)
    shift = float(moved.sum())
    truth = laplace_vector_epsilon(moved, noise.scale, delta=delta_of(defense.claim()))
    return PairLaw(truth, _shift_share(shift, noise.sensitivity), shift)


def _predicted_list_law(
    defense: PredictionDefense, pair: PreparedPair[ExactScores], scale: Scale, item: int
) -> PairLaw:
    """Return the law of the list of the best predictions, which is shown without their values."""
    noise = defense.noise_of_predictions(scale)
    before, after = pair.before.scores, pair.after.scores
    truth = place_epsilon(before, after, item, defense.top_k, noise.scale)
    share = _shift_share(float(abs(after[item] - before[item])), noise.sensitivity)
    # The list reveals no more than the prediction.
    return PairLaw(truth, min(share, _share(truth, defense.claim())))


def _drawn_list_law(
    defense: ListDefense, _: PreparedPair[ExactScores], entries: EntryPair
) -> PairLaw:
    """Return the law of a list that is drawn by a known law."""
    truth = entry_truth(defense, entries)
    return PairLaw(truth, _share(truth, defense.claim()))


def _unknown_law(_: PredictionDefense, __: PreparedPair[ExactScores]) -> PairLaw:
    """Return what is known of a plug-in's own release."""
    return PairLaw()


def match_of(served: OnDemandModel, game: tables.Game, seed: int) -> Match:
    """Prepare the neighbouring data sets and the attack of a game.

    Raises:
        ConfigError: the claim does not cover the observer, or the list that is observed on a pair.
        DataError: there are too few data for a pair.
    """
    attack, first = game.create("game"), served.defenses[0]
    if isinstance(first, ListDefense):
        entries = first.pair(game.pair, served.train.scale)
        drawn = partial(entry_game, pair=entries, attack=attack)
        return Match(entries.summary, drawn, partial(_drawn_list_law, entries=entries))
    pair, model = _pair_of(served, game, seed)
    defense, scale = served.predicting[0], pair.ratings.scale
    observers = defense.observers()
    observer = observer_of(game, served.model.label, observers)
    check_covered(game, served.model.label, defense.claim(), observer)
    release, knowledge = observers[observer].shows
    predictions = partial(prediction_game, attack=attack, observer=observer)
    if issubclass(knowledge, LaplacePair):
        values = partial(_values_law, scale=scale)
        return Match(pair.summary, partial(predictions, model=model, pair=pair), values)
    if not issubclass(release, ItemList):
        return Match(pair.summary, partial(predictions, model=model, pair=pair), _unknown_law)
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
    listed = partial(_predicted_list_law, scale=scale, item=pair.items[0])
    return Match(pair.summary, partial(predictions, model=model, pair=pair), listed)


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


class OnDemandGames(GameMeasure[OnDemandConfig, OnDemandModel]):
    """`epsilon` of every game at every ε, with its controls; and `attack.advantage`, `leak`."""

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

        played = OneGame(model.label, defense, game, score, trainings=2 * game.trials)
        certificate = self.certificate(played)
        yield from self.measurements(played, certificate, shift=certificate.outcomes.shift)


def _shift_share(shift: float, sensitivity: float) -> float:
    return min(1.0, shift / sensitivity) if sensitivity else 0.0


def _share(truth: Estimate | None, claim: Claim | None) -> float:
    """Return the share of the claimed ε that a pair shows if the noise keeps the claim."""
    return min(1.0, truth.value / claim.epsilon) if claim and truth else 1.0
