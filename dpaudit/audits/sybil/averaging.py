"""How many accounts or changes an attacker needs to recover a hidden rating.

The fake accounts are chosen first: what they rate, and how many are planted before training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Numbers, SybilAttack
from dpaudit.audits.on_demand.games import laplace_tail
from dpaudit.audits.on_demand.measures import choose, draw_trials, run_blocks
from dpaudit.core.errors import ConfigError, DataError, InputError
from dpaudit.core.releases import Profile
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import RatingAdded, without
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import (
    ExactScores,
    ItemModel,
    OnDemandDefense,
    PairCounts,
    PredictionDefense,
    Similarities,
    Vector,
)
from dpaudit.execution.executor import INLINE, Executor
from dpaudit.kernels import item_item as kernels

# Releases needed to distinguish C candidates in 9 of 10 cases, in units of (b/d)². The median of m
# Laplace draws has deviation b/√m; neighbours at distance d are confused on either side with
# probability Φ(−d√m/(2b)), and (8/5)·Φ(−x) = 1/10 at x = 1.53 for 5 candidates: m = 4x²(b/d)².
_RELEASES = 9.4
# A signal below this is a rounding error.
_NOTHING = 1e-9


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
    effort = increasing("efforts are", efforts)
    users = np.flatnonzero(np.diff(ratings.by_user.start) > defense.min_ratings)
    if not len(users):
        raise DataError(
            f"no user has more than {defense.min_ratings} ratings: use more data or lower "
            "model.params.min_ratings"
        )
    _similar(defense)
    model = defense.prepare(ratings)
    # All categories and observers attack the same ratings, each with its own noise.
    drawn = draw_trials(seed, "campaign", trials, len(users))
    purpose = f"campaign/{attack.category}/{attack.observe}"

    def trial(user: int, index: int) -> NDArray[np.float64]:
        draws = drawn.draws[index]
        items = ratings.profile(user).items
        hidden = int(items[choose(draws[:1], len(items))[0]])
        game = _HiddenRating(defense, attack, model, user, hidden, (seed, f"{purpose}/{index}"))
        accounts = game.accounts()
        seen = game.log_likelihood(accounts, game.truth(draws[1]), int(effort[-1]))
        releases = np.maximum(effort - len(accounts.planted), 0)
        correct = attack.guess(seen, releases, draws[2]) == game.truth(draws[1])
        return np.append(correct, [len(accounts.planted), accounts.signal])

    def run(position: int, streams: Streams) -> NDArray[np.float64]:
        user = int(users[position])
        return np.stack([trial(user, int(index)) for index in streams.trials], axis=1)

    table = run_blocks(drawn, run, executor)
    return SybilScores(effort, table[:-2].astype(np.bool_), table[-2].astype(np.int64), table[-1])


def increasing(words: str, numbers: Sequence[int]) -> NDArray[np.int64]:
    """Return numbers of accounts, changes or lists; `words` name them in the error.

    Raises:
        InputError: they are not increasing positive numbers.
    """
    array = np.array(numbers, np.int64)
    if array.ndim != 1 or not len(array) or array[0] < 1 or (np.diff(array) <= 0).any():
        raise InputError(f"{words} {list(numbers)}: give increasing whole numbers from 1 on")
    return array


@dataclass(frozen=True, eq=False)
class _HiddenRating:
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
            values = self.defense.release_items(exact[truth], releases, items).values[:, 0]
            return self.attack.laplace_log_likelihood(
                values.astype(np.float64), scores, noise_scale
            )
        if self.attack.category == "immediate":
            return self._listed(exact, truth, releases, "")
        levels = self.attack.thresholds(scores)
        # If the noise exceeds the distance between neighbouring candidates, all thresholds are
        # about equally informative.
        if isinstance(self.defense, PredictionDefense) and noise_scale > accounts.signal:
            levels = levels[[len(levels) // 2]]
        ends = float(self._candidates[0]), float(self._candidates[-1])
        k, seen = self.defense.top_k, np.empty((len(releases), len(exact)))
        for turn, level in enumerate(levels):
            streams = Streams(releases.key, releases.trials[turn :: len(levels)])
            # All entries but that of the hidden item are changed.
            rows = [
                replace(row, scores=self.attack.row(row.scores, self.item, float(level), k, ends))
                for row in exact
            ]
            seen[turn :: len(levels)] = self._listed(rows, truth, streams, f"/{turn}")
        return seen

    def _listed(
        self, exact: Sequence[ExactScores], truth: int, releases: Streams, turn: str
    ) -> Numbers:
        """Log-likelihoods of lists, whose law is learned from trials of the known mechanism."""
        known = Streams.first(*self._purpose(f"calibration{turn}"), self.attack.calibration)
        law = np.stack([self._read(candidate, known) for candidate in exact])
        return self.attack.learned_log_likelihood(self._read(exact[truth], releases), law)

    def _read(self, exact: ExactScores, streams: Streams) -> NDArray[np.int64]:
        return self.attack.outcomes(self.defense.release_list(exact, streams).items, self.item)

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
        return _similar(self.defense).candidates(self.model.ratings.scale)

    @cached_property
    def _others(self) -> Ratings:
        """The data without the hidden rating."""
        ratings = self.model.ratings
        kept = (ratings.user != self.user) | (ratings.item != self.item)
        return ratings.only(kept)

    def _purpose(self, name: str) -> tuple[int, str]:
        seed, purpose = self.source
        return seed, f"{purpose}/{name}"


def _similar(defense: OnDemandDefense) -> Similarities:
    """Return the item similarities behind a defense's predictions.

    Raises:
        ConfigError: the defense has none.
    """
    similarities = defense.similarities()
    if similarities is None:
        raise ConfigError(
            "the attack 'sybil' works through item similarities, which this defense does not "
            "have: use an item-item recommender or top-k"
        )
    return similarities


@dataclass(frozen=True, eq=False)
class FakeAccounts:
    """The accounts of one Sybil attack.

    Attributes:
        observer: the ratings of every account that is shown a release.
        planted: the ratings of each account that is in the data when the system learns.
        signal: change of the observer's prediction per step of the hidden rating.
    """

    observer: Profile
    planted: tuple[Profile, ...]
    signal: float


@dataclass(frozen=True, eq=False)
class _Sight:
    """The effect of the hidden rating on similarities if `fake_accounts` accounts are planted.

    Attributes:
        fake_accounts: number of planted accounts.
        items: the items of the observer `(T,)`.
        least: `s_lk` for the least candidate value `(T,)`.
        most: `s_lk` for the greatest `(T,)`.
    """

    fake_accounts: int
    items: NDArray[np.int32]
    least: Vector
    most: Vector


@dataclass(frozen=True, eq=False)
class AccountPlanner:
    """The choice of the accounts against one hidden rating.

    With m_k users other than the target who rated both l and k, h planted accounts that rate l and
    all of K, and T = |K|, one step of the hidden rating moves the observer's prediction of l by

        cut      step · (1/T) Σ_k 1{m_k + h + 1 > φ} / (m_k + h + 1)
        shrunk   step · (1/T) Σ_k 1 / max(m_k + h + 1, φ)
        damped   step · (1/T) Σ_k 1 / (m_k + h + 1 + φ)
        cosine   (1/T) Σ_k [(m_k + h + 1)/√(a_l + h + 1) − (m_k + h)/√(a_l + h)] / √(a_k + h)

    (for the damped cosine, β is added to either degree; a_l counts the buyers other than the
    target, a_k includes the target). K is the T items of largest summand. For `cut`, if all m_k + 1
    are at most φ, at least h = φ − max m_k fake accounts are needed for any signal. If some exceed
    φ anyway, fake accounts lift further items over the threshold, whose m_k is smaller and whose
    summand is larger. Every account beyond that dilutes the signal; in the other forms every
    account does.

    Attributes:
        defense: the recommender.
        model: its statistics, with ratings that lack the hidden one; the stored similarities of
            `item` may still reflect the hidden rating and are not used.
        target: the target user's other ratings.
        item: the hidden item.
    """

    defense: OnDemandDefense
    model: ItemModel
    target: Profile
    item: int

    def choose(self, attack: SybilAttack) -> FakeAccounts:
        """Choose the accounts with the smallest forecast effort.

        With h planted accounts and m releases, the forecast of h + m is h + max(1, 9.4 (b/d)²),
        where d is the signal and b the noise's scale. In an immediate attack on lists, the
        prediction of l has to be near the list's cut. The fake accounts' values, which move it
        without moving its rivals, bring it as near as they can. If a gap g remains, l is on the
        other side with probability about exp(−g/b), and m grows by the factor exp(g/b).

        Raises:
            DataError: the target user has too few other ratings.
        """
        if len(self.target) < self.defense.min_ratings:
            raise DataError(
                f"a target user has {len(self.target)} ratings besides the hidden one, and a fake "
                f"account needs min_ratings = {self.defense.min_ratings}: attack users with "
                "more ratings or lower model.params.min_ratings"
            )
        aims = attack.observe == "list" and attack.category == "immediate"
        most = attack.fake_accounts if attack.creates_accounts else 0
        forecasts = [self._forecast(h, aims) for h in range(most + 1)]
        # min takes the first of equal forecasts, which has the fewest fake accounts.
        _, sight, aim = min(forecasts, key=lambda forecast: forecast[0])
        return FakeAccounts(
            observer=Profile(sight.items, self._own_values(sight)),
            planted=self._fake_accounts(sight, aim),
            signal=self._signal(sight),
        )

    def _forecast(self, fake_accounts: int, aims: bool) -> tuple[float, _Sight, int]:
        """Forecast the effort; return it with the sight and the aim of `fake_accounts` accounts."""
        sight = self._sight(fake_accounts, 0)
        signal = self._signal(sight)
        if signal < _NOTHING:
            return np.inf, sight, 0
        noise = self._noise
        aim, gap = self._aim(sight, signal) if aims else (0, 0.0)
        # Without noise any gap is fatal: the cut has to lie between two candidates.
        away = np.exp(min(gap / (noise or _NOTHING), 100.0))
        effort = max(1.0, _RELEASES * (noise / signal) ** 2) * away
        return fake_accounts + float(effort), self._sight(fake_accounts, aim), aim

    def _aim(self, sight: _Sight, signal: float) -> tuple[int, float]:
        """Return the steps of difference that bring l near the cut, and the remaining gap."""
        values = self._own_values(sight)
        # Fake accounts do not move the rivals of l under Slope One, and lower them a little under
        # cosine.
        cut = self._cut(self.defense.exact(self.model, Profile(sight.items, values)))
        offset = values.mean() if self.model.ratings.scale.width else 0.0
        middle = float(offset + np.mean(sight.least + sight.most) / 2)
        # A step of a fake account's difference moves s_lk as much as a step of the hidden rating.
        room = (len(self.model.ratings.scale.values) - 1) * sight.fake_accounts
        aim = int(np.clip(np.rint((cut - middle) / signal), -room, room))
        half = signal * (len(self._values) - 1) / 2
        return aim, max(0.0, abs(cut - middle - aim * signal) - half)

    def _cut(self, exact: ExactScores) -> float:
        """Compute the score that l has to exceed to be listed, about the k-th best of its rivals.

        Solves Σ_j P(f_j + Lap(b) > x) = k − ½ for x by bisection.
        """
        rivals = exact.candidates[exact.candidates != self.item]
        scores = exact.scores[rivals].astype(np.float64)
        noise = max(self._noise, _NOTHING)
        low, high = scores.min() - 50 * noise, scores.max() + 50 * noise
        while high - low > noise / 10 and high - low > _NOTHING * abs(high):
            middle = (low + high) / 2
            above = laplace_tail((middle - scores) / noise).sum()
            low, high = (middle, high) if above > self.defense.top_k - 0.5 else (low, middle)
        return float(low + high) / 2

    @cached_property
    def _noise(self) -> float:
        """The noise's scale `b`."""
        return self.defense.exact(self.model, self.target).sensitivity / self.defense.epsilon

    @cached_property
    def _co_ratings(self) -> tuple[NDArray[np.int64], Vector]:
        """`m_k` and the sum of rating differences for each item `k`, without the hidden rating."""
        return kernels.co_rating_row(self.item, *self.model.ticks)

    @property
    def _values(self) -> NDArray[np.float32]:
        return _similar(self.defense).candidates(self.model.ratings.scale)

    def _signal(self, sight: _Sight) -> float:
        return float(np.mean(sight.most - sight.least)) / (len(self._values) - 1)

    def _sight(self, fake_accounts: int, aim: int) -> _Sight:
        """Select the T of the target's items through which the hidden rating shows most.

        Args:
            fake_accounts: number of planted accounts.
            aim: the sum of their rating differences, in steps of the scale.
        """
        items, scale = self.target.items, self.model.ratings.scale
        count, total = self._co_ratings
        count, total = count[items] + fake_accounts, total[items] + aim * scale.step
        degree = self.model.degree.copy()
        degree[np.append(items, self.item)] += fake_accounts
        if scale.width:
            least, most = scale.minimum - self.target.values, scale.maximum - self.target.values
            low = self._similarity(count + 1, total + least, degree, 1)
            high = self._similarity(count + 1, total + most, degree, 1)
        else:
            low = self._similarity(count, total, degree, 0)
            high = self._similarity(count + 1, total, degree, 1)
        # Rounding keeps the order of tied items independent of the aim.
        order = np.argsort(np.round(low - high, 9), kind="stable")
        best = np.sort(order[: self.defense.min_ratings])
        return _Sight(fake_accounts, items[best], low[best], high[best])

    def _similarity(
        self, count: NDArray[np.int64], total: Vector, degree: NDArray[np.int64], more: int
    ) -> Vector:
        """Compute `s_lk` for the target's items `k`, with `more` additional raters of l."""
        degree = degree.copy()
        degree[self.item] += more
        value = _similar(self.defense).pair_similarity(
            PairCounts(self.item, self.target.items, count, total, degree)
        )
        return np.where(count > _similar(self.defense).pair_floor(), value, 0.0)

    def _own_values(self, sight: _Sight) -> NDArray[np.float32]:
        """Return the highest ratings for which `r_k + s_lk` stays in the scale, unclipped."""
        scale = self.model.ratings.scale.values
        room = scale[-1] - np.maximum(sight.least, sight.most)
        index = np.searchsorted(scale, room + _NOTHING, side="right") - 1
        return scale[np.maximum(index, 0)]

    def _fake_accounts(self, sight: _Sight, aim: int) -> tuple[Profile, ...]:
        """Make accounts that rate l and the observer's items; their differences sum to `aim`."""
        scale = self.model.ratings.scale.values
        shares = np.diff(np.rint(np.linspace(0, aim, sight.fake_accounts + 1)).astype(int))
        items = np.append(sight.items, self.item).astype(np.int32)
        order = np.argsort(items)
        accounts = []
        for share in shares:
            on_item = scale[-1] if share >= 0 else scale[0]
            rest = scale[len(scale) - 1 - share] if share >= 0 else scale[-share]
            values = np.append(np.full(len(sight.items), rest), on_item).astype(np.float32)
            accounts.append(Profile(items[order], values[order]))
        return tuple(accounts)
