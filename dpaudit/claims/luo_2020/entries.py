"""Fake gradients (Luo et al. 2020): what is published of privacy, played and derived."""

from __future__ import annotations

from typing import Any

from dpaudit.bounds.model_based.gdp import gaussian_epsilon
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
    "Normal noise whose σ Theorem 3 gives for a bound G of the gradients makes what a user submits "
    "in k rounds (ε, δ)-differentially private when she adds a rating"
)
# δ is large so that events which show a loss are frequent; the theorem is for every δ.
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
    """Algorithm 2 with one factor.

    The response hardly errs: what the server then takes for an item's mean gradient is one.
    """
    return FakeGradients(epsilon=epsilon, delta=delta, **{**_SET, **params})


def _against(seed: int) -> str | None:
    """A gradient against the mean, beside so many others that these are as good as all."""
    defense = _published(
        1.0, 1e-5, rounds=200, decay=4 / 3, bound=1.15, fake_bound=1.15, spread=0.01
    )
    return many_others(defense, data.against(1000), seed)


def _undecided(seed: int) -> str | None:
    """Twelve other items that move along, beside many others."""
    defense = _published(1.0, 1e-5, rounds=200, decay=0.2, bound=0.45, fakes="zero", spread=0.01)
    return many_others(defense, data.undecided(12, 300), seed)


def _corrected(**params: Any) -> FakeGradients:
    """Whole users, at the default δ; factors so large that every submission is cut."""
    return FakeGradients(
        epsilon=2.0, variant="corrected", density=0.0, offset=3.0, bound=0.1, **params
    )


def _cut() -> Estimate:
    """Of opposite gradients, both cut to the norm that is kept, a hair below the bound."""
    defense = _corrected(rounds=1)
    ratings = data.turned(1).before
    sigma = defense.sigma(defense.prepare(ratings))
    mu = 2 * defense.bound * (1 - 1e-5) / sigma
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
        because="The theorem is Abadi et al.'s of gradients that are cut to the norm G. Algorithm "
        "2 has no G among its inputs, cuts nothing and checks nothing. No G follows from the scale "
        "of the ratings: a fit to n of them has a gradient √(n/λ) r²/4. That “the regularization "
        "term bound the norm” (section 4.2) is so of a minimum; V is a sum with normal noise, so "
        "that from the second round on no G holds surely. The missing condition is ‖g‖ ≤ G, kept "
        "by a cut, with constants that are given; even then the claim is false: "
        "fg-thm3-user-factors.",
        published=(
            Check("every G up to 10⁴ is exceeded", bounds.every_bound_is_exceeded),
        ),
        reading="the formula is lost from the text at hand: σ as in the theorem's source",
    ),
    PublishedClaim(
        id="fg-thm3-norm",
        sentence=f"{_RATING}; here G = 0.25.",
        source=f"{_THEOREM}, section 4",
        adjacency="rating-add-remove",
        observer="recommender",
        recorded="falsified",
        basis="on a reading",
        because="The theorem wants ‖g‖ ≤ G; the text takes G for “a prior bound” that need not be "
        "written. Whatever G is chosen, data are found on which gradients are longer. Here they "
        "are 1 long and 2 from the fake, 8 G. On MovieLens-100K, with G = 1 and users' factors of "
        "norm 2, one rating has more than is claimed in 10 rounds. Without a G that is chosen the "
        "theorem is fg-thm3-printed.",
        published=(
            StepsGame(
                "12 rounds, gradients of length 1",
                _published(1.0, 0.01, rounds=12, decay=4 / 3, memory=0.99999, bound=0.25),
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
        reading="G is chosen beforehand, not known to hold, and Algorithm 2 is as printed; σ is "
        "the least that a gradient of norm G needs; the initial factors are seen",
    ),
    PublishedClaim(
        id="fg-thm3-fake",
        sentence=f"{_RATING}; here no gradient and no fake is longer than G.",
        source=_THEOREM,
        adjacency="rating-add-remove",
        observer="recommender",
        recorded="falsified",
        basis="on a reading",
        because="The theorem compares a gradient with nothing. Who adds a rating puts a gradient "
        "in place of a fake F: they may be 2G apart, so that μ = 2G√k/σ where G√k/σ is paid for. "
        "A user who agrees with the others on three items and not on the fourth has a gradient "
        "against the mean that is faked. (c₂ is not given: one twice as large mends this, and not "
        "fg-thm3-user-factors.)",
        published=(
            Check("200 rounds, ε = 1, δ = 1e-5, many others", _against),
            StepsGame(
                "30 rounds, 600 others",
                _published(2.0, _OFTEN, rounds=30, decay=4 / 3, bound=1.25, fake_bound=1.25),
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
        reading="G bounds real gradients and fakes alike, σ is the least that a gradient of norm G "
        "needs, and the initial factors are seen",
        weak={
            "whole users, fewer others, three rounds": "One rating's gradient is a part of what "
            "the noise is for, a whole user's opposite gradients; its power is measured on these, "
            "in fg-thm3-norm.",
        },
    ),
    PublishedClaim(
        id="fg-thm3-user-factors",
        sentence=f"{_RATING}; here no gradient is longer than G, and a fake is 0.",
        source=_THEOREM,
        adjacency="rating-add-remove",
        observer="recommender",
        recorded="falsified",
        because="A rating moves u on the user's device, and u is in all that they submit. The "
        "theorem's sum over the rounds has the rated item alone. Of a user with n other ratings "
        "that leave them undecided all n submissions move too, each by up to 2G: μ = G√k √(1 + "
        "4n)/σ at most, so that no c₂ is large enough for every n. So it is of any neighbours, and "
        "where u begins unseen, if the item's factor is long enough; in the games it is seen.",
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
        sentence=f"{_RATING}, σ being that of rounds in which she takes part with probability "
        "B/|C|; here no gradient is longer than G, and a fake is 0.",
        source=f"{_THEOREM}, the sampling ratio of its source",
        adjacency="rating-add-remove",
        observer="recommender",
        recorded="falsified",
        basis="on a reading",
        because="Sampling amplifies where nobody sees who was drawn. The server gets every "
        "submission with its user and its item. Given that the item was drawn m times of k the "
        "loss is that of m rounds without sampling.",
        published=(
            StepsGame(
                "40 rounds, one of ten candidates",
                _published(
                    1.0, _OFTEN, rounds=40, decay=4 / 3, bound=1.3, fakes="zero", batch=1,
                    amplified=True,
                ),
                data.alike(9, 200),
                trials=800,
            ),
        ),
        corrected=(
            StepsGame(
                "whole users, one of three candidates, two rounds",
                _corrected(rounds=2, batch=1),
                data.turned(3),
                trials=800,
            ),
        ),
        reading="σ is the smaller one that Theorem 3's source has for sampled records, and the "
        "initial factors are seen",
    ),
)  # fmt: skip

CLAIMS = (*GAUSSIAN, *CHECKS)
