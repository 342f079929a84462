from __future__ import annotations

import html
import re
from collections.abc import Callable

from dpaudit.record.result import AuditResult
from dpaudit.reports.card.build import card_of
from dpaudit.reports.card.sections import sections
from dpaudit.reports.render import card

Make = Callable[..., AuditResult]
EVIL = "</script><img src=x onerror=alert(1)>"


def test_every_section_stands_on_the_page(hard: AuditResult) -> None:
    text = card.render(hard)
    for section in sections(card_of(hard)):
        assert f"<h2>{section.heading}</h2>" in text


def test_the_page_runs_and_loads_nothing(make: Make) -> None:
    result = make(label=EVIL)
    text = card.render(result.model_copy(update={"config": {"card": {"owner": EVIL}}}))
    assert not re.search(r"<(script|img|link|iframe)\b", text)
    assert not re.search(r"\b(src|href)=[\"']", text)
    assert "script-src 'none'" in html.unescape(text)


def test_statements_are_in_italics_and_only_what_is_required_is_missed(
    result: AuditResult,
) -> None:
    config = {**result.config, "card": {"owner": "Film shop"}}
    text = card.render(result.model_copy(update={"config": config}))
    sheet, _, appendix = text.partition("</main>")
    assert "<dt>Owner</dt><dd><i>Film shop</i></dd>" in sheet
    assert sheet.count("not stated") == 2
    assert "<dt>System</dt><dd>not stated</dd>" in sheet
    assert "not stated" not in appendix.lower().replace("<dt>not stated</dt>", "")
    assert "no compliance with any law" in sheet


def test_outcome_and_badge_have_their_tones(make: Make) -> None:
    text = card.render(make(epsilons=(1.0,), outcome="pass"))
    assert '<section class="decision good">' in text
    assert '<p class="word">GO <span class="badge bad">CLAIM FALSE</span></p>' in text
