"""Configs of audits of what a server sees: defaults, and one sentence for each mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from configs import load_as  # type: ignore[import-not-found]
from pydantic import ValidationError

from dpaudit.attacks.base import SubmissionTest
from dpaudit.auditor.plan import Plan
from dpaudit.audits.federated.config import FederatedConfig, Transcript
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.config.schema import Config
from dpaudit.config.tables import battery
from dpaudit.core.errors import ConfigError

BATTERY = battery(SubmissionTest)

PUBLISHED = {"label": "published", "defense": "fake-gradients", "epsilon": [5, 40]}
T_TEST = {"name": "zero-mean", "params": {"statistic": "t", "about": "zero"}}
IDEAL = {"name": "gradient-ratio"}
BASE: dict[str, Any] = {
    "seed": 3,
    "model": [PUBLISHED],
    "train": {"folds": 2, "trials": 1},
    "attack": [{"name": "popularity"}, T_TEST, IDEAL],
    "transcript": {"trials": 3, "rounds": [2]},
    "gate": [{"metric": "attack.auc", "max": 0.99}],
}


def config(**changes: Any) -> Config:
    """Return the config with these tables, and without those that are None."""
    tables = {name: table for name, table in (BASE | changes).items() if table is not None}
    return Config.model_validate(tables)


def observed(**changes: Any) -> FederatedConfig:
    return FederatedConfig.model_validate(BASE | changes)


@pytest.mark.cases(
    ("changes", "words"),
    [
        ({"model": {"defense": "dpsgd-mf"}, "attack": []}, "model 'dpsgd-mf published'"),
        ({"model": [PUBLISHED, {"defense": "dpps-mf"}]}, r"\(dpps-mf\) has none"),
        (
            {"model": {"defense": "slope-one"}, "attack": [], "train": None},
            "needs users who submit",
        ),
        ({"transcript": {"rounds": [3, 2]}}, "rounds do not increase"),
        ({"transcript": {"rounds": [2, 2]}}, "rounds do not increase"),
        ({"transcript": {"rounds": [0, 2]}}, "greater than or equal to 1"),
        ({"transcript": {"trials": 0}}, "greater than or equal to 1"),
        ({"transcript": {"users": 1}}, "greater than or equal to 2"),
        ({"transcript": {"round": [1]}}, "Extra inputs"),
        ({"attack": [{"name": "linear-ideal"}]}, "'linear-ideal' reads nothing that model"),
        ({"attack": [{}]}, "'linear-ideal' reads nothing that model"),
        ({"attack": [IDEAL, {"name": "canary"}]}, "'canary' reads nothing that model"),
        ({"attack": [T_TEST, T_TEST]}, r"two \[\[attack\]\] have the label 'zero-mean \(t, zero\)"),
        (
            {"transcript": None, "gate": []},
            "'popularity' reads what users submit in each round: add",
        ),
    ],
)
def test_what_asks_about_submissions_where_there_are_none_is_refused(
    changes: dict[str, Any], words: str
) -> None:
    config()
    with pytest.raises(ValidationError, match=words):
        config(**changes)


@pytest.mark.cases(
    ("gate", "changes", "words"),
    [
        ({"metric": "transcript.auc", "max": 0.9}, {}, "no gate may use 'transcript.auc'"),
        ({"metric": "attack.auc", "max": "claim"}, {}, "belongs to metric 'epsilon'"),
        ({"metric": "attack.auc", "min": 0.1, "detectable": 2}, {}, "belongs to max of metrics"),
    ],
)
def test_gates_that_cannot_be_judged_are_refused(
    gate: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    assert config(gate=[{"metric": "attack.auc", "max": 0.9}]).gate
    with pytest.raises(ValidationError, match=words):
        config(gate=[gate], **changes)


@pytest.mark.cases(
    ("gate", "changes", "words"),
    [
        (
            {"metric": "attack.auc", "max": 0.9},
            {"transcript": None, "attack": []},
            r"trained models with \[transcript\]",
        ),
        ({"metric": "attack.accuracy", "max": 0.9}, {}, r"models on demand with \[\[attack\]\]"),
        ({"metric": "utility.overlap", "min": 0.9}, {}, "it needs models on demand$"),
        ({"metric": "utility.ndcg", "min": 0.1}, {}, "trained models that rank"),
        ({"metric": "sybil.accuracy", "max": 0.9}, {}, r"models on demand with \[\[sybil\]\]"),
        ({"metric": "leak", "max": 0.9}, {}, r"trained models with \[\[game\]\]"),
    ],
)
def test_gates_on_what_is_not_measured_are_refused(
    gate: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=f"'{gate['metric']}' is not measured: .*{words}"):
        Plan(config(gate=[gate], **changes)).check_gates()


def test_attacks_on_submissions_are_called_by_their_parameters() -> None:
    given = [
        T_TEST,
        {"name": "zero-mean"},
        {"name": "zero-mean", "params": {"about": "zero", "statistic": "t"}},
        {"name": "zero-mean", "params": {"pairs": 300, "statistic": "hotelling"}},
        {"name": "gradient-ratio", "params": {"knows": "model"}},
        {"name": "energy", "params": {"about": "fake"}, "label": "mine"},
    ]
    expected = [
        "zero-mean (t, zero)",
        "zero-mean",
        "zero-mean (zero, t)",
        "zero-mean (300, hotelling)",
        "gradient-ratio (model)",
        "mine",
    ]
    assert [attack.label for attack in observed(attack=given).submission_tests] == expected
    # Attacks that reconstruct ratings keep their names.
    linear = {"name": "linear-ideal", "params": {"observe": "list"}}
    assert OnDemandConfig.model_validate({"attack": [linear]}).attack[0].label == "linear-ideal"


def test_without_a_word_every_kind_of_attack_is_asked() -> None:
    bare = observed(attack=[])
    assert bare.submission_tests == BATTERY
    labels = [attack.label for attack in BATTERY]
    assert len(set(labels)) == len(labels) == 14
    assert labels[:2] == ["popularity (candidates)", "popularity (response)"]
    assert {attack.name for attack in BATTERY} == {
        "popularity", "zero-mean", "two-sample", "energy", "gradient-ratio"
    }  # fmt: skip
    for attack in BATTERY:
        assert isinstance(attack.create("attack"), SubmissionTest)


@pytest.mark.cases(
    ("rounds", "last", "steps"),
    [
        ([], 400, [12, 25, 50, 100, 200, 400]),
        ([], 5, [1, 2, 5]),
        ([], 1, [1]),
        ([2], 5, [2, 5]),
        ([2, 5], 5, [2, 5]),
        ([400], 400, [400]),
    ],
)
def test_attackers_are_asked_after_halves_of_the_rounds_or_as_said(
    rounds: list[int], last: int, steps: list[int]
) -> None:
    assert Transcript(rounds=rounds).steps(last) == steps


TEXT = """
[data]
synthetic = { n_users = 30, n_items = 20, mean_per_user = 8, minimum_per_user = 4 }
[[model]]
defense = "fake-gradients"
VARIANT
params = { rounds = 5, dimensions = 3 }
[transcript]
trials = 2
"""


def from_file(folder: Path, more: str, variant: str = "") -> FederatedConfig:
    path = folder / "audit.toml"
    path.write_text(TEXT.replace("VARIANT", variant) + more)
    config: FederatedConfig = load_as(FederatedConfig, path)
    return config


def test_attacks_on_submissions_may_stand_in_a_file(tmp_path: Path) -> None:
    assert from_file(tmp_path, "").submission_tests == BATTERY
    result = from_file(tmp_path, "[[attack]]\nname = 'zero-mean'\nparams = { statistic = 'z' }\n")
    assert [attack.label for attack in result.submission_tests] == ["zero-mean (z)"]


@pytest.mark.cases(
    ("more", "variant", "words"),
    [
        ("[[attack]]\nname = 'canary'\n", "", "'canary' reads nothing that model"),
        ("[[attack]]\nname = 'zero-men'\n", "", "did you mean 'zero-mean'"),
        ("[[attack]]\nname = 'zero-mean'\nparams = { statistic = 'u' }\n", "", "statistic = 'u'"),
        (
            "[[gate]]\nmetric = 'attack.auc'\nmax = 0.9\nwhere = { attack = 'zero-mean' }\n",
            "",
            "where.attack = 'zero-mean' is not measured; there is ",
        ),
        ("[[attack]]\nname = 'two-sample'\nparams = { pairs = 199 }\n", "", "pairs = 199"),
        (
            "[[attack]]\nname = 'zero-mean'\nparams = { statistic = 'hotelling', pairs = 199 }\n",
            "",
            "pairs = 199",
        ),
        (
            "[[gate]]\nmetric = 'attack.auc'\nmax = 0.9\n",
            'variant = "nonprivate"',
            "'attack.auc' is not measured",
        ),
    ],
)
def test_a_file_that_asks_for_what_is_not_measured_is_refused(
    tmp_path: Path, more: str, variant: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        Plan(from_file(tmp_path, more, variant)).check_gates()


def test_a_gate_judges_popularity_only_if_it_names_it() -> None:
    """It reads no submission, so it is no leak of the rounds."""
    attacks = [{"name": name} for name in ("popularity", "zero-mean")]
    gate = {"metric": "attack.auc", "max": 0.9}
    named = {**gate, "where": {"attack": "popularity"}}
    for gates, labels in (([gate], ["zero-mean"]), ([gate, named], ["popularity", "zero-mean"])):
        tables = observed(attack=attacks, gate=gates)
        assert [test.label for test in tables.judged_tests] == labels
    alone = observed(attack=attacks[:1], gate=[gate])
    assert [test.label for test in alone.judged_tests] == ["popularity"]
