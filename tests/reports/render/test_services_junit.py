from __future__ import annotations

from datetime import date
from xml.etree import ElementTree as Xml

import ci_reports  # type: ignore[import-not-found]

from dpaudit.auditor.gate import judge_run
from dpaudit.record.result import AuditResult, FindingRecord, PlaceRecord, Waiver
from dpaudit.reports.ci import Failure
from dpaudit.reports.render.services import junit
from tests.support.records import Make


def test_every_record_is_valid_and_shows_every_claim_and_gate(hard: AuditResult) -> None:
    tests = ci_reports.junit(junit(hard))
    assert len(tests) == len(hard.verdicts) + len(hard.gates)


def test_each_state_is_what_a_service_understands(make: Make) -> None:
    result = make(epsilons=(1.0, 5.0, 10.0), outcome="inconclusive")
    assert ci_reports.junit(junit(result)) == {
        "claim/published/1": "skipped",  # false, but accepted
        "claim/published/5": "passed",
        "claim/published/10": "skipped",  # not tested
        "gate/epsilon/max": "error",
    }
    strict = make(epsilons=(1.0,)).model_copy(update={"fail_on_false_claim": True})
    assert ci_reports.junit(junit(strict)) == {
        "claim/published/1": "failure",
        "gate/epsilon/max": "failure",
    }


def test_a_failure_says_where_and_why(result: AuditResult) -> None:
    [gate] = result.gates
    place = PlaceRecord(path="audit.toml", line=12)
    noticed = FindingRecord(model="published", about="seed", text="It differs.", remedy="Pass it.")
    located = result.model_copy(update={"origin": {gate.id: place}, "findings": [noticed]})
    root = Xml.fromstring(junit(located).encode())  # noqa: S314
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.text == "audit.toml:12: epsilon <= claim: fail. above 1"
    assert failure.attrib == {"type": "gate-failed", "message": "epsilon <= claim: fail. above 1"}
    out = root.findtext(".//system-out") or ""
    assert out.endswith("\npublished: It differs. Pass it.")


def test_a_control_character_of_a_label_is_no_part_of_the_xml(make: Make) -> None:
    result = make("evil\x1b[31m", epsilons=(1.0,)).model_copy(update={"fail_on_false_claim": True})
    waiver = Waiver(
        id=result.verdicts[0].id, owner="the team", statement="known", expires=date(2027, 1, 31)
    )
    waived = judge_run(result, date(2027, 1, 1), waivers=[waiver])
    root = Xml.fromstring(junit(waived).encode())  # noqa: S314
    said = "It does not count what is waived: claim/evil [31m/1."
    assert said in (root.findtext(".//system-out") or "")


def test_a_command_without_a_result_is_an_error() -> None:
    text = junit.failed(Failure("there is no memory", 3, "audit.toml"))
    assert ci_reports.junit(text) == {"run": "error"}
    assert "there is no memory" in text
