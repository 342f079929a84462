"""Wang & Tang 2017, section 4: statements about the Markov chain that samples the posterior."""

from __future__ import annotations

from dpaudit.claims.entry import Check, PublishedClaim
from dpaudit.claims.wang_tang_2017 import algebra

_PAPER = "Wang & Tang 2017"

CHAIN = (
    PublishedClaim(
        id="wt17-s4.1-squares",
        sentence="The step sizes η_1 t^−ξ with ξ in [0.3, 1] have Σ η_t² < ∞, as convergence "
        "requires.",
        source=f"{_PAPER}, section 4.1",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="on a reading",
        because="Σ t^−2ξ is finite only for ξ > ½, and the paper's run has ξ = 0.3.",
        published=(Check("ξ = 0.3", algebra.squared_steps),),
        reading="the section's step sizes meet the two conditions that it states before",
    ),
    PublishedClaim(
        id="wt17-s4.2-h",
        sentence="H_ij = 1 − (|I_i||I_j|/𝓛²)(1 − |I_j|/𝓛)^{L−1}(1 − |I_i|/𝓛)^{L−1} is the "
        "probability that a mini-batch drawn with replacement has the pair (i, j).",
        source=f"{_PAPER}, section 4.2",
        adjacency=None,
        observer=None,
        recorded="falsified",
        because="It tends to 1 as the items get rarer, although the pair is then hardly ever "
        "drawn: .9999992 for shares of .001 and L = 100, where a share .00898 of mini-batches has "
        "both items. It matches none of five meanings of “has the pair”.",
        published=(Check("all mini-batches of a small instance", algebra.printed_inclusion),),
    ),
    PublishedClaim(
        id="wt17-eq9",
        sentence="The prior's term λS∘𝕀∘H^{−1}, with the indicator of the drawn pairs, has mean λS "
        "if H is the true probability of a pair and not 0.",
        source=f"{_PAPER}, section 4.2, eqs (9) and (10)",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="E[𝕀]/H = 1. The prior never acts on a pair that nobody has co-rated, since H = 0; "
        "dpaudit applies the whole prior in every step, which needs no H.",
        held_by="tests/papers/test_wang_tang_2017.py",
    ),
)
