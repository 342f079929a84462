"""Test the possible bits of a release: unrounded sums reveal the data set, grids do not."""

from __future__ import annotations

import numpy as np
import pytest

import dpaudit
from dpaudit.attacks.distinguishing import FloatBits, NumpyLaplaceBits
from dpaudit.claims.games import by_first_edition, by_numpy, on_a_grid
from dpaudit.core.releases import ItemList, LaplacePair, NoisedSteps, Predictions, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.defenses.precision import grid

SINGLE = FloatBits(precision="single", bits=31)
N = 5000


def steps(
    shown: np.ndarray, step: float, *, gaussian: bool = False, bound: float = np.inf
) -> tuple[NoisedSteps, StepsPair]:
    count = shown.shape[1]
    pair = StepsPair(
        np.zeros((1, count)), np.ones((1, count)), np.ones(count), gaussian, bound, step
    )
    return NoisedSteps(shown), pair


def test_bare_sums_in_single_precision_are_told_apart_with_certainty() -> None:
    # A released model has hundreds of numbers; 40 are enough.
    shown = [
        by_first_edition(exact, 1.0, Streams.first(1, "bits", 40 * N)).reshape(N, 40)
        for exact in (0.0, 1.0)
    ]
    absent, present = (SINGLE.score(*steps(values, 0.0)) for values in shown)
    assert (absent < 0).all()
    assert (present >= 0).all()
    # Never wrong: no number is impossible in the data set that it came from.
    _, pair = steps(shown[0], 0.0)
    assert SINGLE.possible(shown[0], pair.absent, pair.scale, np.zeros(40), False).all()
    _, pair = steps(shown[1], 0.0)
    assert SINGLE.possible(shown[1], pair.present, pair.scale, np.zeros(40), False).all()


def test_normal_sums_in_single_precision_are_told_apart_too() -> None:
    z = np.random.default_rng(1).standard_normal((N, 40)).astype(np.float32).astype(np.float64)
    shown = [(exact + z).astype(np.float32).astype(np.float64) for exact in (0.0, 1.0)]
    absent, present = (SINGLE.score(*steps(values, 0.0, gaussian=True)) for values in shown)
    assert (absent < 0).all()
    assert (present >= 0).all()


@pytest.mark.parametrize("attack", [FloatBits(), SINGLE])
def test_on_a_grid_nothing_is_impossible(attack: FloatBits) -> None:
    for exact in (0.0, 1.0):
        shown = on_a_grid(exact, 1.0, Streams.first(2, "bits", N))[:, None]
        assert not FloatBits().score(*steps(shown, grid(1.0))).any()
        # With 31 bits the grid does not help in the tail, where cells are empty (hence a δ).
        assert (attack.score(*steps(shown, grid(1.0))) != 0).mean() < 0.001


def test_31_bits_leave_cells_of_a_grid_empty_and_the_source_leaves_none() -> None:
    # Between 17 and 21 scales out most cells of an eighth of a scale hold no 31-bit magnitude.
    cells = np.arange(17, 21, 0.125)[None]
    old, new = (
        attack.possible(cells, np.zeros(1), np.ones(1), np.full(1, 0.001), False)
        for attack in (SINGLE, FloatBits())
    )
    assert not old.all()
    assert new.all()
    beyond = np.array([[22.0, 100.0, 220.0, 223.0]])
    wide = np.full(1, 0.125)
    assert SINGLE.possible(beyond, np.zeros(1), np.ones(1), wide, False).tolist() == [[False] * 4]
    assert FloatBits().possible(beyond, np.zeros(1), np.ones(1), wide, False).tolist() == [
        [True, True, True, False]
    ]


def test_clamped_numbers_and_those_that_do_not_differ_say_nothing() -> None:
    shown = by_first_edition(0.0, 1.0, Streams.first(3, "bits", N)).clip(-0.5, 0.5)[:, None]
    inside = abs(shown[:, 0]) < 0.5
    score = SINGLE.score(*steps(shown, 0.0, bound=0.5))
    assert not score[~inside].any()
    assert (score[inside] < 0).mean() > 0.5
    noised, pair = steps(shown, 0.0)
    same = StepsPair(pair.absent, pair.absent, pair.scale, False)
    assert not SINGLE.score(noised, same).any()


def test_predictions_are_read_like_steps_and_lists_refused() -> None:
    shown = by_first_edition(0.0, 1.0, Streams.first(4, "bits", N))[:, None].astype(np.float32)
    items = np.zeros((N, 1), np.int32)
    known = LaplacePair(np.zeros(1), np.ones(1), 1.0)
    np.testing.assert_array_equal(
        SINGLE.score(Predictions(items, shown), known),
        SINGLE.score(*steps(shown.astype(np.float64), 0.0)),
    )
    with pytest.raises(TypeError, match="ItemList has no noise of the kind LaplacePair"):
        SINGLE.score(ItemList(items), known)  # type: ignore[arg-type]


def test_numpys_draws_give_away_what_they_were_added_to() -> None:
    score = NumpyLaplaceBits(0.0, 1.0, 1.0)
    absent = score(by_numpy(0.0, 1.0, Streams.first(5, "bits", N)))
    present = score(by_numpy(1.0, 1.0, Streams.first(6, "bits", N)))
    assert set(absent) == {-1.0, 0.0}
    assert set(present) == {1.0, 0.0}
    assert (absent < 0).mean() > 0.75
    assert (present > 0).mean() > 0.75


@pytest.mark.long
def test_a_black_box_that_adds_numpys_noise_is_certified_to_break_its_claim() -> None:
    def mechanism(data: list[int], rng: np.random.Generator, n: int) -> np.ndarray:
        return sum(data) + rng.laplace(scale=1.0, size=n)

    result = dpaudit.audit(
        mechanism, [0], [1], score=NumpyLaplaceBits(0.0, 1.0, 1.0), batched=True, seed=1,
        trials=20_000,
    )  # fmt: skip
    assert result.epsilon.lower > 5  # where ε = 1 is claimed
