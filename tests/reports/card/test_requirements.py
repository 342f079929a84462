"""The requirements of standards."""

from __future__ import annotations

from dpaudit.record.result import AuditResult
from dpaudit.reports.card.requirements import STANDARDS

REQUIREMENTS = [asked for standard in STANDARDS for asked in standard.requirements]


def test_every_record_answers_every_requirement(hard: AuditResult) -> None:
    for requirement in REQUIREMENTS:
        answer = requirement.answer(hard)
        assert answer.status != "gap" or answer.fill, requirement.place
        assert answer.lines or answer.fill, requirement.place


def test_requirements_are_each_in_one_sentence() -> None:
    for requirement in REQUIREMENTS:
        assert requirement.asks.endswith(".")
        assert ". " not in requirement.asks


def test_what_may_be_met_names_its_bar(hard: AuditResult) -> None:
    for requirement in REQUIREMENTS:
        if requirement.answer(hard).status in ("met", "not met"):
            assert requirement.bar, requirement.place
