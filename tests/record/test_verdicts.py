from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import pytest

from dpaudit.core.estimate import Estimate
from dpaudit.record import verdicts as decisions
from dpaudit.record.result import (
    AuditResult,
    ClaimRecord,
    FindingRecord,
    GateRecord,
    Measurement,
    ModelRecord,
    PointRecord,
    RunOutcome,
    State,
    VerdictRecord,
    WaiverRecord,
    concluded,
)
from dpaudit.record.verdicts import claim_id
from tests.support.records import control, estimate, make_result


def verdicts(
    models: Sequence[ModelRecord],
    points: Sequence[PointRecord],
    measurements: Sequence[Measurement],
    findings: Sequence[FindingRecord] = (),
) -> list[VerdictRecord]:
    return decisions.verdicts(
        record(models=models, points=points, measurements=measurements, findings=findings)
    )


def beside(
    points: Sequence[PointRecord], measurements: Sequence[Measurement]
) -> Iterator[FindingRecord]:
    return decisions.beside(record(points=points, measurements=measurements))


def decided(
    gates: Sequence[GateRecord],
    claims: Sequence[VerdictRecord],
    *,
    fail_on_false_claim: bool,
    waivers: Sequence[WaiverRecord] = (),
) -> RunOutcome:
    return decisions.decided(
        record(
            gates=gates, verdicts=claims, fail_on_false_claim=fail_on_false_claim, waivers=waivers
        )
    )


def waivable(gates: Sequence[GateRecord], claims: Sequence[VerdictRecord]) -> set[str]:
    return decisions.waivable(record(gates=gates, verdicts=claims))


def record(**parts: Any) -> AuditResult:
    """A record of nothing but these parts."""
    return AuditResult.model_construct(**parts)


def judge(*games: Measurement, **point: Any) -> VerdictRecord:
    """The verdict on a claim of ε = 1."""
    base = make_result(epsilons=(1.0,), attacks=False, game=False)
    points = [base.points[0].model_copy(update=point)]
    [verdict] = verdicts(base.models, points, games)
    return verdict


def game(lower: float, found: bool = True, **changes: Any) -> Measurement:
    return Measurement(
        **{
            "metric": "epsilon",
            "model": "published",
            "epsilon": 1.0,
            "attack": "likelihood-ratio",
            "pair": "tight",
            "estimate": estimate(0.9, lower, math.inf),
            "control": control(1.0).model_copy(update={"found": found}),
            **changes,
        }
    )


def test_a_bound_above_the_claim_breaks_it() -> None:
    verdict = judge(game(0.5), game(1.5, pair="support-threshold"))
    assert (verdict.verdict, verdict.reason, verdict.certified) == ("false", None, 1.5)
    assert verdict.decided_by is not None
    assert verdict.decided_by.pair == "support-threshold"


def test_a_bound_at_the_claim_does_not_break_it() -> None:
    assert judge(game(1.0)).verdict == "survived"


def test_power_is_that_of_the_game_that_finds_the_least_mutant() -> None:
    weak = control(1.0).model_copy(update={"factor": 4.0})
    verdict = judge(game(0.9, pair="weak", control=weak), game(0.1))
    assert (verdict.verdict, verdict.factor, verdict.certified) == ("survived", 1.25, 0.9)
    assert verdict.decided_by is not None
    assert verdict.decided_by.pair == "tight"


@pytest.mark.cases(
    ("found", "reason"),
    [
        (judge(), "no game"),
        (judge(game(0.5), claim=None), "no claim"),
        (judge(game(0.5, found=False)), "no power"),
        (judge(game(0.5, control=None)), "no power"),
        (judge(game(0.5, theory=Estimate.exact(1.5, "law"))), "doubt"),
    ],
)
def test_what_is_not_tested_says_why(found: VerdictRecord, reason: str) -> None:
    assert (found.verdict, found.reason) == ("not tested", reason)


def test_the_law_of_the_noise_neither_breaks_a_claim_nor_vouches_for_it() -> None:
    verdict = judge(game(0.5, theory=Estimate.exact(7.0, "law")))
    assert (verdict.verdict, verdict.law) == ("not tested", 7.0)
    assert judge(game(0.5, theory=Estimate.exact(1 + 1e-9, "law"))).verdict == "survived"


def test_a_game_about_what_the_claim_does_not_cover_leaves_it_untested() -> None:
    verdict = judge(game(5.0, unit="user", observer="own-list", event="guesses"))
    assert (verdict.verdict, verdict.reason, verdict.certified) == ("not tested", "no game", None)


def test_what_a_witness_of_a_deletion_learns_is_certified_of_no_model() -> None:
    scores = game(0.5, unit="user", observer="scores", event="guesses")
    witness = game(5.0, unit="user", observer="before-and-after", event="guesses")
    assert judge(scores, witness, claim=None).certified == 0.5
    assert judge(witness, claim=None).certified is None


def test_what_leaks_beside_a_claim_is_a_finding_and_breaks_nothing() -> None:
    base = make_result(epsilons=(1.0,), attacks=False, game=False)
    stated = ClaimRecord(
        epsilon=1.0, delta=0.0, adjacency="rating-add-remove", observer="scores", public="",
        source="",
    )  # fmt: skip
    points = [base.points[0].model_copy(update={"claim": stated})]
    games = [
        game(lower, pair=f"{unit} ({observer})", unit=unit, observer=observer, event="guesses")
        for unit, observer, lower in (
            ("interaction", "scores", 0.4),
            ("interaction", "own-list", 3.84),
            ("interaction", "others-lists", 1.0),
            ("user", "scores", 2.5),
            ("user", "of a plug-in", 1.5),
        )
    ]
    assert verdicts(base.models, points, games)[0].verdict == "survived"
    [finding] = beside(points, games)
    assert (finding.model, finding.about) == ("published", "beside-claim")
    said, first, second, third = re.split(": (?=ε)|; ", finding.text)
    assert said.startswith("More than the claimed ε = 1 ")
    assert first.startswith("ε at least 3.84 for one interaction, seen: the list ")
    assert second.startswith("ε at least 2.50 for one user, seen: the scores ")
    assert third == "ε at least 1.50 for one user, seen: of a plug-in."
    wide = stated.model_copy(update={"also": ("own-list",)})
    points = [base.points[0].model_copy(update={"claim": wide})]
    assert verdicts(base.models, points, games)[0].verdict == "false"
    [finding] = beside(points, games)
    assert "own" not in finding.text.partition("for one user")[0]
    assert not list(beside([base.points[0].model_copy(update={"claim": None})], games))


def membership(observer: str, factor: float | None) -> Measurement:
    """A game on what a claim about whole users covers, with the least mutant that it finds."""
    mutant = control(1.0).model_copy(update={"factor": factor or 4.0, "found": factor is not None})
    place: dict[str, Any] = {"pair": f"user ({observer})", "unit": "user", "observer": observer}
    return game(0.5, control=mutant, event="guesses", **place)


@pytest.mark.cases(
    ("factors", "verdict", "factor", "observer"),
    [
        ((1.5, 1.25), "survived", 1.5, "others-lists"),
        ((1.25, 4.0), "survived", 4.0, "factors"),
        ((1.25, None), "not tested", None, "factors"),
        ((None, 1.25), "not tested", None, "others-lists"),
    ],
)
def test_membership_games_do_not_stand_for_each_other(
    factors: tuple[float | None, ...], verdict: str, factor: float | None, observer: str
) -> None:
    words: dict[str, Any] = {"adjacency": "user-add-remove", "observer": "public"}
    claim = ClaimRecord(epsilon=1.0, delta=0.0, public="", source="", **words)
    games = map(membership, ("others-lists", "factors"), factors)
    judgement = judge(*games, claim=claim)
    assert (judgement.verdict, judgement.factor) == (verdict, factor)
    assert judgement.decided_by is not None
    assert judgement.decided_by.observer == observer


def test_a_model_without_noise_is_named() -> None:
    base = make_result(epsilons=(math.inf,), attacks=False, game=False)
    models = [base.models[0].model_copy(update={"variant": "nonprivate"})]
    [verdict] = verdicts(models, base.points, [])
    assert (verdict.noiseless, verdict.reason) == (True, "no claim")
    assert verdict.id == "claim/published/inf"


def test_ids_of_claims_do_not_round() -> None:
    values = (1.0, 0.1, 0.12345678, 0.12345679, 1e-7, 1_000_001.0, math.inf)
    assert [claim_id("m", value) for value in values] == [
        f"claim/m/{text}"
        for text in ("1", "0.1", "0.12345678", "0.12345679", "1e-07", "1000001", "inf")
    ]


OF_RUN = {"pass": "go", "inconclusive": "undecided", "fail": "stop"}


@pytest.mark.cases("outcome", OF_RUN)
@pytest.mark.cases("stops", [True, False])
def test_a_false_claim_decides_unless_it_is_expected(outcome: Any, stops: bool) -> None:
    gates = [GateRecord(id="gate/epsilon/max", rule="", outcome=outcome, reason="")]
    false, survived = judge(game(1.5)), judge(game(0.5))
    assert decided(gates, [survived], fail_on_false_claim=stops) == OF_RUN[outcome]
    assert decided(gates, [survived, false], fail_on_false_claim=stops) == (
        "stop" if stops else OF_RUN[outcome]
    )


@pytest.mark.cases("outcome", OF_RUN)
def test_a_baseline_excuses_nothing(outcome: Any) -> None:
    assert concluded([outcome]) == OF_RUN[outcome]
    assert concluded([outcome], "stop") == "stop"
    assert concluded([outcome], "undecided") == ("stop" if outcome == "fail" else "undecided")
    assert concluded([outcome], "no decision") == OF_RUN[outcome]


def test_without_a_gate_and_a_tested_claim_nothing_is_decided() -> None:
    untested = judge(game(0.5, found=False))
    assert untested.verdict == "not tested"
    assert decided([], [], fail_on_false_claim=True) == "no decision"
    assert decided([], [untested], fail_on_false_claim=True) == "no decision"
    assert decided([], [untested, judge(game(0.5))], fail_on_false_claim=True) == "go"
    assert decided([gate("pass")], [untested], fail_on_false_claim=True) == "go"


def gate(outcome: Any, name: str = "gate/epsilon/max") -> GateRecord:
    return GateRecord(id=name, rule="", outcome=outcome, reason="")


def waiver(name: str, state: State) -> WaiverRecord:
    day = date(2027, 1, 31)
    return WaiverRecord(id=name, owner="o", statement="s", expires=day, judged=day, state=state)


def test_what_is_waived_does_not_count() -> None:
    false = judge(game(1.5))
    waivers = [waiver(false.id, "active")]
    assert decided([], [false], fail_on_false_claim=True, waivers=waivers) == "go"
    assert decided([gate("fail")], [false], fail_on_false_claim=True, waivers=waivers) == "stop"
    waivers.append(waiver("gate/epsilon/max", "active"))
    assert decided([gate("fail")], [false], fail_on_false_claim=True, waivers=waivers) == "go"
    assert decided([gate("inconclusive")], [], fail_on_false_claim=True, waivers=waivers) == "go"
    others = [gate("fail"), gate("inconclusive", "gate/attack.auc/max")]
    assert decided(others, [false], fail_on_false_claim=True, waivers=waivers) == "undecided"


def test_an_expired_waiver_stops_whatever_became_of_its_finding() -> None:
    for verdict in (judge(game(1.5)), judge(game(0.5))):
        waivers = [waiver(verdict.id, "expired")]
        assert decided([], [verdict], fail_on_false_claim=False, waivers=waivers) == "stop"


def test_an_unused_waiver_changes_nothing() -> None:
    waivers = [waiver("gate/epsilon/max", "unused")]
    assert decided([gate("pass")], [], fail_on_false_claim=True, waivers=waivers) == "go"
    # Its state was judged; it does not waive what fails later.
    assert decided([gate("fail")], [], fail_on_false_claim=True, waivers=waivers) == "stop"


def test_false_claims_and_gates_that_do_not_pass_can_be_waived() -> None:
    claims = [judge(game(1.5)), judge(game(0.5), epsilon=2.0)]
    gates = [gate(outcome, outcome) for outcome in ("pass", "fail", "inconclusive")]
    assert waivable(gates, claims) == {"claim/published/1", "fail", "inconclusive"}


@pytest.mark.cases(
    ("changes", "reason"),
    [
        ({"undecided": True}, "finding"),
        ({"undecided": False}, None),
        ({"undecided": True, "observer": "scores"}, "finding"),
        ({"undecided": True, "observer": "own-list"}, None),
        ({"undecided": True, "model": "another"}, None),
    ],
)
def test_a_claim_that_a_finding_leaves_open_is_not_tested(
    changes: dict[str, Any], reason: str | None
) -> None:
    base = make_result(epsilons=(1.0,), attacks=False, game=False)
    claim = base.points[0].claim
    assert claim is not None
    claim = claim.model_copy(update={"observer": "scores", "adjacency": "rating-add-remove"})
    point = base.points[0].model_copy(update={"claim": claim})
    values = {"model": point.model, "about": "missing", "text": "a", "remedy": "b"}
    finding = FindingRecord(**{**values, **changes})
    games = [game(0.5, unit="interaction", observer="scores", model=point.model)]
    games[0] = games[0].model_copy(update={"epsilon": point.epsilon})
    [open_] = verdicts(base.models, [point], games, [finding])
    assert (open_.verdict, open_.reason) == ("not tested" if reason else "survived", reason)
    broken = games[0].model_copy(update={"estimate": estimate(9.0, 8.0, math.inf)})
    assert verdicts(base.models, [point], [broken], [finding])[0].verdict == "false"
    blind = finding.model_copy(update={"about": "blind"})
    [void] = verdicts(base.models, [point], [broken], [blind])
    assert (void.verdict, void.reason) == (
        ("not tested", "finding") if reason == "finding" else ("false", None)
    )
