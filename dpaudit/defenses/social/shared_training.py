"""What the trainings of the rating form and of the ranking form have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import ITEMS, USERS, Floats, check_factors
from dpaudit.defenses.social.shared_noise import SharedNoise
from dpaudit.defenses.training_checks import end_step

# Steps of the noise source for the initial factors; those of the rounds follow.
_FIRST = 2
# The most bytes of a coordinate of a user or item: factors, sums and updates.
_COORDINATE = 40


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
        done: the number of finished rounds.
    """

    defense: Any
    rows: Any
    noise: Any

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
