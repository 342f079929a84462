"""PrivSR, ranking form (Meng et al. 2018): what is published of privacy, played."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpaudit.auditor.games.trained import DataPair
from dpaudit.bounds.model_based.gdp import gaussian_epsilon, gaussian_mu
from dpaudit.claims.entry import PublishedClaim
from dpaudit.claims.meng_2018.games import ItemsGame
from dpaudit.claims.trained_games import StepsGame
from dpaudit.core.estimate import Estimate
from dpaudit.data.instances import from_profiles
from dpaudit.data.neighbors import RatingAdded, UserReplaced, apply
from dpaudit.data.ratings import Friends, Scale
from dpaudit.defenses.social.ranking import PrivSRRanking

_FRIENDS = 5
_HELD = Scale(1, 1, 1)

# One factor and one round, which begins with u = v = 1; all triples, so that sums are exact.
_PLAIN: dict[str, Any] = {
    "dimensions": 1,
    "rounds": 1,
    "decay": 0.0,
    "start": "constant",
    "spread": 1.0,
    "triples": "all",
}


def published(**params: Any) -> PrivSRRanking:
    """The ranking form with ε = 0.5."""
    return PrivSRRanking(**{"epsilon": 0.5, **_PLAIN, **params})


def corrected(**params: Any) -> PrivSRRanking:
    """Whole users with ε = 2 and the default δ."""
    return PrivSRRanking(**{"epsilon": 2.0, "variant": "corrected", **_PLAIN, **params})


def bought(kept: bool = False) -> DataPair:
    """A user whose friend shares five items buys one that neither had.

    Args:
        kept: whether another user keeps every item private, so that both kinds of noise are there.
    """
    others = [(item, 1.0) for item in range(2, 2 + _FRIENDS)]
    everything = [(item, 1.0) for item in range(_FRIENDS + 4)]
    profiles = [[(0, 1.0)], others, *([everything] if kept else [])]
    plain = from_profiles(profiles, _FRIENDS + 4, _HELD)
    links = Friends.build(np.array([0]), np.array([1]), len(profiles))
    before = replace(plain, friends=links, sensitive=plain.user == 2)
    words = f"a user whose friend shares {_FRIENDS} items buys one that neither had"
    more = "; another user keeps all items private" if kept else ""
    return DataPair(before, apply(before, RatingAdded(0, 1, 1.0)), before, words + more)


def opposed() -> DataPair:
    """The worst pair of the corrected form: what a user holds and what she does not change places.

    Every triple turns around, and with it all that she submits; it is so long that it is cut.
    """
    plain = from_profiles([[(item, 1.0) for item in range(3)], [(6, 1.0)]], 7, _HELD)
    nobody = np.zeros(0, np.int64)
    before = replace(plain, friends=Friends.build(nobody, nobody, 2))
    theirs = UserReplaced(0, np.arange(3, 6, dtype=np.int32), np.ones(3, np.float32))
    return DataPair(
        before,
        apply(before, theirs),
        before,
        "a user who holds three of seven items gives way to one who holds three others",
    )


def _cut(secure: bool = False) -> StepsGame:
    """Opposite submissions, both cut to the norm that is kept."""
    defense = corrected(summation="secure", insiders=0) if secure else corrected()
    mu = gaussian_mu(defense.epsilon, defense.delta) * (1 - 1e-5)
    law = Estimate.exact(gaussian_epsilon(mu, defense.delta), "normal noise, opposite submissions")
    seen = "sums alone are seen" if secure else "each with noise of her own"
    return StepsGame(f"whole users, {seen}, their worst pair", defense, opposed(), law, 2_000)


_LITTLE = (
    "One purchase of a user with another turns only a part of what she submits, and the noise is "
    "for all of it turned around."
)

CLAIMS = (
    PublishedClaim(
        id="privsr-thm4",
        sentence="The extended PrivSR, which ranks, is ε-differentially private.",
        source="Meng et al. 2018, Theorem 4, section 6.4; neighbours of section 3.2",
        adjacency="rating-add-remove",
        observer="recommender",
        recorded="falsified",
        because="Section 6.4 bounds what one triple moves, |ψ̃ − ψ| < 1. A purchase moves its item "
        "from N to P, and ψ_jk + ψ_kj = 1: its sum moves by |F| u and that of every item of "
        "friends by −u, whatever the scores, 2|F| in all. The noise is for 1, and where nobody "
        "keeps an item it is Lap(√K/ε_n): ε' = 2|F| (1 + 1/β) ε. Besides, all that fails in the "
        "rating form fails here.",
        published=(
            ItemsGame(
                "V after one round, |F| = 5, β = 1, nobody keeps anything",
                published(), bought(),
                truth=Estimate.exact(10.0, "Laplace noise of the sums"), trials=3_000,
            ),
            ItemsGame(
                "V after one round, |F| = 5, β = 1, both kinds of noise",
                published(), bought(kept=True),
                truth=Estimate.exact(10 / 2**0.5, "Laplace noise of the sums, both kinds, one h"),
                trials=3_000,
            ),
            StepsGame(
                "the recommender, one round, |F| = 5, β = 1", published(), bought(),
                truth=Estimate.exact(math.inf, "normal noise, whose size is seen, maybe near 0"),
                trials=2_000,
            ),
        ),
        corrected=(
            StepsGame("whole users, each with noise of her own", corrected(), bought(),
                      trials=2_000),
            StepsGame("whole users, sums alone are seen", corrected(summation="secure"), bought(),
                      trials=2_000),
            _cut(), _cut(secure=True),
        ),
        weak={
            "whole users, each with noise of her own": _LITTLE,
            "whole users, sums alone are seen": _LITTLE,
        },
        reading="an item is bought or not: a feedback in this form has no other value",
    ),
)  # fmt: skip
