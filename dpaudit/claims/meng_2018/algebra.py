"""Mathematical statements about PrivSR (Meng et al. 2018), tested on instances.

Each check takes a seed and describes an instance on which its statement fails, or returns None.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.model_based.gdp import gaussian_delta
from dpaudit.claims.meng_2018 import data
from dpaudit.core.streams import Streams, generator
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.kernels import exact_noise

Floats = NDArray[np.float64]

_ROUNDING = 1e-9
# The false-alarm probability of one statistical test; a check has six of them.
_FALSE_ALARM = 1e-10
_DRAWS = 100_000


def _rng(seed: int) -> np.random.Generator:
    return generator(seed)


def _draws(seed: int, purpose: str, count: int, law: Callable[..., None]) -> Floats:
    """Return `count` draws of a law from dpaudit's noise source."""
    drawn = np.empty((1, count), np.float64)
    streams = Streams.first(seed, purpose, 1)
    law(drawn, streams.trials, 0, streams.key)
    return drawn[0]


def _exponential(seed: int, purpose: str, count: int) -> Floats:
    """Return draws of H ~ Exp(1), the absolute values of Laplace draws."""
    return abs(_draws(seed, purpose, count, exact_noise.laplace))


def _is_laplace(drawn: Floats, scale: float) -> str | None:
    """Test draws against Lap(scale) by their distribution and moments; describe a rejection.

    E|x|^k = k! b^k, with variance ((2k)! − k!²) b^{2k}. By the central limit theorem a mean of
    100 000 draws is off by more than 7 of its standard deviations about once in 10¹¹.
    """
    from scipy.stats import kstest

    p = float(kstest(drawn, "laplace", (0.0, scale)).pvalue)
    if p < _FALSE_ALARM:
        return f"Kolmogorov-Smirnov p = {p:.2g}"
    for k in (1, 2):
        least, most = math.factorial(k), math.factorial(2 * k)
        off = float((abs(drawn / scale) ** k).mean()) - least
        if abs(off) > 7 * math.sqrt((most - least**2) / len(drawn)):
            return f"E|x|^{k} is off by {off:.3g} b^{k}"
    return None


def lemma(seed: int) -> str | None:
    """`b √(2h) c ~ Lap(b)`, h ~ Exp(1), c ~ N(0, 1): ∫ e^{−h} N(x; 0, 2hb²) dh = e^{−|x|/b}/2b."""
    from scipy.integrate import quad

    rng = _rng(seed)
    for b in 10.0 ** rng.uniform(-2, 2, 5):
        for x in b * rng.uniform(0.05, 5, 5):
            # Substitute r = √h.
            found = quad(
                lambda r, x=x, b=b: (
                    2 * math.exp(-(r**2) - x**2 / (4 * b**2 * r**2)) / (2 * b * math.sqrt(math.pi))
                ),
                0,
                12,
                epsabs=0,
                epsrel=1e-10,
                points=[math.sqrt(x / (2 * b))],
                limit=200,
            )[0]
            if abs(found / (math.exp(-x / b) / (2 * b)) - 1) > 1e-7:
                return f"b = {b:.3g}, x = {x:.3g}: density {found:.6g}"
        h = _exponential(seed, f"h {b}", _DRAWS)
        c = _draws(seed, f"c {b}", _DRAWS, exact_noise.normal)
        wrong = _is_laplace(b * np.sqrt(2 * h) * c, b)
        if wrong is not None:
            return f"b = {b:.3g}: {wrong}"
    return None


def shares(seed: int) -> str | None:
    """Shares with `c_i ~ N(0, 1/n)` and one h add up to Lap(2Δ√K/ε_s), or Lap(2Δ√K/ε_n)."""
    rng = _rng(seed)
    for _ in range(50):
        n, k = int(rng.integers(1, 60)), int(rng.integers(1, 12))
        epsilon, beta = (float(10.0 ** rng.uniform(*ends)) for ends in ((-1, 1), (-2, 0)))
        sensitive = bool(rng.integers(2))
        defense = PrivSR(epsilon=epsilon, beta=beta, dimensions=k)
        pair = data.one_rating(sensitive=sensitive, alike=n - 1, others=int(rng.integers(4)))
        # Friends do not matter here.
        rows = PrivSR(epsilon=1.0, social=0.0).prepare(pair.before)
        drawn = defense.noise(rows)
        own = drawn.of_rows(rows)[rows.sensitive == sensitive]
        spent = (1 + (beta if sensitive else 1 / beta)) * epsilon
        # The variances add up to (b √2)², b = 2Δ√K/ε.
        wanted = 2 * (2 * 4 * math.sqrt(k) / spent) ** 2
        if len(own) != n or abs(own.sum() / wanted - 1) > _ROUNDING:
            return f"{n} raters, K = {k}: variances add up to {own.sum()} h for {wanted} h"
    n = 5
    h, c = _exponential(seed, "h", _DRAWS), _draws(seed, "c", n * _DRAWS, exact_noise.normal)
    wrong = _is_laplace((np.sqrt(2 * h / n) * c.reshape(n, -1)).sum(0), 1.0)
    return None if wrong is None else f"{n} shares: {wrong}"


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
    found = math.log(chance / tail(reach + shift))
    if found <= epsilon:
        return None
    return (
        f"β = 1: one rating makes a sum beyond {reach:g} b {math.exp(found):.3g} times as likely, "
        f"an event of probability {chance:.2g}: ε = {found:.3f} where {epsilon:g} is claimed, and "
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
    found = {n: delta_of_submission(n, 1.1, 1.0) for n in (1, 10, 100)}
    if max(found.values()) <= 0:
        return None
    words = ", ".join(f"{delta:.3f} with {n}" for n, delta in found.items())
    return f"δ at ε = 1 and β = 0.1, by the number of raters who share the noise, is {words}"


def differences(seed: int) -> str | None:
    """`σ̃(t) − σ̃(t − 1) = σ(t) − σ(t − 1)` if noise is kept over the rounds, not if it is fresh."""
    rng = _rng(seed)
    for _ in range(200):
        k = int(rng.integers(1, 8))
        rating, scale = float(rng.uniform(1, 5)), float(10.0 ** rng.uniform(-2, 2))
        users, items = rng.normal(size=(2, 2, k))
        exact = 2 * ((users * items).sum(1) - rating)[:, None] * users
        kept, fresh = rng.laplace(scale=scale, size=(2, k))
        moved = exact[1] - exact[0]
        size = float(abs(exact).max() + abs(kept).max())
        if not np.allclose((exact[1] + kept) - (exact[0] + kept), moved, 0, _ROUNDING * size):
            return f"K = {k}: kept noise does not cancel"
        if np.allclose((exact[1] + fresh) - (exact[0] + kept), moved, 0, _ROUNDING * size):
            return f"K = {k}: fresh noise cancels"
    return None


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


def _rows(rng: np.random.Generator, epsilon: float) -> Floats:
    """Draw two laws on three outputs with log-ratios of at most ε, `(2, 3)`; some attain it."""
    p = rng.dirichlet(np.ones(3))
    if rng.random() < 0.5:
        # Change p so that one of its ratios is e^ε or e^−ε.
        low = math.exp(-epsilon)
        q = p * np.array([math.exp(epsilon), 1.0, 1.0]) if p[0] < low / 2 else p * [low, 1, 1]
        rest = (1 - q[0]) / (1 - p[0])
        q[1:] = p[1:] * rest
        if abs(math.log(rest)) <= epsilon:
            return np.stack([p, q])
    weights = rng.uniform(-epsilon / 2, epsilon / 2, 3)
    q = p * np.exp(weights)
    return np.stack([p, q / q.sum()])


def _composed(seed: int, *, again: bool) -> str | None:
    """Compose two slots and compare the largest log-ratio with the claimed composition.

    The mechanism of the second slot depends on the first slot's output. D and D' differ in a rating
    of the first slot.

    Args:
        seed: decides the instances.
        again: whether the second slot uses that rating too; then the claim is Σ ε_t, else max ε_t.
    """
    rng = _rng(seed)
    for _ in range(500):
        epsilons = rng.uniform(0.05, 3, 2)
        first = _rows(rng, epsilons[0])
        following = [_rows(rng, epsilons[1]) for _ in range(3)]
        joint = np.stack(
            [
                np.concatenate([first[w, y] * following[y][w if again else 0] for y in range(3)])
                for w in range(2)
            ]
        )
        found = float(abs(np.log(joint[1] / joint[0])).max())
        most = float(epsilons.sum() if again else epsilons.max())
        if found > most + _ROUNDING:
            return f"ε_t = {epsilons[0]:.3g}, {epsilons[1]:.3g}: together {found:.6g}"
    return None


def disjoint(seed: int) -> str | None:
    """Slots on disjoint ratings that share only the released outputs keep max ε_t."""
    return _composed(seed, again=False)


def repeated(seed: int) -> str | None:
    """Slots on all ratings, each ε_t-private given the earlier outputs, keep Σ ε_t."""
    return _composed(seed, again=True)
