"""What the rating form and the ranking form of a social recommender have in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.gdp import gaussian_mu
from dpaudit.core.claim import LONGER, LONGEST, Assumption, Claim, Variant
from dpaudit.core.errors import ConfigError, NoModelError
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import ItemFactors, NoisedSteps, Observer, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses import factors, observers, precision
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.social.rows import Noise, RankingNoise
from dpaudit.defenses.training_checks import check_private_epsilon, end_step
from dpaudit.kernels import exact_noise
from dpaudit.kernels.lanes import aligned

# What the recommender sees: each submission (local), or only sums (secure).
Summation = Literal["local", "secure"]

P = TypeVar("P")
Numbers = NDArray[np.float64]

# Steps of the noise source for the initial factors; those of the rounds follow.
_FIRST = 2
# The most bytes of a coordinate of a user or item: factors, sums and updates.
_COORDINATE = 40
# The most that rounding in single precision may add to a length of 1.
_ROUNDING = 1e-5


# Fills an array with draws, given the trials, the step of the noise source, and its key.
Law = Callable[[Numbers, NDArray[np.int64], int, NDArray[np.uint32]], None]


@dataclass(frozen=True, eq=False)
class SharedNoise:
    """Draws vectors of noise, one for each item.

    A coordinate's noise is normal with a given variance times h. If `shared`, h is an exponential
    draw for that item, coordinate and round; otherwise h is 1. Given h, the noise of several users
    is normal, and so is its sum. If h is unknown, the noise is Laplace: `√(2h) c ~ Lap(1)` with
    `h ~ Exp(1)`, `c ~ N(0, 1)` (Meng et al. 2018, Lemma 1).

    Attributes:
        trial: the only trial.
        dimensions: the number of coordinates of a vector.
        shared: whether h is drawn.
    """

    trial: Streams
    dimensions: int
    shared: bool

    def draws(self, law: Law, count: int, step: int) -> Numbers:
        """Return standard draws of a law at a step of the noise source `(count, d)`."""
        draws = np.empty((1, count * self.dimensions), np.float64)
        law(draws, self.trial.trials, step, self.trial.key)
        return draws.reshape(count, -1)

    def initial(self, count: int, step: int, spread: float, start: str) -> factors.Floats:
        """Return initial factors in rows padded with 0 for the kernels, `(count, width(d))`.

        They are normal with standard deviation `spread`, or all `spread` if `start` is 'constant'.
        """
        side = aligned(count, factors.width(self.dimensions))
        drawn = 1.0 if start == "constant" else self.draws(exact_noise.normal, count, step)
        side[:, : self.dimensions] = drawn * spread
        return side

    def scales(self, count: int, step: int) -> Numbers:
        """Return h, the factors on the variances of each item, `(count, d)`."""
        if not self.shared:
            return np.ones((count, self.dimensions))
        # The absolute value of a Laplace draw is exponential.
        return abs(self.draws(exact_noise.laplace, count, step))

    def sums(self, variances: Numbers, scales: Numbers | None, step: int) -> Numbers:
        """Return one noise vector for each item, with these variances times h, `(count, d)`.

        Args:
            variances: the total variance of an item's shares, before h, `(count,)`.
            scales: h `(count, d)`; None if no user draws a share individually, so that h is not
                needed.
            step: the step of the noise source.
        """
        if not variances.any():
            return np.zeros((len(variances), self.dimensions))
        if scales is None and self.shared:
            draws = self.draws(exact_noise.laplace, len(variances), step)
            return draws * np.sqrt(variances / 2)[:, None]
        draws = self.draws(exact_noise.normal, len(variances), step)
        draws *= np.sqrt(variances)[:, None]
        return draws if scales is None else draws * np.sqrt(scales)


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

    shown: factors.Floats
    deviations: NDArray[np.float64]
    steps: NDArray[np.float64]
    exact: NDArray[np.float64]
    sums: factors.Floats


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
    observed: factors.Indices
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
        factors.check_factors(
            rows.n_users, rows.n_items, defense.dimensions, _COORDINATE, "one trial at a time"
        )
        self.noise, self.done = defense.noise(rows), 0
        self._noise = SharedNoise(trial, defense.dimensions, self.noise.shared)
        self.users, self.items = (
            self._noise.initial(count, step, defense.spread, defense.start)
            for count, step in ((rows.n_users, factors.USERS), (rows.n_items, factors.ITEMS))
        )

    def _step(self, kind: int) -> int:
        return _FIRST + self.draws * self.done + kind

    @abstractmethod
    def submit(self) -> Sent:
        """Compute the users' submissions of this round from the current V."""

    def learn(self, sums: factors.Floats) -> None:
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

    def move(self, users: factors.Floats, slopes: factors.Floats) -> None:
        """Update users' factors in place with the gradients `slopes`.

        Raises:
            NoModelError: the training diverged.
        """
        rate, decay = self.defense.learning_rate, 2 * self.defense.decay
        users += np.float32(self.sign * rate) * (slopes - np.float32(self.sign * decay) * users)
        self._end_step(users)

    def _end_step(self, side: factors.Floats) -> None:
        defense = self.defense
        end_step(defense.variant, defense.name, self.done + 1, "round", self.diverged, side)

    def run_round(self) -> None:
        """Run one round."""
        self.learn(self.submit().sums)

    @abstractmethod
    def models(self) -> Any:
        """Return the current model."""

    def run(self) -> Any:
        """Run all rounds, and return the model.

        Raises:
            NoModelError: the training diverged.
        """
        for _ in range(self.defense.rounds):
            self.run_round()
        return self.models()


class CounterfactualUsers(observers.Learner, Protocol):
    """The target users with their data of one data set, trained beside the actual training."""

    def submissions(self) -> factors.Floats:
        """Return what they would submit without noise, as in `Sent.shown`."""
        ...

    def sum(self) -> NDArray[np.float64]:
        """Return the sum of these submissions for each item `(M, size)`."""
        ...


class _Trial(observers.ObservedTraining[CounterfactualUsers]):
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

    def submit(self) -> observers.ObservedRound:
        """Return what the recommender observes."""
        d, sent = self._dimensions, self._sent()
        means = [counterfactual.submissions() for counterfactual in self.counterfactuals]
        seen = [vectors[..., :d] for vectors in (sent.shown, *means)]
        return observers.ObservedRound.of_trial(seen, sent.deviations, sent.steps)


class _Summing(_Trial):
    """A trial in which the sums of submissions for some items are observed.

    The target users have their data of D, of D', and of what is trained on.
    """

    def __init__(
        self,
        training: SharedTraining,
        counterfactuals: Sequence[CounterfactualUsers],
        items: factors.Indices,
    ) -> None:
        super().__init__(training, counterfactuals)
        self._items = items
        variances = training.summed[items, None] / (2 if training.noise.shared else 1)
        self._scale, self._step = np.sqrt(variances), training.steps[items, None]

    def submit(self) -> observers.ObservedRound:
        """Return what everybody observes."""
        *means, actual = (counterfactual.sum() for counterfactual in self.counterfactuals)
        sent = self._sent()
        rest = sent.exact - actual
        sums: list[NDArray[Any]] = [sent.sums, *(rest + mean for mean in means)]
        seen = [whole[self._items, : self._dimensions] for whole in sums]
        return observers.ObservedRound.of_trial(seen, self._scale, self._step)


class SocialDefense(TrainedDefense[P]):
    """The rating form or the ranking form: whom it has as observers, and what these see.

    Attributes:
        messages: the number of vectors that a user publishes in a round beside one for each item.
        training: starts the training of one trial, given the mechanism, the training data, the
            trial, and the users whose submissions are observed, if any.
        counterfactual: builds users with their data of some rows beside a training, given the
            training, the rows and the users.
    """

    epsilon: float
    variant: Variant
    beta: float
    dimensions: int
    rounds: int
    learning_rate: float
    decay: float
    spread: float
    start: str
    clip_norm: float
    summation: Summation
    insiders: int
    delta: float

    messages: ClassVar[int]
    training: ClassVar[Callable[..., SharedTraining]]
    counterfactual: ClassVar[Callable[..., CounterfactualUsers]]
    counts: ClassVar[tuple[str, ...]] = ("assumption.norm",)

    def check_social(self) -> None:
        """Refuse a private ε above 1e6, and a secure summation in a variant that does not use it.

        Raises:
            ValueError: one of the two is set.
        """
        check_private_epsilon(self.epsilon, self.variant, "noise")
        if self.summation == "secure" and self.variant != "corrected":
            raise ValueError(
                f"summation = 'secure' is part of variant 'corrected', and variant "
                f"{self.variant!r} shows the recommender each submission: leave it out"
            )

    @property
    def summed(self) -> bool:
        """Whether the recommender sees only sums of submissions."""
        return self.variant == "corrected" and self.summation == "secure"

    @property
    def most(self) -> float:
        """The norm to which a user's submissions are clipped; infinite if they are not."""
        # Slightly below clip_norm, because the clipped vector is rounded.
        return self.clip_norm * (1 - 1e-5) if self.variant == "corrected" else math.inf

    @property
    def personal_epsilons(self) -> tuple[float, float]:
        """ε_n and ε_s."""
        return (1 + 1 / self.beta) * self.epsilon, (1 + self.beta) * self.epsilon

    def steps_mu(self, prepared: Any) -> float:
        """Return the μ of the corrected form's noise; ∞ for forms that do not clip."""
        if self.variant != "corrected":
            return math.inf
        # Finite precision uses up a part of ε and δ.
        numbers = self.rounds * (prepared.n_items + self.messages) * self.dimensions
        return gaussian_mu(*precision.kept_budget(self.epsilon, self.delta, numbers))

    def split(self, variance: float, raters: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the variance of each user's submission for each item `(2, M)`, if corrected.

        Under a secure summation these are shares, of which insiders know their own: the sum of the
        other `max(n − k, 1)` has the variance that is asked for.

        Args:
            variance: σ².
            raters: n, the number of users who submit for each item, of both kinds `(2, M)`.
        """
        among = np.maximum(raters.sum(0) - self.insiders, 1) if self.summed else 1
        return np.broadcast_to(variance / among, raters.shape)

    def whole_claim(self, public: str, also: tuple[str, ...] = ()) -> Claim:
        """Return the claim of the corrected form: (ε, δ) for all that a user has.

        Args:
            public: what it takes for public.
            also: the observers besides the recommender for whom it holds.
        """
        return Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency="user-replace",
            observer="recommender",
            public=public,
            source="class docstring; Dong, Roth, Su 2019, Corollary 3.3, arXiv:1905.02383",
            also=also,
        )

    def check_observed(self, observer: str) -> None:
        """Refuse games on each round if there is no noise.

        Raises:
            ConfigError: there is none; names the remedy.
        """
        if self.variant == "nonprivate" and observer in {"recommender", "iterates", "friend"}:
            raise ConfigError(
                "a game on each round needs noised submissions, and variant = 'nonprivate' "
                "has none: use a private variant, or observe = 'public'"
            )

    @abstractmethod
    def noise(self, rows: P) -> Noise | RankingNoise:
        """Return the noise on submissions."""

    @abstractmethod
    def submitted_items(self, rows: P, users: Any) -> factors.Indices:
        """Return the items for which these users submit, increasing."""

    def train(self, rows: P, streams: Streams) -> Any:
        """Return the models of these trials.

        Raises:
            NoModelError: a training diverged.
        """
        return factors.joined(
            [self.training(self, rows, trial).run() for trial in streams.blocks(1)]
        )

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
            "recommender": observers.step_observer(self.observe, "submissions"),
            "iterates": observers.step_observer(
                self.observe_items, "the items' factors after each round"
            ),
            **self.message_observers(),
            **observers.release_observers(self, ItemFactors),
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
            training = self.training(self, trained, trial, users)
            both = [self.counterfactual(training, rows, users) for rows in (before, after)]
            trials.append(_Submitting(training, both))
        return observers.observed_steps(trials, self.rounds, gaussian=True)

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
            training = self.training(self, trained, trial)
            all_three = [
                self.counterfactual(training, rows, users) for rows in (before, after, trained)
            ]
            trials.append(_Summing(training, all_three, items))
        return observers.observed_steps(trials, self.rounds, gaussian=not shared)

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


def user_lengths(models: factors.FactorModels | factors.RankingModels) -> NDArray[np.float64]:
    """Return `‖u_i‖` of every user in the first trial `(N,)`, for models trained one at a time."""
    users = models.users[0]
    if isinstance(models, factors.FactorModels):
        users = users[:, :-1, 0]  # without the bias
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("nf,nf->n", users, users, dtype=np.float64))
    return lengths
