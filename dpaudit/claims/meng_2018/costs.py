"""Costs of one iteration of PrivSR's two algorithms, by counting (Meng et al. 2018).

Each check takes a seed and describes an instance on which its statement fails, or returns None.
Costs are counted in vectors of K numbers that are received, added or updated.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import generator

Held = NDArray[np.bool_]


def _generated(seed: int) -> tuple[Held, Held]:
    """Draw which user holds which item `(N, M)`, with every item held, and friends `(N, N)`."""
    rng = generator(seed)
    users, items = int(rng.integers(2, 30)), int(rng.integers(2, 60))
    held = rng.random((users, items)) < rng.uniform(0.02, 0.5)
    held[rng.integers(0, users, items), np.arange(items)] = True
    friends = np.triu(rng.random((users, users)) < rng.uniform(0, 0.5), 1)
    return held, friends | friends.T


def _vectors(held: Held, friends: Held, sensitive: Held) -> tuple[int, NDArray[np.int64]]:
    """Count the vectors at the recommender and at each user in one iteration of Algorithm 1."""
    users, items = held.shape
    recommender, at_user = 0, np.zeros(users, np.int64)
    for item in range(items):
        for kind in (sensitive, ~sensitive):
            raters = np.flatnonzero(held[:, item] & kind[:, item])
            recommender += len(raters) + bool(len(raters))  # submissions, and h_j for their noise
            at_user[raters] += 2  # the submission, and h_j
        recommender += 1  # v_j
    for user in range(users):
        others = np.flatnonzero(friends[user])
        # Messages received and h_i for each, the terms of the gradient, u_i.
        at_user[user] += 2 * len(others) + held[user].sum() + 1
        at_user[others] += 2
    return recommender, at_user


def ratings_of_an_iteration(seed: int) -> str | None:
    """Algorithm 1: at most 4 |R| vectors at the recommender and 4 (|R_i| + |F_i|) + 1 at a user."""
    rng = generator(seed)
    for instance in range(30):
        held, friends = _generated(seed + instance)
        recommender, at_user = _vectors(held, friends, rng.random(held.shape) < 0.3)
        if recommender > 4 * held.sum():
            return f"{held.sum()} ratings: {recommender} vectors at the recommender"
        if np.any(at_user > 4 * (held.sum(1) + friends.sum(1)) + 1):
            return f"{at_user.max()} vectors at a user"
    return None


def pairs_of_an_iteration(seed: int) -> str | None:
    """Algorithm 2: a user submits at most three vectors for each of their triples that is drawn.

    Lines 5 to 13 make every user submit for every item: for those they hold, those that friends
    hold, and the rest. Here two friends hold equally many items, none in common, and b triples are
    drawn for each.
    """
    items, own = 1000, 5
    held = np.zeros((2, items), bool)
    held[0, :own] = held[1, own : 2 * own] = True
    of_friends = held[::-1] & ~held
    rest = ~held & ~of_friends
    triples = of_friends.sum(1) * (held.sum(1) + rest.sum(1))
    submitted = (held | of_friends | rest).sum(1)
    if np.all(submitted <= 3 * own):
        return None
    return (
        f"two friends hold {own} of {items} items each: D_PF and D_FN have {triples[0]} triples "
        f"for each user, b is about {own}, and {submitted[0]} vectors are submitted in every "
        "iteration"
    )
