from __future__ import annotations

from dpaudit.record.result import AuditResult, FindingRecord, GateRecord, PlaceRecord
from dpaudit.reports import rules
from dpaudit.reports.ci import Failure, failed_run, run_of
from tests.support.records import Make


def states(result: AuditResult) -> dict[str, str]:
    return {check.id: check.state for check in run_of(result).checks}


def test_each_claim_and_gate_is_a_check_and_the_worst_is_first(make: Make) -> None:
    result = make(epsilons=(0.1, 1.0, 5.0, 10.0)).model_copy(update={"fail_on_false_claim": True})
    by_name = states(result)
    assert by_name == {
        "claim/published/0.1": "fail",
        "claim/published/1": "fail",
        "claim/published/5": "pass",
        "claim/published/10": "untested",
        "gate/epsilon/max": "fail",
    }
    assert [*by_name.values()] == ["fail", "fail", "fail", "untested", "pass"]
    run = run_of(result)
    assert run.headline.startswith("1 model: 1 claim false; the gate fails. The privacy claim is ")
    assert "27.18 times what is claimed; 1 more claim is false." in run.headline
    assert run.exit_code == 1


def test_a_false_claim_that_is_accepted_does_not_look_kept(result: AuditResult) -> None:
    [check, *_] = [check for check in run_of(result).checks if check.state == "accepted"]
    assert check.level == "warning"
    assert check.text.startswith("published: The claim is false at ε = 0.1: ")
    assert "ε at least 2.71 is certified" in check.text
    assert check.text.endswith("audit.fail_on_false_claim = false in the config.")


def test_a_model_without_a_claim_has_none_to_test(make: Make) -> None:
    bare = make(epsilons=(1.0, float("inf")), game=False)
    assert [check.rule for check in run_of(bare).checks if check.state == "untested"] == [
        rules.UNTESTED,
        rules.UNCLAIMED,
    ]
    [tested, verdict] = bare.verdicts
    noiseless = bare.model_copy(
        update={"verdicts": [tested, verdict.model_copy(update={"noiseless": True})]}
    )
    assert [check.rule for check in run_of(noiseless).checks][-1] == rules.NOISELESS


def test_an_inconclusive_gate_is_an_error(make: Make) -> None:
    run = run_of(make(outcome="inconclusive"))
    [gate] = [check for check in run.checks if check.state == "inconclusive"]
    assert (gate.rule, gate.level) == (rules.INCONCLUSIVE, "error")
    assert run.exit_code == 4


def test_a_finding_stands_once_at_the_table_of_its_model(result: AuditResult) -> None:
    noticed = [
        FindingRecord(model="published", about=about, text=text, remedy="Do this.")
        for about, text in (
            ("vocabulary", "Users vanish."),
            ("vocabulary", "Items vanish."),
            ("vocabulary", "Items vanish."),
            ("new", "Something else."),
        )
    ]
    place = PlaceRecord(path="audit.toml", line=5)
    found = result.model_copy(
        update={"findings": noticed, "origin": {result.verdicts[0].id: place}}
    )
    checks = [check for check in run_of(found).checks if check.state == "noticed"]
    assert {check.id: (check.rule.id, check.place) for check in checks} == {
        "finding/published/vocabulary": ("finding-vocabulary", place),
        "finding/published/vocabulary/2": ("finding-vocabulary", place),
        "finding/published/new": ("finding-other", place),
    }


def test_gates_that_share_an_id_are_told_apart(result: AuditResult) -> None:
    twice = result.model_copy(update={"gates": [*result.gates, *result.gates]})
    assert [check.id for check in run_of(twice).checks if check.kind == "gate"] == [
        "gate/epsilon/max",
        "gate/epsilon/max/2",
    ]


def test_without_a_config_the_record_is_the_place(result: AuditResult) -> None:
    assert {(check.path, check.place.line) for check in run_of(result).checks} == {
        ("record.json", 1)
    }
    assert run_of(result).path == "record.json"


def test_long_reasons_are_cut(result: AuditResult) -> None:
    gate = GateRecord(id="g" * 5000, rule="r" * 5000, outcome="fail", reason="x" * 5000)
    check = run_of(result.model_copy(update={"gates": [gate]})).checks[0]
    assert len(check.text) <= 1000
    assert check.name == f"{'g' * 100}…{'g' * 99}"


def test_a_failure_is_an_error_and_nothing_else() -> None:
    run = failed_run(Failure("the system\nrefused", 3, "audit.toml"))
    [check] = run.checks
    assert (check.state, check.rule, run.exit_code) == ("error", rules.STOPPED, 3)
    assert check.text == "the system\\nrefused"


def test_rules_have_names_of_their_own() -> None:
    names = [rule.id for rule in rules.RULES]
    assert len(set(names)) == len(names)
    assert rules.of_finding("seed").id == "finding-seed"
