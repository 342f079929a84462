"""Trained defenses as recommenders of a membership game."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from membership_cases import small_ratings, small_table  # type: ignore[import-not-found]

from dpaudit.audits.membership.design import Design
from dpaudit.audits.models.subject import DefenseRecommender
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Friends, Ratings
from dpaudit.defenses.base import TrainedDefense
from dpaudit.recommenders.base import Query
from dpaudit.recommenders.checks import checked_answer

DATA: Ratings = small_ratings()
# Half of the rows, and no row of user 2 or of item 4.
KEPT = (np.arange(len(DATA)) % 2 == 0) & (DATA.user != 2) & (DATA.item != 4)
USERS = np.arange(60, dtype=np.int32)
QUERY = Query(np.repeat(USERS, 30), np.tile(np.arange(30, dtype=np.int32), 60), USERS, 4)

SMALL: dict[str, dict[str, Any]] = {
    "dpsgd-mf": {"dimensions": 2, "epochs": 2},
    "dpps-mf": {"dimensions": 2, "epochs": 2},
    "dpsgd-pnbm": {"steps": 2, "more_than": 2},
    "dpps-pnbm": {"steps": 2, "more_than": 2},
    "privsr": {"dimensions": 2, "rounds": 2},
}


def defense_of(name: str, variant: str, **changes: Any) -> Any:
    params = {"epsilon": 5.0, "variant": variant, **SMALL[name], **changes}
    return registry.create("defenses", name, "model.0", params)


def with_friends() -> Ratings:
    links = np.random.default_rng(2).random((60, 60)) < 0.1
    np.fill_diagonal(links, False)
    users, friends = np.nonzero(links)
    return replace(DATA, friends=Friends.build(users, friends, 60))


class StopError(Exception):
    """Stops before the training."""


def prepared(
    monkeypatch: pytest.MonkeyPatch, defense: TrainedDefense[Any], ratings: Ratings = DATA
) -> tuple[Ratings, Ratings | None]:
    """What a defense is given for a training on half of the rows."""
    given: list[Any] = []

    def noting(self: Any, own: Ratings, public: Ratings | None = None) -> Any:
        given.extend((own, public))
        raise StopError

    monkeypatch.setattr(type(defense), "prepare", noting)
    with pytest.raises(StopError):
        DefenseRecommender(defense, ratings).answer(Interactions.of(ratings, KEPT), 1, QUERY)
    return given[0], given[1]


@pytest.mark.cases("name", ["dpsgd-mf", "dpps-mf", "dpsgd-pnbm", "dpps-pnbm"])
def test_a_claims_public_statistics_are_the_same_in_every_training(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A claim says nothing of data sets whose item means differ, so no coin may change them."""
    ratings, public = prepared(monkeypatch, defense_of(name, "published"))
    assert ratings.digest == DATA.only(KEPT).digest
    assert public is DATA


def test_without_a_claim_nothing_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    _, public = prepared(monkeypatch, defense_of("dpsgd-mf", "nonprivate"))
    assert public is None


def test_friends_and_private_ratings_come_with_every_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags = np.random.default_rng(3).random(len(DATA)) < 0.5
    ratings = replace(with_friends(), sensitive=flags)
    prepared_ratings, _ = prepared(monkeypatch, defense_of("privsr", "nonprivate"), ratings)
    assert prepared_ratings.friends is ratings.friends
    assert prepared_ratings.sensitive is not None
    np.testing.assert_array_equal(prepared_ratings.sensitive, flags[KEPT])


@pytest.mark.cases(
    ("name", "variant"),
    [(name, variant) for name in SMALL for variant in ("nonprivate", "published", "corrected")],
)
def test_what_it_shows_can_be_used_and_is_decided_by_the_seed(name: str, variant: str) -> None:
    changes = {"accept": "any"} if (name, variant) == ("dpps-mf", "published") else {}
    trained = DefenseRecommender(defense_of(name, variant, **changes), with_friends())
    data = Interactions.of(with_friends(), KEPT)
    first, again = (
        checked_answer(trained.answer(data, 7, QUERY), QUERY, data.shape) for _ in range(2)
    )
    np.testing.assert_array_equal(first.scores, again.scores)
    np.testing.assert_array_equal(first.lists, again.lists)
    assert first.factors is None
    # Lists are the best unseen items by the scores of the same model.
    scores, had = first.scores.reshape(60, 30), data.matrix.toarray() > 0
    for user in (0, 2, 40):
        shown = first.lists[user][first.lists[user] >= 0]
        assert not had[user, shown].any()
        rest = np.setdiff1d(np.flatnonzero(~had[user]), shown)
        assert scores[user, shown].min() >= scores[user, rest].max() - 1e-6


def test_fake_users_are_trained_on_beside_real_users_and_their_friends() -> None:
    table = small_table(draw="fake-users", units=["user"], held_out=20)
    design = Design.of(with_friends(), table, 1)
    trained = DefenseRecommender(defense_of("privsr", "corrected"), design.ratings)
    data = design.data(0)
    assert data.shape == (60 + 24, 30)
    checked_answer(trained.answer(data, 7, design.query), design.query, data.shape)


def test_noise_is_drawn_from_the_seed_of_the_training() -> None:
    trained = DefenseRecommender(defense_of("dpsgd-mf", "corrected"), DATA)
    data = Interactions.of(DATA, KEPT)
    first, other = (trained.answer(data, seed, QUERY).scores for seed in (7, 8))
    assert not np.array_equal(first, other)


def test_it_says_whether_it_predicts_ratings() -> None:
    assert DefenseRecommender(defense_of("dpsgd-mf", "nonprivate"), DATA).predicts_ratings


def test_factors_are_refused() -> None:
    trained = DefenseRecommender(defense_of("dpsgd-mf", "nonprivate"), DATA)
    with pytest.raises(ConfigError, match="dpsgd-mf publishes no factors"):
        trained.answer(Interactions.of(DATA), 1, replace(QUERY, factors=True))
