"""How far a published chain is from the law that it is to sample (Park & Acharya 2011, Fig. 4(b)).

Nothing is sampled: the law of the state after every number of steps is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.profile import Profile
from dpaudit.defenses.base import ListDefense
from dpaudit.defenses.item_model import ItemModel

# The states that the paper's figure compares at most.
FIRST = 10
STATES: dict[str, int | None] = {f"first {FIRST} states": FIRST, "all states": None}


def chosen_users(users: Sequence[Profile], count: int, seed: int) -> list[Profile]:
    """So many of the users, drawn without replacement; all where there are no more."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, *b"convergence"]))
    picked = np.sort(rng.permutation(len(users))[:count])
    return [users[int(place)] for place in picked]


def mean_divergence(
    defense: ListDefense,
    model: ItemModel,
    profiles: Sequence[Profile],
    steps: Sequence[int],
    *,
    threads: int = 1,
) -> dict[str, NDArray[np.float64]]:
    """`KL(law after t steps ‖ stationary law)` in nats, its mean over users, by `STATES` `(S,)`.

    Args:
        defense: the published mechanism; its own number of steps does not matter.
        model: its prepared statistics.
        profiles: the users whose chains are compared.
        steps: the numbers of steps, increasing.
        threads: number of threads; it does not change the result.
    """

    def of(profile: Profile) -> NDArray[np.float64]:
        chain = defense.chain(defense.exact(model, profile))
        laws = chain.laws(steps)
        return np.stack([chain.divergence_of(laws, top) for top in STATES.values()])

    with ThreadPoolExecutor(max_workers=threads) as pool:
        mean = np.mean(list(pool.map(of, profiles)), axis=0)
    return dict(zip(STATES, mean, strict=True))
