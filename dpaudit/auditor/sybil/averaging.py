"""How many accounts or changes an attacker needs to read a hidden rating."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.sybil.averaging import (
    Campaign,
    Table,
    laplace_log_likelihood,
    learned_log_likelihood,
    thresholds,
)
from dpaudit.auditor.sybil.attacked import similar
from dpaudit.auditor.sybil.fake_accounts import Planter, Planting, joined
from dpaudit.auditor.trials import choose, plan, play_blocks
from dpaudit.bounds.frequentist.intervals import clopper_pearson_each
from dpaudit.core.errors import ConfigError, DataError, InputError
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import RatingAdded, without
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import OnDemandDefense, PredictionDefense
from dpaudit.defenses.item_model import ExactScores, ItemModel


@dataclass(frozen=True, eq=False)
class CampaignScores:
    """The outcome of a campaign.

    Attributes:
        efforts: numbers of accounts or changes, increasing `(E,)`.
        correct: whether the rating was recovered with each effort in each trial `(E, T)`.
        planted: accounts planted before the learning phase in each trial `(T,)`; they count.
        signal: by how much one step of the hidden rating moves the account's prediction `(T,)`.
    """

    efforts: NDArray[np.int64]
    correct: NDArray[np.bool_]
    planted: NDArray[np.int64]
    signal: NDArray[np.float64]


@dataclass(frozen=True)
class EffortNeeded:
    """The effort that an accuracy takes, among those tried.

    Attributes:
        least: with less the accuracy is not reached; None: with none of them.
        most: with this it is reached; None: with none of them for certain.
    """

    least: int | None
    most: int | None


def effort_needed(
    correct: NDArray[np.bool_], efforts: Sequence[int], level: float = 0.9, alpha: float = 0.05
) -> EffortNeeded:
    """Bounds on the first of the efforts whose accuracy is at least `level`.

    The E Clopper-Pearson intervals at level α/E hold together with probability 1 − α. Then the
    first effort that reaches the level has an upper limit that does, and an effort whose lower
    limit reaches the level reaches it: it lies between the two. (Where no tried effort reaches the
    level, `most` is None with that probability.)

    Args:
        correct: outcomes `(E, T)`; trials are independent, efforts need not be.
        efforts: increasing `(E,)`.
        level: the accuracy asked for, in (0, 1).
        alpha: the probability of error, in (0, 1).

    Raises:
        InputError: there are no trials, or another number of efforts than of outcomes.
    """
    if correct.ndim != 2 or len(correct) != len(efforts) or not correct.size:
        raise InputError(
            f"correct has shape {correct.shape} and there are {len(efforts)} efforts: give the "
            "outcome of at least one trial for each effort"
        )
    lower, upper = clopper_pearson_each(correct.sum(1), correct.shape[1], alpha / len(efforts))

    def first(reached: NDArray[np.bool_]) -> int | None:
        return int(efforts[int(reached.argmax())]) if reached.any() else None

    return EffortNeeded(least=first(upper >= level), most=first(lower >= level))


def play_campaign(
    defense: OnDemandDefense,
    ratings: Ratings,
    attack: Campaign,
    *,
    efforts: Sequence[int],
    trials: int,
    seed: int,
    threads: int = 1,
    advance: Callable[[int], None] = lambda done: None,
) -> CampaignScores:
    """Whether the attacker recovers a hidden rating, for each effort and trial.

    A trial hides a uniform rating of a uniform user among those with at least `min_ratings` others.
    Of purchases, in half of the trials the hidden one is taken out of the data, so that bought and
    not bought have the same law of everything else. The attacker knows all the rest. His accounts
    are as `Planter` chooses them: those planted before the learning phase count one each, and so
    does each release, be it to a further account or after a further change. Trials are independent
    given the data.

    Args:
        defense: the recommender.
        ratings: the data.
        attack: the attacker.
        efforts: numbers of accounts or changes, increasing, at least 1 each. With no more than are
            planted, nothing is shown and the attacker guesses.
        trials: number of trials.
        seed: the run's seed.
        threads: number of threads; it does not change the result.
        advance: told the number of trials done.

    Raises:
        ConfigError: `attack.observe` is `values` and the defense shows lists alone; or it has no
            item similarities.
        DataError: no user has enough ratings.
        InputError: efforts that are not increasing positive numbers.
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
    # Every category and observer attacks the same ratings, with its own noise.
    games = plan(seed, "campaign", trials, len(users))
    purpose = f"campaign/{attack.category}/{attack.observe}"

    def trial(user: int, world: int) -> NDArray[np.float64]:
        draws = games.draws[world]
        items = ratings.profile(user).items
        hidden = int(items[choose(draws[:1], len(items))[0]])
        game = _Trial(defense, attack, model, user, hidden, (seed, f"{purpose}/{world}"))
        planting = game.planting()
        seen = game.log_likelihood(planting, game.truth(draws[1]), int(effort[-1]))
        shown = np.maximum(effort - len(planting.planted), 0)
        correct = attack.guess(seen, shown, draws[2]) == game.truth(draws[1])
        return np.append(correct, [len(planting.planted), planting.signal])

    def play(position: int, streams: Streams) -> NDArray[np.float64]:
        user = int(users[position])
        return np.stack([trial(user, int(world)) for world in streams.worlds], axis=1)

    table = play_blocks(games, play, threads, advance)
    planted = table[-2].astype(np.int64)
    return CampaignScores(effort, table[:-2].astype(np.bool_), planted, table[-1])


@dataclass(frozen=True, eq=False)
class _Trial:
    """One hidden rating and the attack on it.

    Attributes:
        defense: the recommender.
        attack: the attacker.
        model: the statistics of the whole data.
        user: the target.
        item: the item whose rating is hidden.
        source: seed and purpose of the trial's noise.
    """

    defense: OnDemandDefense
    attack: Campaign
    model: ItemModel
    user: int
    item: int
    source: tuple[int, str]

    def truth(self, draw: float) -> int:
        """The place of the hidden value among the candidates; of purchases, bought or not by coin.

        Args:
            draw: uniform in [0, 1).
        """
        ratings = self.model.ratings
        if not ratings.scale.width:
            return int(draw < 0.5)
        profile = ratings.profile(self.user)
        value = profile.values[profile.items == self.item]
        return int(abs(self._candidates - value).argmin())

    def planting(self) -> Planting:
        """The attacker's accounts, chosen without the hidden rating."""
        degree = self.model.degree.copy()
        degree[self.item] -= 1
        # The hidden rating moves the similarities of the hidden item alone, which are not used.
        model = replace(self.model, ratings=self._others, degree=degree)
        target = without(self.model.ratings.profile(self.user), self.item)
        return Planter(self.defense, model, target, self.item).choose(self.attack)

    def log_likelihood(self, planting: Planting, truth: int, effort: int) -> Table:
        """Of each release that so much effort buys, under each candidate `(W, C)`."""
        exact = self._exact(planting)
        releases = Streams.first(*self._purpose("noise"), max(effort - len(planting.planted), 1))
        scores = np.array([scores.scores[self.item] for scores in exact], np.float64)
        noise_scale = exact[0].sensitivity / self.defense.epsilon
        if self.attack.observe == "values" and isinstance(self.defense, PredictionDefense):
            items = np.full((len(releases), 1), self.item, np.int32)
            shown = self.defense.release_items(exact[truth], releases, items).values[:, 0]
            return laplace_log_likelihood(shown.astype(np.float64), scores, noise_scale)
        if self.attack.category == "immediate":
            return self._listed(exact, truth, releases, "")
        levels = thresholds(scores)
        # Where the noise of values covers the distance of neighbours, every threshold tells alike.
        if isinstance(self.defense, PredictionDefense) and noise_scale > planting.signal:
            levels = levels[[len(levels) // 2]]
        seen = np.empty((len(releases), len(exact)))
        for turn, level in enumerate(levels):
            own = Streams(releases.key, releases.worlds[turn :: len(levels)])
            rows = [self._contested(one, float(level)) for one in exact]
            seen[turn :: len(levels)] = self._listed(rows, truth, own, f"/{turn}")
        return seen

    def _listed(
        self, exact: Sequence[ExactScores], truth: int, releases: Streams, turn: str
    ) -> Table:
        """Log-likelihoods of lists: their law learned from worlds of the known mechanism."""
        known = Streams.first(*self._purpose(f"calibration{turn}"), self.attack.calibration)
        law = np.stack([self._read(one, known) for one in exact])
        return learned_log_likelihood(self._read(exact[truth], releases), law)

    def _read(self, exact: ExactScores, streams: Streams) -> NDArray[np.int64]:
        return self.attack.outcomes(self.defense.release_list(exact, streams).items, self.item)

    def _contested(self, exact: ExactScores, level: float) -> ExactScores:
        """The account's row once it has set all its entries but that of the hidden item."""
        ends = float(self._candidates[0]), float(self._candidates[-1])
        row = self.attack.row(exact.scores, self.item, level, self.defense.top_k, ends)
        return replace(exact, scores=row)

    def _exact(self, planting: Planting) -> list[ExactScores]:
        """The observer's noiseless predictions under each candidate."""
        ratings = joined(self._others, planting.planted)
        model = self.defense.prepare(ratings)
        observer = ratings.n_users
        # The observer is served and not learned from: she joins the ratings, not the statistics.
        served = replace(model, ratings=joined(ratings, [planting.observer]))

        def rated(value: float) -> ExactScores:
            change = RatingAdded(self.user, self.item, value)
            return self.defense.exact_after(served, change, observer)

        if ratings.scale.width:
            return [rated(float(value)) for value in self._candidates]
        return [self.defense.exact(model, planting.observer), rated(1.0)]

    @property
    def _candidates(self) -> NDArray[np.float32]:
        return similar(self.defense).candidates(self.model.ratings.scale)

    @cached_property
    def _others(self) -> Ratings:
        """The data without the hidden rating."""
        ratings = self.model.ratings
        kept = (ratings.user != self.user) | (ratings.item != self.item)
        return replace(
            ratings, user=ratings.user[kept], item=ratings.item[kept], value=ratings.value[kept]
        )

    def _purpose(self, name: str) -> tuple[int, str]:
        seed, purpose = self.source
        return seed, f"{purpose}/{name}"
