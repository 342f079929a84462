"""Statements of Meng et al. 2018 that hold by algebra: no instance contradicts them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.claims import meng_2018 as data
from dpaudit.core.streams import Streams, generator
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.defenses.social.rows import Noise, SocialRows
from dpaudit.kernels import exact_noise

Floats = NDArray[np.float64]
Held = NDArray[np.bool_]
Statement = Callable[[int], str | None]

_ROUNDING = 1e-9
# The false-alarm probability of one statistical test; a statement has six of them.
_FALSE_ALARM = 1e-10
_DRAWS = 100_000


def _draws(seed: int, purpose: str, count: int, law: Callable[..., None]) -> Floats:
    """Return `count` draws of a law from dpaudit's noise source."""
    drawn: Floats = np.empty(count, np.float64)
    streams = Streams.first(seed, purpose, 1)
    law(drawn[None], streams.trials, 0, streams.key)
    return drawn


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

    rng = generator(seed)
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
    rng = generator(seed)
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


def differences(seed: int) -> str | None:
    """`σ̃(t) − σ̃(t − 1) = σ(t) − σ(t − 1)` if noise is kept over the rounds, not if it is fresh."""
    rng = generator(seed)
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
    rng = generator(seed)
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


def _generated(seed: int) -> tuple[Held, Held]:
    """Draw which user holds which item `(N, M)`, with every item held, and friends `(N, N)`."""
    rng = generator(seed)
    users, items = int(rng.integers(2, 30)), int(rng.integers(2, 60))
    held = rng.random((users, items)) < rng.uniform(0.02, 0.5)
    held[rng.integers(0, users, items), np.arange(items)] = True
    friends = np.triu(rng.random((users, users)) < rng.uniform(0, 0.5), 1)
    return held, friends | friends.T


def _vectors(held: Held, friends: Held, sensitive: Held) -> tuple[int, NDArray[np.int64]]:
    """Count the vectors at the recommender and at each user in one iteration of Algorithm 1."""
    users, items = held.shape
    recommender, at_user = 0, np.zeros(users, np.int64)
    for item in range(items):
        for kind in (sensitive, ~sensitive):
            raters = np.flatnonzero(held[:, item] & kind[:, item])
            recommender += len(raters) + bool(len(raters))  # submissions, and h_j for their noise
            at_user[raters] += 2  # the submission, and h_j
        recommender += 1  # v_j
    for user in range(users):
        others = np.flatnonzero(friends[user])
        # Messages received and h_i for each, the terms of the gradient, u_i.
        at_user[user] += 2 * len(others) + held[user].sum() + 1
        at_user[others] += 2
    return recommender, at_user


def ratings_of_an_iteration(seed: int) -> str | None:
    """Algorithm 1: at most 4 |R| vectors at the recommender and 4 (|R_i| + |F_i|) + 1 at a user."""
    rng = generator(seed)
    for instance in range(30):
        held, friends = _generated(seed + instance)
        recommender, at_user = _vectors(held, friends, rng.random(held.shape) < 0.3)
        if recommender > 4 * held.sum():
            return f"{held.sum()} ratings: {recommender} vectors at the recommender"
        if np.any(at_user > 4 * (held.sum(1) + friends.sum(1)) + 1):
            return f"{at_user.max()} vectors at a user"
    return None


HELD: dict[str, tuple[Statement, ...]] = {
    "privsr-s3.2-lemma1": (lemma,),
    "privsr-s5.1-shares": (shares,),
    "privsr-s5.3-differences": (differences,),
    "privsr-s5.3-new-ratings-anew": (disjoint,),
    "privsr-s5.3-all-ratings": (repeated,),
    "privsr-s5.3-cost": (ratings_of_an_iteration,),
}


@pytest.mark.long
@pytest.mark.parametrize(
    "statement", [one for several in HELD.values() for one in several], ids=lambda one: one.__name__
)
@pytest.mark.parametrize("seed", range(3))
def test_no_instance_contradicts_a_derivation(statement: Statement, seed: int) -> None:
    assert statement(seed) is None


def uniform_h(patch: pytest.MonkeyPatch) -> None:
    def draws(seed: int, purpose: str, count: int) -> NDArray[np.float64]:
        return np.random.default_rng(seed).uniform(0, 2, count)

    patch.setitem(globals(), "_exponential", draws)


def larger_noise(patch: pytest.MonkeyPatch) -> None:
    real = PrivSR.noise

    def noise(self: PrivSR, rows: SocialRows) -> Noise:
        drawn = real(self, rows)
        return Noise(1.001 * drawn.submitted, drawn.sent, drawn.shared)

    patch.setattr(PrivSR, "noise", noise)


def dearer_slots(patch: pytest.MonkeyPatch) -> None:
    real = _rows
    patch.setitem(globals(), "_rows", lambda rng, epsilon: real(rng, 1.1 * epsilon))


PLANTED: list[tuple[Statement, Callable[[pytest.MonkeyPatch], None]]] = [
    (lemma, uniform_h),
    (shares, uniform_h),
    (shares, larger_noise),
    (disjoint, dearer_slots),
    (repeated, dearer_slots),
]


@pytest.mark.cases(
    ("check", "error"), PLANTED, ids=[f"{c.__name__}/{e.__name__}" for c, e in PLANTED]
)
def test_a_true_statement_fails_when_an_error_is_planted(
    check: Statement, error: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check(0) is None
    error(monkeypatch)
    assert check(0) is not None


def test_laws_on_three_outputs_are_as_far_apart_as_they_may_be() -> None:
    rng, found = np.random.default_rng(0), []
    for _ in range(300):
        rows = _rows(rng, 0.7)
        assert rows.sum(1) == pytest.approx(1.0)
        assert (rows > 0).all()
        found.append(float(abs(np.log(rows[1] / rows[0])).max()))
    assert max(found) == pytest.approx(0.7, rel=1e-9)
    assert max(found) <= 0.7 + 1e-12
    assert np.ptp(found) > 0.3


def test_vectors_of_a_small_data_set() -> None:
    held = np.array([[True, True], [True, False]])
    friends = np.array([[False, True], [True, False]])
    sensitive = np.array([[True, False], [False, False]])
    recommender, at_user = _vectors(held, friends, sensitive)
    # Three submissions, one scale for each kind of each item's raters, two updates.
    assert recommender == 3 + 3 + 2
    # Submissions with their scales, messages sent and received with theirs, gradient terms, update.
    assert at_user.tolist() == [4 + 4 + 2 + 1, 2 + 4 + 1 + 1]


def test_a_cost_that_grows_with_users_times_items_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = _vectors

    def every_item(held: Held, friends: Held, sensitive: Held) -> object:
        recommender, at_user = real(held, friends, sensitive)
        return recommender + 4 * held.size, at_user

    monkeypatch.setitem(globals(), "_vectors", every_item)
    assert ratings_of_an_iteration(0) is not None
