"""PrivSR (Meng et al. 2018): statements of algebra, which no game tests."""

from __future__ import annotations

from dpaudit.claims.entry import Check, PublishedClaim
from dpaudit.claims.meng_2018 import algebra

_PAPER = "Meng et al. 2018"
_TESTS = "tests/papers/test_meng_2018.py"

CHECKS = (
    PublishedClaim(
        id="privsr-s3.2-lemma1",
        sentence="If h is Exp(1) and c is N(0, 1), then b √(2h) c is Lap(b).",
        source=f"{_PAPER}, Lemma 1, section 3.2; Kotz, Kozubowski, Podgórski 2001",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="E e^{itb√(2h)c} = E e^{−t²b²h} = 1/(1 + b²t²), the characteristic function of "
        "Lap(b).",
        held_by=_TESTS,
    ),
    PublishedClaim(
        id="privsr-s5.1-shares",
        sentence="The noise shares of an item's raters of one kind add up to Lap(2Δ√K/ε_s) or "
        "Lap(2Δ√K/ε_n).",
        source=f"{_PAPER}, section 5.1",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="Given h, the sum Σ c_i of n shares N(0, 1/n) is N(0, 1); then apply Lemma 1. This "
        "is the sum of one kind; the sum of both kinds has another law.",
        held_by=_TESTS,
    ),
    PublishedClaim(
        id="privsr-s5.3-differences",
        sentence="If the noise is not drawn anew in each round, the difference of two submissions "
        "equals the difference of the gradients.",
        source=f"{_PAPER}, section 5.3",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="(σ(t) + x) − (σ(t − 1) + x) = σ(t) − σ(t − 1). Fresh noise, the remedy, costs ε "
        "in each round: see privsr-thm3-rounds.",
        held_by=_TESTS,
    ),
    PublishedClaim(
        id="privsr-s5.3-new-ratings",
        sentence="If each time slot updates the latent vectors on its new ratings alone, with ε_t, "
        "all slots together are (max ε_t)-differentially private.",
        source=f"{_PAPER}, section 5.3, discussion",
        adjacency="rating-replace",
        observer="iterates",
        recorded="falsified",
        basis="on a reading",
        because="Parallel composition requires results that depend on disjoint ratings and nothing "
        "else. u_a is carried over on the user's device, so a rating of the first slot affects all "
        "submissions of the next. Σ ε_t is no bound either.",
        published=(Check("two slots, ε_t = 1, |u| ≤ 1", algebra.new_ratings),),
        reading="users' vectors are updated, as the text says, and not initialised again",
    ),
    PublishedClaim(
        id="privsr-s5.3-new-ratings-anew",
        sentence="If each time slot initialises users' vectors again and uses its new ratings "
        "alone, with ε_t, all slots together are (max ε_t)-differentially private.",
        source=f"{_PAPER}, section 5.3, discussion; McSherry 2010",
        adjacency="rating-replace",
        observer="iterates",
        recorded="holds",
        because="A rating enters its own slot; later slots depend on it only through V, which was "
        "released. So the other factors of the likelihood ratio are 1. Who rates when is public.",
        held_by=_TESTS,
        reading="each slot keeps its ε_t, given all earlier outputs",
    ),
    PublishedClaim(
        id="privsr-s5.3-all-ratings",
        sentence="If each time slot uses all ratings so far, with ε_t, all slots together are "
        "(Σ ε_t)-differentially private.",
        source=f"{_PAPER}, section 5.3, discussion; McSherry 2010",
        adjacency="rating-replace",
        observer="iterates",
        recorded="holds",
        because="Sequential composition: the slots' likelihood ratios multiply, and all of them "
        "can be attained at once.",
        held_by=_TESTS,
        reading="each slot keeps its ε_t, given all earlier outputs, which Theorems 1 to 3 do not "
        "provide",
    ),
    PublishedClaim(
        id="privsr-s5.3-cost",
        sentence="An iteration of Algorithm 1 costs O(K|R|) at the recommender, and "
        "O(K(|R_i| + |F_i|)) at a user with |R_i| ratings and |F_i| friends.",
        source=f"{_PAPER}, section 5.3, below Algorithm 1",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="One vector of K numbers is submitted for each rating and sent for each "
        "friendship; each is computed, received and added once. The vector of an item without "
        "ratings only decays.",
        held_by=_TESTS,
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
        because="Lines 5 to 13 and the last sum of eq. (14) make every user submit a noised vector "
        "for every item: K m numbers at a user and K n m at the recommender, for n users and m "
        "items. On FilmTrust that is 2071 vectors per user, where half of the users have 16 "
        "ratings or fewer. Submitting only for the drawn items reveals which items were drawn, and "
        "the noise no longer adds up to the Laplace law of Theorem 4.",
        published=(Check("ten users without friends", algebra.pairs_of_an_iteration),),
        reading="lines 5 to 13 and the last sum of eq. (14) are unchanged when triples are sampled",
    ),
)
