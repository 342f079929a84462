"""`dpaudit gate`: waivers are judged on the day of the evaluation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from click.testing import Result

from dpaudit.record import storage as record
from dpaudit.record.result import AuditResult
from tests.support.commands import call
from tests.support.records import judged

CONFIG = """
seed = 3
[data]
synthetic = { n_users = 100, n_items = 80, mean_per_user = 30 }
[model]
params = { top_k = 5 }
[audit]
trials = 100
[[game]]
pair = "support-threshold"
trials = 1000
"""
CLAIM = "claim/slope-one published/1"


def waiver(name: str, expires: date = date(9999, 12, 31)) -> str:
    return (
        f'[[waiver]]\nid = "{name}"\nowner = "recommendations team"\n'
        f'statement = "kept until release 2"\nexpires = {expires}\n'
    )


@pytest.fixture
def waived(tmp_path: Path, make: Callable[..., AuditResult]) -> Path:
    """A folder with a record whose gate fails, and a file that waives this."""
    (tmp_path / record.NAME).write_text(record.render(make()))
    (tmp_path / "waivers.toml").write_text(waiver("gate/epsilon/max", date(2027, 1, 31)))
    return tmp_path


def on(monkeypatch: pytest.MonkeyPatch, day: date) -> None:
    monkeypatch.setattr("dpaudit.record.result.today", lambda: day)


def words(result: Result) -> str:
    return " ".join(result.output.split())


def test_a_waiver_holds_until_its_last_day(waived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = (waived, "--waivers", waived / "waivers.toml")
    on(monkeypatch, date(2027, 1, 31))
    result = call("gate", *options)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("CLAIM FALSE ")
    said = "WAIVED epsilon <= claim above 1 waived until 2027-01-31 by recommendations team: kept"
    assert said in words(result)
    on(monkeypatch, date(2027, 2, 1))
    result = call("gate", *options)
    assert result.exit_code == 1
    said = "EXPIRED the waiver of gate/epsilon/max by recommendations team expired after 2027-01-31"
    assert said in words(result)
    assert call("gate", waived).exit_code == 1


def test_an_unknown_id_is_an_error(waived: Path) -> None:
    path = waived / "waivers.toml"
    path.write_text(waiver("gate/epsilon/min"))
    result = call("gate", waived, "--waivers", path)
    assert result.exit_code == 2
    assert f"{path}: waiver.0.id = 'gate/epsilon/min'" in result.output
    assert "'gate/epsilon/max'" in result.output


def test_a_waiver_of_the_run_s_gate_may_stay_beside_a_policy(waived: Path) -> None:
    policy = waived / "policy.toml"
    policy.write_text("[[gate]]\nmetric = 'attack.accuracy'\nmax = 0.9\n")
    result = call("gate", waived, "--policy", policy, "--waivers", waived / "waivers.toml")
    assert "UNUSED the waiver of gate/epsilon/max" in words(result)


@pytest.mark.long
def test_a_run_records_its_waivers_and_a_gate_judges_them_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, out = tmp_path / "audit.toml", tmp_path / "out"
    config.write_text(CONFIG)
    assert call("run", config, "-o", out, "-q").exit_code == 1
    config.write_text(CONFIG + waiver(CLAIM))
    assert call("run", config, "-o", out, "-q").exit_code == 0
    written = json.loads((out / record.NAME).read_text())
    assert [(waiver["id"], waiver["state"]) for waiver in written["waivers"]] == [(CLAIM, "active")]
    assert written["waivers"][0]["judged"] == written["timing"]["started"][:10]
    assert call("gate", out).exit_code == 0
    last = date(2027, 1, 31)
    (tmp_path / "other.toml").write_text(waiver(CLAIM, last))
    given = ("--waivers", tmp_path / "other.toml")
    assert call("run", config, "-o", out, "-q", *given).exit_code == (date.today() > last)
    assert record.load(out).config["waiver"][0]["expires"] == "2027-01-31"
    on(monkeypatch, date(2027, 2, 1))
    assert call("gate", out).exit_code == 1
    (tmp_path / "other.toml").write_text(waiver("claim/slope-one published/3"))
    refused = call("run", config, "-o", out, "-q", *given)
    assert (refused.exit_code, refused.output.count("\n")) == (2, 1)
    assert f"{tmp_path / 'other.toml'}: waiver.0.id" in refused.output


def test_a_baseline_excuses_nothing_and_a_waiver_accepts_what_is_newly_false(
    tmp_path: Path, make: Callable[..., AuditResult]
) -> None:
    false = make(epsilons=(1.0,), gate=False)
    game = false.measurements[-1]
    kept = game.model_copy(update={"estimate": game.estimate.changed(lower=0.5)})
    before = judged(false.model_copy(update={"measurements": [*false.measurements[:-1], kept]}))
    for name, audit in (("before", before), ("after", false)):
        (tmp_path / name).mkdir()
        (tmp_path / name / record.NAME).write_text(record.render(audit))
    after, baseline = tmp_path / "after", ("--baseline", tmp_path / "before")
    assert call("gate", after).exit_code == 0  # by its config, a false claim does not stop it
    result = call("gate", after, *baseline)
    assert result.exit_code == 1
    assert re.search(r"STOP [^.]* baseline \(newly false claims: 1\)\.$", words(result))
    waivers = tmp_path / "waivers.toml"
    waivers.write_text(waiver("claim/published/1"))
    result = call("gate", after, *baseline, "--waivers", waivers)
    assert result.exit_code == 0, result.output
    policy = tmp_path / "policy.toml"
    policy.write_text("[[gate]]\nmetric = 'attack.accuracy'\nmax = 0.001\n")
    options = (*baseline, "--waivers", waivers, "--policy", policy)
    assert call("gate", after, *options).exit_code == 1


@pytest.mark.cases(
    ("metric", "meant"),
    [
        ("attack.tpf", "'attack.tpr'"),
        ("epsilom", "'epsilon'"),
        ("AUC", "'attack.auc' or 'deletion.auc'"),
        ("accuracy", "'attack.accuracy' or 'sybil.accuracy'"),
    ],
)
def test_a_metric_that_is_misspelt_is_guessed(waived: Path, metric: str, meant: str) -> None:
    policy = waived / "policy.toml"
    policy.write_text(f"[[gate]]\nmetric = '{metric}'\nmax = 0.1\n")
    refused = call("gate", waived, "--policy", policy)
    assert refused.exit_code == 2
    assert f"metric {metric}; did you mean {meant}?" in words(refused)


def test_a_policy_whose_threshold_decides_nothing_is_refused(waived: Path) -> None:
    for threshold, said in (
        ('metric = "attack.accuracy"\nmax = 35', "line 1: gate.0: attack.accuracy is a share"),
        ('metric = "utility.rmse"\nmax = 4', "gate.0: utility.rmse is an error of ratings in [0,"),
    ):
        (waived / "policy.toml").write_text(f"[[gate]]\n{threshold}\n")
        refused = call("gate", waived, "--policy", waived / "policy.toml")
        assert refused.exit_code == 2
        assert said in words(refused)


def test_a_config_whose_threshold_decides_nothing_is_refused(tmp_path: Path) -> None:
    config, percent = tmp_path / "c.toml", tmp_path / "percent.toml"
    gate = '[[gate]]\nmetric = "attack.accuracy"\nmax = '
    config.write_text(f"{CONFIG}{gate}0.35\n")
    percent.write_text(f"{CONFIG}{gate}35\n")
    said = "attack.accuracy is a share in [0, 1]: 35 can never fail; write 0.35 for 35 %"
    for arguments, place in (
        (("run", config, "-s", "gate.0.max=35"), "the option --set gate.0.max=35"),
        (("run", percent), f"{percent}, line 12"),
        (("plan", percent), f"{percent}, line 12"),
    ):
        refused = call(*arguments)
        assert refused.exit_code == 2
        assert f"{place}: gate.0: {said}" in words(refused)
