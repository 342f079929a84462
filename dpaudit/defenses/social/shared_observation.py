"""Trials of a social training in which submissions, or their sums, are observed on D and D'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.defenses.factors import Floats, Indices
from dpaudit.defenses.social.shared_training import Sent, SharedTraining
from dpaudit.defenses.step_observation import ObservedRound, ObservedTraining

Numbers = NDArray[np.float64]


class CounterfactualUsers(Protocol):
    """The target users with their data of one data set, trained beside the actual training."""

    def submissions(self) -> Floats:
        """Return what they would submit without noise, as in `Sent.shown`."""
        ...

    def sum(self) -> Numbers:
        """Return the sum of these submissions for each item `(M, size)`."""
        ...

    def learn(self) -> None:
        """Update their factors from the current V."""
        ...


class _Trial(ObservedTraining[CounterfactualUsers]):
    """One trial's training, with counterfactual target users."""

    def __init__(
        self, training: SharedTraining, counterfactuals: Sequence[CounterfactualUsers]
    ) -> None:
        """Observe `training` beside the counterfactuals on D, on D' and whatever else is needed."""
        self._training, self.counterfactuals = training, counterfactuals
        self._dimensions = training.defense.dimensions
        self._sums = training.items

    def _sent(self) -> Sent:
        sent = self._training.submit()
        self._sums = sent.sums
        return sent

    def learn(self) -> None:
        """Update the training with the last submissions."""
        self._training.learn(self._sums)


class Submitting(_Trial):
    """A trial in which the target users' submissions are observed."""

    def submit(self) -> ObservedRound:
        """Return what the recommender observes."""
        d, sent = self._dimensions, self._sent()
        means = [counterfactual.submissions() for counterfactual in self.counterfactuals]
        shown, absent, present = (
            part[..., :d].reshape(1, -1).astype(np.float64) for part in (sent.shown, *means)
        )
        scale, step = (
            np.broadcast_to(part, (*sent.shown.shape[:-1], d)).reshape(1, -1)
            for part in (sent.deviations, sent.steps)
        )
        return ObservedRound(shown, absent, present, scale, step)


class Summing(_Trial):
    """A trial in which the sums of submissions are observed."""

    def __init__(
        self,
        training: SharedTraining,
        counterfactuals: Sequence[CounterfactualUsers],
        items: Indices,
        variances: NDArray[Any],
        steps: Numbers,
    ) -> None:
        """Observe the sums for some items.

        Args:
            training: the training.
            counterfactuals: the target users on D, on D', and on the data that are trained on.
            items: the items whose sums are observed `(m,)`.
            variances: the variance of each item's sum, before shared draws, `(M,)`.
            steps: the step of the grid of each item's sum `(M,)`.
        """
        super().__init__(training, counterfactuals)
        self._items = items
        scale = np.sqrt(variances[items] / (2 if training.noise.shared else 1))
        self._scale = np.repeat(scale, self._dimensions)[None]
        self._step = np.repeat(steps[items], self._dimensions)[None]

    def submit(self) -> ObservedRound:
        """Return what everybody observes."""
        *means, actual = (counterfactual.sum() for counterfactual in self.counterfactuals)
        sent = self._sent()
        rest = sent.exact - actual
        seen: tuple[NDArray[Any], ...] = sent.sums, *(rest + mean for mean in means)
        shown, absent, present = (
            part[self._items, : self._dimensions].reshape(1, -1).astype(np.float64) for part in seen
        )
        return ObservedRound(shown, absent, present, self._scale, self._step)
