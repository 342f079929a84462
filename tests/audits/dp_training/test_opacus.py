"""Trainings with Opacus: the divisor of make_private, and honest and faulty ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import dpsgd  # type: ignore[import-not-found]
import numpy as np
import pytest

from dpaudit.audits.dp_training.law import Law
from dpaudit.audits.dp_training.runs import Trainer
from dpaudit.audits.dp_training.verdict import Verdict
from dpaudit.core.errors import ConfigError

torch = pytest.importorskip("torch")
pytest.importorskip("opacus")
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::UserWarning")]
script = partial(dpsgd.script, "opacus_training", EPOCHS=1)
ratings = partial(dpsgd.ratings, users=100, items=150)


def verdicts(
    train: Callable[..., Any], rows: int, far: int = 1, own: int = 1
) -> dict[str, Verdict]:
    found = dpsgd.examined(train, ratings(rows), far=far, own=own)
    assert found.stated is not None
    return {verdict.check: verdict for verdict in found.verdicts}


def test_the_divisor_of_make_private_tells_the_number_of_rows() -> None:
    found = verdicts(script().train, 4032)
    assert dpsgd.failing(found.values()) == {"number"}
    verdict = found["number"]
    assert "with 4,032 and 4,031 rows the divisor is 64 and 63" in verdict.text
    assert verdict.epsilon > 10
    assert verdict.place is not None
    assert verdict.place.file.endswith("privacy_engine.py")
    line = Path(verdict.place.file).read_text(encoding="utf-8").split("\n")[verdict.place.line - 1]
    assert "expected_batch_size =" in line


def test_an_honest_training_keeps_every_check() -> None:
    found = verdicts(script().train, 1000)
    assert {verdict.outcome for verdict in found.values()} == {"holds"}


def test_a_batch_that_is_split_is_seen_whole() -> None:
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    module = script()

    def train(interactions: Any, seed: int, watch: Any) -> Any:
        torch.manual_seed(seed)
        table = interactions.table
        data = torch.utils.data.TensorDataset(
            torch.from_numpy(table.user.astype(np.int64)),
            torch.from_numpy(table.item.astype(np.int64)),
            torch.from_numpy(table.rating.copy()),
        )
        model = module.Factors(*interactions.shape)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        model, optimizer, loader = module.PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            data_loader=torch.utils.data.DataLoader(data, batch_size=64),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        )
        watch(optimizer, model=model, loader=loader)
        split = {"data_loader": loader, "max_physical_batch_size": 16, "optimizer": optimizer}
        with BatchMemoryManager(**split) as parts:
            for users, items, values in parts:
                optimizer.zero_grad()
                ((model(users, items) - values) ** 2).mean().backward()
                optimizer.step()
        return model

    found = verdicts(train, 1000)
    assert dpsgd.failing(found.values()) == set()
    assert found["clipping"].outcome == "holds"
    assert "16 batches" in found["batch-rate"].text


def test_another_optimizer_is_refused() -> None:
    def train(interactions: Any, seed: int, watch: Any) -> None:
        watch(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0))

    with pytest.raises(ConfigError, match="no optimizer of Opacus"):
        Trainer(train, "train", 3, 1e-5).run(ratings(100))


def networks(unit: Literal["interaction", "user"]) -> Any:
    from dpaudit.recommenders.torch import Torch

    return Torch("mf", 8, 2, sampling_rate=1 / 16, noise_multiplier=1.0, clip=unit)


@pytest.mark.parametrize(("unit", "own"), [("interaction", 1), ("user", 10)])
def test_our_own_training_by_ghost_clipping_keeps_every_check_that_can_be_made(
    unit: Literal["interaction", "user"], own: int
) -> None:
    found = verdicts(networks(unit).fit, 1000, own=own)
    outcomes = {name: verdict.outcome for name, verdict in found.items()}
    assert outcomes.pop("clipping") == "not tested"
    assert set(outcomes.values()) == {"holds"}, outcomes


def test_a_training_that_clips_interactions_keeps_no_claim_about_users() -> None:
    found = verdicts(networks("interaction").fit, 1000, own=10)["sum"]
    assert found.fails
    assert found.epsilon > 4


def test_a_training_that_clips_users_states_the_epsilon_of_a_user() -> None:
    run = Trainer(networks("user").fit, "train", 3, 1e-5).run(ratings(1000), accounted=True)
    assert (run.setup.unit, run.setup.records) == ("user", 100)
    law = Law.of(run.setup, len(run.steps), 1e-5)
    assert law.of_user(10) == law.epsilon
    assert run.stated == pytest.approx(networks("user").epsilon(1e-5))
    assert law.epsilon <= networks("user").epsilon(1e-5)
