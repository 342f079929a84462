"""Trainings that are done elsewhere: handed out, trained, brought back and judged."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpaudit.cli.main import main

CONFIG = """
seed = 7
[data]
synthetic = { n_users = 60, n_items = 60, mean_per_user = 25 }
[[recommender]]
label = "elsewhere"
returned = "trainings"
params = { shows = ["scores"] }
[membership]
trainings = 4
interactions = 120
held_out = 40
rates = [0.1]
[[gate]]
metric = "attack.auc"
max = 0.6
"""


def write(folder: Path, text: str = CONFIG) -> Path:
    path = folder / "audit.toml"
    path.write_text(text, encoding="utf-8")
    return path


def ran(*words: str | Path) -> tuple[int, str]:
    run = CliRunner().invoke(main, [str(word) for word in words])
    return run.exit_code, run.output.replace("\n", " ") + run.stderr.replace("\n", " ")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def train(folder: Path) -> None:
    """Score what is in the data 1 and what is not 0, from the files of the folder alone."""
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    had = {(row["user"], row["item"]) for row in rows(folder / task["interactions"])}
    with (folder / task["scores"]).open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("user", "item", "score"))
        for row in rows(folder / task["pairs"]):
            pair = row["user"], row["item"]
            table.writerow((*pair, float(pair in had)))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = write(tmp_path)
    code, said = ran("split", path)
    assert (code, "4 trainings are in" in said) == (0, True), said
    return path


def trained(config: Path) -> list[Path]:
    folders = sorted((config.parent / "trainings").iterdir())
    # On another machine: the folders may move.
    for folder in folders:
        other = config.parent / "elsewhere"
        shutil.move(folder, other)
        train(other)
        shutil.move(other, folder)
    return folders


@pytest.mark.long
def test_what_comes_back_is_judged_like_trainings_of_ones_own(config: Path) -> None:
    folders = trained(config)
    assert len(folders) == 4
    output = config.parent / "out"
    code, said = ran("run", config, "-o", output)
    assert code == 1, said
    assert "FAIL  attack.auc <= 0.6" in said
    assert "was not tried" in said  # what takes further trainings
    assert "done: 4 of 4 trials" in said
    record = json.loads((output / "record.json").read_text(encoding="utf-8"))
    areas = [m for m in record["measurements"] if m["metric"] == "attack.auc"]
    assert {m["estimate"]["value"] for m in areas if m["attack"] == "strongest"} == {1.0}
    # Another answer is read, and not the one that a store keeps.
    for folder in folders:
        path = folder / "scores.csv"
        path.write_text(path.read_text(encoding="utf-8").replace("1.0", "0.0"), encoding="utf-8")
    code, said = ran("run", config, "-o", output, "--force")
    assert code != 1, said


def test_a_split_and_its_run_fit_the_same_targets_to_the_data(tmp_path: Path) -> None:
    path = write(tmp_path, CONFIG.replace("interactions = 120\n", ""))
    assert ran("split", path)[0] == 0
    trained(path)
    code, said = ran("run", path, "-o", tmp_path / "out")
    assert code == 1, said


@pytest.mark.parametrize("trainings", [1, 2])
def test_an_attack_without_trainings_of_its_own_is_said_to_find_less(
    tmp_path: Path, trainings: int
) -> None:
    path = write(tmp_path, CONFIG.replace("trainings = 4", f"trainings = {trainings}"))
    assert ran("split", path)[0] == 0
    trained(path)
    said = " ".join(ran("run", path, "-o", tmp_path / "out")[1].split())
    assert ("No further training" in said) == (trainings == 1), said


def test_a_training_that_did_not_come_back_is_named(config: Path) -> None:
    folders = trained(config)
    (folders[2] / "scores.csv").unlink()
    code, said = ran("run", config, "-o", config.parent / "out")
    assert (code, f"{folders[2].name}: there is no scores.csv" in said) == (3, True), said
    shutil.rmtree(folders[2])
    code, said = ran("run", config, "-o", config.parent / "out", "--force")
    assert (code, "has no folder" in said, "dpaudit split" in said) == (3, True, True), said


def test_trainings_of_other_targets_or_in_the_wrong_folder_are_refused(config: Path) -> None:
    trained(config)
    other = CONFIG.replace("interactions = 120", "interactions = 110")
    code, said = ran("run", write(config.parent, other), "-o", config.parent / "out")
    assert (code, "with other data" in said) == (3, True), said
    code, said = ran("split", write(config.parent, other))
    assert (code, "exists: remove the trainings" in said) == (2, True), said


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes in folders")
def test_a_seal_of_others_is_refused(config: Path) -> None:
    seal = trained(config)[0] / "seal.json"
    for text, words in (("[" * 500, "handed out with other data"), ("[" * 10**6, "cannot be read")):
        seal.write_text(text, encoding="utf-8")
        code, said = ran("run", config, "-o", config.parent / "out")
        assert (code, words in said) == (3, True), said
    seal.unlink()
    os.mkfifo(seal)
    code, said = ran("run", config, "-o", config.parent / "out")
    assert (code, "seal.json cannot be read" in said) == (3, True), said


def test_more_trainings_extend_a_split(config: Path) -> None:
    folders = trained(config)
    code, said = ran(
        "split", write(config.parent, CONFIG.replace("trainings = 4", "trainings = 6"))
    )
    assert (code, "6 trainings are in" in said) == (0, True), said
    assert len(list((config.parent / "trainings").iterdir())) == 6
    assert all((folder / "scores.csv").is_file() for folder in folders)


def test_doubled_trainings_are_refused(config: Path) -> None:
    folders = trained(config)
    shutil.rmtree(folders[1])
    shutil.copytree(folders[0], folders[1])
    code, said = ran("run", config, "-o", config.parent / "out")
    assert (code, "handed out with other data" in said) == (3, True), said


def test_trainings_whose_scores_were_mixed_up_decide_nothing(config: Path) -> None:
    first, other, *_ = trained(config)
    (first / "scores.csv").rename(config.parent / "scores.csv")
    (other / "scores.csv").rename(first / "scores.csv")
    (config.parent / "scores.csv").rename(other / "scores.csv")
    code, said = ran("run", config, "-o", config.parent / "out")
    assert (code, "are in training" in said) == (4, True), said
    assert "INCONCLUSIVE  attack.auc <= 0.6" in said


@pytest.mark.long
def test_interactions_that_were_changed_are_refused_and_sorted_ones_are_not(config: Path) -> None:
    folders = trained(config)
    path = folders[0] / "interactions.csv"
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([head, *lines[::-1]]) + "\n", encoding="utf-8")
    code, said = ran("run", config, "-o", config.parent / "out")
    assert (code, "FAIL  attack.auc" in said) == (1, True), said
    path.write_text("\n".join([head, *lines[:-3]]) + "\n", encoding="utf-8")
    code, said = ran("run", config, "-o", config.parent / "out", "--force")
    assert (code, "not those that were handed out" in said) == (3, True), said
    path.unlink()
    code, said = ran("run", config, "-o", config.parent / "out", "--force")
    assert code == 1, said


@pytest.mark.cases(
    ("old", "new", "words"),
    [
        ("seed = 7\n", "", "the config has no seed"),
        ('returned = "trainings"\n', 'library = "most-popular"\n', "no [[recommender]] has"),
        ('returned = "trainings"', 'returned = "audit.toml/x"', "cannot be written"),
    ],
)
def test_what_cannot_be_split_is_one_sentence(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    text = CONFIG.replace(old, new)
    if "most-popular" in new:
        text = text.replace('params = { shows = ["scores"] }\n', "")
    code, said = ran("split", write(tmp_path, text))
    assert (code, words in said) == (2, True), said
