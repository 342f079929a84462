from __future__ import annotations

import math

import numpy as np
import pytest

from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.claims.catalogue import chosen
from dpaudit.claims.games import StepsGame
from dpaudit.claims.meng_2018 import bought, corrected_ranking, published_ranking
from dpaudit.core.streams import Streams

[CLAIM] = chosen(["privsr-thm4"])


def games(role: str) -> list[StepsGame]:
    experiments = getattr(CLAIM, role)
    assert all(isinstance(game, StepsGame) for game in experiments)
    return list(experiments)


@pytest.mark.parametrize(("kept", "scale"), [(False, 1.0), (True, math.sqrt(2))])
def test_one_purchase_costs_twenty_times_the_claim(kept: bool, scale: float) -> None:
    pair, defense = bought(kept), published_ranking()
    rows = [defense.prepare(data, pair.public) for data in (pair.before, pair.after)]
    _, law = next(defense.observe_items(rows[0], rows[1], rows[0], Streams.first(0, "x", 1)))
    # At ε = .5 and β = 1 each kind of noise is Lap(1); both add up to Lap(√2).
    np.testing.assert_allclose(law.scale[law.scale > 0], scale, rtol=1e-6)
    moved = (law.present - law.absent)[0]
    assert sorted(moved[abs(moved) > 1e-6].tolist()) == pytest.approx([-1] * 5 + [5])
    game = games("published")[int(kept)]
    assert game.truth is not None
    assert game.truth.value == pytest.approx(float((abs(moved) / scale).sum()))


@pytest.mark.long
def test_the_pair_is_one_purchase_and_the_corrected_form_keeps_whole_users() -> None:
    pair = bought()
    assert len(pair.after) == len(pair.before) + 1
    assert CLAIM.adjacency == "rating-add-remove"
    for game in games("corrected"):
        seen = game.run(400, 3)
        bound = label_epsilon(seen.absent, seen.present, delta=1e-5, alpha=1e-6, seed=1)[0]
        assert bound.lower <= 2
        assert game.claimed() == (2.0, corrected_ranking().delta)
    seen = games("published")[0].run(400, 3)
    bound = label_epsilon(seen.absent, seen.present, delta=0.0, alpha=1e-6, seed=1)[0]
    assert bound.lower > 0.5
