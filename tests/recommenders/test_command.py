"""A recommender that is a command: what it shows, and one sentence on what goes wrong."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import own_knn  # type: ignore[import-not-found]
import psutil
import pytest
from pydantic import ValidationError
from scipy.sparse import csr_array

import dpaudit
from dpaudit.core.errors import ConfigError, RunError
from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import Answer, Deletion, Query
from dpaudit.recommenders.command import Command
from dpaudit.recommenders.histories import Histories
from dpaudit.recommenders.python_class import PythonClass
from dpaudit.recommenders.returned import Returned
from tests.support.trained_on import trained_on

N_USERS, N_ITEMS, K = 8, 6, 2
SUPPORT = Path(own_knn.__file__).parent
PYTHON = shlex.quote(sys.executable)
# A training that goes wrong is stopped before a test that hangs would be.
LIMIT = 20.0


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def data() -> csr_array:
    values = np.random.default_rng(3).integers(1, 6, (N_USERS, N_ITEMS))
    values[np.random.default_rng(4).random(values.shape) < 0.5] = 0
    values[2] = values[:, 3] = 0
    return csr_array(values, dtype=np.float32)


def query(factors: bool = False) -> Query:
    """Some pairs, one of them twice, and the lists of some users."""
    users, items = np.array([5, 0, 5, 7, 2, 0], np.int32), np.array([1, 0, 1, 5, 3, 4], np.int32)
    return Query(users, items, np.array([6, 0, 2], np.int32), K, factors)


def failing(way: str, **parameters: Any) -> Command:
    """The command that goes wrong in this way; -S makes Python start faster."""
    words = f"{PYTHON} -S {SUPPORT / 'own_command.py'} {shlex.quote(way)} {{task}}"
    return Command(words, **{"timeout": LIMIT, **parameters})


def answer(way: str, seed: int = 4, **parameters: Any) -> Answer:
    return failing(way, **parameters).answer(trained_on(data()), seed, query())


def counts() -> Any:
    return np.bincount(data().indices, minlength=N_ITEMS)


def gone(pid: int) -> bool:
    """Whether a process has ended, or ends within the next seconds."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def test_it_is_sent_histories_and_says_what_comes_next() -> None:
    sent = np.array([[-1, 0, 1], [2, 3, 5], [-1, -1, -1]], np.int32)
    after = Histories(sent, np.array([[2, 1], [5, 0], [4, 5]], np.int32))
    asked = dataclasses.replace(query(), after=after)
    command = failing("follows", shows=["scores", "lists", "histories"])
    shown = command.answer(trained_on(data()), 4, asked)
    # It scores an item by its place after the last one that was sent.
    assert shown.after is not None
    np.testing.assert_array_equal(shown.after, [[1, 0], [0, -5], [np.nan, np.nan]])
    with pytest.raises(ConfigError, match="does not show histories"):
        failing("follows").answer(trained_on(data()), 4, asked)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_it_shows_the_scores_lists_and_factors_of_a_real_model(scratch: Path, kind: str) -> None:
    recommender = Command(
        f"{PYTHON} own_knn.py {{task}}",
        kind,  # type: ignore[arg-type]
        ["scores", "lists", "factors"],
        timeout=LIMIT,
        cwd=SUPPORT,
    )
    asked = query(factors=True)
    shown = recommender.answer(trained_on(data()), 4, asked)
    seen = data().todense().astype(float)
    scores = seen @ own_knn.trained(seen)
    np.testing.assert_allclose(shown.scores, scores[asked.users, asked.items], rtol=1e-6)
    np.testing.assert_array_equal(shown.lists, own_knn.best(seen, scores, K)[asked.listed])
    assert shown.factors is not None
    assert shown.factors.users is not None
    np.testing.assert_allclose(shown.factors.users @ shown.factors.items.T, scores, atol=1e-4)
    assert not list(scratch.iterdir())


def test_nothing_is_asked_that_the_query_does_not_hold() -> None:
    none = np.empty(0, np.int32)
    scores = failing("works", shows=["scores"])
    assert (
        scores.answer(
            trained_on(data()), 1, Query(query().users, query().items, none, K)
        ).lists.size
        == 0
    )
    lists = failing("works", shows=["lists"])
    shown = lists.answer(trained_on(data()), 1, Query(none, none, np.array([1], np.int32), K))
    assert shown.scores.size == 0
    np.testing.assert_array_equal(shown.lists, [np.argsort(-counts(), kind="stable")[:K]])


@pytest.mark.cases("name", ["scores", "lists", "factors"])
def test_what_it_does_not_show_is_a_config_error(name: str) -> None:
    others: Any = [shown for shown in ("scores", "lists", "factors") if shown != name]
    with pytest.raises(ConfigError, match=rf"own_command.* does not show {name}.*params.shows"):
        failing("crashes", shows=others).answer(trained_on(data()), 1, query(factors=True))


def test_pairs_that_are_left_out_have_no_score() -> None:
    scores = answer("writes half").scores
    # The distinct pairs in order are (0, 0), (0, 4), (2, 3), (5, 1), (7, 5).
    every = counts()[query().items].astype(np.float32)
    np.testing.assert_array_equal(scores, np.where([0, 1, 0, 1, 1, 0], every, np.nan))


@pytest.mark.cases(
    ("way", "words"),
    [
        ("crashes", ["exit code 1: ", "its log ends: reading the task | out of luck"]),
        ("is killed", ["signal 9 ended it", "; it printed nothing"]),
        ("prints latin-1", ["its log ends: caf\ufffd red | 20 % | bell"]),
        ("writes nothing", ["there is no scores.csv: write it where task.json says"]),
        ("writes empty files", ["scores.csv has no column user", "write the columns user, item"]),
        ("writes a pipe", ["scores.csv is no file"]),
        ("writes NaN", ["scores.csv, line 3: score = nan is no finite number: leave out"]),
        ("writes an empty cell", ["scores.csv, line 3: score = nan is no finite number"]),
        ("writes inf", ["scores.csv, line 3: score = inf is no finite number"]),
        ("writes text", ["scores.csv, line 3: score = 'high' is no number"]),
        ("writes a wrong user", ["scores.csv, line 3: user = 8 is none of 0 to 7"]),
        ("writes a pair twice", ["scores.csv, line 7: user 0 and item 0 stand there a second"]),
        ("writes a long list", ["lists.csv, line 4: rank = 3, and lists of 2 items are asked"]),
    ],
)
def test_what_goes_wrong_is_one_sentence(scratch: Path, way: str, words: list[str]) -> None:
    with pytest.raises(RunError) as raised:
        answer(way)
    message = str(raised.value)
    for word in ("the command '", "own_command.py", " with seed 4: ", *words):
        assert word in message
    assert message.isprintable()
    assert len(message) < 1000
    assert not list(scratch.iterdir())


def test_a_shape_that_changes_between_trainings_is_noticed() -> None:
    assert answer("changes its shape", seed=4).lists.shape == (3, K)
    with pytest.raises(RunError, match=r"seed 5: lists\.csv .* rank, only 'user, item'"):
        answer("changes its shape", seed=5)


@pytest.mark.long
def test_a_training_that_fails_is_run_again(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    recommender = failing("every third", retries=1, env={"NOTES": str(notes)})
    for seed in range(5):
        shown = recommender.answer(trained_on(data()), seed, query())
        np.testing.assert_array_equal(shown.scores, counts()[query().items])
    assert len(notes.read_text()) == 7
    with pytest.raises(RunError, match=r"seed 9, try 3 of 3: .* code 1"):
        answer("crashes", seed=9, retries=2)
    notes.write_text("xx")
    with pytest.raises(RunError, match=r"with seed 1: it ended.*the third one"):
        answer("every third", seed=1, env={"NOTES": str(notes)})


@pytest.mark.long
@pytest.mark.parametrize("way", ["hangs", "hangs silently"])
def test_a_command_that_hangs_is_stopped_with_all_it_started(
    scratch: Path, tmp_path: Path, way: str
) -> None:
    notes = tmp_path / "notes"
    with pytest.raises(RunError, match=r"after 1 seconds: .*params\.timeout"):
        answer(way, timeout=1, env={"NOTES": str(notes)})
    if way == "hangs":
        assert all(gone(int(pid)) for pid in notes.read_text().split())
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("way", ["leaves a grandchild", "leaves a printing grandchild"])
def test_what_a_command_leaves_running_is_ended_and_not_waited_for(
    tmp_path: Path, way: str
) -> None:
    notes = tmp_path / "notes"
    answer(way, env={"NOTES": str(notes)})
    assert all(gone(int(pid)) for pid in notes.read_text().split())


FORGOTTEN = data().nnz // 2


def without(way: str, requests: int = 1, asked: Query | None = None, **parameters: Any) -> Answer:
    """Train on all, forget the first half of the interactions, and answer."""
    every, requested = trained_on(data()), []
    rows = every.ratings
    for part in np.array_split(np.arange(FORGOTTEN), requests):
        pairs = np.stack((rows.user[part], rows.item[part]), axis=1)
        kept = Interactions.of(rows, np.arange(len(rows)) > part[-1])
        requested.append(Deletion("own", kept, pairs))
    command = failing(way, **parameters)
    return command.answer_without(every, requested, 4, asked or query())


@pytest.mark.parametrize("requests", [1, 2])
def test_a_second_call_in_the_same_folder_forgets(scratch: Path, requests: int) -> None:
    kept = np.bincount(data().indices[FORGOTTEN:], minlength=N_ITEMS)
    shown = without("forgets", requests)
    np.testing.assert_array_equal(shown.scores, kept[query().items])
    np.testing.assert_array_equal(shown.lists[0], np.argsort(-kept, kind="stable")[:K])
    assert shown.before is None
    assert shown.took is not None
    assert min(shown.took) > 0
    assert not list(scratch.iterdir())


def test_a_command_that_ignores_what_it_is_to_forget_shows_all_it_was_trained_on() -> None:
    np.testing.assert_array_equal(without("works").scores, counts()[query().items])


def test_what_the_first_call_shows_is_what_was_there_before() -> None:
    shown = without("forgets", 2, dataclasses.replace(query(), before=True))
    assert shown.before is not None
    np.testing.assert_array_equal(shown.before, counts()[query().items])
    assert (shown.scores < shown.before).any()


@pytest.mark.cases(
    ("way", "said"),
    [
        ("crashes when it forgets", r"request 1 of 1: it ended with exit code 1.*cannot forget"),
        ("writes nothing when it forgets", r"request 1 of 1: there is no scores.csv: write it"),
        ("writes nothing", r"request 1 of 1: there is no scores.csv: write it"),
        ("removes its folder", r"seed 4: its folder cannot be written \("),
    ],
)
def test_a_call_that_does_not_forget_is_one_sentence(scratch: Path, way: str, said: str) -> None:
    with pytest.raises(RunError, match=said):
        without(way)
    assert not list(scratch.iterdir())


def test_a_command_that_fails_to_forget_trains_again(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.write_text("x")
    without("every third", retries=1, keep_logs=tmp_path / "logs", env={"NOTES": str(notes)})
    assert len(notes.read_text()) == 5
    names = sorted(path.name[:-13] for path in (tmp_path / "logs").iterdir())
    assert names == [
        "seed-4-try-1", "seed-4-try-1-request-1", "seed-4-try-2", "seed-4-try-2-request-1",
    ]  # fmt: skip


def test_a_command_forgets_by_its_own_method_alone() -> None:
    with pytest.raises(ConfigError, match="forget = 'filter' needs"):
        failing("works").answer_without(
            trained_on(data()),
            [Deletion("filter", trained_on(data()), np.zeros((1, 2), np.int32))],
            4,
            query(),
        )


def test_of_a_long_output_the_beginning_and_the_end_are_kept(tmp_path: Path) -> None:
    answer("prints 200 MB", keep_logs="logs", cwd=tmp_path)
    (log,) = (tmp_path / "logs").iterdir()
    text = log.read_text()
    assert len(text) < 2**20 + 100
    assert text.startswith("first line\n")
    assert text.endswith("\nlast line\n")
    assert f"[dpaudit dropped {200 * 2**20 + 21 - 2**20} bytes here]" in text


def test_logs_of_all_tries_are_kept(tmp_path: Path) -> None:
    with pytest.raises(RunError):
        answer("crashes", seed=6, retries=1, keep_logs=str(tmp_path / "a" / "b"))
    logs = sorted((tmp_path / "a" / "b").iterdir())
    assert [log.name[:13] for log in logs] == ["seed-6-try-1-", "seed-6-try-2-"]
    assert logs[0].read_text() == "reading the task\nout of luck\n"
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"params.keep_logs = .* cannot be written"):
        answer("works", keep_logs=str(tmp_path / "file"))


def test_placeholders_and_the_environment_name_the_task(scratch: Path, tmp_path: Path) -> None:
    recommender = failing(
        "prints its environment", keep_logs=tmp_path / "logs", env={"NOTES": "a b"}
    )
    more = " {seed} '{folder} x' {{seed}} {} '{ seed}'"
    recommender = Command(
        recommender.command + more,
        cwd=tmp_path,
        keep_logs=recommender.keep_logs,
        env=recommender.env,
        timeout=LIMIT,
    )
    recommender.answer(trained_on(data()), 12, query())
    (log,) = (tmp_path / "logs").iterdir()
    task, rest = log.read_text().rstrip("\n").split(" ", 1)
    folder = Path(task).parent
    assert Path(task).name == "task.json"
    assert folder.parent == scratch
    assert rest == f"12 a b {tmp_path} 12 {folder} x {{seed}} {{}} {{ seed}}"


@pytest.mark.cases(
    ("parameters", "words"),
    [
        ({"command": "no-such-program {task}"}, ["(No such file or directory: no-such-program)"]),
        (
            {"command": "./no-such-program"},
            ["cannot be started", "correct the command, params.cwd"],
        ),
        ({"command": str(SUPPORT)}, ["Permission denied"]),
        ({"command": "true", "cwd": "/no/such/folder"}, ["/no/such/folder"]),
        ({"command": "true", "env": {"A=B": "1"}}, ["illegal environment variable name"]),
        ({"command": "true", "env": {"A": "\0"}}, ["null byte"]),
    ],
)
def test_a_command_that_cannot_be_started_is_a_config_error(
    scratch: Path, parameters: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as raised:
        Command(**parameters, retries=3).answer(trained_on(data()), 1, query())
    for word in (f"the command '{parameters['command']}' cannot be started", *words):
        assert word in str(raised.value)
    assert not list(scratch.iterdir())


@pytest.mark.cases(
    ("parameters", "said"),
    [
        ({"command": "python {taks}"}, r"\{taks\} is no placeholder: use \{task\}, \{seed\}, "),
        ({"command": "sh -c 'echo ${HOME}'"}, r"write \{\{HOME\}\} for this text"),
        ({"command": ""}, "name a program"),
        ({"command": "a\0b"}, "null character"),
        ({"command": "python 'train.py"}, "No closing quotation"),
        ({"command": 3}, "command"),
        ({"format": "json"}, "format"),
        ({"shows": ["ratings"]}, "shows"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"retries": -1}, "retries"),
        ({"env": {"A": 1}}, "env"),
        ({"workers": 2}, "workers"),
    ],
)
def test_wrong_parameters_are_refused(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Command(**{"command": "true", **parameters})


def test_it_is_frozen_and_can_be_sent_to_a_worker() -> None:
    recommender: Any = failing("works", predicts_ratings=True, keep_logs="logs")
    assert recommender.predicts_ratings is True
    assert recommender.cwd == Path()
    assert cloudpickle.loads(cloudpickle.dumps(recommender)) == recommender
    with pytest.raises(AttributeError):
        recommender.timeout = 1


CODE = """
import numpy as np, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.recommenders.base import Query
from dpaudit.recommenders.command import Command
index = np.arange(3, dtype=np.int32)
ratings = Ratings.build(index, index, np.ones(3), 3, 3, Scale(1, 1, 1))
Command(sys.argv[1]).answer(Interactions(ratings), 1, Query(index, index, index, 2))
"""


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_it_ends_with_dpaudit(tmp_path: Path, number: int) -> None:
    notes, folder = tmp_path / "notes", tmp_path / "scratch"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", CODE, failing("hangs").command],
        env={**os.environ, "NOTES": str(notes), "TMPDIR": str(folder)},
        stderr=subprocess.DEVNULL,
    ) as started:
        while not notes.exists() or len(notes.read_text().split()) < 2:
            assert started.poll() is None
            time.sleep(0.02)
        started.send_signal(number)
    assert all(gone(int(pid)) for pid in notes.read_text().split())
    end = time.monotonic() + 10
    while list(folder.iterdir()):
        assert time.monotonic() < end, "the folder of the training was left"
        time.sleep(0.02)


def test_the_page_for_users_shows_the_examples_and_parameters_that_exist() -> None:
    root = Path(dpaudit.__file__).parents[1]
    page = (root / "docs" / "guides" / "own-models.md").read_text()
    for path in ("examples/own-model/model.py", "dpaudit/cli/scripts/rectools_model.py"):
        assert f"```python\n{(root / path).read_text()}```" in page
    tables = [tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", page, re.S)]
    classes: dict[str, Any] = {"target": PythonClass, "command": Command, "returned": Returned}
    recommenders = []
    for table in (table["recommender"][0] for table in tables):
        (word,) = classes.keys() & table
        recommenders.append(classes[word](table[word], **table["params"]))
    assert list(map(type, recommenders)) == [
        PythonClass, Command, PythonClass, Command, Returned,
    ]  # fmt: skip
    for field in dataclasses.fields(Command):
        assert field.name in {"command", "cwd"} or f"| `{field.name}` |" in page
