"""Scripts that `dpaudit init` writes for libraries in an environment of their own."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import configs  # type: ignore[import-not-found]
import numpy as np
import pytest
from click.testing import CliRunner, Result

import dpaudit
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.cli import main
from dpaudit.core.errors import RunError
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.recommenders.base import Answer, Query
from dpaudit.recommenders.command import Command
from dpaudit.recommenders.histories import Histories

LIBRARIES = ["recbole", "rectools"]
SCRIPTS = Path(dpaudit.__file__).parent / "cli" / "scripts"
# Users 0 and 2, and items 0 to 3 in the order of time; user 1 and item 4 have no interactions.
USERS, ITEMS, TIMES = [0, 2, 0, 0, 0, 2], [3, 1, 0, 2, 1, 0], [1.0, 1, 3, 4, 2, 0]


def init(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["init", *map(str, arguments)], env={"COLUMNS": "400"})


@pytest.mark.parametrize("library", LIBRARIES)
def test_init_writes_a_config_and_the_script_that_it_names(library: str, tmp_path: Path) -> None:
    config, script = tmp_path / "dpaudit.toml", tmp_path / f"{library}_model.py"
    said = init("--recommender", library, config)
    assert said.exit_code == 0, said.output
    assert said.output.endswith(f"dpaudit run {config} --allow-code\n")
    assert f"how to install {library}" in said.output
    (recommender,) = configs.load_as(MembershipConfig, config).recommender
    assert recommender.label == library
    assert recommender.command == f"{library}-venv/bin/python {script.name} {{task}}"
    text = script.read_text(encoding="utf-8")
    assert f"{library}-venv/bin/python -m pip install" in text
    assert re.findall(rf"'{library}==[0-9.]+'", text)
    compile(text, script.name, "exec")

    config.unlink()
    again = init("--recommender", library, config)
    assert again.exit_code == 2
    assert f"{script} already exists" in again.output
    assert not config.exists()


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_python_without_the_library_is_named_in_one_sentence(library: str) -> None:
    words = [sys.executable, "-I", "-S", str(SCRIPTS / f"{library}_model.py"), "task.json"]
    ended = subprocess.run(words, check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert f"{sys.executable} cannot import Rec" in ended.stderr
    assert "install it" in ended.stderr


def trained(
    model: str, folder: Path, times: list[float] | None, after: Histories | None = None
) -> Answer:
    """Return what the script shows with the stand-in for RecBole."""
    (folder / "recbole").mkdir()
    stub = Path(configs.__file__).with_name("stub_recbole.py")
    shutil.copy(stub, folder / "recbole" / "__init__.py")
    text = (SCRIPTS / "recbole_model.py").read_text(encoding="utf-8")
    (folder / "train.py").write_text(text.replace('MODEL = "LightGCN"', f'MODEL = "{model}"'))
    values, scale = np.ones(6, np.float32), Scale(1.0, 1.0, 1.0)
    given = None if times is None else np.array(times)
    ratings = Ratings.build(np.array(USERS), np.array(ITEMS), values, 3, 5, scale, time=given)
    command = Command(
        f"{shlex.quote(sys.executable)} train.py {{task}}",
        shows=["scores", "lists", "histories"],
        cwd=folder,
        env={"PYTHONPATH": str(folder)},
    )
    users, items = np.array([2, 0, 1, 0], np.int32), np.array([3, 1, 0, 4], np.int32)
    query = Query(users, items, np.array([2, 1, 0], np.int32), 4, after=after)
    return command.answer(Interactions(ratings), 5, query)


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "scores"),
    [("LightGCN", [203, 1, np.nan, np.nan]), ("SASRec", [123, 231, np.nan, np.nan])],
)
def test_the_script_of_recbole_maps_users_items_and_histories(
    model: str, scores: list[float], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    answer = trained(model, tmp_path, TIMES)
    np.testing.assert_array_equal(answer.scores, scores)
    # The best unseen items; user 0 has seen all that are known.
    np.testing.assert_array_equal(answer.lists, [[3, 2, -1, -1], [-1] * 4, [-1] * 4])


SENT = Histories(
    np.array([[3, 0, 1, 2], [-1, -1, 4, 1], [-1] * 4], np.int32),
    np.array([[3, 4], [0, 2], [1, 2]], np.int32),
)


@pytest.mark.long
def test_the_script_of_recbole_says_what_follows_histories(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    answer = trained("SASRec", tmp_path, TIMES, SENT)
    # It reads 3 items at most, and knows no item 4.
    expected = [[233, np.nan], [110, 112], [np.nan, np.nan]]
    assert answer.after is not None
    np.testing.assert_array_equal(answer.after, expected)
    np.testing.assert_array_equal(answer.scores, [123, 231, np.nan, np.nan])


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "said"), [("SASRec", "name columns.time in"), ("KGAT", "more than interactions")]
)
def test_the_script_of_recbole_says_what_a_model_lacks(
    model: str, said: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    with pytest.raises(RunError, match=said):
        trained(model, tmp_path, None)
