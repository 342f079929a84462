"""Distinguishing games on recommenders that are trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing.float_bits import FloatBits
from dpaudit.attacks.distinguishing.likelihood_ratio import LikelihoodRatio
from dpaudit.attacks.membership.canary import Canary
from dpaudit.auditor.games.predictions import CERTAIN, ListScores
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.releases import (
    ItemFactors,
    ItemList,
    NoisedSteps,
    Predictions,
    SimilarityRows,
    StepsPair,
    Suspect,
)
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.training import Watch, lane_blocks

ReleaseObserver = Literal["public", "values", "list"]

Release = ItemFactors | SimilarityRows | Predictions | ItemList


@dataclass(frozen=True, eq=False)
class DataPair:
    """Two neighbouring data sets to learn from.

    Attributes:
        before: the ratings of world `D`.
        after: the ratings of world `D'`.
        public: the data whose statistics count as public in both; None where each world computes
            its own.
        summary: the pair in one sentence, without naming any record.
        details: the same with the sizes and values of the one who is in doubt; empty where the
            summary tells all.

    Raises:
        DataError: the two data sets are one.
    """

    before: Ratings
    after: Ratings
    public: Ratings | None
    summary: str
    details: str = ""

    def __post_init__(self) -> None:
        if self.before.digest == self.after.digest:
            raise DataError(
                f"D and D' are the same data set ({self.summary}): choose a change that changes it"
            )


class StepsDefense(Protocol):
    """A defense whose steps' noise has a known law given what was shown before."""

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> Any:
        """All that needs no randomness."""
        ...

    def watch(
        self, before: Any, after: Any, trained: Any, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """What the steps on one of two data sets show where these differ."""
        ...


@dataclass(frozen=True)
class SeenBy:
    """A defense as one observer watches its steps.

    Attributes:
        defense: what is trained.
        steps: how the observer watches it, one of the defense's `watchers`.
    """

    defense: Any
    steps: Watch[Any]

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> Any:
        """All that needs no randomness."""
        return self.defense.prepare(ratings, public)

    def watch(
        self, before: Any, after: Any, trained: Any, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """What the steps on one of two data sets show where these differ."""
        return self.steps(before, after, trained, streams)


def play_steps_game(
    defense: StepsDefense,
    pair: DataPair,
    attack: LikelihoodRatio | FloatBits,
    *,
    trials: int,
    seed: int,
    threads: int = 1,
) -> ListScores:
    """Train `trials` worlds on D and as many on D', and score what their steps show.

    Every world draws its own noise; D and D' share no stream.

    Raises:
        ConfigError: the pair is none that the defense's steps can be compared on.
        RunError: a training diverged.
    """
    before = defense.prepare(pair.before, pair.public)
    after = defense.prepare(pair.after, pair.public)

    def score(trained: Any) -> Callable[[Streams], NDArray[np.float64]]:
        def of_block(streams: Streams) -> NDArray[np.float64]:
            total = np.zeros(len(streams))
            for release, knowledge in defense.watch(before, after, trained, streams):
                # Without noise rounding can let steps contradict each other; infinities clash.
                total += np.clip(attack.score(release, knowledge), -CERTAIN, CERTAIN)
            return np.clip(total, -CERTAIN, CERTAIN)

        return of_block

    return ListScores(
        over_worlds(score(before), Streams.first(seed, "steps/absent", trials), threads),
        over_worlds(score(after), Streams.first(seed, "steps/present", trials), threads),
    )


class ReleasingDefense(Protocol):
    """A defense whose models an observer is shown a part of."""

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> Any:
        """All that needs no randomness."""
        ...

    def train(self, prepared: Any, streams: Streams) -> Any:
        """The models of some worlds."""
        ...


def play_release_game(
    defense: ReleasingDefense,
    pair: DataPair,
    suspect: Suspect,
    observe: ReleaseObserver,
    attack: Canary,
    *,
    trials: int,
    seed: int,
    threads: int = 1,
) -> ListScores:
    """Train `trials` worlds on D and as many on D', and score what is released of them.

    The attack is fitted to worlds of its own: no stream is shared with those that are scored.

    Raises:
        ConfigError: this observer is shown nothing, or always the same.
        RunError: a training diverged.
    """
    prepared = [defense.prepare(ratings, pair.public) for ratings in (pair.before, pair.after)]
    view = _view(observe, pair, suspect, attack.top_k)

    def features(index: int, purpose: str, count: int) -> NDArray[Any]:
        def of_block(streams: Streams) -> NDArray[Any]:
            return attack.features(view(defense.train(prepared[index], streams)), suspect)

        name = f"release/{purpose}/{('absent', 'present')[index]}"
        return over_worlds(of_block, Streams.first(seed, name, count), threads)

    ratio = attack.fit(*(features(index, "fit", attack.calibration) for index in (0, 1)))
    absent, present = (ratio.score(features(index, "play", trials)) for index in (0, 1))
    return ListScores(absent, present)


def _view(
    observe: ReleaseObserver, pair: DataPair, suspect: Suspect, top_k: int
) -> Callable[[Any], Release]:
    """What the observer holds of the models of a block of worlds.

    Raises:
        ConfigError: a list is always the same.
    """
    items = suspect.items.astype(np.int32)

    def public(models: Any) -> Release:
        if not hasattr(models, "public"):
            raise ConfigError(
                "observe = 'public' needs a model that is published, and this one is not: use "
                "observe = 'values'"
            )
        found: ItemFactors | SimilarityRows = models.public(items)
        return found

    def predicted(models: Any, which: NDArray[np.int32]) -> NDArray[np.float32]:
        shown: NDArray[np.float32] = models.predict(
            np.full(len(which), suspect.watcher, np.int32), which
        )
        return shown

    def values(models: Any) -> Release:
        shown = predicted(models, items)
        return Predictions(np.broadcast_to(items, shown.shape), shown)

    if observe == "public":
        return public
    if observe == "values":
        return values
    unrated = _unrated(pair.before, suspect.watcher)

    def ranked(models: Any) -> Release:
        # Of equal predictions the item of the lower index comes first.
        order = np.argsort(-predicted(models, unrated), axis=1, kind="stable")
        return ItemList(unrated[order[:, :top_k]])

    return ranked


def _unrated(ratings: Ratings, watcher: int) -> NDArray[np.int32]:
    """The items that a list may hold, increasing: the watcher's ratings are the same in D and D'.

    Raises:
        ConfigError: fewer than two, so that the list is always the same.
    """
    rated = ratings.profile(watcher).items
    found = np.setdiff1d(np.arange(ratings.n_items), rated).astype(np.int32)
    if len(found) < 2:
        raise ConfigError(
            "observe = 'list' needs two items that the watching user has not rated, and there "
            f"are {len(found)}: use observe = 'values'"
        )
    return found


def over_worlds(
    score: Callable[[Streams], NDArray[Any]], streams: Streams, threads: int
) -> NDArray[Any]:
    """What is read off all worlds, in blocks whose size depends on nothing.

    Args:
        score: what is read off some worlds, one entry each.
        streams: all worlds.
        threads: at most so many blocks at a time.
    """
    if threads == 1:
        # To hand a small training to another thread takes as long as the training.
        return np.concatenate([score(part) for part in lane_blocks(streams)])
    with ThreadPoolExecutor(max_workers=threads) as pool:
        return np.concatenate(list(pool.map(score, lane_blocks(streams))))
