"""Features of interactions against literal loops over users, items and places."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge

from dpaudit.attacks.membership import features as read
from dpaudit.attacks.membership.features import (
    OF_INTERACTIONS,
    STEPS,
    Known,
    Pairs,
    Shown,
    below_all,
    histories,
)
from dpaudit.core.membership import HISTORIES, OBSERVERS, ROWS, WITNESS

I32, F32 = np.int32, np.float32
N, M, K = 10, 8, 4
LISTED = np.array([0, 2, 3, 5, 7, 9], I32)
OBSERVED = np.array([0, 3, 4], I32)  # users 0, 5 and 7
TARGETS = Pairs(
    np.array([2, 5, 9, 2, 0], I32), np.array([1, 6, 3, 3, 6], I32), np.array([4, 2, 5, 1, 3], F32)
)


def history() -> NDArray[np.float64]:
    matrix = (np.random.default_rng(1).random((N, M)) < 0.5).astype(np.float64)
    matrix[9] = 0
    return matrix


def known() -> Known:
    return Known(csr_array(history()), LISTED, OBSERVED)


def shown(seed: int = 3, scale: float = 1.0) -> Shown:
    rng = np.random.default_rng(seed)
    lists = np.stack([rng.permutation(M)[:K] for _ in LISTED]).astype(I32)
    lists[1, 2:] = -1
    lists[3] = -1
    scores = (scale * rng.normal(size=12)).astype(F32)
    items = (scale * rng.normal(size=(M, 3))).astype(F32)
    after = (scale * rng.normal(size=(2 * STEPS * len(TARGETS.users), 2 + 6))).astype(F32)
    return Shown(scores, lists, items, before=scores[::-1].copy(), after=after)


def discount(lists: NDArray[np.int32], row: int, item: int) -> float:
    places = [place for place, listed in enumerate(lists[row]) if listed == item]
    return 1 / math.log2(2 + places[0]) if places else 0.0


def cosine(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    sizes = math.sqrt((x @ x) * (y @ y))
    return float(x @ y / sizes) if sizes else 0.0


def test_every_observer_has_features() -> None:
    # Those of further scores are in `low_rank`.
    assert set(OF_INTERACTIONS) == {*OBSERVERS, WITNESS} - {ROWS}


def test_the_change_is_the_score_after_minus_before_and_an_unknown_pair_scores_below_all() -> None:
    seen = shown()
    before = seen.scores.copy()
    before[0] += 2
    seen.scores[[1, 3]] = before[[2, 3]] = np.nan
    change = OF_INTERACTIONS[WITNESS](seen._replace(before=before), known(), TARGETS, True)[:, 0]
    lowest = np.nanmin(np.concatenate((seen.scores, before)))
    assert change[[0, 3, 4]] == pytest.approx([-2, 0, 0])
    assert change[1] < lowest - before[1]
    assert change[2] > seen.scores[2] - lowest
    with pytest.raises(TypeError, match="were not asked"):
        OF_INTERACTIONS[WITNESS](seen._replace(before=None), known(), TARGETS, True)


def test_a_target_is_followed_by_what_it_makes_likelier_among_other_items() -> None:
    seen = shown()
    assert seen.after is not None
    seen.after[2, 1] = seen.after[3, 5] = np.nan
    features = OF_INTERACTIONS[HISTORIES](seen, known(), TARGETS, False)
    lowest = below_all(seen.after.astype(float))
    for row, histories_ in enumerate(np.split(seen.after.astype(float), len(TARGETS.users))):
        scores = np.where(np.isnan(histories_), lowest, histories_)
        logs = [[math.log(math.exp(s) / np.exp(own[2:]).sum()) for s in own[:2]] for own in scores]
        pairs = zip(logs[::2], logs[1::2], strict=True)
        gains = [with_it[1] - without[1] for without, with_it in pairs]
        assert len(gains) == STEPS
        assert features[row] == pytest.approx([logs[0][0], sum(gains)], rel=1e-5, abs=1e-5)
    with pytest.raises(TypeError, match="no histories were sent"):
        OF_INTERACTIONS[HISTORIES](seen._replace(after=None), known(), TARGETS, False)


def test_scores_are_those_of_the_first_pairs_and_ratings_have_errors() -> None:
    seen = shown()
    plain = OF_INTERACTIONS["scores"](seen, known(), TARGETS, False)
    assert plain == pytest.approx(seen.scores[:5, None])
    rated = OF_INTERACTIONS["scores"](seen, known(), TARGETS, True)
    assert rated[:, 0] == pytest.approx(seen.scores[:5])
    assert rated[:, 1] == pytest.approx(-np.abs(TARGETS.values - seen.scores[:5]))


def test_an_unknown_pair_scores_below_all_others() -> None:
    seen = shown()
    seen.scores[[1, 3]] = np.nan
    features = OF_INTERACTIONS["scores"](seen, known(), TARGETS, True)
    assert np.isfinite(features).all()
    assert features[1, 0] == features[3, 0] < np.nanmin(seen.scores[:5])
    assert features[[0, 2, 4], 0] == pytest.approx(seen.scores[[0, 2, 4]])
    seen.scores[:] = np.nan
    assert np.isfinite(OF_INTERACTIONS["scores"](seen, known(), TARGETS, True)).all()


def test_own_list_is_the_place_of_the_item_and_the_lists_likeness_to_it() -> None:
    seen, had = shown(), history()
    features = OF_INTERACTIONS["own-list"](seen, known(), TARGETS, False)
    for row, (user, item) in enumerate(zip(TARGETS.users, TARGETS.items, strict=True)):
        listed = LISTED.tolist().index(user)
        weights = [discount(seen.lists, listed, other) for other in range(M)]
        near = sum(w * cosine(had[:, item], had[:, other]) for other, w in enumerate(weights))
        assert features[row, 0] == pytest.approx(weights[item])
        assert features[row, 1] == pytest.approx(near / sum(weights) if sum(weights) else 0)


def test_others_lists_are_averaged_over_observed_users_but_the_user() -> None:
    seen, had = shown(), history()
    features = OF_INTERACTIONS["others-lists"](seen, known(), TARGETS, False)
    for row, (user, item) in enumerate(zip(TARGETS.users, TARGETS.items, strict=True)):
        places, likes = [], []
        for observed in OBSERVED:
            other = LISTED[observed]
            places.append(0.0 if other == user else discount(seen.lists, observed, item))
            likes.append(0.0 if other == user else cosine(had[user], had[other]))
        alike = np.dot(places, likes) / sum(likes) if sum(likes) else 0
        assert features[row] == pytest.approx([np.mean(places), alike])


def test_an_observed_users_own_list_never_tells_of_their_interactions() -> None:
    seen = shown()
    changed = Shown(seen.scores, seen.lists.copy(), seen.items)
    changed.lists[0] = np.roll(seen.lists[0], 1)  # of user 0, whose target is the last
    features, other = (
        OF_INTERACTIONS["others-lists"](lists, known(), TARGETS, False) for lists in (seen, changed)
    )
    assert features[4].tolist() == other[4].tolist()
    assert features.tolist() != other.tolist()


def test_factors_are_the_score_of_a_user_fitted_by_scikit_learn() -> None:
    seen, had = shown(), history()
    features = OF_INTERACTIONS["factors"](seen, known(), TARGETS, False)
    items = seen.items.astype(np.float64)
    size = np.sqrt((items**2).sum(1).mean())
    for row, (user, item) in enumerate(zip(TARGETS.users, TARGETS.items, strict=True)):
        factors = items[had[user] > 0]
        fitted, center = np.zeros(3), np.zeros(3)
        if len(factors):
            fitted = (
                Ridge(alpha=size**2, fit_intercept=False).fit(factors, np.ones(len(factors))).coef_
            )
            center = factors.mean(0)
        expected = [fitted @ items[item], np.linalg.norm(items[item]), center @ items[item]]
        assert features[row] == pytest.approx(expected, abs=1e-9)


def test_nearest_items_show_the_item_among_the_history_and_the_history_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(read, "_NEAREST", 3)
    monkeypatch.setattr(read, "_TOGETHER", 2 * M)  # two rows at a time
    seen, had = shown(), history()
    items = seen.items.astype(np.float64)
    nearest = np.array(
        [
            sorted({*range(M)} - {item}, key=lambda other: -cosine(items[item], items[other]))[:3]
            for item in range(M)
        ]
    )
    features = OF_INTERACTIONS["nearest-items"](seen, known(), TARGETS, False)
    for row, (user, item) in enumerate(zip(TARGETS.users, TARGETS.items, strict=True)):
        others = np.flatnonzero(had[user]).tolist()
        shown_by = [discount(nearest, other, item) for other in others]
        shows = [discount(nearest, item, other) for other in others]
        expected = [sum(at) / max(1, len(others)) for at in (shown_by, shows)]
        assert features[row] == pytest.approx(expected, abs=1e-9)


def test_a_long_history_is_cut_to_its_first_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_MOST", 2)
    had = np.zeros((3, 5))
    had[0, [1, 2, 4]] = had[2, 3] = 1
    facts = Known(csr_array(had), np.arange(3, dtype=I32), np.arange(3, dtype=I32))
    first_items, weights = histories(facts, np.array([2, 0, 1], I32))
    assert first_items.tolist() == [[3, 0], [1, 2], [0, 0]]
    assert weights.tolist() == [[1, 0], [1, 1], [0, 0]]


def test_a_history_of_nobody() -> None:
    facts = Known(csr_array((3, 5)), np.arange(3, dtype=I32), np.arange(3, dtype=I32))
    first_items, weights = histories(facts, np.array([2, 0], I32))
    assert (first_items.shape, weights.sum()) == ((2, 1), 0)


@pytest.mark.cases("observer", sorted(OF_INTERACTIONS))
@pytest.mark.cases("scale", [1e-38, 1e-10, 1e10, 1e38])
def test_features_of_extreme_scores_are_finite(observer: str, scale: float) -> None:
    seen = shown(scale=scale)
    empty = seen._replace(lists=np.full_like(seen.lists, -1))
    for released in (seen, empty, seen._replace(items=np.zeros_like(seen.items))):
        features = OF_INTERACTIONS[observer](released, known(), TARGETS, True)
        assert features.shape[0] == 5
        assert np.isfinite(features).all()
