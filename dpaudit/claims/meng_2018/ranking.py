"""PrivSR, ranking form (Meng et al. 2018): the privacy claim, with its games."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpaudit.audits.trained.trained_game import DataPair
from dpaudit.bounds.gdp import gaussian_epsilon, gaussian_mu
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

# One factor and one round that starts from u = v = 1; all triples, so that sums are exact.
_PLAIN: dict[str, Any] = {
    "dimensions": 1,
    "rounds": 1,
    "decay": 0.0,
    "start": "constant",
    "spread": 1.0,
    "triples": "all",
}


def published(**params: Any) -> PrivSRRanking:
    """Return the published ranking form with ε = 0.5."""
    return PrivSRRanking(**{"epsilon": 0.5, **_PLAIN, **params})


def corrected(**params: Any) -> PrivSRRanking:
    """Return the corrected form, which protects whole users, with ε = 2 and the default δ."""
    return PrivSRRanking(**{"epsilon": 2.0, "variant": "corrected", **_PLAIN, **params})


def bought(kept: bool = False) -> DataPair:
    """Return the pair in which a user with one friend, who holds five items, buys a new item.

    Args:
        kept: whether another user keeps all items private, so that both kinds of noise are present.
    """
    others = [(item, 1.0) for item in range(2, 2 + _FRIENDS)]
    everything = [(item, 1.0) for item in range(_FRIENDS + 4)]
    profiles = [[(0, 1.0)], others, *([everything] if kept else [])]
    plain = from_profiles(profiles, _FRIENDS + 4, _HELD)
    links = Friends.build(np.array([0]), np.array([1]), len(profiles))
    before = replace(plain, friends=links, sensitive=plain.user == 2)
    words = f"a user whose friend shares {_FRIENDS} items buys an item that neither of them had"
    more = "; another user keeps all items private" if kept else ""
    return DataPair(before, apply(before, RatingAdded(0, 1, 1.0)), before, words + more)


def opposed() -> DataPair:
    """Return the worst pair of the corrected form: the user's items are replaced by others.

    Every triple is reversed, and with it the user's whole submission, which is longer than the
    clipping norm.
    """
    plain = from_profiles([[(item, 1.0) for item in range(3)], [(6, 1.0)]], 7, _HELD)
    nobody = np.zeros(0, np.int64)
    before = replace(plain, friends=Friends.build(nobody, nobody, 2))
    theirs = UserReplaced(0, np.arange(3, 6, dtype=np.int32), np.ones(3, np.float32))
    return DataPair(
        before,
        apply(before, theirs),
        before,
        "a user who holds three of seven items is replaced by one who holds three others",
    )


def _cut(secure: bool = False) -> StepsGame:
    """Return the game on opposite submissions, both cut to the clipping norm."""
    defense = corrected(summation="secure", insiders=0) if secure else corrected()
    mu = gaussian_mu(defense.epsilon, defense.delta) * (1 - 1e-5)
    law = Estimate.exact(gaussian_epsilon(mu, defense.delta), "normal noise, opposite submissions")
    seen = "sums alone are seen" if secure else "each with their own noise"
    return StepsGame(f"whole users, {seen}, their worst pair", defense, opposed(), law, 2_000)


_LITTLE = (
    "One purchase of a user who has another one reverses only a part of the submission, and the "
    "noise covers the reversal of all of it."
)

CLAIMS = (
    PublishedClaim(
        id="privsr-thm4",
        sentence="The extended PrivSR, for ranking, is ε-differentially private.",
        source="Meng et al. 2018, Theorem 4, section 6.4; neighbours of section 3.2",
        adjacency="rating-add-remove",
        observer="recommender",
        recorded="falsified",
        because="Section 6.4 bounds the change of one triple, |ψ̃ − ψ| < 1. A purchase moves its "
        "item from N to P, and ψ_jk + ψ_kj = 1: the item's sum changes by |F| u and that of every "
        "item of friends by −u, whatever the scores, 2|F| in all. The noise covers a change of 1, "
        "and for an item that nobody keeps private it is Lap(√K/ε_n): ε' = 2|F| (1 + 1/β) ε. In "
        "addition, everything that fails in the rating form fails here.",
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
            StepsGame("whole users, each with their own noise", corrected(), bought(),
                      trials=2_000),
            StepsGame("whole users, sums alone are seen", corrected(summation="secure"), bought(),
                      trials=2_000),
            _cut(), _cut(secure=True),
        ),
        weak={
            "whole users, each with their own noise": _LITTLE,
            "whole users, sums alone are seen": _LITTLE,
        },
        reading="an item is bought or not; a feedback in this form has no other value",
    ),
)  # fmt: skip
