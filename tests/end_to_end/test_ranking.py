"""Audits of models that rank, from config to record and reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from dpaudit.attacks.reconstruction import RankingReconstruction
from dpaudit.auditor.run import run_audit
from dpaudit.auditor.trainings import most_popular, precision_and_recall
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.core.streams import Streams
from dpaudit.data.folds import random_folds
from dpaudit.data.readers.load import load
from dpaudit.defenses.social.ranking import PrivSRRanking
from dpaudit.execution.workers import Workers
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports.render import html, markdown

SYNTHETIC = {
    "n_users": 40, "n_items": 30, "mean_per_user": 14, "minimum_per_user": 8, "mean_friends": 2,
}  # fmt: skip
SMALL: dict[str, Any] = {
    "dimensions": 3,
    "rounds": 30,
    "learning_rate": 0.02,
    "decay": 0.1,
    "triples": 5,
}
BASE: dict[str, Any] = {
    "seed": 3,
    "data": {"synthetic": SYNTHETIC, "binarize": 3, "sensitive": {"share": 0.2, "seed": 1}},
    "train": {"folds": 3, "trials": 2, "against": "BPR", "top_k": 4},
    "model": [
        {
            "label": "BPR",
            "variant": "nonprivate",
            "defense": "privsr-ranking",
            "params": SMALL | {"social": False},
        },
        {"label": "PrivSR", "defense": "privsr-ranking", "epsilon": 50, "params": SMALL},
    ],
    "attack": {"name": "ranking-reconstruction"},
}


def config(**changes: Any) -> TrainedConfig:
    return TrainedConfig.model_validate(BASE | changes)


@pytest.fixture(scope="module")
def result() -> AuditResult:
    return run_audit(config(), workers=Workers(1))


def of(result: AuditResult, metric: str, **where: Any) -> list[Measurement]:
    return [
        each
        for each in result.measurements
        if each.metric == metric and all(getattr(each, k) == v for k, v in where.items())
    ]


@pytest.mark.long
def test_hits_are_those_of_the_lists_of_each_fold(result: AuditResult) -> None:
    part = PrivSRRanking(50.0, **SMALL)
    tested, listed, popular, apart = [], [], [], []
    for number, fold in enumerate(random_folds(load(config().data), 3, 3)):
        train, users = fold.train, np.unique(fold.users)
        models = part.train(part.prepare(train), Streams.first(3, f"fold/{number}", 2))
        lists = models.top(users, 4, train.by_user)
        hits = precision_and_recall(lists, users, fold.users, fold.items)
        tested.append([each.mean() for each in hits])
        shared, kept = train.only(~train.kept_private), train.only(train.kept_private)
        who = np.unique(kept.user)
        release = models.public(np.arange(30, dtype=np.int32))
        found = RankingReconstruction().lists(release, shared, who, 4)
        hits = precision_and_recall(found, who, kept.user, kept.item)
        listed.append([each.mean() for each in hits])
        halves = np.split(
            np.random.default_rng(np.random.SeedSequence([3, number, *b"halves"])).permutation(
                np.flatnonzero(train.kept_private)
            ),
            [int(train.kept_private.sum()) // 2],
        )
        leak = np.zeros(2)
        for own in (0, 1):
            learned = ~train.kept_private
            learned[halves[own]] = True
            half = part.train(
                part.prepare(train.only(learned)), Streams.first(3, f"fold/{number}", 2)
            ).public(np.arange(30, dtype=np.int32))
            for aim, sign in ((own, 1), (1 - own, -1)):
                rows = np.sort(halves[aim])
                who_ = np.unique(train.user[rows])
                lists = RankingReconstruction().lists(half, shared, who_, 4)
                hits = precision_and_recall(lists, who_, train.user[rows], train.item[rows])
                leak += sign * np.array([each.mean() for each in hits]) / 2
        apart.append(leak)
        hits = precision_and_recall(most_popular(shared, who, 4)[None], who, kept.user, kept.item)
        popular.append([each.mean() for each in hits])
    for place, kind in enumerate(("precision", "recall")):
        [utility] = of(result, f"utility.{kind}", model="PrivSR")
        assert utility.estimate.value == pytest.approx(np.mean(tested, axis=0)[place])
        at = {
            each.detail: each.estimate.value
            for each in of(result, f"reconstruction.{kind}", model="PrivSR")
        }
        assert at["released model"] == pytest.approx(np.mean(listed, axis=0)[place])
        assert at["item means"] == pytest.approx(np.mean(popular, axis=0)[place])
        # More hits are better, where more errors are worse.
        beyond = at["released model"] - at["model without them"]
        assert at["better than without them"] == pytest.approx(beyond, abs=1e-12)
        assert at["leak"] == pytest.approx(np.mean(apart, axis=0)[place], abs=1e-12)
        beyond = at["released model"] - at["item means"]
        assert at["better than item means"] == pytest.approx(beyond, abs=1e-12)
    assert not of(result, "utility.rmse")
    differences = of(result, "utility.difference")
    assert {(each.model, each.detail) for each in differences} == {
        ("PrivSR", "precision"),
        ("PrivSR", "recall"),
        ("PrivSR", "ndcg"),
    }


@pytest.mark.long
def test_gates_judge_the_lists_of_models_that_rank() -> None:
    gates = [
        {"metric": f"utility.{kind}", side: limit}
        for kind, side, limit in (("precision", "min", 0.01), ("recall", "max", 0.9),
                                  ("ndcg", "min", 0.95))
    ]  # fmt: skip
    record = run_audit(config(gate=gates, attack=[], train={"folds": 3, "trials": 40, "top_k": 4}))
    assert [gate.outcome for gate in record.gates] == ["pass", "pass", "fail"]
    assert record.family.size == 2 * 3
    for kind in ("precision", "recall", "ndcg"):
        for found in of(record, f"utility.{kind}"):
            assert (found.estimate.n, found.estimate.kind) == (120, "frequentist")
            assert 0 < found.estimate.lower < found.estimate.value < found.estimate.upper < 1


def test_reports_show_hits(result: AuditResult) -> None:
    for text in (markdown.render(result), html.render(result)):
        for words in ("precision", "recall", "recovered by ranking-reconstruction"):
            assert words in text


def test_a_grid_chooses_the_most_hits() -> None:
    # One step of a tiny rate is a random order; many are not.
    model = BASE["model"][0] | {"params": SMALL | {"social": False, "rounds": 60}}
    model["params"].pop("learning_rate")
    record = run_audit(
        config(
            model=[model | {"grid": {"learning_rate": [1e-9, 0.05]}}],
            attack=[],
            train={"folds": 3, "trials": 4},
        ),
        workers=Workers(1),
    )
    [point] = record.points
    assert point.chosen == {"learning_rate": 0.05}


@pytest.mark.cases(
    ("changes", "words"),
    [
        ({"attack": {"name": "reconstruction"}}, "use 'ranking-reconstruction'"),
        (
            {"model": [*BASE["model"], {"defense": "privsr", "params": {"rounds": 3}}]},
            "audit them in two configs",
        ),
        ({"model": [{"defense": "privsr", "label": "BPR"}]}, "use 'reconstruction'"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        config(**changes)
