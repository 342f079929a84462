"""Networks on sequences against PyTorch's own layers, and what order they read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.recommenders.histories import AnswersHistories
from dpaudit.recommenders.networks.settings import Settings
from dpaudit.recommenders.torch import Torch

torch = pytest.importorskip("torch")
sequences = pytest.importorskip("dpaudit.recommenders.networks.training")

ITEMS, LENGTH = 12, 5
SETTINGS = Settings(8, 1, 1.0, 0.01, negatives=2, layers=2, heads=2, length=LENGTH, dropout=0.1)
FORMS = pytest.mark.parametrize("form", [sequences.GRU4Rec, sequences.SASRec])


def of(user: Any, item: Any, time: Any = None, value: Any = None, users: int = 3) -> Interactions:
    value = np.ones(len(user)) if value is None else np.asarray(value)
    time = None if time is None else np.asarray(time, float)
    scale = Scale(0, 1, 1)
    ratings = Ratings.build(
        np.asarray(user), np.asarray(item), value.astype(np.float32), users, ITEMS, scale, time=time
    )
    return Interactions.of(ratings)


def network(form: Any) -> Any:
    """A network whose states need no gradient and drop nothing."""
    model = form(SETTINGS, of([0, 0, 1], [2, 3, 4]), np.random.default_rng(1)).eval()
    for parameter in model.requires_grad_(False).parameters():
        if parameter.ndim == 1:
            # Other numbers than those that change nothing.
            parameter.add_(torch.linspace(-0.5, 0.5, parameter.numel()))
    return model


def drawn() -> Any:
    return torch.from_numpy(np.random.default_rng(3).integers(ITEMS, size=(4, LENGTH)))


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
    model, items = network(sequences.GRU4Rec), drawn()
    reference = torch.nn.GRU(ITEMS, 8, batch_first=True)
    reference.weight_ih_l0.data = model.inputs.T.contiguous()
    reference.bias_ih_l0.data = model.inputs_bias
    reference.weight_hh_l0.data = model.recurrent
    reference.bias_hh_l0.data = model.recurrent_bias
    expected = reference(torch.nn.functional.one_hot(items, ITEMS).float())[0]
    np.testing.assert_allclose(model(items), expected.detach(), atol=1e-5)


def test_states_of_sasrec_are_those_of_layers_of_pytorch() -> None:
    model, items = network(sequences.SASRec), drawn()
    mask = torch.nn.Transformer.generate_square_subsequent_mask(LENGTH)
    x = model.items.weight[items] * 8**0.5 + model.places.weight
    for block in model.blocks:
        layer = torch.nn.TransformerEncoderLayer(
            8, 2, 8, 0.0, layer_norm_eps=1e-8, batch_first=True, norm_first=True
        )
        own, ours = dict(layer.named_parameters()), dict(block.named_parameters())
        # Ours has no layer behind the heads.
        own["self_attn.out_proj.weight"].data = torch.eye(8)
        own["self_attn.out_proj.bias"].data = torch.zeros(8)
        for theirs, name in (
            ("self_attn.in_proj_weight", "attention.weight"),
            ("self_attn.in_proj_bias", "attention.bias"),
            ("norm1.weight", "before_attention.weight"),
            ("norm1.bias", "before_attention.bias"),
            ("norm2.weight", "before_layers.weight"),
            ("norm2.bias", "before_layers.bias"),
            ("linear1.weight", "layers.0.weight"),
            ("linear1.bias", "layers.0.bias"),
            ("linear2.weight", "layers.2.weight"),
            ("linear2.bias", "layers.2.bias"),
        ):
            own[theirs].data = ours[name]
        x = layer(x, mask, is_causal=True)
    normal = torch.nn.functional.layer_norm(x, (8,), eps=1e-8)
    expected = normal * model.last.weight + model.last.bias
    np.testing.assert_allclose(model(items), expected.detach(), atol=1e-4)


@FORMS
def test_an_item_changes_no_earlier_state(form: Any) -> None:
    model, items = network(form), drawn()
    before = model(items).numpy()
    items[:, 3] = (items[:, 3] + 1) % ITEMS
    after = model(items).numpy()
    np.testing.assert_array_equal(after[:, :3], before[:, :3])
    assert (abs(after - before)[:, 3:].max(2) > 1e-4).all()


def test_the_loss_of_gru4rec_is_cross_entropy() -> None:
    model = network(sequences.GRU4Rec)
    states, following = torch.randn(4, LENGTH, 8), drawn()
    model.source = np.random.default_rng(1)
    losses = model.losses(states, following).numpy()
    outputs, biases = (part.numpy() for part in model.outputs())
    scores = states.numpy() @ outputs.T + biases
    wanted = np.take_along_axis(scores, following.numpy()[..., None], 2)
    rest = scores[..., np.random.default_rng(1).integers(ITEMS, size=2)]
    expected = np.log(1 + np.exp(rest - wanted).sum(2))
    np.testing.assert_allclose(losses, expected, rtol=1e-4)


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
    model = network(sequences.GRU4Rec).fitted()
    rows = model.rows(np.array([2], np.int32))
    np.testing.assert_array_equal(rows, model.items[None, :, -1])


@pytest.mark.parametrize("model", ["sasrec", "gru4rec"])
def test_after_the_whole_history_of_a_user_items_score_as_they_do_for_the_user(model: Any) -> None:
    rng = np.random.default_rng(2)
    sizes = [0, 1, 3, LENGTH, 9]
    user = np.repeat(np.arange(len(sizes)), sizes)
    item = np.concatenate([rng.permutation(ITEMS)[:size] for size in sizes])
    data = of(user, item, np.arange(len(user)), users=len(sizes))
    fitted: Any = Torch(model, 8, epochs=2, sampling_rate=0.5, length=LENGTH).fit(data, 3)
    sent = np.full((len(sizes), max(sizes)), -1, np.int32)
    for row, size in enumerate(sizes):
        sent[row, len(sent[row]) - size :] = item[user == row]
    every = np.tile(np.arange(ITEMS, dtype=np.int32), (len(sizes), 1))
    after = fitted.scores_after(sent, every)
    np.testing.assert_allclose(after, fitted.rows(np.arange(len(sizes))), atol=1e-5)
    assert np.ptp(after[1:], axis=0).min() > 1e-6
    assert isinstance(fitted, AnswersHistories)
    # Nothing at all may be sent.
    assert fitted.scores_after(sent[:, :0], every).shape == every.shape
