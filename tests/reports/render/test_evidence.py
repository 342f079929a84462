"""The page of evidence."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable

from dpaudit.record.result import AuditResult
from dpaudit.reports import palette
from dpaudit.reports.evidence.requirements import REQUIREMENTS
from dpaudit.reports.render import evidence

Make = Callable[..., AuditResult]
EVIL = "</script><img src=x onerror=alert(1)>"


def test_every_requirement_is_a_row(hard: AuditResult) -> None:
    text = html.unescape(evidence.render(hard))
    assert text.count('<td class="status ') == len(REQUIREMENTS)
    for requirement in REQUIREMENTS:
        assert requirement.asks in text


def test_the_page_claims_no_compliance_and_says_what_is_deployed(make: Make) -> None:
    assert "claims no compliance with any law" in evidence.render(make())
    assert "Deployed: Not chosen: 3 were audited" in evidence.render(make())
    assert "Deployed: published at ε = 1</p>" in evidence.render(make(epsilons=(1.0,)))


def test_the_outcome_of_the_run_stands_at_the_top(make: Make) -> None:
    for record in (make(), make(gate=False, epsilons=(math.inf,)), make(epsilons=(3.0,))):
        head = evidence.render(record).partition("<main>")[0]
        word = palette.RUN[record.outcome].shown
        assert f">{word}</b> is the outcome of the run: " in head


def test_statuses_are_counted(make: Make) -> None:
    text = evidence.render(make(epsilons=(3.0,)))
    counted = re.search(r"answers: (.*?)\.", text)
    assert counted
    counts = [int(number) for number in re.findall(r"\d+", counted[1])]
    assert sum(counts) == len(REQUIREMENTS)


def test_the_page_runs_and_loads_nothing(make: Make) -> None:
    text = evidence.render(make(label=EVIL))
    assert not re.search(r"<(script|img|link|iframe)\b", text)
    assert not re.search(r"\b(src|href)=[\"']", text)
