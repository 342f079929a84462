"""The catalogue's games: scores follow the law and do not depend on blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpaudit.auditor import games as game_module
from dpaudit.claims import park_acharya_2011 as data
from dpaudit.claims.games import EntryGame, ListGame, PredictionGame, described
from dpaudit.claims.park_acharya_2011 import first_of_two
from dpaudit.data.ratings import STARS
from dpaudit.defenses.item_item.similarities import SlopeOne
from dpaudit.defenses.top_k.defense import TopK

RARE = 1e-6
CERTAIN = 1e300


def likely(count: int, trials: int, p: float) -> bool:
    tails = binom.cdf(count, trials, p), binom.sf(count - 1, trials, p)
    return bool(min(tails) > RARE / 2)


LIST = ListGame("two", SlopeOne(epsilon=0.5, top_k=1), data.two_to_show, law=first_of_two)
VECTOR = PredictionGame(
    "five", SlopeOne(epsilon=2.0, adjacency="rating-replace"), data.own_replaced(5)
)
ENTRY = EntryGame("chain", TopK(epsilon=1.0), lambda defense: defense.pair("last-ranked", STARS))
GAMES = pytest.mark.cases("game", [LIST, VECTOR, ENTRY], ids=lambda game: game.label)


@GAMES
def test_blocks_and_further_trials_change_no_trial(
    monkeypatch: pytest.MonkeyPatch, game: ListGame | PredictionGame | EntryGame
) -> None:
    whole = game.run(300, 4)
    at_once = game_module.in_blocks

    def in_small_blocks(reads: Any, _: int, executor: Any) -> Any:
        return at_once(reads, 64, executor)

    monkeypatch.setattr(game_module, "in_blocks", in_small_blocks)
    parts = game.run(200, 4)
    assert np.array_equal(parts.absent, whole.absent[:200])
    assert np.array_equal(parts.present, whole.present[:200])
    # Another seed gives other trials; the chain's lists are all certain and score alike.
    if game is VECTOR:
        assert not np.array_equal(game.run(200, 5).absent, parts.absent)


def test_a_list_is_led_by_the_item_as_often_as_the_law_says() -> None:
    trials = 40_000
    seen = LIST.run(trials, 0)
    assert set(np.unique(seen.absent)) <= {0.0, 1.0}
    # b = 0.8: the item is 5 scales behind, then level.
    behind = 0.5 * math.exp(-5) * (1 + 5 / 2)
    assert likely(int(seen.absent.sum()), trials, behind)
    assert likely(int(seen.present.sum()), trials, 0.5)
    assert not likely(int(seen.absent.sum()), trials, math.exp(-5) / 2)
    assert seen.truth is not None
    assert seen.truth.value == pytest.approx(math.log(0.5 / behind), rel=1e-6)


def test_a_vector_is_scored_by_the_sum_of_its_losses() -> None:
    trials = 40_000
    seen = VECTOR.run(trials, 0)
    # Five numbers shift by 0.2 in noise of scale 0.2: losses within ±1 each.
    assert seen.truth is not None
    assert seen.truth.value == pytest.approx(5, rel=1e-5)
    for scores in (seen.absent, seen.present):
        assert abs(scores).max() <= 5 + 0.05
    # P(all five beyond the farther centre): each has 1/2 on D' and e^-1/2 on D.
    edge = 5 - 1e-3
    assert likely(int((seen.present >= edge).sum()), trials, 0.5**5)
    assert likely(int((seen.absent <= -edge).sum()), trials, 0.5**5)
    assert likely(int((seen.absent >= edge).sum()), trials, (math.exp(-1) / 2) ** 5)
    assert not likely(int((seen.present >= edge).sum()), trials, 0.5**4)


def test_impossible_lists_are_certain() -> None:
    trials = 4000
    seen = ENTRY.run(trials, 0)
    defense, pair = ENTRY.defense, ENTRY.make_pair(ENTRY.defense)
    chains = [defense.chain(row) for row in (pair.before, pair.after)]
    sets = [
        {tuple(row) for row in chain.sets.items(np.arange(len(chain.up))).tolist()}
        for chain in chains
    ]
    # The probability of the sets that are possible on one data set only.
    alone = []
    for mine, theirs, chain in zip(sets, sets[::-1], chains, strict=True):
        rows = chain.sets.items(np.arange(len(chain.up))).tolist()
        law = chain.law(defense.iterations)
        assert mine != theirs
        alone.append(sum(p for p, row in zip(law, rows, strict=True) if tuple(row) not in theirs))
    assert likely(int((seen.absent <= -CERTAIN).sum()), trials, alone[0])
    assert likely(int((seen.present >= CERTAIN).sum()), trials, alone[1])
    assert np.isfinite(seen.absent).all()
    assert np.isfinite(seen.present).all()
    assert not (seen.absent >= CERTAIN).any()
    assert seen.truth is not None
    assert seen.truth.value == math.inf


def test_a_defense_is_described_by_what_is_not_its_default() -> None:
    assert described(SlopeOne(epsilon=0.5)) == "slope-one, published: epsilon = 0.5"
    assert described(SlopeOne(epsilon=2.0, delta_r=5.0, top_k=1)) == (
        "slope-one, published: epsilon = 2, top_k = 1, delta_r = 5"
    )
    corrected = TopK(epsilon=1.0, variant="corrected", mechanism="peeling")
    assert described(corrected) == "top-k, corrected: epsilon = 1, mechanism = peeling"


def test_no_two_games_share_a_digest() -> None:
    digests = [
        LIST.digest(),
        VECTOR.digest(),
        ENTRY.digest(),
        PredictionGame("six", VECTOR.defense, data.own_replaced(6)).digest(),
        EntryGame("best", _corrected(), lambda d: d.pair("among-best", STARS)).digest(),
    ]
    assert len(set(digests)) == len(digests)
    assert LIST.digest() == ListGame("other name", LIST.defense, data.two_to_show).digest()


def _corrected() -> TopK:
    return TopK(epsilon=1.0, variant="corrected")


def test_a_defense_without_a_claim_has_no_game() -> None:
    plain = SlopeOne(epsilon=math.inf, variant="nonprivate")
    with pytest.raises(ValueError, match="with a claim"):
        PredictionGame("plain", plain, data.above_threshold).claimed()
