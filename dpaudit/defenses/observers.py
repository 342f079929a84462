"""Observers of trained defenses: of the final model, and of single training steps.

A final model is seen by its published part, or by what another user is shown. The noise of a
training step has a known law given the steps before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import (
    ItemList,
    NoisedSteps,
    Observer,
    Predictions,
    PreparedPair,
    StepsPair,
    TargetUser,
    View,
)
from dpaudit.core.streams import Streams
from dpaudit.defenses.base import TrainedDefense
from dpaudit.kernels.lanes import LANES

P = TypeVar("P")
C = TypeVar("C", bound="Learner")
Numbers = NDArray[np.float64]

# Maps the prepared D, D', the one of them that is trained on, and the streams of some trials to
# the noised steps and their laws under D and D'.
Steps = Callable[[P, P, P, Streams], Iterator[tuple[NoisedSteps, StepsPair]]]


def release_observers(defense: TrainedDefense[P], published: type | None) -> dict[str, Observer[P]]:
    """Build the observers of the final model.

    `public` sees the published part of the model. `values` and `list` see the predictions and the
    list that another user is shown.

    Args:
        defense: the defense that is trained.
        published: the type that `public` of its models returns; None if no model is published.
    """

    def observer(kind: type, words: str, release: Any) -> Observer[P]:
        def views(pair: PreparedPair[P], trained: P, streams: Streams) -> Iterator[View]:
            yield View(release(defense.train(trained, streams), pair), pair.target)

        return Observer((kind, TargetUser), views, words, purpose="release", block=LANES)

    observers = {
        "values": observer(Predictions, "predictions shown to another user", _values),
        "list": observer(ItemList, "the list shown to another user", _ranked),
    }
    if published is None:
        return observers
    return {"public": observer(published, "the published model", _public), **observers}


def _public(models: Any, pair: PreparedPair[Any]) -> Any:
    return models.public(pair.items)


def _values(models: Any, pair: PreparedPair[Any]) -> Predictions:
    shown = _predicted(models, pair, pair.items)
    return Predictions(np.broadcast_to(pair.items, shown.shape), shown)


def _ranked(models: Any, pair: PreparedPair[Any]) -> ItemList:
    if len(pair.unrated) < 2:
        raise ConfigError(
            "observe = 'list' needs two items that the observing user has not rated, and there "
            f"are only {len(pair.unrated)}: use observe = 'values'"
        )
    # Ties are broken by the lower item index.
    order = np.argsort(-_predicted(models, pair, pair.unrated), axis=1, kind="stable")
    return ItemList(pair.unrated[order[:, : pair.top_k]])


def _predicted(
    models: Any, pair: PreparedPair[Any], items: NDArray[np.int32]
) -> NDArray[np.float32]:
    if pair.target is None:
        raise TypeError("pair.target is None: it names the observing user")
    observer = np.full(len(items), pair.target.observer, np.int32)
    shown: NDArray[np.float32] = models.predict(observer, items)
    return shown


def step_observer(steps: Steps[P], words: str) -> Observer[P]:
    """Build the observer of `steps`, with one view for each step or round that it yields."""

    def views(pair: PreparedPair[P], trained: P, streams: Streams) -> Iterator[View]:
        for release, law in steps(pair.before, pair.after, trained, streams):
            yield View(release, law)

    return Observer((NoisedSteps, StepsPair), views, words, purpose="steps", block=LANES)


class ObservedRound(NamedTuple):
    """What is observed in one round of some trials, C numbers of each.

    Attributes:
        shown: the numbers with noise `(w, C)`.
        absent: without noise on D `(w, C)`.
        present: without noise on D' `(w, C)`.
        scale: the scale of the noise `(w, C)`.
        grid: the step of the rounding grid `(w, C)`.
    """

    shown: Numbers
    absent: Numbers
    present: Numbers
    scale: Numbers
    grid: Numbers

    @classmethod
    def of_trial(
        cls, seen: Sequence[NDArray[np.floating]], scale: ArrayLike, grid: ArrayLike
    ) -> ObservedRound:
        """Return the numbers of one trial; scale and grid broadcast to their shape.

        Args:
            seen: the numbers with noise, and without noise on D and on D', of one shape.
            scale: the scale of the noise.
            grid: the step of the rounding grid.
        """
        laws = (np.broadcast_to(of, seen[0].shape) for of in (scale, grid))
        return cls(*(part.reshape(1, -1).astype(np.float64) for part in (*seen, *laws)))


class Learner(Protocol):
    """A counterfactual: the target users with their data of D or D', trained in parallel."""

    def learn(self) -> None:
        """Update their own factors from what was published last."""
        ...


class ObservedTraining(ABC, Generic[C]):
    """The training of some trials, with counterfactual target users on D and on D'.

    What the target users would submit on either data set is computed from what was published
    before, so the law of each round is known given the rounds before it.

    Attributes:
        counterfactuals: the target users on D, on D', and on whatever else the observation needs.
    """

    counterfactuals: Sequence[C]

    @abstractmethod
    def submit(self) -> ObservedRound:
        """Run the part of a round that is observed."""

    @abstractmethod
    def learn(self) -> None:
        """Run the rest of the round: update the actual training with what was submitted."""


def observed_steps(
    trainings: Sequence[ObservedTraining[Any]], rounds: int, *, gaussian: bool
) -> Iterator[tuple[NoisedSteps, StepsPair]]:
    """Run trainings side by side and yield what is observed of each round, `(W, C)`.

    Args:
        trainings: the trainings, each of one trial or of several.
        rounds: the number of rounds.
        gaussian: whether the noise is normal; Laplace otherwise.
    """
    for number in range(rounds):
        # No observer sees the update after the last round.
        for training in trainings if number else ():
            training.learn()
            for counterfactual in training.counterfactuals:
                counterfactual.learn()
        seen = zip(*(training.submit() for training in trainings), strict=True)
        shown, absent, present, scale, grid = (np.concatenate(part) for part in seen)
        yield NoisedSteps(shown), StepsPair(absent, present, scale, gaussian, grid=grid)
