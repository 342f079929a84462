"""Sybil attacks from a config: what is run, what is recorded, what is refused."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from counted_progress import CountedProgress  # type: ignore[import-not-found]
from pydantic import ValidationError

from dpaudit.attacks.inference import Averaging, PassiveLists
from dpaudit.auditor.plan import Plan
from dpaudit.auditor.run import run_audit
from dpaudit.audits.on_demand.subject import OnDemandModel
from dpaudit.audits.sybil import measures as run_sybils
from dpaudit.audits.sybil.averaging import run_sybil
from dpaudit.audits.sybil.config import SybilConfig
from dpaudit.audits.sybil.measures import run_passive
from dpaudit.bounds.frequentist.intervals import proportion
from dpaudit.cli import main
from dpaudit.core.errors import DataError
from dpaudit.data.readers.load import load
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.execution.workers import Workers
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports.render import toml

TRIALS = 20
SMALL = {"top_k": 4, "min_ratings": 5, "min_co_ratings": 4}
BASE: dict[str, Any] = {
    "seed": 5,
    "data": {"synthetic": {"n_users": 40, "n_items": 36, "mean_per_user": 24, "seed": 1}},
    "model": [
        {"label": "published", "epsilon": [30, 3], "params": SMALL},
        {"label": "exact", "variant": "nonprivate", "params": SMALL},
    ],
    "audit": {"trials": 10},
    "sybil": [
        {"efforts": [1, 10], "trials": TRIALS},
        {
            "efforts": [2, 10],
            "trials": TRIALS,
            "params": {
                "category": "immediate",
                "observe": "list",
                "fake_accounts": 3,
                "calibration": 20,
            },
        },
        {
            "label": "both",
            "efforts": [1, 5, 10],
            "trials": TRIALS,
            "params": {"category": "combined", "fake_accounts": 4},
        },
        {"attack": "passive-lists", "efforts": [1, 6], "trials": TRIALS, "background": 4},
    ],
}
LABELS = {
    "dynamic, values": [1, 10],
    "immediate, list": [2, 10],
    "both": [1, 5, 10],
    "passive": [1, 6],
}
LIST = {"params": {"observe": "list", "calibration": 20}, "efforts": [5], "trials": 4}


def run(threads: int = 1, **changes: Any) -> AuditResult:
    return run_audit(SybilConfig.model_validate(BASE | changes), workers=Workers(threads))


def of_sybils(result: AuditResult) -> list[Measurement]:
    return [
        measurement for measurement in result.measurements if measurement.metric == "sybil.accuracy"
    ]


def numbers(result: AuditResult) -> str:
    return json.dumps(result.model_dump(mode="json", exclude={"timing"}))


@pytest.fixture(scope="module")
def result() -> AuditResult:
    return run()


# What is recorded.


@pytest.mark.long
def test_every_model_epsilon_sybil_and_effort_is_measured_once(result: AuditResult) -> None:
    keys = [(m.model, m.epsilon, m.attack, m.effort) for m in of_sybils(result)]
    expected = [
        (model, epsilon, label, effort)
        for model, epsilon in (("published", 30.0), ("published", 3.0), ("exact", math.inf))
        for label, efforts in LABELS.items()
        for effort in efforts
    ]
    assert len(keys) == len(set(keys)) == len(expected)
    assert set(keys) == set(expected)


def test_the_family_counts_every_effort(result: AuditResult) -> None:
    config = SybilConfig.model_validate(BASE)
    keys = ("metric", "model", "epsilon", "attack", "pair", "effort")
    measured = [{key: getattr(m, key) for key in keys} for m in result.measurements]
    planned = [{key: getattr(point, key) for key in keys} for point in Plan(config).keys]
    assert sorted(measured, key=str) == sorted(planned, key=str)
    efforts = sum(len(efforts) for efforts in LABELS.values())
    # An overlap and an rmse beside the Sybil attacks, at each of three ε.
    assert result.family.size == len(measured) == 3 * (efforts + 2)
    assert result.family.alpha == pytest.approx(0.05 / (3 * (efforts + 2)))
    for measurement in result.measurements:
        assert measurement.estimate.alpha == result.family.alpha
        assert (
            measurement.estimate.lower <= measurement.estimate.value <= measurement.estimate.upper
        )


def expected_correct(label: str, epsilon: float, model: str) -> np.ndarray[Any, Any]:
    """The outcomes of a Sybil attack of BASE when it is run by itself."""
    config = SybilConfig.model_validate(BASE)
    sweep = next(s for s in OnDemandModel.of(config, load(config.data)) if s.model.label == model)
    defense: Any = next(d for d in sweep.defenses if d.epsilon == epsilon)
    if label == "passive":
        return run_passive(
            defense,
            sweep.train,
            PassiveLists(),
            auxiliary=LABELS[label],
            background=4,
            trials=TRIALS,
            seed=5,
        )
    attack = {
        "dynamic, values": Averaging(),
        "immediate, list": Averaging("immediate", "list", fake_accounts=3, calibration=20),
        "both": Averaging("combined", fake_accounts=4),
    }[label]
    return run_sybil(
        defense, sweep.train, attack, efforts=LABELS[label], trials=TRIALS, seed=5
    ).correct


@pytest.mark.cases("label", LABELS)
@pytest.mark.cases(("model", "epsilon"), [("published", 3.0), ("exact", math.inf)])
def test_accuracies_are_those_of_the_games(
    result: AuditResult, label: str, model: str, epsilon: float
) -> None:
    measurements = [
        m for m in of_sybils(result) if (m.attack, m.model, m.epsilon) == (label, model, epsilon)
    ]
    correct = expected_correct(label, epsilon, model)
    assert [m.effort for m in measurements] == LABELS[label]
    for measured, row in zip(measurements, correct, strict=True):
        assert measured.estimate.n == TRIALS
        family = result.family
        assert measured.estimate == proportion(
            int(row.sum()), TRIALS, family.alpha, family.confidence
        )


def test_without_noise_more_is_read_than_with_it(result: AuditResult) -> None:
    at = {(m.epsilon, m.attack, m.effort): m.estimate for m in of_sybils(result)}
    free, noised = at[math.inf, "both", 10], at[3.0, "both", 10]
    assert free.value > 0.9
    assert noised.upper < free.lower


@pytest.mark.long
def test_the_same_record_on_any_number_of_threads() -> None:
    model = BASE["model"][0] | {"epsilon": 10}
    one, three, other = run(1, model=model), run(3, model=model), run(model=model, seed=6)
    assert numbers(three) == numbers(one)
    values = [[m.estimate.value for m in of_sybils(record)] for record in (one, other)]
    assert values[0] != values[1]


@pytest.mark.long
def test_another_sybil_does_not_move_the_others(result: AuditResult) -> None:
    alone = run(sybil=BASE["sybil"][2])
    values = [m.estimate.value for m in of_sybils(result) if m.attack == "both"]
    assert [m.estimate.value for m in of_sybils(alone)] == values


def test_the_record_names_the_sybil_and_round_trips(result: AuditResult) -> None:
    assert list(result.sybil_attacks) == list(LABELS)
    assert result.sybil_attacks["both"]["category"] == "combined"
    assert result.sybil_attacks["both"]["trials"] == TRIALS
    assert result.sybil_attacks["passive"]["name"] == "passive-lists"
    text = result.model_dump_json()
    again = AuditResult.model_validate_json(text)
    assert again.model_dump_json() == text


def test_the_recorded_config_can_be_run_again(result: AuditResult) -> None:
    again = SybilConfig.model_validate(tomllib.loads(toml.render(result.config)))
    assert again == SybilConfig.model_validate(BASE)


def test_a_record_from_before_sybil_can_be_read(result: AuditResult) -> None:
    old = json.loads(result.model_dump_json())
    del old["sybil_attacks"]
    old["measurements"] = [m for m in old["measurements"] if m["metric"] != "sybil.accuracy"]
    assert AuditResult.model_validate_json(json.dumps(old)).sybil_attacks == {}


def test_progress_reaches_what_it_started_with() -> None:
    counted = CountedProgress()
    config = SybilConfig.model_validate(BASE | {"model": BASE["model"][1]})
    run_audit(config, progress=counted)
    # Overlap and rmse of 10 trials each, and four Sybil attacks at one ε.
    assert counted.done == counted.total == 10 * 2 + 4 * TRIALS


# Purchases, lists and sets.


def test_purchases_are_attacked_too() -> None:
    model = {"defense": "cosine", "variant": "nonprivate", "params": {"top_k": 4, "min_ratings": 5}}
    record = run(data=BASE["data"] | {"binarize": 1}, model=model, sybil=BASE["sybil"][2:])
    assert record.family.size == len(record.measurements) == 1 + 3 + 2
    assert of_sybils(record)[2].estimate.value == 1


@pytest.mark.cases(
    ("variant", "params", "reads"),
    [
        ("nonprivate", {}, "place"),
        ("corrected", {"mechanism": "peeling"}, "place"),
        ("corrected", {"mechanism": "joint"}, "membership"),
        ("corrected", {}, "membership"),
        ("published", {"mechanism": "exact"}, "membership"),
        ("published", {"u_s": "largest-rate"}, "membership"),
    ],
)
def test_of_a_set_the_membership_is_read_and_of_a_list_the_place(
    variant: str, params: dict[str, Any], reads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[TopK, Averaging]] = []

    def spy(defense: Any, ratings: Any, attack: Averaging, **more: Any) -> Any:
        seen.append((defense, attack))
        return run_sybil(defense, ratings, attack, **more)

    monkeypatch.setattr(run_sybils, "run_sybil", spy)
    model = {"defense": "top-k", "variant": variant, "params": SMALL | params}
    record = run(model=model, sybil=LIST)
    ((defense, attack),) = seen
    assert isinstance(defense, TopK)
    assert attack == Averaging(observe="list", calibration=20, reads=reads)  # type: ignore[arg-type]
    assert [m.effort for m in of_sybils(record)] == [5]


def test_membership_that_is_asked_for_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Averaging] = []

    def spy(defense: Any, ratings: Any, attack: Averaging, **more: Any) -> Any:
        seen.append(attack)
        return run_sybil(defense, ratings, attack, **more)

    monkeypatch.setattr(run_sybils, "run_sybil", spy)
    asked = LIST | {"params": LIST["params"] | {"reads": "membership"}}  # type: ignore[operator]
    run(model=BASE["model"][1], sybil=[LIST | {"label": "other"}, asked])
    assert [attack.reads for attack in seen] == ["place", "membership"]


def measure(**changes: Any) -> list[Measurement]:
    return run_audit(SybilConfig.model_validate(BASE | changes)).measurements


def test_what_does_not_fit_is_refused_with_its_sybil_and_model() -> None:
    top = {"label": "top", "defense": "top-k", "params": SMALL}
    for sybil, words in (
        ({"trials": 4}, r"model 'top' .* set params\.observe = 'list' in .* 'dynamic, values'"),
        ({"attack": "passive-lists"}, r"model 'top' .* 'passive' observes: remove it"),
    ):
        with pytest.raises(ValidationError, match=words):
            measure(model=top, sybil=sybil)
    many = {"attack": "passive-lists", "efforts": [1, 40]}
    with pytest.raises(DataError, match=r"'passive' .*'exact': observing 40 lists"):
        measure(model=BASE["model"][1], sybil=many)


# The command.

HEAD = """
seed = 3
[data]
synthetic = { n_users = 40, n_items = 36, mean_per_user = 24, seed = 1 }
[audit]
trials = 10
"""
EXACT = """
[[model]]
label = "exact"
variant = "nonprivate"
params = { top_k = 4, min_ratings = 5, min_co_ratings = 4 }
"""
NOISED = EXACT.replace('variant = "nonprivate"', "epsilon = 30").replace("exact", "published")
TOP = """
[[model]]
label = "top"
defense = "top-k"
epsilon = 1
params = { top_k = 4, min_ratings = 5, u_s = "largest-rate" }
"""
SYBIL = """
[[sybil]]
efforts = [1, 10]
trials = 120
"""


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def run_file(folder: Path, text: str) -> Result:
    path = folder / "audit.toml"
    path.write_text(text)
    return call("run", path, "-o", folder / "out", "--report", f"json={folder / 'more.json'}")


def refused(folder: Path, text: str, *words: str) -> None:
    """Exit code 2, one sentence with these words, nothing written."""
    result = run_file(folder, text)
    assert result.exit_code == 2, result.output
    sentences = [line for line in result.stderr.splitlines() if line.startswith("dpaudit: ")]
    assert len(sentences) == 1
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in sentences[0]
    assert not (folder / "out" / "record.json").exists()


def test_values_of_a_model_that_shows_lists_are_one_clear_error(tmp_path: Path) -> None:
    text = f"{HEAD}{TOP}[[sybil]]\ntrials = 4\n"
    refused(tmp_path, text, "'dynamic, values'", "'top'", "set params.observe = 'list'")


@pytest.mark.cases(
    ("table", "words"),
    [
        ("efforts = [10, 1]", ["sybil.0", "efforts do not increase"]),
        ("efforts = [1, 1]", ["sybil.0", "efforts do not increase"]),
        ("efforts = [0, 1]", ["sybil.0.efforts.0", "= 0"]),
        ("efforts = []", ["sybil.0.efforts"]),
        ("attack = 'linear'", ["sybil.0", "there is no attack 'linear'"]),
        ("attack = 'canary'", ["sybil.0.attack = 'canary'", "'passive-lists' or 'sybil'"]),
        ("effort = [1]", ["sybil.0.effort", "did you mean 'efforts'"]),
        ("trials = 1", ["sybil.0.trials = 1"]),
        ("[[sybil]]", ["two [[sybil]] have the label 'dynamic, values'", "rename one"]),
        ("params = { category = 'late' }", ["sybil", "params.category = 'late'"]),
        (
            "params = { fake_account = 3 }",
            ["sybil", "params.fake_account", "did you mean 'fake_accounts'"],
        ),
        (
            "attack = 'passive-lists'\nparams = { fake_accounts = 3 }",
            ["sybil", "params.fake_accounts"],
        ),
    ],
)
def test_a_wrong_sybil_is_refused_with_its_place(
    tmp_path: Path, table: str, words: list[str]
) -> None:
    refused(tmp_path, f"{HEAD}{EXACT}[[sybil]]\n{table}\n", *words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gated")


@pytest.fixture(scope="module")
def gated(folder: Path) -> Result:
    rule = "[[gate]]\nmetric = 'sybil.accuracy'\nmax = 0.85\nwhere = { effort = 10 }\n"
    return run_file(folder, f"{HEAD}{NOISED}{SYBIL}{rule}")


@pytest.mark.long
def test_a_gate_on_an_effort_decides_the_exit_code(gated: Result, folder: Path) -> None:
    assert gated.exit_code == 1, gated.output
    assert "; the gate fails." in gated.stdout
    assert gated.stdout.startswith("STOP  ")
    record = AuditResult.model_validate_json((folder / "out" / "record.json").read_text())
    assert record.gates[0].rule == "sybil.accuracy <= 0.85 at effort 10"
    prefix = "published, ε = 30, dynamic, values, effort 10: "
    assert record.gates[0].reason.startswith(prefix)
    assert "more)" not in record.gates[0].reason
    assert AuditResult.model_validate_json((folder / "more.json").read_text()) == record


@pytest.mark.cases(
    ("rule", "code", "effort"),
    [
        ("min = 0.85\nwhere = { effort = 10 }", 0, 10),
        ("max = 0.85\nwhere = { effort = 1 }", 0, 1),
        ("max = 0.85", 1, 10),
        ("min = 0.85", 1, 1),
        ("min = 0.96\nwhere = { effort = 10, attack = 'dynamic, values' }", 4, 10),
        ("min = 0.96\nwhere = { effort = 7 }", 2, None),
    ],
)
def test_a_gate_picks_the_effort(
    gated: Result, folder: Path, tmp_path: Path, rule: str, code: int, effort: int | None
) -> None:
    assert gated.exit_code == 1
    policy = tmp_path / "policy.toml"
    policy.write_text(f"[[gate]]\nmetric = 'sybil.accuracy'\n{rule}\n")
    judged = call("gate", folder / "out", "--policy", policy)
    assert judged.exit_code == code, judged.output
    assert effort is None or f"effort {effort}: " in judged.stdout


def test_a_gate_on_an_effort_that_is_not_tried_is_refused(tmp_path: Path) -> None:
    rule = "[[gate]]\nmetric = 'sybil.accuracy'\nmax = 0.5\nwhere = { effort = 7 }\n"
    refused(tmp_path, f"{HEAD}{EXACT}{SYBIL}{rule}", "gate.0.where.effort = 7", "there is 1, 10")


def test_metrics_and_attacks_are_explained() -> None:
    listed = call("list", "metrics")
    assert listed.exit_code == 0
    assert any(line.startswith("sybil.accuracy ") for line in listed.stdout.splitlines())
    shown = call("show", "sybil")
    assert shown.exit_code == 0
    for word in ("Park & Acharya", "`immediate`", "category = 'dynamic'", "fake_accounts = 20"):
        assert word in shown.stdout
    assert "doi:10.1109/SP.2011.40" in call("show", "passive-lists").stdout


def test_a_config_with_sybil_can_be_planned(tmp_path: Path) -> None:
    path = tmp_path / "audit.toml"
    game = "[[game]]\npair = 'support-threshold'\ntrials = 500\n"
    path.write_text(f"{HEAD}{NOISED}{game}{SYBIL}")
    planned = call("plan", path)
    assert planned.exit_code == 0, planned.output
    assert "support-threshold" in planned.stdout
    path.write_text(f"{HEAD}{NOISED}{SYBIL}")
    assert ": Sybil attack " in call("plan", path).stdout


def test_the_schema_knows_sybil() -> None:
    schema = json.loads(call("schema").stdout)
    table = schema["$defs"]["Sybil"]
    assert schema["properties"]["sybil"]["items"] == {"$ref": "#/$defs/Sybil"}
    assert set(table["properties"]) == {
        "params",
        "label",
        "attack",
        "efforts",
        "trials",
        "background",
    }
    assert "sybil.accuracy" in schema["$defs"]["Gate"]["properties"]["metric"]["enum"]
