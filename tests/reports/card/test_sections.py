from __future__ import annotations

from collections.abc import Callable

from dpaudit.config.card import STATEMENTS
from dpaudit.record.result import AuditResult
from dpaudit.reports.card.build import card_of
from dpaudit.reports.card.document import PrivacyCard
from dpaudit.reports.card.sections import Section, sections

Make = Callable[..., AuditResult]


def section(card: PrivacyCard, heading: str) -> Section:
    return next(section for section in sections(card) if section.heading == heading)


def test_every_statement_of_the_owner_is_shown_once(result: AuditResult) -> None:
    stated = {name: f"said of {name}" for name in STATEMENTS if name != "actors"}
    config = {**result.config, "card": {**stated, "actors": ["shop", "users"]}}
    card = card_of(result.model_copy(update={"config": config}))
    shown = sorted(fact.text for section in sections(card) for fact in section.facts if fact.stated)
    assert shown == sorted([*stated.values(), "shop; users"])
    assert "What the owner does not state" not in [one.heading for one in sections(card)]


def test_what_is_not_stated_is_one_line(result: AuditResult) -> None:
    config = {**result.config, "card": {"owner": "Film shop", "tuning": "by hand"}}
    card = card_of(result.model_copy(update={"config": config}))
    facts = [fact for part in sections(card) for fact in part.facts if fact.stated]
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
