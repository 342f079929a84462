"""Trained models that are kept: whole or not at all, and known by their digests."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from membership_cases import Ignorant, small_ratings, small_table  # type: ignore[import-not-found]
from scipy.sparse import csr_array

from dpaudit.auditor.plan import RunFolder
from dpaudit.auditor.run import run_audit
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.training import Training
from dpaudit.core.errors import ConfigError, RunError
from dpaudit.recommenders.base import Query
from dpaudit.recommenders.command import Command
from dpaudit.recommenders.python_class import GivenModel
from dpaudit.recommenders.saving import digest_of_folder, saved
from tests.support.trained_on import trained_on

DATA = csr_array(np.array([[1, 0, 2], [0, 3, 0]], np.float32))
QUERY = Query(
    np.array([0, 1], np.int32), np.array([1, 2], np.int32), np.empty(0, np.int32), 2, False
)
SCRIPT = """
    import json, pathlib, sys
    folder = pathlib.Path(sys.argv[1])
    task = json.loads((folder / "task.json").read_text())
    (folder / "weights").mkdir()
    (folder / "weights" / "a.txt").write_text(f"seed {task['seed']}")
    lines = pathlib.Path(task["pairs"]).read_text().splitlines()[1:]
    scores = "".join(f"{line},1\\n" for line in lines)
    pathlib.Path(task["scores"]).write_text("user,item,score\\n" + scores)
    sys.exit(int(sys.argv[2]))
"""


class Model:
    """It remembers the sum of its data."""

    total = 0.0

    def fit(self, interactions: csr_array, seed: int) -> Model:
        self.total = float(interactions.sum())
        return self

    def scores(self, users: Any, items: Any) -> Any:
        return np.zeros(len(users))

    def save(self, path: str) -> None:
        Path(path).write_text(f"total {self.total:g}", encoding="utf-8")


class Forgetful(Model):
    def save(self, path: str) -> None:
        raise ValueError("no disk")


class Silent(Model):
    def save(self, path: str) -> None:
        pass


class Bare:
    def fit(self, interactions: csr_array, seed: int) -> Bare:
        return self

    def scores(self, users: Any, items: Any) -> Any:
        return np.zeros(len(users))


def test_a_class_writes_its_trained_model_to_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "kept" / "one"
    GivenModel(Model).answer_saved(trained_on(DATA), 1, QUERY, folder)
    assert (folder / "model").read_text(encoding="utf-8") == "total 6"
    first = digest_of_folder(folder)
    GivenModel(Model).answer_saved(trained_on(2 * DATA), 1, QUERY, folder)
    assert (folder / "model").read_text(encoding="utf-8") == "total 12"
    assert digest_of_folder(folder) != first
    assert [path.name for path in folder.parent.iterdir()] == ["one"]


@pytest.mark.cases(
    ("model", "error", "words"),
    [
        (Forgetful, RunError, "raised ValueError: no disk"),
        (Silent, RunError, "it wrote nothing to keep"),
        (Bare, ConfigError, r"give the trained model a method save\(path\)"),
    ],
)
def test_what_cannot_be_kept_leaves_what_was_there(
    tmp_path: Path, model: type, error: type[Exception], words: str
) -> None:
    folder = tmp_path / "one"
    GivenModel(Model).answer_saved(trained_on(DATA), 1, QUERY, folder)
    before = digest_of_folder(folder)
    with pytest.raises(error, match=words):
        GivenModel(model).answer_saved(trained_on(DATA), 1, QUERY, folder)
    assert digest_of_folder(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("status", [0, 1])
def test_a_command_keeps_what_it_writes_if_it_succeeds(tmp_path: Path, status: int) -> None:
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    words = [sys.executable, str(script), "{folder}", str(status)]
    command = Command(" ".join(map(shlex.quote, words)).replace("'{folder}'", "{folder}"))
    folder = tmp_path / "kept" / "one"
    if status:
        with pytest.raises(RunError, match="exit code 1"):
            command.answer_saved(trained_on(DATA), 5, QUERY, folder)
        assert not folder.parent.exists()
        return
    command.answer_saved(trained_on(DATA), 5, QUERY, folder)
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    assert names == ["scores.csv", "weights", "weights/a.txt"]
    assert (folder / "weights" / "a.txt").read_text(encoding="utf-8") == "seed 5"


def test_what_saving_itself_cannot_open_is_named(tmp_path: Path) -> None:
    class Elsewhere(Model):
        def save(self, path: str) -> None:
            (tmp_path / "store" / "weights").touch()

    with pytest.raises(ConfigError, match=r"'.*store.weights'.*correct what writes the model"):
        GivenModel(Elsewhere).answer_saved(trained_on(DATA), 1, QUERY, tmp_path / "one")


def test_a_draft_that_fails_is_removed(tmp_path: Path) -> None:
    def interrupted() -> None:
        with saved(tmp_path / "a" / "one") as draft:
            (draft / "half").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list((tmp_path / "a").iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"recommender\.save: .* cannot be written"):
        GivenModel(Model).answer_saved(trained_on(DATA), 1, QUERY, tmp_path / "file" / "one")


def test_digests_depend_on_names_and_contents(tmp_path: Path) -> None:
    digests: set[str] = set()
    for name, text in (("a", "1"), ("b", "1"), ("a", "2"), ("a/b", "1")):
        path = tmp_path / str(len(digests)) / name
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
        digests.add(digest_of_folder(tmp_path / str(len(digests))))
    assert len(digests) == 4
    with pytest.raises(RunError, match="is missing"):
        digest_of_folder(tmp_path / "none")


def test_recommenders_without_artefacts_say_so(tmp_path: Path) -> None:
    ratings = small_ratings()
    design = Design.of(ratings, small_table(), 1)
    training = Training.of(Ignorant(), design, ["interaction"], ["scores"], tmp_path)
    with pytest.raises(ConfigError, match=r"recommender\.save is for"):
        training(0)


MODULE = """
    import json
    import pathlib
    import numpy as np

    class Sums:
        def fit(self, interactions, seed):
            self.items = interactions.sum(axis=0)
            return self

        def scores(self, users, items):
            return self.items[items]

        def save(self, path):
            pathlib.Path(path).write_text(json.dumps(self.items.tolist()))
"""


def config(folder: Path, **changes: Any) -> MembershipConfig:
    synthetic = {"n_users": 60, "n_items": 30, "mean_per_user": 15, "minimum_per_user": 5}
    membership = {"trainings": 3, "interactions": 60, "held_out": 60, "rates": [0.2]}
    return MembershipConfig.model_validate(
        {
            "seed": 5,
            "data": {"synthetic": synthetic},
            "membership": {**membership, "observers": ["scores"], "observed_users": 10},
            "recommender": [{"target": "sums_module:Sums", "save": "models", **changes}],
        }
    ).within(folder)


def test_an_audit_keeps_the_judged_models_and_their_digests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sums_module.py").write_text(textwrap.dedent(MODULE), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = RunFolder(tmp_path / "out")
    record = run_audit(config(tmp_path), allow_code=True, folder=folder)
    assert len(list((tmp_path / "models").iterdir())) == 3
    [(name, digest)] = record.models[0].saved.items()
    assert digest == digest_of_folder(tmp_path / "models" / name)
    assert [one.about for one in record.findings if one.about == "saved"] == ["saved"]
    assert json.loads((tmp_path / "models" / name / "model").read_text(encoding="utf-8"))
    # Another run of the folder trains nothing, and finds what is changed or missing.
    kept = (tmp_path / "models" / name / "model").read_text(encoding="utf-8")
    (tmp_path / "models" / name / "model").write_text(kept[:-1] + " ]", encoding="utf-8")
    with pytest.raises(RunError, match="no longer the model"):
        run_audit(config(tmp_path), allow_code=True, folder=folder)
    (tmp_path / "models" / name / "model").unlink()
    (tmp_path / "models" / name).rmdir()
    with pytest.raises(RunError, match="of a judged training is missing"):
        run_audit(config(tmp_path), allow_code=True, folder=folder)


def test_a_folder_is_for_code_of_yours_and_for_one_recommender() -> None:
    with pytest.raises(ValueError, match="a target or a command"):
        MembershipConfig.model_validate(
            {"recommender": {"library": "most-popular", "save": "models"}}
        )
    two = [{"label": name, "target": "a:B", "save": "models"} for name in "ab"]
    with pytest.raises(ValueError, match=r"two \[\[recommender\]\] have save = 'models'"):
        MembershipConfig.model_validate({"recommender": two})
