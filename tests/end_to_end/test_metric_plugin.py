"""A metric of another package: one entry, and the code that measures it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError
from scratch_package import install  # type: ignore[import-not-found]

from dpaudit.cli import main
from dpaudit.config.gate import Gate
from dpaudit.core.estimate import Estimate
from dpaudit.record.metric import Column, Metric
from dpaudit.record.metrics import entry, table
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports.columns import columns

METRICS = """
from dpaudit.record.metric import Column, Metric

COVERAGE = Metric(
    "utility.reach", "share of the catalogue that any list shows", "share",
    {"on_demand": ""}, larger="better", role="utility", columns=(Column("covered"),),
    quantity="coverage of the catalogue", note=("A list covers what it shows.",),
)
PLAIN = Metric("utility.novelty", "how new items are", "bits", {"on_demand": ""}, ("attack",))
APART = Metric("cost.memory", "memory", "MiB", {"on_demand": ""}, section="What it costs")
"""
MEASURES = '''
from dpaudit.auditor.measure import Measure, MetricKey, points
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Measurement


class Coverage(Measure):
    """Coverage, by one number."""

    audit = "on_demand"

    def __init__(self, subject):
        self.family, self.config = subject.context.family, subject.context.config

    @classmethod
    def plan(cls, config):
        for model, epsilon in points(config):
            yield MetricKey("utility.reach", model, epsilon)
            yield MetricKey("utility.novelty", model, epsilon)
            yield MetricKey("cost.memory", model, epsilon)

    def run(self, model):
        for label, epsilon in points(self.config):
            where = {"model": label, "epsilon": epsilon}
            kept = Estimate(value=0.53, lower=0.4, upper=0.6, confidence=self.family.confidence,
                            alpha=self.family.alpha, n=100, method="counted")
            yield Measurement(metric="utility.reach", estimate=kept, **where)
            exact = Estimate.exact(7.25, "by hand")
            for attack in ("one", "two"):
                yield Measurement(metric="utility.novelty", estimate=exact, attack=attack, **where)
            yield Measurement(metric="cost.memory", estimate=exact, **where)
'''
OWN_FIELD = '''
from dpaudit.auditor.measure import Measure, MetricKey, points
from dpaudit.core.estimate import Estimate
from dpaudit.record.metric import Column, Metric

REACH = Metric(
    "utility.reach", "share of a country's catalogue that any list shows", "share",
    {"on_demand": ""}, fields=("country",), larger="better", columns=(Column("covered"),),
)


class Reach(Measure):
    """Coverage by country."""

    audit = "on_demand"

    def __init__(self, subject):
        self.family, self.config = subject.context.family, subject.context.config

    @classmethod
    def plan(cls, config):
        for model, epsilon in points(config):
            for country in ("at", "de"):
                yield MetricKey("utility.reach", model, epsilon, country=country)

    def kept(self):
        return Estimate(value=0.53, lower=0.4, upper=0.6, confidence=self.family.confidence,
                        alpha=self.family.alpha, n=100, method="counted")

    def run(self, model):
        for key in self.plan(self.config):
            yield key.measured(self.kept())
'''
POINTS = """
[dpaudit.metrics]
utility.reach = scratch_metrics:COVERAGE
utility.novelty = scratch_metrics:PLAIN
cost.memory = scratch_metrics:APART
[dpaudit.measures]
coverage = scratch_measures:Coverage
"""
CONFIG = """
seed = 1
[data]
synthetic = { n_users = 80, n_items = 60, mean_per_user = 25 }
[[model]]
label = "lists"
defense = "slope-one"
epsilon = [1, 10]
params = { top_k = 5 }
[audit]
trials = 20
[[gate]]
metric = "utility.reach"
min = 0.3
"""
ONE = Estimate.exact(0.5, "by hand")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scratch package on the import path, as if it were installed."""
    place = tmp_path / "site"
    about = place / "scratch-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: scratch\nVersion: 1\n")
    (about / "entry_points.txt").write_text(POINTS)
    (place / "scratch_metrics.py").write_text(METRICS)
    (place / "scratch_measures.py").write_text(MEASURES)
    monkeypatch.syspath_prepend(place)
    for name in ("scratch_metrics", "scratch_measures"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return place


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(main, [str(each) for each in arguments])
    assert done.exit_code == code, done.output
    return done.output


def test_the_command_the_schema_and_gates_know_it(package: Path) -> None:
    listed = run("list", "metrics")
    assert re.search(r"utility\.reach +share of the catalogue", listed)
    assert "may gate (larger is better), where: epsilon, model" in listed
    gates = json.loads(run("schema"))["$defs"]["Gate"]["properties"]["metric"]
    assert gates["enum"][-1] == "utility.reach"
    assert gates["enumDescriptions"][-1] == "share of the catalogue that any list shows"
    assert Gate(metric="utility.reach", min=0.3).metric == "utility.reach"
    with pytest.raises(ValidationError, match=r"'cost\.memory'; use one of"):
        Gate(metric="cost.memory", max=3)
    with pytest.raises(ValidationError, match=r"can never pass"):
        Gate(metric="utility.reach", min=1.5)


def test_without_the_package_a_gate_on_it_names_the_metric_that_is_meant(tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text(CONFIG)
    said = run("run", tmp_path / "audit.toml", "-o", tmp_path / "out", code=2)
    assert "line 13: gate.0.metric: " in said
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_every_format_has_it(package: Path, tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text(CONFIG)
    out = tmp_path / "out"
    printed = run("run", tmp_path / "audit.toml", "-v", "-o", out)
    assert re.search(r"ε .*covered +utility\.novelty: one +utility\.novelty: two", printed)
    assert "0.53 [0.40, 0.60]" in printed
    assert re.search(r"What it costs\nmodel +ε +cost\.memory", printed)
    assert "PASS  utility.reach >= 0.3" in printed
    text = (out / "report.md").read_text(encoding="utf-8")
    assert "| covered | utility.novelty: one | utility.novelty: two |" in text
    assert "**What it costs**\n\n| model | ε | cost.memory |" in text
    assert "- A list covers what it shows." in text
    assert "| coverage of the catalogue | 100 |" in text
    page = (out / "report.html").read_text(encoding="utf-8")
    assert '<th scope="col">covered</th>' in page
    run("report", out, "--format", "card", "-o", tmp_path / "card.md")
    assert "utility.reach" in (tmp_path / "card.md").read_text(encoding="utf-8")
    policy = tmp_path / "policy.toml"
    policy.write_text('[[gate]]\nmetric = "utility.reach"\nmin = 0.7\n')
    assert "FAIL" in run("gate", out, "--policy", policy, code=1)

    # Where the package is not installed, its numbers stand in plain columns.
    sys.path.remove(str(package))
    run("report", out, "--format", "md", "-o", tmp_path / "plain.md")
    plain = (tmp_path / "plain.md").read_text(encoding="utf-8")
    names = "utility.reach | utility.novelty: one | utility.novelty: two | cost.memory |"
    assert names in plain


def test_a_metric_that_nobody_describes_has_a_plain_column(result: AuditResult) -> None:
    where: dict[str, Any] = {"model": "published", "epsilon": 1.0, "estimate": ONE}
    found = [
        Measurement(metric="other.number", attack=attack, step=step, **where)
        for attack, step in (("one", 1), ("one", 2), ("two", None))
    ]
    assert len({each.key for each in found}) == 3
    assert not entry("other.number").gateable
    names = [column.name for column in columns([found, []])]
    assert names == [f"other.number: {own}" for own in ("one, step 1", "one, step 2", "two")]
    with pytest.raises(ValidationError, match="metric"):
        Measurement(metric="<script>", **where)


@pytest.mark.cases(
    ("changes", "said"),
    [
        ({"name": "Utility Coverage"}, "needs a name such as"),
        ({"fields": ("two words",)}, "the field 'two words' needs a name such as 'country'"),
        ({"columns": (Column("by {attack}"),)}, "names 'attack', which is none of its fields"),
        ({"columns": (Column("by {top_k.real}"),)}, "names 'top_k.real'"),
    ],
)
def test_an_entry_that_could_fail_after_a_run_is_refused(
    changes: dict[str, Any], said: str
) -> None:
    right: dict[str, Any] = {"name": "a.b", "words": "w", "unit": "share", "audits": {}}
    with pytest.raises(ValueError, match=said):
        Metric(**{**right, **changes})


@pytest.mark.cases(
    ("entry", "what"),
    [
        ("Metric('epsilon', 'mine', 'ε')", "the metric 'epsilon'"),
        ("Metric('a.b', 'c', 'd', fields=(Field('step', 'another'),))", "the field 'step'"),
    ],
)
def test_an_entry_that_contradicts_another_package_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, what: str
) -> None:
    code = "from dpaudit.record.fields import Field\nfrom dpaudit.record.metric import Metric\n"
    points = {"dpaudit.metrics": "mine = scratch:MINE"}
    install(tmp_path, monkeypatch, f"{code}MINE = {entry}\n", points)
    assert table()["epsilon"].unit == "ε"
    assert "a.b" not in table()
    said = run("list", "metrics")
    assert f"'mine' of dpaudit.metrics says otherwise what {what} is" in said


def test_a_field_of_a_packages_own_is_measured_shown_and_picked_by_gates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {
        "dpaudit.metrics": "reach = scratch:REACH",
        "dpaudit.measures": "reach = scratch:Reach",
    }
    install(tmp_path, monkeypatch, OWN_FIELD, points)
    (tmp_path / "audit.toml").write_text(CONFIG + "where = { country = 'at' }\n")
    out = tmp_path / "out"
    printed = run("run", tmp_path / "audit.toml", "-v", "-o", out)
    assert re.search(r"ε .*covered: at +covered: de", printed)
    record = json.loads((out / "record.json").read_text(encoding="utf-8"))
    [gate] = record["gates"]
    assert gate["id"] == "gate/utility.reach/min/country=at"
    assert [number["place"] for number in gate["numbers"]] == [
        "lists, ε = 1, at", "lists, ε = 10, at"
    ]  # fmt: skip
    countries = [number.get("country") for number in record["measurements"]]
    assert countries.count("at") == countries.count("de") == 2
    failing = CONFIG.replace("0.3", "0.7") + "where = { country = 'at' }\n"
    (tmp_path / "audit.toml").write_text(failing)
    printed = run("run", tmp_path / "audit.toml", "-o", tmp_path / "failing", code=1)
    headline = "lists, ε = 1, at: utility.reach is 0.530, and is to be at least 0.7"
    assert f"STOP  {headline}" in printed
    assert headline in (tmp_path / "failing" / "report.md").read_text(encoding="utf-8")
    (tmp_path / "audit.toml").write_text(CONFIG + "where = { land = 'at' }\n")
    said = run("run", tmp_path / "audit.toml", "-o", tmp_path / "other", code=2)
    assert "utility.reach; use one of country, epsilon, model" in said


@pytest.mark.parametrize("planned", ['("at",)', "()"])
def test_a_number_that_no_family_counts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planned: str
) -> None:
    points = {
        "dpaudit.metrics": "reach = scratch:REACH",
        "dpaudit.measures": "reach = scratch:Less",
    }
    fewer = OWN_FIELD[OWN_FIELD.index("    @classmethod") : OWN_FIELD.index("    def kept")]
    fewer = fewer.replace('("at", "de")', planned)
    less = f"class Less(Reach):\n{fewer}    def run(self, model):\n"
    less += "        for key in Reach.plan(self.config):\n"
    less += "            yield key.measured(self.kept())\n"
    install(tmp_path, monkeypatch, OWN_FIELD + less, points)
    (tmp_path / "audit.toml").write_text(CONFIG.partition("[[gate]]")[0])
    said = run("run", tmp_path / "audit.toml", "-o", tmp_path / "out", code=3)
    assert "utility.reach lists 1" in said
    assert not (tmp_path / "out" / "record.json").exists()
