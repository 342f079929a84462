from __future__ import annotations

import yaml

from dpaudit.record.result import AuditResult
from dpaudit.reports.card.build import card_of
from dpaudit.reports.card.document import PrivacyCard
from dpaudit.reports.render import card_yaml


def test_the_text_holds_the_whole_card(hard: AuditResult) -> None:
    text = card_yaml.render(hard)
    assert PrivacyCard.model_validate(yaml.safe_load(text)) == card_of(hard)


def test_keys_keep_their_order_and_letters_are_readable(result: AuditResult) -> None:
    text = card_yaml.render(result)
    assert list(yaml.safe_load(text)) == list(PrivacyCard.model_fields)
    assert "owner: not stated" in text
    assert "finds 1.25×" in text
    assert text.count("basis: derived, not measured") == len(result.points)


def test_hostile_words_stay_text(result: AuditResult) -> None:
    evil = "!!python/object/apply:os.system ['true']\n- &a *a : {"
    config = {**result.config, "card": {"owner": evil, "version": "no"}}
    values = yaml.safe_load(card_yaml.render(result.model_copy(update={"config": config})))
    assert values["stated"]["owner"] == evil
    assert values["stated"]["version"] == "no"
