"""What is trained with PyTorch learns, and its DP-SGD clips as its guarantee needs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import pytest

from dpaudit.bounds.accounting import gaussian_mechanism_epsilon
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.recommenders.base import Deletion
from dpaudit.recommenders.networks.settings import Name, Settings
from dpaudit.recommenders.torch import Torch

torch = pytest.importorskip("torch")
opacus = pytest.importorskip("opacus")
training = pytest.importorskip("dpaudit.recommenders.networks.training")
# Of Opacus' own hooks.
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")

USERS, ITEMS, SEED = 12, 10, 5
EVERY = np.arange(USERS, dtype=np.int32)
NETWORKS = pytest.mark.parametrize("model", ["mf", "ncf"])


def blocks() -> Interactions:
    """Users and items of two tastes; each user has rated most items of their own."""
    same = np.arange(USERS)[:, None] % 2 == np.arange(ITEMS) % 2
    rated = same & (np.random.default_rng(1).random((USERS, ITEMS)) < 0.8)
    return of(*np.nonzero(rated))


def of(user: Any, item: Any) -> Interactions:
    ones = np.ones(len(user), np.float32)
    return Interactions.of(Ratings.build(user, item, ones, USERS, ITEMS, Scale(1, 1, 1)))


def wanted(items: Any) -> Any:
    labels = torch.zeros(items.shape)
    labels[:, 0] = 1
    return labels


@pytest.mark.parametrize("model", ["mf", "ncf"])
def test_it_learns_the_tastes(model: Literal["mf", "ncf"]) -> None:
    recommender = Torch(model, 4, epochs=60, sampling_rate=0.2, learning_rate=0.03)
    rows = recommender.fit(blocks(), SEED).rows(EVERY)
    same = EVERY[:, None] % 2 == np.arange(ITEMS) % 2
    assert rows[same].mean() > rows[~same].mean() + 1


@NETWORKS
def test_a_private_step_adds_the_clipped_gradient_of_each_record(model: Name) -> None:
    network = training.FORMS[model](Settings(4, 1, 1.0, 0.01), blocks(), np.random.default_rng(1))
    # A record may draw its own item, or an item twice; a user may have two records.
    users = torch.tensor([3, 3, 7, 0])
    items = torch.tensor([[1, 1, 4], [2, 5, 5], [9, 0, 3], [6, 7, 8]])
    clip, expected = 0.2, []
    for user, row in zip(users, items, strict=True):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            network(user[None], row[None]), wanted(row[None]), reduction="sum"
        )
        gradients = torch.autograd.grad(loss, network.parameters())
        norm = math.sqrt(sum(float((part**2).sum()) for part in gradients))
        expected.append([part * min(1, clip / norm) for part in gradients])
        assert norm > clip
    before = [parameter.detach().clone() for parameter in network.parameters()]
    optimizer = torch.optim.SGD(network.parameters(), 1.0)
    training.private_step(network, optimizer, 1e-9, clip)(users, items, wanted(items))
    for place, parameter in enumerate(network.parameters()):
        moved = before[place] - parameter.detach()
        clipped = sum(gradients[place] for gradients in expected)
        np.testing.assert_allclose(moved, clipped, rtol=1e-3, atol=1e-6)


@NETWORKS
def test_a_private_step_clips_all_interactions_of_a_user_together(model: Name) -> None:
    network = training.FORMS[model](Settings(4, 1, 1.0, 0.01), blocks(), np.random.default_rng(1))
    users, items = torch.tensor([3, 7]), torch.tensor([[1, 1, 4, 2, 5, 5], [9, 0, 3, 0, 8, 0]])
    labels, counted = torch.zeros(items.shape), torch.ones(items.shape, dtype=torch.bool)
    labels[:, ::3] = 1
    counted[1, 3:] = False  # the second user has one interaction, the first has two
    clip, expected = 0.2, []
    for place, size in enumerate((6, 3)):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            network(users[place, None], items[place, None, :size]),
            labels[place, None, :size],
            reduction="sum",
        )
        gradients = torch.autograd.grad(loss, network.parameters())
        norm = math.sqrt(sum(float((part**2).sum()) for part in gradients))
        assert norm > clip
        expected.append([part * clip / norm for part in gradients])
    before = [parameter.detach().clone() for parameter in network.parameters()]
    optimizer = torch.optim.SGD(network.parameters(), 1.0)
    training.private_step(network, optimizer, 1e-9, clip)(users, items, labels, counted)
    for place, parameter in enumerate(network.parameters()):
        moved = before[place] - parameter.detach()
        clipped = sum(gradients[place] for gradients in expected)
        np.testing.assert_allclose(moved, clipped, rtol=1e-3, atol=1e-6)


@NETWORKS
def test_noise_of_a_step_has_its_standard_deviation_for_an_empty_sample_too(model: Name) -> None:
    torch.manual_seed(1)
    none, nothing = np.zeros(0, np.int64), np.zeros(0, np.float32)
    many = Interactions.of(Ratings.build(none, none, nothing, 3000, 2000, Scale(1, 1, 1)))
    network = training.FORMS[model](Settings(8, 1, 1.0, 0.01), many, np.random.default_rng(1))
    before = [parameter.detach().clone() for parameter in network.parameters()]
    optimizer = torch.optim.SGD(network.parameters(), 1.0)
    step = training.private_step(network, optimizer, 3.0, 0.5)
    for size in (0, 2, 0):
        users, items = torch.arange(size), torch.zeros(size, 3, dtype=torch.int64)
        step(users, items, wanted(items))
    moved = torch.cat(
        [
            (new - old).detach().flatten()
            for new, old in zip(network.parameters(), before, strict=True)
        ]
    )
    # 40 000 parameters or more: within 2 % except with probability 1e-7.
    assert moved.std().item() == pytest.approx(3.0 * 0.5 * math.sqrt(3), rel=0.02)


def test_the_stated_epsilon_is_above_the_exact_one_and_near_it() -> None:
    recommender = Torch(noise_multiplier=1.1, epochs=10, sampling_rate=0.01)
    assert recommender.steps == 1000
    exact = gaussian_mechanism_epsilon(1.1, delta=1e-5, compositions=1000, sampling=0.01)
    assert exact.upper <= recommender.epsilon(1e-5) <= 1.3 * exact.upper


def test_without_noise_epsilon_is_infinite() -> None:
    assert Torch().epsilon(1e-5) == math.inf


@pytest.mark.parametrize("noise_multiplier", [0.0, 1.0])
def test_training_leaves_the_state_of_pytorch_alone(noise_multiplier: float) -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(2)
    try:
        Torch(epochs=1, sampling_rate=0.5, noise_multiplier=noise_multiplier).fit(blocks(), SEED)
        assert torch.get_num_threads() == 2
        assert torch.equal(torch.get_rng_state(), state)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("noise_multiplier", [0.0, 1.0])
def test_no_interaction_at_all_can_be_trained(noise_multiplier: float) -> None:
    recommender = Torch(epochs=1, sampling_rate=0.5, noise_multiplier=noise_multiplier)
    rows = recommender.fit(of(np.zeros(0, int), np.zeros(0, int)), SEED).rows(EVERY)
    assert np.isfinite(rows).all()


def test_a_version_of_opacus_that_clips_wrongly_is_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr(opacus, "__version__", "1.5.3")
    Torch(epochs=1, sampling_rate=1.0).fit(blocks(), SEED)
    said = r"opacus 1.5.3 clips gradients wrongly.*pip install 'opacus>=1.5.4'"
    with pytest.raises(ConfigError, match=said):
        Torch(noise_multiplier=1.0).fit(blocks(), SEED)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"layers": 2}, "layers = 2 is not read by model = 'mf', which reads dimensions, epochs"),
        ({"model": "multvae", "negatives": 3}, "negatives = 3 is not read by model = 'multvae'"),
        ({"model": "sasrec", "noise_multiplier": 1.0}, "model = 'sasrec' has no DP-SGD: remove it"),
        ({"max_grad_norm": 2.0}, "max_grad_norm = 2.0 is not read without noise_multiplier"),
        ({"clip": "user"}, "clip = 'user' is not read without noise_multiplier: remove it"),
        ({"noise_multiplier": 1.0, "device": "cuda"}, "device = 'cuda' is not read with noise"),
        ({"model": "sasrec", "dimensions": 9, "heads": 2}, "heads = 2 does not divide dimensions"),
    ],
)
def test_a_parameter_that_is_not_read_is_refused(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=f"recommender.0.params: .*{said}"):
        registry.create("recommenders", "torch", "recommender.0", parameters)


@NETWORKS
def test_a_trained_private_network_has_the_scores_of_its_module(model: Name) -> None:
    recommender = Torch(model, 5, epochs=1, sampling_rate=0.5, noise_multiplier=1.0)
    fitted = recommender.fit(blocks(), SEED)
    every = torch.arange(ITEMS).expand(USERS, -1)
    expected = fitted.state(torch.arange(USERS), every).detach()
    np.testing.assert_allclose(fitted.rows(EVERY), expected, atol=1e-5)


def test_a_gpu_that_is_not_there_is_refused() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigError, match="use device = 'cpu'"):
        Torch(device="cuda").fit(blocks(), SEED)


def deletion(method: str) -> Deletion:
    """The deletion of the first user's interactions."""
    rows = blocks().ratings
    gone = rows.user == 0
    pairs = np.stack((rows.user[gone], rows.item[gone]), axis=1)
    return Deletion(method, Interactions.of(rows, ~gone), pairs)


@pytest.mark.parametrize("model", get_args(Name))
def test_a_training_goes_on_with_what_stays(model: Name) -> None:
    recommender = Torch(model, 4, epochs=1, sampling_rate=0.5)
    fitted: Any = recommender.fit(blocks(), SEED)
    before = fitted.rows(EVERY)
    request = deletion("fine-tune")
    # One request after another.
    after: Any = recommender.forgotten(fitted, request, SEED)
    again: Any = recommender.forgotten(after, request, SEED)
    assert (after.rows(EVERY) != before).any()
    assert (again.rows(EVERY) != after.rows(EVERY)).any()
    lists, stays = after.recommend(EVERY, ITEMS), request.kept.matrix.toarray() > 0
    shown = np.zeros((USERS, ITEMS), np.bool_)
    shown[np.nonzero(lists >= 0)[0], lists[lists >= 0]] = True
    np.testing.assert_array_equal(shown, ~stays)


def test_a_training_goes_on_from_what_was_trained() -> None:
    recommender = Torch("mf", 4, epochs=2, sampling_rate=0.5)
    fitted: Any = recommender.fit(blocks(), SEED)
    fitted.state.settings = replace(fitted.state.settings, learning_rate=1e-12)
    after: Any = recommender.forgotten(fitted, deletion("fine-tune"), SEED)
    np.testing.assert_allclose(after.rows(EVERY), fitted.rows(EVERY), atol=1e-6)


def test_an_ascent_lowers_the_scores_of_what_is_forgotten() -> None:
    recommender = Torch("mf", 4, epochs=2, sampling_rate=0.5)
    fitted: Any = recommender.fit(blocks(), SEED)
    request = deletion("ascent")
    users, items = request.gone.T
    after: Any = recommender.forgotten(fitted, request, SEED)
    assert (after.scores(users, items) < fitted.scores(users, items)).all()
    assert (after.users[:, -1] == 1).all()
    np.testing.assert_array_equal(after.users[1:], fitted.users[1:])


def test_noise_and_other_models_refuse_what_they_cannot() -> None:
    private_one = Torch("mf", 4, epochs=1, sampling_rate=0.5, noise_multiplier=1.0)
    fitted: Any = private_one.fit(blocks(), SEED)
    assert private_one.forgotten(fitted, deletion("fine-tune"), SEED) is None
    assert Torch("ncf", 4).forgotten(fitted, deletion("ascent"), SEED) is None
    assert Torch("mf", 4).forgotten(fitted, deletion("influence"), SEED) is None
