"""The games of a config on models that serve on demand, and forecasts of what they can detect."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Distinguisher
from dpaudit.auditor.distinguishing import GameMeasure, OneGame
from dpaudit.auditor.games import DistinguishingGame, GameScores
from dpaudit.auditor.kind import Forecast
from dpaudit.auditor.measure import RecordPart
from dpaudit.auditor.plan import Plan
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.on_demand.search import search_pair
from dpaudit.audits.on_demand.subject import OnDemandModel
from dpaudit.bounds.accounting import laplace_vector_epsilon
from dpaudit.bounds.planning import found_from, trials_needed
from dpaudit.config.tables import Game, check_covered, observer_of
from dpaudit.core.claim import Claim, delta_of
from dpaudit.core.errors import ConfigError, DataError, InputError
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import ItemList, LaplacePair, PreparedPair
from dpaudit.data.neighbors import check
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.data.readers.load import load
from dpaudit.defenses import base as roles
from dpaudit.defenses.base import ExactScores, ItemModel
from dpaudit.execution.executor import INLINE, Executor
from dpaudit.record import result as records


def prediction_game(
    defense: roles.PredictionDefense,
    model: ItemModel,
    pair: roles.PredictionPair,
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
    defense: roles.ListDefense, pair: roles.EntryPair, attack: Distinguisher
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


def entry_truth(defense: roles.ListDefense, pair: roles.EntryPair) -> Estimate | None:
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
        up = number * laplace_tail((x - other) / scale)
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
        return PairScores(scores.absent, scores.present, **self.law(defense, game.pair)._asdict())


def _values_law(
    defense: roles.PredictionDefense, pair: PreparedPair[ExactScores], scale: Scale
) -> PairLaw:
    """Return the law of shown predictions."""
    noise, moved = defense.noise_of_predictions(scale), shifts(pair)
    shift = float(moved.sum())
    truth = laplace_vector_epsilon(moved, noise.scale, delta=delta_of(defense.claim()))
    return PairLaw(truth, _shift_share(shift, noise.sensitivity), shift)


def _predicted_list_law(
    defense: roles.PredictionDefense, pair: PreparedPair[ExactScores], scale: Scale, item: int
) -> PairLaw:
    """Return the law of the list of the best predictions, which is shown without their values."""
    noise = defense.noise_of_predictions(scale)
    before, after = pair.before.scores, pair.after.scores
    truth = place_epsilon(before, after, item, defense.top_k, noise.scale)
    share = _shift_share(float(abs(after[item] - before[item])), noise.sensitivity)
    # The list reveals no more than the prediction.
    return PairLaw(truth, min(share, _share(truth, defense.claim())))


def _drawn_list_law(
    defense: roles.ListDefense, _: PreparedPair[ExactScores], entries: roles.EntryPair
) -> PairLaw:
    """Return the law of a list that is drawn by a known law."""
    truth = entry_truth(defense, entries)
    return PairLaw(truth, _share(truth, defense.claim()))


def match_of(served: OnDemandModel, game: Game, seed: int) -> Match:
    """Prepare the neighbouring data sets and the attack of a game.

    Raises:
        ConfigError: the claim does not cover the observer, or the list that is observed on a pair.
        DataError: there are too few data for a pair.
    """
    attack, first = game.create("game"), served.defenses[0]
    if isinstance(first, roles.ListDefense):
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
        # Nothing is known of a plug-in's own release.
        game_of = partial(predictions, model=model, pair=pair)
        return Match(pair.summary, game_of, lambda defense, shown: PairLaw())
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
    served: OnDemandModel, game: Game, seed: int
) -> tuple[roles.PredictionPair, ItemModel]:
    defense = served.predicting[0]
    if game.pair != "data":
        pair = defense.pair(game.pair, served.train.scale)
        return pair, defense.prepare(pair.ratings)
    users = np.flatnonzero(np.diff(served.train.by_user.start) >= defense.min_ratings)
    if len(users) < 2:
        raise DataError(
            f"{len(users)} of the users that the similarity is built from have at least "
            f"{defense.min_ratings} ratings and a pair needs 2 such users: use more data"
        )
    pair = search_pair(defense, served.prepared, users, candidates=game.candidates, seed=seed)
    return pair, served.prepared


def _widened(pair: roles.PredictionPair, k: int) -> roles.PredictionPair:
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
        defense: roles.OnDemandDefense,
        game: Game,
        match: Match,
    ) -> Iterator[RecordPart]:
        def score(defense: roles.OnDemandDefense, seed: int) -> PairScores:
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


_TIMED = 5_000
# The largest number of trials, of both data sets together, that a config may ask for.
_MOST = 200_000_000


def forecast(
    config: OnDemandConfig, *, factor: float | None = None, minutes: float | None = None
) -> list[Forecast]:
    """Forecast every game of the config at every claimed ε.

    The pairs are made or searched for as in the audit, and a few trials are run to time them.

    Args:
        config: a checked config.
        factor: the violation to detect, as a multiple of the claim; by default the smallest
            `detectable` of the gates.
        minutes: total time for all games; replaces their numbers of trials by as many as fit, at
            most as many as a config may ask for.

    Raises:
        DataError: the data cannot be read, or there are too few.
        InputError: `factor` or `minutes` is out of range.
    """
    from threadpoolctl import threadpool_limits

    if factor is not None and not 1 < factor < math.inf:
        raise InputError(f"factor = {factor} is not a finite number above 1: use e.g. 1.2")
    if minutes is not None and not 0 < minutes < math.inf:
        raise InputError(f"minutes = {minutes} is not a positive number: use e.g. 10")
    ratings = load(config.data)
    alpha = Plan(config, ratings=ratings).family.alpha
    gates = [gate.detectable for gate in config.gate if gate.detectable]
    wanted = factor or (min(gates) if gates else None)
    with threadpool_limits(1):  # as in the audit, whose pairs depend on the order of summation
        sampled = [
            sample
            for served in OnDemandModel.of(config, ratings)
            for game in config.game
            for sample in _samples(config, served, game)
        ]
    scale = 1.0
    if minutes is not None and sampled:
        scale = 60 * minutes / sum(sample.seconds for sample in sampled)
    return [_forecast(sample, scale, alpha, wanted) for sample in sampled]


@dataclass(frozen=True)
class _Sample:
    """A game run for a few trials, to measure what it shows and how long it takes."""

    model: str
    game: Game
    claim: Claim
    seconds: float
    timed: PairScores


def _samples(config: OnDemandConfig, served: OnDemandModel, game: Game) -> Iterator[_Sample]:
    match = match_of(served, game, config.seed)
    for defense in served.defenses:
        claim = defense.claim()
        if claim is None:
            continue
        match.run(defense, 1, config.seed)  # compiles the kernels, so that they are not timed
        clock = time.perf_counter()
        timed = match.run(defense, _TIMED, config.seed)
        seconds = (time.perf_counter() - clock) * game.trials / _TIMED
        yield _Sample(served.model.label, game, claim, seconds, timed)


def _forecast(sample: _Sample, scale: float, alpha: float, factor: float | None) -> Forecast:
    """Forecast, optimistically, the least true ε at which the claim would be found to be false."""
    claim, asked, share = sample.claim, 2 * sample.game.trials, sample.timed.share
    trials = max(2, int(min(asked * scale, _MOST)))
    least = found_from(claim.epsilon, trials, alpha, delta=claim.delta)
    return Forecast(
        model=sample.model,
        pair=sample.game.label,
        claimed=claim.epsilon,
        trials=trials,
        detectable=least / share if share > 0 else math.inf,
        needed=None if factor is None else _needed(claim, factor * share, alpha),
        seconds=sample.seconds * trials / asked,
    )


def _needed(claim: Claim, factor: float, alpha: float) -> float:
    if factor <= 1:
        return math.inf
    try:
        return trials_needed(
            claim.epsilon,
            factor,
            delta=claim.delta,
            confidence=1 - alpha,
            game="gaussian" if claim.delta else "laplace",
        )
    except InputError:  # more trials than can be run
        return math.inf
