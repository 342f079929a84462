"""Wang & Tang 2017, section 4: posterior sampling (DPPS-PNBM), by exact draws of its law."""

from __future__ import annotations

from typing import Any

from dpaudit.claims.entry import PublishedClaim
from dpaudit.claims.trained_games import PosteriorGame
from dpaudit.claims.wang_tang_2017 import data
from dpaudit.core.estimate import Estimate
from dpaudit.defenses.neighborhood.sampled import SampledSimilarity

_PAPER = "Wang & Tang 2017"
_OMITTED = "r̂ leaves out the means, as in eqs (5) and (6)"


def _half(epsilon: float, cap: int = 2, **params: Any) -> SampledSimilarity:
    """Return the defense with Algorithm 2's likelihood, ½ Σ e²."""
    return SampledSimilarity(epsilon=epsilon, cap=cap, more_than=0, **params)


def _full(epsilon: float, cap: int = 2, **params: Any) -> SampledSimilarity:
    """Return the defense with eq. (6)'s likelihood, Σ e²."""
    return _half(epsilon, cap, likelihood="squares", **params)


def _signs(epsilon: float) -> Estimate:
    return Estimate.exact(epsilon, "law of the signs")


def _angles(epsilon: float) -> Estimate:
    return Estimate.exact(epsilon, "law of each row's angle, by quadrature")


POSTERIOR = (
    PublishedClaim(
        id="wt17-thm2",
        sentence="A draw with density ∝ exp(−(ε/4B)(½ Σ e² + ½ λ‖S‖²)), B = (Δr)² τ, is "
        "ε-differentially private when a user's ratings are replaced and the means are public.",
        source=f"{_PAPER}, Theorem 2 with Algorithm 2 at ϱ = 1 and δ = 0",
        adjacency="user-replace",
        observer="public",
        recorded="holds",
        because="r̂ − r̄ is a weighted mean of deviations of both signs, so |e| ≤ 2Δr and not Δr, "
        "and a user's ½ Σ e² is at most 2B and not ½B. But it is never negative, while Theorem 2 "
        "allows for both signs: weight and normaliser change by at most e^{ε/2} each. ε is "
        "approached, on a pattern of signs whose probability tends to 0. For the chain itself "
        "nothing follows without a bound on δ.",
        published=(
            PosteriorGame("signs, ε = 1", _half(1.0), data.signs(324, 3), truth=_signs(0.6861334)),
            PosteriorGame("signs, ε = 8", _half(8.0), data.signs(100, 1), truth=_signs(6.8036182)),
        ),
        corrected=(
            PosteriorGame(
                "cut predictions, ε = 8/4",
                _half(8.0, variant="corrected"),
                data.signs(2, 2),
                truth=_signs(1.4546726),
            ),
        ),
        weak={
            "signs, ε = 8": "The larger ε is, the rarer is the pattern of signs with this loss.",
        },
    ),
    PublishedClaim(
        id="wt17-eq6",
        sentence="A draw with density ∝ exp(−(ε/4B)(Σ e² + λ‖S‖²)), B = (Δr)² τ, is "
        "ε-differentially private when a user's ratings are replaced and the means are public.",
        source=f"{_PAPER}, eq. (6), its sign restored, with Theorem 2",
        adjacency="user-replace",
        observer="public",
        recorded="falsified",
        because="A user's Σ e² is at most 4B and not B, since r̂ leaves the scale: with means near "
        "1 and opposite signs a rating of 5 is predicted as −3. The loss is up to 2ε, attained in "
        "the limit; here 3.09 for ε = 2 and 6.06 for ε = 4. When a user is added it is at most ε.",
        published=(
            PosteriorGame(
                "ε = 2",
                _full(2.0),
                data.signs(142, 1),
                truth=_signs(3.0900349),
                trials=200_000,
            ),
            PosteriorGame("ε = 4", _full(4.0), data.signs(111, 0), truth=_signs(6.0576014)),
        ),
        corrected=(
            PosteriorGame(
                "cut predictions, ε = 4/2",
                _full(4.0, variant="corrected"),
                data.signs(111, 0),
                truth=_signs(1.5618596),
            ),
            PosteriorGame(
                "cut predictions, ε = 8/2",
                _full(8.0, variant="corrected"),
                data.signs(2, 1),
                truth=_signs(3.2546653),
                trials=400_000,
            ),
        ),
        reading="the draw is from the exact law: with two ratings per user the drift is 0 and the "
        "chain ignores the data",
    ),
    PublishedClaim(
        id="wt17-eq6-raw",
        sentence="A draw with density ∝ exp(−(ε/4B)(Σ e² + λ‖S‖²)), r̂ = Σ s r/Σ |s|, is "
        "ε-differentially private when a user's ratings are replaced.",
        source=f"{_PAPER}, eq. (6), its sign restored, with Theorem 2",
        adjacency="user-replace",
        observer="public",
        recorded="falsified",
        basis="on a reading",
        because="Without means r̂ is between −5 and 5 and e² is up to 100: the bound is 3.125 ε. A "
        "single user attains 6.25 for ε = 4. With three ratings per user, from which a chain does "
        "learn, the loss is 3.52 for ε = 2.",
        published=(
            PosteriorGame(
                "ε = 4",
                _full(4.0, centred=False),
                data.signs_alone(0),
                truth=_signs(6.25),
            ),
            PosteriorGame(
                "three ratings, ε = 2",
                _full(2.0, 3, centred=False),
                data.three_items(1),
                truth=_angles(3.5213749),
                trials=200_000,
            ),
        ),
        corrected=(
            PosteriorGame(
                "cut predictions, ε = 4/2",
                _full(4.0, variant="corrected"),
                data.signs_alone(0),
                truth=_signs(1.0),
            ),
        ),
        reading=_OMITTED,
    ),
    PublishedClaim(
        id="wt17-alg2-temperature",
        sentence="Algorithm 2 with noise of variance ϱη_t, ϱ < 1, is ε-differentially private when "
        "a user's ratings are replaced, once its chain has converged.",
        source=f"{_PAPER}, Algorithm 2, line 4, with Theorem 2",
        adjacency="user-replace",
        observer="public",
        recorded="falsified",
        because="Section 4.1 multiplies the step by ϱ, but line 4 multiplies only the noise, as "
        "√(ϱη_t) ≫ η_t requires. Langevin dynamics with ϱ on the noise only has the posterior to "
        "the power 1/ϱ as its law, so its bound is ε/ϱ: 11 times the claim at the paper's "
        "ϱ = 0.09, 1000 times at its 0.001. A single user with three ratings has ε = 4.02 for a "
        "claim of 1 at ϱ = 0.09 (4.99 if r̂ leaves out the means).",
        published=(
            PosteriorGame(
                "ϱ = 0.09",
                _half(1.0, 3, temperature=0.09),
                data.opposite(5, 1, 5),
                truth=_angles(4.0159777),
                trials=50_000,
            ),
            PosteriorGame(
                "ϱ = 0.09, without means",
                _half(1.0, 3, temperature=0.09, centred=False),
                data.opposite(5, 1, 5),
                truth=_angles(4.9937529),
                trials=50_000,
            ),
        ),
        corrected=(
            PosteriorGame(
                "cut predictions, ϱ = 1",
                _half(1.0, 3, variant="corrected"),
                data.opposite(5, 1, 5),
                truth=_angles(0.0),
            ),
            PosteriorGame(
                "cut predictions, ϱ = 1, ε = 8/4, their signs",
                _half(8.0, variant="corrected"),
                data.signs(2, 2),
                truth=_signs(1.4546726),
            ),
        ),
        weak={
            "cut predictions, ϱ = 1": "Clipped predictions have the same errors on both data sets, "
            "so the two laws agree, whatever the ε.",
        },
    ),
    PublishedClaim(
        id="wt17-s5.2-rating",
        sentence="A draw with density ∝ exp(−(ε/4B)(Σ e² + λ‖S‖²)) has a privacy loss of ε/τ when "
        "a rating's value is replaced.",
        source=f"{_PAPER}, section 5.2, with eq. (6)",
        adjacency="rating-replace",
        observer="public",
        recorded="falsified",
        basis="on a reading",
        because="The rating is also one of its user's features: it changes all of the user's "
        "predictions, not one of τ. With τ = 2 the loss tends to 2ε/τ; here it is 1.78 for ε/τ = 1 "
        "and 3.62 for 2.",
        published=(
            PosteriorGame(
                "ε/τ = 1",
                _full(2.0),
                data.one_of_two(223),
                claim=1.0,
                truth=_signs(1.7847448),
            ),
            PosteriorGame(
                "ε/τ = 2",
                _full(4.0),
                data.one_of_two(142),
                claim=2.0,
                truth=_signs(3.6246530),
            ),
        ),
        corrected=(
            PosteriorGame(
                "cut predictions, ε = 4/2 for a user",
                _full(4.0, variant="corrected"),
                data.one_of_two(142),
                truth=_signs(2.0),
            ),
            PosteriorGame(
                "cut predictions, ε = 4/2, nobody else",
                _full(4.0, variant="corrected"),
                data.one_of_two(0),
                truth=_signs(1.0),
            ),
        ),
        weak={
            "cut predictions, ε = 4/2 for a user": "The 142 other users make the pattern of signs "
            "that reveals the rating so rare that no draw has it.",
        },
        reading="the “average” loss of a rating is meant to bound every rating's",
    ),
    PublishedClaim(
        id="wt17-s5.2-rating-halves",
        sentence="Algorithm 2's own law, ∝ exp(−(ε/4B)(½ Σ e² + ½ λ‖S‖²)), has a privacy loss of "
        "ε/τ when a rating's value is replaced.",
        source=f"{_PAPER}, section 5.2, with Algorithm 2",
        adjacency="rating-replace",
        observer="public",
        recorded="falsified",
        basis="on a reading",
        because="Its loss is half of eq. (6)'s, and with two ratings per user it tends to ε/τ and "
        "does not exceed it. With three ratings, and other users who make the loss visible, it is "
        "5.04 for ε/τ = 4. Without means, a single user with two ratings suffices: 4.23 for 4, "
        "6.86 for 6.",
        published=(
            PosteriorGame(
                "three ratings, ε/τ = 4",
                _half(12.0, 3),
                data.one_of_three(),
                claim=4.0,
                truth=_angles(5.0398682),
                trials=500_000,
            ),
            PosteriorGame(
                "without means, ε/τ = 6",
                _half(12.0, centred=False),
                data.one_of_two(0),
                claim=6.0,
                truth=_signs(6.8574186),
                trials=400_000,
            ),
        ),
        corrected=(
            PosteriorGame(
                "cut predictions, ε = 8/4 for a user",
                _half(8.0, variant="corrected"),
                data.one_of_two(0),
                truth=_signs(1.0),
            ),
        ),
        reading="the “average” loss of a rating is meant to bound every rating's",
    ),
)
