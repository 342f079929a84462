"""The columns of measurements, as the table of metrics describes them."""

from __future__ import annotations

from typing import Any

import pytest
from records import estimate  # type: ignore[import-not-found]

from dpaudit.audits.membership.sections import MembershipSections
from dpaudit.record.metric import ATTACKS, MODELS
from dpaudit.record.metrics import table
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports.columns import columns, of_section
from dpaudit.reports.sections import tables

ONE = estimate(0.5, 0.4, 0.6)
VALUES: dict[str, Any] = {"step": 4, "at": 0.01, "part": "longest"}


def measured(metric: str, **fields: Any) -> Measurement:
    given = {name: VALUES.get(name, name) for name in table()[metric].required} | fields
    return Measurement(metric=metric, model="published", epsilon=1.0, estimate=ONE, **given)


def with_all(result: AuditResult, *more: Measurement) -> AuditResult:
    return result.model_copy(update={"measurements": [*result.measurements, *more]})


@pytest.mark.cases(
    "name", [name for name, metric in table().items() if metric.section in (MODELS, ATTACKS)]
)
def test_whatever_has_no_section_of_its_own_has_a_column(name: str) -> None:
    filled = list(columns([[measured(name)], []], top_k=5))
    assert filled
    for column in filled:
        assert "{" not in column.name
        assert column.cells[0][0].isdigit()
        assert column.cells[1] == "–"


def test_models_that_rank_show_ndcg_and_gated_games_their_leak(result: AuditResult) -> None:
    names = ("utility.ndcg", "attack.advantage", "leak", "assumption.floor")
    (shown, *_) = tables.results(with_all(result, *map(measured, names)))
    assert {"nDCG", "advantage", "leak", "items at the floor"} <= set(shown.header)


def test_membership_audits_show_precision_and_both_errors(result: AuditResult) -> None:
    names = ("utility.precision", "utility.mae", "utility.ndcg", "utility.recall")
    (shown,) = MembershipSections(with_all(result, *map(measured, names))).brief()
    assert shown.header[-5:] == ["nDCG", "precision", "recall", "rmse", "mae"]


def test_what_shares_a_label_is_told_apart() -> None:
    games = [measured("attack.advantage", pair=pair) for pair in ("here", "there")]
    assert [column.name for column in columns([games])] == [
        "advantage: attack, here", "advantage: attack, there",
    ]  # fmt: skip
    assert [column.name for column in columns([games[:1]])] == ["advantage"]
    users = [measured("personal.loss", part=part) for part in ("median", "largest")]
    (column,) = columns([users, users[1:]])
    assert column == (table()["personal.loss"], "loss of a user: median, largest", [
        "0.5 / 0.5", "– / 0.5",
    ])  # fmt: skip
    # A maximum may be attained by another game at the next ε.
    leaks = [[measured("leak", pair=pair)] for pair in ("here", "there")]
    assert [column.cells for column in columns(leaks)] == [["0.500 [0.400, 0.600]"] * 2]


def test_a_section_without_measurements_has_no_table(result: AuditResult) -> None:
    assert of_section(result, "What it costs") is None
