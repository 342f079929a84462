"""Park & Acharya 2011: statements of algebra, which no game tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dpaudit.claims.entry import Check, PublishedClaim
from dpaudit.claims.park_acharya_2011 import algebra

_PAPER = "Park & Acharya 2011"
_TESTS = "tests/papers/test_park_acharya_2011.py"


def _check(label: str, counterexample: Callable[[int], str | None]) -> tuple[Check, ...]:
    return (Check(label, counterexample),)


CHECKS = (
    PublishedClaim(
        id="pa11-thm2.2",
        sentence="The exponential mechanism with weights φ^ε, where ln φ changes by at most 1, is "
        "2ε-differentially private.",
        source=f"{_PAPER}, Theorem 2.2; McSherry & Talwar 2007, doi:10.1109/FOCS.2007.66",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="The weight changes by a factor in [e^−ε, e^ε], and so does the sum of weights.",
        held_by=_TESTS,
    ),
    PublishedClaim(
        id="pa11-thm3.3",
        sentence="Without noise, one Slope One prediction reveals any rating of the target to an "
        "adversary who knows the rest.",
        source=f"{_PAPER}, Theorem 3.3, eqs (20) and (23)",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="n·A_j − Σ_k s_jk − Σ_{k≠l} r_ik = r_il + n·noise is an identity. With noise, the "
        "limit (20) needs rounding, since continuous noise is never 0.",
        held_by=_TESTS,
    ),
    PublishedClaim(
        id="pa11-thm3.4",
        sentence="Without noise, one cosine prediction reveals whether the target bought an item, "
        "to an adversary who knows the rest.",
        source=f"{_PAPER}, Theorem 3.4, eq. (26)",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="n·A_j − Σ_{k≠l} s_kj is s_lj if the target bought l and 0 if not, an identity.",
        held_by=_TESTS,
        reading="the shown item has a similarity above 0 to the hidden one",
    ),
    PublishedClaim(
        id="pa11-thm3.4-any-item",
        sentence="Without noise, any cosine prediction reveals whether the target bought an item, "
        "to an adversary who knows the rest.",
        source=f"{_PAPER}, Theorem 3.4, eq. (26)",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="on a reading",
        because="If s_lj = 0, the prediction does not depend on whether the target bought l.",
        published=_check(
            "one purchase of each of 300 users",
            partial(algebra.cosine_inversion, alike=False),
        ),
        reading="the shown item is any that the target has not bought",
    ),
    PublishedClaim(
        id="pa11-def3-limit",
        sentence="As ε → 0 the linear adversary of Slope One is as good as random guessing.",
        source=f"{_PAPER}, Definition 3, eq. (21), with the proof of Theorem 3.3",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="on a reading",
        because="The adversary's reading spreads over the whole line and leaves the rating scale: "
        "its accuracy 1 − exp(−1/(2b)), b = nΔf/ε, tends to 0, but a random guess has 1/5. (If the "
        "reading is clipped to the scale, its accuracy tends to ½ for the end values and 0 for the "
        "others; that of the Bayes adversary tends to the best guess's.)",
        published=_check("20 000 hidden ratings at ε = 0.0001", algebra.random_guessing),
        reading="a random guess is one of the scale's five values, and the reading is rounded, as "
        "in Figure 1(b); the proof counts a spread over the whole line as a random guess",
    ),
    PublishedClaim(
        id="pa11-s3.4-convex",
        sentence="The curve of risk against utility is convex, so weights for the two determine a "
        "unique ε.",
        source=f"{_PAPER}, section 3.4, with Figure 2 and Definitions 5 and 6",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="on a reading",
        because="With x = 1/ε the reading of a rating fails with probability e^{−c/x}, which is "
        "flat at 0, but a list errs as long as two predictions are closer than the noise: about "
        "∝ x if many are close. So near (1, 1) the risk is nearly 1 before the utility is, and the "
        "curve is concave. Weights may then have two best ε, or none between 0 and ∞. Away from "
        "that end the curve can be convex, as in the figure.",
        published=_check("two items 0.01 stars apart, exact laws", algebra.convex_curve),
        reading="the statement is about the whole curve, for any data, while the figure shows one "
        "curve; the reading of a rating is rounded, as in Figure 1(b)",
    ),
    PublishedClaim(
        id="pa11-thm4.1",
        sentence="The chain of eq. (31) has the stationary law ∝ φ^ε.",
        source=f"{_PAPER}, Theorem 4.1, eq. (32)",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="λ_j/μ_{j+1} = (φ_{j+1}/φ_j)^ε, and the law is a product of these ratios.",
        held_by=_TESTS,
    ),
    PublishedClaim(
        id="pa11-s4.2-eq28",
        sentence="The discrete-time chain converges to the law of eq. (28), ∝ φ^{ε/2}.",
        source=f"{_PAPER}, section 4.2, below eq. (36)",
        adjacency=None,
        observer=None,
        recorded="falsified",
        because="By Theorem 4.1 its limit is φ^ε, the square of the claimed weights, for which "
        "Theorem 2.2 gives 2ε. (One entry changes all sums in the same direction, so over fixed "
        "sets it costs at most ε Δr/U_r.) Rates with ε/4 in place of ε/2 give (28).",
        published=_check("300 random rows", partial(algebra.stationary_law, power=0.5)),
    ),
    PublishedClaim(
        id="pa11-prop4.1",
        sentence="If φ decreases over the sets and φ_j/φ_{j+1} ≤ U_s/2, then Δt ≤ 1/U_s keeps all "
        "probabilities of the chain non-negative.",
        source=f"{_PAPER}, Proposition 4.1, with eq. (31)",
        adjacency=None,
        observer=None,
        recorded="falsified",
        because="λ_j + μ_j can be 1 + (U_s/2)^{ε/2}, which is at most U_s for every U_s ≥ 2 iff "
        "ε ≤ 2, and for U_s = 20 iff ε ≤ 2.56. The proof writes ε where eq. (31) has ε/2; with "
        "these rates it holds iff ε ≤ 1. With φ = exp(f/U_r) and ratings 1..5 the ratios are "
        "smaller, and it fails from ε = 3.10 on (with the proof's rates: 1.55) for the least U_s, "
        "and from 7.36 on for U_s = 20.",
        published=_check("three ratings at ε = 4", algebra.time_step),
    ),
    PublishedClaim(
        id="pa11-prop4.2",
        sentence="ln φ changes by at most 1 when one entry of the completed matrix changes.",
        source=f"{_PAPER}, Proposition 4.2, eq. (37)",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="One entry changes the sum of a set by at most Δr, and Δr ≤ U_r if ratings are not "
        "negative.",
        held_by=_TESTS,
        reading="φ = exp(f/U_r), as in the proof",
    ),
    PublishedClaim(
        id="pa11-s4.4-decreasing",
        sentence="The sets are generated with decreasing scores, as Proposition 4.1 assumes.",
        source=f"{_PAPER}, section 4.4",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="on a reading",
        because="When the left window moves from rank k to k − 1, the right one starts again at "
        "k + 1, and the sum may rise. (The printed formula's sums never rise; its sets repeat.)",
        published=_check("40 random scores", algebra.decreasing_sets),
        reading="the two windows that the text describes",
    ),
    PublishedClaim(
        id="pa11-s4.4-divergence",
        sentence="A chain at a small Kullback-Leibler divergence from its limit is (ε + Δε)-"
        "differentially private with a small Δε.",
        source=f"{_PAPER}, section 4.4",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="on a reading",
        because="A divergence averages the log-ratio, but ε bounds its largest value. A set whose "
        "probability is still near 0 on one data set adds almost nothing to the average, but has a "
        "large log-ratio. (Before all sets can be reached the divergence is infinite, and so is "
        "ε.) A divergence of at most κ for all data gives (ε, (1 + e^ε)√(κ/2)).",
        published=_check("40 predictions, 20 000 steps, ε = 20", algebra.divergence_and_ratio),
        reading="Δε tends to 0 with the divergence",
    ),
    PublishedClaim(
        id="pa11-s4.5-ninety",
        sentence="A list of ten keeps at least 90 % of the best one, at any ε.",
        source=f"{_PAPER}, section 4.5",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="Every listed set swaps at most one item. No finite ε allows this: if every set "
        "that is possible for other data were possible, some would share no item with the best "
        "list.",
        held_by=_TESTS,
    ),
)
