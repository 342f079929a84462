"""What the rating form and the ranking form of a social recommender have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.claim import LONGER, LONGEST, Assumption
from dpaudit.core.errors import NoModelError
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import ItemFactors, NoisedSteps, Observer, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.factors import (
    ITEMS,
    USERS,
    FactorModels,
    Floats,
    Indices,
    RankingModels,
    check_factors,
)
from dpaudit.defenses.observers import (
    ObservedRound,
    ObservedTraining,
    observed_steps,
    release_observers,
    step_observer,
)
from dpaudit.defenses.social.noise import Noise, RankingNoise, SharedNoise
from dpaudit.defenses.social.settings import SocialSettings
from dpaudit.defenses.training_checks import end_step

P = TypeVar("P")

# Steps of the noise source for the initial factors; those of the rounds follow.
_FIRST = 2
# The most bytes of a coordinate of a user or item: factors, sums and updates.
_COORDINATE = 40
# The most that rounding in single precision may add to a length of 1.
_ROUNDING = 1e-5


@dataclass(frozen=True, eq=False)
class Sent:
    """The submissions of a round, and what the recommender knows about their noise.

    The observed users' submissions are by row `(n, …)` in the rating form, and by user and item
    `(n, M, …)` in the ranking form.

    Attributes:
        shown: the submissions of the observed users `(…, size)`.
        deviations: the standard deviation of their noise, given the shared draws, `(…, d)`.
        steps: the steps of the grids to which they are rounded `(…, 1)`.
        exact: the sum of all users' submissions for each item, without noise, `(M, size)`.
        sums: the same with noise `(M, size)`.
    """

    shown: Floats
    deviations: NDArray[np.float64]
    steps: NDArray[np.float64]
    exact: NDArray[np.float64]
    sums: Floats


class SharedTraining(ABC):
    """One training: a recommender that has V, and users who keep their own factors.

    Attributes:
        defense: the mechanism.
        rows: the training data.
        noise: the noise on submissions.
        users: `U`, `(N, size)`; each row is on its user's device.
        items: `V`, `(M, size)`, which everybody has.
        observed: the rows or the users whose submissions `submit` returns `(n,)`.
        summed: the variance of the sum of submissions for each item, before shared draws, `(M,)`.
        steps: the steps of the grids to which these sums are rounded `(M,)`.
        done: the number of finished rounds.
    """

    defense: Any
    rows: Any
    noise: Noise | RankingNoise
    observed: Indices
    summed: NDArray[np.float64]
    steps: NDArray[np.float64]

    # 1 if the factors climb, −1 if they descend; the steps of the noise source in a round; and the
    # likely cause of a divergence, with its remedy.
    sign: ClassVar[int]
    draws: ClassVar[int]
    diverged: ClassVar[str]

    def __init__(self, defense: Any, rows: Any, trial: Streams) -> None:
        """Draw the initial factors.

        Raises:
            ConfigError: they do not fit the memory.
        """
        self.defense, self.rows, self._trial = defense, rows, trial
        check_factors(
            rows.n_users, rows.n_items, defense.dimensions, _COORDINATE, "one trial at a time"
        )
        self.noise, self.done = defense.noise(rows), 0
        self._noise = SharedNoise(trial, defense.dimensions, self.noise.shared)
        self.users, self.items = (
            self._noise.factors(count, step, defense.spread, defense.start)
            for count, step in ((rows.n_users, USERS), (rows.n_items, ITEMS))
        )

    def _step(self, kind: int) -> int:
        return _FIRST + self.draws * self.done + kind

    @abstractmethod
    def submit(self) -> Sent:
        """Compute the users' submissions of this round from the current V."""

    def learn(self, sums: Floats) -> None:
        """Update V with the sums of submissions, then U with the new V, as the defense states.

        Raises:
            NoModelError: the training diverged.
        """
        defense = self.defense
        with np.errstate(over="ignore", invalid="ignore"):  # see _end_step
            self.items *= np.float32(1 - 2 * defense.learning_rate * defense.decay)
            self.items += np.float32(self.sign * defense.learning_rate) * sums
            self._end_step(self.items)
            self._learn_users()
        self.done += 1

    @abstractmethod
    def _learn_users(self) -> None:
        """Update all users' factors with the new V."""

    def move(self, users: Floats, slopes: Floats) -> None:
        """Update users' factors in place with the gradients `slopes`.

        Raises:
            NoModelError: the training diverged.
        """
        rate, decay = self.defense.learning_rate, 2 * self.defense.decay
        users += np.float32(self.sign * rate) * (slopes - np.float32(self.sign * decay) * users)
        self._end_step(users)

    def _end_step(self, factors: Floats) -> None:
        defense = self.defense
        end_step(defense.variant, defense.name, self.done + 1, "round", self.diverged, factors)

    def run_round(self) -> None:
        """Run one round."""
        self.learn(self.submit().sums)

    def run(self) -> Self:
        """Run all rounds, and return the training.

        Raises:
            NoModelError: the training diverged.
        """
        for _ in range(self.defense.rounds):
            self.run_round()
        return self


class CounterfactualUsers(Protocol):
    """The target users with their data of one data set, trained beside the actual training."""

    def submissions(self) -> Floats:
        """Return what they would submit without noise, as in `Sent.shown`."""
        ...

    def sum(self) -> NDArray[np.float64]:
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


class _Submitting(_Trial):
    """A trial in which submissions are observed of target users with their data of D and of D'."""

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


class _Summing(_Trial):
    """A trial in which the sums of submissions for some items are observed.

    The target users have their data of D, of D', and of what is trained on.
    """

    def __init__(
        self,
        training: SharedTraining,
        counterfactuals: Sequence[CounterfactualUsers],
        items: Indices,
    ) -> None:
        super().__init__(training, counterfactuals)
        self._items = items
        scale = np.sqrt(training.summed[items] / (2 if training.noise.shared else 1))
        self._scale = np.repeat(scale, self._dimensions)[None]
        self._step = np.repeat(training.steps[items], self._dimensions)[None]

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


class SocialDefense(SocialSettings, TrainedDefense[P]):
    """The rating form or the ranking form: whom it has as observers, and what these see."""

    counts: ClassVar[tuple[str, ...]] = ("assumption.norm",)

    @abstractmethod
    def noise(self, rows: P) -> Noise | RankingNoise:
        """Return the noise on submissions."""

    @abstractmethod
    def training(self, rows: P, trial: Streams, observed: Any = None) -> SharedTraining:
        """Start the training of one trial.

        Args:
            rows: the training data.
            trial: the only trial.
            observed: the users whose submissions are observed; none if None.
        """

    @abstractmethod
    def counterfactual(self, training: Any, rows: P, users: Any) -> CounterfactualUsers:
        """Return users with their data of `rows`, trained beside the actual training."""

    @abstractmethod
    def submitted_items(self, rows: P, users: Any) -> Indices:
        """Return the items for which these users submit, increasing."""

    @abstractmethod
    def differing(self, before: P, after: P, *, sums: bool) -> Any:
        """Find the users in whom D and D' differ, as `training` takes them.

        Args:
            before: data set `D`.
            after: data set `D'`.
            sums: whether sums of submissions are observed, not single ones.

        Raises:
            ConfigError: what the observer sees has no known law, or no user differs.
        """

    def observers(self) -> Mapping[str, Observer[P]]:
        """Return the observers: the recommender, everybody, and whoever else sees messages."""
        return {
            "recommender": step_observer(self.observe, "submissions"),
            "iterates": step_observer(self.observe_items, "the items' factors after each round"),
            **self.message_observers(),
            **release_observers(self, ItemFactors),
        }

    def message_observers(self) -> Mapping[str, Observer[P]]:
        """Return the observers of messages between users."""
        return {}

    def observe(
        self, before: P, after: P, trained: P, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """Yield, round by round, what the recommender sees of the users in whom D and D' differ.

        That is all their submissions `(W, C)`, or under a secure summation what `observe_items`
        yields. The recommender draws the factor h of the noise variance, and given h the noise is
        normal. Given all earlier submissions, V is known. The target users' factors are computed
        from their own data and V, so what they would submit without noise on D and on D' is known
        too.

        Args:
            before: data set `D`.
            after: data set `D'`.
            trained: the one of the two that is trained on.
            streams: the trials.

        Raises:
            ConfigError: there is no noise, or as `differing`.
            NoModelError: a training diverged before the last round.
        """
        self.check_observed("recommender")
        if self.summed:
            return self.observe_items(before, after, trained, streams)
        users = self.differing(before, after, sums=False)
        trials = []
        for trial in streams.blocks(1):
            training = self.training(trained, trial, users)
            both = [self.counterfactual(training, rows, users) for rows in (before, after)]
            trials.append(_Submitting(training, both))
        return observed_steps(trials, self.rounds, gaussian=True)

    def observe_items(
        self, before: P, after: P, trained: P, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """Yield, round by round, the sums of submissions for the target users' items `(W, C)`.

        Everybody has V, and two consecutive V reveal the sums. Whoever knows all other users' data
        knows the sums without noise. The noise of a sum is Laplace, `√(2h) c ~ Lap(1)`, because h
        is unknown (Meng et al. 2018, Lemma 1); in the corrected form it is normal.

        The arguments and errors are those of `observe`.
        """
        self.check_observed("iterates")
        users = self.differing(before, after, sums=True)
        items, shared = self.submitted_items(trained, users), self.noise(trained).shared
        trials = []
        for trial in streams.blocks(1):
            training = self.training(trained, trial)
            all_three = [
                self.counterfactual(training, rows, users) for rows in (before, after, trained)
            ]
            trials.append(_Summing(training, all_three, items))
        return observed_steps(trials, self.rounds, gaussian=not shared)

    def assumptions(self, ratings: Ratings, seed: int) -> Iterator[Assumption]:
        """Yield the share of users whose factors end longer than 1, and the greatest length.

        Both are measured in one training. Theorems 1 to 4 assume `‖u_i‖ <= 1`. Users without
        ratings are not counted. If the training diverges, the greatest length is infinite, and no
        share is yielded.

        Args:
            ratings: the training data.
            seed: the seed of the training's random stream.
        """
        rated = np.diff(ratings.by_user.start) > 0
        method = f"counted among {int(rated.sum())} users in one training"
        try:
            models = self.train(self.prepare(ratings), Streams.first(seed, "assumptions", 1))
        except NoModelError:
            values, method = {LONGEST: np.inf}, f"{method}, which diverged"
        else:
            lengths = user_lengths(models)[rated]
            longer = lengths > 1 + _ROUNDING
            values = {LONGER: float(longer.mean()), LONGEST: float(lengths.max())}
        for part, value in values.items():
            yield Assumption("assumption.norm", Estimate.exact(value, method), self.rounds, part)


def user_lengths(models: FactorModels | RankingModels) -> NDArray[np.float64]:
    """Return `‖u_i‖` of every user in the first trial `(N,)`, for models trained one at a time."""
    users = models.users[0]
    if isinstance(models, FactorModels):
        users = users[:, :-1, 0]  # without the bias
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("nf,nf->n", users, users, dtype=np.float64))
    return lengths
