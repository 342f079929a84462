"""What each kind of audit shows, and what a record of any other kind shows."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.record.metrics import entry, table
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports.render import html, markdown
from dpaudit.reports.sections import tables
from dpaudit.reports.sections.base import (
    ACCOUNTS_UNTRIED,
    MEMBERSHIP_UNTRIED,
    Sections,
    not_tried,
    sections_of,
)
from tests.support.records import Make, estimate

VALUES: dict[str, Any] = {"step": 4, "effort": 3, "at": 0.01, "rows": 20}


def measured(name: str) -> Measurement:
    fields = {field: VALUES.get(field, field) for field in table()[name].required}
    value = estimate(0.4567, 0.4, 0.6)
    return Measurement(metric=name, model="published", epsilon=1.0, estimate=value, **fields)


def of_kind(make: Make, kind: str, *names: str) -> AuditResult:
    """A record of a kind with one measurement of each of these metrics."""
    base = make(epsilons=(1.0,), attacks=False, game=False, gate=False)
    return base.model_copy(update={"kind": kind, "measurements": [*map(measured, names)]})


@pytest.mark.cases("kind", registry.every("audits").values(), ids=lambda kind: kind.name)
def test_a_kind_shows_what_the_kinds_that_it_extends_show(make: Make, kind: Any) -> None:
    record = of_kind(make, kind.name)
    assert type(sections_of(record)) is kind.sections()
    for base in type(kind).__mro__[1:-4]:
        assert issubclass(kind.sections(), base().sections())
        assert base().sections().shown <= kind.sections().shown


@pytest.mark.cases("kind", registry.every("audits").values(), ids=lambda kind: kind.name)
def test_what_a_kind_measures_has_a_place_in_its_reports(make: Make, kind: Any) -> None:
    metrics = [metric for metric in table().values() if kind.names & metric.audits.keys()]
    if not any(
        kind.name in other.names for other in registry.every("audits").values() if other is not kind
    ):
        assert {metric.section for metric in metrics} <= kind.sections().shown
    # All else has a table of its own.
    others = [
        metric.name for metric in table().values() if metric.section not in kind.sections().shown
    ]
    captions = [further.caption for further in tables.others(of_kind(make, kind.name, *others))]
    assert captions == list(dict.fromkeys(entry(name).section for name in others))


def test_a_record_of_a_kind_that_is_not_installed_shows_what_metrics_describe(make: Make) -> None:
    record = of_kind(make, "elsewhere", "utility.rmse", "sybil.accuracy", "transcript.auc")
    assert type(sections_of(record)) is Sections
    assert [result.caption.partition(":")[0] for result in tables.results(record)] == [
        "published", "sybil", "transcripts",
    ]  # fmt: skip
    for text in (markdown.render(record), html.render(record)):
        assert text.count("0.457 [0.400, 0.600]") >= 3


def test_only_an_audit_that_tries_it_does_not_say_that_it_was_left_out(make: Make) -> None:
    def said(kind: str) -> set[str]:
        sentences = not_tried(of_kind(make, kind))
        return {MEMBERSHIP_UNTRIED, ACCOUNTS_UNTRIED}.intersection(sentences)

    assert said("membership") == {ACCOUNTS_UNTRIED}
    assert said("sybil") == {MEMBERSHIP_UNTRIED}
    for kind in ("on_demand", "trained", "federated", "mechanism", "elsewhere"):
        assert said(kind) == {MEMBERSHIP_UNTRIED, ACCOUNTS_UNTRIED}


def test_a_kind_that_cannot_be_imported_is_named(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(group: str, name: str) -> None:
        raise ConfigError(f"the {group} {name!r} cannot be imported")

    monkeypatch.setattr(registry, "load", broken)
    with pytest.raises(ConfigError, match="'sybil' cannot be imported"):
        sections_of(of_kind(make, "sybil"))


def test_pairs_that_were_compared_are_named(make: Make) -> None:
    sentences = not_tried(make())
    assert sentences[0].endswith("compared (support-threshold).")
    assert any(
        sentence.startswith("Membership inference with real users") for sentence in sentences
    )
    assert not any("recover ratings" in sentence for sentence in sentences)


def test_without_games_no_claim_was_tested(make: Make) -> None:
    sentences = not_tried(make(game=False, attacks=False))
    assert sentences[0].startswith("Games that test a claimed ε")
    assert any("recover ratings or purchases" in sentence for sentence in sentences)


def test_an_observer_is_told_from_another_whose_name_holds_its_own(make: Make) -> None:
    def missing(**changes: Any) -> bool:
        base = make(epsilons=(1.0,))
        [point] = base.points
        assert point.claim
        claim = point.claim.model_copy(update={"also": ("friend",)})
        games = [measurement.model_copy(update=changes) for measurement in base.measurements]
        result = base.model_copy(
            update={"measurements": games, "points": [point.model_copy(update={"claim": claim})]}
        )
        said = "Further observers whom a claim covers: all that a friend receives and generates."
        return said in not_tried(result)

    assert missing()
    assert missing(pair="friends (recommender)")
    assert missing(observer="friends")
    assert not missing(observer="friend")
    assert not missing(pair="data (friend)")


def test_observers_and_targets_that_a_membership_audit_left_out_are_named(make: Make) -> None:
    base = make(epsilons=(1.0,), attacks=False, game=False)
    fields: dict[str, Any] = {"attack": "strongest", "unit": "user", "observer": "scores"}
    game = Measurement(
        metric="attack.advantage",
        model="published",
        epsilon=1.0,
        estimate=estimate(0.1, 0.0, 0.2),
        **fields,
    )
    sentences = not_tried(base.model_copy(update={"kind": "membership", "measurements": [game]}))
    assert sentences[0] == (
        "Observers who see the scores of the target's own pairs, and of as many others as they ask "
        "for; or the list shown to the target's user; or the lists shown to some other users; or "
        "the items nearest to each item, by the cosine of the published factors; or the published "
        "factors of the items; or the scores of items after histories that the attacker sends."
    )
    assert sentences[1] == "Whether a single interaction was in the training data."
    assert not any("Membership inference with real users" in sentence for sentence in sentences)
