"""Wald's sequential test of how often an audit claims too much.

At most 5 % of the audits against 9 % or more of them (Wald 1945, doi:10.1214/aoms/1177731118): a
one-sided binomial test that goes on until it knows. A false claim multiplies the evidence by 9/5,
any other audit by 0.91/0.95. A bound is found false once the evidence reaches 1/`failure`, and
sound once it has fallen to 1/50. At a rate of at most 5 % the evidence is a supermartingale from
1, at one of at least 9 % its inverse is, so by Ville's inequality a sound bound fails with
probability at most `failure`, and one with 9 % false claims passes with probability at most 2 %.
It takes 91 audits without a false claim to pass, about 340 at exactly 5 %, and at least 24 false
claims to fail at 1e-6. Other levels, and other rates to notice, are tested alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

ALPHA, NOTICED = 0.05, 0.09
MISS = 0.02
FALSE, OTHER = math.log(NOTICED / ALPHA), math.log((1 - NOTICED) / (1 - ALPHA))


def claims_too_much(
    audits: Iterable[bool], failure: float, level: float = ALPHA, noticed: float = NOTICED
) -> bool:
    """The test of an endless stream of audits, true for a false claim."""
    false, other = math.log(noticed / level), math.log((1 - noticed) / (1 - level))
    evidence = 0.0
    for claim in audits:
        evidence += false if claim else other
        if not math.log(MISS) < evidence < -math.log(failure):
            return evidence > 0
    raise AssertionError("the stream of audits ends before the test knows")
