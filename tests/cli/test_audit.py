from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from configs import load_as  # type: ignore[import-not-found]

from dpaudit.cli import main
from dpaudit.config.tables import DataConfig
from dpaudit.core import registry
from dpaudit.data import download, load
from dpaudit.defenses.base import Defense
from dpaudit.record.result import AuditResult

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = """
seed = 3
[data]
synthetic = { n_users = 100, n_items = 80, mean_per_user = 30 }
[model]
epsilon = [1, 30]
params = { top_k = 5 }
[[attack]]
[audit]
trials = 300
fail_on_false_claim = false
[[game]]
pair = "support-threshold"
trials = 1000
"""


# Examples that run with each change that may touch them, one of each kind; the others do by night.
OFTEN = {
    "black-box",
    "ciao-privsr",
    "large-model",
    "ml-100k-attributes",
    "ml-100k-cosine",
    "ml-100k-slope-one",
}

GROUPS: tuple[registry.Group, ...] = ("defenses", "attacks")


def marks(example: Path) -> Any:
    """Return how often an example is run."""
    if example.stem == "quickstart":
        return ()
    return pytest.mark.long if example.stem in OFTEN else pytest.mark.nightly


def call(*arguments: object, text: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=text)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "audit.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="module")
def folder(config: Path) -> Path:
    folder = config.parent / "out"
    result = call("run", config, "-o", folder)
    assert result.exit_code == 0, result.output
    return folder


@pytest.mark.cases("name", [*registry.names("defenses"), *registry.names("attacks")])
def test_every_plug_in_explains_itself(name: str) -> None:
    result = call("show", name)
    assert result.exit_code == 0, result.output
    part = next(registry.load(g, name) for g in GROUPS if name in registry.names(g))
    defense = issubclass(part, Defense)
    assert ("Used in: [[" in result.output) is not defense
    assert ("Observers for [[game]]:" in result.output) is defense
    for field in dataclasses.fields(part):
        if field.name not in {"epsilon", "variant"}:
            explained = rf"^  {field.name} = .*\n      \S"
            assert re.search(explained, result.output, re.MULTILINE), field.name


def test_a_report_that_fails_costs_no_finished_run(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(result: AuditResult) -> str:
        raise ValueError("no page")

    monkeypatch.setattr("dpaudit.reports.render.html.render", failing)
    result = call("run", config, "-o", tmp_path)
    assert result.exit_code == 3
    [sentence] = [line for line in result.stderr.splitlines() if line.startswith("dpaudit: ")]
    assert "report 'html' failed (ValueError: no page)" in sentence
    assert "Traceback" not in result.stderr
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"record.json", "tasks.sqlite", ".tasks.sqlite.lock"}
    assert call("gate", tmp_path).exit_code == 0


@pytest.mark.long
def test_a_run_that_has_to_decide_and_does_not_is_undecided(config: Path, tmp_path: Path) -> None:
    bare = ("-s", "game=[]", "-s", "model.epsilon=[30]")
    result = call("run", config, "-o", tmp_path, *bare)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("NO DECISION ")
    result = call("run", config, "-o", tmp_path, *bare, "-s", "audit.require_decision=true")
    assert result.exit_code == call("gate", tmp_path).exit_code == 4


@pytest.mark.long
def test_a_false_claim_stops_a_run_without_gates(config: Path, tmp_path: Path) -> None:
    judged = ("-s", "audit.fail_on_false_claim=true")
    result = call("run", config, "-o", tmp_path, *judged)
    assert result.exit_code == 1, result.output
    assert call("gate", tmp_path).exit_code == 1
    record = json.loads((tmp_path / "record.json").read_text())
    assert [verdict["verdict"] for verdict in record["verdicts"]] == ["false", "not tested"]


def test_a_run_leaves_its_record_and_reports(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [
        ".tasks.sqlite.lock",
        "record.json",
        "report.html",
        "report.md",
        "tasks.sqlite",
    ]
    record = json.loads((folder / "record.json").read_text())
    assert record["schema_version"] == 4
    assert record["config"]["seed"] == 3
    assert {measurement["metric"] for measurement in record["measurements"]} == {
        "attack.accuracy",
        "utility.overlap",
        "utility.rmse",
        "epsilon",
    }


@pytest.mark.cases(
    ("rule", "code"),
    [
        ("metric = 'attack.accuracy'\nmax = 0.999", 0),
        ("metric = 'attack.accuracy'\nmax = 0.001", 1),
        ("metric = 'epsilon'\nmax = 'claim'\ndetectable = 2\nwhere = { epsilon = 1 }", 1),
        ("metric = 'epsilon'\nmax = 50\ndetectable = 2", 4),
    ],
)
def test_the_exit_code_comes_from_the_gates(
    config: Path, folder: Path, tmp_path: Path, rule: str, code: int
) -> None:
    gated = tmp_path / "gated.toml"
    gated.write_text(f"{SMALL}\n[[gate]]\n{rule}\n")
    assert call("run", gated, "-o", tmp_path / "out", "-q").exit_code == code
    # The same gate on the finished run says the same.
    policy = tmp_path / "policy.toml"
    policy.write_text(f"[[gate]]\n{rule}\n")
    assert call("gate", folder, "--policy", policy).exit_code == code
    assert call("gate", tmp_path / "out").exit_code == code


@pytest.mark.long
def test_seed_and_any_value_can_be_replaced_and_quiet_prints_nothing(
    config: Path, tmp_path: Path
) -> None:
    options = ("--seed", 11, "-s", "audit.trials=50", "-s", "model.epsilon=[2]", "--quiet")
    result = call("run", config, "-o", tmp_path, *options)
    assert (result.exit_code, result.output) == (0, "")
    written = json.loads((tmp_path / "record.json").read_text())["config"]
    assert written["seed"] == 11
    assert written["audit"]["trials"] == 50
    assert written["model"][0]["epsilon"] == [2.0]


@pytest.mark.long
@pytest.mark.drawn
def test_reports_are_rendered_again_without_a_rerun(folder: Path, tmp_path: Path) -> None:
    for name, file in (("html", "report.html"), ("md", "report.md"), ("json", "record.json")):
        result = call("report", folder, "--format", name)
        assert result.exit_code == 0
        assert result.output == (folder / file).read_text(encoding="utf-8")
    target = tmp_path / "deep" / "r.md"
    assert call("report", folder, "--format", "md", "-o", target).exit_code == 0
    refused = call("report", folder, "-o", folder / "record.json")
    assert refused.exit_code == 2
    assert "would replace" in refused.stderr
    assert target.read_text(encoding="utf-8") == (folder / "report.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_extra_reports(config: Path, tmp_path: Path) -> None:
    extra = tmp_path / "leakage.md"
    few = ("-s", "audit.trials=50", "-s", "game.0.trials=100", "-s", "model.epsilon=[1]")
    options = ("-q", "-o", tmp_path, "--report", f"md={extra}")
    assert call("run", config, *few, *options).exit_code == 0
    assert extra.read_text(encoding="utf-8").startswith("#")
    result = call("run", config, "-q", "-o", tmp_path / "no", "--report", "pdf=x")
    assert result.exit_code == 2
    assert "there is no report 'pdf'" in result.output
    assert not (tmp_path / "no").exists()


@pytest.mark.cases(
    ("rows", "words"),
    [
        (None, "does not exist"),
        ("", "empty"),
        ("1\t2\n", "set data.format"),
        ("1\t2\tx\t0\n", "'x'"),
        ("1\t2\tnan\t0\n", "line 1"),
        ("1\t2\t3\t0\n1\t5\t9\t0\n", "line 2"),
        ("1\t2\t3\t0\n1\t2\t4\t0\n", "on_duplicate"),
        ("1\t2\t3\t0\n2\t2\t4\t0\n", "min_ratings"),
    ],
)
def test_broken_data_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, rows: str | None, words: str
) -> None:
    data = tmp_path / "u.data"
    if rows is not None:
        data.write_text(rows)
    config = tmp_path / "audit.toml"
    config.write_text(f"[data]\nformat = 'movielens-100k'\npath = '{data}'\n[model]\n")
    result = call("run", config, "-o", tmp_path / "out")
    assert result.exit_code == 2
    [sentence] = [line for line in result.output.splitlines() if " trials (" not in line]
    assert words in sentence
    assert not (tmp_path / "out").exists()


def test_an_unset_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPAUDIT_DATA", raising=False)
    result = call("run", EXAMPLES / "ml-100k-slope-one.toml", "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert "set DPAUDIT_DATA to the folder" in result.output


@pytest.mark.cases(
    "arguments",
    [
        ["run"],
        ["run", "CONFIG", "-o"],
        ["run", "CONFIG", "--waivers"],
        ["report", ".", "-o"],
        ["init"],
        ["init", "x.toml", "--data"],
        ["gate"],
        ["gate", ".", "--policy"],
        ["merge"],
        ["claims", "-o"],
        ["plan"],
    ],
)
def test_an_empty_path_is_refused(arguments: list[str], config: Path) -> None:
    result = call(*(config if argument == "CONFIG" else argument for argument in arguments), "")
    assert result.exit_code == 2
    assert "it is empty" in result.output


def test_an_empty_config_is_refused_with_what_to_write(tmp_path: Path) -> None:
    path = tmp_path / "audit.toml"
    path.write_text("")
    for command in ("run", "plan"):
        result = call(command, path)
        assert result.exit_code == 2
        assert "data.format is missing" in result.output
        assert "[[recommender]]" in result.output
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.cases(
    ("arguments", "words"),
    [
        (("run", "nowhere.toml"), "dpaudit init"),
        (("show", "slope-on"), "did you mean 'slope-one'?"),
        (("data", "get", "ml-100"), "did you mean 'ml-100k'?"),
        (("report", "nowhere"), "nowhere"),
        (("list", "defences"), "defenses"),
        (("run", "--workers", "0"), "--workers"),
    ],
)
def test_wrong_use_exits_with_2(arguments: tuple[str, ...], words: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output


def test_a_defect_exits_with_3(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("dpaudit.auditor.run.run", broken)
    result = call("run", config)
    assert result.exit_code == 3
    assert "defect" in result.output


@pytest.mark.long
def test_init_writes_a_config_that_runs_and_overwrites_nothing(tmp_path: Path) -> None:
    path = tmp_path / "dpaudit.toml"
    assert call("init", path).exit_code == 0
    assert "#" in path.read_text()
    assert call("run", path, "-q", "-o", tmp_path / "o", "-s", "audit.trials=50").exit_code in {
        0,
        4,
    }
    before = path.read_text()
    assert call("init", path).exit_code == 2
    assert path.read_text() == before


def test_lists_and_explanations() -> None:
    assert "slope-one" in call("list", "defenses").output
    assert "linear-ideal" in call("list", "attacks").output
    assert "ml-100k" in call("list", "data").output
    assert "attack.accuracy" in call("list", "metrics").output
    assert "html" in call("list", "reports").output
    shown = call("show", "slope-one").output
    for words in ("Park & Acharya", "min_co_ratings = 10", "support-threshold:", "Theorem 3.1"):
        assert words in shown
    assert "observe = 'one'" in call("show", "linear-ideal").output


def test_models_that_are_trained_are_listed_and_explained() -> None:
    listed = call("list", "defenses").output
    for name in ("dpsgd-mf", "dpps-mf", "dpsgd-pnbm", "dpps-pnbm", "neighborhood"):
        assert name in listed
        shown = call("show", name)
        assert shown.exit_code == 0, shown.output
        for pair in ("data", "rating", "user"):
            assert f"\n  {pair}: " in shown.output
        assert shown.output.count("\n  data: ") == 1
    assert "epochs = 20" in call("show", "dpsgd-mf").output
    assert "canary" in call("list", "attacks").output
    assert "calibration = 256" in call("show", "canary").output
    schema = json.loads(call("schema").output)
    assert "trials" in schema["$defs"]["Train"]["properties"]


def test_the_schema_is_json_schema() -> None:
    schema = json.loads(call("schema").output)
    assert set(schema["properties"]) >= {"data", "model", "attack", "audit", "game", "gate", "seed"}


def test_data_get_shows_the_terms_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []

    def fetch(dataset: download.Dataset, folder: Path, *, progress: bool) -> Path:
        fetched.append(dataset.name)
        return folder / dataset.name

    monkeypatch.setattr(download, "fetch", fetch)
    refused = call("data", "get", "ml-100k", "--folder", tmp_path, text="n\n")
    assert refused.exit_code != 0
    assert "terms" in refused.output.lower()
    assert not fetched
    assert call("data", "get", "ml-100k", "--folder", tmp_path, text="y\n").exit_code == 0
    assert call("data", "get", "ml-100k", "--folder", tmp_path, "--yes").exit_code == 0
    assert fetched == ["ml-100k", "ml-100k"]
    monkeypatch.delenv("DPAUDIT_DATA", raising=False)
    homeless = call("data", "get", "ml-100k", "--yes")
    assert homeless.exit_code == 2
    assert "DPAUDIT_DATA" in homeless.output


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["gate", "--help"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "dpaudit", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "dpaudit.cli.main" in loaded
    assert not loaded & {"numba", "numpy", "scipy", "pandas", "pydantic", "altair", "rich"}


def little_training(text: str) -> list[str]:
    options = ["train.trials=1", "train.evaluate_folds=2"]
    files = tomllib.loads(text)["train"].get("files", [])
    if files:
        options.append(f"train.files={files[:2]}")
    for i, model in enumerate(text.split("[[model]]")[1:]):
        options.append(f"model.{i}.grid={{}}")
        if "epochs =" in model:
            options.append(f"model.{i}.params.epochs=2")
        if "steps =" in model:
            options.append(f"model.{i}.params.steps=1")
        if "fake-gradients" in model or "privsr" in model:
            options.append(f"model.{i}.params.rounds=3")
        if "nonprivate" not in model:
            options.append(f"model.{i}.epsilon=[5]")
    if "[transcript]" in text:
        options += ["transcript.trials=1", "transcript.users=20", "transcript.rounds=[2]"]
    for i, game in enumerate(text.split("[[game]]")[1:]):
        options.append(f"game.{i}.trials=16")
        if "public" in game:
            options.append(f"game.{i}.params.calibration=16")
    return [part for option in options for part in ("-s", option)]


@pytest.mark.parametrize(("name", "size"), [("ml-100k", 100_000), ("ml-1m", 1_000_209)])
def test_the_data_of_every_example_can_be_read(real_data: Path, name: str, size: int) -> None:
    if not (real_data / name).is_dir():
        pytest.skip(f"there is no {name} in DPAUDIT_DATA")
    given = [load_as(DataConfig, path).data for path in EXAMPLES.glob(f"{name}-*.toml")]
    sources = {source.model_dump_json(): source for source in given}.values()
    least = sorted({source.binarize or 0 for source in sources})
    assert least == ([0, 1, 4] if name == "ml-100k" else [0])
    for source in sources:
        ratings = load(source)
        # 55,375 lines of MovieLens-100K have a rating of 4 or 5.
        assert len(ratings) == (55_375 if source.binarize == 4 else size)
        assert ratings.scale.width == (0 if source.binarize else 4)


@pytest.mark.drawn
@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, marks=marks(path), id=path.stem)
        for path in sorted(EXAMPLES.glob("*.toml"))
    ],
)
def test_every_example_runs(example: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = example.read_text()
    # What is run is the same on fewer ratings; published divisions belong to their data.
    many = {"grid =", "[[sybil]]", "candidates =", "delay =", '"recommender"', "-ranking", "ml-1m"}
    several = any(word in text for word in many | {"[membership]"})
    if "DPAUDIT_DATA" in text and not several:
        data: Path = request.getfixturevalue("real_data")
        if not (data / "ml-100k").is_dir():
            pytest.skip("there is no ml-100k in DPAUDIT_DATA")
    options = ["-s", "audit.trials=60"]
    for table in ("game", "sybil"):
        for i in range(text.count(f"[[{table}]]")):
            options += ["-s", f"{table}.{i}.trials={60 if table == 'game' else 2}"]
    if "[convergence]" in text:
        options += ["-s", "convergence.users=3"]
    if "[membership]" in text:
        options += ["-s", "membership.trainings=8", "-s", "membership.interactions=300"]
        options += ["-s", "membership.rates=[0.01]"]
    if "[train]" in text:
        options += little_training(text)
    for i, game in enumerate(text.split("[[game]]")[1:]):
        if "candidates =" in game:
            options += ["-s", f"game.{i}.candidates=20"]
    if several:
        binarize = tomllib.loads(text)["data"].get("binarize")
        kept = f", binarize = {binarize}" if binarize else ""
        social = ", synthetic = { mean_friends = 3, n_users = 150 }, sensitive = { share = 0.1 }"
        with_friends = social if "sensitive" in text else ""
        options += ["-s", f'data={{ format = "synthetic"{kept}{with_friends} }}']
    if "[defense]" in text:
        options = ["-s", "audit.trials=2000", "--allow-code"]
    result = call("run", example, "-q", "-o", tmp_path, *options)
    assert result.exit_code in {0, 1, 4}, result.output
    assert (tmp_path / "report.html").is_file()
    assert call("gate", tmp_path).exit_code == result.exit_code  # the record is checked as a whole


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["ml-100k-slope-one", "ml-100k-top-k", "ml-100k-sybil"])
def test_an_example_passes_its_gates_on_real_data(
    name: str, tmp_path: Path, real_data: Path
) -> None:
    """With the fewest trials that decide them."""
    example = EXAMPLES / f"{name}.toml"
    options = ["-s", "audit.trials=2000"]
    for i in range(example.read_text().count("[[sybil]]")):
        options += ["-s", f"sybil.{i}.trials=4"]
    if "[convergence]" in example.read_text():
        options += ["-s", "convergence.users=10"]
    result = call("run", example, "-q", "-o", tmp_path, *options)
    assert result.exit_code == 0, result.output
