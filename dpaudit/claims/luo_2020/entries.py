"""Fake gradients (Luo et al. 2020): the privacy claims, with games and derivations."""

from __future__ import annotations

from typing import Any

from dpaudit.bounds.gdp import gaussian_epsilon
from dpaudit.claims.entry import Check, PublishedClaim
from dpaudit.claims.luo_2020 import bounds, data
from dpaudit.claims.luo_2020.checks import CHECKS
from dpaudit.claims.luo_2020.limit import many_others
from dpaudit.claims.trained_games import StepsGame
from dpaudit.core.estimate import Estimate
from dpaudit.defenses.federated.fake_gradients import FakeGradients

_PAPER = "Luo et al. 2020"
_THEOREM = f"{_PAPER}, Theorem 3 with Algorithm 2"
_RATING = (
    "Normal noise with the σ of Theorem 3 for a bound G on the gradients makes a user's "
    "submissions in k rounds (ε, δ)-differentially private when the user adds a rating"
)
# A large δ makes events with a large loss frequent; the theorem is for every δ.
_OFTEN = 0.2
_SET: dict[str, Any] = {
    "dimensions": 1,
    "density": 0.0,
    "offset": 3.0,
    "spread": 0.1,
    "memory": 0.9999,
    "truth": 0.99,
}


def _published(epsilon: float, delta: float, **params: Any) -> FakeGradients:
    """Return Algorithm 2 with one factor.

    The response is nearly always true, so the server's estimate of an item's mean gradient is
    accurate.
    """
    return FakeGradients(epsilon=epsilon, delta=delta, **{**_SET, **params})


def _against(seed: int) -> str | None:
    """Check a gradient opposite to the mean, in the limit of many other users."""
    defense = _published(
        1.0, 1e-5, rounds=200, decay=4 / 3, clip_norm=1.15, fake_clip_norm=1.15, spread=0.01
    )
    return many_others(defense, data.against(1000), seed)


def _undecided(seed: int) -> str | None:
    """Check a rating that changes the submissions for twelve other items, in the same limit."""
    defense = _published(
        1.0, 1e-5, rounds=200, decay=0.2, clip_norm=0.45, fakes="zero", spread=0.01
    )
    return many_others(defense, data.undecided(12, 300), seed)


def _corrected(**params: Any) -> FakeGradients:
    """Return the corrected form, which protects whole users, at the default δ.

    Factors are so large that every submission is cut.
    """
    return FakeGradients(
        epsilon=2.0, variant="corrected", density=0.0, offset=3.0, clip_norm=0.1, **params
    )


def _cut() -> Estimate:
    """Return the ε of opposite gradients, both cut to the clipping norm, just below the claim."""
    defense = _corrected(rounds=1)
    ratings = data.turned(1).before
    sigma = defense.sigma(defense.prepare(ratings))
    mu = 2 * defense.clip_norm * (1 - 1e-5) / sigma
    return Estimate.exact(gaussian_epsilon(mu, defense.delta), "normal noise, opposite gradients")


GAUSSIAN = (
    PublishedClaim(
        id="fg-thm3-printed",
        sentence="Algorithm 2 with normal noise of σ ≥ c₂ G √(k ln(1/δ))/ε is (ε, "
        "δ)-differentially private, G being the bound of the gradients.",
        source=f"{_THEOREM}, section 4, and the sentence below the theorem",
        adjacency="rating-add-remove",
        observer="recommender",
        recorded="unprovable as stated",
        because="The theorem is that of Abadi et al. for gradients clipped to the norm G. "
        "Algorithm 2 has no G among its inputs, clips nothing and checks nothing. The scale of the "
        "ratings implies no G: a fit to n ratings has a gradient √(n/λ) r²/4. The remark that “the "
        "regularization term bound the norm” (section 4.2) is true at a minimum, but V is a sum "
        "with normal noise, so from the second round on no G holds with certainty. The missing "
        "condition is ‖g‖ ≤ G, enforced by clipping, with explicit constants; even then the claim "
        "is false: fg-thm3-user-factors.",
        published=(
            Check("every G up to 10⁴ is exceeded", bounds.every_bound_is_exceeded),
        ),
        reading="the available text has lost the formula: σ is that of the theorem's source",
    ),
    PublishedClaim(
        id="fg-thm3-norm",
        sentence=f"{_RATING}; here G = 0.25.",
        source=f"{_THEOREM}, section 4",
        adjacency="rating-add-remove",
        observer="recommender",
        recorded="falsified",
        basis="on a reading",
        because="The theorem requires ‖g‖ ≤ G; the text calls G “a prior bound” that need not be "
        "written. For every G there are data with longer gradients. Here a gradient has length 1 "
        "and distance 2 from the fake, 8 G. On MovieLens-100K, with G = 1 and users' factors of "
        "norm 2, the loss of one rating exceeds the claim in 10 rounds. Without a chosen G the "
        "theorem is fg-thm3-printed.",
        published=(
            StepsGame(
                "12 rounds, gradients of length 1",
                _published(1.0, 0.01, rounds=12, decay=4 / 3, memory=0.99999, clip_norm=0.25),
                data.against(100),
                trials=250,
            ),
        ),
        corrected=(
            StepsGame(
                "whole users, their worst pair, one round",
                _corrected(rounds=1),
                data.turned(1),
                truth=_cut(),
                trials=1_000,
            ),
        ),
        reading="G is chosen in advance and not enforced, Algorithm 2 is as printed, σ is the "
        "least that a gradient of norm G needs, and the observer sees the initial factors",
    ),
    PublishedClaim(
        id="fg-thm3-fake",
        sentence=f"{_RATING}; here no gradient and no fake is longer than G.",
        source=_THEOREM,
        adjacency="rating-add-remove",
        observer="recommender",
        recorded="falsified",
        basis="on a reading",
        because="The theorem compares a gradient with no submission. But an added rating replaces "
        "a fake F by a gradient, and the two may be 2G apart, so μ = 2G√k/σ where the noise covers "
        "G√k/σ. A user who agrees with the others on three items and disagrees on the fourth has a "
        "gradient opposite to the mean that is the fake. (c₂ is not given: doubling it repairs "
        "this, but not fg-thm3-user-factors.)",
        published=(
            Check("200 rounds, ε = 1, δ = 1e-5, many others", _against),
            StepsGame(
                "30 rounds, 600 others",
                _published(
                    2.0, _OFTEN, rounds=30, decay=4 / 3, clip_norm=1.25, fake_clip_norm=1.25
                ),
                data.against(600),
                trials=500,
            ),
        ),
        corrected=(
            StepsGame(
                "whole users, fewer others, three rounds",
                _corrected(rounds=3),
                data.against(100),
                trials=800,
            ),
        ),
        reading="G bounds real gradients and fakes, σ is the least that a gradient of norm G "
        "needs, and the observer sees the initial factors",
        weak={
            "whole users, fewer others, three rounds": "The noise covers a whole user's opposite "
            "gradients, and one rating's gradient is only a part of that; its power is measured in "
            "fg-thm3-norm.",
        },
    ),
    PublishedClaim(
        id="fg-thm3-user-factors",
        sentence=f"{_RATING}; here no gradient is longer than G, and a fake is 0.",
        source=_THEOREM,
        adjacency="rating-add-remove",
        observer="recommender",
        recorded="falsified",
        because="A rating changes u on the user's device, and u enters all of the user's "
        "submissions. The theorem's sum over the rounds contains only the rated item. If a user's "
        "n other ratings cancel, all n submissions change too, each by up to 2G: "
        "μ = G√k √(1 + 4n)/σ at most, so no c₂ is large enough for every n. The same holds for "
        "other neighbours, and for an unseen initial u if the item's factor is long enough; in the "
        "games the observer sees the initial u.",
        published=(
            Check("200 rounds, ε = 1, δ = 1e-5, many others", _undecided),
            Check("one round, c₂ up to 100 times the least", bounds.any_constant),
        ),
        corrected=(
            StepsGame(
                "whole users, of three items, two rounds",
                _corrected(rounds=2),
                data.turned(3),
                trials=2400,
            ),
        ),
    ),
    PublishedClaim(
        id="fg-thm3-sampling",
        sentence=f"{_RATING}, with the σ of rounds in which the rating is sampled with probability "
        "B/|C|; here no gradient is longer than G, and a fake is 0.",
        source=f"{_THEOREM}, the sampling ratio of its source",
        adjacency="rating-add-remove",
        observer="recommender",
        recorded="falsified",
        basis="on a reading",
        because="Sampling amplifies privacy only if the observer does not see who was drawn, but "
        "the server receives every submission with its user and its item. Given that the item was "
        "drawn in m of k rounds, the loss is that of m rounds without sampling.",
        published=(
            StepsGame(
                "40 rounds, one of ten candidates",
                _published(
                    1.0, _OFTEN, rounds=40, decay=4 / 3, clip_norm=1.3, fakes="zero", batch_size=1,
                    amplified=True,
                ),
                data.agreeing(9, 200),
                trials=800,
            ),
        ),
        corrected=(
            StepsGame(
                "whole users, one of three candidates, two rounds",
                _corrected(rounds=2, batch_size=1),
                data.turned(3),
                trials=2_000,
            ),
        ),
        reading="σ is the smaller one of Theorem 3's source for sampled records, and the observer "
        "sees the initial factors",
    ),
)  # fmt: skip

CLAIMS = (*GAUSSIAN, *CHECKS)
