"""Rows of learned similarities against plain references in double precision."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.kernels import exact_noise
from dpaudit.kernels import neighborhood as similarity_rows
from dpaudit.kernels.lane_noise import LANE_TILE, trial_words
from dpaudit.kernels.lanes import LANES
from tests.support.read_only import read_only

F32 = np.float32
Floats = NDArray[np.float32]
Exact = NDArray[np.float64]
Ints = NDArray[np.int32]

KEY = np.array([0xABCDEF01, 77], np.uint32)
TRIALS = np.array([3, 2**32 + 3, 2**40, *range(50, 63)], np.int64)
NOTHING = np.empty(0, np.float32)
M, ITEM, ALL = 13, 4, 1000


@dataclass(frozen=True)
class Data:
    """Users' ratings one after the other; all but the last two rated ITEM."""

    start: NDArray[np.int64]
    columns: Ints
    centred: Floats
    targets: Floats

    @property
    def raters(self) -> int:
        return len(self.targets)

    def others(self, user: int) -> tuple[Ints, Exact]:
        mine = slice(self.start[user], self.start[user + 1])
        kept = self.columns[mine] != ITEM
        return self.columns[mine][kept], self.centred[mine][kept].astype(np.float64)


@dataclass(frozen=True)
class Options:
    """The options of `gradient`."""

    bound: float = math.inf
    low: float = -math.inf
    high: float = math.inf
    clips: Floats = field(default_factory=lambda: NOTHING)
    taken: Floats = field(default_factory=lambda: NOTHING)
    neighbors: int = ALL


def small_data(seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    profiles = []
    for user in range(9):
        others = [j for j in range(M) if j != ITEM and rng.random() < 0.6]
        # The third user rated only the item, the last two everything else.
        profiles.append(sorted(([] if user == 2 else others) + ([ITEM] if user < 7 else [])))
    start = np.cumsum([0, *map(len, profiles)]).astype(np.int64)
    columns = read_only(np.concatenate(profiles).astype(np.int32))
    centred = rng.normal(0, 1.3, len(columns)).astype(np.float32)
    return Data(start, columns, centred, centred[columns == ITEM])


def rows(seed: int = 1) -> Floats:
    """Similarities `(M, 16)` of both signs; using the item's own would change every result."""
    row = np.random.default_rng(seed).normal(0.4, 1, (M, LANES)).astype(np.float32)
    row[ITEM] = 1e9
    return row


def gradient(data: Data, row: Floats, options: Options, users: slice = slice(None)) -> Floats:
    out, weights = np.full(M * LANES, -99, np.float32), np.empty(LANES, np.float32)
    raters = np.arange(data.raters)[users]
    similarity_rows.gradient(
        out, row.reshape(-1), ITEM, data.start[raters], data.start[raters + 1],
        data.targets[raters], data.columns, data.centred, options.taken.reshape(-1),
        F32(options.bound), F32(options.low), F32(options.high), options.clips,
        options.neighbors, weights,
    )  # fmt: skip
    return np.concatenate((out.reshape(M, LANES), weights[None]))


def counted(s: Exact, neighbors: int) -> NDArray[np.bool_]:
    if len(s) <= neighbors:
        return np.ones(len(s), bool)
    kept: NDArray[np.bool_] = abs(s) >= np.sort(abs(s))[-neighbors]
    return kept


def shown(s: Exact, x: Exact, neighbors: int) -> float:
    kept = counted(s, neighbors)
    weight = abs(s[kept]).sum()
    return float(s[kept] @ x[kept] / weight) if weight else 0.0


def slope_of_one(
    s: Exact, x: Exact, target: float, options: Options, clip: float, times: float
) -> Exact:
    kept = counted(s, options.neighbors)
    y = shown(s, x, options.neighbors)
    error = y - target if options.low <= y <= options.high else 0.0
    inverse = 1 / max(abs(s[kept]).sum(), 1e-30)
    error = min(max(error, -options.bound), options.bound)
    part: Exact = np.where(kept, error * inverse * (x - np.copysign(1, s) * y), 0.0)
    norm = abs(part).sum()
    return times * part * (clip / norm if norm > clip else 1.0)


def reference(data: Data, row: Floats, options: Options) -> Exact:
    out = np.zeros((M + 1, LANES))
    out[M] = np.inf
    for w in range(LANES):
        for k in range(data.raters):
            columns, x = data.others(k)
            s = row[columns, w].astype(np.float64)
            clip = options.clips[k] if len(options.clips) else math.inf
            times = options.taken[k, w] if len(options.taken) else 1.0
            out[columns, w] += slope_of_one(s, x, data.targets[k], options, clip, times)
            out[M, w] = min(out[M, w], abs(s[counted(s, options.neighbors)]).sum())
    return out


def some_options() -> dict[str, Options]:
    rng = np.random.default_rng(5)
    raters = small_data().raters
    clips = rng.uniform(0.1, 1.0, raters).astype(np.float32)
    taken = rng.integers(0, 3, (raters, LANES)).astype(np.float32)
    return {
        "plain": Options(),
        "clamped": Options(bound=0.6),
        "flat": Options(low=-0.3, high=0.2),
        "cut": Options(clips=clips),
        "taken": Options(taken=taken),
        "three neighbours": Options(neighbors=3),
        "one neighbour": Options(neighbors=1),
        "all": Options(0.6, -0.4, 0.5, clips, taken, 4),
    }


@pytest.mark.cases("kind", some_options())
def test_the_gradient_is_its_formula(kind: str) -> None:
    options, data, row = some_options()[kind], small_data(), rows()
    expected = reference(data, row, options)
    got = gradient(data, row, options)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * max(1, abs(expected[:M]).max()))
    assert not got[ITEM].any()  # its own column is never a feature
    assert (got[M] == 0).all()  # of the rater who rated nothing else
    plain = reference(data, row, Options())
    assert (kind == "plain") == bool(np.allclose(got[:M], plain[:M], atol=1e-3))


def objective(s: Exact, x: Exact, target: float, options: Options) -> float:
    """`½ e²`, linear beyond the clamp, constant beyond the flat range."""
    y = min(max(shown(s, x, options.neighbors), options.low), options.high)
    e = abs(y - target)
    return e * e / 2 if e <= options.bound else options.bound * (e - options.bound / 2)


@pytest.mark.cases("kind", ["plain", "clamped", "flat", "three neighbours"])
def test_the_gradient_is_the_derivative_of_half_the_squared_errors(kind: str) -> None:
    options, data, row = some_options()[kind], small_data(), rows()
    got, h = gradient(data, row, options), 1e-6
    for w in (0, 7):
        expected = np.zeros(M)
        for k in range(data.raters):
            columns, x = data.others(k)
            for place, j in enumerate(columns):
                ends = []
                for move in (h, -h):
                    s = row[columns, w].astype(np.float64)
                    s[place] += move
                    ends.append(objective(s, x, float(data.targets[k]), options))
                expected[j] += (ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose(got[:M, w], expected, rtol=0, atol=3e-5)
    assert abs(got[:M, 7]).max() > 0.1


def test_similarities_of_one_size_all_count_as_the_last_neighbour() -> None:
    data, row = small_data(), np.full((M, LANES), 0.5, np.float32)
    row[[0, 5, 9]] = -0.5
    got = gradient(data, row, Options(neighbors=2))
    np.testing.assert_array_equal(got, gradient(data, row, Options()))
    row[[1, 2]] = 3
    cut = gradient(data, row, Options(neighbors=2))
    np.testing.assert_allclose(cut, reference(data, row, Options(neighbors=2)), atol=1e-5)
    assert not np.allclose(cut, gradient(data, row, Options()))


def test_a_rater_is_cut_to_exactly_the_norm() -> None:
    data, row = small_data(), rows()
    clips = np.full(data.raters, 0.25, np.float32)
    cut = 0
    for k in range(data.raters):
        one = slice(k, k + 1)
        for neighbors in (ALL, 3):
            whole = gradient(data, row, Options(neighbors=neighbors), one)[:M].astype(float)
            got = gradient(data, row, Options(neighbors=neighbors, clips=clips[one]), one)[:M]
            norms = abs(whole).sum(0)
            np.testing.assert_allclose(abs(got).sum(0), np.minimum(norms, 0.25), rtol=2e-6)
            np.testing.assert_allclose(got * np.maximum(1, norms / 0.25), whole, atol=1e-5)
            cut += int((norms > 0.25).sum())
    assert 0 < cut < 2 * data.raters * LANES


def test_where_all_similarities_are_zero_nothing_is_divided_by_zero() -> None:
    data, row = small_data(), np.zeros((M, LANES), np.float32)
    got = gradient(data, row, Options())
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got, reference(data, row, Options()), rtol=1e-5)
    clips = np.full(data.raters, 0.25, np.float32)
    for k in range(data.raters):
        one = slice(k, k + 1)
        norms = abs(gradient(data, row, Options(clips=clips[one]), one)[:M]).sum(0)
        np.testing.assert_allclose(norms, 0.0 if k == 2 else 0.25, rtol=1e-6)


def test_an_item_without_raters_has_no_gradient() -> None:
    got = gradient(small_data(), rows(), Options(neighbors=2), slice(0, 0))
    assert not got[:M].any()
    assert np.isposinf(got[M]).all()


@pytest.mark.parametrize("kind", ["plain", "all"])
def test_a_trial_has_the_same_bits_alone(kind: str) -> None:
    options, data, row = some_options()[kind], small_data(), rows()
    together = gradient(data, row, options)
    for w in range(LANES):
        taken = options.taken
        if len(taken):
            taken = np.repeat(taken[:, w : w + 1], LANES, 1)
        alone = Options(
            options.bound, options.low, options.high, options.clips, taken, options.neighbors
        )
        same = np.repeat(row[:, w : w + 1], LANES, 1)
        got = gradient(data, same, alone)
        np.testing.assert_array_equal(got, np.repeat(together[:, w : w + 1], LANES, 1))


@pytest.mark.cases("kind", some_options())
def test_a_number_that_is_none_stays_none_in_its_trial(kind: str) -> None:
    options, data, row = some_options()[kind], small_data(), rows()
    k = 0
    column = int(data.others(k)[0][0])
    if len(options.taken):
        options.taken[k] = 1
    row[column, 3] = np.nan
    got, clean = gradient(data, row, options), gradient(data, rows(), options)
    assert np.isnan(got[column, 3])
    others = np.arange(LANES) != 3
    np.testing.assert_array_equal(got[:, others], clean[:, others])
    assert np.isnan(scored(data, row, 3)[0, 3])


# Of noised gradients.
GRID = 2.0**-4


def step(
    row: Floats,
    slope: Floats,
    spread: float,
    gaussian: bool,
    first: int,
    number: int = 9,
    pull: float = 0.25,
) -> Floats:
    got = row.copy()
    if gaussian:
        similarity_rows.langevin_step(
            got.reshape(-1), slope.reshape(-1), F32(0.25), F32(pull), F32(spread), first, number,
            trial_words(TRIALS), KEY,
        )  # fmt: skip
    else:
        similarity_rows.descend(
            got.reshape(-1), slope.reshape(-1), F32(0.25), F32(pull), spread, GRID, first, number,
            trial_words(TRIALS), KEY,
        )  # fmt: skip
    return got


@pytest.mark.cases("items", [1, LANE_TILE, 2 * LANE_TILE + 9])
@pytest.mark.cases("spread", [0.0, 0.7])
def test_a_step_adds_laplace_noise_to_every_coordinate(items: int, spread: float) -> None:
    rng = np.random.default_rng(2)
    row, slope = rng.normal(0, 1, (2, items, LANES)).astype(np.float32)
    first = 3 * LANE_TILE
    draws = np.empty((LANES, first + items))
    exact_noise.laplace(draws, TRIALS, 9, KEY)
    shown = slope + spread * draws[:, first:].T
    if spread:
        shown = np.rint(shown / GRID) * GRID
    expected = 0.75 * row.astype(float) - 0.25 * shown
    np.testing.assert_allclose(step(row, slope, spread, False, first), expected, atol=5e-6)


def test_a_pull_that_one_less_it_would_round_away_counts() -> None:
    pull = 0.4 * 2.0**-24
    assert F32(1) - F32(pull) == 1
    row = np.ones((4, LANES), np.float32)
    none, slope = np.zeros_like(row), np.full_like(row, 4 * pull)
    # Neither the pull nor the slope alone changes 1 in single precision, but their sum does.
    np.testing.assert_array_equal(step(row, none, 0.0, False, 0, pull=pull), 1)
    np.testing.assert_array_equal(step(row, slope, 0.0, False, 0, pull=0.0), 1)
    np.testing.assert_array_equal(step(row, slope, 0.0, False, 0, pull=pull), 1 - 2.0**-24)


def test_a_step_adds_normal_noise() -> None:
    from scipy.stats import kstest, norm

    none = np.zeros((40 * LANE_TILE - 5, LANES), np.float32)
    got = step(none, none, 0.5, True, 0).ravel().astype(float)
    # False failures: 1e-6 each.
    assert kstest(got, norm(0, 0.5).cdf).pvalue > 1e-6
    assert kstest(got, norm(0, 0.55).cdf).pvalue < 1e-6
    assert len(np.unique(got)) > 0.99 * len(got)


def test_the_noise_of_a_coordinate_does_not_depend_on_the_row_it_is_drawn_with() -> None:
    none = np.zeros((3 * LANE_TILE, LANES), np.float32)
    for gaussian in (False, True):
        whole = step(none, none, 1.0, gaussian, 0)
        part = step(none[: LANE_TILE + 3], none[: LANE_TILE + 3], 1.0, gaussian, LANE_TILE)
        np.testing.assert_array_equal(part, whole[LANE_TILE : 2 * LANE_TILE + 3])
        assert not (step(none, none, 1.0, gaussian, 0, 10) == whole).all()


def scored(data: Data, row: Floats, neighbors: int) -> Floats:
    users = np.arange(len(data.start) - 1)
    out = np.full((len(users), LANES), -99, np.float32)
    similarity_rows.scores(
        out.reshape(-1), row.reshape(-1), ITEM, data.start[users], data.start[users + 1],
        data.columns, data.centred, neighbors,
    )  # fmt: skip
    return out


@pytest.mark.cases("neighbors", [1, 3, 5, ALL])
def test_scores_are_the_weighted_mean_of_what_the_user_rated(neighbors: int) -> None:
    data, row = small_data(), rows()
    got = scored(data, row, neighbors)
    for user in range(len(data.start) - 1):  # the last two have not rated the item
        columns, x = data.others(user)
        for w in range(LANES):
            expected = shown(row[columns, w].astype(float), x, neighbors)
            assert got[user, w] == pytest.approx(expected, abs=5e-6)
    assert not got[2].any()
    assert (neighbors == ALL) == bool(np.allclose(got, scored(data, row, ALL), atol=1e-3))


def test_as_many_neighbours_as_a_user_has_are_all_of_them() -> None:
    data, row = small_data(), rows()
    for user in (0, len(data.start) - 2):
        count = len(data.others(user)[0])
        np.testing.assert_array_equal(scored(data, row, count)[user], scored(data, row, ALL)[user])
        assert not (scored(data, row, count - 1)[user] == scored(data, row, ALL)[user]).all()
