"""The one page of a privacy card."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dpaudit.config.schema import STATEMENTS
from dpaudit.record.result import AuditResult, FindingRecord
from dpaudit.reports.card.build import card_of
from dpaudit.reports.card.document import PrivacyCard
from dpaudit.reports.card.sections import Fact, Section
from dpaudit.reports.render.card import sheet
from dpaudit.reports.sections.steps import steps
from tests.support.records import Make, stating


def sheet_parts(card: PrivacyCard) -> dict[str, Section]:
    """The sections of the page by their headings, each with the next one if that has none."""
    parts = {"": Section("")}
    heading = ""
    for section in sheet(card):
        heading = section.heading or heading
        before = parts.get(heading, section)
        parts[heading] = section if before is section else replace(before, facts=section.facts)
    return parts


def named(facts: Sequence[Fact]) -> dict[str, str]:
    return {fact.name: fact.text for fact in facts}


def test_only_what_a_card_needs_is_missed(result: AuditResult) -> None:
    shown = sheet_parts(card_of(result))
    missing = [fact.name for part in shown.values() for fact in part.facts if fact.missing]
    assert missing == ["System", "Owner", "Contact"]


def test_what_is_stated_is_cut_to_a_line(result: AuditResult) -> None:
    long = {name: "many words " * 100 for name in STATEMENTS if name != "actors"}
    shown = sheet_parts(card_of(stating(result, **long)))
    stated = [fact for part in shown.values() for fact in part.facts if fact.stated]
    assert len(stated) == 9
    assert all(len(fact.text) <= 80 and fact.text.endswith(" …") for fact in stated)


@pytest.mark.cases(
    ("changes", "card", "deployed"),
    [
        ({"epsilons": (1.0,)}, {}, "published at ε = 1"),
        ({}, {"epsilon": 10.0}, "published at ε = 10"),
        (
            {"epsilons": (math.inf,), "game": False},
            {},
            "published, without a claim of differential privacy",
        ),
    ],
)
def test_one_epsilon_is_deployed(
    make: Make, changes: dict[str, Any], card: dict[str, Any], deployed: str
) -> None:
    shown = sheet_parts(card_of(stating(make(**changes), **card)))
    assert named(shown[""].facts)["Deployed"] == deployed


def test_without_a_choice_the_page_says_what_to_set_and_counts_claims(result: AuditResult) -> None:
    shown = sheet_parts(card_of(result))
    assert named(shown[""].facts)["Deployed"].startswith("Not chosen: 3 were audited")
    assert named(shown["Numbers"].facts)["Claims"] == "2 false, 1 too weak to tell."
    assert "Claim covers" not in named(shown["Threat model"].facts)


@pytest.mark.cases(
    ("epsilon", "claim", "limit"),
    [
        (1.0, "False: the attacks show a leak of at least ε = 2.71.", None),
        (
            3.0,
            "Survived: the attacks show a leak of at least ε = 2.71, no more than is claimed. They "
            "catch copies that leak 1.25 times what is claimed.",
            "at most 21 times, about one rating.",
        ),
        (
            10.0,
            "Too weak to tell: the games would miss a leak of several times the claim too.",
            "up to every time: it sets no limit here, about one rating.",
        ),
    ],
)
def test_a_claim_is_shown_with_its_verdict_and_what_it_allows(
    make: Make, epsilon: float, claim: str, limit: str | None
) -> None:
    numbers = named(sheet_parts(card_of(make(epsilons=(epsilon,))))["Numbers"].facts)
    assert numbers["Claim"] == claim
    # A false claim limits nothing.
    assert ("If the claim holds" in numbers) == (limit is not None)
    assert (limit or "") in numbers.get("If the claim holds", "")


def test_only_claims_that_may_be_deployed_are_counted(lists: AuditResult) -> None:
    every = named(sheet_parts(card_of(lists))["Numbers"].facts)["Claims"]
    assert sum(map(int, re.findall(r"\d+", every))) == 6
    chain = named(sheet_parts(card_of(stating(lists, model="chain")))["Numbers"].facts)["Claims"]
    assert sum(map(int, re.findall(r"\d+", chain))) == 3


def test_a_page_has_few_rows_and_says_how_many_are_left(make: Make) -> None:
    base = make(epsilons=(1.0,))
    first = base.measurements[0]
    more = [first.model_copy(update={"attack": f"attack {n}"}) for n in range(9)]
    shown = sheet_parts(card_of(base.model_copy(update={"measurements": more})))
    [found] = shown["Numbers"].tables
    assert "hidden ratings" in found.caption
    assert len(found.cells) == 6
    assert found.note.startswith("3 more attackers")
    untried = shown["Not tried"].notes
    assert len(untried) <= 5 + untried[-1].endswith("in the file of this card.")


def test_a_page_says_what_leaks_for_certain_and_what_next(make: Make) -> None:
    shown = FindingRecord(model="published", about="hide-seen", text="Lists hide.", remedy="Stop.")
    record = make(epsilons=(1.0,)).model_copy(update={"findings": [shown]})
    parts = sheet_parts(card_of(record))
    assert named(parts["Numbers"].facts)["For certain"] == "Lists hide. Stop."
    assert [step.split()[0] for step in parts["What next"].notes] == [
        step.name.split()[0] for step in steps(record)
    ]
