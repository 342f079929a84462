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


def test_statements_say_who_states_them(result: AuditResult) -> None:
    config = {**result.config, "card": {"owner": "Film shop"}}
    text = card.render(result.model_copy(update={"config": config}))
    assert 'Film shop <span class="muted">(owner)</span>' in text
    assert '<dt>Version</dt><dd class="muted">not stated</dd>' in text
    assert "no compliance with any law" in text
