"""Whole audits of attributes on generated ratings."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpaudit.auditor.gate import judge_run
from dpaudit.auditor.run import run_audit
from dpaudit.config.gate import Gate
from dpaudit.config.schema import Config
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.record.bases import BEYOND_ABSENT
from dpaudit.record.result import AuditResult
from dpaudit.record.storage import contradiction
from dpaudit.reports.render import markdown
from dpaudit.reports.sections import meter
from dpaudit.reports.sections.outcome import decision_of
from dpaudit.reports.sections.steps import steps

USERS = {"path": "users.csv", "columns": {"gender": 1}}


def config(**attributes: Any) -> dict[str, Any]:
    return {
        "seed": 1,
        "data": {"format": "movielens-100k", "path": "u.data", "users": USERS},
        "recommender": [{"library": "most-popular"}],
        "attributes": {"column": "gender", "trainings": 1, "observers": ["own-list"], **attributes},
        "gate": [{"metric": "attributes.advantage", "max": 0.9}],
    }


@pytest.fixture(scope="module")
def result() -> AuditResult:
    """Users of two kinds, each of whom has items of the own kind only."""
    users = np.repeat(np.arange(60), 4)
    items = np.tile(np.arange(4), 60) + 4 * (users % 2)
    ratings = Ratings.build(users, items, np.ones(240), 60, 8, Scale(1, 1, 1))
    frame = pd.DataFrame({"gender": ["F", "M"] * 30})
    return run_audit(Config.model_validate(config()), ratings=replace(ratings, user_features=frame))


def test_lists_that_leave_out_what_was_seen_tell_the_kind_and_a_model_without_it_none(
    result: AuditResult,
) -> None:
    aucs = {
        one.basis: one.estimate.value
        for one in result.measurements
        if one.metric == "attributes.auc"
    }
    assert aucs == {"model": 1.0, "model without the user": 0.5, "raw history": 1.0}
    [advantage] = [one for one in result.measurements if one.basis == BEYOND_ABSENT]
    assert advantage.estimate.value == pytest.approx(0.5)
    assert [gate.outcome for gate in result.gates] == ["pass"]
    assert contradiction(result) is None


def test_what_is_open_of_users_is_decided_by_more_of_them_and_by_no_trainings(
    result: AuditResult,
) -> None:
    """The 60 users of the data are all used: half teach the attacker, and 30 are guessed."""
    gates = [Gate(metric="attributes.advantage", max=0.5)]
    judged = judge_run(result, date(2026, 1, 1), gates=gates)
    [gate] = judged.gates
    assert (gate.outcome, gate.trainings) == ("inconclusive", None)
    assert "have no more: all 30 users" in gate.remedy
    [step] = steps(judged)
    said = (gate.reason, decision_of(judged).reason, step.text)
    assert all(gate.remedy in one for one in said)
    assert not any("use more" in one or "too small" in one for one in said)
    [row] = meter.rows(judged)
    assert row.measurement.place == gate.numbers[0].place


def test_reports_say_it_in_one_sentence_and_name_no_user(result: AuditResult) -> None:
    page = markdown.render(result)
    assert re.search(r"gender [^.]* AUC 1\.00; [^.]* 1\.00; [^.]* 0\.50\.", page)


@pytest.mark.cases(
    ("change", "words"),
    [
        ({"attributes": {"column": "income"}}, "has 'income', and data.users.columns has gender"),
        ({"data": {"format": "movielens-100k", "path": "u.data"}}, "which is missing"),
        ({"attack": [{"name": "lira"}]}, "guesses no attributes"),
        (
            {"attributes": {"column": "gender", "classes": {"gender": [2, 1]}}},
            "does not increase",
        ),
        ({"model": [{"defense": "dpsgd-mf"}], "attributes": {"column": "gender",
          "observers": ["factors"]}}, "publishes no factors of users"),
        ({"membership": {"trainings": 3}}, "use two configs"),
    ],
)  # fmt: skip
def test_a_config_that_cannot_be_audited_is_one_sentence(
    change: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Config.model_validate({**config(), **change})
