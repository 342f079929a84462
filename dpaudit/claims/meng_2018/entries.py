"""PrivSR, rating form (Meng et al. 2018): what is published of privacy, played and derived."""

from __future__ import annotations

import math
from typing import Any

from dpaudit.bounds.model_based.gdp import gaussian_epsilon
from dpaudit.claims.entry import Check, PublishedClaim
from dpaudit.claims.meng_2018 import algebra, data
from dpaudit.claims.meng_2018.checks import CHECKS
from dpaudit.claims.meng_2018.data import corrected, published
from dpaudit.claims.meng_2018.friends import FRIENDS
from dpaudit.claims.meng_2018.games import FinalGame, ItemsGame, SubmittedGame
from dpaudit.claims.trained_games import StepsGame
from dpaudit.core.estimate import Estimate
from dpaudit.defenses.social.privsr import PrivSR

_PAPER = "Meng et al. 2018"
_ITEMS = "V, derived with the noise of Theorem 1, is ε-differentially private"
_SERVER = "PrivSR is ε-differentially private against the recommender"
_SMALL = 1e-3
_KNOWN_FACTORS = "the factors that training starts from are known, and no longer than 1"


def _kinds(beta: float) -> Estimate:
    """Of one rating, 2Δ, where both kinds of noise, one h between them, add up.

    The scale is 2Δ √(1/ε_s² + 1/ε_n²) = 2Δ √(1 + β²)/((1 + β) ε).
    """
    return Estimate.exact((1 + beta) / math.hypot(1, beta), "Laplace noise, both kinds, one h")


def _scale(epsilon: float) -> Estimate:
    return Estimate.exact(epsilon, "Laplace noise of the sum")


# Given h, μ = ε_s √(n/2h) has no bound.
_NO_BOUND = Estimate.exact(math.inf, "normal noise, whose size is seen and may be near 0")


def _cut(defense: PrivSR) -> Estimate:
    """One round's opposite submissions, both cut to the norm that is kept."""
    variance = float(defense.noise(defense.prepare(data.turned(1).before)).submitted[1, 0])
    mu = 2 * defense.clip * (1 - 1e-5) / math.sqrt(variance)
    return Estimate.exact(gaussian_epsilon(mu, defense.delta), "normal noise, opposite submissions")


def _local() -> StepsGame:
    defense = corrected()
    return StepsGame(
        "whole users, each with noise of her own, their worst pair, one round",
        defense, data.turned(1), truth=_cut(defense), trials=2_000,
    )  # fmt: skip


def _secure(others: int = 3) -> StepsGame:
    defense = corrected(summation="secure", insiders=0)
    return StepsGame(
        "whole users, sums alone are seen, their worst pair, one round",
        defense, data.turned(1, others), truth=_cut(corrected()), trials=2_000,
    )  # fmt: skip


def _rounds(items: int, rounds: int, **params: Any) -> StepsGame:
    rated = "one item" if items == 1 else f"{items} items"
    return StepsGame(
        f"whole users, {rated}, {rounds} rounds",
        corrected(rounds=rounds, rate=0.01, **params), data.turned(items, 2), trials=1_000,
    )  # fmt: skip


SERVER = (
    PublishedClaim(
        id="privsr-thm1-mixed",
        sentence=f"{_ITEMS}; here of an item with sensitive and non-sensitive ratings.",
        source=f"{_PAPER}, Theorem 1, section 6.1",
        adjacency="rating-replace",
        observer="public",
        recorded="falsified",
        because="1/ε_s + 1/ε_n = 1/ε, but section 6.1 adds deviations where variances add. With "
        "one h the noises make Lap(2Δ√K √(1/ε_s² + 1/ε_n²)), so ε' = ε (1 + β)/√(1 + β²): √2 ε at "
        "β = 1, 1.09 ε at 0.1. If they are independent, as the theorem's words have it, the sum's "
        "tail is that of the larger: ε' = ε_s = (1 + β) ε, in the limit.",
        published=(
            ItemsGame(
                "β = 1, one rater of either kind, one h",
                published(beta=1.0),
                data.one_rating(sensitive=True, others=1),
                truth=_kinds(1.0),
                trials=8_000,
            ),
            Check("β = 1, independent noises", algebra.sums_of_both),
        ),
        corrected=(_secure(),),
        reading="V is seen once, users' factors do not move, and nobody who sees V knows h: "
        "what the proof treats",
    ),
    PublishedClaim(
        id="privsr-thm1-one-kind",
        sentence=f"{_ITEMS}; here of an item with ratings of one kind.",
        source=f"{_PAPER}, Theorem 1 with eq. (6), section 6.1",
        adjacency="rating-replace",
        observer="public",
        recorded="falsified",
        because="Of the two noises there is one: Lap(2Δ√K/ε_n), ε_n = (1 + 1/β) ε, which is 11 ε "
        "at β = 0.1, or Lap(2Δ√K/ε_s), ε_s = (1 + β) ε. The theorem is for a rating that “can be "
        "sensitive or non-sensitive”.",
        published=(
            ItemsGame(
                "β = 0.1, nobody keeps it to herself",
                published(beta=0.1),
                data.one_rating(sensitive=False, alike=1),
                truth=_scale(11.0),
                trials=2_000,
            ),
            ItemsGame(
                "β = 1, everybody does",
                published(beta=1.0),
                data.one_rating(sensitive=True, alike=1),
                truth=_scale(2.0),
                trials=2_000,
            ),
        ),
        corrected=(_secure(others=1),),
        reading="V is seen once, users' factors do not move, and nobody who sees V knows h",
    ),
    PublishedClaim(
        id="privsr-thm1-norm",
        sentence=f"{_ITEMS}; here of a user whose factor has the norm 2.",
        source=f"{_PAPER}, Theorem 1, section 6.1",
        adjacency="rating-replace",
        observer="public",
        recorded="falsified",
        because="The proof wants ‖u‖ ≤ 1. Algorithm 1 neither begins there nor stays: a rating R "
        "is fitted by u · v = R and nothing says which of the two is long. A rating moves the sum "
        "by 2Δ‖u‖: ε' = ‖u‖ ε.",
        published=(
            ItemsGame(
                "u = 2, β = 0.001",
                published(beta=_SMALL, spread=2.0),
                data.one_rating(sensitive=True, alike=1),
                truth=_scale(2 * (1 + _SMALL)),
                trials=3_000,
            ),
        ),
        corrected=(_rounds(1, 2, spread=2.0, offset=1.0),),
        reading="V is seen once, users' factors do not move, and are what Algorithm 1 may have",
    ),
    PublishedClaim(
        id="privsr-thm1-refit",
        sentence=f"{_ITEMS}; here of users whose factors are fitted to their ratings, "
        "and no longer than 1.",
        source=f"{_PAPER}, Theorem 1, section 6.1",
        adjacency="rating-replace",
        observer="public",
        recorded="falsified",
        basis="on a reading",
        because="Eq. (15) has one u on both sides. After convergence u_a fits her ratings: one "
        "that changes turns u_a from 1 to −1, and with it what she submits for each of her n "
        "items, 2 (u v − R) u, which goes from −2R to 2R where v = 0: 20, not 2Δ = 8. ε' = "
        "(2.5 n − 1) ε: 4 ε of two items. There is no bound but in n, which nothing limits.",
        published=(
            SubmittedGame(
                "two items, β = 0.001",
                published(beta=_SMALL),
                *data.fitted(2),
            ),
            SubmittedGame(
                "six items, β = 0.001",
                published(beta=_SMALL),
                *data.fitted(6),
            ),
        ),
        corrected=(
            SubmittedGame(
                "whole users, cut, six items",
                corrected(summation="secure", offset=0.0),
                *data.fitted(6),
            ),
        ),
        reading="V is known and each user's factor fitted to it, as the proof's “after "
        "convergence” has it; sums of submissions are seen once",
    ),
    PublishedClaim(
        id="privsr-thm3-submission",
        sentence=f"{_SERVER}; here of one sensitive submission, in one round.",
        source=f"{_PAPER}, Theorem 3, section 5.1",
        adjacency="rating-replace",
        observer="recommender",
        recorded="falsified",
        because="The proof speaks of V, and the recommender gets each submission. It drew h: given "
        "h the noise is normal, with the share 1/n of the variance, n the raters: the loss has no "
        "bound, ε' = ∞. At ε = 1 and β = 0.1 δ is .216, .730 and .993 with 1, 10 and 100 raters.",
        published=(
            Check("δ with 1, 10 and 100 raters", algebra.submission),
            StepsGame(
                "β = 0.1, one rater",
                published(beta=0.1),
                data.one_rating(sensitive=True),
                truth=_NO_BOUND,
                trials=3_000,
            ),
            StepsGame(
                "β = 0.1, 100 raters",
                published(beta=0.1),
                data.one_rating(sensitive=True, alike=99),
                truth=_NO_BOUND,
                trials=1_000,
            ),
        ),
        corrected=(_local(),),
        reading=_KNOWN_FACTORS,
    ),
    PublishedClaim(
        id="privsr-thm3-rounds",
        sentence=f"{_SERVER} and everybody; here of all T rounds.",
        source=f"{_PAPER}, Theorem 3, sections 5.3 and 6.3",
        adjacency="rating-replace",
        observer="iterates",
        recorded="falsified",
        because="V is shared in each round, so all sums of submissions are seen, each with noise "
        "of its own, as section 5.3 asks for: T rounds, ε' = T ε. The proof speaks of one V, after "
        "convergence, which no round shows alone.",
        published=(
            ItemsGame(
                "5 rounds, β = 0.001",
                published(beta=_SMALL, rounds=5),
                data.one_rating(sensitive=True, alike=1),
                trials=1_500,
            ),
        ),
        corrected=(_rounds(1, 5),),
        reading=f"an outsider who sees V after each round and does not know h; {_KNOWN_FACTORS}",
    ),
    PublishedClaim(
        id="privsr-alg1-final",
        sentence="The V that Algorithm 1 ends with is ε-differentially private.",
        source=f"{_PAPER}, Theorem 3, Algorithm 1",
        adjacency="rating-replace",
        observer="public",
        recorded="falsified",
        because="Where users' factors hardly move, V is a sum of T noises and as many shifts, with "
        "weights a^k, a = 1 − 2γ(Σu² + λ): ε' = ε (1 − a^T)/(1 − a) ≤ T ε, in the limit of rare "
        "outputs. Of many rounds it is nearly normal, μ = ε √(T/2) while a^T ≈ 1, and "
        "ε/√(2γ(Σu² + λ)) in the end: the descent averages fresh noise away.",
        published=(
            FinalGame(
                "10 rounds, β = 0.001",
                published(beta=_SMALL, rounds=10),
                data.one_rating(sensitive=True),
                trials=3_000,
            ),
        ),
        corrected=(
            FinalGame(
                "whole users, 10 rounds",
                corrected(rounds=10),
                data.turned(1),
                trials=1_000,
            ),
        ),
        reading=f"{_KNOWN_FACTORS}; played is a training that stops after 10 rounds, and after "
        "convergence it is false by the derivation",
    ),
)

CLAIMS = (*SERVER, *FRIENDS, *CHECKS)
