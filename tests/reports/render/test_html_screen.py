"""The first screen of a page: pictures, boxes, and what is folded."""

from __future__ import annotations

import re

import pytest

from dpaudit.record.result import AuditResult
from dpaudit.record.values import LearningStep
from dpaudit.reports.render import html
from dpaudit.reports.sections.outcome import decision_of
from tests.reports.render.test_html import Page
from tests.support.records import Make, accuracy, judged, numbers_of


def gated(make: Make, value: float, limit: float | None, **changes: object) -> AuditResult:
    """A record of one share, and a gate that it fails if it is above the limit."""
    base = make(epsilons=(1.0,), gate=limit is not None, outcome="pass")
    number = accuracy(value, value, value).model_copy(update=changes)
    result = base.model_copy(update={"measurements": [number], "verdicts": []})
    if limit is None:
        return judged(result)
    table = {"metric": "attack.accuracy", "max": limit}
    outcome = "fail" if value > limit else "pass"
    gate = base.gates[0].model_copy(
        update={"outcome": outcome, "numbers": numbers_of(result, table, outcome)}
    )
    config = {**result.config, "gate": [table]}
    return judged(result.model_copy(update={"config": config, "gates": [gate]}))


def dots(result: AuditResult) -> tuple[int, int, int]:
    """How many of the 100 are below and above the limit, and not found; 0 without a picture."""
    picture = re.search(r'<svg class="dots".*?</svg>', html.render(result), re.DOTALL)
    text = picture[0] if picture else ""
    return tuple(text.count(f'class="{name}" ') for name in ("found", "over", "rest"))  # type: ignore[return-value]


@pytest.mark.cases(
    ("value", "limit", "counts"),
    [
        (0.42, 0.25, (25, 17, 58)),
        (0.16, 0.25, (16, 0, 84)),
        (0.42, None, (42, 0, 58)),
        (0.0, 0.25, (0, 0, 100)),
        (1.0, 0.99, (99, 1, 0)),
        # 100 cannot tell these apart.
        (0.0042, 0.004, (0, 0, 0)),
    ],
)
def test_dots_are_as_many_as_are_found(
    make: Make, value: float, limit: float | None, counts: tuple[int, int, int]
) -> None:
    assert dots(gated(make, value, limit)) == counts


def test_the_outcome_is_a_heading_and_the_rest_is_folded(result: AuditResult) -> None:
    page = Page(html.render(result))
    tags = [tag for tag, _ in page.tags]
    assert ("h2", {"id": "outcome"}) in page.tags
    assert tags.index("h1") < tags.index("h2") < tags.index("details")
    assert not any("open" in given for tag, given in page.tags if tag == "details")
    assert decision_of(result).sentences[0] in page.text


def test_a_command_of_the_next_steps_is_there_as_it_runs(make: Make) -> None:
    assert "dpaudit gate dpaudit-out/dpaudit --policy limits.toml" in html.render(make())


def test_the_curve_has_what_fewer_trainings_find(make: Make) -> None:
    steps = [
        LearningStep(calibrating=count, value=value, gain=0.1, lower=0.05)
        for count, value in ((2, 0.2), (5, 0.42))
    ]
    text = html.render(gated(make, 0.42, 0.25, learning=steps))
    assert "20 of 100 with 2, 42 of 100 with 5" in text
    assert "attackers find 20 with 2 trainings of their own, 42 of 100 with 5" in text
    assert '<svg class="chart"' not in html.render(gated(make, 0.42, 0.25))
