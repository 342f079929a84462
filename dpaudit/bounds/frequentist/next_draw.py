"""What the draws so far say about the next one, whatever their law.

Draws L_1 … L_J and the next one L_{J+1} are exchangeable, as the trainings of one procedure on the
same data with fresh coins are. A draw *exceeds* if it is above a limit that was fixed beforehand.
Several numbers of one draw with a limit each count as one: the draw exceeds if any of them does.

**The next draw stays within the limit.** If L_{J+1} exceeds and at most k of the others do, it is
one of at most k + 1 of all J + 1 draws that exceed. Every choice of J + 1 − (k + 1) places is
equally likely, so

    P(at most k of J exceed, and the next one does) ≤ (k + 1)/(J + 1).

No mean, no bound on the numbers and no normal law is used, and what a draw samples by itself, such
as its targets, is part of it. This is a permutation p-value (Vovk, Gammerman, Shafer 2005,
Algorithmic Learning in a Random World, section 2.2). It needs a J that is fixed beforehand.

**The share of draws that exceed is above a level α.** Given independent draws of which a share p
exceeds, (p/α)^x ((1 − p)/(1 − α))^(n − x) is, for x of the first n draws, a martingale if the share
is α and a supermartingale if it is less, for every p > α; so is its mean over p uniform on (α, 1).
It ever reaches 1/a with probability at most a (Ville 1939), so it may be looked at after each draw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpaudit.bounds.outcomes import check_alpha
from dpaudit.core.errors import InputError


def next_exceeds(draws: int, exceeding: int) -> float:
    """Return the largest probability that so few draws exceed and that the next one does.

    (k + 1)/(J + 1) for k of J draws.

    Args:
        draws: the number J of draws, fixed beforehand.
        exceeding: the number k of draws that exceed.

    Raises:
        InputError: there is no draw, or more of them exceed than there are.
    """
    _check(draws, exceeding)
    return (exceeding + 1) / (draws + 1)


def draws_needed(exceeding: int, alpha: float) -> int:
    """Return the least number of draws of which so many may exceed at the level alpha.

    ⌈(k + 1)/α⌉ − 1.

    Raises:
        InputError: alpha is not in (0, 1), or the number is negative.
    """
    check_alpha(alpha)
    if exceeding < 0:
        raise InputError(f"exceeding = {exceeding} is negative: give a count")
    return math.ceil((exceeding + 1) / alpha * (1 - 1e-12)) - 1


def share_wealth(exceeds: Sequence[bool], share: float) -> float:
    """Return the largest wealth, after any draw, of a bettor on "more than this share exceed".

    After x of n draws it is ∫ (p/α)^x ((1 − p)/(1 − α))^(n − x) dp/(1 − α) over p from α to 1, with
    the incomplete beta function. The share is at most α with a p-value of 1 over this wealth.

    Args:
        exceeds: whether each draw exceeds, in their order.
        share: the share α, within (0, 1).

    Raises:
        InputError: the share is not in (0, 1).
    """
    from scipy.special import betaln
    from scipy.stats import beta

    check_alpha(share)
    # The wealth falls with every draw that does not exceed, so it is largest after one that does.
    n = np.flatnonzero(exceeds) + 1
    if not len(n):
        return 1.0
    x = np.arange(1, len(n) + 1)
    within = betaln(x + 1, n - x + 1) + beta.logsf(share, x + 1, n - x + 1)
    logs = within - math.log1p(-share) - x * math.log(share) - (n - x) * math.log1p(-share)
    return math.exp(min(max(float(logs.max()), 0.0), 700.0))


def _check(draws: int, exceeding: int) -> None:
    if draws < 1 or not 0 <= exceeding <= draws:
        raise InputError(
            f"{exceeding} of {draws} draws exceed: give at least one draw, of which 0 to all exceed"
        )
