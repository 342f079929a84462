"""The divergence of a published chain, as it is averaged over users."""

from __future__ import annotations

import numpy as np
import pytest
from executors import on_threads  # type: ignore[import-not-found]
from numpy.typing import NDArray

from dpaudit.audits.on_demand.measures import ALL, EXPLORED, MOST, chosen_users, mean_divergence
from dpaudit.core.releases import Profile
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.defenses.top_k.laws import SetChain

STEPS = [0, 1, 7, 50]


def random_ratings() -> Ratings:
    rng = np.random.default_rng(3)
    profiles = []
    for _ in range(14):
        items = rng.permutation(30)[: int(rng.integers(6, 15))]
        profiles.append([(int(i), float(rng.integers(1, 6))) for i in items])
    return from_profiles(profiles, 30, Scale())


def kept(chain: SetChain, steps: int) -> NDArray[np.float64]:
    """The law of the state by powers of the whole transition matrix."""
    stay = np.maximum(1 - chain.up - chain.down, 0)
    move = np.diag(stay) + np.diag(chain.up[:-1], 1) + np.diag(chain.down[1:], -1)
    law: NDArray[np.float64] = np.linalg.matrix_power(move, steps)[0]
    return law


def divergence(law: NDArray[np.float64], limit: NDArray[np.float64]) -> float:
    law, limit = law / law.sum(), limit / limit.sum()
    seen = law > 0
    return float((law[seen] * np.log(law[seen] / limit[seen])).sum())


@pytest.mark.parametrize("epsilon", [0.1, 10.0])
def test_it_is_the_mean_over_users_of_the_divergence_of_the_matrix_power(epsilon: float) -> None:
    ratings = random_ratings()
    defense = TopK(epsilon=epsilon, min_ratings=5, top_k=3, min_co_ratings=2, u_s="largest-rate")
    model = defense.prepare(ratings)
    profiles = [ratings.profile(user) for user in range(5)]
    divergences = mean_divergence(defense, model, profiles, STEPS)
    again = mean_divergence(defense, model, profiles, STEPS, executor=on_threads(2))
    assert list(divergences) == list(again) == [EXPLORED, ALL]
    for states, top in ((EXPLORED, MOST), (ALL, None)):
        assert divergences[states].tolist() == again[states].tolist()
        for value, steps in zip(divergences[states], STEPS, strict=True):
            expected = []
            for profile in profiles:
                chain = defense.chain(defense.exact(model, profile))
                assert len(chain.up) > MOST
                laws = kept(chain, steps), chain.stationary
                shares = chain.explored(STEPS[-1], MOST) if top else [1.0]
                by_top = [divergence(*(law[:k] for law in laws)) for k in range(1, MOST + 1)]
                expected.append(np.dot(shares, by_top if top else [divergence(*laws)]))
            assert value == pytest.approx(np.mean(expected), abs=1e-9)
        assert divergences[states][0] > divergences[states][-1]
    # Ten states of more than ten: the two are not the same number.
    assert (divergences[EXPLORED] != divergences[ALL]).all()


def test_a_chain_of_tiny_time_steps_explores_one_state_and_diverges_on_all() -> None:
    # Section 4.5: with Δt = 1e-8 "the divergence is 0 since the beginning", of one state.
    ratings = random_ratings()
    defense = TopK(epsilon=10, min_ratings=5, top_k=3, min_co_ratings=2, u_s=1e8)
    profiles = [ratings.profile(0)]
    divergences = mean_divergence(defense, defense.prepare(ratings), profiles, [0, 1000])
    assert (divergences[EXPLORED] < 1e-4).all()
    assert (divergences[ALL] > 0.1).all()
    assert divergences[ALL][1] == pytest.approx(divergences[ALL][0], rel=1e-3)


def test_users_are_drawn_without_replacement() -> None:
    users = [
        Profile(np.arange(k + 1, dtype=np.int32), np.ones(k + 1, np.float32)) for k in range(20)
    ]
    some = [len(user) for user in chosen_users(users, 8, 1)]
    assert len(set(some)) == 8
    assert [len(user) for user in chosen_users(users, 8, 1)] == some
    assert [len(user) for user in chosen_users(users, 8, 2)] != some
    assert [len(user) for user in chosen_users(users, 100, 1)] == list(range(1, 21))
