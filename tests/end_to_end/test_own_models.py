"""A config that names the user's own class or command, from refusal to record."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from configs import load_as  # type: ignore[import-not-found]
from own_class import CLASS  # type: ignore[import-not-found]

from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.cli import main
from dpaudit.recommenders.command import Command

# Copies what it was given: every interaction that is present scores its rating.
COMMAND = """
import csv, json, sys

task = json.load(open(sys.argv[1]))
given = {(r["user"], r["item"]): r["rating"] for r in csv.DictReader(open(task["interactions"]))}
with open(task["scores"], "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["user", "item", "score"])
    for row in csv.DictReader(open(task["pairs"])):
        key = row["user"], row["item"]
        rows.writerow([*key, given.get(key, 0)])
"""
HEAD = """
seed = 3
[data]
synthetic = { n_users = 60, n_items = 50, mean_per_user = 25 }
[membership]
trainings = 8
interactions = 120
held_out = 40
observers = ["scores"]
rates = [0.1]
[[recommender]]
"""


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "their_model.py").write_text(CLASS, encoding="utf-8")
    (tmp_path / "train.py").write_text(COMMAND, encoding="utf-8")
    (tmp_path / "class.toml").write_text(HEAD + 'target = "their_model:Model"\n', encoding="utf-8")
    command = f'command = "{sys.executable} train.py {{task}}"\nparams = {{ shows = ["scores"] }}\n'
    (tmp_path / "command.toml").write_text(HEAD + command, encoding="utf-8")
    return tmp_path


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", ["class", "command"])
def test_code_is_refused_unless_it_is_allowed(folder: Path, name: str) -> None:
    found = call("run", folder / f"{name}.toml", "-o", folder / "out")
    assert found.exit_code == 2
    assert "--allow-code" in found.output
    assert not (folder / "out").exists()


@pytest.mark.long
@pytest.mark.parametrize("name", ["class", "command"])
def test_a_model_that_tells_its_data_is_found_out(folder: Path, name: str) -> None:
    found = call("run", folder / f"{name}.toml", "-o", folder / "out", "--allow-code", "-q")
    assert found.exit_code == 0, found.output
    made = record(folder / "out")["measurements"]
    auc = [m for m in made if m["metric"] == "attack.auc" and m["attack"] == "strongest"]
    assert [m["estimate"]["value"] > 0.99 for m in auc] == [True]


def test_a_command_that_shows_no_lists_has_no_observer_of_lists(folder: Path) -> None:
    config, out = folder / "command.toml", folder / "out"
    lists = "membership.observers=['own-list']"
    found = call("run", config, "-o", out, "--allow-code", "-s", lists)
    assert found.exit_code == 2
    assert "does not show lists" in found.output


def test_a_command_runs_in_the_folder_of_its_config(folder: Path) -> None:
    own = load_as(MembershipConfig, folder / "command.toml").recommender[0]
    made = own.create("recommender")
    assert isinstance(made, Command)
    assert made.cwd == folder


def test_a_changed_script_is_trained_again(folder: Path) -> None:
    own = load_as(MembershipConfig, folder / "command.toml").recommender[0]
    assert folder / "train.py" in own.files


def test_a_class_has_no_shards(folder: Path) -> None:
    found = call(
        "run", folder / "class.toml", "-o", folder / "out", "--allow-code", "--shard", "1/2"
    )
    assert found.exit_code == 2
    assert "has no shards" in found.output


@pytest.mark.cases(
    ("line", "said"),
    [
        ("", "name one of library, target, command and returned"),
        (
            'library = "implicit"\ntarget = "a:b"',
            "name one of library, target, command and returned",
        ),
        ('command = "python {what}"', "{what} is no placeholder"),
        ('target = "a:b"\nparams = { no = 1 }', "no is not known"),
    ],
)
def test_a_wrong_table_is_one_sentence(folder: Path, line: str, said: str) -> None:
    (folder / "wrong.toml").write_text(HEAD + line + "\n", encoding="utf-8")
    found = call("run", folder / "wrong.toml", "-o", folder / "out", "--allow-code")
    assert found.exit_code == 2
    assert said in found.output
    assert "Traceback" not in found.output
