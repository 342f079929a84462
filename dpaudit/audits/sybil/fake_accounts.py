"""Choice of the fake accounts: what they rate, and how many are planted before training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import SybilAttack
from dpaudit.audits.on_demand.list_truth import laplace_tail
from dpaudit.audits.sybil.attacked import similar
from dpaudit.core.errors import DataError
from dpaudit.core.user_profile import Profile
from dpaudit.defenses.base import OnDemandDefense
from dpaudit.defenses.item_model import ExactScores, ItemModel, PairCounts, Vector
from dpaudit.kernels.item_item import pairs

# Releases needed to distinguish C candidates in 9 of 10 cases, in units of (b/d)². The median of m
# Laplace draws has deviation b/√m; neighbours at distance d are confused on either side with
# probability Φ(−d√m/(2b)), and (8/5)·Φ(−x) = 1/10 at x = 1.53 for 5 candidates: m = 4x²(b/d)².
_RELEASES = 9.4
# A signal below this is a rounding error.
_NOTHING = 1e-9


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
        exact = self.defense.exact(self.model, Profile(sight.items, values))
        # Fake accounts do not move the rivals of l under Slope One, and lower them a little under
        # cosine.
        cut = self._cut(exact)
        offset = values.mean() if self.model.ratings.scale.width else 0.0
        middle = float(offset + np.mean(sight.least + sight.most) / 2)
        steps = len(self.model.ratings.scale.values) - 1
        # A step of a fake account's difference moves s_lk as much as a step of the hidden rating.
        room = steps * sight.fake_accounts
        aim = int(np.clip(np.rint((cut - middle) / signal), -room, room))
        half = signal * (len(self._values) - 1) / 2
        return aim, max(0.0, abs(cut - middle - aim * signal) - half)

    def _cut(self, exact: ExactScores) -> float:
        """Compute the score that l has to exceed to be listed, about the k-th best of its rivals.

        Solves Σ_j P(f_j + Lap(b) > x) = k − ½ for x by bisection.
        """
        others = exact.candidates[exact.candidates != self.item]
        scores = exact.scores[others].astype(np.float64)
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
        exact = self.defense.exact(self.model, self.target)
        return exact.sensitivity / self.defense.epsilon

    @cached_property
    def _co_ratings(self) -> tuple[NDArray[np.int64], Vector]:
        """`m_k` and the sum of rating differences for each item `k`, without the hidden rating."""
        return pairs.co_rating_row(self.item, *self.model.ticks)

    @property
    def _values(self) -> NDArray[np.float32]:
        return similar(self.defense).candidates(self.model.ratings.scale)

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
        value = similar(self.defense).pair_similarity(
            PairCounts(self.item, self.target.items, count, total, degree)
        )
        return np.where(count > similar(self.defense).pair_floor(), value, 0.0)

    def _own_values(self, sight: _Sight) -> NDArray[np.float32]:
        """Return the highest ratings for which `r_k + s_lk` stays in the scale, unclipped."""
        scale = self.model.ratings.scale.values
        room = scale[-1] - np.maximum(sight.least, sight.most)
        place = np.searchsorted(scale, room + _NOTHING, side="right") - 1
        return scale[np.maximum(place, 0)]

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
