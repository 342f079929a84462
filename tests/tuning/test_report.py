"""What is said of a search, in words, tables, a picture and CSV."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.tuning import report
from dpaudit.tuning.result import CandidateRecord, Leak, Price, SettingRecord, Tuning


def leak(*values: float) -> Leak:
    return Leak(rule="attack.tpr <= 0.1", metric="attack.tpr", at=0.01, limit=0.1, values=values)


def least(*values: float) -> Leak:
    return Leak(rule="utility.ndcg >= 0.2", metric="utility.ndcg", at=None, limit=0.2, lower=True,
                values=values)  # fmt: skip


def setting(words: str, *values: float, utility: float = 0.2) -> SettingRecord:
    return SettingRecord(
        values={} if words == "as it is" else {"params.factors": words},
        words=words,
        trainings=max(1, len(values)),
        utility=(utility,) * max(1, len(values)),
        leak=leak(*values) if values else None,
        relative=tuple(10 * value for value in values),
        chance=0.5 if values else None,
    )


def tuning(**changes: Any) -> Tuning:
    fields = {
        "outcome": "go",
        "model": "m",
        "utility": "utility.ndcg",
        "config": "a.toml",
        "tuned": "tuned.toml",
        "settings": [
            setting("as it is", 0.4, 0.42, utility=0.15),
            setting("factors 4", 0.05, 0.06),
            setting("factors 8", 0.09, 0.11, utility=0.21),
            setting("factors 2"),
        ],
        "sampler": "listed",
        "candidates": [
            CandidateRecord(setting=2, fate="exceeded", seen=6, judged=4, leak=leak(0.08, 0.12)),
            CandidateRecord(setting=1, fate="go", seen=6, judged=19, leak=leak(0.05, 0.07)),
        ],
        "listed": 2,
        "chosen": 1,
        "price": [
            Price(chosen=0.2, unchanged=0.16, lower=1.1, upper=1.4),
            Price(group="age = 1", chosen=0.1, unchanged=0.2),
        ],
        "again": 0.9,
        "trainings": 100,
        "used": 60,
        "judged": 19,
        "attempt": 1,
    }
    return Tuning.model_validate({**fields, **changes})


def test_go_says_what_passes_and_its_price() -> None:
    found, price, *sure = report.sentences(tuning())
    assert found == (
        "With factors 4 it is GO: 6 of 100 are recognised (at most 7 in 2 new trainings; 41 with "
        "yours; the limit is 10)."
    )
    assert price.startswith(
        "nDCG of lists 25 % more (10 % more to 40 % more): 0.200 in place of 0.160"
    )
    assert "At most 4.2 of 100 such searches say GO" in sure[1]
    assert "In about 90 of 100 runs" in sure[2]


def test_what_is_nearest_is_said_where_nothing_passes() -> None:
    none: dict[str, Any] = {
        "chosen": None,
        "outcome": "undecided",
        "price": [],
        "again": None,
        "tuned": "",
    }
    candidates = tuning().candidates[:1]
    said = report.sentences(tuning(**none, candidates=candidates))
    assert said[0] == (
        "The judged setting does not pass; nearest: factors 8, which exceeded in training 2 of 19 "
        "(12 of 100; the limit is 10; gate attack.tpr <= 0.1)."
    )


def test_a_number_below_its_lower_limit_exceeds_in_its_training() -> None:
    candidate = CandidateRecord(
        setting=2, fate="exceeded", seen=6, judged=4, leak=least(0.21, 0.19, 0.3, 0.3)
    )
    none: dict[str, Any] = {"chosen": None, "outcome": "undecided", "price": [], "again": None}
    said = report.sentences(tuning(**none, tuned="", candidates=[candidate]))[0]
    assert "exceeded in training 2 of 19 (0.19" in said
    assert "gate utility.ndcg >= 0.2" in said


def test_leaks_with_limits_of_their_own_are_shown_in_units_of_these() -> None:
    auc = Leak(rule="auc", metric="attack.auc", at=None, limit=0.6, values=(0.72, 0.66))
    settings = [*tuning().settings]
    settings[0] = settings[0].model_copy(update={"leak": auc, "relative": auc.relative})
    changed = tuning(settings=settings)
    table = report.settings_table(changed)
    assert table.header[2] == "leak, % of its limit"
    shown = [row[2] for row in table.cells[:3]]
    assert shown == ["55 (50 to 60)", "100 (90 to 110)", "115 (110 to 120)"]
    assert report.frontier(changed) == [1, 2]
    chart = report.picture(changed)
    assert chart is not None
    spec = str(chart.panels[0].spec)
    assert "in % of its limit" in spec
    assert report.render_csv(changed).splitlines()[1].split(",")[6] == "auc"


def test_searches_add_up() -> None:
    assert "at most 8.4 of 100 times" in " ".join(report.sentences(tuning(attempt=2)))


def test_gates_by_an_interval_have_their_own_error() -> None:
    said = " ".join(report.sentences(tuning(level=0.05, again=None)))
    assert "At most 5 of 100 such searches say GO wrongly." in said
    assert "targets are drawn anew" in report.notes(tuning(level=0.05))[0]


def test_a_claim_is_not_covered_by_a_choice() -> None:
    told = report.notes(tuning(claim=(1.0, 1e-5), covered={10: 1.9}))
    assert any(note.startswith("Not covered: the claim ε = 1") for note in told)
    assert "1.900 (10)" in told[-1]


def test_the_picture_has_the_frontier_and_names_two_dots() -> None:
    assert report.frontier(tuning()) == [1, 2]
    chart = report.picture(tuning())
    assert chart is not None
    labels = str(chart.panels[0].spec)
    assert "chosen: factors 4" in labels
    assert "yours: as it is" in labels
    assert "1 more were trained once" in chart.summary


def test_all_formats_have_every_setting() -> None:
    for render in (report.render_markdown, report.render_csv):
        text = render(tuning())
        assert "factors 8" in text
    page = report.render_markdown(tuning())
    assert "age = 1" in page
    assert "dpaudit run tuned.toml" in page


@pytest.mark.drawn
def test_the_page_is_whole() -> None:
    page = report.render_html(tuning())
    assert page.startswith("<!DOCTYPE html>")
    assert "<svg" in page
    assert "age = 1" in page
