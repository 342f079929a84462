"""The low-rank part of scores against numpy's decomposition, and planted memory against nulls."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.attacks.membership import low_rank
from dpaudit.attacks.membership.features import Known, Pairs, Shown
from dpaudit.attacks.membership.low_rank import Questions
from dpaudit.core.errors import InputError

Numbers = NDArray[np.float64]
N, M, TARGETS, HELD, MEMBERS, WIDTH = 80, 120, 400, 120, 600, 3
USERS = np.arange(4, dtype=np.int32)  # target users


def pairs(which: NDArray[np.int64]) -> Pairs:
    users, items = (part.astype(np.int32) for part in np.divmod(which, M))
    return Pairs(users, items, np.ones(len(which), np.float32))


def questions(seed: int = 0, landmarks: int = 0, rows: int = 40) -> Questions:
    """Questions of a random game; about some rows and landmarks, or about all if 0."""
    rng = np.random.default_rng(seed)
    drawn = len(USERS) * M + rng.permutation((N - len(USERS)) * M)
    cuts = np.cumsum([TARGETS, HELD, MEMBERS])
    target, held, member, others = np.split(drawn[: cuts[-1] + 1000], cuts)
    history = np.zeros(N * M)
    history[np.concatenate((member, others))] = 1
    own = np.concatenate([u * M + np.arange(WIDTH) for u in USERS])
    history[own] = 1
    known = Known(csr_array(history.reshape(N, M)), np.arange(N, dtype=np.int32), USERS[:0])
    users, items = (np.arange(size, dtype=np.int32) for size in (N, M))
    return Questions(
        known,
        pairs(np.concatenate((target, held))),
        pairs(own),
        np.arange(TARGETS, TARGETS + HELD),
        pairs(member),
        np.sort(rng.permutation(users)[:rows]) if landmarks else users,
        items,
        users,
        np.sort(rng.permutation(M)[:landmarks]) if landmarks else np.arange(M),
        WIDTH,
    )


def shown(of: Questions, scores: Numbers) -> Shown:
    users, items = (
        np.concatenate((tested, own))
        for tested, own in zip(of.tested[:2], of.histories[:2], strict=True)
    )
    single = scores.astype(np.float32)
    nothing: Any = np.empty((0, 0))
    return Shown(single[users, items], nothing, nothing, further=single[of.asked])


def model(of: Questions, present: NDArray[np.bool_], size: float, seed: int = 1) -> Numbers:
    """Scores of rank 5 and noise, to which every interaction of the training adds a size."""
    rng = np.random.default_rng(seed)
    scores: Numbers = rng.normal(size=(N, 5)) @ rng.normal(size=(5, M))
    scores += 0.3 * rng.normal(size=(N, M)) + size * of.known.history.toarray()
    users, items = of.tested.users[:TARGETS][present], of.tested.items[:TARGETS][present]
    scores[users, items] += size
    return scores


def coins(seed: int) -> NDArray[np.bool_]:
    return np.random.default_rng((7, seed)).random(TARGETS) < 0.5


def area(scores: Numbers, present: NDArray[np.bool_]) -> float:
    more = scores[present][:, None] - scores[~present]
    return float(((more > 0) + (more == 0) / 2).mean())


def test_residuals_are_what_is_beyond_the_singular_values_in_means_of_user_and_item() -> None:
    of = questions()
    scores = model(of, coins(0), 0.5)
    values = shown(of, scores).scores.astype(np.float64)
    tested = len(of.tested.users)
    u, s, v = np.linalg.svd(scores)
    given = of.features(shown(of, scores), rated=False)[0]
    assert np.array_equal(given[:, 1], values[:tested])
    for column, rank in zip((2, 3, 4, 5), (4, 16, 32, 40), strict=True):
        left = scores - (u[:, :rank] * s[:rank]) @ v[:rank]
        square = (left**2).mean()
        sizes = [(left**2).mean(axis) + 0.1 * square for axis in (1, 0)]
        scale = (sizes[0][of.tested.users] * sizes[1][of.tested.items]) ** 0.25
        wanted = left[of.tested.users, of.tested.items] / scale
        # The last singular values of noise are nearly equal.
        assert np.corrcoef(given[:, column], wanted)[0, 1] > 0.98, rank
        assert np.allclose(given[:, column], wanted, atol=0.01 if rank == 4 else 0.5), rank


def test_a_skeleton_has_all_of_a_matrix_of_its_rank() -> None:
    rng = np.random.default_rng(2)
    of = questions(landmarks=30)
    scores = rng.normal(size=(N, 3)) @ rng.normal(size=(3, M)) + 0.001 * rng.normal(size=(N, M))
    given = of.features(shown(of, scores), rated=False)[0]
    # Of four singular values nothing but noise is left, which is 1 in its own size.
    assert given[:, 1].std() > 1
    assert 0.5 < given[:, 2].std() < 3


@pytest.mark.cases("landmarks", [0, 50])
def test_memory_is_found_and_the_coins_of_another_training_are_not(landmarks: int) -> None:
    found, others = [], []
    for seed in range(12):
        of = questions(seed, landmarks)
        odds = of.features(shown(of, model(of, coins(seed), 0.7, seed)), rated=False)[0][:, 0]
        found.append(area(odds[:TARGETS], coins(seed)))
        others.append(area(odds[:TARGETS], coins(seed + 100)))
    assert min(found) > 0.7
    assert np.mean(found) > 0.8
    assert abs(np.mean(others) - 0.5) < 4 * 0.029 / np.sqrt(12)


def test_a_model_without_memory_is_at_chance() -> None:
    areas = []
    for seed in range(12):
        of = questions(seed)
        odds = of.features(shown(of, model(of, coins(seed), 0.0, seed)), rated=False)[0][:, 0]
        areas.append(area(odds[:TARGETS], coins(seed)))
    assert abs(np.mean(areas) - 0.5) < 4 * 0.029 / np.sqrt(12)


def test_held_out_interactions_are_no_better_fitted_than_absent_targets() -> None:
    """60 of them decide 65 weights, so that their own fit would know them."""
    held, absent = [], []
    for seed in range(12):
        of = questions(seed)
        present = coins(seed)
        odds = of.features(shown(of, model(of, present, 0.5, seed)), rated=False)[0][:, 0]
        held.append(odds[TARGETS:].mean())
        absent.append(odds[:TARGETS][~present].mean())
    gap = np.subtract(held, absent)
    assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(12) + 0.05


def test_log_odds_do_not_depend_on_the_unit_of_scores() -> None:
    of = questions()
    scores = model(of, coins(0), 0.5)
    one, other = (of.features(shown(of, unit * scores), rated=False)[0] for unit in (1.0, 64.0))
    assert np.allclose(one[:, 0], other[:, 0], atol=1e-3)
    assert np.allclose(one[:, 2:], other[:, 2:], atol=1e-4)


def test_no_coin_changes_the_log_odds_of_what_a_model_shows_alike() -> None:
    of = questions()
    scores = model(of, coins(0), 0.5)
    again = replace(of, tested=Pairs(*of.tested[:2], 5 * of.tested.values))
    same = [one.features(shown(of, scores), rated=False)[0] for one in (of, again)]
    assert np.array_equal(same[0], same[1])
    rated = [one.features(shown(of, scores), rated=True)[0] for one in (of, again)]
    assert not np.allclose(rated[0][:, 0], rated[1][:, 0])


def test_of_a_user_the_means_over_the_history_are_kept() -> None:
    of = questions()
    scores = model(of, coins(0), 0.5)
    scores[1] = np.nan
    of_pairs, of_users = of.features(shown(of, scores), rated=False)
    assert of_users.shape == (len(USERS), 6)
    assert np.allclose(of_users[0, 1], scores[0, :WIDTH].mean(), atol=1e-5)
    assert of_users[1, 0] < min(of_pairs[:, 0].min(), of_users[[0, 2, 3], 0].min())
    assert of_users[1, 1] < of_pairs[:, 1].min()


@pytest.mark.cases(
    "kind", ["constant", "zero", "ties", "unknown items", "masked", "huge", "tiny", "one known"]
)
@pytest.mark.cases("landmarks", [0, 50])
def test_odd_scores_give_finite_numbers_and_no_leak(kind: str, landmarks: int) -> None:
    of = questions(landmarks=landmarks)
    present = coins(0)
    scores = model(of, coins(1), 0.5)
    match kind:
        case "constant" | "zero":
            scores = np.full_like(scores, 0.1 * (kind == "constant"))
        case "ties":
            scores = np.round(scores)
        case "unknown items":
            scores[:, ::3] = np.nan
        case "masked":  # what is in the training has no score, of another training
            scores[of.known.history.toarray() > 0] = np.nan
        case "huge" | "tiny":
            scores *= 1e37 if kind == "huge" else 1e-37
        case "one known":
            scores[:] = np.nan
            scores[of.tested.users[0], of.tested.items[0]] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for part in of.features(shown(of, scores), rated=False):
            assert np.isfinite(part).all()
    odds = of.features(shown(of, scores), rated=False)[0][:TARGETS, 0]
    assert abs(area(odds, present) - 0.5) < 0.12


def test_the_least_data_give_no_log_odds() -> None:
    of = questions()
    few = replace(of, outside=of.outside[: 2 * low_rank._FEWEST - 1])
    scores = model(of, coins(0), 0.5)
    assert not few.features(shown(of, scores), rated=False)[0][:, 0].any()


def test_scores_that_were_not_asked_are_an_error() -> None:
    of = questions()
    lacking = shown(of, np.zeros((N, M)))._replace(further=None)
    with pytest.raises(TypeError):
        of.features(lacking, rated=False)


def one_model(leak: float) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """All scores of a model of rank 5, and 600 members, whose scores stick out, and 600 others."""
    rng = np.random.default_rng(3)
    scores: Numbers = rng.normal(size=(N, 5)) @ rng.normal(size=(5, M))
    drawn = np.stack(np.divmod(rng.permutation(N * M)[:1200], M), axis=1)
    scores += 0.3 * rng.normal(size=(N, M))
    scores[tuple(drawn[:600].T)] += leak
    return scores.astype(np.float32), drawn[:600], drawn[600:]


@pytest.mark.cases(("leak", "least", "most"), [(0.0, 0.42, 0.58), (0.6, 0.75, 1.0)])
def test_of_one_model_tells_what_it_memorised(leak: float, least: float, most: float) -> None:
    scores, members, others = one_model(leak)
    (inside, outside), odds = low_rank.of_one_model(scores, members, others, 0)
    assert (len(inside), len(outside)) == (300, 300) == (len(odds[0]), len(odds[1]))
    assert least < np.mean(odds[0][:, None] > odds[1]) < most


def test_of_one_model_judges_no_pair_that_the_attack_was_fitted_to() -> None:
    """Labels that are exchanged between judged pairs change no log-odds."""
    scores, members, others = one_model(0.6)
    (inside, outside), odds = low_rank.of_one_model(scores, members, others, 0)
    members[inside], others[outside] = others[outside], members[inside].copy()
    again = low_rank.of_one_model(scores, members, others, 0)
    assert again[1][0] == pytest.approx(odds[1])
    assert again[1][1] == pytest.approx(odds[0])


def test_of_one_model_needs_pairs_for_both_halves() -> None:
    scores, members, others = one_model(0.6)
    low_rank.of_one_model(scores, members[:20], others[:20], 0)
    with pytest.raises(InputError, match="19 members"):
        low_rank.of_one_model(scores, members[:19], others, 0)
