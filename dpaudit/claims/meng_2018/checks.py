"""PrivSR, rating form (Meng et al. 2018): statements that are derived and not played."""

from __future__ import annotations

from dpaudit.claims.entry import Check, PublishedClaim
from dpaudit.claims.meng_2018 import algebra, costs

_PAPER = "Meng et al. 2018"

CHECKS = (
    PublishedClaim(
        id="privsr-s3.2-lemma1",
        sentence="If h is Exp(1) and c is N(0, 1), then b √(2h) c is Lap(b).",
        source=f"{_PAPER}, Lemma 1, section 3.2; Kotz, Kozubowski, Podgórski 2001",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="E e^{itb√(2h)c} = E e^{−t²b²h} = 1/(1 + b²t²), the Laplace law's.",
        published=(Check("densities by quadrature; draws, moments", algebra.lemma),),
    ),
    PublishedClaim(
        id="privsr-s5.1-shares",
        sentence="The noises of an item's raters of one kind add up to Lap(2Δ√K/ε_s) or "
        "Lap(2Δ√K/ε_n).",
        source=f"{_PAPER}, section 5.1",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="Given h, Σ c_i of n shares N(0, 1/n) is N(0, 1); then Lemma 1. That is each "
        "kind's sum; the sum of both is another matter.",
        published=(Check("up to 59 raters, 50 instances; draws of 5", algebra.shares),),
    ),
    PublishedClaim(
        id="privsr-s5.3-differences",
        sentence="Of noise that is not drawn anew in each round, the difference of two submissions "
        "is that of the gradients.",
        source=f"{_PAPER}, section 5.3",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="(σ(t) + x) − (σ(t − 1) + x) = σ(t) − σ(t − 1). Fresh noise, the remedy, costs ε "
        "in each round: see privsr-thm3-rounds.",
        published=(Check("200 instances", algebra.differences),),
    ),
    PublishedClaim(
        id="privsr-s5.3-new-ratings",
        sentence="If each time slot updates the latent vectors on its new ratings alone, with ε_t, "
        "all of them are (max ε_t)-differentially private.",
        source=f"{_PAPER}, section 5.3, discussion",
        adjacency="rating-replace",
        observer="iterates",
        recorded="falsified",
        basis="on a reading",
        because="Parallel composition is for results of disjoint ratings and nothing else. u_a is "
        "carried over on her device: a rating of the first slot is in all that she submits in the "
        "next. Σ ε_t is no bound either.",
        published=(Check("two slots, ε_t = 1, |u| ≤ 1", algebra.new_ratings),),
        reading="users' vectors are updated, as it says, and not begun anew",
    ),
    PublishedClaim(
        id="privsr-s5.3-new-ratings-anew",
        sentence="If each time slot begins users' vectors anew and uses its new ratings alone, "
        "with ε_t, all of them are (max ε_t)-differentially private.",
        source=f"{_PAPER}, section 5.3, discussion; McSherry 2010",
        adjacency="rating-replace",
        observer="iterates",
        recorded="holds",
        because="A rating enters its own slot; later ones see it through V, which was shown. So "
        "the other factors of the ratio are 1. Who rates when is public.",
        published=(Check("500 pairs of slots, all outputs", algebra.disjoint),),
        reading="each slot keeps its ε_t, given all that was shown before",
    ),
    PublishedClaim(
        id="privsr-s5.3-all-ratings",
        sentence="If each time slot uses all ratings so far, with ε_t, all of them are "
        "(Σ ε_t)-differentially private.",
        source=f"{_PAPER}, section 5.3, discussion; McSherry 2010",
        adjacency="rating-replace",
        observer="iterates",
        recorded="holds",
        because="Sequential composition: the ratios of the slots multiply, and all may be "
        "attained at once.",
        published=(Check("500 pairs of slots, all outputs", algebra.repeated),),
        reading="each slot keeps its ε_t, given all that was shown before: what Theorems 1 to 3 do "
        "not provide",
    ),
    PublishedClaim(
        id="privsr-s5.3-cost",
        sentence="An iteration of Algorithm 1 costs O(K|R|) at the recommender, and "
        "O(K(|R_i| + |F_i|)) at a user with |R_i| ratings and |F_i| friends.",
        source=f"{_PAPER}, section 5.3, below Algorithm 1",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="One vector of K numbers is submitted for each rating and told for each "
        "friendship; each is computed, received and added once. An item without ratings is only "
        "shrunk.",
        published=(
            Check("vectors counted line by line, 30 data sets", costs.ratings_of_an_iteration),
        ),
        reading="every item has a rating, N iterations of one batch each, up to constants",
    ),
    PublishedClaim(
        id="privsr-s5.4-cost",
        sentence="With sampled triples the ranking form costs about O(K a) an iteration at the "
        "recommender and O(K b) at a user, b about |R_i| and a far below |D_PF|.",
        source=f"{_PAPER}, section 5.4, above Algorithm 2",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="on a reading",
        because="Lines 5 to 13 and the last sum of eq. (14) have every user submit a noised vector "
        "for every item: K m numbers at a user and K n m at the recommender, n users, m items. On "
        "FilmTrust that is 2071 vectors a user, where half of the users have 16 ratings or fewer. "
        "Who submits for drawn items alone shows which ones were drawn, and the noise no longer "
        "adds up to the Laplace law of Theorem 4.",
        published=(Check("ten users without friends", costs.pairs_of_an_iteration),),
        reading="lines 5 to 13 and the last sum of eq. (14) stand as they are where triples are "
        "sampled",
    ),
)
