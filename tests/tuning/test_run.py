"""A search from a config to its files: what is judged, what goes on after a kill, what is said."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpaudit.auditor.plan import RunFolder
from dpaudit.cli import main
from dpaudit.config.load import load
from dpaudit.tuning import run
from dpaudit.tuning.report import picture
from dpaudit.tuning.result import CandidateRecord, Leak, SettingRecord, Tuning
from dpaudit.tuning.search import Trained
from dpaudit.tuning.settings import Setting

# Scores show what was trained on through noise; lists follow a fixed taste through the same noise.
MODEL = """
import numpy as np

class Noisy:
    def __init__(self, noise=0.3):
        self.noise = noise

    def fit(self, interactions, seed):
        rng = np.random.default_rng(seed)
        self.seen = interactions.toarray() > 0
        users, items = interactions.shape
        self.shown = self.seen + self.noise * rng.normal(size=(users, items))
        taste = -np.arange(items) / items
        self.lists = taste + 0.1 * self.noise * rng.normal(size=(users, items))
        return self

    def scores(self, users, items):
        return self.shown[users, items].astype(np.float32)

    def recommend(self, users, k):
        left = np.where(self.seen[users], -np.inf, self.lists[users])
        return np.argsort(-left, axis=1)[:, :k].astype(np.int32)
"""
CONFIG = """
seed = 4
[data]
synthetic = { n_users = 80, n_items = 60, mean_per_user = 25 }
[[recommender]]
label = "noisy"
target = "noisy:Noisy"
[membership]
observers = ["scores"]
interactions = 600
held_out = 100
[[attack]]
name = "global-threshold"
[[attack]]
name = "conjugate-lira"
[[gate]]
metric = "attack.tpr"
where = { at = 0.01 }
max = %s
[tune]
settings = { "params.settings.noise" = [0.6, 1.0, 3.0] }
trainings = 60
"""


def folder_with(tmp_path: Path, limit: float = 0.3) -> Path:
    (tmp_path / "noisy.py").write_text(MODEL)
    (tmp_path / "audit.toml").write_text(CONFIG % limit)
    return tmp_path


def call(folder: Path, *options: str, command: str = "tune", config: str = "audit.toml") -> Result:
    arguments = [command, str(folder / config), "--allow-code", "--workers", "1", *options]
    return CliRunner().invoke(main, arguments, env={"COLUMNS": "120"})


def result(folder: Path) -> Tuning:
    return Tuning.model_validate_json((folder / "tune.json").read_text())


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = folder_with(tmp_path_factory.mktemp("go"))
    return folder, call(folder, "-o", str(folder / "out"))


def test_a_setting_that_passes_is_go_with_its_price(go: tuple[Path, Result]) -> None:
    folder, called = go
    assert called.exit_code == 0, called.output
    tuning = result(folder / "out")
    assert tuning.outcome == "go"
    assert tuning.chosen is not None
    chosen = tuning.settings[tuning.chosen]
    assert chosen.values["params.settings.noise"] >= 1
    assert tuning.settings[0].values == {}
    assert tuning.settings[0].over > 1 > chosen.over
    assert tuning.candidates[-1].judged == 19
    assert tuning.candidates[-1].seen >= 6
    assert tuning.price[0].lower is not None
    assert tuning.used <= 60
    assert tuning.attempt == 1
    said = " ".join(called.stdout.split())
    assert said.startswith("GO With noise")
    assert "At most 4.2 of 100 such searches" in said
    assert "Next: dpaudit run" in said


def test_the_files_show_it(go: tuple[Path, Result]) -> None:
    out = go[0] / "out"
    page = (out / "tune.html").read_text()
    assert "<svg" in page
    assert "as it is" in page
    assert "GO" in page
    assert (out / "tune.md").read_text().startswith("# Settings of noisy")
    header, *rows = (out / "tune.csv").read_text().splitlines()
    assert header.startswith("setting,params.settings.noise,trainings,utility,leak,limit")
    assert len(rows) == 4


def test_the_judged_record_is_a_run_of_its_own_trainings(go: tuple[Path, Result]) -> None:
    number = len(result(go[0] / "out").candidates)
    record = json.loads((go[0] / "out" / f"candidate-{number}" / "record.json").read_text())
    table = record["config"]["membership"]
    assert record["outcome"] == "go"
    assert table["seen"] == table["calibrating"] == table["trainings"] - 19


def test_the_tuned_config_runs_as_it_is(go: tuple[Path, Result]) -> None:
    tuned = load(go[0] / "tuned.toml")
    original = load(go[0] / "audit.toml")
    assert tuned.seed != original.seed
    assert tuned.audited[0].label == "noisy"
    assert "tune" not in tuned.model_fields_set


@pytest.mark.long
def test_a_run_of_the_tuned_config_says_go_again(go: tuple[Path, Result]) -> None:
    run = call(go[0], "-o", str(go[0] / "again"), command="run", config="tuned.toml")
    assert run.exit_code == 0, run.output


@pytest.mark.long
def test_the_same_search_goes_on_and_another_one_is_counted(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    first = call(folder, "-o", str(folder / "out"))
    before = result(folder / "out")
    again = call(folder, "-o", str(folder / "out"), "--workers", "2")
    assert again.exit_code == first.exit_code
    assert result(folder / "out") == before
    other = call(folder, "-o", str(folder / "out"), "-s", "gate.0.max=0.25")
    assert result(folder / "out").attempt == 2
    assert "It is search 2 in this folder" in " ".join(other.stdout.split())
    assert "8.4 of 100" in " ".join(other.stdout.split())


@pytest.mark.long
def test_where_nothing_passes_the_nearest_is_said(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, limit=0.02)
    called = call(folder, "-o", str(folder / "out"))
    tuning = result(folder / "out")
    assert called.exit_code in (1, 4), called.output
    assert tuning.chosen is None
    assert not (folder / "tuned.toml").exists()
    said = " ".join(called.stdout.split())
    assert "nearest: noise 3" in said


def with_utility(tmp_path: Path, least: float, statement: str = "next-training") -> Path:
    folder = folder_with(tmp_path)
    gate = f'[[gate]]\nmetric = "utility.ndcg"\nof = "{statement}"\nmin = {least}\n'
    text = (folder / "audit.toml").read_text().replace("[tune]", f"{gate}[tune]")
    (folder / "audit.toml").write_text(text)
    return folder


@pytest.mark.long
@pytest.mark.parametrize(("least", "metric"), [(0.05, "attack.tpr"), (0.14, "utility.ndcg")])
def test_a_gate_on_utility_judges_and_the_picture_shows_what_leaks(
    tmp_path: Path, least: float, metric: str
) -> None:
    folder = with_utility(tmp_path, least)
    called = call(folder, "-o", str(folder / "out"))
    tuning = result(folder / "out")
    assert {one.leak.metric for one in tuning.settings if one.leak} == {"attack.tpr"}
    worst = tuning.candidates[-1]
    assert worst.leak is not None
    assert worst.leak.metric == metric, called.output
    assert worst.fate == ("go" if metric == "attack.tpr" else "exceeded")
    assert (max(worst.relative) > 1) == (worst.fate == "exceeded")
    assert "recognised: less is more private" in str(picture(tuning))


@pytest.mark.long
def test_a_search_leaves_what_judging_by_intervals_takes(tmp_path: Path) -> None:
    folder = with_utility(tmp_path, 0.1, "this-model")
    few = call(folder, "-o", str(folder / "few"), "-s", "tune.trainings=38")
    assert few.exit_code == 2
    assert "by 36 new trainings: give 48 or more" in few.stderr
    least = call(folder, "-o", str(folder / "least"), "-s", "tune.trainings=48")
    assert "2 of 4 searched" in " ".join(least.stdout.split())
    assert result(folder / "least").candidates[0].judged > 19
    enough = call(folder, "-o", str(folder / "out"))
    assert enough.exit_code == 0, enough.output
    assert result(folder / "out").listed == 1


@pytest.mark.long
def test_the_gate_that_fails_is_the_reason_of_a_stop(tmp_path: Path) -> None:
    folder = with_utility(tmp_path, 0.99)
    called = call(folder, "-o", str(folder / "out"))
    assert called.exit_code == 1, called.output
    (candidate,) = result(folder / "out").candidates
    assert "below 0.99" in candidate.reason
    assert "(gate utility.ndcg of next-training >= 0.99)" in candidate.reason


@pytest.mark.long
def test_a_leak_that_another_observer_finds_in_each_training_is_one_number(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    text = (folder / "audit.toml").read_text().replace('["scores"]', '["scores", "own-list"]')
    text = text.replace('"attack.tpr"\nwhere = { at = 0.01 }', '"leak"')
    (folder / "audit.toml").write_text(text.replace("[0.6, 1.0, 3.0]", "[1.5]"))
    called = call(folder, "-s", "tune.trainings=35", "-o", str(folder / "out"))
    assert called.exit_code in (0, 4), called.output
    leaks = [one.leak for one in result(folder / "out").settings if one.leak]
    assert [len(leak.values) for leak in leaks] == [6, 6]


@pytest.mark.long
def test_a_range_is_searched_by_tpe_from_100_trainings_on(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    folder = folder_with(tmp_path)
    values = "tune.settings={'params.settings.noise'={from=0.2,to=4.0,log=true}}"
    called = call(folder, "-o", str(folder / "out"), "-s", values, "-s", "tune.trainings=100")
    tuning = result(folder / "out")
    assert called.exit_code == 0, called.output
    assert (tuning.sampler, tuning.outcome) == ("TPE", "go")
    assert tuning.used <= 100
    assert tuning.chosen is not None
    assert tuning.settings[tuning.chosen].over < 1


@pytest.mark.long
def test_a_time_becomes_a_number_of_trainings_that_is_kept(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    timed = (CONFIG % 0.3).replace("trainings = 60", 'time = "10 min"')
    (folder / "audit.toml").write_text(timed)
    called = call(folder, "-o", str(folder / "out"))
    assert called.exit_code == 0, called.output
    first = result(folder / "out")
    (count,) = json.loads((folder / "out" / "searches.json").read_text())["budgets"].values()
    assert first.trainings == count > 60
    call(folder, "-o", str(folder / "out"))
    assert result(folder / "out") == first


@pytest.mark.long
def test_gates_about_this_model_are_judged_on_targets_drawn_afresh(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    called = call(folder, "-o", str(folder / "out"), "-s", "gate.0.of=this-model", "-s",
                  "membership.trainings=8")  # fmt: skip
    tuning = result(folder / "out")
    assert called.exit_code in (0, 4), called.output
    record = json.loads((folder / "out" / "candidate-1" / "record.json").read_text())
    assert record["config"]["seed"] != 4
    assert record["config"]["membership"]["trainings"] == 8
    # Each of the listed settings has its share of the error probability.
    assert 1 - record["config"]["audit"]["confidence"] == pytest.approx(0.05 / tuning.listed)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("tune.settings={'params.settings.nope'=[1]}", "nope"),
        ("tune.settings={'params.settings.noise'={from=2,to=1}}", "the range is empty"),
        ("tune.utility=utility.joy", "tune.utility = 'utility.joy' is no utility"),
        ("tune.utility=utility.rmse", "tune.utility = 'utility.rmse' has no number for noisy"),
        ("tune.trainings=20", "tune.trainings = 20 are too few to search 4 settings"),
        ("tune.recommender=other", "tune.recommender = 'other'"),
        ("gate=[]", "no [[gate]] judges noisy"),
        ("gate=[{metric='utility.ndcg',min=0.1}]", "no [[gate]] limits what attackers find"),
        ("gate=[{metric='attack.auc',min=0.1}]", "no [[gate]] limits what attackers find"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, option: str, said: str) -> None:
    folder = folder_with(tmp_path)
    called = call(folder, "-o", str(folder / "out"), "-s", option)
    assert called.exit_code == 2
    errors = called.stderr.strip().splitlines()
    assert said in errors[-1]
    assert errors[-1].startswith("dpaudit: ")
    assert not (folder / "tuned.toml").exists()


def test_a_config_of_the_user_is_not_replaced(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    (folder / "tuned.toml").write_text("seed = 1\n")
    called = call(folder)
    assert called.exit_code == 2
    assert "name another file with --tuned" in called.stderr


class Judged:
    """A search whose settings were trained, and what judging them says."""

    intervals, total, judged = False, 50, 19
    config = SimpleNamespace()

    def __init__(self, leaks: dict[int, float]) -> None:
        self.leaks, self.order = leaks, list[int]()
        self.used = dict.fromkeys(leaks, 6)
        self.settings = [Setting({"x": one}) for one in leaks]
        tune = SimpleNamespace(utility="utility.ndcg", time=None)
        self.tuned = SimpleNamespace(tune=tune, model=SimpleNamespace(label="mine"))
        self.ratings = None
        self.shown = {
            one: SettingRecord(
                values={}, words=str(one), trainings=6, utility=(1.0 + leak,), relative=(leak,) * 6
            )
            for one, leak in leaks.items()
        }
        self.trained = {one: Trained((leak,) * 6, 1.0 + leak, 6) for one, leak in leaks.items()}

    def judge(self, setting: int, left: int) -> tuple[CandidateRecord, None]:
        """Say that more is found with more trainings."""
        self.order.append(setting)
        leak = Leak(rule="r", metric="attack.tpr", at=0.01, limit=1.0,
                    values=(self.leaks[setting],))  # fmt: skip
        return CandidateRecord(
            setting=setting, fate="undecided", seen=6, judged=19, leak=leak,
            relative=leak.relative, outcome="undecided",
        ), None  # fmt: skip


def test_what_stays_undecided_is_judged_again_in_a_place_that_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "claimed", lambda *_: {})
    search: Any = Judged({0: 0.3, 1: 0.4})
    about = {"sampler": "listed", "attempt": 1, "config": ""}
    outcome = run._judged(search, 200, about, lambda _: None, RunFolder(tmp_path))
    first = search.order[:2]
    assert sorted(first) == [0, 1]
    assert search.order[2:] == [0]  # the one that is furthest from the limit
    assert outcome.tuning.outcome == "undecided"
