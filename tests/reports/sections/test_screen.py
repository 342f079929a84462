"""The first screen."""

from __future__ import annotations

from datetime import date

from dpaudit.auditor.gate import judge_run
from dpaudit.record.result import Waiver
from dpaudit.reports.sections import screen
from tests.support.records import Make, accuracy, estimate, measured


def test_claims_that_are_false_come_first_and_say_what_would_be_caught(make: Make) -> None:
    claims = screen.of(make()).claims
    assert claims is not None
    assert claims.cells == [
        ["published", "0.1", "2.71", "false", "not needed"],
        ["published", "1", "2.71", "false", "not needed"],
        ["published", "10", "2.71", "too weak to tell", "–"],
    ]
    assert claims.marked == {(0, 3), (1, 3)}


def test_a_long_sweep_is_cut(make: Make) -> None:
    claims = screen.of(make(epsilons=tuple(0.1 * n for n in range(1, 12)))).claims
    assert claims is not None
    assert len(claims.cells) == 8
    assert claims.note == "3 more are not shown here."


def test_the_scale_contains_every_bar_and_mark(make: Make) -> None:
    shown = screen.of(make())
    assert shown.scale == 0.8
    assert shown.end == "80 of 100"
    assert shown.legend == "Found: how many hidden ratings are recovered."


def test_the_scale_contains_every_range(make: Make) -> None:
    base = make(epsilons=(1.0,))
    wide = base.model_copy(update={"measurements": [accuracy(0.15, 0.02, 0.28)]})
    assert screen.of(wide).scale == 0.3


def test_it_names_attacker_unit_utility_and_what_was_not_tried(make: Make) -> None:
    shown = screen.of(make())
    assert shown.who.startswith("One rating is added or removed. Someone who sees ")
    assert shown.worth.startswith("overlap@k: 0.909")
    assert shown.missing.endswith(" more stand below.")
    assert not shown.warnings
    assert shown.ended == "the gate fails · exit code 1"


def test_gates_are_counted_by_their_worst_outcome_but_for_waived_ones(make: Make) -> None:
    result = make(outcome="pass")
    [gate] = result.gates
    open_, failing = (
        gate.model_copy(update={"outcome": outcome, "id": outcome})
        for outcome in ("inconclusive", "fail")
    )
    for gates, said in (
        ([gate], "the gate passes"),
        ([gate, gate], "both gates pass"),
        ([gate, open_, open_], "2 of 3 gates are undecided"),
        ([gate, open_, failing], "1 of 3 gates fails"),
        ([], "no gate is set"),
    ):
        ended = screen.of(result.model_copy(update={"gates": gates})).ended
        assert ended.startswith(f"{said} · ")
    waiver = Waiver(id=gate.id, owner="o", statement="s", expires=date(2027, 1, 1))
    waived = judge_run(make(), date(2026, 1, 1), waivers=[waiver])
    assert screen.of(waived).ended.startswith("every gate is waived · ")


def test_of_many_attackers_what_is_over_its_limit_comes_first_and_the_rest_is_counted(
    make: Make,
) -> None:
    base = make(epsilons=(1.0,), gate=False)
    shares = [0.3 + 0.05 * place for place in range(8)]
    numbers = [
        accuracy(share, share, share).model_copy(update={"attack": f"{share:g}"})
        for share in shares
    ]
    shown = screen.of(base.model_copy(update={"measurements": numbers}))
    assert [round(row.value, 2) for row in shown.rows] == [0.65, 0.6, 0.55, 0.5, 0.45]
    assert shown.left_out == "3 more: the most is 40 of 100; 3 have no limit."


def test_an_assumption_that_does_not_hold_is_a_fact(make: Make) -> None:
    result = make()
    counted = measured(
        "assumption.denominator", "published", 1.0, estimate(0.29, 0.29, 0.29), step=1
    )
    result = result.model_copy(update={"measurements": [*result.measurements, counted]})
    [warning] = screen.of(result).warnings
    assert warning.endswith(": share of denominators below C: 0.29.")
