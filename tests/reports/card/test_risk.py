from __future__ import annotations

import math
from collections.abc import Callable

from dpaudit.record.result import AuditResult
from dpaudit.reports.card import risk
from dpaudit.reports.card.build import card_of

Make = Callable[..., AuditResult]


def test_limits_are_rounded_up_and_marked_as_derived(make: Make) -> None:
    limits, beliefs = risk.tables(card_of(make(epsilons=(1.0,), game=False)))
    assert "derived, not measured" in limits.caption
    assert "derived, not measured" in beliefs.caption
    # (e − 1)/(e + 1) = 0.46211…, e/10 = 0.27182…, e/300 = 0.00906…
    assert limits.cells == [
        ["published", "1", "0", "46.3 %", "27.2 %", "2.8 %", "0.3 %", "1.0 % (1 in 300 items)"]
    ]
    assert beliefs.cells == [
        ["published", "1", "claim: at most", "73.2 %", "23.2 %", "2.7 %", "0.3 %"]
    ]


def test_a_broken_claim_leaves_only_what_is_certified(make: Make) -> None:
    limits, beliefs = risk.tables(card_of(make(epsilons=(1.0,))))
    assert limits.cells == [["published", "1", "0", "void: the claim is false", *["–"] * 4]]
    assert limits.marked == {(0, 3)}
    # At ε ≥ 2.7183, rounded down: 1/(1 + e^−2.7183) = 0.93810…
    assert [row[2:4] for row in beliefs.cells] == [["certified: at least", "93.8 %"]]


def test_a_row_without_audited_data_has_no_base_rate_of_them(make: Make) -> None:
    result = make(epsilons=(1.0,), game=False).model_copy(update={"data": None})
    limits, _ = risk.tables(card_of(result))
    assert limits.cells[0][-2:] == ["0.3 %", "–"]
    assert len(limits.cells[0]) == len(limits.header)


def test_users_with_several_ratings_are_told(make: Make) -> None:
    card = card_of(make(epsilons=(0.1,), game=False))
    (table,) = risk.groups(card)
    assert table.header[2:] == ["40 ratings, median user", "78 ratings, 90 % quantile of users"]
    assert table.cells[0][2] == "ε = 4: advantage at most 96.5 %"


def test_no_claim_has_no_tables(make: Make) -> None:
    card = card_of(make(epsilons=(math.inf,), game=False))
    assert risk.tables(card) == []
    assert risk.groups(card) == []
