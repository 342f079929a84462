"""What an (ε, δ) claim allows an attacker, in probabilities: derived from the claim, not measured.

With f(α) = max(0, 1 − δ − e^ε α, e^{−ε} (1 − δ − α)), an (ε, δ)-DP mechanism lets no test of two
neighbouring data sets have a false-negative rate below f at the false-positive rate α (Dong, Roth,
Su 2019, equation (5), arXiv:1905.02383). Kulynych et al. 2025 (arXiv:2507.06969) bound
re-identification, attribute inference and reconstruction by the same function.

These are limits for every attack, so they need a guarantee. A certified lower bound on ε is none:
it says that some outputs are e^ε times likelier in one of two neighbouring data sets, not how often
they occur. It therefore bounds the belief after such an output from below (`belief`), and neither a
success rate nor an advantage.
"""

from __future__ import annotations

import math

from dpaudit.bounds.outcomes import check_epsilon
from dpaudit.core.errors import InputError


def success_limit(base_rate: float, epsilon: float, delta: float = 0.0) -> float:
    """Return 1 − f(p): the largest success rate of an attack whose base rate is p.

    The attack finds out a secret z about one unit, such as an item that a user rated: it succeeds
    on a release if that lies in a set S_z. The attacker knows all other data, and without a release
    no guess of z is right with a probability above p, the base rate. Proof. Let M be the mechanism,
    D_z the data with z, and D* some data that do not depend on z and of which each D_z is a
    neighbour. Then

        P(success) = E_z P(M(D_z) ∈ S_z) ≤ E_z [1 − f(P(M(D*) ∈ S_z))] ≤ 1 − f(E_z P(M(D*) ∈ S_z)),

    as 1 − f is concave. M(D*) does not depend on z, so the last expectation is at most p, and 1 − f
    does not fall. Kulynych et al. 2025, arXiv:2507.06969.

    With two data sets in place of the secrets, it is the largest true-positive rate of a test at
    the false-positive rate p.

    Args:
        base_rate: p, in [0, 1].
        epsilon: the guaranteed ε.
        delta: the guaranteed δ; 1 guarantees nothing.

    Raises:
        InputError: p or δ is not a probability, or ε is negative or not finite.
    """
    _check(base_rate, epsilon, delta)
    few = math.exp(min(0.0, math.log(base_rate) + epsilon)) if base_rate else 0.0
    return min(1.0, delta + few, 1 - math.exp(-epsilon) * (1 - base_rate - delta))


def advantage_limit(epsilon: float, delta: float = 0.0) -> float:
    """Return the largest true- minus false-positive rate of a test of two neighbouring data sets.

    It is (e^ε − 1 + 2δ)/(e^ε + 1), the largest distance of 1 − f from the diagonal. It also limits
    by how much a release raises the success of any attack that `success_limit` bounds.
    Kulynych, Gomez et al. 2024, arXiv:2407.02191.

    Raises:
        InputError: ε is negative or not finite, or δ is no probability.
    """
    _check(0.0, epsilon, delta)
    other = math.exp(-epsilon)
    return (1 - other + 2 * delta * other) / (1 + other)


def belief(prior: float, epsilon: float) -> float:
    """Return the probability of a data set after outputs that are e^ε times likelier in it.

    By Bayes' rule it is p/(p + (1 − p) e^{−ε}). If the mechanism is ε-DP, no output raises the
    belief in one of two neighbouring data sets above this. Conversely, if ε is a lower bound,
    whatever its δ, there are neighbouring data sets and outputs S for which
    P(S | D') ≥ e^ε P(S | D) + δ, up to any slack, so an attacker who sees S believes in D' with at
    least this probability. No ε says how often S occurs.

    Args:
        prior: p, the probability of the data set before the release.
        epsilon: ε.

    Raises:
        InputError: p is not a probability, or ε is negative or not finite.
    """
    _check(prior, epsilon, 0.0)
    return prior / (prior + (1 - prior) * math.exp(-epsilon)) if prior else 0.0


def group_claim(epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """Return the ε and δ that a claim about one unit implies for k units together.

    k ε and δ (1 + e^ε + … + e^{(k − 1) ε}), by induction over k: changing one unit more turns
    P(S | D) into at most e^ε P(S | D) + δ. Dwork & Roth 2014, Theorem 2.2, for δ = 0. The δ is cut
    at 1, where nothing is guaranteed.

    Args:
        epsilon: ε of one unit.
        delta: δ of one unit.
        size: k, at least 1.

    Raises:
        InputError: ε is negative or not finite, δ is no probability, or k is below 1.
    """
    _check(0.0, epsilon, delta)
    if size < 1:
        raise InputError(
            f"size = {size} is not a number of units: give a whole number of at least 1"
        )
    if delta == 0:
        return size * epsilon, 0.0
    # The sum divided by its last term, which may overflow.
    terms = math.expm1(-size * epsilon) / math.expm1(-epsilon) if epsilon else float(size)
    log = math.log(delta) + math.log(terms) + (size - 1) * epsilon
    return size * epsilon, math.exp(min(0.0, log))


def _check(probability: float, epsilon: float, delta: float) -> None:
    check_epsilon(epsilon)
    for value in (probability, delta):
        if not 0 <= value <= 1:
            raise InputError(f"{value} is not a probability: give a number in [0, 1]")
