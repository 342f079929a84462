"""What reports say about membership audits, from records made by hand."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from dpaudit.audits.membership import tables
from dpaudit.audits.membership.sections import MembershipSections
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import AuditResult, FindingRecord, Measurement
from dpaudit.record.values import Control
from dpaudit.reports import digest, palette
from dpaudit.reports.chart_parts import COLORS, MUTED, Chart, Look
from dpaudit.reports.render import console, html, markdown
from dpaudit.reports.sections import screen, verdicts
from dpaudit.reports.sections.base import charts_of
from tests.support.membership_records import GAMES, RATES, SEEING, estimate, measured, record
from tests.support.records import Make, judged

Valid = Callable[[dict[str, Any]], bool]
EVIL = "</script><img src=x onerror=alert(1)>|*b*"


def shown(result: AuditResult) -> str:
    file = io.StringIO()
    console.show(result, Console(width=200, file=file, force_terminal=True, color_system=None))
    return file.getvalue()


def test_without_a_model_there_is_nothing_to_show(make: Make) -> None:
    """As if no training ended with one."""
    bare = record(make).model_copy(update={"measurements": []})
    sections = MembershipSections(bare)
    assert sections.tables() == sections.brief() == []
    assert not any(sections.charts(Look(["own"])))
    assert not list(sections.leaks(bare.models[0]))
    assert "| own" in markdown.render(bare)


def test_a_membership_game_has_mutants_and_no_two_data_sets(make: Make) -> None:
    text = markdown.render(record(make, claim={}))
    assert "- A mutant is a copy of the model with less noise or a planted leak." in text
    assert "two neighbouring data sets of a game" not in text
    assert "A mutant" not in markdown.render(record(make))


def test_the_data_are_said_with_the_numbers_of_targets(make: Make) -> None:
    result = record(make)
    sized = {**result.config, "membership": {"interactions": 60, "users": 40}}
    text = markdown.render(result.model_copy(update={"config": sized}))
    assert "| targets | 60 interactions and 40 users |" in text
    assert "are attacked" not in text
    assert "| targets | – |" in markdown.render(result)


def test_the_strongest_attacks_stand_in_a_row_for_each_target_and_observer(make: Make) -> None:
    strongest, utility, attacks, exposed = tables.tables(record(make))
    assert strongest.header == [
        *("model", "target", "observer", "AUC"),
        *("TPR at 1 % FPR", "TPR at 10 % FPR", "advantage", "certified ε"),
    ]
    assert strongest.cells[0] == [
        *("own", "interaction", "scores", "0.750 [0.625, 0.875]"),
        *("0.250 [0.125, 0.375]", "0.500 [0.375, 0.625]", "0.250 [0.125, 0.375]", "≥ 0"),
    ]
    # A rate that users cannot show is a gap, not 0.
    assert strongest.cells[2][4] == "–"
    assert [row[1:3] for row in strongest.cells] == [list(game) for game in GAMES]
    assert utility.cells == [
        ["own", "1", "0.250 [0.125, 0.375]", "0.500 [0.375, 0.625]", "1.500 [1.375, 1.625]"]
    ]
    assert {row[4] for row in attacks.cells} == {"lira", "rmia"}
    assert len(attacks.cells) == 2 * len(GAMES)
    assert [row[4] for row in exposed.cells[:3]] == [
        *("50 % of targets: at most", "90 % of targets: at most", "rare items")
    ]
    assert tables.utility(record(make)) == [utility]


def test_more_than_a_claim_is_marked_only_where_the_claim_is_about_it(make: Make) -> None:
    bounds = dict.fromkeys(GAMES, 1.5)
    table = tables.tables(record(make, bounds, {}))[0]
    assert table.header[1] == "claimed ε"
    assert [row[1] for row in table.cells] == ["1", "none", "none"]
    assert [row[-1] for row in table.cells] == ["≥ 1.500 > claim", "≥ 1.500", "≥ 1.500"]
    assert table.marked == {(0, len(table.header) - 1)}
    [said] = verdicts.of(record(make, bounds, {}))
    assert said.badge is palette.CLAIM["false"]
    assert "Where ε = 1 is claimed, ε at least 1.50 is certified" in said.text
    assert "The attacker sees the scores of the target's own " in said.text
    users = {"adjacency": "user-add-remove", "also": ("own-list",)}
    table = tables.tables(record(make, bounds, users))[0]
    assert table.marked == {(2, len(table.header) - 1)}
    assert not tables.tables(record(make, bounds))[0].marked


def test_a_claim_that_no_game_is_about_is_not_tested(make: Make) -> None:
    other = {"adjacency": "user-replace", "observer": "recommender"}
    [said] = verdicts.of(record(make, dict.fromkeys(GAMES, 1.5), other))
    assert said.badge is palette.CLAIM["not tested"]
    assert "It covers: all ratings of one user" in said.text
    assert "seen: all that the recommender receives" in said.text
    assert "which the claim is not about, identifies" in said.text
    [said] = verdicts.of(record(make))
    assert "It makes no privacy claim." in said.text


def test_power_is_told_only_of_claims_that_a_game_tests(make: Make) -> None:
    control = Control(
        mutant="a planted leak of ε = 1.5", factor=1.5, epsilon=1.5, certified=1.2, found=True
    )
    base = record(make, {}, {})
    measurements = [
        measurement.model_copy(update={"control": control})
        if measurement.metric == "epsilon" and (measurement.unit, measurement.observer) == GAMES[0]
        else measurement
        for measurement in base.measurements
    ]
    (row,) = digest.rows(base.model_copy(update={"measurements": measurements}))["own"]
    powers = {pair: row.power(pair) for pair in row.games}
    assert powers == {
        "interaction (scores)": "finds 1.5×", "interaction (own-list)": "", "user (scores)": "",
    }  # fmt: skip
    (without,) = digest.rows(base)["own"]
    assert without.power("interaction (scores)") == "none"


def test_the_best_placed_observer_is_told_in_a_sentence(make: Make) -> None:
    [said] = verdicts.of(record(make))
    (interactions,) = [text for text in said.sentences if "audited interactions" in text]
    assert "An attacker who sees the scores " in interactions
    assert "identifies 50 of 100 (" in interactions
    assert "with 10 false alarms in 100; a guess identifies 10 of 100" in interactions
    assert any(
        "identifies 75 of 100 (" in text and "audited users" in text for text in said.sentences
    )


def test_the_sentence_and_the_chart_are_about_the_same_observer(make: Make) -> None:
    base = record(make)
    likely = ("own-list", estimate(0.9, 0.01, 1.0))  # more at best, and less for sure
    measurements = [
        measurement.model_copy(update={"estimate": likely[1]})
        if (measurement.metric, measurement.observer, measurement.at)
        == ("attack.tpr", likely[0], 0.1)
        else measurement
        for measurement in base.measurements
    ]
    result = base.model_copy(update={"measurements": measurements})
    [said] = verdicts.of(result)
    assert "the scores of the target's own" in said.sentences[1]
    drawn = tables.against_utility(result, Look(["own"]))
    assert drawn is not None
    assert drawn.numbers.cells[0][1] == "interaction, scores"


def test_findings_are_told_with_their_remedies(make: Make) -> None:
    finding = FindingRecord(model="own", about="seed", text="It differs.", remedy="Fix the seed.")
    result = record(make, findings=[finding])
    assert "It differs. Fix the seed." in screen.findings(result)
    assert "Fix the seed." in shown(result)


def test_a_claim_that_a_finding_leaves_open_is_undecided(make: Make) -> None:
    result = record(make, {}, {})
    open_ = [verdict.model_copy(update={"reason": "finding"}) for verdict in result.verdicts]
    [said] = verdicts.of(result.model_copy(update={"verdicts": open_}))
    assert any("leaves open what it reveals" in s for s in said.sentences)


def test_every_report_has_the_tables_and_the_notes(make: Make) -> None:
    result = record(make, dict.fromkeys(GAMES, 1.5), {})
    page, text, screen = html.render(result), markdown.render(result), shown(result)
    for report in (page, text):
        for words in (
            "Membership inference by the strongest attack",
            "Every attack: means and ranges",
            "Who is hit hardest",
            "in every training a coin decides for each target",
        ):
            assert words in report
    assert "≥ 1.50 > claim" in screen
    assert "interaction, own-list" in screen
    assert "Utility on held-out interactions" in screen
    assert "Every attack: means and ranges" not in screen


def test_the_console_shows_each_models_strongest_attacks_the_surest_numbers_first(
    make: Make,
) -> None:
    bounds = dict.fromkeys(GAMES, 1.5)
    claimed = tables.columns_of(record(make, bounds, {}), "own")
    names = [name for name, _ in claimed]
    assert names == [
        *("target, observer", "claimed ε", "certified ε", "AUC"),
        *("TPR at 10 % FPR", "TPR at 1 % FPR", "advantage"),
    ]
    columns = dict(claimed)
    assert columns["target, observer"] == [", ".join(game) for game in GAMES]
    assert columns["certified ε"] == ["≥ 1.50 > claim", "≥ 1.50", "≥ 1.50"]
    assert columns["TPR at 1 % FPR"][2] == "–"
    assert "claimed ε" not in dict(tables.columns_of(record(make, bounds), "own"))
    assert all(not cells for _, cells in tables.columns_of(record(make), "another"))


def test_the_chart_has_logarithmic_axes_and_draws_0_at_the_edge(make: Make) -> None:
    result = record(make)
    zero = [
        measurement.model_copy(update={"estimate": estimate(0.0, 0.0, 0.1)})
        if measurement.metric in ("membership.roc", "attack.tpr")
        else measurement
        for measurement in result.measurements
    ]
    drawn = tables.curves(result.model_copy(update={"measurements": zero}), Look(["own"]))
    assert drawn is not None
    assert [panel.name for panel in drawn.panels] == ["target: interaction", "target: user"]
    points = points_of(drawn)
    assert {(point["series"], point["x"]) for point in points} == {
        (f"own, {unit}, {observer}", at) for unit, observer in GAMES for at in (0.01, 0.1, 0.5)
    }
    assert {point["y"] for point in points} == {0.005}
    assert "at 1 % false positives is 0 [0, 0.100] (own, interaction, " in drawn.summary
    assert {point["words"] for point in points} == {"0 [0, 0.100]"}
    for panel in drawn.panels:
        layer = panel.spec["layer"][0]["encoding"]
        assert layer["x"]["scale"] == layer["y"]["scale"]
        assert layer["x"]["scale"]["type"] == "log"
        assert panel.spec["width"] == panel.spec["height"]
        guess = [(row["x"], row["y"]) for row in panel.spec["datasets"]["baselines"]]
        assert guess == [(0.005, 0.005), (1, 1)]
    assert "membership" in [chart.name for chart in charts_of(result)]


def test_the_chart_has_the_numbers_of_the_table(make: Make) -> None:
    """Also where another attack is the strongest at that rate, and beside points of its own."""
    result = record(make)
    table = tables.tables(result)[0]
    drawn = tables.curves(result, Look(["own"]))
    assert drawn is not None
    points = {(point["series"], point["x"]): point for point in points_of(drawn)}
    assert len(points) == len(points_of(drawn))
    for row in table.cells:
        cells = dict(zip(table.header, row, strict=True))
        for rate in RATES:
            shown = cells[f"TPR at {rate:.0%} FPR".replace("%", " %")]
            series = f"own, {cells['target']}, {cells['observer']}"
            if shown != "–":
                assert points[series, rate]["words"] == shown
                assert points[series, rate]["found by"] == "lira"
    # The largest number of the sentence is one of the table.
    said = drawn.summary.partition(" is ")[2].partition(" (")[0]
    assert any(said in row for row in table.cells)


def two(make: Make) -> AuditResult:
    """A record of two models alike."""
    base = record(make)

    def also(records: Any, **changes: str) -> list[Any]:
        return [*records, *(each.model_copy(update=changes) for each in records)]

    return base.model_copy(
        update={
            "models": also(base.models, label="other"),
            "points": also(base.points, model="other"),
            "measurements": also(base.measurements, model="other"),
        }
    )


def points_of(chart: Chart) -> list[dict[str, Any]]:
    return [datum for panel in chart.panels for datum in panel.spec["datasets"]["points"]]


def test_the_best_placed_observer_is_drawn_against_utility(make: Make, valid: Valid) -> None:
    drawn = tables.against_utility(two(make), Look(["other", "own"]))
    assert drawn is not None
    assert [panel.name for panel in drawn.panels] == ["target: interaction", "target: user"]
    for panel in drawn.panels:
        assert valid(panel.spec)
        assert panel.spec["datasets"]["guess"][0]["rate"] == 0.1
        # The colours of the models are those of other charts.
        inks = {row["text"][0]: row["ink"] for row in panel.spec["datasets"]["labels"]}
        assert inks == {"other": COLORS[0], "own": COLORS[1], "guess (10 %)": MUTED}
    of_own = {point["name"]: point for point in points_of(drawn)}["own, interaction"]
    assert of_own["words"] == "0.500 [0.375, 0.625]"
    assert of_own["utility_words"] == "0.250 [0.125, 0.375]"
    assert of_own["seen"] == "interaction, scores"
    assert of_own["certified"] == "≥ 0"
    # One model alone has nothing beside it: its numbers stand in the tables.
    alone = tables.against_utility(record(make), Look(["own"]))
    assert alone is not None
    assert not alone.panels


def test_the_most_popular_items_are_a_line_of_reference(make: Make) -> None:
    result = two(make)
    popular = Measurement(
        metric="utility.popular", model="own", epsilon=1.0, estimate=Estimate.exact(0.6, "lists")
    )
    result = result.model_copy(update={"measurements": [*result.measurements, popular]})
    drawn = tables.against_utility(result, Look(["other", "own"]))
    assert drawn is not None
    data = drawn.panels[0].spec["datasets"]
    assert data["popular"] == [{"utility": 0.6}]
    assert ["most popular items"] in [row["text"] for row in data["labels"]]


def test_colours_are_models_and_dashes_are_observers(make: Make) -> None:
    drawn = tables.curves(two(make), Look(["own", "other"]))
    assert drawn is not None
    panel = drawn.panels[0]
    scales = {
        channel: panel.spec["layer"][2]["encoding"][channel]["scale"]
        for channel in ("color", "strokeDash")
    }
    by = {
        channel: dict(zip(scale["domain"], map(str, scale["range"]), strict=True))
        for channel, scale in scales.items()
    }
    names = [f"{model}, interaction, {who}" for model in ("own", "other") for who in SEEING]
    assert [by["color"][name] for name in names] == [COLORS[0]] * 2 + [COLORS[1]] * 2
    assert by["strokeDash"][names[0]] == by["strokeDash"][names[2]] != by["strokeDash"][names[1]]
    assert by["strokeDash"][names[1]] == by["strokeDash"][names[3]]


def test_who_is_exposed_is_drawn_for_the_best_placed_observer(make: Make, valid: Valid) -> None:
    base = record(make)
    groups = [
        measured("membership.group", "interaction", who, value, "lira", group=group)
        for who in SEEING
        for group, value in (("rare items", 0.5), ("popular items", 0.25))
    ]
    kept = [each for each in base.measurements if each.metric != "membership.group"]
    result = base.model_copy(update={"measurements": [*kept, *groups]})
    drawn = tables.exposed(result, Look(["own"]))
    assert drawn is not None
    (panel,) = drawn.panels
    assert valid(panel.spec)
    assert [(point["row"], point["seen"]) for point in points_of(drawn)] == [
        ("rare items", "scores"),
        ("popular items", "scores"),
    ]
    low, high = panel.spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low < 0 < max(point["upper"] for point in points_of(drawn)) < high
    assert "rare items" in drawn.summary
    without = base.model_copy(update={"measurements": kept})
    assert tables.exposed(without, Look(["own"])) is None


def test_a_utility_that_was_not_measured_is_not_drawn(make: Make) -> None:
    bare = record(make)
    unmeasured = [
        measurement for measurement in bare.measurements if measurement.metric != "utility.ndcg"
    ]
    without = bare.model_copy(update={"measurements": unmeasured})
    assert tables.against_utility(without, Look(["own"])) is None


@pytest.mark.long
@pytest.mark.drawn
def test_hostile_labels_stay_text(make: Make) -> None:
    result, harmless = record(make, label=EVIL), record(make)
    for tag in ("<script", "</script", "<img"):
        assert html.render(result).count(tag) == html.render(harmless).count(tag)
    assert "\n" not in tables.tables(result)[0].cells[0][0]
    assert shown(result)
    assert markdown.render(result)


def test_the_first_screen_draws_several_models_against_their_utility(make: Make) -> None:
    several, one = (html.render(judged(one)) for one in (two(make), record(make)))
    worth = r'class="box worth">(.*?)</section>'
    shown = [re.search(worth, page, re.DOTALL) for page in (several, one)]
    assert [found and "<svg" in found[1] for found in shown] == [True, False]
