"""The outcome has the same words and numbers wherever it is shown."""

from __future__ import annotations

import html as texts
import io
import re
from typing import Any

import pytest
from rich.console import Console

from dpaudit.audits.membership.audit import RecommenderAudit
from dpaudit.core import registry
from dpaudit.record.result import AuditResult
from dpaudit.reports.render import console
from dpaudit.reports.sections.outcome import decision_of
from tests.support.records import Make

# The page has the word and what it leaves aside in lines of their own.
SPLIT = ("html",)
MARKED = ("html", "card", "evidence", "junit")
FORMATS = ("html", "md", "card", "card-yaml", "evidence", "junit", "sarif", "github-summary")


def shown(result: AuditResult) -> dict[str, str]:
    """What each format says, as one line without markup."""
    written = io.StringIO()
    console.show(result, Console(file=written, width=200), details=False)
    every: dict[str, str] = {name: registry.load("reports", name)(result) for name in FORMATS}
    every["notebook"] = repr(RecommenderAudit(result))
    every["console"] = written.getvalue()
    for name in MARKED:
        every[name] = texts.unescape(re.sub(r"<[^>]*>", "", every[name]))
    # Markdown escapes by backslashes.
    return {name: " ".join(text.replace("\\", "").split()) for name, text in every.items()}


@pytest.mark.cases("outcome", ["pass", "fail", "inconclusive", None])
def test_every_format_says_the_same_of_an_outcome(make: Make, outcome: Any) -> None:
    result = make(outcome=outcome or "pass", gate=outcome is not None)
    decision = decision_of(result)
    for name, text in shown(result).items():
        word = decision.word.label if name in SPLIT else decision.word.shown
        assert word in text or name == "card-yaml", name
        assert decision.word.but in text or name == "card-yaml", name
        for sentence in decision.sentences[:1]:
            assert sentence in text, name
