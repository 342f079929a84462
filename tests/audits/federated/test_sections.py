"""What reports say about the submissions of federated trainings, from a small audit."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from dpaudit.auditor.run import run_audit
from dpaudit.audits.federated import sections as drawings
from dpaudit.audits.federated.sections import FederatedSections
from dpaudit.config.schema import Config
from dpaudit.record import storage as record
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import words
from dpaudit.reports.render import console, html, markdown
from dpaudit.reports.sections import meter, verdicts
from dpaudit.reports.sections.base import look_of
from tests.support.records import estimate, measured

Valid = Callable[[dict[str, Any]], bool]
EVIL = "</script><img src=x onerror=alert(1)>"
SMALL = {"rounds": 5, "dimensions": 3, "offset": 3.0, "spread": 0.7}
MODEL = {"defense": "fake-gradients", "epsilon": 5, "params": SMALL}


@pytest.fixture(scope="module")
def result() -> AuditResult:
    """One training alone, so that errors have no interval."""
    return run_audit(
        Config.model_validate(
            {
                "seed": 3,
                "data": {"synthetic": {"n_users": 30, "n_items": 80, "mean_per_user": 24}},
                "train": {"folds": 2, "trials": 1},
                "model": [
                    {**MODEL, "label": EVIL},
                    {**MODEL, "label": "corrected", "variant": "corrected"},
                ],
                "attack": [
                    {"name": "popularity"},
                    {"name": "zero-mean", "params": {"statistic": "z"}},
                    {"name": "gradient-ratio", "label": "my own"},
                ],
                "transcript": {"trials": 1, "rounds": [2]},
                "game": [{"pair": "data", "observe": "recommender", "trials": 40}],
            }
        )
    )


@pytest.mark.long
@pytest.mark.drawn
def test_the_first_screen_names_the_strongest_attack_open_to_a_server(result: AuditResult) -> None:
    [said] = [verdict for verdict in verdicts.of(result) if verdict.model == "corrected"]
    [sentence] = [text for text in said.sentences if "area under the curve" in text]
    open_areas = [
        m
        for m in result.measurements
        if (m.metric, m.model, m.step) == ("transcript.auc", "corrected", 5)
        and m.detail is None
        and m.attack != "my own"
    ]
    strongest = max(open_areas, key=lambda m: m.estimate.value)
    assert f"{strongest.attack!r} on the submissions of {strongest.step} rounds" in sentence
    assert words.interval(strongest.estimate) in sentence


def area(result: AuditResult, **where: Any) -> Measurement:
    [measurement] = [
        m
        for m in result.measurements
        if m.metric == "transcript.auc" and all(getattr(m, k) == v for k, v in where.items())
    ]
    return measurement


def test_tables_hold_the_numbers_of_the_record(result: AuditResult) -> None:
    areas, rounds, first, second, parts = FederatedSections(result).revealed()
    assert areas.header == ["attack", f"{EVIL}, ε = 5", "corrected, ε = 5"]
    assert [row[0] for row in areas.cells] == ["popularity", "zero-mean (z)", "my own"]
    for row in areas.cells:
        for cell, model in zip(row[1:], (EVIL, "corrected"), strict=True):
            measurement = area(result, model=model, attack=row[0], step=5, detail=None)
            assert cell.startswith(f"{measurement.estimate.value:.3f} [")
    assert rounds.header == ["model", "2", "5"]
    # An attack that knows the gradient is no server, whatever its label.
    assert "my own" not in str(rounds.cells)
    for table in (first, second):
        assert [row[0] for row in table.cells] == ["popularity", "zero-mean (z)", "my own"]
        assert "found, Holm at 5 %" in table.header
        assert "area, rarest items" in table.header
    assert [row[1] for row in parts.cells] == ["5", "5"]
    # What the corrected form submits has no such parts.
    assert parts.cells[1][3:] == ["–"] * 4
    assert "–" not in parts.cells[0]


def test_games_show_their_divergence(result: AuditResult) -> None:
    table = FederatedSections(result).tables()[-1]
    assert table.header[3:] == ["mean log-ratio", "normal plug-in", "nearest neighbours"]
    assert len(table.cells) == 2


def test_a_record_without_transcripts_has_no_tables(result: AuditResult) -> None:
    bare = result.model_copy(
        update={"measurements": [m for m in result.measurements if m.metric == "epsilon"]}
    )
    sections = FederatedSections(bare)
    assert not sections.revealed()
    assert not any(drawings.rounds(bare, look_of(bare)))
    assert len(sections.tables()) == len(bare.models)
    assert sections.notes() == sections.remarks() == []
    assert not list(sections.leaks(bare.models[0]))


@pytest.mark.long
@pytest.mark.drawn
def test_charts_are_valid_and_hold_numbers_that_json_knows(
    result: AuditResult, valid: Valid
) -> None:
    charts = [chart for chart in drawings.rounds(result, look_of(result)) if chart]
    assert [chart.name for chart in charts] == ["transcripts", "roc", "divergences", "rounds"]
    for chart in charts:
        for panel in chart.panels:
            assert valid(panel.spec)
            assert json.loads(json.dumps(panel.spec, allow_nan=False))
            assert "guess" in json.dumps(panel.spec) or chart.name not in ("transcripts", "roc")
    # One picture for each attack, with a line for each model.
    assert [panel.name for panel in charts[0].panels] == [
        f"attack: {attack}" for attack in ("popularity", "zero-mean (z)", "my own")
    ]
    drawn = charts[0].panels[0].spec["datasets"]["points"]
    assert len({datum["series"] for datum in drawn}) == 2
    assert {datum["x"] for datum in drawn} == {2, 5}
    assert all(datum["lower"] <= datum["y"] <= datum["upper"] for datum in drawn)
    roc = charts[1].panels[0].spec["layer"][0]["encoding"]
    assert [roc[axis]["scale"]["type"] for axis in "xy"] == ["log", "log"]


def test_of_many_attacks_those_that_find_most_are_drawn() -> None:
    data = [{"attack": f"attack {n}", "value": n % 8} for n in range(16)]
    drawn = {datum["attack"] for datum in drawings._foremost(data)}
    assert drawn == {f"attack {n}" for n in (7, 15, 6, 14, 5, 13)}
    assert drawings._foremost([]) == []


def test_a_long_training_is_drawn_at_few_rounds() -> None:
    kept = drawings._thinned(range(1, 401))
    assert {1, 2, 400} <= kept
    assert 20 < len(kept) <= 42


@pytest.mark.long
@pytest.mark.drawn
def test_every_report_is_rendered_and_escapes_labels(result: AuditResult) -> None:
    page = html.render(result)
    assert EVIL not in page
    assert "How fast submissions reveal items" in page
    text = markdown.render(result)
    # In the config at the end it stands as it was given, in a block of code.
    assert "<img" not in re.sub(r"\\<", "", text.split("```toml")[0])
    assert "is more powerful" in text
    # The law beside a certified ε is that of noise, and no list was seen.
    assert "by the noise's law" in text
    assert "list's law" not in text
    out = io.StringIO()
    console.show(result, Console(file=out, width=200))
    assert "each area holds by itself" in out.getvalue()
    assert AuditResult.model_validate_json(record.render(result)) == result


def test_the_meter_names_what_an_attacker_sees(make: Callable[..., AuditResult]) -> None:
    base = make(epsilons=(1.0,), game=False, attacks=False, rated=False)
    half = estimate(0.6, 0.5, 0.7)
    areas = [
        measured("transcript.auc", "published", 1.0, half, attack=label, step=3)
        for label in ("popularity (response)", "mine")
    ]
    attacks = {"popularity (response)": {"name": "popularity"}, "mine": {"name": "zero-mean"}}
    sections = FederatedSections(base.model_copy(update={"attacks": attacks}))
    rows = [sections.frequency(one) for one in areas]
    assert [row.attacker for row in rows if row] == ["item popularity alone", "submissions"]


def test_a_limit_stands_beside_the_attack_that_it_is_on(make: Callable[..., AuditResult]) -> None:
    """A judged area has an interval of its own, and replaces the other number of its attack."""
    base = make(epsilons=(1.0,), game=False, attacks=False, rated=False)
    half = estimate(0.6, 0.5, 0.7)
    areas = [
        measured(metric, "published", 1.0, half, attack=attack, step=3)
        for metric, attack in (
            ("transcript.auc", "mine"),
            ("transcript.auc", "popularity"),
            ("attack.auc", "mine"),
        )
    ]
    attacks = {"popularity": {"name": "popularity"}, "mine": {"name": "zero-mean"}}
    gate = {"metric": "attack.auc", "max": 0.7}
    record = base.model_copy(
        update={
            "attacks": attacks,
            "kind": "federated",
            "measurements": areas,
            "config": {**base.config, "gate": [gate]},
            "gates": [base.gates[0].model_copy(update={"numbers": ()})],
        }
    )
    rows = {row.attacker: row.limit for row in meter.rows(record)}
    assert rows == {"submissions": 0.7, "item popularity alone": None}
