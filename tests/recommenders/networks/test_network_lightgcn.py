"""LightGCN against a dense derivation in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.recommenders.networks.settings import Settings

torch = pytest.importorskip("torch")
pairs = pytest.importorskip("dpaudit.recommenders.networks.network")

USERS, ITEMS = 5, 7
SETTINGS = Settings(3, 1, 1.0, 0.01, negatives=2, layers=3)


def data(seed: int) -> Interactions:
    user, item = np.nonzero(np.random.default_rng(seed).random((USERS, ITEMS)) < 0.4)
    ratings = Ratings.build(
        user, item, np.ones(len(user), np.float32), USERS, ITEMS, Scale(1, 1, 1)
    )
    return Interactions.of(ratings)


def averaged(matrix: np.ndarray, factors: np.ndarray) -> np.ndarray:
    links = np.block([[np.zeros((USERS, USERS)), matrix], [matrix.T, np.zeros((ITEMS, ITEMS))]])
    root = np.sqrt(np.maximum(links.sum(1), 1))
    adjacency = links / np.outer(root, root)
    powers = [np.linalg.matrix_power(adjacency, k) for k in range(4)]
    return np.asarray(np.sum(powers, axis=0) @ factors / 4)


def test_factors_are_averages_over_the_normalised_adjacency() -> None:
    network = pairs.LightGCN(SETTINGS, data(1), np.random.default_rng(3))
    before = network.factors.weight.detach().numpy()
    expected = averaged(data(1).matrix.toarray(), before)
    np.testing.assert_allclose(network.propagated().detach(), expected, atol=1e-6)


def test_the_loss_and_its_gradient_are_those_of_bpr_on_the_averages() -> None:
    interactions = data(1)
    network = pairs.LightGCN(SETTINGS, interactions, np.random.default_rng(3))
    factors = network.factors.weight
    records = np.array([0, 2, 5])
    # Replay the draws: factors, then negatives.
    source = np.random.default_rng(3)
    source.standard_normal((USERS + ITEMS, 3), np.float32)
    others = source.integers(ITEMS, size=(3, 2))

    def loss(values: np.ndarray) -> float:
        last = averaged(interactions.matrix.toarray(), values)
        users, items = (index[records] for index in interactions.matrix.tocoo().coords)
        total = 0.0
        for user, item, rest in zip(users, items, USERS + others, strict=True):
            rows = values[[user, USERS + item, *rest]]
            total += 1e-4 / 2 * (rows**2).sum()
            for other in rest:
                margin = last[user] @ (last[USERS + item] - last[other])
                total += np.log1p(np.exp(-margin))
        return float(total)

    value = network.loss(records, 0.0)
    value.backward()
    before = factors.detach().numpy().astype(np.float64)
    assert value.item() == pytest.approx(loss(before), rel=1e-5)
    step = 1e-5 * np.random.default_rng(9).standard_normal(before.shape)
    slope = (loss(before + step) - loss(before - step)) / 2
    assert float((factors.grad.numpy() * step).sum()) == pytest.approx(slope, rel=1e-3)
