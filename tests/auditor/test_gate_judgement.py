from __future__ import annotations

from datetime import date

import pytest

from dpaudit.auditor.gate import check_ids, judge_run
from dpaudit.config.gate import Gate
from dpaudit.core.errors import ConfigError
from dpaudit.record.result import AuditResult, Waiver
from dpaudit.record.storage import contradiction

LAST = date(2027, 1, 31)
LATER = date(2027, 2, 1)


def waiver(name: str) -> Waiver:
    return Waiver(id=name, owner="the team", statement="known", expires=LAST)


def test_waivers_are_judged_on_the_day(result: AuditResult) -> None:
    assert judge_run(result, LAST).outcome == "stop"
    waived = judge_run(result, LAST, waivers=[waiver("gate/epsilon/max")])
    assert (waived.outcome, waived.gates) == ("go", result.gates)
    assert judge_run(waived, LATER).outcome == "stop"
    assert judge_run(waived, LAST, waivers=[]).outcome == "stop"


def test_what_is_judged_anew_is_a_consistent_record(result: AuditResult) -> None:
    gates = [Gate(metric="attack.accuracy", max=0.9), Gate(metric="utility.overlap", min=0.99)]
    rejudged = judge_run(result, LAST, gates=gates, waivers=[waiver("gate/utility.overlap/min")])
    assert [gate.outcome for gate in rejudged.gates] == ["pass", "inconclusive"]
    assert rejudged.outcome == "go"
    assert contradiction(rejudged) is None
    assert contradiction(judge_run(rejudged, LATER)) is None


def test_an_unknown_id_is_refused_with_one_that_is_close() -> None:
    known = ["claim/a/1", "claim/a/10", "gate/epsilon/max"]
    check_ids([waiver("claim/a/1")], known)
    with pytest.raises(ConfigError) as caught:
        check_ids([waiver("claim/a/10"), waiver("claim/a/2")], known, "waivers.toml: ")
    said = str(caught.value)
    assert said.startswith("waivers.toml: waiver.1.id = 'claim/a/2'")
    assert said.endswith("did you mean 'claim/a/1'?")


def test_an_id_like_no_other_is_refused_with_some() -> None:
    known = [f"claim/model/{number}" for number in range(99)]
    with pytest.raises(ConfigError, match=r"claim/model/0, .* 59 more"):
        check_ids([waiver("xyz")], known)
