"""Liu, Wang & Smola 2015: matrix factorisation released as one draw from a posterior.

The instances have d = 1, and no biases unless stated. U integrates out in closed form, draws are
exact, and λ = 2B/(ε s²), where s is the standard deviation of the prior.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from dpaudit.claims.entry import Check, PublishedClaim
from dpaudit.claims.liu_wang_smola_2015 import algebra, data
from dpaudit.claims.liu_wang_smola_2015.games import OwnBoundGame, RetriesGame
from dpaudit.claims.trained_games import PosteriorGame
from dpaudit.core.estimate import Estimate
from dpaudit.defenses.factorization.sampled import SampledFactors

_PAPER = "Liu, Wang & Smola 2015"
_TESTS = "tests/papers/test_liu_wang_smola_2015.py"
_THEOREM = f"{_PAPER}, Theorem 2, of Algorithm 1"
_USER = (
    "Releasing the items' factors of one draw from the posterior scaled by ε/4B, which is repeated "
    "while a predicted rating leaves the range, is ε-differentially private"
)
_INFINITE = Estimate.exact(math.inf, "law of the draw")


def _quadrature(epsilon: float) -> Estimate:
    return Estimate.exact(epsilon, "law of the draw, by quadrature")


def _factors(
    epsilon: float,
    deviation: float,
    least: float,
    *,
    variant: Literal["published", "corrected"] = "published",
    **parameters: Any,
) -> SampledFactors:
    """Return the defense with one factor whose prior has this standard deviation at B = `least`."""
    return SampledFactors(
        epsilon=epsilon,
        variant=variant,
        decay=2 * least / (epsilon * deviation**2),
        **{"dimensions": 1, "biases": False, **parameters},
    )


# One user with one rating, b_0 = 1, κ = 0, so (Δr + κ)² = 16; s = 5.
_LOW: dict[str, Any] = {"mean": 1.0, "margin": 0.0}
# b_0 in the middle, κ = 1, so (Δr + κ)² = 25.
_MIDDLE: dict[str, Any] = {"mean": 3.0, "margin": 1.0}

# Reasons why data sets leak too little for a mutant to be detected.
_HALF = (
    "By the derivation the exact ε is at most half of the claim: noise for twice the claim would "
    "still keep it, and with noise for 4 times the claim this pair leaks too little."
)
_ELSEWHERE = (
    "These are the data sets on which the published form fails, and this form hardly distinguishes "
    "them; its power is measured in lws15-thm2-user."
)

CLAIMS = (
    PublishedClaim(
        id="lws15-thm2-user",
        sentence=f"{_USER} when a user is replaced.",
        source=_THEOREM,
        adjacency="user-replace",
        observer="public",
        recorded="holds",
        because="The weights make 0 ≤ ℓ_u ≤ ε/4 where predictions are in range, so the "
        "log-densities for two users differ by an amount between −ε/4 and ε/4, and the normalisers "
        "by no more: ε/2, half of the claim. B, b_0, λ and the numbers of users and items must be "
        "the same in both data sets.",
        published=(
            PosteriorGame(
                "ε = 2",
                _factors(2.0, 5.0, 16, cap=1, **_LOW),
                data.VALUE,
                truth=_quadrature(0.41934),
                trials=50_000,
            ),
            PosteriorGame(
                "ε = 8",
                _factors(8.0, 5.0, 16, cap=1, **_LOW),
                data.VALUE,
                truth=_quadrature(1.72437),
            ),
        ),
        corrected=(
            PosteriorGame(
                "predictions cut",
                _factors(8.0, 5.0, 16, variant="corrected", cap=1, **_LOW),
                data.VALUE,
                truth=_quadrature(1.72780),
            ),
            PosteriorGame(
                "predictions cut, with biases, b_0 = 5",
                _factors(
                    8.0, 1.5, 16, variant="corrected", cap=1, mean=5.0, margin=0.0, biases=True
                ),
                data.VALUE,
                truth=_quadrature(2.78399),
            ),
        ),
        weak={
            "ε = 2": _HALF,
            "ε = 8": _HALF,
            "predictions cut, with biases, b_0 = 5": "A draw that attains the exact ε is rare; "
            "with noise for 4 times the claim, the certified ε is about the claim itself.",
        },
    ),
    PublishedClaim(
        id="lws15-thm2-row",
        sentence=f"{_USER} when a user is added together with their row of factors.",
        source=_THEOREM,
        adjacency="user-add-remove",
        observer="public",
        recorded="falsified",
        basis="on a reading",
        because="All predictions are tested, so also those of the new row. This multiplies the "
        "density of V by the probability that the new user's predictions stay in range, which "
        "tends to 0 like 1/max|v| as V grows. The range test leaks, not the likelihood: ε = ∞, "
        "even for a user who has rated nothing. With clipped predictions it is at most ε/4.",
        published=(
            PosteriorGame(
                "s = 10",
                _factors(1.0, 10.0, 50, cap=2, **_MIDDLE),
                data.ROW,
                truth=_INFINITE,
                trials=50_000,
            ),
        ),
        corrected=(
            PosteriorGame(
                "predictions cut, ε/4",
                _factors(1.0, 10.0, 50, variant="corrected", cap=2, **_MIDDLE),
                data.ROW,
                claim=0.25,
                truth=_quadrature(0.04208),
                trials=50_000,
            ),
        ),
        weak={
            "predictions cut, ε/4": _ELSEWHERE,
        },
        reading="a user who joins adds a row; if the number of rows is public and an empty row "
        "stays, the loss is at most ε/4",
    ),
    PublishedClaim(
        id="lws15-thm2-retries",
        sentence=f"{_USER} when a user is replaced, including whether a run gives up after 20 "
        "draws.",
        source=f"{_THEOREM}, its proof on 'retry if fail'",
        adjacency="user-replace",
        observer="public",
        recorded="falsified",
        basis="on a reading",
        because="The proof conditions on success. A draw from the posterior without a range passes "
        "with probability ∫_C e^−F over ∫ e^−F, and outside C the losses are not bounded. Here it "
        "passes with probability 0.078 on D and 0.260 on D', so a run of 20 draws fails with "
        "probability 0.196 and 0.0024: ε = 4.4. The guarantee does not cover the number of draws "
        "or a published acceptance rate either.",
        published=(
            RetriesGame(
                "20 draws, s = 30",
                _factors(1.0, 30.0, 50, cap=2, retries=19, **_MIDDLE),
                data.TWO_AFTER_ONE,
                truth=_quadrature(4.40137),
                trials=5_000,
            ),
        ),
        corrected=(
            PosteriorGame(
                "predictions cut, no retries",
                _factors(1.0, 30.0, 50, variant="corrected", cap=2, **_MIDDLE),
                data.TWO_AFTER_ONE,
                trials=20_000,
            ),
        ),
        weak={
            "predictions cut, no retries": _ELSEWHERE,
        },
        reading="the observer sees that a run fails, and retries draw from a sampler without a "
        "range",
    ),
    PublishedClaim(
        id="lws15-thm2-rated",
        sentence=f"{_USER} when a user is replaced and only predictions of ratings in the data are "
        "tested.",
        source=f"{_THEOREM}, its constraint",
        adjacency="user-replace",
        observer="public",
        recorded="falsified",
        basis="on a reading",
        because="The set of possible releases then depends on who rated what. With b_0 = 0, d = 1, "
        "no biases and a range that starts at 0.5, u v_i > 0 for every item that the user rated: "
        "v_1 v_2 < 0 is impossible if the user rated both items and has probability 1/2 if the "
        "user rated one. ε = ∞.",
        published=(
            PosteriorGame(
                "b_0 = 0",
                _factors(1.0, 1.0, 40.5, cap=2, mean=0.0, margin=0.5, accept="rated"),
                data.SECOND_ITEM,
                truth=_INFINITE,
                trials=20_000,
            ),
        ),
        corrected=(
            PosteriorGame(
                "predictions cut",
                _factors(1.0, 1.0, 40.5, variant="corrected", cap=2, mean=0.0, margin=0.5),
                data.SECOND_ITEM,
                trials=20_000,
            ),
        ),
        weak={
            "predictions cut": _ELSEWHERE,
        },
        reading="'predicted ratings' are the predictions of ratings in the data",
    ),
    PublishedClaim(
        id="lws15-thm2-bound",
        sentence=f"{_USER} when a user is replaced, with B the largest m_u (Δr + κ)² of the data.",
        source=f"{_THEOREM}; B of its algorithm",
        adjacency="user-replace",
        observer="public",
        recorded="falsified",
        basis="on a reading",
        because="B scales the prior, whose variance is 2B/(ελ). If the user's number of ratings "
        "doubles, V is wider by √2, and the ratio of two normal densities of different widths is "
        "unbounded: ε = ∞. If the user goes from 1 rating to 40 on 40 items, every draw reveals "
        "it, and only the number of draws limits the certified ε.",
        published=(
            OwnBoundGame(
                "two items, one rating more",
                _factors(1.0, 0.5, 25, cap=2, **_MIDDLE),
                data.TWO_AFTER_ONE,
                truth=_INFINITE,
                trials=50_000,
            ),
            OwnBoundGame(
                "40 items, 39 ratings more",
                _factors(1.0, math.sqrt(0.025), 25, cap=40, **_MIDDLE),
                data.MANY_AFTER_ONE,
                truth=_INFINITE,
                trials=10_000,
            ),
        ),
        corrected=(
            PosteriorGame(
                "B public, predictions cut",
                _factors(1.0, 0.5, 25, variant="corrected", cap=2, **_MIDDLE),
                data.TWO_AFTER_ONE,
                trials=20_000,
            ),
        ),
        weak={
            "B public, predictions cut": _ELSEWHERE,
        },
        reading="B is not fixed in advance but computed from the data",
    ),
    PublishedClaim(
        id="lws15-thm2-delta",
        sentence="A chain whose law is δ away from the posterior is (ε, (1 + e^ε) δ)-"
        "differentially private.",
        source=f"{_THEOREM}, second part",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="P̃(S) ≤ P(S) + δ ≤ e^ε Q(S) + δ ≤ e^ε Q̃(S) + (1 + e^ε) δ with δ in total "
        "variation, and this is attained; half of it if δ is the L1 distance. It needs one δ for "
        "all data sets, which is not known for a chain that stops after finitely many steps.",
        held_by=_TESTS,
    ),
    PublishedClaim(
        id="lws15-s3-nonprivate",
        sentence="At ε = 4B the draw is from the non-private posterior.",
        source=f"{_PAPER}, section on the relation to Bayesian models",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="At ε = 4B the exponent's factor is 1: with all weights 1 the law is the posterior "
        "exp(−Σ(r − r̂)² − λ‖·‖²). For a likelihood with precision λ_r, exp(−λ_r Σ(r − r̂)²/2), "
        "this happens at ε = 2Bλ_r.",
        held_by=_TESTS,
        reading="the non-private posterior has weight 1 on every squared error",
    ),
    PublishedClaim(
        id="lws15-s3-lazy",
        sentence="Drawing an item's noise when the item is next read, with the summed variance, "
        "does not change the law of the chain.",
        source=f"{_PAPER}, section on the system, bookkeeping",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="Nothing reads a coordinate between two visits, so a read returns its value plus a "
        "sum of normal draws, independent of everything read before. By induction over the reads "
        "all values read have the same law. This needs step sizes that do not depend on unread "
        "noise, no drift between visits, and that noise which is due is drawn before the release.",
        held_by=_TESTS,
    ),
    PublishedClaim(
        id="lws15-s3-lazy-unflushed",
        sentence="The law is the same if the noise that is due at the end is not drawn.",
        source=f"{_PAPER}, section on the system, bookkeeping",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="on a reading",
        because="An item that nobody rated is then released exactly as initialised, and an item "
        "with ratings lacks the variance since its last visit. So the release shows whether "
        "anybody rated an item.",
        published=(Check("covariances of biases, 30 instances", algebra.unflushed),),
        reading="the bookkeeping ends with the last visit",
    ),
    PublishedClaim(
        id="lws15-s5-rating",
        sentence="ε-privacy for a user gives ε/τ-privacy for a rating's value, where τ is the "
        "largest number of ratings of a user.",
        source=f"{_PAPER}, section on the experiments, comparison with rating-level privacy",
        adjacency="rating-replace",
        observer="public",
        recorded="holds",
        because="Group privacy gives the converse, not this. But a value changes ℓ_u by (ε/4B) w_u "
        "(r − r')(r + r' − 2r̂), which has the width 2 (ε/4B) w_u Δr (Δr + 2κ), and with "
        "B = τ (Δr + κ)² that is at most ε/(2τ).",
        published=(
            PosteriorGame(
                "τ = 2, ε = 8",
                _factors(8.0, 5.0, 32, cap=2, **_LOW),
                data.VALUE,
                claim=4.0,
                truth=_quadrature(0.84623),
                trials=50_000,
            ),
        ),
        corrected=(
            PosteriorGame(
                "predictions cut, ε/(2τ)",
                _factors(8.0, 5.0, 32, variant="corrected", cap=2, **_LOW),
                data.VALUE,
                claim=2.0,
                truth=_quadrature(0.83754),
                trials=50_000,
            ),
        ),
        reading="B = τ (Δr + κ)²",
        weak={
            "τ = 2, ε = 8": _HALF,
        },
    ),
    PublishedClaim(
        id="lws15-s5-rating-small-bound",
        sentence="ε-privacy for a user gives ε/τ-privacy for a rating's value, with B below "
        "τ (Δr + κ)².",
        source=f"{_PAPER}, section on the experiments, comparison with rating-level privacy",
        adjacency="rating-replace",
        observer="public",
        recorded="falsified",
        basis="on a reading",
        because="With B = β (Δr + κ)² the bound is ε/(2 max(β, 1)), since a user with few ratings "
        "keeps the weight 1. At β = 1, τ = 10 and ε = 8 the claim is 0.8, but one rating's loss is "
        "1.72.",
        published=(
            PosteriorGame(
                "β = 1, τ = 10, ε = 8",
                _factors(8.0, 5.0, 16, cap=10, loss_bound=16.0, **_LOW),
                data.VALUE,
                claim=0.8,
                truth=_quadrature(1.72437),
                trials=50_000,
            ),
        ),
        corrected=(
            PosteriorGame(
                "predictions cut, B = τ (Δr + κ)²",
                _factors(8.0, 5.0, 160, variant="corrected", cap=10, **_LOW),
                data.VALUE,
                claim=0.8,
                truth=_quadrature(0.16502),
                trials=50_000,
            ),
        ),
        reading="B is any public number up to τ (Δr + κ)²",
        weak={
            "predictions cut, B = τ (Δr + κ)²": _HALF,
        },
    ),
    PublishedClaim(
        id="lws15-s3-personal",
        sentence="The draw is ε_u-private for the user u, ε_u = ε w_u m_u (Δr + κ)²/B, when the "
        "user's ratings are removed.",
        source=f"{_PAPER}, section on personalised privacy, its theorem",
        adjacency="user-add-remove",
        observer="public",
        recorded="holds",
        because="The user's ratings add 0 ≤ ℓ_u ≤ ε_u/4, and the normalisers differ by no more: "
        "ε_u/4, a quarter of the claim. The user's row must stay among the factors, or else the "
        "range leaks it. ε_u depends on how much the user has rated, so publishing it is a release "
        "of its own.",
        published=(
            PosteriorGame(
                "ε = 8, τ = 2, one rating",
                _factors(8.0, 5.0, 32, cap=2, **_LOW),
                data.FIRST_RATING,
                claim=4.0,
                truth=_quadrature(0.56294),
                trials=50_000,
            ),
        ),
        corrected=(
            PosteriorGame(
                "predictions cut, ε_u/4",
                _factors(8.0, 5.0, 32, variant="corrected", cap=2, **_LOW),
                data.FIRST_RATING,
                claim=1.0,
                truth=_quadrature(0.54703),
                trials=50_000,
            ),
        ),
        reading="the user's row of factors stays",
        weak={
            "ε = 8, τ = 2, one rating": "By the derivation the exact ε is at most a quarter of the "
            "claim: noise for 4 times the claim still keeps it.",
        },
    ),
    PublishedClaim(
        id="lws15-s3-personal-replaced",
        sentence="The draw is ε_u-private for the user u, ε_u = ε w_u m_u (Δr + κ)²/B, when the "
        "user is replaced by any other.",
        source=f"{_PAPER}, section on personalised privacy, its definition",
        adjacency="user-replace",
        observer="public",
        recorded="falsified",
        basis="on a reading",
        because="Replacing u by x can cost (ε_u + ε_x)/4, which exceeds ε_u if ε_x is above 3 ε_u: "
        "the claim holds only among users of similar ε_u. Replacing a user without ratings, "
        "ε_u = 0, by one with one rating has ε = 0.56. And 100 ratings of one user make more of "
        "100 factors agree in sign than one rating does. If each user's share s_u of ε is public "
        "and bounds the weight, it is at most s_u ε/2.",
        published=(
            PosteriorGame(
                "ε_u = 0",
                _factors(8.0, 5.0, 32, cap=2, **_LOW),
                data.FIRST_RATING,
                claim=0.0,
                truth=_quadrature(0.56294),
                trials=50_000,
            ),
            Check("one rating against 100, ε_u = 0.64, predictions cut", algebra.personal_replaced),
        ),
        corrected=(
            PosteriorGame(
                "predictions cut, (ε_u + ε_x)/4",
                _factors(8.0, 5.0, 32, variant="corrected", cap=2, **_LOW),
                data.FIRST_RATING,
                claim=1.0,
                truth=_quadrature(0.54703),
                trials=50_000,
            ),
            PosteriorGame(
                "budgets public, predictions cut, s_u ε/2",
                _factors(32.0, 5.0, 32, variant="corrected", cap=2, budgets=True, **_LOW),
                data.QUARTER,
                claim=4.0,
                trials=50_000,
            ),
        ),
        reading="the new user may have any ratings",
    ),
)
