"""How many accounts or changes an attacker needs to recover a hidden rating."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Numbers, SybilAttack
from dpaudit.audits.on_demand.draws import choose, draw_trials, run_blocks
from dpaudit.audits.sybil.attacked import similar
from dpaudit.audits.sybil.fake_accounts import AccountPlanner, FakeAccounts
from dpaudit.core.errors import ConfigError, DataError, InputError
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import RatingAdded, without
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import OnDemandDefense, PredictionDefense
from dpaudit.defenses.item_model import ExactScores, ItemModel
from dpaudit.execution.executor import INLINE, Executor


@dataclass(frozen=True, eq=False)
class SybilScores:
    """The outcome of a Sybil attack.

    Attributes:
        efforts: numbers of accounts or changes, increasing `(E,)`.
        correct: whether the rating was recovered with each effort in each trial `(E, T)`.
        planted: number of accounts planted before the learning phase in each trial `(T,)`, which
            is included in the effort.
        signal: change of the account's prediction per step of the hidden rating `(T,)`.
    """

    efforts: NDArray[np.int64]
    correct: NDArray[np.bool_]
    planted: NDArray[np.int64]
    signal: NDArray[np.float64]


def run_sybil(
    defense: OnDemandDefense,
    ratings: Ratings,
    attack: SybilAttack,
    *,
    efforts: Sequence[int],
    trials: int,
    seed: int,
    executor: Executor = INLINE,
) -> SybilScores:
    """Run the Sybil attack: whether it recovers a hidden rating, for each effort and trial.

    A trial draws a user uniformly among those with at least `min_ratings` other ratings, and hides
    one of their ratings, drawn uniformly. For purchases, the hidden one is removed from the data in
    half of the trials, so that all other data have the same distribution whether or not it was
    bought. The attacker knows all other ratings. `AccountPlanner` chooses the fake accounts. Each
    account planted before the learning phase costs an effort of 1, and so does each release,
    whether to a further account or after a further change. Trials are independent given the data.

    Args:
        defense: the recommender.
        ratings: the data.
        attack: the attack.
        efforts: numbers of accounts or changes, increasing, at least 1 each. With an effort no
            larger than the number of planted accounts, the attacker sees no release and guesses.
        trials: number of trials.
        seed: the run's seed.
        executor: runs the trials; the result does not depend on it.

    Raises:
        ConfigError: `attack.observe` is `values` and the defense shows only lists; or it has no
            item similarities.
        DataError: no user has enough ratings.
        InputError: the efforts are not increasing positive numbers.
    """
    if attack.observe == "values" and not isinstance(defense, PredictionDefense):
        raise ConfigError(
            "observe is 'values' and this defense shows lists without values: use observe = 'list'"
        )
    effort = np.array(efforts, np.int64)
    if effort.ndim != 1 or not len(effort) or effort[0] < 1 or (np.diff(effort) <= 0).any():
        raise InputError(f"efforts are {list(efforts)}: give increasing whole numbers from 1 on")
    users = np.flatnonzero(np.diff(ratings.by_user.start) > defense.min_ratings)
    if not len(users):
        raise DataError(
            f"no user has more than {defense.min_ratings} ratings: use more data or lower "
            "model.params.min_ratings"
        )
    similar(defense)
    model = defense.prepare(ratings)
    # All categories and observers attack the same ratings, each with its own noise.
    drawn = draw_trials(seed, "campaign", trials, len(users))
    purpose = f"campaign/{attack.category}/{attack.observe}"

    def trial(user: int, index: int) -> NDArray[np.float64]:
        draws = drawn.draws[index]
        items = ratings.profile(user).items
        hidden = int(items[choose(draws[:1], len(items))[0]])
        game = _Trial(defense, attack, model, user, hidden, (seed, f"{purpose}/{index}"))
        accounts = game.accounts()
        seen = game.log_likelihood(accounts, game.truth(draws[1]), int(effort[-1]))
        shown = np.maximum(effort - len(accounts.planted), 0)
        correct = attack.guess(seen, shown, draws[2]) == game.truth(draws[1])
        return np.append(correct, [len(accounts.planted), accounts.signal])

    def run(position: int, streams: Streams) -> NDArray[np.float64]:
        user = int(users[position])
        return np.stack([trial(user, int(index)) for index in streams.trials], axis=1)

    table = run_blocks(drawn, run, executor)
    planted = table[-2].astype(np.int64)
    return SybilScores(effort, table[:-2].astype(np.bool_), planted, table[-1])


@dataclass(frozen=True, eq=False)
class _Trial:
    """One hidden rating and the attack on it.

    Attributes:
        defense: the recommender.
        attack: the attack.
        model: the statistics of the whole data.
        user: the target user.
        item: the item whose rating is hidden.
        source: seed and purpose of the trial's noise.
    """

    defense: OnDemandDefense
    attack: SybilAttack
    model: ItemModel
    user: int
    item: int
    source: tuple[int, str]

    def truth(self, draw: float) -> int:
        """Return the index of the hidden value among the candidates; for purchases, toss a coin.

        Args:
            draw: uniform in [0, 1); decides whether the item was bought.
        """
        ratings = self.model.ratings
        if not ratings.scale.width:
            return int(draw < 0.5)
        profile = ratings.profile(self.user)
        value = profile.values[profile.items == self.item]
        return int(abs(self._candidates - value).argmin())

    def accounts(self) -> FakeAccounts:
        """Choose the attacker's accounts, without knowledge of the hidden rating."""
        degree = self.model.degree.copy()
        degree[self.item] -= 1
        # The hidden rating only changes similarities of the hidden item, which are not used.
        model = replace(self.model, ratings=self._others, degree=degree)
        target = without(self.model.ratings.profile(self.user), self.item)
        return AccountPlanner(self.defense, model, target, self.item).choose(self.attack)

    def log_likelihood(self, accounts: FakeAccounts, truth: int, effort: int) -> Numbers:
        """Log-likelihood of each release that `effort` pays for, under each candidate `(W, C)`."""
        exact = self._exact(accounts)
        releases = Streams.first(*self._purpose("noise"), max(effort - len(accounts.planted), 1))
        scores = np.array([scores.scores[self.item] for scores in exact], np.float64)
        noise_scale = exact[0].sensitivity / self.defense.epsilon
        if self.attack.observe == "values" and isinstance(self.defense, PredictionDefense):
            items = np.full((len(releases), 1), self.item, np.int32)
            shown = self.defense.release_items(exact[truth], releases, items).values[:, 0]
            return self.attack.laplace_log_likelihood(shown.astype(np.float64), scores, noise_scale)
        if self.attack.category == "immediate":
            return self._listed(exact, truth, releases, "")
        levels = self.attack.thresholds(scores)
        # If the noise exceeds the distance between neighbouring candidates, all thresholds are
        # about equally informative.
        if isinstance(self.defense, PredictionDefense) and noise_scale > accounts.signal:
            levels = levels[[len(levels) // 2]]
        seen = np.empty((len(releases), len(exact)))
        for turn, level in enumerate(levels):
            part = Streams(releases.key, releases.trials[turn :: len(levels)])
            rows = [self._contested(one, float(level)) for one in exact]
            seen[turn :: len(levels)] = self._listed(rows, truth, part, f"/{turn}")
        return seen

    def _listed(
        self, exact: Sequence[ExactScores], truth: int, releases: Streams, turn: str
    ) -> Numbers:
        """Log-likelihoods of lists, whose law is learned from trials of the known mechanism."""
        known = Streams.first(*self._purpose(f"calibration{turn}"), self.attack.calibration)
        law = np.stack([self._read(one, known) for one in exact])
        return self.attack.learned_log_likelihood(self._read(exact[truth], releases), law)

    def _read(self, exact: ExactScores, streams: Streams) -> NDArray[np.int64]:
        return self.attack.outcomes(self.defense.release_list(exact, streams).items, self.item)

    def _contested(self, exact: ExactScores, level: float) -> ExactScores:
        """Return the account's row after it has changed all entries but that of the hidden item."""
        ends = float(self._candidates[0]), float(self._candidates[-1])
        row = self.attack.row(exact.scores, self.item, level, self.defense.top_k, ends)
        return replace(exact, scores=row)

    def _exact(self, accounts: FakeAccounts) -> list[ExactScores]:
        """Compute the observing account's noiseless predictions under each candidate."""
        ratings = self._others.with_users(accounts.planted)
        model = self.defense.prepare(ratings)
        observer = ratings.n_users
        # The observing account is served but not learned from: it joins the ratings only.
        served = replace(model, ratings=ratings.with_users([accounts.observer]))

        def rated(value: float) -> ExactScores:
            change = RatingAdded(self.user, self.item, value)
            return self.defense.exact_after(served, change, observer)

        if ratings.scale.width:
            return [rated(float(value)) for value in self._candidates]
        return [self.defense.exact(model, accounts.observer), rated(1.0)]

    @property
    def _candidates(self) -> NDArray[np.float32]:
        return similar(self.defense).candidates(self.model.ratings.scale)

    @cached_property
    def _others(self) -> Ratings:
        """The data without the hidden rating."""
        ratings = self.model.ratings
        kept = (ratings.user != self.user) | (ratings.item != self.item)
        return ratings.only(kept)

    def _purpose(self, name: str) -> tuple[int, str]:
        seed, purpose = self.source
        return seed, f"{purpose}/{name}"
