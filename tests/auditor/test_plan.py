"""The planned keys match what a run emits, and gates pick among them."""

from __future__ import annotations

from operator import methodcaller
from pathlib import Path

import pytest

from dpaudit.auditor.measure import metric_of
from dpaudit.auditor.plan import Plan
from dpaudit.auditor.run import run_audit
from dpaudit.config import load as config_file
from dpaudit.config.schema import Config
from dpaudit.config.tables import DataConfig
from dpaudit.core.errors import ConfigError

SMALL = """
[model]
epsilon = [0.5, 1]
[[attack]]
"""
NAMED = methodcaller("check_named")
TRAINED = "[[model]]\ndefense = 'dpsgd-mf'\n"


@pytest.mark.cases(
    ("text", "words"),
    [
        ("[[gate]]\nmetric = 'attack.accuracy'\nmax = 0.3", ["is not measured", "[[attack]]"]),
        (
            SMALL + "[[gate]]\nmetric = 'attack.accuracy'\nmax = 0.3\nwhere = { epsilon = 7 }",
            ["where.epsilon = 7", "0.5, 1"],
        ),
        (
            "[model]\ndefense = 'top-k'\n[[gate]]\nmetric = 'utility.rmse'\nmax = 1",
            ["utility.rmse' is not measured"],
        ),
        (
            TRAINED + "[[gate]]\nmetric = 'epsilon'\nmax = 1\ndetectable = 2",
            ["'epsilon' is not measured", "[[game]]"],
        ),
    ],
)
def test_a_gate_that_picks_nothing_is_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "audit.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        config_file.load(path, checks=[lambda config: Plan(config).check_gates()])
    for word in [f"{path}, line ", ": gate.0", *words]:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError):
        run_audit(config_file.load(path))


@pytest.mark.cases(
    ("text", "words"),
    [
        ("", ["data.format is missing", "[data]", "dpaudit init"]),
        ("seed = 1\n[audit]\ntrials = 100", ["data.format is missing"]),
        ("[[gate]]\nmetric = 'utility.rmse'\nmax = 1", ["data.format is missing"]),
        ("[[model]]\ndefense = 'slope-one'", ["data.format is missing"]),
        ("[[recommender]]\nlibrary = 'most-popular'", ["data.format is missing"]),
        ("[data]\n[[model]]", ["data.format is missing"]),
        ("[data]\nbinarize = 4\n[[model]]", ["data.format is missing"]),
        ("[data]\nformat = 'movielens-csv'\npath = 'a'", ["no model is named", "[[recommender]]"]),
    ],
)
def test_a_config_that_does_not_say_what_is_audited_is_refused(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    path = tmp_path / "audit.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        config_file.load(path, checks=[NAMED])
    for word in [f"{path}", *words]:
        assert word in str(caught.value)


@pytest.mark.cases(
    "text",
    [
        "[data]\nformat = 'synthetic'",
        "data.synthetic.n_users = 50",
        "[data]\nformat = 'movielens-csv'\npath = 'a'\n[[model]]",
        "[data]\nformat = 'movielens-csv'\npath = 'a'\n[[recommender]]\nlibrary = 'most-popular'",
    ],
)
def test_a_config_that_says_what_is_audited_is_loaded(tmp_path: Path, text: str) -> None:
    path = tmp_path / "audit.toml"
    path.write_text(text)
    assert isinstance(config_file.load(path, checks=[NAMED]), DataConfig)


def test_lists_have_no_rating_error() -> None:
    config = Config.model_validate({"model": [{"defense": "top-k"}, {"label": "slope-one"}]})
    measured = [(key.metric, key.model) for key in Plan(config).keys]
    assert measured == [
        ("utility.overlap", "top-k published"),
        ("utility.overlap", "slope-one"),
        ("utility.rmse", "slope-one"),
    ]


@pytest.mark.cases(
    "values",
    [
        {
            "model": {"params": {"top_k": 3, "min_ratings": 10}},
            "attack": [{}],
            "game": [{"trials": 20}, {"observe": "list", "trials": 20}],
            "sybil": [{"trials": 4, "efforts": [1, 3]}],
        },
        {
            "model": {"defense": "top-k", "params": {"top_k": 3, "min_ratings": 5}},
            "convergence": {"steps": [1], "users": 2},
            "game": [{"pair": "last-ranked", "trials": 20}],
        },
        {
            "model": [
                {"defense": "privsr", "params": {"rounds": 2, "dimensions": 2, "social": 0.0}},
                {"label": "MF", "defense": "dpsgd-mf", "variant": "nonprivate"},
            ],
            "train": {"folds": 2, "trials": 1, "against": "MF"},
            "data": {"sensitive": {"share": 0.3}},
            "attack": {"name": "reconstruction"},
        },
        {
            "model": {"defense": "fake-gradients", "params": {"rounds": 2, "dimensions": 2}},
            "train": {"folds": 2, "trials": 1},
            "transcript": {"trials": 2, "rounds": [2]},
            "attack": [{"name": "energy"}],
        },
    ],
    ids=["on demand", "lists", "trained", "federated"],
)
def test_a_run_emits_what_was_planned(values: dict[str, object]) -> None:
    few = {"n_users": 24, "n_items": 30, "mean_per_user": 22, "minimum_per_user": 20}
    data = {"synthetic": few} | values.get("data", {})  # type: ignore[operator]
    given = {"seed": 1, "audit": {"trials": 20}, **values, "data": data}
    config = Config.model_validate(given)
    result = run_audit(config)
    planned = Plan(config).keys
    joint = [key for key in planned if key.joint]
    # Metrics that cannot gate may be missing if nothing is found; nothing unplanned is emitted.
    measured = {(m.metric, m.model, m.epsilon) for m in result.measurements}
    assert measured <= {(key.metric, key.model, key.epsilon) for key in planned}
    named = {
        (m.metric, m.model, m.epsilon, m.attack, m.pair, m.effort) for m in result.measurements
    }
    for key in joint:
        assert (key.metric, key.model, key.epsilon, key.attack, key.pair, key.effort) in named
    assert result.family == Plan(config).family
    assert result.family.size == max(1, len(joint))


def test_a_metric_is_known_by_its_parts() -> None:
    assert metric_of("utility", "rmse") == "utility.rmse"
    with pytest.raises(ValueError, match=r"there is no metric 'utility\.nothing'"):
        metric_of("utility", "nothing")


def test_a_waiver_of_nothing_that_is_judged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.toml"
    gate = "[[gate]]\nmetric = 'attack.accuracy'\nmax = 0.3\n"
    waiver = "[[waiver]]\nid = '{}'\nowner = 'o'\nstatement = 's'\nexpires = 2027-01-31\n"
    for name in ("claim/slope-one published/0.5", "gate/attack.accuracy/max"):
        path.write_text(SMALL + gate + waiver.format(name))
        Plan(config_file.load(path)).check_waivers()
    path.write_text(SMALL + gate + waiver.format("claim/slope-one published/2"))
    with pytest.raises(ConfigError, match="'claim/slope-one published/1'"):
        Plan(config_file.load(path)).check_waivers(f"{path}: ")
    with pytest.raises(ConfigError, match="no claim or gate"):
        run_audit(config_file.load(path))


def test_a_waiver_may_name_the_claim_of_a_black_box() -> None:
    day = {"owner": "o", "statement": "s", "expires": "2027-01-31"}
    table = {
        "target": "a:b",
        "label": "mine",
        "epsilon": 2.0,
        "kind": "python",
        "d": [1],
        "d_prime": [2],
    }

    def check(name: str) -> None:
        values = {"defense": table, "waiver": [{"id": name, **day}]}
        Plan(Config.model_validate(values)).check_waivers()

    check("claim/mine/2")
    with pytest.raises(ConfigError, match=r"waiver\.0\.id = 'claim/mine/3'"):
        check("claim/mine/3")
