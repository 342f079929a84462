from __future__ import annotations

import html
import math
import re

import yaml

from dpaudit.record.result import AuditResult
from dpaudit.reports import palette
from dpaudit.reports.card.build import card_of
from dpaudit.reports.card.document import PrivacyCard
from dpaudit.reports.card.requirements import STANDARDS
from dpaudit.reports.card.sections import appendix
from dpaudit.reports.render import card
from tests.support.records import EVIL, Make

REQUIREMENTS = [asked for standard in STANDARDS for asked in standard.requirements]


def test_every_section_stands_on_the_page(hard: AuditResult) -> None:
    text = card.render(hard)
    for section in appendix(card_of(hard)):
        assert f"<h2>{section.heading}</h2>" in text


def test_the_page_runs_and_loads_nothing(make: Make) -> None:
    result = make(label=EVIL)
    text = card.render(result.model_copy(update={"config": {"card": {"owner": EVIL}}}))
    assert not re.search(r"<(script|img|link|iframe)\b", text)
    assert not re.search(r"\b(src|href)=[\"']", text)
    assert "script-src 'none'" in html.unescape(text)


def test_statements_are_in_italics_and_only_what_is_required_is_missed(result: AuditResult) -> None:
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
    assert '<section class="decision open">' in text
    word = "GO, 1 false claim accepted"
    assert f'<p class="word">{word} <span class="badge bad">CLAIM FALSE</span></p>' in text


def test_the_text_holds_the_whole_card(hard: AuditResult) -> None:
    text = card.render_yaml(hard)
    assert PrivacyCard.model_validate(yaml.safe_load(text)) == card_of(hard)


def test_keys_keep_their_order_and_letters_are_readable(result: AuditResult) -> None:
    text = card.render_yaml(result)
    assert list(yaml.safe_load(text)) == list(PrivacyCard.model_fields)
    assert "owner: not stated" in text
    assert "finds 1.25×" in text
    assert text.count("basis: derived, not measured") == len(result.points)


def test_hostile_words_stay_text(result: AuditResult) -> None:
    evil = "!!python/object/apply:os.system ['true']\n- &a *a : {"
    config = {**result.config, "card": {"owner": evil, "version": "no"}}
    values = yaml.safe_load(card.render_yaml(result.model_copy(update={"config": config})))
    assert values["stated"]["owner"] == evil
    assert values["stated"]["version"] == "no"


def test_every_requirement_is_a_row(hard: AuditResult) -> None:
    text = html.unescape(card.render_evidence(hard))
    assert text.count('<td class="status ') == len(REQUIREMENTS)
    for requirement in REQUIREMENTS:
        assert requirement.asks in text


def test_the_evidence_claims_no_compliance_and_says_what_is_deployed(make: Make) -> None:
    assert "claims no compliance" in card.render_evidence(make())
    assert "Deployed: Not chosen: 3 were audited" in card.render_evidence(make())
    assert "Deployed: published at ε = 1</p>" in card.render_evidence(make(epsilons=(1.0,)))


def test_the_outcome_of_the_run_stands_at_the_top(make: Make) -> None:
    for record in (make(), make(gate=False, epsilons=(math.inf,)), make(epsilons=(3.0,))):
        head = card.render_evidence(record).partition("<main>")[0]
        word = palette.RUN[record.outcome].shown
        assert f">{word}</b> is the outcome of the run: " in head


def test_statuses_are_counted(make: Make) -> None:
    text = card.render_evidence(make(epsilons=(3.0,)))
    counted = re.search(r"answers: (.*?)\.", text)
    assert counted
    counts = [int(number) for number in re.findall(r"\d+", counted[1])]
    assert sum(counts) == len(REQUIREMENTS)


def test_the_evidence_runs_and_loads_nothing(make: Make) -> None:
    text = card.render_evidence(make(label=EVIL))
    assert not re.search(r"<(script|img|link|iframe)\b", text)
    assert not re.search(r"\b(src|href)=[\"']", text)
