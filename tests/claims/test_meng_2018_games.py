"""The catalogue's games on PrivSR with few trials, and the corrected form on their pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.bounds.gdp import gaussian_epsilon
from dpaudit.bounds.multiplicity import split
from dpaudit.claims.catalogue import chosen
from dpaudit.claims.meng_2018 import MessagesGame, SubmittedGame
from dpaudit.claims.record import Check
from dpaudit.core.releases import StepsPair
from dpaudit.core.streams import Streams

# The level of each game if 150 games are judged together.
LEVEL = split(0.05, 150)
# Without the ranking form: `test_data_ranking.py`.
ENTRIES = {entry.id: entry for entry in chosen(["privsr"]) if entry.id != "privsr-thm4"}


def games(id_: str, role: str) -> list[Any]:
    return [
        experiment
        for experiment in getattr(ENTRIES[id_], role)
        if not isinstance(experiment, Check)
    ]


def steps(game: Any, trials: int = 3) -> list[StepsPair]:
    """Submissions without noise on D and on D', round by round."""
    defense, pair = game.defense, game.data
    before, after = (defense.prepare(r, pair.public) for r in (pair.before, pair.after))
    return [
        step for _, step in defense.observe(before, after, after, Streams.first(3, "steps", trials))
    ]


def certified(game: Any, trials: int) -> float:
    seen, (_, delta) = game.run(trials, 1), game.claimed()
    return label_epsilon(seen.absent, seen.present, delta=delta, alpha=LEVEL, seed=1)[0].lower


# The corrected form.


@pytest.mark.cases("id_", [id_ for id_, entry in ENTRIES.items() if entry.corrected])
def test_what_a_user_submits_moves_by_twice_the_bound_at_most(id_: str) -> None:
    (game,) = games(id_, "corrected")
    if isinstance(game, SubmittedGame):
        before, after = game.prepared()
        apart = [float(np.linalg.norm(game.sums(after) - game.sums(before)))]
    elif isinstance(game, MessagesGame):
        before, after = game.prepared()
        assert abs(game._sent(after) - game._sent(before)) == pytest.approx(4.0, rel=1e-6)
        return
    else:
        apart = [
            float(np.linalg.norm(step.present - step.absent, axis=1).max()) for step in steps(game)
        ]
    most = 2 * game.defense.clip_norm
    assert all(distance <= most for distance in apart)
    assert max(apart) > 0.5 * most


@pytest.mark.parametrize("id_", ["privsr-thm1-mixed", "privsr-thm3-submission"])
def test_the_worst_pair_of_whole_users_attains_the_guarantee(id_: str) -> None:
    (game,) = games(id_, "corrected")
    (step,) = steps(game)
    mu = np.linalg.norm((step.present - step.absent) / step.scale, axis=1)
    epsilon = gaussian_epsilon(float(mu[0]), game.defense.delta)
    assert game.truth.value == pytest.approx(epsilon, rel=1e-3)
    assert 0.999 * game.defense.epsilon < epsilon <= game.defense.epsilon


def test_the_noise_of_messages_covers_the_friends_share_of_the_budget() -> None:
    (game,) = games("privsr-thm2-friends", "corrected")
    truth = game.run(2, 0).truth
    assert 0.9 * game.defense.epsilon < truth.value < game.defense.epsilon
    whole = replace(game, defense=replace(game.defense, friends_share=0.999)).run(2, 0).truth
    assert whole.value == pytest.approx(game.defense.epsilon, rel=1e-3)


# The games with few trials.

SHORT = [
    ("privsr-thm1-one-kind", 0, 400),
    ("privsr-thm1-one-kind", 1, 800),
    ("privsr-thm1-norm", 0, 1_000),
    ("privsr-thm1-refit", 0, 5_000),
    ("privsr-thm1-refit", 1, 5_000),
    ("privsr-thm3-submission", 0, 1_000),
    ("privsr-thm3-submission", 1, 500),
    ("privsr-thm3-rounds", 0, 400),
    ("privsr-alg1-final", 0, 500),
    ("privsr-thm2-friends", 0, 5_000),
    ("privsr-thm2-message", 0, 5_000),
    ("privsr-thm2-message", 1, 5_000),
]


@pytest.mark.long
@pytest.mark.parametrize(("id_", "place", "trials"), SHORT)
def test_the_claim_is_refuted_in_its_game(id_: str, place: int, trials: int) -> None:
    experiment = games(id_, "published")[place]
    assert certified(experiment, trials) > experiment.claimed()[0]


@pytest.mark.long
@pytest.mark.parametrize("id_", [id_ for id_, entry in ENTRIES.items() if entry.corrected])
def test_the_corrected_form_is_not(id_: str) -> None:
    (game,) = games(id_, "corrected")
    assert certified(game, 400) <= game.defense.epsilon
