"""Luo et al. 2020, fake gradients: what the entries need of code.

All data sets are on the scale 1..5 and assume the offset 3. The two of a pair differ in one user;
all other users have the same ratings. So the limit of a training with one factor is known: with e
the others' error before training and λ the decay, their u and the items' v tend to √(e − λ) in
absolute value, with the same sign, and their gradients to −λ v. The candidates are those of the
larger data set (`public`), so the changed item is a candidate in both: rated in one, faked in the
other.

A check takes a seed and describes an instance on which its statement fails, or returns None.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.trained.pairs import DataPair
from dpaudit.bounds.accounting import noise_multiplier
from dpaudit.bounds.gdp import gaussian_epsilon
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams, generator
from dpaudit.data.ratings import RatedItems, from_profiles
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.factors import width
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.kernels.federated import submissions as kernels

Floats = NDArray[np.float64]

# An ε with nearly no noise, as in the limit of the server's means over many users.
_CLEAR = 1e6
_DECAY, _RATE = 0.1, 0.1
_DELTA = 1e-5
_LARGEST = 5.0
_ROUNDING = 1e-9
_TRUTHS = (0.51, 0.55, 0.75, 0.9, 0.99)
# The level of the statistical tests that the statements are about, and the probability that a check
# rejects a true statement.
_LEVEL, _FALSE_ALARM = 0.01, 1e-6


# The mechanisms.

_SET: dict[str, Any] = {
    "dimensions": 1,
    "density": 0.0,
    "offset": 3.0,
    "spread": 0.1,
    "memory": 0.9999,
    "truth": 0.99,
}


def published(epsilon: float, delta: float, **params: Any) -> FakeGradients:
    """Return Algorithm 2 with one factor.

    The response is nearly always true, so the server's estimate of an item's mean gradient is
    accurate.
    """
    return FakeGradients(epsilon=epsilon, delta=delta, **{**_SET, **params})


def corrected(**params: Any) -> FakeGradients:
    """Return the corrected form, which protects whole users, at the default δ.

    Factors are so large that every submission is cut.
    """
    return FakeGradients(
        epsilon=2.0, variant="corrected", density=0.0, offset=3.0, clip_norm=0.1, **params
    )


def opposite_gradients() -> Estimate:
    """Return the ε of opposite gradients, both cut to the clipping norm, just below the claim."""
    defense = corrected(rounds=1)
    ratings = turned(1).before
    sigma = defense.sigma(defense.prepare(ratings))
    mu = 2 * defense.clip_norm * (1 - 1e-5) / sigma
    return Estimate.exact(gaussian_epsilon(mu, defense.delta), "normal noise, opposite gradients")


# Neighbouring data sets.


def _rating_added(
    profile: RatedItems, added: tuple[int, float], others: int, value: float
) -> DataPair:
    """Return the pair in which a user adds a rating; the others rate all these items with `value`.

    Args:
        profile: the user's ratings before.
        added: the added item and its rating.
        others: number of other users.
        value: the rating that each of them gives to each item.
    """
    items = [added[0], *(item for item, _ in profile)]
    rest: list[RatedItems] = [[(item, value) for item in sorted(items)]] * others
    before, after = (
        from_profiles([mine, *rest], len(items)) for mine in (profile, [added, *profile])
    )
    ratings = ", ".join(f"{rating:g}" for _, rating in profile)
    return DataPair(
        before,
        after,
        after,
        f"{others} users have rated {len(items)} items with {value:g}; one more user has rated all "
        f"but one of them ({ratings}) and adds it with {added[1]:g}; it is that user's candidate "
        "in both data sets",
    )


def against(others: int) -> DataPair:
    """Return the pair in which the user adds the lowest rating of an item that others rate highest.

    The user agrees with the others on three other items. With λ = 4/3: v² = 2/3 and a fake is
    −λ v = −1.09 for v > 0. The user's u, from u (λ + v²) = v mean(e), is 0.41, so the gradient is
    −(−2 − u v) u = 0.95, opposite to the fake.
    """
    return _rating_added([(1, 5), (2, 5), (3, 5)], (0, 1), others, 5)


def undecided(rated: int, others: int) -> DataPair:
    """Return the pair in which one more rating makes an undecided user's factor differ from 0.

    The user has rated half of `rated` items highest and half lowest; the others like all of them.
    Without the added rating the user's factor and gradients are 0 up to noise.
    """
    mine: RatedItems = [(item, 5 if item % 2 else 1) for item in range(1, rated + 1)]
    return _rating_added(mine, (0, 5), others, 4)


def agreeing(rated: int, others: int) -> DataPair:
    """Return the pair in which a user who rates as everybody does adds a rating of the same kind.

    The user's factor does not change.
    """
    return _rating_added([(item, 5) for item in range(1, rated + 1)], (0, 5), others, 5)


def turned(items: int) -> DataPair:
    """Return the pair of a single user whose ratings change from highest to lowest."""
    before, after = (
        from_profiles([[(item, value) for item in range(items)]], items) for value in (5.0, 1.0)
    )
    words = "an item" if items == 1 else f"{items} items"
    return DataPair(
        before, after, after, f"one user, whose ratings of {words} change from highest to lowest"
    )


# The loss in the limit of many other users.


def many_others(seed: int, defense: FakeGradients, pair: DataPair) -> str | None:
    """Test the claim for the submissions of a user who adds a rating, with no gradient above G.

    As the number of other users grows, the noise in the items' means vanishes, and V_t and F_t tend
    to their values without noise. The noise in the user's own submissions stays, so distinguishing
    the data sets tends to distinguishing two normal vectors, with

        μ² = Σ_t Σ_j ‖x_tj − x'_tj‖²/σ²

    over the user's submissions without noise on D and D'. A training with σ near 0 approximates the
    limit.

    Args:
        seed: decides the initial factors.
        defense: a published defense that has a σ.
        pair: the two data sets.

    Returns:
        a description with μ and ε if ε exceeds the claim, else None.

    Raises:
        ValueError: a gradient or a fake is longer than the bound.
    """
    clear = replace(defense, epsilon=_CLEAR)
    before = clear.prepare(pair.before, pair.public)
    after = clear.prepare(pair.after, pair.public)
    trial = Streams.first(seed, "many others", 1)
    # Lengths of the user's submissions on D, and of everybody's on D', where every candidate is
    # rated.
    lengths, square = [0.0], 0.0
    for _, means in clear.observe(before, after, after, trial):
        absent, present = (
            rows.reshape(-1, defense.dimensions) for rows in (means.absent, means.present)
        )
        square += float(((present - absent) ** 2).sum())
        lengths.append(_longest(absent))
    for seen, _ in clear.transcript(after, trial).rounds():
        lengths += [_longest(seen.gradients), _longest(seen.fakes)]
    longest = max(lengths)
    if longest > defense.clip_norm:
        raise ValueError(
            f"a submission has length {longest}, which is beyond the bound {defense.clip_norm}"
        )
    sigma = defense.sigma(after)
    mu, paid = math.sqrt(square) / sigma, math.sqrt(defense.rounds) * defense.clip_norm / sigma
    epsilon = gaussian_epsilon(mu, defense.delta)
    if epsilon <= defense.epsilon:
        return None
    return (
        f"μ = {mu:.3f} where {paid:.3f} is covered, ε = {epsilon:.3f} where {defense.epsilon:g} is "
        f"claimed; the longest submission has length {longest:.3f}, and the bound is "
        f"{defense.clip_norm:g}"
    )


def _longest(rows: NDArray[np.floating]) -> float:
    return float(np.linalg.norm(rows, axis=1).max())


# Gradient norms and the effect of one rating. A user minimises `½ Σ_j (r_j − u·v_j)² + ½ λ‖u‖²`,
# as in the printed cost function.


def every_bound_is_exceeded(seed: int) -> str | None:
    """For every bound G up to 10^4 some data have a longer gradient.

    One factor. A user gives n items, all with the public factor v, the rating r. The user's fit is
    `u = n v r/(n v² + λ)`, and at `v = √(λ/n)` it is `√(n/λ) r/2`, so that

        |g| = |r − u v| |u| = √(n/λ) r²/4,

    which the scale of the ratings does not bound.

    Returns:
        a description of a G that bounds all gradients, or None if there is none.
    """
    for bound in 10.0 ** np.arange(5):
        count = math.ceil(_DECAY * (4 * bound / _LARGEST**2) ** 2) + 1
        v = math.sqrt(_DECAY / count)
        u = count * v * _LARGEST / (count * v**2 + _DECAY)
        if abs(_LARGEST - u * v) * u <= bound:
            return f"G = {bound:g} bounds the gradients of a user with {count} ratings"
    return None


def any_constant(seed: int) -> str | None:
    """Some c₂, up to 100 times the least, makes one round (1, 1e-5)-private with Theorem 3's σ.

    A user's n other ratings, half of them 2 above and half 2 below their predictions, cancel out on
    items that share one small public factor: u stays 0 and the user submits 0. One more rating, of
    an item whose factor is 1, changes u by `a e` in a step of descent, and with it all n + 1
    submissions by up to the same length. Theorem 3's σ covers one of them.

    Returns:
        a description with the ε at the largest constant that was tried, or None if one suffices.
    """
    claimed, error = 1.0, 2.0
    worst = 0.0
    for constant in (1, 10, 100):
        count = 4 * constant**2
        v = np.concatenate([[1.0], np.full(count, 1e-6)])
        e = np.concatenate([[error], np.tile([error, -error], count // 2)])
        fits = [_RATE * float(e[rows] @ v[rows]) for rows in (slice(1, None), slice(None))]
        # An item that is not rated submits a fake, which is 0 in the first round.
        before = -(e - fits[0] * v) * fits[0] * (np.arange(count + 1) > 0)
        after = -(e - fits[1] * v) * fits[1]
        longest = float(np.maximum(abs(before), abs(after)).max())
        sigma = constant * longest * noise_multiplier(claimed, delta=_DELTA)
        worst = gaussian_epsilon(float(np.linalg.norm(after - before)) / sigma, _DELTA)
        if worst <= claimed:
            return None
    return (
        f"with σ 100 times the least that one gradient needs, a user with {count} other ratings "
        f"has ε = {worst:.2f} where 1 is claimed"
    )


# Statements about the response, the fakes' mean and the two-valued output.


def response_of_user(seed: int) -> str | None:
    """All of a user's answers together are `|ln(p/(1 − p))|`-private."""
    rng = generator(seed)
    for n, p in itertools.product(range(1, 8), _TRUTHS):
        one = rng.integers(0, 2, n)
        patterns = np.array(list(itertools.product((0, 1), repeat=n)))

        def log_chance(
            truths: NDArray[np.int64], p: float = p, patterns: NDArray[np.int64] = patterns
        ) -> Floats:
            return np.where(patterns == truths, math.log(p), math.log(1 - p)).sum(1)

        loss = float(abs(log_chance(one) - log_chance(1 - one)).max())
        claimed = math.log(p / (1 - p))
        if loss > claimed * (1 + _ROUNDING):
            return f"{n} candidates, p = {p}: ε = {loss:.4g} where {claimed:.4g} is claimed"
    return None


def zero_mean(seed: int) -> str | None:
    """A test of the mean identifies no rated items in a training whose fakes follow the mean.

    The test for mean 0 is centred at the F_t that the server broadcast: `k ‖mean(x_t − F_t)‖²/σ²`
    is χ²_d for a fake. The statement fails if real submissions exceed the 1 % point significantly
    more often (at level 1e-6).
    """
    from scipy.stats import binom, chi2

    defense = FakeGradients(epsilon=50.0, rounds=100, dimensions=4, offset=3.5, memory=0.999)
    ratings = generate(
        SyntheticParams(n_users=60, n_items=30, mean_per_user=10, minimum_per_user=4, seed=1)
    )
    observed = defense.prepare(ratings)
    transcript = defense.transcript(observed, Streams.first(seed, "zero mean", 1))
    moved = np.zeros((len(transcript.real), defense.dimensions))
    for seen, _ in transcript.rounds():
        fakes = seen.fakes[transcript.pairs.items[seen.place]]
        moved[seen.place] += seen.shown - fakes
    z = (moved**2).sum(1) / (defense.rounds * transcript.pairs.sigma**2)
    identified = z > chi2.isf(_LEVEL, defense.dimensions)
    real, fake = identified[transcript.real], identified[~transcript.real]
    if real.sum() <= binom.isf(_FALSE_ALARM, len(real), _LEVEL):
        return None
    return (
        f"the test identifies {real.sum()} of {len(real)} rated items ({real.mean():.0%}) and "
        f"{fake.sum()} of {len(fake)} others ({fake.mean():.1%})"
    )


def _positive(x: float, level: float, weight: float) -> float:
    """Return the share of evenly spaced draws for which a gradient x is sent as +.

    The submissions are dpaudit's own, for one factor u = −x and a rating of 1 that is predicted
    as 0. With `weight` 0 the submission is a fake.
    """
    count = 10_001
    size = width(1)
    left, right = np.zeros(size, np.float32), np.zeros(size, np.float32)
    left[0] = -x
    zeros = np.zeros(count, np.int32)
    even = ((np.arange(count) + 0.5) / count).astype(np.float32)
    draws = np.stack([even, even])
    shown = np.zeros(count * size, np.float32)
    kernels.submit_signs(
        np.arange(count, dtype=np.int32), zeros, zeros, np.ones(count, np.float32),
        np.full(count, weight, np.float32), left, right, size, 1, level, draws,
        np.zeros(size, np.float32), shown,
    )  # fmt: skip
    return float((shown.reshape(count, size)[:, 0] > 0).mean())


def one_round(seed: int) -> str | None:
    """One round's output has the same law whether an item was rated or not.

    A coordinate is positive with probability `½ (1 + x tanh(ε'/2))` for a gradient x, and ½ for a
    fake. So the best guess of an observer who knows the sign of x is right with probability
    `½ + |x| tanh(ε'/2)/4`.
    """
    rng = generator(seed)
    findings = []
    for epsilon in (0.1, 1.0, 4.0):
        defense = FakeGradients(epsilon=epsilon, fakes="two-valued", rounds=1, dimensions=1)
        x = float(rng.uniform(0.5, 1))
        apart = abs(_positive(x, defense.level, 1.0) - _positive(x, defense.level, 0.0))
        if apart > 1e-3:
            findings.append(
                f"ε' = {epsilon:g}, gradient {x:.2f}: a guess from one round is right with "
                f"probability {0.5 + apart / 2:.3f}"
            )
    return findings[-1] if findings else None
