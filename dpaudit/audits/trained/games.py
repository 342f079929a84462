"""The games of a config on trained models.

The game of a pair has two neighbouring data sets. On noised training steps its ε and its divergence
are also computed by the law of their noise.

In the game of many ratings every training tests many canary ratings at once: an independent coin
decides whether a canary has the least or the largest value of the scale, and the canary's own
numbers in the noised steps score its coin. The scores of one training suffice for a bound (Steinke,
Nasr, Jagielski 2023, arXiv:2305.08846); those of several trainings, with fresh coins each, are
certified together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Distinguisher
from dpaudit.auditor.distinguishing import GameMeasure, OneGame, game_key
from dpaudit.auditor.games import CERTAIN, CoinScores, DistinguishingGame, GameScores, in_blocks
from dpaudit.auditor.measure import MetricKey, RecordPart, gated, points
from dpaudit.auditor.trainings import attempted
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.audits.trained.pairs import MANY, PairSearch, sees_steps, trained_game
from dpaudit.audits.trained.subject import TrainedModel, TrainedModels, fitting
from dpaudit.bounds.divergence import log_ratio_kl, neighbour_kl, plugin_kl, threshold_kl
from dpaudit.bounds.frequentist.means import nonnegative_mean
from dpaudit.bounds.gdp import gaussian_delta, gaussian_epsilon
from dpaudit.config import tables
from dpaudit.core.claim import delta_of
from dpaudit.core.errors import DataError, InputError
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import NoisedSteps, PreparedPair, StepsPair
from dpaudit.core.streams import Streams, generator
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import TrainedDefense
from dpaudit.execution.executor import INLINE, Executor
from dpaudit.record import result as records

# Trainings on each data set that sample the distances of the steps.
TRAININGS = 64
# The spacing of the grid that scores lie on; noise of this width makes them distinct.
_GRID = 2.0**-8
# Columns of `_distances`.
_SQUARES, _SUM, _LAPLACE = range(3)


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
        attack, seed, family = game.create("game"), self.context.seed, self.context.family
        steps = sees_steps(defense, observe)
        submits = steps and "recommender" in defense.observers()
        judged, mu = gated(self.context.config, "game.kl"), math.inf
        if judged and steps:
            mu = defense.steps_mu(defense.prepare(pair.after, pair.public))
        # What the law of the steps' noise says; None if a training diverges.
        laws: list[StepsLaw | None] = []

        def score(mechanism: Any, seed: int) -> GameScores:
            running = trained_game(mechanism, pair, attack, observe, target)
            executor = self._executor(stage, model, game, mechanism)
            scores = running.run(trials=game.trials, seed=seed, executor=executor)
            if mechanism is not defense or not (submits or mu < math.inf):
                return scores
            self.context.progress.expect(2 * TRAININGS)
            delta = delta_of(defense.claim())
            law = partial(
                steps_law, running, delta=delta, seed=self.context.seed, executor=executor
            )
            laws.append(attempted(law, None))
            return replace(scores, truth=laws[0] and laws[0].epsilon) if submits else scores

        run = OneGame(model.label, defense, game, score, game.trainings + fitting(game))
        certificate = self.certificate(run)
        scores = certificate.outcomes
        observer = observe if submits else None
        yield from self.measurements(run, certificate, observer=observer)
        divergences = {}
        if submits:
            divergences = score_divergences(scores, seed=seed, alpha=1 - family.confidence)
        if judged:
            divergences["one threshold"] = joint_divergence(
                scores, next(iter(laws), None), mu, alpha=family.alpha, confidence=family.confidence
            )
        for name, estimate in divergences.items():
            yield run.key("game.kl").measured(estimate, estimator=name)
        words = pair.details if game.details else pair.summary
        summary = f"{words} ({adjacency}, observer {observe})"
        yield records.PairRecord(model=model.label, pair=game.label, summary=summary)

    def _many(
        self, stage: str, model: TrainedModel, defense: Any, game: tables.Game
    ) -> Iterator[RecordPart]:
        """Run the game of many ratings, each decided by a coin that is guessed."""
        rows, attack = rare_ratings(self.ratings, game.candidates), game.create("game")
        play = partial(run_coins_game, trainings=game.trials)

        def score(mechanism: Any, seed: int) -> CoinScores:
            executor = self._executor(stage, model, game, mechanism)
            return play(mechanism, self.ratings, rows, attack, seed=seed, executor=executor)

        run = OneGame(model.label, defense, game, score, game.trainings + fitting(game))
        yield from self.measurements(run, self.certificate(run))
        summary = (
            f"in each of {game.trials} trainings {len(rows)} ratings, one of each of as many users "
            "on the items with the fewest raters, are at either end of the scale by coins of their "
            "own (rating-replace, observer iterates)"
        )
        yield records.PairRecord(model=model.label, pair=game.label, summary=summary)


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
        shown = views(PreparedPair(low, high), trained, trial)
        return attempted(
            lambda: np.concatenate([_canary_scores(attack, *view, len(rows)) for view in shown]),
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


def _canary_scores(
    attack: Distinguisher, release: NoisedSteps, pair: StepsPair, count: int
) -> NDArray[np.float64]:
    """Score each canary in a single trial `(C,)`; a canary's numbers are `count` places apart."""

    def scores() -> Iterator[float]:
        for c in range(count):
            places = slice(c, None, count)
            absent, present = pair.absent[:, places], pair.present[:, places]
            grid = pair.grid[..., places] if isinstance(pair.grid, np.ndarray) else pair.grid
            scale = pair.scale[..., places]
            canary = replace(pair, absent=absent, present=present, scale=scale, grid=grid)
            yield float(attack.score(NoisedSteps(release.shown[:, places]), canary)[0])

    return np.clip(np.fromiter(scores(), np.float64, count), -CERTAIN, CERTAIN)


class StepsLaw(NamedTuple):
    """What the law of the noise of a pair's steps says.

    Attributes:
        epsilon: the ε.
        divergences: of each training on D', the sum of the divergences `‖difference‖²/(2σ²)` of its
            steps, in nats `(W,)`; infinite if the noise is not normal.
    """

    epsilon: Estimate
    divergences: NDArray[np.float64]


def steps_law(
    game: DistinguishingGame[Any],
    *,
    delta: float,
    seed: int,
    trainings: int = TRAININGS,
    executor: Executor = INLINE,
) -> StepsLaw:
    """Compute the ε and the divergence of a pair by the law of its steps' noise, from trainings.

    **Normal noise.** Given everything shown before, a step follows one of two normal distributions
    a known distance apart, and all steps of a training together are equivalent to one such step at
    `μ = √Σ ‖difference‖²/σ²`. μ varies between trainings. If the server knew μ in advance, the
    pair's ε would solve

        E[δ_μ(ε)] = δ,    δ_μ the profile of normals at μ

    The result is this ε. It ignores only the effect of the target user's own noise on later
    differences through V and F, in which the sums over all users dominate. The larger of the two
    data sets' values is returned. It rests on a sample of μ, whose largest values weigh most.

    **Laplace noise in one step.** Given the start of a training, the log-ratio is at most

        Σ_j |difference_j| / b_j

    and attains it with positive probability, when every number lies beyond both of its means: this
    is the ε at δ = 0, and an upper bound at any other δ (Dwork, McSherry, Nissim, Smith 2006,
    Proposition 1, doi:10.1007/11681878_14). The largest value over the trainings is returned, which
    is exact if all start alike. **In several steps** the ε is infinite: users' factors depend on V,
    and V on the earlier noise, which is unbounded, and so the differences of later steps are
    unbounded. The sum over the steps of a training only bounds what that training shows.

    **The divergence.** Given what was shown before, two normal steps have the Kullback-Leibler
    divergence `‖difference‖²/(2σ²)`. Its sum over the steps, averaged over trainings on D', is the
    divergence of all that the observer sees on D' from that on D, by the chain rule; at least as
    much if the differences depend on what the observer does not see (Cover & Thomas 2006, Theorem
    2.5.3, doi:10.1002/047174882X).

    Args:
        game: a game whose observer sees steps with noise of a known law.
        delta: the δ.
        seed: seed of the trainings.
        trainings: number of trainings on each data set.
        executor: runs the trainings; the result does not depend on it.

    Raises:
        NoModelError: a training diverged: no law says how likely that is.
    """
    reads = [
        (partial(_distances, game, trained), Streams.first(seed, f"law/{name}", trainings))
        for name, trained in (("absent", game.pair.before), ("present", game.pair.after))
    ]
    apart = in_blocks(reads, game.observer.block, executor)
    steps = max(float(distances[:, _LAPLACE].max()) for distances in apart)
    if steps:
        largest = max(float(distances[:, _SUM].max()) for distances in apart)
        value, noise = math.inf if steps > 1 and largest else largest, "Laplace"
    else:
        shifts = [np.sqrt(distances[:, _SQUARES]) for distances in apart]
        value, noise = max(_mixture(mu, delta) for mu in shifts), "normal"
    present = apart[1]
    epsilon = Estimate(
        value=value,
        lower=0.0,
        upper=value,
        confidence=0.0,
        alpha=1.0,
        n=trainings,
        method=f"{noise} steps, their distances met in {trainings} trainings of either data set",
        kind="assumes-law",
    )
    normal = present[:, _LAPLACE] == 0
    return StepsLaw(epsilon, np.where(normal, present[:, _SQUARES] / 2, math.inf))


def joint_divergence(
    scores: GameScores, law: StepsLaw | None, mu: float, *, alpha: float, confidence: float
) -> Estimate:
    """Estimate the divergence of a game's observations on D' from those on D, so that it may gate.

    The lower end is that of `binary.threshold_kl` and assumes nothing but independent trials: it
    tests the game's scores, whose divergence is at most that of the observations. Without a law
    there is no upper end. With normal steps whose distance clipping bounds, the upper end is that
    of the mean of `StepsLaw.divergences` over trainings (`means.nonnegative_mean`), which are
    independent and at most μ²/2. Each end has α/2. The upper end assumes that the noise is normal
    with the σ in use, as the mechanism's code says.

    Args:
        scores: the game's scores of independent trials.
        law: the law of its steps; None if they have none.
        mu: the largest distance of all steps (`TrainedDefense.steps_mu`).
        alpha: the level.
        confidence: the confidence to state.
    """
    clipped = law is not None and mu < math.inf and bool(np.isfinite(law.divergences).all())
    level = alpha / 2 if clipped else alpha
    tested = threshold_kl(scores.present, scores.absent, alpha=level, confidence=confidence)
    tested = tested.changed(alpha=alpha)
    if law is None or not clipped:
        return tested
    # Its upper end alone is used, which has half of the level.
    mean = nonnegative_mean(law.divergences, alpha, confidence, most=mu**2 / 2)
    upper = max(mean.upper, tested.lower)
    return tested.changed(
        value=min(max(mean.value, tested.lower), upper),
        upper=upper,
        method=f"{tested.method}; above, steps are normal and clipped",
    )


def _distances(
    game: DistinguishingGame[Any], trained: Any, streams: Streams
) -> NDArray[np.float64]:
    """Measure how far apart the steps of each training are, in units of their noise `(W, 3)`.

    The columns are the sum of squares, the sum of absolute values, and the number of steps with
    Laplace noise.
    """
    sums = np.zeros((len(streams), 3))
    for _, law in game.observer.views(game.pair, trained, streams):
        away = abs(law.present - law.absent) / law.scale
        sums[:, _SQUARES] += (away**2).sum(1)
        sums[:, _SUM] += away.sum(1)
        sums[:, _LAPLACE] += not law.gaussian
    return sums


def _mixture(mu: NDArray[np.float64], delta: float) -> float:
    """Solve for the ε at which the mean of the normal profiles at these distances is δ."""
    from scipy.optimize import brentq

    def excess(epsilon: float) -> float:
        return float(np.mean([gaussian_delta(epsilon, float(distance)) for distance in mu])) - delta

    if excess(0.0) <= 0:
        return 0.0
    if delta == 0:
        return math.inf
    # Upper end of the bracket: at the ε of the largest distance no profile exceeds δ.
    return float(brentq(excess, 0.0, gaussian_epsilon(float(mu.max()), delta) + 1e-9))


def score_divergences(scores: GameScores, *, seed: int, alpha: float) -> dict[str, Estimate]:
    """Estimate the Kullback-Leibler divergence of D' from D in a game's views in three ways.

    All but the first estimate the divergence between the two distributions of scores, which is at
    most that between the distributions of views.

    Args:
        scores: log-likelihood ratios of the trials, on a grid.
        seed: seed of the noise that makes the scores distinct.
        alpha: the level of each interval separately.

    Returns:
        The estimates by the name of the estimator; one that cannot be computed is left out, as all
        are if an output is possible in only one data set, or a training ended without a model.
    """
    if max(abs(values).max() for values in (scores.absent, scores.present)) >= CERTAIN:
        return {}
    rng = generator(seed, "divergence")
    present, absent = (
        values + rng.uniform(-_GRID / 2, _GRID / 2, len(values))
        for values in (scores.present, scores.absent)
    )
    estimates = {}
    for name, estimate in (
        ("mean log-ratio", partial(log_ratio_kl, scores.present)),
        ("normal plug-in", partial(plugin_kl, present, absent)),
        ("nearest neighbours", partial(neighbour_kl, present, absent)),
    ):
        try:
            estimates[name] = estimate(alpha=alpha)
        except InputError:  # too few trials, or scores without spread
            continue
    return estimates
