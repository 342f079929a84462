"""Mult-VAE against a derivation in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.recommenders.networks.settings import Settings

torch = pytest.importorskip("torch")
multvae = pytest.importorskip("dpaudit.recommenders.networks.training")

USERS, ITEMS, D = 6, 9, 2


def network(dropout: float) -> Any:
    user, item = np.nonzero(np.random.default_rng(1).random((USERS, ITEMS)) < 0.4)
    ratings = Ratings.build(
        user, item, np.ones(len(user), np.float32), USERS, ITEMS, Scale(1, 1, 1)
    )
    settings = Settings(D, 1, 1.0, 0.01, dropout=dropout)
    return multvae.MultVAE(settings, Interactions.of(ratings), np.random.default_rng(3))


def test_the_loss_is_the_bound_on_the_multinomial_likelihood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = network(0.0)
    noise = np.random.default_rng(5).standard_normal((16, D)).astype(np.float32)

    class Fixed:
        def standard_normal(self, shape: Any, kind: Any) -> Any:
            assert shape == noise.shape
            return noise.astype(kind)

        def bytes(self, size: int) -> bytes:
            return bytes(size)

    model.source = Fixed()
    records = np.array([0, 1, 4])
    value = model.loss(records, 0.5).item()
    weights = {name: part.detach().numpy() for name, part in model.named_parameters()}

    def layer(name: str, inputs: Any) -> Any:
        return inputs @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    x = model.interactions.matrix.toarray()[records]
    assert (x.sum(1) > 0).all()
    hidden = np.tanh(layer("encoder", x / np.linalg.norm(x, axis=1, keepdims=True)))
    mean, log_variance = np.split(layer("code", hidden), 2, axis=1)
    code = mean + noise[:3] * np.exp(log_variance / 2)
    scores = layer("last", np.tanh(layer("decoder", code)))
    likelihood = (x * (scores - np.log(np.exp(scores).sum(1, keepdims=True)))).sum()
    divergence = (np.exp(log_variance) + mean**2 - 1 - log_variance).sum() / 2
    assert value == pytest.approx(0.2 * 0.5 * divergence - likelihood, rel=1e-5)


def test_scores_are_those_of_the_mean_code() -> None:
    model = network(0.5).eval()
    mean, _ = model.encoded(torch.from_numpy(model.interactions.matrix.toarray()))
    expected = model.last(model.decoded(mean)).detach()
    np.testing.assert_allclose(model.fitted().rows(np.arange(USERS)), expected, atol=1e-6)


def test_dropped_units_are_a_share_and_the_mean_stays() -> None:
    model = network(0.25)
    kept = model.dropped(torch.ones(200, 500)).numpy()
    assert set(np.unique(kept)) == {np.float32(0), np.float32(1 / 0.75)}
    assert kept.mean() == pytest.approx(1, abs=0.01)
    units = torch.rand(3, 4)
    assert model.eval().dropped(units) is units
