"""Meng et al. 2018, PrivSR: what the entries need of code.

A check takes a seed and describes an instance on which its statement fails, or returns None. For
the rating form all data are on the scale 1..5, so that `Δ = 4`, and two data sets differ in the
first user. For the ranking form an item is bought or not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing import LikelihoodRatio
from dpaudit.auditor.games import GameScores, in_blocks
from dpaudit.audits.trained.pairs import DataPair
from dpaudit.bounds.accounting import laplace_vector_epsilon
from dpaudit.bounds.gdp import gaussian_delta, gaussian_epsilon, gaussian_mu
from dpaudit.claims.games import DataGame, StepsGame, graded, scored
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import RatingAdded, UserReplaced, apply
from dpaudit.data.ratings import Friends, RatedItems, Ratings, Scale, from_profiles
from dpaudit.defenses.factors import width
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.defenses.social.ranking import PrivSRRanking
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.execution.executor import INLINE
from dpaudit.kernels import exact_noise, lanes

_ROUNDING = 1e-9


def sums_of_both(seed: int) -> str | None:
    """Independent Lap(2Δ√K/ε_s) and Lap(2Δ√K/ε_n) keep ε for one rating; here K = 1, β = 1.

    In units of both scales, b = 2Δ/ε_s, the sum has the density `(1 + |x|) e^{−|x|}/4` and the tail
    `P(x ≥ t) = (2 + t) e^{−t}/4`, t ≥ 0. A rating shifts it by 2Δ = ε_s b = 2ε b.
    """
    epsilon, reach = 1.0, 8.0
    shift = 2 * epsilon

    def tail(t: float) -> float:
        return (2 + t) * math.exp(-t) / 4

    chance = tail(reach)
    loss = math.log(chance / tail(reach + shift))
    if loss <= epsilon:
        return None
    return (
        f"β = 1: one rating makes a sum beyond {reach:g} b {math.exp(loss):.3g} times as likely, "
        f"an event of probability {chance:.2g}: ε = {loss:.3f} where {epsilon:g} is claimed, and "
        f"{shift:g} in the limit"
    )


def delta_of_submission(raters: int, spent: float, epsilon: float) -> float:
    """Return δ(ε) of one rater's submission for the ratings 5 and 1, with K = 1 and |u| = 1.

    The recommender drew h. Given h, the submission is normal with
    `μ = 2Δ/√(8hΔ²/(n ε_s²)) = ε_s √(n/2h)`. The observation includes h, so δ(ε) = E δ(ε; μ(h)) over
    h ~ Exp(1).

    Args:
        raters: n, the number of raters who share the item's noise of this kind.
        spent: ε_s, or ε_n.
        epsilon: ε.
    """
    from scipy.integrate import quad

    def weighed(r: float) -> float:
        # h = r²
        mu = spent * math.sqrt(raters / 2) / r
        return 2 * r * math.exp(-(r**2)) * gaussian_delta(epsilon, mu)

    return float(quad(weighed, 0, 7, epsabs=1e-10, limit=200)[0])


def submission(seed: int) -> str | None:
    """δ at ε = 1 of a sensitive submission is 0, with β = 0.1."""
    deltas = {n: delta_of_submission(n, 1.1, 1.0) for n in (1, 10, 100)}
    if max(deltas.values()) <= 0:
        return None
    words = ", ".join(f"{delta:.3f} with {n}" for n, delta in deltas.items())
    return f"δ at ε = 1 and β = 0.1, by the number of raters who share the noise, is {words}"


def new_ratings(seed: int) -> str | None:
    """Two time slots, each on its own ratings with noise for ε_t = 1, keep ε = max ε_t = 1.

    K = 1, one round a slot, u = v = 1 at first, γ = 0.045. In the first slot a user rates an item
    5 or 1, and in the second slot another item 5. If the first slot's sum is near −90, the user
    begins the second slot with u = 0.98 or u = −0.84.
    """
    rate, seen, scale = 0.045, -90.0, 8.0
    ratings = np.array([5.0, 1.0])
    means = 2 * (1 - ratings)
    first = (abs(seen - means[1]) - abs(seen - means[0])) / scale
    v = 1 - rate * seen
    users = 1 - rate * 2 * (v - ratings) * v
    if abs(users).max() > 1:
        return None
    second = abs(np.diff(2 * (users - 5) * users)[0]) / scale
    if first + second <= 1 + _ROUNDING:
        return None
    return (
        f"sums near {seen:g} in the first slot have the likelihood ratio e^{first:.3g} and make the"
        f" user's factor {users[0]:.2f} or {users[1]:.2f}; sums beyond both means in the second "
        f"slot have e^{second:.3g}: ε = {first + second:.3g} where max ε_t = 1"
    )


def pairs_of_an_iteration(_: int) -> str | None:
    """Algorithm 2: a user submits at most three vectors for each of their triples that is drawn.

    Lines 5 to 13 make every user submit for every item: for those they hold, those that friends
    hold, and the rest. Here two friends hold equally many items, none in common, and b triples are
    drawn for each. The cost is counted in vectors of K numbers.
    """
    items, count = 1000, 5
    held = np.zeros((2, items), bool)
    held[0, :count] = held[1, count : 2 * count] = True
    of_friends = held[::-1] & ~held
    rest = ~held & ~of_friends
    triples = of_friends.sum(1) * (held.sum(1) + rest.sum(1))
    submitted = (held | of_friends | rest).sum(1)
    if np.all(submitted <= 3 * count):
        return None
    return (
        f"two friends hold {count} of {items} items each: D_PF and D_FN have {triples[0]} triples "
        f"for each user, b is about {count}, and {submitted[0]} vectors are submitted in every "
        "iteration"
    )


# Factors v of two items such that the best fit u = Σ v r / Σ v² is 1 for the ratings 5 and 5, and
# −1 for 1 and 5: Σ v² = 50/17; Σ v r = 50/17 and (25 − 75)/17 = −50/17.
_TURNING = (25 / 17, -15 / 17)

# One factor and one round that starts from u = v = 1, of both forms.
_ONE: dict[str, Any] = {
    "dimensions": 1,
    "rounds": 1,
    "decay": 0.0,
    "start": "constant",
    "spread": 1.0,
}
_PLAIN: dict[str, Any] = {**_ONE, "social": 0.0}


def published(**params: Any) -> PrivSR:
    """Return the published PrivSR with ε = 1."""
    return PrivSR(**{"epsilon": 1.0, **_PLAIN, **params})


def corrected(**params: Any) -> PrivSR:
    """Return the corrected PrivSR, which protects whole users, with ε = 2 and the default δ.

    With an offset of 3 the gradients of the ratings 5 and 1 are opposite, and both are longer than
    the clipping norm.
    """
    return PrivSR(**{"epsilon": 2.0, "variant": "corrected", **_PLAIN, "offset": 3.0, **params})


def _pair(
    profiles: Sequence[RatedItems],
    after: RatedItems,
    sensitive: Sequence[bool],
    summary: str,
    friends: Friends | None = None,
) -> DataPair:
    """Return the pair in which the first user's ratings become `after`.

    `sensitive` gives the privacy setting of each row in both data sets.
    """
    n_items = 1 + max(item for profile in profiles for item, _ in profile)

    def of(first: RatedItems) -> Ratings:
        plain = from_profiles([first, *profiles[1:]], n_items)
        return replace(plain, sensitive=np.array(sensitive), friends=friends)

    before = of(profiles[0])
    return DataPair(before, of(after), before, summary)


def one_rating(*, sensitive: bool, alike: int = 0, others: int = 0) -> DataPair:
    """Return the pair in which one rating of the only item changes from 5 to 1.

    Args:
        sensitive: whether the rating is sensitive.
        alike: number of other raters with the same setting.
        others: number of other raters with the other setting.
    """
    rest: list[RatedItems] = [[(0, 3)]] * (alike + others)
    settings = [sensitive] * (1 + alike) + [not sensitive] * others
    kind = "a sensitive" if sensitive else "a non-sensitive"
    words = f"{kind} rating changes from 5 to 1"
    if rest:
        words += f"; {alike} other ratings of the item have the same setting, {others} the other"
    return _pair([[(0, 5)], *rest], [(0, 1)], settings, words)


def turned(items: int, others: int = 0) -> DataPair:
    """Return the pair in which a user's ratings change from 5 to 1; all ratings are sensitive.

    Args:
        items: number of items.
        others: number of other users, who rate all items 3.
    """
    rest: list[RatedItems] = [[(item, 3) for item in range(items)]] * others
    profiles: list[RatedItems] = [[(item, 5) for item in range(items)], *rest]
    words = "an item" if items == 1 else f"{items} items"
    return _pair(
        profiles,
        [(item, 1) for item in range(items)],
        [True] * (items * (1 + others)),
        f"a user's ratings of {words} change from highest to lowest; {others} others rate the same",
    )


def fitted(items: int) -> tuple[DataPair, tuple[float, ...]]:
    """Return a pair in which a sensitive rating turns the user's factor from 1 to −1, and V.

    Args:
        items: number of items that the user has rated, 2 or more; all but two have the factor 0.
    """
    profile: list[tuple[int, float]] = [(item, 5) for item in range(items)]
    pair = _pair(
        [profile],
        [(0, 1), *profile[1:]],
        [True] * items,
        f"a user has rated {items} items 5, all sensitive, and one rating changes to 1; the user's "
        "factor, fitted to these ratings, changes from 1 to −1",
    )
    return pair, (*_TURNING, *[0.0] * (items - 2))


def befriended(friends: int) -> tuple[DataPair, tuple[float, ...]]:
    """Return the pair of `fitted` with a friend as the observer, and V.

    The user and the observer have given a third, non-sensitive item the same rating, so S = 1.

    Args:
        friends: number of the observer's friends, all with the same ratings but for the one.
    """
    profile: list[tuple[int, float]] = [(0, 5), (1, 5), (2, 5)]
    receiver = friends
    links = Friends.build(np.full(friends, receiver), np.arange(friends), friends + 1)
    pair = _pair(
        [profile] * friends + [[(2, 5)]],
        [(0, 1), *profile[1:]],
        [True, True, False] * friends + [False],
        f"one of a user's {friends} friends changes a sensitive rating from 5 to 1, and the "
        "friend's factor, fitted to the friend's ratings, changes from 1 to −1; their ratings that "
        "are not sensitive agree",
        links,
    )
    return pair, (*_TURNING, 0.0)


# Exact ε.


def both_kinds(beta: float) -> Estimate:
    """Return the ε of a shift of 2Δ under the sum of both kinds of noise, which share one h.

    The scale is 2Δ √(1/ε_s² + 1/ε_n²) = 2Δ √(1 + β²)/((1 + β) ε).
    """
    return Estimate.exact((1 + beta) / math.hypot(1, beta), "Laplace noise, both kinds, one h")


def opposite_submissions() -> Estimate:
    """Return the ε of one round with opposite submissions, both cut to the clipping norm."""
    defense = corrected()
    variance = float(defense.noise(defense.prepare(turned(1).before)).submitted[1, 0])
    mu = 2 * defense.clip_norm * (1 - 1e-5) / math.sqrt(variance)
    return Estimate.exact(gaussian_epsilon(mu, defense.delta), "normal noise, opposite submissions")


# The ranking form.

_FRIENDS = 5
_HELD = Scale(1, 1, 1)
# All triples, so that sums are exact.
_RANKING: dict[str, Any] = {**_ONE, "triples": "all"}


def published_ranking(**params: Any) -> PrivSRRanking:
    """Return the published ranking form with ε = 0.5."""
    return PrivSRRanking(**{"epsilon": 0.5, **_RANKING, **params})


def corrected_ranking(**params: Any) -> PrivSRRanking:
    """Return the corrected form, which protects whole users, with ε = 2 and the default δ."""
    return PrivSRRanking(**{"epsilon": 2.0, "variant": "corrected", **_RANKING, **params})


def bought(kept: bool = False) -> DataPair:
    """Return the pair in which a user with one friend, who holds five items, buys a new item.

    Args:
        kept: whether another user keeps all items private, so that both kinds of noise are present.
    """
    others = [(item, 1.0) for item in range(2, 2 + _FRIENDS)]
    everything = [(item, 1.0) for item in range(_FRIENDS + 4)]
    profiles = [[(0, 1.0)], others, *([everything] if kept else [])]
    plain = from_profiles(profiles, _FRIENDS + 4, _HELD)
    links = Friends.build(np.array([0]), np.array([1]), len(profiles))
    before = replace(plain, friends=links, sensitive=plain.user == 2)
    words = f"a user whose friend shares {_FRIENDS} items buys an item that neither of them had"
    more = "; another user keeps all items private" if kept else ""
    return DataPair(before, apply(before, RatingAdded(0, 1, 1.0)), before, words + more)


def opposed() -> DataPair:
    """Return the worst pair of the corrected form: the user's items are replaced by others.

    Every triple is reversed, and with it the user's whole submission, which is longer than the
    clipping norm.
    """
    plain = from_profiles([[(item, 1.0) for item in range(3)], [(6, 1.0)]], 7, _HELD)
    nobody = np.zeros(0, np.int64)
    before = replace(plain, friends=Friends.build(nobody, nobody, 2))
    theirs = UserReplaced(0, np.arange(3, 6, dtype=np.int32), np.ones(3, np.float32))
    return DataPair(
        before,
        apply(before, theirs),
        before,
        "a user who holds three of seven items is replaced by one who holds three others",
    )


def opposite_rankings() -> Estimate:
    """Return the ε of opposite submissions, both cut to the clipping norm."""
    defense = corrected_ranking()
    mu = gaussian_mu(defense.epsilon, defense.delta) * (1 - 1e-5)
    return Estimate.exact(gaussian_epsilon(mu, defense.delta), "normal noise, opposite submissions")


Floats = NDArray[np.float64]

_SCALES, _NOISE = 0, 1


@dataclass(frozen=True, eq=False)
class FinalGame(StepsGame):
    """Observer `public` of Algorithm 1 with one factor: only the first item's final factor.

    The factor is a sum of Laplace draws plus a shift, and a lower rating makes it smaller.
    """

    defense: PrivSR

    def run(self, trials: int, seed: int) -> GameScores:
        """Train, and score by the negative final factor."""

        def score(rows: SocialRows, streams: Streams) -> Floats:
            def of_block(streams: Streams) -> NDArray[np.float32]:
                items = self.defense.train(rows, streams).public(np.zeros(1, np.int32))
                return items.factors[:, 0, 0]

            [first] = in_blocks([(of_block, streams)], lanes.LANES, INLINE)
            return graded(-first.astype(np.float64) / self.defense.learning_rate)

        return scored(score, self.prepared(), "final", trials, seed, self.truth)


@dataclass(frozen=True, eq=False)
class _FittedGame(DataGame):
    """Base of the games with one factor, a public V and users' factors fitted to their ratings.

        u_i = Σ_j v_j (r_ij − b) / (Σ_j v_j² + λ),

    the minimum of equation (8) for this V, without friends.

    The defense determines the noise and the clipping.

    Attributes:
        items: V `(M,)`.
    """

    trials: int = 50_000
    items: tuple[float, ...] = field(kw_only=True)

    def mechanism(self) -> str:
        """Description of the defense with its parameters, and of V."""
        shown = ", ".join(f"{factor:.4g}" for factor in self.items)
        return f"{super().mechanism()}; users' factors fitted to V = ({shown})"

    def users(self, rows: SocialRows) -> NDArray[np.float32]:
        """Return the fitted factors in the first column of the kernels' layout `(N, size)`."""
        factors = np.array(self.items)[rows.items]
        errors = self.defense.centred(rows).astype(np.float64)
        slope = np.bincount(rows.users, factors * errors, rows.n_users)
        weight = np.bincount(rows.users, factors**2, rows.n_users) + self.defense.decay
        fitted = _padded(slope / np.where(weight > 0, weight, 1.0))
        self.defense.project(fitted)
        return fitted


def _padded(factors: Floats) -> NDArray[np.float32]:
    """Return rows of the kernels' width with one factor each, in the first column."""
    rows = lanes.aligned(len(factors), width(1))
    rows[:, 0] = factors
    return rows


@dataclass(frozen=True, eq=False)
class SubmittedGame(_FittedGame):
    """Observer `public` of one round: the sum of the submissions for each item."""

    def run(self, trials: int, seed: int) -> GameScores:
        """Draw the sums and score them by their likelihood ratio."""
        before, after = self.prepared()
        absent, present = self.sums(before), self.sums(after)
        drawn = self.defense.noise(before)
        variance = np.bincount(before.items, drawn.of_rows(before), before.n_items)
        law = _Law(absent, present, np.sqrt(variance), "laplace" if drawn.shared else "normal")
        return law.run("submitted", trials, seed, self.claimed()[1])

    def sums(self, rows: SocialRows) -> Floats:
        """Return Σ_i 2 (u_i v_j − r_ij) u_i of each item, without noise `(M,)`."""
        users = self.users(rows)
        items = _padded(np.array(self.items))
        order = np.arange(len(rows), dtype=np.int32)
        factor = users[rows.users, 0].astype(np.float64)
        errors = factor * items[rows.items, 0] - self.defense.centred(rows)
        cut = self.defense.cuts(rows, order, users, items)
        return np.bincount(rows.items, 2 * errors * factor * cut, rows.n_items).astype(np.float64)


@dataclass(frozen=True, eq=False)
class MessagesGame(_FittedGame):
    """Observer `friend`: the messages that the last user receives from their friends.

    Attributes:
        alone: whether the observer sees the first friend's message and knows the noise's size h,
            which they drew; else the observer sees the sum of all messages and does not know h.
    """

    alone: bool = False

    def run(self, trials: int, seed: int) -> GameScores:
        """Draw the messages and score them by their likelihood ratio."""
        before, after = self.prepared()
        drawn, last = self.defense.noise(before), before.n_users - 1
        # The receiver multiplies broadcast factors, with their noise, by 2 S, and S is 1.
        variance = float(drawn.sent[last]) + 4 * drawn.broadcast
        variance *= 1 if self.alone else int(before.friends[last])
        kind: _Kind = "normal" if not drawn.shared else "shared" if self.alone else "laplace"
        law = _Law(self._sent(before), self._sent(after), np.sqrt([variance]), kind)
        return law.run("sent", trials, seed, self.claimed()[1])

    def _sent(self, rows: SocialRows) -> Floats:
        """Return 2 S u of the first friend, or the sum over all friends, without noise `(1,)`."""
        weights = rows.similarity[[rows.n_users - 1]].toarray()[0].astype(np.float64)
        messages = 2 * weights * self.users(rows)[:, 0]
        return np.array([messages[0] if self.alone else messages.sum()])


def on_fitted(label: str, defense: PrivSR, items: int) -> SubmittedGame:
    """Return the game on the pair of `fitted`, with its V."""
    pair, factors = fitted(items)
    return SubmittedGame(label, defense, pair, items=factors)


def between_friends(label: str, defense: PrivSR, friends: int, alone: bool = False) -> MessagesGame:
    """Return the game on the pair of `befriended`, with its V."""
    pair, factors = befriended(friends)
    return MessagesGame(label, defense, pair, items=factors, alone=alone)


_Kind = Literal["laplace", "normal", "shared"]


@dataclass(frozen=True)
class _Law:
    """The laws on D and D' of numbers with independent noise.

    Attributes:
        absent: the numbers without noise on D `(C,)`.
        present: the numbers without noise on D' `(C,)`.
        deviation: standard deviations of the noise `(C,)`.
        kind: `laplace`; `normal`; or `shared`: normal with the variance times an h ~ Exp(1) that
            the observer sees.
    """

    absent: Floats
    present: Floats
    deviation: Floats
    kind: _Kind

    def run(self, purpose: str, trials: int, seed: int, delta: float) -> GameScores:
        """Draw from both laws and score by their likelihood ratio."""
        sides = self.absent, self.present
        return scored(self._score, sides, purpose, trials, seed, self.truth(delta))

    def _score(self, exact: Floats, streams: Streams) -> Floats:
        draws = np.empty((len(streams), len(exact)), np.float64)
        scale = np.broadcast_to(self.deviation, draws.shape)
        if self.kind == "laplace":
            exact_noise.laplace(draws, streams.trials, _NOISE, streams.key)
            scale = scale / np.sqrt(2)
        elif self.kind == "shared":
            # The absolute value of a Laplace draw is exponential.
            exact_noise.laplace(draws, streams.trials, _SCALES, streams.key)
            scale = scale * np.sqrt(np.maximum(abs(draws), 1e-30))
        if self.kind != "laplace":
            exact_noise.normal(draws, streams.trials, _NOISE, streams.key)
        shown = NoisedSteps(exact + scale * draws)
        pair = StepsPair(self.absent, self.present, scale, gaussian=self.kind != "laplace")
        # The grid merges ratios of one event that differ by rounding.
        return graded(LikelihoodRatio().score(shown, pair))

    def truth(self, delta: float) -> Estimate:
        """Return the exact ε of this pair at `delta`."""
        shifts = (self.present - self.absent) / self.deviation
        if self.kind == "laplace":
            return laplace_vector_epsilon(shifts * np.sqrt(2), 1.0, delta=delta)
        if self.kind == "normal":
            mu = float(np.sqrt((shifts**2).sum()))
            return Estimate.exact(gaussian_epsilon(mu, delta), "normal noise")
        # As h → 0 the ratio has no bound.
        return Estimate.exact(np.inf, "normal noise, whose size is seen and may be near 0")
