"""Lower bounds on ε from one release, by pairs of a member and another with equal features.

Nobody's coin chose the members. Rows with equal features that are paired, a member with another,
are like a game of coins all the same: the coin of a pair says which of the two is the member.

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

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.frequentist.one_run import one_run_epsilon
from dpaudit.bounds.outcomes import check_number
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

Numbers = NDArray[np.float64]
# How many numbers of guesses are tried: all pairs, half of them, and so on.
_NUMBERS = 4


def check_gamma(gamma: float) -> None:
    """Refuse a factor Γ that is below 1 or not finite."""
    check_number("gamma", gamma)
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
