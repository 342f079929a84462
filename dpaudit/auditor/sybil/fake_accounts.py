"""Which accounts an attacker makes: what they rate, and how many are planted before training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.sybil.averaging import Campaign
from dpaudit.auditor.games.list_truth import laplace_tail
from dpaudit.auditor.sybil.attacked import similar
from dpaudit.core.errors import DataError
from dpaudit.core.profile import Profile
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import OnDemandDefense
from dpaudit.defenses.item_model import ExactScores, ItemModel, PairCounts, Vector
from dpaudit.kernels.item_item import pairs

# Releases that tell C candidates apart in 9 of 10 cases, in units of (b/d)². The median of m
# Laplace draws has deviation b/√m; neighbours at distance d are confused on either side with
# probability Φ(−d√m/(2b)), and (8/5)·Φ(−x) = 1/10 at x = 1.53 for 5 candidates: m = 4x²(b/d)².
_RELEASES = 9.4
# A signal below this is rounding.
_NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class Planting:
    """The accounts of one campaign.

    Attributes:
        observer: the ratings of every account that is shown a release.
        planted: the ratings of the accounts that are in the data when the system learns.
        signal: by how much the hidden rating's one step moves the observer's prediction.
    """

    observer: Profile
    planted: tuple[Profile, ...]
    signal: float


def joined(ratings: Ratings, profiles: Sequence[Profile]) -> Ratings:
    """The ratings with these further users, who come last, so that rows stay sorted."""
    if not profiles:
        return ratings
    users = np.arange(ratings.n_users, ratings.n_users + len(profiles), dtype=np.int32)
    return replace(
        ratings,
        user=np.concatenate((ratings.user, np.repeat(users, [len(p) for p in profiles]))),
        item=np.concatenate((ratings.item, *[p.items for p in profiles])),
        value=np.concatenate((ratings.value, *[p.values for p in profiles])),
        n_users=ratings.n_users + len(profiles),
        user_ids=None,
    )


@dataclass(frozen=True, eq=False)
class _Sight:
    """How the hidden rating shows through similarities when `helpers` accounts are planted.

    Attributes:
        helpers: their number.
        items: the items of the observer `(T,)`.
        least: `s_lk` for the least candidate value `(T,)`.
        most: `s_lk` for the greatest `(T,)`.
    """

    helpers: int
    items: NDArray[np.int32]
    least: Vector
    most: Vector


@dataclass(frozen=True, eq=False)
class Planter:
    """Chooses the accounts against one hidden rating.

    With m_k users other than the target who rated both l and k, h planted accounts that rate l and
    all of K, and T = |K|, one step of the hidden rating moves the observer's prediction of l by

        cut      step · (1/T) Σ_k 1{m_k + h + 1 > φ} / (m_k + h + 1)
        shrunk   step · (1/T) Σ_k 1 / max(m_k + h + 1, φ)
        damped   step · (1/T) Σ_k 1 / (m_k + h + 1 + φ)
        cosine   (1/T) Σ_k [(m_k + h + 1)/√(a_l + h + 1) − (m_k + h)/√(a_l + h)] / √(a_k + h)

    (β added to either degree of the damped cosine; a_l counts the buyers other than the target,
    a_k with her). K is the T items of largest summand. Where all m_k + 1 are at most φ,
    h = φ − max m_k helpers are the fewest that let anything of `cut` through; where some are above
    it anyway, helpers take items of smaller m_k, and so of larger summand, across the threshold.
    Every helper beyond it dilutes the signal, and in the other forms every helper does.

    Attributes:
        defense: the recommender.
        model: its statistics; all but the row of `item` and its ratings may be used, and its
            ratings are without the hidden one.
        target: the target's other ratings.
        item: the hidden item.
    """

    defense: OnDemandDefense
    model: ItemModel
    target: Profile
    item: int

    def choose(self, attack: Campaign) -> Planting:
        """The accounts for which the attack should need the fewest accounts or changes.

        The forecast of h + m is h + max(1, 9.4 (b/d)²), d the signal and b the noise's scale. In
        an immediate attack on lists the prediction of l has to be near the cut, and the helpers'
        values, which move it without moving its rivals, bring it there as far as they can. Where it
        is still g away, l is on the other side with probability about exp(−g/b), and m is longer by
        exp(g/b).

        Raises:
            DataError: the target has too few other ratings.
        """
        if len(self.target) < self.defense.min_ratings:
            raise DataError(
                f"a target has {len(self.target)} ratings besides the hidden one and an account of "
                f"the attacker needs min_ratings = {self.defense.min_ratings}: attack users with "
                "more ratings or lower model.params.min_ratings"
            )
        aims = attack.observe == "list" and attack.category == "immediate"
        most = attack.helpers if attack.plants else 0
        forecasts = [self._forecast(h, aims) for h in range(most + 1)]
        # Of equal forecasts the first, with the fewest helpers.
        _, sight, aim = min(forecasts, key=lambda forecast: forecast[0])
        return Planting(
            observer=Profile(sight.items, self._own_values(sight)),
            planted=self._helpers(sight, aim),
            signal=self._signal(sight),
        )

    def _forecast(self, helpers: int, aims: bool) -> tuple[float, _Sight, int]:
        """The forecast effort with so many helpers, what they do and the differences they add."""
        sight = self._sight(helpers, 0)
        signal = self._signal(sight)
        if signal < _NOTHING:
            return np.inf, sight, 0
        noise = self._noise
        aim, gap = self._aim(sight, signal) if aims else (0, 0.0)
        # Without noise the cut has to lie between two candidates.
        away = np.exp(min(gap / (noise or _NOTHING), 100.0))
        effort = max(1.0, _RELEASES * (noise / signal) ** 2) * away
        return helpers + float(effort), self._sight(helpers, aim), aim

    def _aim(self, sight: _Sight, signal: float) -> tuple[int, float]:
        """Steps of difference that bring l near the cut, and what is left of the distance."""
        values = self._own_values(sight)
        exact = self.defense.exact(self.model, Profile(sight.items, values))
        # Helpers do not move Slope One's rivals of l; those of cosine lose a little by them.
        cut = self._cut(exact)
        offset = values.mean() if self.model.ratings.scale.width else 0.0
        middle = float(offset + np.mean(sight.least + sight.most) / 2)
        steps = len(self.model.ratings.scale.values) - 1
        # A step of a helper's difference moves s_lk as a step of the hidden rating does.
        room = steps * sight.helpers
        aim = int(np.clip(np.rint((cut - middle) / signal), -room, room))
        half = signal * (len(self._values) - 1) / 2
        return aim, max(0.0, abs(cut - middle - aim * signal) - half)

    def _cut(self, exact: ExactScores) -> float:
        """The level that l has to pass to be shown: about that of the k-th best of its rivals.

        It solves Σ_j P(f_j + Lap(b) > x) = k − ½ by bisection.
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
        """`m_k` and the sum of differences with every item `k`, without the hidden rating."""
        return pairs.co_rating_row(self.item, *self.model.ticks)

    @property
    def _values(self) -> NDArray[np.float32]:
        return similar(self.defense).candidates(self.model.ratings.scale)

    def _signal(self, sight: _Sight) -> float:
        return float(np.mean(sight.most - sight.least)) / (len(self._values) - 1)

    def _sight(self, helpers: int, aim: int) -> _Sight:
        """The T of the target's items through which the hidden rating shows most.

        Args:
            helpers: how many accounts are planted.
            aim: the steps that their differences add up to.
        """
        items, scale = self.target.items, self.model.ratings.scale
        count, total = self._co_ratings
        count, total = count[items] + helpers, total[items] + aim * scale.step
        degree = self.model.degree.copy()
        degree[np.append(items, self.item)] += helpers
        if scale.width:
            least, most = scale.minimum - self.target.values, scale.maximum - self.target.values
            low = self._similarity(count + 1, total + least, degree, 1)
            high = self._similarity(count + 1, total + most, degree, 1)
        else:
            low = self._similarity(count, total, degree, 0)
            high = self._similarity(count + 1, total, degree, 1)
        # Rounded, so that equal items keep their order whatever the aim.
        order = np.argsort(np.round(low - high, 9), kind="stable")
        best = np.sort(order[: self.defense.min_ratings])
        return _Sight(helpers, items[best], low[best], high[best])

    def _similarity(
        self, count: NDArray[np.int64], total: Vector, degree: NDArray[np.int64], more: int
    ) -> Vector:
        """`s_lk` for the target's items `k`, l with `more` raters."""
        degree = degree.copy()
        degree[self.item] += more
        value = similar(self.defense).pair_similarity(
            PairCounts(self.item, self.target.items, count, total, degree)
        )
        return np.where(count > similar(self.defense).pair_floor(), value, 0.0)

    def _own_values(self, sight: _Sight) -> NDArray[np.float32]:
        """Ratings as high as leave `r_k + s_lk` within the scale, where nothing is clipped."""
        scale = self.model.ratings.scale.values
        room = scale[-1] - np.maximum(sight.least, sight.most)
        place = np.searchsorted(scale, room + _NOTHING, side="right") - 1
        return scale[np.maximum(place, 0)]

    def _helpers(self, sight: _Sight, aim: int) -> tuple[Profile, ...]:
        """Accounts that rate l and the observer's items, their differences adding up to `aim`."""
        scale = self.model.ratings.scale.values
        shares = np.diff(np.rint(np.linspace(0, aim, sight.helpers + 1)).astype(int))
        items = np.append(sight.items, self.item).astype(np.int32)
        order = np.argsort(items)
        made = []
        for share in shares:
            mine = scale[-1] if share >= 0 else scale[0]
            rest = scale[len(scale) - 1 - share] if share >= 0 else scale[-share]
            values = np.append(np.full(len(sight.items), rest), mine).astype(np.float32)
            made.append(Profile(items[order], values[order]))
        return tuple(made)
