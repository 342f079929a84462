"""`dpaudit init`: every written config can be loaded, and a recommender's can be run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dpaudit.cli import main
from dpaudit.config.load import load
from dpaudit.core import registry


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    users, items = np.nonzero(rng.random((120, 60)) < 0.3)
    rows = [
        f"{u},{i},{r}" for u, i, r in zip(users, items, rng.integers(1, 6, len(users)), strict=True)
    ]
    path = tmp_path / "interactions.csv"
    path.write_text("user_id,item_id,rating\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", registry.names("recommenders"))
def test_the_config_of_every_library_can_be_loaded(name: str, tmp_path: Path) -> None:
    config = tmp_path / "dpaudit.toml"
    assert call("init", "--recommender", name, config).exit_code == 0
    assert load(config).recommender[0].library == name


def test_the_config_of_a_file_runs(data: Path, tmp_path: Path) -> None:
    config, out = tmp_path / "dpaudit.toml", tmp_path / "out"
    said = call("init", "--recommender", "most-popular", "--data", data, config)
    assert said.exit_code == 0, said.output
    assert "users with 60 items" in said.output
    found = call("run", config, "-o", out, "-s", "membership.trainings=8", "-q")
    assert found.exit_code == 0, found.output
    record = json.loads((out / "record.json").read_text(encoding="utf-8"))
    assert {each["metric"] for each in record["measurements"]} >= {"attack.tpr", "epsilon"}


def test_nothing_is_overwritten_or_half_written(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "dpaudit.toml"
    assert call("init", "--data", data, config).exit_code == 2
    assert call("init", "--recommender", "implict", config).exit_code == 2
    data.write_text("a,b\n1,2\n", encoding="utf-8")
    assert call("init", "--recommender", "most-popular", "--data", data, config).exit_code == 2
    assert not config.exists()
    config.write_text("x", encoding="utf-8")
    found = call("init", "--recommender", "most-popular", config)
    assert found.exit_code == 2
    assert "already exists" in found.output
