"""PrivSR, rating form (Meng et al. 2018): the privacy claims, with games and derivations."""

from __future__ import annotations

import math
from typing import Any

from dpaudit.bounds.gdp import gaussian_epsilon
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
_KNOWN_FACTORS = "the initial factors are known, with norms of at most 1"


def _kinds(beta: float) -> Estimate:
    """Return the ε of a shift of 2Δ under the sum of both kinds of noise, which share one h.

    The scale is 2Δ √(1/ε_s² + 1/ε_n²) = 2Δ √(1 + β²)/((1 + β) ε).
    """
    return Estimate.exact((1 + beta) / math.hypot(1, beta), "Laplace noise, both kinds, one h")


def _scale(epsilon: float) -> Estimate:
    return Estimate.exact(epsilon, "Laplace noise of the sum")


# Given h, μ = ε_s √(n/2h) has no bound.
_NO_BOUND = Estimate.exact(math.inf, "normal noise, whose size is seen and may be near 0")


def _cut(defense: PrivSR) -> Estimate:
    """Return the ε of one round with opposite submissions, both cut to the clipping norm."""
    variance = float(defense.noise(defense.prepare(data.turned(1).before)).submitted[1, 0])
    mu = 2 * defense.clip_norm * (1 - 1e-5) / math.sqrt(variance)
    return Estimate.exact(gaussian_epsilon(mu, defense.delta), "normal noise, opposite submissions")


def _local() -> StepsGame:
    defense = corrected()
    return StepsGame(
        "whole users, each with their own noise, their worst pair, one round",
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
        corrected(rounds=rounds, learning_rate=0.01, **params), data.turned(items, 2), trials=1_000,
    )  # fmt: skip


SERVER = (
    PublishedClaim(
        id="privsr-thm1-mixed",
        sentence=f"{_ITEMS}; here for an item with sensitive and non-sensitive ratings.",
        source=f"{_PAPER}, Theorem 1, section 6.1",
        adjacency="rating-replace",
        observer="public",
        recorded="falsified",
        because="1/ε_s + 1/ε_n = 1/ε, but section 6.1 adds standard deviations where variances "
        "add. With one h the noises add up to Lap(2Δ√K √(1/ε_s² + 1/ε_n²)), so "
        "ε' = ε (1 + β)/√(1 + β²): √2 ε at β = 1, 1.09 ε at 0.1. If they are independent, as the "
        "theorem says, the sum has the tail of the larger noise: ε' = ε_s = (1 + β) ε, in the "
        "limit.",
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
        reading="the case that the proof treats: V is seen once, users' factors do not change, and "
        "the observer does not know h",
    ),
    PublishedClaim(
        id="privsr-thm1-one-kind",
        sentence=f"{_ITEMS}; here for an item with ratings of one kind.",
        source=f"{_PAPER}, Theorem 1 with eq. (6), section 6.1",
        adjacency="rating-replace",
        observer="public",
        recorded="falsified",
        because="Such an item has one of the two noises only: Lap(2Δ√K/ε_n), ε_n = (1 + 1/β) ε, "
        "which is 11 ε at β = 0.1, or Lap(2Δ√K/ε_s), ε_s = (1 + β) ε. The theorem covers a rating "
        "that “can be sensitive or non-sensitive”.",
        published=(
            ItemsGame(
                "β = 0.1, nobody keeps it private",
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
        reading="V is seen once, users' factors do not change, and the observer does not know h",
    ),
    PublishedClaim(
        id="privsr-thm1-norm",
        sentence=f"{_ITEMS}; here for a user whose factor has norm 2.",
        source=f"{_PAPER}, Theorem 1, section 6.1",
        adjacency="rating-replace",
        observer="public",
        recorded="falsified",
        because="The proof requires ‖u‖ ≤ 1. Algorithm 1 enforces this neither at the start nor "
        "later: training fits u · v = R, which fixes neither norm. A rating changes the sum by "
        "2Δ‖u‖: ε' = ‖u‖ ε.",
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
        reading="V is seen once, and users' factors do not change and may be any that Algorithm 1 "
        "can reach",
    ),
    PublishedClaim(
        id="privsr-thm1-refit",
        sentence=f"{_ITEMS}; here for users whose factors are fitted to their ratings and have "
        "norms of at most 1.",
        source=f"{_PAPER}, Theorem 1, section 6.1",
        adjacency="rating-replace",
        observer="public",
        recorded="falsified",
        basis="on a reading",
        because="Eq. (15) has the same u on both sides. After convergence u_a fits the user's "
        "ratings: one changed rating turns u_a from 1 to −1, and changes the submission "
        "2 (u v − R) u for each of the user's n items; where v = 0, it goes from −2R to 2R, a "
        "change of 20, not 2Δ = 8. ε' = (2.5 n − 1) ε, which is 4 ε for two items. The only bound "
        "grows with n, and nothing limits n.",
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
        reading="V is known and each user's factor is fitted to it, as the proof's “after "
        "convergence” says; the observer sees the sums of submissions once",
    ),
    PublishedClaim(
        id="privsr-thm3-submission",
        sentence=f"{_SERVER}; here for one sensitive submission, in one round.",
        source=f"{_PAPER}, Theorem 3, section 5.1",
        adjacency="rating-replace",
        observer="recommender",
        recorded="falsified",
        because="The proof is about V, but the recommender receives each submission, and drew h. "
        "Given h the noise of a submission is normal with the share 1/n of the variance, n being "
        "the number of raters, so the loss has no bound and ε' = ∞. At ε = 1 and β = 0.1, δ is "
        ".216, .730 and .993 with 1, 10 and 100 raters.",
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
        sentence=f"{_SERVER} and everybody else; here for all T rounds.",
        source=f"{_PAPER}, Theorem 3, sections 5.3 and 6.3",
        adjacency="rating-replace",
        observer="iterates",
        recorded="falsified",
        because="V is shared in each round, so all sums of submissions are seen, each with fresh "
        "noise, as section 5.3 requires: over T rounds ε' = T ε. The proof is about one V after "
        "convergence, but the observer sees the V of every round.",
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
        because="If users' factors hardly change, V is a sum of T noises and T shifts with weights "
        "a^k, a = 1 − 2γ(Σu² + λ): ε' = ε (1 − a^T)/(1 − a) ≤ T ε, in the limit of rare outputs. "
        "After many rounds V is nearly normal, with μ = ε √(T/2) while a^T ≈ 1, and "
        "ε/√(2γ(Σu² + λ)) at convergence: the descent averages fresh noise away.",
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
                trials=2_000,
            ),
        ),
        reading=f"{_KNOWN_FACTORS}; the game stops training after 10 rounds, and the derivation "
        "shows that the claim also fails after convergence",
    ),
)

CLAIMS = (*SERVER, *FRIENDS, *CHECKS)
