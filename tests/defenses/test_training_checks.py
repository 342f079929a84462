"""What all trained defenses share: how a training step ends."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.core.errors import NoModelError
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Friends, Ratings, Scale
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.defenses.federated.training import FederatedTraining
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.defenses.social.ranking import NONE, PrivSRRanking, RankingTraining
from dpaudit.defenses.social.training import SocialTraining
from dpaudit.defenses.training_checks import end_step

D = 8
ONE = Streams.first(1, "test", 1)


def wild() -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array([1.5, np.nan, np.inf, -np.inf, 1e30], np.float32)


@pytest.mark.parametrize("variant", ["published", "nonprivate"])
def test_a_form_that_diverges_says_when_and_what_helps(variant: str) -> None:
    with pytest.raises(NoModelError, match=r"^mine: no finite numbers after round 7: lower it$"):
        end_step(variant, "mine", 7, "round", "lower it", np.ones(2, np.float32), wild())  # type: ignore[arg-type]


def test_a_corrected_form_keeps_its_numbers_in_a_public_range() -> None:
    numbers, sound = wild(), np.array([-3.0, 2.0**19], np.float32)
    before = sound.copy()
    end_step("corrected", "mine", 7, "round", "lower it", numbers, sound)
    assert numbers.tolist() == [1.5, 0, 2**20, -(2**20), 2**20]
    np.testing.assert_array_equal(sound, before)


def ratings(scale: Scale) -> Ratings:
    source, n = np.random.default_rng(0), 6
    user, item = np.nonzero(source.random((n, 40)) < 0.6)
    value = source.integers(int(scale.minimum), int(scale.maximum) + 1, len(user)).astype(
        np.float32
    )
    friends = Friends.build(np.arange(1, n), np.zeros(n - 1, np.int64), n)
    return Ratings.build(user, item, value, n, 40, scale, friends=friends)


def fill(*factors: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
    """Set factors to the ends of the public range."""
    for part in factors:
        part[:, :D] = 2.0**20 * np.random.default_rng(1).choice([-1, 1], (len(part), D))


def test_the_clip_holds_at_the_ends_of_the_public_range() -> None:
    stars, lengths = ratings(Scale()), []
    social = PrivSR(1.0, "corrected", dimensions=D)
    rows = social.prepare(stars)
    training = SocialTraining(social, rows, ONE)
    fill(training.items, training.users)
    social.project(training.users)
    every = np.arange(len(rows), dtype=np.int32)
    shown = training.gradients(rows, every, training.users)[0].astype(np.float64)
    lengths += [np.sqrt(np.bincount(rows.users, (shown**2).sum(1))) / social.clip_norm]

    ranking = PrivSRRanking(1.0, "corrected", dimensions=D, triples="all")
    held = ranking.prepare(ratings(Scale(1, 1, 1)))
    users = np.arange(held.n_users, dtype=np.int32)
    ranked = RankingTraining(ranking, held, ONE, users)
    fill(ranked.items, ranked.users)
    sent = ranked.gradients(held.sets, users, ranked.users, (NONE, NONE))[1].astype(np.float64)
    lengths += [np.sqrt((sent**2).sum((1, 2))) / ranking.clip_norm]

    federated = FakeGradients(1.0, "corrected", dimensions=D)
    candidates = federated.prepare(stars)
    rounds = FederatedTraining(federated, candidates, ONE, np.ones(6, np.bool_))
    fill(rounds.server.factors, rounds.clients.factors)
    rounds.sigma = 0.0
    submitted = rounds.submit()
    away = submitted.shown - rounds.server.fakes[candidates.items[submitted.apart]]
    squares = (away.astype(np.float64) ** 2).sum(1)
    owners = candidates.users[submitted.apart]
    lengths += [np.sqrt(np.bincount(owners, squares)) / federated.clip_norm]
    for part in lengths:
        assert part.max() == pytest.approx(1, abs=1e-4)
        assert part.max() <= 1
