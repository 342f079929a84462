"""Lower bounds on ε from one run with many canaries, each included by its own fair coin.

The auditor sees the output, guesses "in" or "out" for r canaries of their choice among m, and
abstains on the rest. V of the guesses are correct.

**Exact tail.** Let the output be (ε, δ)-DP for the presence of one canary, q = e^ε/(1 + e^ε),
W ~ Binomial(r, q), β = P[W ≥ v], b = P[W = v]. Then for 1 ≤ v ≤ r ≤ m

    P[V ≥ v] ≤ β + δ · m β (1 − β) / (v b)                                               (1)

and some (ε, δ)-DP output attains it if the right side is at most 1. Proof: fix a canary j, the
other coins and a set T of numbers. Flipping coin j turns "right on j and V ∈ T" into "wrong on j
and V + 1 ∈ T". Averaging the definition of DP over j and the coins gives, for p_i = P[V = i],

    Σ_{i∈T} (i p_i − e^ε (r − i + 1) p_{i−1}) ≤ δ m        for every T,

so the positive parts of the terms sum to at most δ m. Write p_i = C(r, i) w_i and
w_i = Σ_{j≤i} x_j e^{ε(i−j)}; maximising P[V ≥ v] over p is a linear program in x with the two
constraints Σ p_i = 1 and Σ_j j C(r, j) (x_j)_+ ≤ δ m. Its optimum mixes W with W given W ≥ v: by
log-concavity of the binomial, (P[W < j])/(j P[W = j]) grows in j, so no j < v gives more. An output
that draws the number of right guesses from this mixture, and their places uniformly, attains (1).

**Published tail.** Steinke, Nasr & Jagielski 2023, Theorem 5.2, arXiv:2305.08846:

    P[V ≥ v] ≤ β + 2 m δ · max_{1≤i≤v} P[v − i ≤ W < v] / i                               (2)

At δ = 0 both are the binomial tail β. At δ > 0 and small β, (1) is smaller, often by far. For β
near 1, (2) falls below (1) and is not a valid bound. Example: ε = 0, m = r = 3, v = 1. An output
uniform on the seven answers with a right guess is (0, 1/7)-DP and always has V ≥ 1, but (2) is
55/56. So (1) alone is used.

**From tails to bounds.** For each v let B(v) be any number with p(B(v), v) ≤ α, where p(ε, v)
bounds P[V ≥ v] for every (ε, δ)-DP output. If the output is (ε*, δ)-DP, B(V) > ε* has probability
at most α: with v0 the smallest v with B(v) > ε*, the output is (B(v0), δ)-DP too, so
P[V ≥ v0] ≤ p(B(v0), v0) ≤ α. This needs neither monotonicity of p nor one p for all v.

**Pairs of a member and another with equal features** bound ε of one release for which nobody's coin
chose the members (`paired_epsilon`). Rows with equal features that are paired, a member with
another, are like a game of coins all the same: the coin of a pair says which of the two is the
member.

**Conditions.**

1. Pairs have no row in common. A member is paired with another at random among those with equal
   features, without regard to scores.
2. Given the records, the unordered pairs, the memberships of all rows outside pairs, and the coins
   of all other pairs, the odds of a coin lie between 1/Γ and Γ. Γ = 1 if memberships can be
   exchanged among rows with equal features: independent ones with a chance that features decide, or
   a sample of these rows of any size. Then given the pairs all coins are fair and independent, as a
   random pairing is as likely for one outcome of them as for another. Γ bounds what features leave
   out, a hidden confounder (Rosenbaum 2002, Observational Studies, ch. 3-4). Rows that are members
   only together, such as those of one user, break the condition: keep one of them.
3. The output is (ε, 0)-DP for adding or removing either row of a pair.

**Tail.** The other outcome of a coin removes one row and adds one: two changes, so the output is at
most e^{2ε} times likelier under it. Given the output O and the other coins, by Bayes' rule, the
odds of a coin are at most Γ e^{2ε}. Guesses are functions of O and of the unordered pairs, and so
is which pairs are guessed. So given O each of r guesses is right with a probability of at most

    q = Γ e^{2ε} / (1 + Γ e^{2ε}),

whichever guesses before it are right. Added up guess by guess, the number V of right ones is
stochastically at most Binomial(r, q) given O, however the scores of one model depend on each other:
a form for pairs of Steinke, Nasr & Jagielski 2023, arXiv:2305.08846, at coins of odds Γ. So with
the Clopper-Pearson lower limit p of q, at level α,

    ε ≥ (ln(p / (1 − p)) − ln Γ) / 2.

The guess is that the higher score is the member's; pairs with equal scores are not guessed. Pairs
whose scores differ most are the surest: the largest bound of all pairs, and of the half, the
quarter and the eighth with the largest differences counts, each at the level α/4. Of Laplace noise
with ε = 2 all pairs show 0.93 at best, and the surest ones 2. No form of the propensity is assumed,
unlike in the pointwise bound of Cebere, Even, Bleistein & Bellet 2026, Privacy Auditing with Zero
(0) Training Run, arXiv:2605.14591, for guesses about single rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds import outcomes
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import generator

_TOLERANCE = 1e-9


def check_guesses(m: int, guesses: int, correct: int) -> None:
    """Refuse numbers that violate 0 ≤ correct ≤ guesses ≤ m and m ≥ 1.

    Raises:
        InputError: a number is not whole, is above 10^9, or violates the inequalities.
    """
    for name, value in (("m", m), ("guesses", guesses), ("correct", correct)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise InputError(f"{name} = {value!r} is not a count: give a whole number")
        outcomes.check_size(name, value)
    if m < 1:
        raise InputError(f"m = {m} canaries: give at least one")
    if not 0 <= guesses <= m:
        raise InputError(f"guesses = {guesses} is not in 0 to m = {m}: guess each canary once")
    if not 0 <= correct <= guesses:
        raise InputError(
            f"correct = {correct} is not in 0 to guesses = {guesses}: count only correct guesses"
        )


def last_rejected(margin: Callable[[float], float]) -> float:
    """Search for the largest rejected parameter; return 0 if 0 is not rejected.

    Args:
        margin: function of the parameter that is at least 0 if it is rejected, else negative; it
            must be negative for all large parameters.
    """
    from scipy.optimize import brentq

    if margin(0.0) < 0:
        return 0.0
    low, high = 0.0, 1.0
    while margin(high) >= 0:
        low, high = high, 2 * high
    root = float(brentq(margin, low, high, xtol=_TOLERANCE))
    # The root may lie on either side; the returned number must itself be rejected.
    step = _TOLERANCE
    while root > low and margin(root) < 0:
        root, step = root - step, 2 * step
    return max(low, root)


def one_run_p_value(
    m: int, guesses: int, correct: int, *, epsilon: float, delta: float = 0.0
) -> float:
    """Return the bound on P[V ≥ correct] for an (ε, δ)-DP output, in [0, 1], by equation (1).

    Args:
        m: the number of canaries, each included independently with probability 1/2.
        guesses: the number r of guesses, fixed before the run.
        correct: the number v of correct guesses.
        epsilon: the ε of the claim, for the presence or absence of one canary.
        delta: the δ of the claim.

    Raises:
        InputError: the numbers fail `check_guesses`, or ε or δ is out of range.
    """
    check_guesses(m, guesses, correct)
    outcomes.check_epsilon(epsilon)
    outcomes.check_delta(delta)
    beta, slope = _tail(int(m), int(guesses), int(correct), epsilon, delta > 0)
    return min(1.0, beta + delta * slope)


def one_run_epsilon(
    m: int, guesses: int, correct: int, *, delta: float = 0.0, alpha: float = 0.05
) -> Estimate:
    """Return a lower bound on ε: the largest ε with `one_run_p_value` at most `alpha`.

    It holds for every auditor and every law of the output if the canaries' coins are fair and
    independent of each other and of all else, and `guesses` was fixed before the run. For a number
    chosen from the scores see `one_run_scores_epsilon`. The point estimate is the ε at which
    `correct` is the largest possible mean of V, r q + m δ (1 − q).

    Raises:
        InputError: as `one_run_p_value`, or `alpha` is out of range.
    """
    check_guesses(m, guesses, correct)
    outcomes.check_delta(delta)
    outcomes.check_alpha(alpha)
    m, r, v = int(m), int(guesses), int(correct)
    return outcomes.lower_bound(
        _epsilon(m, r, v, delta, alpha),
        value=_point(m, r, v, delta),
        alpha=alpha,
        n=m,
        method="one-run exact",
    )


def default_grid(m: int) -> list[tuple[int, int]]:
    """Return the numbers of guesses ("in", "out") that `one_run_scores_epsilon` tries.

    "in" is a half, a quarter, … of the `m` canaries, in at most 5 halvings with at least 8 guesses
    each. "out" is the same number or 0.
    """
    sizes = [m >> j for j in range(1, 6) if m >> j >= 8] or [max(1, m // 2)]
    return [(k, k) for k in sizes if 2 * k <= m] + [(k, 0) for k in sizes]


def balanced_grid(m: int) -> list[tuple[int, int]]:
    """Return the pairs (k, k) of `default_grid`, or (m // 2, m // 2) if there is none."""
    return [(high, low) for high, low in default_grid(m) if high == low] or [(m // 2, m // 2)]


def one_run_scores_epsilon(
    canary_scores: ArrayLike,
    included: ArrayLike,
    *,
    delta: float = 0.0,
    alpha: float = 0.05,
    confidence: float | None = None,
    grid: Sequence[tuple[int, int]] | None = None,
    seed: int | None = None,
) -> Estimate:
    """Return a lower bound on ε from the scores of one run, with a chosen number of guesses.

    For each pair (k₊, k₋) of a grid fixed beforehand the auditor guesses "in" for the k₊ highest
    scores and "out" for the k₋ lowest. `one_run_epsilon` holds for each pair, at any δ. Each bound
    has the level α/(number of pairs), so all hold together with probability 1 − α (Bonferroni), and
    the largest is returned. (The largest of bounds at level α is too large far more often than α.)
    The order of the guesses depends on the scores and `seed` only, never on `included`.

    **Unfair coins.** If k₊ = k₋ and δ = 0, the bound holds for independent coins with any common
    probability p. Let η = ln(p/(1 − p)). A guess "in" is right with probability at most
    expit(ε + η), a guess "out" with at most expit(ε − η), given all other coins. So V is
    stochastically at most a sum of independent coins with these probabilities. Their mean is at
    most q = expit(ε), since

        tanh(a + b) + tanh(a − b) = 2 sinh 2a / (cosh 2a + cosh 2b) ≤ 2 tanh a    for a ≥ 0.

    Of all such sums with one mean, the binomial has the heaviest tail from one above the mean on
    (Hoeffding 1956, Theorem 5). Use `balanced_grid(m)` for coins that are not known to be fair.

    Args:
        canary_scores: one finite score per canary, higher for likelier inclusion; shape (m,).
        included: the fair, independent coins, 0 or 1 (or booleans); shape (m,). The order of
            canaries with equal scores must not depend on them.
        delta: the δ of the claim.
        alpha: the level of the bound, for all pairs together.
        confidence: the confidence to state; default 1 − α.
        grid: the pairs (k₊, k₋), chosen before the run; `default_grid(m)` by default.
        seed: orders equal scores; None draws one from the operating system's entropy.

    Raises:
        InputError: a score is not finite, a coin is not 0 or 1, the coins contradict fair coins,
            shapes differ, the grid is empty or has a pair with more guesses than canaries, or a
            level is out of range.
    """
    values = outcomes.scores(canary_scores, "canary_scores")
    bits = _bits(included, len(values))
    outcomes.check_delta(delta)
    outcomes.check_alpha(alpha)
    m = len(values)
    outcomes.check_coins(m - int(bits.sum()), int(bits.sum()), "include each canary by a fair coin")
    pairs = default_grid(m) if grid is None else _checked_grid(list(grid), m)
    # Order equal scores at random: the order of the list could reveal the coins.
    order = np.lexsort((generator(outcomes.settled(seed)).permutation(m), values))
    right = np.concatenate(([0], np.cumsum(bits[order])))
    bounds = []
    for high, low in pairs:
        v = int(right[m] - right[m - high] + low - right[low])
        lower = _epsilon(m, high + low, v, delta, alpha / len(pairs))
        bounds.append((lower, high + low, v))
    lower, r, v = max(bounds)
    return outcomes.lower_bound(
        lower,
        value=_point(m, r, v, delta),
        alpha=alpha,
        confidence=confidence,
        n=m,
        method=f"one-run exact, bonferroni over {len(pairs)} numbers of guesses",
    )


def _checked_grid(grid: list[tuple[int, int]], m: int) -> list[tuple[int, int]]:
    if not grid:
        raise InputError("grid is empty: give at least one pair (guesses in, guesses out)")
    for high, low in grid:
        whole = all(isinstance(k, int | np.integer) and k >= 0 for k in (high, low))
        if not whole or high + low > m:
            raise InputError(f"grid has ({high}, {low}): give two counts, together at most m = {m}")
    return grid


def _epsilon(m: int, r: int, v: int, delta: float, alpha: float) -> float:
    if v == 0:
        return 0.0

    def margin(epsilon: float) -> float:
        beta, slope = _tail(m, r, v, epsilon, delta > 0)
        return alpha - beta - delta * slope

    return last_rejected(margin)


def _point(m: int, r: int, v: int, delta: float) -> float:
    """Return the ε at which E V may reach v: E V ≤ r q + m δ (1 − q), from T = {1, …, r}."""
    right, wrong = v - m * delta, r - v
    if right <= wrong:
        return 0.0
    return math.log(right / wrong) if wrong else math.inf


def _tail(m: int, r: int, v: int, epsilon: float, sloped: bool) -> tuple[float, float]:
    """Return β and the factor of δ in the bound on P[V ≥ v]; the factor is 0 unless `sloped`."""
    from scipy.special import betaincc, gammaln, log_expit

    if v == 0:
        return 1.0, 0.0
    wrong = math.exp(float(log_expit(-epsilon)))
    beta = float(betaincc(r - v + 1, v, wrong))  # P[Binomial(r, 1 − q) ≤ r − v]
    if not sloped:
        return beta, 0.0

    choose = gammaln(r + 1) - gammaln(v + 1) - gammaln(r - v + 1)
    at = float(np.exp(choose + v * log_expit(epsilon) + (r - v) * log_expit(-epsilon)))
    if at > 1e-280:
        ratio = beta / at
    else:
        # b underflows. If v is far below the mean, β = 1. If it is far above,
        # b(k + 1) ≤ odds · b(k), so a geometric sum bounds β/b.
        odds = (r - v) / (v + 1) * math.exp(min(epsilon, 700.0))
        if odds >= 1:
            return 1.0, 0.0
        ratio = 1 / (1 - odds)
    return beta, m * ratio * (1 - beta) / v


def _bits(included: ArrayLike, m: int) -> NDArray[np.int64]:
    coins = np.asarray(included)
    if coins.shape != (m,):
        raise InputError(f"included has shape {coins.shape}: give one coin for each of {m} scores")
    if coins.dtype.kind not in "biuf" or not np.isin(coins, (0, 1)).all():
        raise InputError("included holds something other than 0 and 1: give one coin per score")
    return coins.astype(np.int64)


Numbers = NDArray[np.float64]
# How many numbers of guesses are tried: all pairs, half of them, and so on.
_NUMBERS = 4


def check_gamma(gamma: float) -> None:
    """Refuse a factor Γ that is below 1 or not finite."""
    outcomes.check_number("gamma", gamma)
    if not 1 <= gamma < math.inf:
        raise InputError(f"gamma = {gamma} is not a finite factor of at least 1: give e.g. 1.5")


def paired_epsilon(
    members: Numbers, others: Numbers, *, gamma: float = 1.0, alpha: float = 0.05
) -> Estimate:
    """Return a lower bound on ε, for adding or removing one row, from scores in pairs.

    Args:
        members: the score of the member of each pair `(n,)`.
        others: the score of the other of each pair `(n,)`.
        gamma: the largest odds Γ of the coin of a pair.
        alpha: the level.

    Raises:
        InputError: there is no pair, the shapes differ, Γ is below 1 or not finite, or alpha is not
            in (0, 1).
    """
    if not len(members) or members.shape != others.shape:
        raise InputError(
            f"{members.shape} scores of members and {others.shape} of others are no pairs: give "
            "one of each a pair"
        )
    check_gamma(gamma)
    gaps = members - others
    sizes = np.sort(np.abs(gaps[gaps != 0]))
    # Pairs with equal differences are guessed together, as their order may tell who is right.
    least = [sizes[-max(1, len(sizes) >> times)] if len(sizes) else 1 for times in range(_NUMBERS)]
    bounds = [
        one_run_epsilon(
            len(gaps),
            int((np.abs(gaps) >= size).sum()),
            int((gaps >= size).sum()),
            alpha=alpha / _NUMBERS,
        )
        for size in least
    ]
    coins = max(bounds, key=lambda bound: bound.lower)
    # ε ≥ (ln(p / (1 − p)) − ln Γ) / 2
    halved = coins.mapped(lambda odds: max(0.0, (odds - math.log(gamma)) / 2))
    method = f"higher scores of pairs, one-run exact, odds {gamma:g}"
    return halved.changed(method=method, alpha=alpha, confidence=1 - alpha)
