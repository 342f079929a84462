"""Which runs may replace what an output folder holds."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from dpaudit.auditor.plan import RunFolder
from dpaudit.auditor.run import run_audit
from dpaudit.config.schema import Config
from dpaudit.config.tables import DataConfig
from dpaudit.core.errors import ConfigError
from dpaudit.data.readers.load import load
from dpaudit.record import storage

SMALL = """
seed = 1
[data]
synthetic = { n_users = 60, n_items = 50, mean_per_user = 25 }
[[model]]
params = { top_k = 5 }
epsilon = [1, 30]
[[attack]]
[[game]]
trials = 200
[audit]
trials = 60
fail_on_false_claim = false
"""
TRAINED = """
seed = 1
[data]
synthetic = { n_users = 40, n_items = 50, mean_per_user = 25 }
[[model]]
defense = "dpsgd-mf"
params = { epochs = 1, dimensions = 2 }
"""


def changed(text: str, change: str) -> DataConfig:
    """The config with the lines of `change`, which replace its tables and keys."""
    values: dict[str, Any] = tomllib.loads(text)
    for name, value in tomllib.loads(change).items():
        values[name] = {**values.get(name, {}), **value} if isinstance(value, dict) else value
    config = Config.model_validate(values)
    assert isinstance(config, DataConfig)
    return config


def recorded(config: str, folder: Path) -> Path:
    """Run a config, keep its record in a folder, and return this."""
    record = run_audit(changed(config, ""))
    (folder / storage.NAME).write_text(storage.render(record), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the record of the small config."""
    return recorded(SMALL, tmp_path_factory.mktemp("run"))


@pytest.mark.cases(
    ("change", "words"),
    [
        ("", ""),
        ("audit = { trials = 80 }", ""),
        ("[[game]]\ntrials = 300", ""),
        ("audit = { trials = 80, confidence = 0.9 }", "other audit.confidence"),
        ("audit = { fail_on_false_claim = true }", "other audit.fail_on_false_claim"),
        ("card = { owner = 'nobody' }", "other card"),
        ("[[gate]]\nmetric = 'attack.accuracy'\nmax = 0.5", "other gate"),
    ],
)
def test_a_record_that_is_judged_otherwise_is_replaced_in_a_sentence(
    folder: Path, change: str, words: str
) -> None:
    said = RunFolder(folder).check(changed(SMALL, change))
    assert said.startswith(f"{folder / storage.NAME} is replaced") if words else said == ""
    assert f"({words})" in said or not words


MEMBERS = """
seed = 1
[data]
synthetic = { n_users = 60, n_items = 30, mean_per_user = 15, minimum_per_user = 5 }
[membership]
trainings = 8
interactions = 60
held_out = 40
rates = [0.2]
[recommender]
library = "most-popular"
"""


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the record of the membership audit."""
    return recorded(MEMBERS, tmp_path_factory.mktemp("members"))


@pytest.mark.cases(
    ("change", "words"),
    [
        ("recommender = { claim = { epsilon = 1 } }", "recommender.claim"),
        ("recommender = { observers = ['scores'] }", "recommender.observers"),
        ("membership = { observers = ['scores'], rates = [0.5], delta = 0 }", "membership"),
        ("attack = [{ name = 'lira' }]", "attack"),
        ("membership = { interactions = 61 }", None),
        ("recommender = { library = 'surprise', params = { model = 'SVD' } }", None),
    ],
)
def test_a_claim_or_an_observer_makes_no_other_run(
    members: Path, change: str, words: str | None
) -> None:
    if words is None:
        with pytest.raises(ConfigError, match="another run"):
            RunFolder(members).check(changed(MEMBERS, change))
    else:
        assert f"judged otherwise (other {words}" in RunFolder(members).check(
            changed(MEMBERS, change)
        )


@pytest.mark.cases(
    ("change", "words"),
    [
        ("seed = 2", "other seed"),
        ("seed = 'entropy'", "other seed"),
        ("[data]\nsynthetic = { n_users = 61 }", "other data"),
        ("[[model]]\nepsilon = [1, 30]", "other model"),
        ("[[game]]\npair = 'tight'\n[split]\ntest_share = 0.3", "other game, other split"),
        ("attack = []", "other attack"),
    ],
)
def test_another_run_asks(folder: Path, change: str, words: str) -> None:
    config = changed(SMALL, change)
    with pytest.raises(ConfigError) as caught:
        RunFolder(folder).check(config)
    said = str(caught.value)
    for part in (f"{folder} holds", f"another run ({words})", "--force", "-o"):
        assert part in said
    RunFolder(folder, force=True).check(config)
    RunFolder(folder, fresh=True).check(config)
    RunFolder(folder / "other").check(config)


def test_a_seed_that_is_left_to_chance_asks_nothing(folder: Path) -> None:
    assert RunFolder(folder).check(changed(SMALL.replace("seed = 1", ""), "")) == ""


def test_a_record_without_a_seed_is_one_of_another_seed(folder: Path, tmp_path: Path) -> None:
    record = storage.load(folder)
    del record.config["seed"]
    (tmp_path / storage.NAME).write_text(storage.render(record), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"another run \(other seed\)"):
        RunFolder(tmp_path).check(changed(SMALL, ""))
    RunFolder(tmp_path).check(changed(SMALL.replace("seed = 1", ""), ""))


def test_defaults_of_trained_models_are_no_difference(tmp_path: Path) -> None:
    record = run_audit(changed(TRAINED, "train = { folds = 2, trials = 1 }"))
    (tmp_path / storage.NAME).write_text(storage.render(record), encoding="utf-8")
    RunFolder(tmp_path).check(changed(TRAINED, "train = { folds = 2, trials = 2 }"))
    with pytest.raises(ConfigError, match="other train"):
        RunFolder(tmp_path).check(changed(TRAINED, ""))


def test_a_record_that_cannot_be_read_asks(tmp_path: Path) -> None:
    (tmp_path / storage.NAME).write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"is no record .*: --force"):
        RunFolder(tmp_path).check(changed(SMALL, ""))


def test_other_data_ask_before_results_are_dropped(tmp_path: Path) -> None:
    config = changed(TRAINED, "")
    ratings = load(config.data)
    run_audit(config, folder=RunFolder(tmp_path), ratings=ratings)
    run_audit(config, folder=RunFolder(tmp_path), ratings=ratings)
    fewer = load(changed(TRAINED, "data = { synthetic = { n_users = 41 } }").data)
    with pytest.raises(ConfigError, match=r"another run \(other data\): --force"):
        run_audit(config, folder=RunFolder(tmp_path), ratings=fewer)
    run_audit(config, folder=RunFolder(tmp_path, force=True), ratings=fewer)
