from __future__ import annotations

import math

from dpaudit.config.schema import STATEMENTS
from dpaudit.record.result import AuditResult
from dpaudit.reports.card.build import card_of
from dpaudit.reports.card.document import PrivacyCard
from dpaudit.reports.card.sections import Section, appendix, group_tables, risk_tables
from tests.support.records import Make


def section(card: PrivacyCard, heading: str) -> Section:
    return next(section for section in appendix(card) if section.heading == heading)


def test_every_statement_of_the_owner_is_shown_once(result: AuditResult) -> None:
    stated = {name: f"said of {name}" for name in STATEMENTS if name != "actors"}
    config = {**result.config, "card": {**stated, "actors": ["shop", "users"]}}
    card = card_of(result.model_copy(update={"config": config}))
    shown = sorted(fact.text for section in appendix(card) for fact in section.facts if fact.stated)
    assert shown == sorted([*stated.values(), "shop; users"])
    assert "What the owner does not state" not in [section.heading for section in appendix(card)]


def test_what_is_not_stated_is_one_line(result: AuditResult) -> None:
    config = {**result.config, "card": {"owner": "Film shop", "tuning": "by hand"}}
    card = card_of(result.model_copy(update={"config": config}))
    facts = [fact for part in appendix(card) for fact in part.facts if fact.stated]
    assert [(fact.name, fact.text) for fact in facts] == [
        ("Owner", "Film shop"),
        ("Tuning", "by hand"),
    ]
    (line,) = section(card, "What the owner does not state").facts
    assert line.text.startswith("System, Version, Contact, Intended use, Privacy unit,")


def test_a_broken_claim_is_marked_before_everything_else(result: AuditResult) -> None:
    (table,) = section(card_of(result), "Privacy parameters and variant").tables
    verdicts = [row[2] for row in table.cells]
    assert verdicts == ["false", "false", "not tested: no power"]
    assert table.marked == {(0, 2), (1, 2)}
    assert [row[3:5] for row in table.cells] == [["≥ 2.718", "1.25×"]] * 2 + [["≥ 2.718", "none"]]


def test_utility_has_a_column_for_each_metric(result: AuditResult, make: Make) -> None:
    part = section(card_of(result), "Utility and bias")
    (table,) = part.tables
    assert table.header[-2:] == ["utility.overlap", "utility.rmse"]
    assert table.cells[0][-1] == "1.234 [1.100, 1.400]"
    assert [(fact.name, fact.text) for fact in part.facts] == [("By group", "not measured")]


def test_a_bare_record_says_what_is_missing(make: Make) -> None:
    bare = make(attacks=False, game=False, gate=False, rated=False)
    card = card_of(bare.model_copy(update={"measurements": [], "data": None}))
    utility = section(card, "Utility and bias")
    assert [(fact.name, fact.text) for fact in utility.facts] == [("Utility", "not measured")]
    (attacks,) = section(card, "Attacks tried").tables
    assert attacks.cells == [["none", "–", "–"]]
    assert section(card, "Data domain").facts[-1].text.startswith("none")


def test_limits_are_rounded_up_and_marked_as_derived(make: Make) -> None:
    limits, beliefs = risk_tables(card_of(make(epsilons=(1.0,), game=False)))
    assert "derived, not measured" in limits.caption
    assert "derived, not measured" in beliefs.caption
    # (e − 1)/(e + 1) = 0.46211…, e/10 = 0.27182…, e/300 = 0.00906…
    assert limits.cells == [
        ["published", "1", "0", "46.3 %", "27.2 %", "2.8 %", "0.3 %", "1.0 % (1 in 300 items)"]
    ]
    assert beliefs.cells == [
        ["published", "1", "claim: at most", "73.2 %", "23.2 %", "2.7 %", "0.3 %"]
    ]


def test_a_false_claim_leaves_only_what_is_certified(make: Make) -> None:
    limits, beliefs = risk_tables(card_of(make(epsilons=(1.0,))))
    assert limits.cells == [["published", "1", "0", "void: the claim is false", *["–"] * 4]]
    assert limits.marked == {(0, 3)}
    # At ε ≥ 2.7183, rounded down: 1/(1 + e^−2.7183) = 0.93810…
    assert [row[2:4] for row in beliefs.cells] == [["certified: at least", "93.8 %"]]


def test_a_row_without_audited_data_has_no_base_rate_of_them(make: Make) -> None:
    result = make(epsilons=(1.0,), game=False).model_copy(update={"data": None})
    limits, _ = risk_tables(card_of(result))
    assert limits.cells[0][-2:] == ["0.3 %", "–"]
    assert len(limits.cells[0]) == len(limits.header)


def test_users_with_several_ratings_are_told(make: Make) -> None:
    card = card_of(make(epsilons=(0.1,), game=False))
    (table,) = group_tables(card)
    assert table.header[2:] == ["40 ratings, median user", "78 ratings, 90 % quantile of users"]
    assert table.cells[0][2] == "ε = 4: advantage at most 96.5 %"


def test_no_claim_has_no_tables(make: Make) -> None:
    card = card_of(make(epsilons=(math.inf,), game=False))
    assert risk_tables(card) == []
    assert group_tables(card) == []
