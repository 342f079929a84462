from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports.sections import untried
from tests.support.records import estimate

Make = Callable[..., AuditResult]


def test_pairs_that_were_compared_are_named(make: Make) -> None:
    sentences = untried.sentences(make())
    assert sentences[0].endswith("than those that were compared (support-threshold).")
    assert any(
        sentence.startswith("Membership inference with real users") for sentence in sentences
    )
    assert not any("recover ratings" in sentence for sentence in sentences)


def test_without_games_no_claim_was_tested(make: Make) -> None:
    sentences = untried.sentences(make(game=False, attacks=False))
    assert sentences[0].startswith("Games that test a claimed ε")
    assert "Attacks that recover ratings or purchases." in sentences


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
        return said in untried.sentences(result)

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
    sentences = untried.sentences(
        base.model_copy(update={"kind": "membership", "measurements": [game]})
    )
    assert sentences[0] == (
        "Observers who see the list shown to the target's user; or the lists shown to some other "
        "users; or the items nearest to each item, by the cosine of the published factors; or the "
        "published factors of the items."
    )
    assert sentences[1] == "Whether a single interaction was in the training data."
    assert not any("Membership inference with real users" in sentence for sentence in sentences)
