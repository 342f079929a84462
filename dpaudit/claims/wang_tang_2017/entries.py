"""Wang & Tang 2017, section 3: gradient descent with Laplace noise (DPSGD-PNBM)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from dpaudit.claims.entry import Check, PublishedClaim
from dpaudit.claims.trained_games import StepsGame
from dpaudit.claims.wang_tang_2017 import algebra, data
from dpaudit.claims.wang_tang_2017.batch_games import BatchGame
from dpaudit.claims.wang_tang_2017.denominators import generated, short_weights
from dpaudit.core.estimate import Estimate
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity

_THEOREM = "Wang & Tang 2017, Theorem 1 with Algorithm 1"
_NOISE = (
    "Laplace noise of scale γKΔF/ε with ΔF = 2 e_max φ/C on every coordinate of each of K "
    "gradients makes the similarities ε-differentially private"
)


def _published(neighbors: int, epsilon: float = 1.0, **params: Any) -> SgdSimilarity:
    """Return Algorithm 1 with initial similarities that have `|S_i| I_u = 10`, the default C."""
    set_ = {"steps": 1, "start": 1 / neighbors, "more_than": 0, **params}
    return SgdSimilarity(epsilon=epsilon, **set_)


def _whole_users(epsilon: float = 1.0, **params: Any) -> SgdSimilarity:
    return SgdSimilarity(
        epsilon=epsilon, variant="corrected", steps=1, start=0.5, more_than=0, **params
    )


def _weights(defense: SgdSimilarity, seed: int) -> str | None:
    """Check the assumption on generated ratings of users with more than 20, as in the paper."""
    return short_weights(generated(), replace(defense, more_than=20), seed)


def _sum_of_shifts(epsilon: float) -> Estimate:
    return Estimate.exact(epsilon, "Laplace noise on the gradient, L1 shift")


def _mixture(epsilon: float) -> Estimate:
    return Estimate.exact(epsilon, "mixture over who is drawn, supremum over gradients")


DESCENT = (
    PublishedClaim(
        id="wt17-thm1-sensitivity",
        sentence=f"{_NOISE} when a rating's value is replaced, if |r_uj − r̂_ui| ≤ φ for every "
        "training rating; here with full batches, γ = 1.",
        source=f"{_THEOREM}, section 3",
        adjacency="rating-replace",
        observer="iterates",
        recorded="falsified",
        because="ΔF bounds one coordinate of one rating's gradient. A rating is predicted by a "
        "whole row of similarities, all of which it changes, and as a feature it predicts the "
        "user's n other ratings, each with its own row. On data with |r_uj − r̂_ui| ≤ φ, as the "
        "theorem's preprocessing ensures: with equal similarities the L1 change is (3n/2 − 1) ΔF, "
        "so ε = 2, 11 and 29 times the claim for n = 2, 8 and 20. With uneven similarities and the "
        "same |S_i| I_u = C it is 27.8 times the claim for n = 8. On MovieLens-100K one rating of "
        "a user with 21 has 14.2 times the claim in one step, and 1.42 times in the first of ten.",
        published=(
            StepsGame(
                "n = 2", _published(2), data.one_rating(2), _sum_of_shifts(2.0), trials=20_000
            ),
            StepsGame(
                "n = 8", _published(8), data.one_rating(8), _sum_of_shifts(11.0), trials=10_000
            ),
            StepsGame(
                "n = 20, ε = 0.5, only users with more than 20 ratings",
                _published(20, 0.5, more_than=20),
                data.one_rating(20),
                _sum_of_shifts(14.5),
                trials=3_000,
            ),
            Check("L1 change from uneven similarities, n = 8", algebra.uneven_sensitivity),
        ),
        corrected=(
            StepsGame("whole users", _whole_users(), data.one_rating(8), trials=5_000),
            StepsGame(
                "whole users, their worst pair",
                _whole_users(),
                data.whole_user(1),
                _sum_of_shifts(1.0),
                trials=20_000,
            ),
        ),
        weak={
            "whole users": "The noise covers the L1 norm of all of a user's ratings; the change "
            "from one rating is spread over 72 coordinates, so in nearly all outputs 72 small "
            "terms of both signs cancel.",
        },
    ),
    PublishedClaim(
        id="wt17-thm1-amplification",
        sentence=f"{_NOISE} when a rating's value is replaced, each gradient being computed on a "
        "uniform share γ of the ratings; here γ = 0.1.",
        source=f"{_THEOREM}, ε^(t) = ε/(Kγ)",
        adjacency="rating-replace",
        observer="iterates",
        recorded="falsified",
        because="Sampling a share γ turns ε_0 into ln(1 + γ(e^{ε_0} − 1)), which is γε_0 only as "
        "ε_0 → 0, but ε_0 = ε/γ is 10. In addition, the record acts through each of its user's "
        "ratings, so the share of batches that depend on it is larger than γ. With two other "
        "ratings, K = 1 and ε = 1, the sum over rows is ln((.8 + .2e^5)/(.8 + .2e^−5)) = 3.64; "
        "with four it is 8.39.",
        published=(
            BatchGame(
                "n = 2, one step",
                _published(2, sampling_rate=0.1),
                data.sampled(2),
                _mixture(3.6386176),
                trials=10_000,
            ),
            BatchGame(
                "n = 4, one step",
                _published(4, sampling_rate=0.1),
                data.sampled(4),
                _mixture(8.3905418),
                trials=10_000,
            ),
            BatchGame(
                "n = 4, two steps",
                _published(
                    4, sampling_rate=0.1, steps=2, start=1.01 / 4, learning_rate=1e-3, decay=0.05
                ),
                data.sampled(4),
                trials=10_000,
            ),
        ),
        corrected=(
            BatchGame(
                "one user of ten, their worst pair",
                _whole_users(sampling_rate=0.1),
                data.whole_user(9),
                _mixture(1.0),
                trials=30_000,
            ),
        ),
    ),
    PublishedClaim(
        id="wt17-alg1-weights",
        sentence="During training |S_i| I_u ≥ C in every prediction, so no coordinate of a "
        "rating's gradient is larger than e_max φ/C.",
        source=f"{_THEOREM}, section 3, lines 4 and 6",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="on a reading",
        because="The algorithm neither enforces nor checks it. In the first step it depends on the "
        "initial similarities: with 0.05, β = 10 and C = 15 a user needs 30 other ratings, and on "
        "MovieLens-100K 4511 of 99 360 predictions (4.5 %) are below C; with C = 10 none is. Later "
        "it depends on noise with full support: at ε = 1 the noise makes similarities so large "
        "that no prediction of the tenth step is below C, at ε = 100 0.6 % are.",
        published=(
            Check("100 generated users, C = 15", partial(_weights, _published(20, weight=15.0))),
            Check(
                "100 generated users, C = 10, ε = 100",
                partial(_weights, _published(20, 100.0, steps=10)),
            ),
        ),
        reading="Algorithm 1 is complete as printed: nothing else enforces the condition of line "
        "4; the authors' program replaces a smaller |S_i| I_u by C",
    ),
    PublishedClaim(
        id="wt17-s3-negative",
        sentence="Omitting S_ij < 0 from eq. (5) does not compromise the bound: no coordinate of a "
        "rating's gradient is larger than e_max φ/C.",
        source="Wang & Tang 2017, section 3, the sentence below eq. (5)",
        adjacency=None,
        observer=None,
        recorded="falsified",
        because="If s_ij < 0, the derivative is (x_uj + f)/(|S_i| I_u), and |x_uj − f| ≤ φ does "
        "not bound the sum: for eight ratings of 5, item means of 1 and one small negative "
        "similarity it is nearly 2φ, and nearly 2.5φ for raw ratings, although every |x_uj − f| is "
        "below φ/100. ΔF, twice the bound, is too small as well: if f is φ/2, a replaced rating "
        "changes such a coordinate by 1.5 ΔF in the first step, and by 2 ΔF for raw ratings.",
        published=(Check("eight equal ratings, centred and raw", algebra.negative_similarities),),
    ),
    PublishedClaim(
        id="wt17-alg1-touched",
        sentence=f"{_NOISE} when a rating is added, if noise is added only to the coordinates that "
        "some rating of the batch touches.",
        source="Wang & Tang 2017, Algorithm 1, line 6, with eq. (5)",
        adjacency="rating-add-remove",
        observer="iterates",
        recorded="falsified",
        basis="on a reading",
        because="A similarity that no rating touches becomes exactly (1 − ηλ) s, and any other is "
        "noised. So the first user who rates both of two items is visible with certainty: ε = ∞. "
        "Replacing a value does not change the touched pairs, but these show which rating was "
        "drawn, so the sampling does not amplify privacy.",
        published=(Check("one co-rating", algebra.touched_coordinates),),
        reading="noise is drawn only for the non-zero part of a sparse gradient",
    ),
    PublishedClaim(
        id="wt17-thm1-means",
        sentence=f"{_NOISE} when a rating's value is replaced and the items' means are computed "
        "from the ratings.",
        source=f"{_THEOREM} and eq. (2)",
        adjacency="rating-replace",
        observer="iterates",
        recorded="falsified",
        basis="on a reading",
        because="The rating changes its item's mean, and with it the errors of all raters of the "
        "item: up to twice the change with public means, (3n − 2)(1 − 1/(m + 1)) ΔF with m other "
        "raters. For n = 2, m = 10 that is 3.64 times the claim, where public means allow 2.",
        published=(
            StepsGame(
                "n = 2, m = 10",
                _published(2),
                data.recomputed(2, 10),
                _sum_of_shifts(40 / 11),
                trials=10_000,
            ),
            StepsGame(
                "n = 4, m = 10",
                _published(4),
                data.recomputed(4, 10),
                _sum_of_shifts(100 / 11),
                trials=5_000,
            ),
        ),
        corrected=(
            StepsGame("whole users", _whole_users(), data.recomputed(2, 10), trials=10_000),
        ),
        reading="the means of eq. (2) are not public constants; the paper gives them no budget",
    ),
)
