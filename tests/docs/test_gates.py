"""The page of gates has a sentence on each attack."""

from __future__ import annotations

import re

import pytest
from pages import ROOT  # type: ignore[import-not-found]

from dpaudit.attacks.base import MembershipInference
from dpaudit.core import registry
from dpaudit.record.result import STRONGEST

PAGE = (ROOT / "docs" / "results" / "gates.md").read_text(encoding="utf-8")


@pytest.mark.cases("name", registry.names("attacks"))
def test_each_attack_has_a_gate_that_names_it(name: str) -> None:
    # A gate on membership judges the best placed of all attacks.
    kind = registry.load("attacks", name)
    named = STRONGEST if issubclass(kind, MembershipInference) else name
    assert re.search(rf"\\| (pass|fail|inconclusive) \\| [^|]*, {named}[,:]", PAGE)


def test_no_sentence_lacks_its_number() -> None:
    sentences = [line.split(" | ")[2] for line in PAGE.splitlines() if line.startswith("| ")]
    rows = [sentence for sentence in sentences if sentence not in {"sentence |", "--- |"}]
    assert len(rows) > 20
    for row in rows:
        assert re.search(r"ε = [^:]*: .*\d", row), row
