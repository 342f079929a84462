"""`dpaudit plan`: its numbers are those of the library, and wrong use is one sentence."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dpaudit.bounds import planning
from dpaudit.bounds.planning import detectable_epsilon
from dpaudit.cli import main

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart.toml"
SMALL = """
[data]
synthetic = { n_users = 60, n_items = 50, mean_per_user = 25 }
[model]
epsilon = [1, 3]
params = { top_k = 5 }
[[game]]
pair = "support-threshold"
trials = 500
"""
TRAINED = """
[data]
synthetic = { n_users = 30, n_items = 40, mean_per_user = 20 }
[train]
folds = 2
trials = 20
[model]
label = "m"
defense = "dpsgd-mf"
epsilon = [1]
params = { epochs = 2, dimensions = 2 }
grid = { learning_rate = [0.002, 0.004] }
[[game]]
pair = "rating"
trials = 20
"""
PYTHON = """
[defense]
kind = "python"
target = "nowhere_to_be_found:f"
d = 0
d_prime = 1
epsilon = 0.5
delta = 1e-5
[audit]
trials = 3000
confidence = 0.99
"""


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["plan", *map(str, arguments)], env={"COLUMNS": "120"})


def refused(result: Result, *words: str) -> None:
    """Exit code 2, one sentence on standard error, nothing on standard output."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("dpaudit: ")
    assert len(result.stderr.splitlines()) == 1
    for word in words:
        assert word in result.stderr


def rows(result: Result) -> list[list[str]]:
    """The cells of the table's rows, without its header."""
    assert result.exit_code == 0, result.output
    _, head, table = result.stdout.rpartition("model  ")
    text = head + table if head else result.stdout
    lines = [line for line in text.splitlines() if len(re.split(r"  +", line)) > 3]
    return [re.split(r"  +", line.strip()) for line in lines[1:]]


@pytest.fixture(autouse=True)
def planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan takes seconds, so repeated calls are cached."""
    monkeypatch.setattr(planning, "plan", _remembered)


_remembered = functools.cache(planning.plan)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "audit.toml"
    path.write_text(SMALL)
    return path


@pytest.mark.long
@pytest.mark.parametrize(
    ("game", "delta", "confidence", "stated"),
    [
        ("laplace", 0.0, 0.95, "95 %"),
        ("gaussian", 1e-3, 0.9, "90 %"),
        ("randomized-response", 0.0, 0.999, "99.9 %"),
    ],
)
def test_a_plan_without_config_is_the_library_s(
    game: planning.Game, delta: float, confidence: float, stated: str
) -> None:
    options = ("--delta", delta, "--confidence", confidence, "--trials", 400)
    result = call("--epsilon", 0.5, "--game", game, *options)
    plan = planning.plan(0.5, delta=delta, confidence=confidence, trials=400, game=game)
    expected = []
    for reach in plan.reaches:
        cells = [reach.method, reach.kind, "yes" if reach.may_gate else "no"]
        cells += [f"{at:.4g}".replace("inf", "nothing") for at in (reach.at_80, reach.at_95)]
        expected.append(cells + ([] if reach.rounds is None else [f"{reach.rounds:.0f}"]))
    assert rows(result) == expected
    assert {row[2] for row in expected} == {"yes", "no"}
    assert f"a mechanism of kind {game}" in result.stdout
    assert f"each with {stated} confidence" in result.stdout
    assert f"recommended: {plan.recommended}" in result.stdout
    assert "times the claim" not in result.stdout


@pytest.mark.long
def test_a_factor_says_how_many_trials_it_needs() -> None:
    result = call("--epsilon", 1, "--factor", 2, "--trials", 1000)
    method = planning.plan(1.0, trials=1000, game="laplace").recommended
    assert method is not None
    needed = planning.trials_needed(1.0, 2.0, game="laplace", method=method)
    assert re.match(rf"2 times .* {needed} trials of the {method}$", result.stdout.splitlines()[-1])


def test_a_budget_that_finds_nothing_still_says_what_is_needed() -> None:
    result = call("--epsilon", 1, "--factor", 2, "--trials", 5)
    assert "recommended: more trials" in result.stdout
    needed = planning.trials_needed(1.0, 2.0, game="laplace")
    assert re.search(rf"2 times .* {needed} trials of the label test", result.stdout)


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["neither CONFIG nor --epsilon"]),
        (("--epsilon", 1, "--game", "gaussian"), ["delta = 0", "gaussian", "positive delta"]),
        (("--epsilon", -1), ["--epsilon -1", "at least 0"]),
        (("--epsilon", "nan"), ["--epsilon nan"]),
        (("--epsilon", 1, "--delta", 1), ["--delta 1 ", "[0, 1)"]),
        (("--epsilon", 1, "--confidence", 1), ["--confidence 1 ", "0.95 for 95 %"]),
        (("--epsilon", 1, "--confidence", 95), ["--confidence 95 "]),
        (("--epsilon", 1, "--factor", 1), ["factor = 1.0"]),
        (("--epsilon", 0, "--factor", 2), ["claimed = 0.0", "no finite multiple"]),
        (("--epsilon", 1, "--minutes", 2), ["--minutes", "--trials"]),
        (("nowhere.toml",), ["nowhere.toml", "dpaudit init"]),
    ],
)
def test_wrong_options_are_one_sentence(arguments: tuple[object, ...], words: list[str]) -> None:
    refused(call(*arguments), *words)


@pytest.mark.cases("option", ["epsilon", "delta", "confidence", "trials", "game"])
def test_what_a_config_says_no_option_says(config: Path, option: str) -> None:
    value = "laplace" if option == "game" else "5" if option == "trials" else "0.5"
    refused(call(config, f"--{option}", value), f"--{option} belongs to a plan without CONFIG")


@pytest.mark.long
def test_the_quickstart_is_planned() -> None:
    """Its gates need a factor of 1.5, and its support-threshold pair attains the published Δf."""
    table_rows = rows(call(QUICKSTART))
    assert len(table_rows) == 2 * 7 * 2
    cells = {(model, pair, claimed): rest for model, pair, claimed, *rest in table_rows}
    trials, detectable, _, needed = cells["published", "support-threshold", "1"]
    # The numbers of all intervals: 14 points with 2 attacks, 2 utilities and 2 games.
    assert (trials, detectable) == ("40000", f"{detectable_epsilon(1, 40000, 0.05 / 84):.4g}")
    assert int(needed) < 40_000
    assert cells["published", "tight", "1"][3] == "none"


@pytest.mark.long
def test_a_config_with_factor_and_minutes(config: Path) -> None:
    plain, asked = rows(call(config)), rows(call(config, "--factor", 3))
    assert [row[:4] for row in plain] == [row[:4] for row in asked]
    assert [len(row) for row in plain + asked] == [6, 6, 7, 7]
    assert [row[3] for row in plain] == ["1000", "1000"]
    # More time gives more trials, up to the limit of a config.
    few, many = (rows(call(config, "--minutes", minutes)) for minutes in (1e-9, 1e9))
    assert [row[3:5] for row in few] == [["2", "nothing"]] * 2
    assert [row[3] for row in many] == ["200000000"] * 2
    assert float(many[0][4]) < 1.01


@pytest.mark.cases(
    ("text", "arguments", "words"),
    [
        (SMALL.partition("[[game]]")[0], ("--minutes", 2), ["no games whose power"]),
        (SMALL, ("--minutes", -1), ["minutes = -1.0"]),
        (SMALL, ("--minutes", 0), ["minutes = 0.0"]),
        (SMALL, ("--minutes", "nan"), ["minutes = nan"]),
        (SMALL, ("--minutes", "inf"), ["minutes = inf"]),
        (SMALL, ("--factor", 0.5), ["factor = 0.5"]),
        (SMALL, ("--factor", 0), ["factor = 0.0"]),
        (SMALL, ("--factor", "nan"), ["factor = nan"]),
        (
            SMALL.replace("support-threshold", "support-treshold"),
            (),
            ["did you mean 'support-threshold'?"],
        ),
    ],
)
def test_configs_that_cannot_be_planned(
    config: Path, text: str, arguments: tuple[object, ...], words: list[str]
) -> None:
    config.write_text(text)
    refused(call(config, *arguments), *words)


def test_a_config_s_cost_is_estimated(config: Path) -> None:
    text = call(config, "--workers", "processes:4").stdout
    stages = {line.rpartition("  ")[0].split("  ")[0] for line in text.splitlines()}
    assert {"slope-one published: lists", "slope-one published: game support-threshold"} <= stages
    assert re.search(r"the run: \d.*, about \d.* on 4 processes", text)
    assert re.search(r"memory: [\d.]+ [KMG]iB ", text)
    assert "positive controls run games again" in text


def test_a_plan_fits_80_columns(config: Path) -> None:
    label = "a model with a name that takes more than half of a line of the terminal"
    config.write_text(SMALL.replace("[model]", f'[model]\nlabel = "{label}"'))
    result = CliRunner().invoke(main, ["plan", str(config)], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_without_a_game_or_a_claim_only_the_cost_is_told(config: Path) -> None:
    for text in (
        SMALL.partition("[[game]]")[0],
        SMALL.replace("epsilon = [1, 3]", "variant = 'nonprivate'"),
    ):
        config.write_text(text)
        result = call(config)
        assert result.exit_code == 0
        assert ": lists" in result.stdout
        assert "finds ε from" not in result.stdout


def test_a_training_is_estimated_with_the_first_settings_of_its_grid(config: Path) -> None:
    config.write_text(TRAINED)
    text = call(config, "--workers", 2).stdout
    stages = {line.split("  ")[0] for line in text.splitlines() if line.startswith("m: ")}
    assert stages == {"m: grid", "m: folds", "m: game rating"}
    # Two combinations of the grid, and two folds; in pieces of at most 16 trainings.
    assert re.search(r"m: grid +4 +40 ", text)
    assert re.search(r"m: folds +4 +40 ", text)


@pytest.mark.long
def test_a_python_mechanism_is_planned_by_its_claim(config: Path) -> None:
    """The mechanism is not imported, and the command in the message works."""
    config.write_text(PYTHON)
    result = call(config)
    advice = "--epsilon 0.5 --delta 1e-05 --confidence 0.99 --trials 1500"
    refused(result, advice, "half of its trials train the score")
    assert rows(call(*advice.split()))
    config.write_text(PYTHON.replace("epsilon =", "score = 'm:f'\nepsilon ="))
    refused(call(config), "--trials 3000")


OWN = """
[data]
synthetic = { n_users = 60, n_items = 40, mean_per_user = 20 }
[[recommender]]
target = "planned_model:Counts"
[membership]
trainings = 5000
interactions = 100
held_out = 50
rates = [0.1]
"""
COUNTS = """
from pathlib import Path

class Counts:
    def fit(self, interactions, seed):
        with Path(__file__).with_name("seeds").open("a") as seeds:
            seeds.write(f"{seed}\\n")
        self.counts = interactions.sum(axis=0)
        return self

    def scores(self, users, items):
        return self.counts[items]
"""


@pytest.mark.long
def test_a_class_of_the_users_is_planned_by_one_training(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not run unless that is allowed, and then only the first training."""
    config.write_text(OWN)
    (config.parent / "planned_model.py").write_text(COUNTS)
    monkeypatch.setattr(sys, "path", list(sys.path))
    refused(call(config), "would run the code named by recommender.target", "--allow-code")
    result = call(config, "--allow-code")
    assert result.exit_code == 0, result.output
    assert re.search(r"planned_model:Counts: trainings +5002 +5002 ", result.stdout)
    assert len(set((config.parent / "seeds").read_text().split())) == 1


SLOW = """
import time

class Counts:
    def fit(self, interactions, seed):
        time.sleep(60)
"""


def test_what_takes_too_long_is_said_not_to_be_timed(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(OWN)
    (config.parent / "planned_model.py").write_text(SLOW)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "planned_model", raising=False)
    result = call(config, "--allow-code", "--timing", "0.3")
    assert result.exit_code == 0, result.output
    assert re.search(r"Counts: trainings +5002 +5002 +> [\d.]+ ms +not timed", result.stdout)
    assert "the run: not timed" in result.stdout
    assert "--timing 4.5" in result.stdout
    assert re.search(r"memory: at least [\d.]+ [MG]iB ", result.stdout)


@pytest.mark.cases("value", ["0", "-1", "nan"])
def test_a_time_that_is_none_is_refused(config: Path, value: str) -> None:
    result = call(config, "--timing", value)
    assert result.exit_code == 2
    assert "'--timing'" in result.stderr


def test_without_a_config_nothing_is_timed() -> None:
    refused(call("--epsilon", 1, "--timing", 9), "--timing belongs to a plan with CONFIG")


def test_help_is_tidy() -> None:
    text = CliRunner().invoke(main, ["plan", "--help"], terminal_width=80).stdout
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "[CONFIG]" in text
