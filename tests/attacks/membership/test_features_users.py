"""Features of users with a whole history, against literal loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge

from dpaudit.attacks.membership import features as read
from dpaudit.attacks.membership.features import OF_USERS, STEPS, Known, Shown, Users

I32, F32 = np.int32, np.float32
N, M, K, FIRST, ASKED = 10, 8, 4, 3, 5
LISTED = np.array([0, 2, 3, 5, 7, 9], I32)
OBSERVED = np.array([0, 3, 4], I32)  # users 0, 5 and 7


def history() -> NDArray[np.float64]:
    matrix = (np.random.default_rng(1).random((N, M)) < 0.5).astype(np.float64)
    matrix[9] = 0
    return matrix


def known() -> Known:
    return Known(csr_array(history()), LISTED, OBSERVED)


def targets() -> Users:
    rng = np.random.default_rng(2)
    asked = rng.integers(M, size=(2, 4, ASKED)).astype(I32)
    return Users(np.array([2, 3, 5, 9], I32), asked[0], asked[1], FIRST)


def shown(seed: int = 3, scale: float = 1.0) -> Shown:
    rng = np.random.default_rng(seed)
    lists = np.stack([rng.permutation(M)[:K] for _ in LISTED]).astype(I32)
    lists[1, 2:] = -1
    lists[3] = -1
    scores = (scale * rng.normal(size=FIRST + 2 * 4 * ASKED)).astype(F32)
    items = (scale * rng.normal(size=(M, 3))).astype(F32)
    after = (scale * rng.normal(size=(2 * STEPS * (FIRST + 4 * ASKED), 2 + 6))).astype(F32)
    return Shown(scores, lists, items, before=scores[::-1].copy(), after=after)


def discounts(lists: NDArray[np.int32], row: int) -> NDArray[np.float64]:
    discounts = np.zeros(M)
    for place, item in enumerate(lists[row]):
        if item >= 0:
            discounts[item] = 1 / math.log2(2 + place)
    return discounts


def cosine(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    sizes = math.sqrt((x @ x) * (y @ y))
    return float(x @ y / sizes) if sizes else 0.0


def asked_of(seen: Shown) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    held = seen.scores[FIRST : FIRST + 4 * ASKED].reshape(4, ASKED).astype(np.float64)
    others = seen.scores[FIRST + 4 * ASKED :].reshape(4, ASKED).astype(np.float64)
    return held, others


def test_scores_are_two_means_and_the_spread() -> None:
    seen = shown()
    held, others = asked_of(seen)
    features = OF_USERS["scores"](seen, known(), targets())
    assert features[:, 0] == pytest.approx(held.mean(1))
    assert features[:, 1] == pytest.approx(others.mean(1))
    assert features[:, 2] == pytest.approx(np.hstack((held, others)).std(1))


def test_unknown_items_are_left_out_and_an_unknown_user_is_below_all() -> None:
    seen = shown()
    held, others = asked_of(seen)
    seen.scores[FIRST + 1] = np.nan  # the second item of the first user
    seen.scores[FIRST + ASKED : FIRST + 2 * ASKED] = np.nan  # all items of the second
    seen.scores[FIRST + 5 * ASKED : FIRST + 6 * ASKED] = np.nan  # and all others
    features = OF_USERS["scores"](seen, known(), targets())
    kept = np.delete(held[0], 1)
    both = np.concatenate((kept, others[0]))
    assert features[0] == pytest.approx([kept.mean(), others[0].mean(), both.std()])
    assert (features[1] < features[[0, 2, 3]].min()).all()
    assert features[2:, 0] == pytest.approx(held[2:].mean(1))


def test_a_model_that_knows_nobody_has_equal_features() -> None:
    seen = shown()
    seen.scores[:] = np.nan
    features = OF_USERS["scores"](seen, known(), targets())
    assert np.isfinite(features).all()
    assert np.ptp(features) == 0


def test_the_change_is_the_mean_over_the_history_and_over_other_items() -> None:
    seen = shown()
    held, others = asked_of(seen)
    before = np.zeros_like(seen.scores)
    features = OF_USERS["before-and-after"](seen._replace(before=before), known(), targets())
    assert features[:, 0] == pytest.approx(held.mean(1), abs=1e-6)
    assert features[:, 1] == pytest.approx(others.mean(1), abs=1e-6)


def test_own_list_is_the_share_of_the_history_its_nearness_and_popularity() -> None:
    seen, had = shown(), history()
    features = OF_USERS["own-list"](seen, known(), targets())
    for row, user in enumerate(targets().users):
        weights = discounts(seen.lists, LISTED.tolist().index(user))
        total, held = max(weights.sum(), 1e-12), np.flatnonzero(had[user])
        near = sum(
            weights[item] * cosine(had[:, item], had[:, other])
            for item in range(M)
            for other in held
        )
        assert features[row, 0] == pytest.approx(weights[held].sum() / total)
        assert features[row, 1] == pytest.approx(near / total / max(1, len(held)))
        assert features[row, 2] == pytest.approx(weights @ had.sum(0) / total)


def test_others_lists_show_the_history_plain_and_by_likeness() -> None:
    seen, had = shown(), history()
    features = OF_USERS["others-lists"](seen, known(), targets())
    for row, user in enumerate(targets().users):
        held = np.flatnonzero(had[user])
        places, likes = [], []
        for observed in OBSERVED:
            other = LISTED[observed]
            share = discounts(seen.lists, observed)[held].sum() / max(1, len(held))
            places.append(0.0 if other == user else share)
            likes.append(0.0 if other == user else cosine(had[user], had[other]))
        alike = np.dot(places, likes) / sum(likes) if sum(likes) else 0
        assert features[row] == pytest.approx([np.mean(places), alike])


def test_factors_are_the_error_of_scikit_learns_fit_and_the_coherence() -> None:
    seen, had = shown(), history()
    features = OF_USERS["factors"](seen, known(), targets())
    items = seen.items.astype(np.float64)
    size = np.sqrt((items**2).sum(1).mean())
    for row, user in enumerate(targets().users):
        factors = items[had[user] > 0]
        expected = [0.0, 0.0]
        if len(factors):
            fitted = (
                Ridge(alpha=size**2, fit_intercept=False).fit(factors, np.ones(len(factors))).coef_
            )
            mean = factors.mean(0)
            expected = [
                -np.mean((factors @ fitted - 1) ** 2),
                mean @ mean / np.mean((factors**2).sum(1)),
            ]
        assert features[row] == pytest.approx(expected, abs=1e-9)


def test_nearest_items_are_how_high_the_history_shows_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(read, "_NEAREST", 3)
    seen, had = shown(), history()
    items = seen.items.astype(np.float64)
    nearest = np.array(
        [
            sorted({*range(M)} - {item}, key=lambda other: -cosine(items[item], items[other]))[:3]
            for item in range(M)
        ]
    )
    features = OF_USERS["nearest-items"](seen, known(), targets())
    for row, user in enumerate(targets().users):
        own = np.flatnonzero(had[user]).tolist()
        total = sum(discounts(nearest, item)[own].sum() for item in own)
        assert features[row] == pytest.approx([total / max(1, len(own))], abs=1e-9)


def test_what_follows_histories_is_the_mean_over_items_of_the_history() -> None:
    seen = shown()
    features = OF_USERS["asked-histories"](seen, known(), targets())
    every = seen.following[FIRST:].reshape(4, ASKED, 2)
    for row, of_items in enumerate(every):
        assert features[row] == pytest.approx([sum(column) / ASKED for column in of_items.T])


@pytest.mark.cases("observer", sorted(OF_USERS))
@pytest.mark.cases("scale", [1e-38, 1e-10, 1e10, 1e38])
def test_features_of_extreme_scores_are_finite(observer: str, scale: float) -> None:
    seen = shown(scale=scale)
    empty = seen._replace(lists=np.full_like(seen.lists, -1))
    for released in (seen, empty, seen._replace(items=np.zeros_like(seen.items))):
        features = OF_USERS[observer](released, known(), targets())
        assert features.shape[0] == 4
        assert np.isfinite(features).all()
