"""Park & Acharya 2011: statements that are derived and not played."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dpaudit.claims.entry import Check, PublishedClaim
from dpaudit.claims.park_acharya_2011 import algebra

_PAPER = "Park & Acharya 2011"


def _check(label: str, counterexample: Callable[[int], str | None]) -> tuple[Check, ...]:
    return (Check(label, counterexample),)


CHECKS = (
    PublishedClaim(
        id="pa11-thm2.2",
        sentence="The exponential mechanism with weights φ^ε, ln φ moving by at most 1, is "
        "2ε-differentially private.",
        source=f"{_PAPER}, Theorem 2.2; McSherry & Talwar 2007, doi:10.1109/FOCS.2007.66",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="The weight moves by a factor in [e^−ε, e^ε], the sum of the weights likewise.",
        published=_check("300 random laws", algebra.exponential_mechanism),
    ),
    PublishedClaim(
        id="pa11-thm3.3",
        sentence="Without noise, one Slope One prediction reveals any rating of the target to who "
        "knows the rest.",
        source=f"{_PAPER}, Theorem 3.3, eqs (20) and (23)",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="n·A_j − Σ_k s_jk − Σ_{k≠l} r_ik = r_il + n·noise, an identity. With noise, the "
        "limit (20) needs rounding: a continuous noise is never 0.",
        published=_check("300 hidden ratings", algebra.slope_one_inversion),
    ),
    PublishedClaim(
        id="pa11-thm3.4",
        sentence="Without noise, one cosine prediction reveals whether the target bought an item, "
        "to who knows the rest.",
        source=f"{_PAPER}, Theorem 3.4, eq. (26)",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="n·A_j − Σ_{k≠l} s_kj is s_lj if she bought l and 0 if not, an identity.",
        published=_check(
            "one purchase of each of 300 users",
            partial(algebra.cosine_inversion, alike=True),
        ),
        reading="the shown item has a similarity above 0 to the hidden one",
    ),
    PublishedClaim(
        id="pa11-thm3.4-any-item",
        sentence="Without noise, any cosine prediction reveals whether the target bought an item, "
        "to who knows the rest.",
        source=f"{_PAPER}, Theorem 3.4, eq. (26)",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="on a reading",
        because="Where s_lj = 0 a purchase of l and none give the same prediction.",
        published=_check(
            "one purchase of each of 300 users",
            partial(algebra.cosine_inversion, alike=False),
        ),
        reading="the shown item is any that she has not bought",
    ),
    PublishedClaim(
        id="pa11-def3-limit",
        sentence="As ε → 0 the linear adversary of Slope One is as good as random guessing.",
        source=f"{_PAPER}, Definition 3, eq. (21), with the proof of Theorem 3.3",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="on a reading",
        because="Its reading spreads over the whole line and leaves the rating scale: its accuracy "
        "1 − exp(−1/(2b)), b = nΔf/ε, tends to 0, where a guess has 1/5. (Clipped to the scale it "
        "tends to ½ for the end values and 0 for the others; the Bayes reader to the best guess.)",
        published=_check("20 000 hidden ratings at ε = 0.0001", algebra.random_guessing),
        reading="a random guess is one of the scale's five values, and the reading is rounded, as "
        "Figure 1(b) has it; the proof takes a spread over the whole line for a random guess",
    ),
    PublishedClaim(
        id="pa11-s3.4-convex",
        sentence="The curve of risk against utility is convex, so that weights of the two single "
        "out one ε.",
        source=f"{_PAPER}, section 3.4, with Figure 2 and Definitions 5 and 6",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="on a reading",
        because="With x = 1/ε the reading of a rating fails with probability e^{−c/x}, which is "
        "flat at 0, while a list errs as long as two predictions are closer than the noise: about "
        "∝ x where many are close. So near (1, 1) the risk is nearly 1 before the utility is, the "
        "curve bends the other way, and weights may have two best ε, or none between 0 and ∞. Away "
        "from that end it can be convex, as in the figure.",
        published=_check("two items 0.01 stars apart, exact laws", algebra.convex_curve),
        reading="of the whole curve, for any data, the figure showing one curve; a reading of a "
        "rating is rounded, as in Figure 1(b)",
    ),
    PublishedClaim(
        id="pa11-thm4.1",
        sentence="The chain of eq. (31) has the stationary law ∝ φ^ε.",
        source=f"{_PAPER}, Theorem 4.1, eq. (32)",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="λ_j/μ_{j+1} = (φ_{j+1}/φ_j)^ε, and the law is a product of these.",
        published=_check("300 random rows", partial(algebra.stationary_law, power=1.0)),
    ),
    PublishedClaim(
        id="pa11-s4.2-eq28",
        sentence="The chain in discrete time has the law of eq. (28), ∝ φ^{ε/2}, as its limit.",
        source=f"{_PAPER}, section 4.2, below eq. (36)",
        adjacency=None,
        observer=None,
        recorded="falsified",
        because="Its limit is φ^ε, by Theorem 4.1: the square of what is claimed, for which "
        "Theorem 2.2 promises 2ε. (One entry moves all sums the same way, so that over fixed sets "
        "it costs ε Δr/U_r at most.) Rates with ε/4 in place of ε/2 give (28).",
        published=_check("300 random rows", partial(algebra.stationary_law, power=0.5)),
    ),
    PublishedClaim(
        id="pa11-prop4.1",
        sentence="If the sets' φ falls and φ_j/φ_{j+1} ≤ U_s/2, then Δt ≤ 1/U_s keeps all "
        "probabilities of the chain at 0 or above.",
        source=f"{_PAPER}, Proposition 4.1, with eq. (31)",
        adjacency=None,
        observer=None,
        recorded="falsified",
        because="λ_j + μ_j may be 1 + (U_s/2)^{ε/2}, which is at most U_s for every U_s ≥ 2 iff "
        "ε ≤ 2, and for U_s = 20 iff ε ≤ 2.56. The proof writes ε where eq. (31) has ε/2; so read "
        "it holds iff ε ≤ 1. With φ = exp(f/U_r) and ratings 1..5 steps are small, and it fails "
        "from ε = 3.10 on (proof: 1.55) for the least U_s, and from 7.36 on for U_s = 20.",
        published=_check("three ratings at ε = 4", algebra.time_step),
    ),
    PublishedClaim(
        id="pa11-prop4.2",
        sentence="ln φ moves by at most 1 when one entry of the completed matrix changes.",
        source=f"{_PAPER}, Proposition 4.2, eq. (37)",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="One entry moves the sum of a set by at most Δr, and Δr ≤ U_r where ratings are "
        "not negative.",
        published=_check("300 random rows", algebra.set_scores),
        reading="φ = exp(f/U_r), as the proof has it",
    ),
    PublishedClaim(
        id="pa11-prop4.2-printed",
        sentence="ln φ moves by at most 1 when one entry of the completed matrix changes.",
        source=f"{_PAPER}, Proposition 4.2, eq. (37)",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="by a misprint",
        because="ln φ = 1/U_r + ln f moves by ln(f'/f), up to ln(1 + Δr/(k r_min)): 1.61 for k = 1 "
        "and 1.10 for k = 2 on the scale 1..5; from k = 3 on it holds.",
        published=_check("k = 1", algebra.printed_set_scores),
        reading="φ = exp(1/U_r)·f, as printed",
    ),
    PublishedClaim(
        id="pa11-s4.4-distinct",
        sentence="The enumeration generates at least ⌊(M−k)/(N1 N2)⌋·N1·N2 sets.",
        source=f"{_PAPER}, section 4.4",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="by a misprint",
        because="S_2 is S_1, about every third set repeats the one before, and j1 and j2 grow out "
        "of their windows: after 61 sets a rank leaves the list.",
        published=_check("M = 1682, k = 10, N1 = 2, N2 = 3", algebra.distinct_sets),
        reading="the printed formula for j1 and j2",
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
        because="A divergence averages the log-ratio, ε bounds its largest value: a set that has "
        "hardly been reached yet in one world adds next to nothing to the first, and to the second "
        "as much as there is. (Before all sets can be reached the divergence is infinite, and ε "
        "too.) A divergence of at most κ for all data gives (ε, (1 + e^ε)√(κ/2)).",
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
        because="Every listed set swaps one item. It is this that no finite ε allows: were all "
        "sets possible that are possible for other data, some would share no item with the best.",
        published=_check("M = 1682, k = 10, all sets", algebra.ninety_percent),
    ),
)
