"""Networks on sequences against PyTorch's own layers, and what order they read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.recommenders.networks.settings import Settings
from dpaudit.recommenders.torch import Torch

torch = pytest.importorskip("torch")
gru4rec = pytest.importorskip("dpaudit.recommenders.networks.gru4rec")
sasrec = pytest.importorskip("dpaudit.recommenders.networks.sasrec")
sequences = pytest.importorskip("dpaudit.recommenders.networks.sequences")

ITEMS, LENGTH = 12, 5
SETTINGS = Settings(8, 1, 1.0, 0.01, negatives=2, layers=2, heads=2, length=LENGTH, dropout=0.1)
FORMS = pytest.mark.parametrize("form", [gru4rec.GRU4Rec, sasrec.SASRec])


def of(user: Any, item: Any, time: Any = None, value: Any = None, users: int = 3) -> Interactions:
    value = np.ones(len(user)) if value is None else np.asarray(value)
    time = None if time is None else np.asarray(time, float)
    scale = Scale(0, 1, 1)
    ratings = Ratings.build(
        np.asarray(user), np.asarray(item), value.astype(np.float32), users, ITEMS, scale, time=time
    )
    return Interactions.of(ratings)


def stack(form: Any) -> Any:
    data = [of([0, 0, 1], [2, 3, 4]), of([0, 0, 2], [5, 6, 7])]
    model = form(SETTINGS, data, [np.random.default_rng(s) for s in (1, 2)], "cpu")
    for name, parameter in model.parameters.items():
        if name.endswith(("bias", "shift", "scale", "biases")):
            # Other numbers than those that change nothing.
            parameter.add_(torch.linspace(-0.5, 0.5, parameter.numel()).view_as(parameter))
    return model


def drawn() -> Any:
    return np.random.default_rng(3).integers(ITEMS, size=(2, 4, LENGTH))


def plain(_: Any) -> float:
    return 1.0


def test_sequences_are_cut_into_pieces_in_order_of_time_without_ratings_of_zero() -> None:
    items = [3, 1, 4, 5, 9, 2, 6, 7]
    user, value = [0] * 8 + [2], [1, 1, 1, 1, 0, 1, 1, 1, 1]
    data = of(user, [*items, 11], [0, 1, 2, 3, 4, 5, 6, 7, 0], value)
    cut = sequences.pieces(data, 4)
    np.testing.assert_array_equal(cut.items, [[3, 1, 4, 5], [2, 6, 0, 0]])
    np.testing.assert_array_equal(cut.following, [[1, 4, 5, 2], [6, 7, 0, 0]])
    np.testing.assert_array_equal(cut.weights, [[1, 1, 1, 1], [1, 1, 0, 0]])
    np.testing.assert_array_equal(cut.last, [[5, 2, 6, 7], [0, 0, 0, 0], [11, 0, 0, 0]])
    np.testing.assert_array_equal(cut.counts, [4, 0, 1])


def test_states_of_gru4rec_are_those_of_pytorch() -> None:
    model, items = stack(gru4rec.GRU4Rec), drawn()
    states = model.states(items, plain).numpy()
    for w in range(2):
        reference = torch.nn.GRU(ITEMS, 8, batch_first=True)
        weights = {name: part[w] for name, part in model.parameters.items()}
        reference.weight_ih_l0.data = weights["inputs"].T.contiguous()
        reference.bias_ih_l0.data = weights["inputs.bias"]
        reference.weight_hh_l0.data = weights["recurrent.weight"]
        reference.bias_hh_l0.data = weights["recurrent.bias"]
        onehot = torch.nn.functional.one_hot(torch.from_numpy(items[w]), ITEMS).float()
        np.testing.assert_allclose(states[w], reference(onehot)[0].detach().numpy(), atol=1e-5)


def test_states_of_sasrec_are_those_of_layers_of_pytorch() -> None:
    model, items = stack(sasrec.SASRec), drawn()
    states = model.states(items, plain).numpy()
    mask = torch.nn.Transformer.generate_square_subsequent_mask(LENGTH)
    for w in range(2):
        weights = {name: part[w] for name, part in model.parameters.items()}
        x = weights["items"][items[w]] * 8**0.5 + weights["places"]
        for block in range(2):
            layer = torch.nn.TransformerEncoderLayer(
                8, 2, 8, 0.0, layer_norm_eps=1e-8, batch_first=True, norm_first=True
            )
            own = dict(layer.named_parameters())
            # Ours has no layer behind the heads.
            own["self_attn.out_proj.weight"].data = torch.eye(8)
            own["self_attn.out_proj.bias"].data = torch.zeros(8)
            for theirs, name in (
                ("self_attn.in_proj_weight", "attention.weight"),
                ("self_attn.in_proj_bias", "attention.bias"),
                ("norm1.weight", "attention.scale"),
                ("norm1.bias", "attention.shift"),
                ("norm2.weight", "layers.scale"),
                ("norm2.bias", "layers.shift"),
                ("linear1.weight", "layers.0.weight"),
                ("linear1.bias", "layers.0.bias"),
                ("linear2.weight", "layers.1.weight"),
                ("linear2.bias", "layers.1.bias"),
            ):
                own[theirs].data = weights[f"{block}.{name}"]
            x = layer(x, mask, is_causal=True)
        normal = torch.nn.functional.layer_norm(x, (8,), eps=1e-8)
        expected = normal * weights["last.scale"] + weights["last.shift"]
        np.testing.assert_allclose(states[w], expected.detach().numpy(), atol=1e-4)


@FORMS
def test_an_item_changes_no_earlier_state(form: Any) -> None:
    model, items = stack(form), drawn()
    before = model.states(items, plain).numpy()
    items[:, :, 3] = (items[:, :, 3] + 1) % ITEMS
    after = model.states(items, plain).numpy()
    np.testing.assert_array_equal(after[:, :, :3], before[:, :, :3])
    assert (abs(after - before)[:, :, 3:].max(3) > 1e-4).all()


def test_the_loss_of_gru4rec_is_cross_entropy() -> None:
    model = stack(gru4rec.GRU4Rec)
    states, following = torch.randn(2, 4, LENGTH, 8), drawn()
    model.sources = [np.random.default_rng(s) for s in (1, 2)]
    losses = model.losses(states, following).numpy()
    outputs, biases = (part.numpy() for part in model.outputs())
    for w in range(2):
        others = np.random.default_rng(w + 1).integers(ITEMS, size=2)
        scores = states[w].numpy() @ outputs[w].T + biases[w]
        wanted = np.take_along_axis(scores, following[w][..., None], 2)
        rest = scores[..., others]
        expected = np.log(1 + np.exp(rest - wanted).sum(2))
        np.testing.assert_allclose(losses[w], expected, rtol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("model", ["sasrec", "gru4rec"])
def test_the_next_item_of_a_walk_is_predicted_if_times_are_in_order(model: Any) -> None:
    users, steps = 40, 8
    source = np.random.default_rng(1)
    start = source.integers(ITEMS, size=users)
    user, item = np.repeat(np.arange(users), steps), (start[:, None] + np.arange(steps)) % ITEMS
    recommender = Torch(
        model, dimensions=16, epochs=30, sampling_rate=0.2, learning_rate=0.02, length=LENGTH
    )

    def hits(time: Any) -> float:
        data = of(user, item.reshape(-1), time.reshape(-1), users=users)
        lists = recommender.fit(data, 1).recommend(np.arange(users, dtype=np.int32), 1)
        return float((lists[:, 0] == (start + steps) % ITEMS).mean())

    ordered = np.tile(np.arange(steps), (users, 1))
    assert hits(ordered) > 0.8
    assert hits(source.permuted(ordered, axis=1)) < 0.6


def test_a_user_without_items_has_the_scores_of_the_biases() -> None:
    [first, _] = stack(gru4rec.GRU4Rec).models()
    rows = first.rows(np.array([2], np.int32))
    np.testing.assert_array_equal(rows, first.items[None, :, -1])
