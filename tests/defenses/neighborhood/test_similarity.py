"""Learned similarities: rows, noise, sensitivities and laws against plain references."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from dpaudit.core.errors import ConfigError, NoModelError
from dpaudit.core.streams import Streams
from dpaudit.data import Ratings, Scale
from dpaudit.data.neighbors import UserReplaced, apply
from dpaudit.data.ratings import from_profiles
from dpaudit.defenses.neighborhood.sampled import SampledSimilarity
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity, smallest
from dpaudit.defenses.neighborhood.similarity import SimilarityData
from dpaudit.defenses.training_checks import step_sizes
from dpaudit.kernels import exact_noise
from dpaudit.kernels import neighborhood as similarity_rows
from dpaudit.kernels import noise as noise_source
from dpaudit.kernels.lanes import LANES

STARS = Scale()
Floats = NDArray[np.float32]
Exact = NDArray[np.float64]
Model = SgdSimilarity | SampledSimilarity
N, M = 12, 8


def drawn(seed: int = 0, n_users: int = N, n_items: int = M) -> Ratings:
    """Every user rated two items at least."""
    source = np.random.default_rng(seed)
    rated = source.random((n_users, n_items)) < 0.5
    rated[:, :2] = True
    user, item = np.nonzero(rated)
    value = source.integers(1, 6, len(user)).astype(np.float32)
    return Ratings.build(user, item, value, n_users, n_items, STARS)


def streams(count: int, seed: int = 5) -> Streams:
    return Streams.first(seed, "test", count)


def final(model: Model, data: SimilarityData, item: int, trials: Streams) -> Floats:
    """The final row in each trial `(W, M)`."""
    blocks = [model.train(data, part).row(item, part)[:, : len(part)] for part in trials.blocks(16)]
    return np.concatenate(blocks, 1).T


def models() -> list[Model]:
    sgd: dict[str, Any] = {"steps": 3, "more_than": 1, "neighbors": 3}
    sampled: dict[str, Any] = sgd | {"cap": 8}
    return [
        SgdSimilarity(math.inf, "nonprivate", **sgd),
        SgdSimilarity(2.0, **sgd),
        SgdSimilarity(2.0, **sgd, sampling_rate=0.3),
        SgdSimilarity(2.0, "corrected", **sgd),
        SgdSimilarity(2.0, "corrected", **sgd, sampling_rate=0.3),
        SampledSimilarity(math.inf, "nonprivate", **sampled),
        SampledSimilarity(2.0, **sampled),
        SampledSimilarity(2.0, "corrected", **sampled, sampling_rate=0.3),
    ]


each_model = pytest.mark.cases("model", models(), ids=lambda m: f"{m.name}-{m.variant}")


@each_model
def test_a_row_depends_neither_on_others_nor_on_the_trials_beside_it(model: Model) -> None:
    data, many = model.prepare(drawn()), streams(20)
    rows = {item: final(model, data, item, many) for item in (0, 3, 7)}
    u, i = np.array([4, 0, 4, 9], np.int32), np.array([7, 3, 0, 3], np.int32)
    whole = model.train(data, many).predict(u, i)
    assert whole.shape == (20, 4)
    for pair in range(4):
        one = slice(pair, pair + 1)
        alone = model.train(data, many).predict(u[one], i[one])
        np.testing.assert_array_equal(alone, whole[:, one])
    for trials in ([17], [17, 2], list(range(3, 20))):
        part = Streams(many.key, np.array(trials))
        np.testing.assert_array_equal(model.train(data, part).predict(u, i), whole[trials])
        for item, row in rows.items():
            np.testing.assert_array_equal(final(model, data, item, part), row[trials])
    if model.variant != "nonprivate":
        other = final(model, data, 3, streams(20, seed=6))
        # Noised gradients lie on a grid: a few of 160 agree by chance.
        assert np.isclose(other, rows[3]).mean() < 0.1
        assert len(np.unique(rows[3])) > 0.8 * rows[3].size


@each_model
def test_predictions_are_equation_two(model: Model) -> None:
    ratings, trials = drawn(), streams(3)
    data = model.prepare(ratings)
    u, i = np.divmod(np.arange(N * M, dtype=np.int32), M)
    got = model.train(data, trials).predict(u, i)
    rows = np.stack([final(model, data, item, trials) for item in range(M)], 1).astype(float)
    for k in range(N * M):
        mine = ratings.profile(int(u[k]))
        other = mine.items != i[k]
        x = mine.values[other] - data.means[mine.items[other]].astype(float)
        for w in range(3):
            s = rows[w, i[k], mine.items[other]]
            kept = abs(s) >= np.sort(abs(s))[-min(len(s), 3)]
            exact = data.means[i[k]] + (s @ (x * kept)) / abs(s[kept]).sum()
            assert got[w, k] == pytest.approx(min(max(exact, 1), 5), abs=2e-5)


def test_the_means_are_public_or_the_middle() -> None:
    before = drawn()
    change = UserReplaced(2, np.array([0, 1, 5], np.int32), np.array([1, 1, 1], np.float32))
    after = apply(before, change)
    for kind in (SgdSimilarity, SampledSimilarity):
        shared = kind(1.0, more_than=1).prepare(after, before).means
        means = kind(1.0, more_than=1).prepare(before).means
        np.testing.assert_array_equal(shared, means)
        assert (kind(1.0, more_than=1).prepare(after).means != means).any()
        for item in range(M):
            rated = before.item == item
            assert means[item] == pytest.approx(before.value[rated].mean(dtype=float))
        assert (kind(1.0, "corrected", more_than=1).prepare(after, before).means == 3).all()


def gradient(ratings: Ratings, means: Exact, item: int, s: Exact, bound: float) -> Exact:
    """`Σ_u clamp(r̂ − r) ∂r̂/∂s` of the users with two ratings or more."""
    total = np.zeros(M)
    for user in range(ratings.n_users):
        mine = ratings.profile(user)
        if item not in mine.items or len(mine) < 2:
            continue
        other = mine.items != item
        j, x = mine.items[other], mine.values[other] - means[mine.items[other]]
        weight = abs(s[j]).sum()
        y = s[j] @ x / weight
        e = y + means[item] - float(mine.values[~other][0])
        total[j] += np.clip(e, -bound, bound) * (x - np.sign(s[j]) * y) / weight
    return total


@pytest.mark.parametrize("epsilon", [1e6, math.inf])
def test_descent_is_algorithm_one(epsilon: float) -> None:
    variant: Any = "published" if epsilon < math.inf else "nonprivate"
    model = SgdSimilarity(
        epsilon,
        variant,
        steps=4,
        learning_rate=0.4,
        decay=0.05,
        rescale=2.0,
        start=0.5,
        weight=1e6,
        more_than=1,
    )
    ratings = drawn()
    data = model.prepare(ratings)
    for item in (0, 5):
        s = np.ones(M)
        for t in range(1, 5):
            bound = 0.5 + 3 / (t + 1) if variant == "published" else math.inf
            g = gradient(ratings, data.means.astype(float), item, s, bound)
            s = s - 0.4 * (2.0 * g + 0.05 * s)
        np.testing.assert_allclose(final(model, data, item, streams(2)), np.tile(s, (2, 1)), 1e-3)
        assert abs(s - s.mean()).max() > 0.1


@pytest.mark.parametrize(
    ("likelihood", "variant"), [("halves", "published"), ("squares", "corrected")]
)
def test_the_sampler_without_noise_is_algorithm_two(likelihood: Any, variant: Any) -> None:
    shared: dict[str, Any] = {
        "steps": 3,
        "learning_rate": 0.05,
        "decay": 0.5,
        "more_than": 1,
        "cap": 8,
    }
    model = SampledSimilarity(3.0, variant, likelihood=likelihood, **shared)
    ratings = drawn()
    data = model.prepare(ratings)
    plain = SampledSimilarity(math.inf, "nonprivate", **shared)
    s = np.ones(M)
    for t in range(1, 4):
        h = 0.05 * t**-0.3
        s = s - h * (gradient(ratings, data.means.astype(float), 5, s, math.inf) + 0.5 * s)
    np.testing.assert_allclose(final(plain, data, 5, streams(1))[0], s, 1e-4)
    # The noise of the first step: variance η = 2 h / factor.
    first = SampledSimilarity(3.0, variant, likelihood=likelihood, **shared | {"steps": 1})
    factor = (2 if likelihood == "squares" else 1) * 3 / (4 * 16 * 8)
    assert first.factor(STARS) == pytest.approx(factor)
    rest = SampledSimilarity(math.inf, "nonprivate", **shared | {"steps": 1})
    noise = final(first, data, 5, streams(800)) - final(rest, data, 5, streams(1))
    # Five deviations of 6400 draws: 6e-7.
    tolerance = 5 * math.sqrt(2 / noise.size)
    assert noise.var() / (2 * 0.05 / factor) == pytest.approx(1, abs=tolerance)
    assert tolerance < 0.1


def test_the_temperature_multiplies_the_noise_alone() -> None:
    shared: dict[str, Any] = {"steps": 1, "more_than": 1, "cap": 8}
    data = SampledSimilarity(3.0, **shared).prepare(drawn())
    still = final(SampledSimilarity(math.inf, "nonprivate", **shared), data, 5, streams(4))
    hot = final(SampledSimilarity(3.0, **shared), data, 5, streams(4)) - still
    cold = final(SampledSimilarity(3.0, temperature=0.25, **shared), data, 5, streams(4)) - still
    np.testing.assert_allclose(cold, hot / 2, rtol=1e-5, atol=1e-5)
    assert abs(hot).min() > 0


def test_the_start_of_the_sampler_only_divides_its_learning_rate() -> None:
    # By its square, since the likelihood depends on a row's direction; powers of 2 are exact.
    ratings, trials = drawn(), streams(5)
    options: dict[str, Any] = {"epsilon": 20.0, "steps": 4, "more_than": 1, "cap": 8}
    one = SampledSimilarity(**options, learning_rate=0.25, decay=0.02)
    other = SampledSimilarity(**options, learning_rate=4.0, decay=0.02 / 16, start=4.0)
    rows = [final(model, model.prepare(ratings), 0, trials) for model in (one, other)]
    assert abs(rows[0] - 1).max() > 0.1
    assert np.array_equal(rows[1], 4 * rows[0])


def test_descent_depends_on_its_start_and_its_step_after_rescaling_alone() -> None:
    ratings, trials = drawn(), streams(5)
    options: dict[str, Any] = {"epsilon": 20.0, "steps": 4, "more_than": 1}
    one = SgdSimilarity(**options, rescale=8.0, start=0.5, learning_rate=0.25, decay=0.01)
    other = SgdSimilarity(**options, rescale=2.0, start=2.0, learning_rate=1.0, decay=0.01 / 4)
    rows = [final(model, model.prepare(ratings), 0, trials) for model in (one, other)]
    assert abs(rows[0] - 4).max() > 0.1
    assert np.array_equal(rows[0], rows[1])


def test_the_published_noise_is_that_of_theorem_one() -> None:
    from scipy.stats import kstest, laplace

    model = SgdSimilarity(2.0, steps=4, weight=10.0, sampling_rate=0.5)
    assert [model.largest_error(t, STARS) for t in (1, 2, 5)] == [2, 1.5, 1]
    # γ K ΔF/ε = .5 · 4 · (2 e_max 4/10)/2
    assert model.noise_scale(1, STARS, M) == pytest.approx(1.6)
    assert model.noise_scale(2, STARS, M) == pytest.approx(1.2)
    assert SgdSimilarity(math.inf, "nonprivate").noise_scale(1, STARS, M) == 0
    once = SgdSimilarity(2.0, steps=1, more_than=1, weight=10.0, rescale=2.0, learning_rate=0.1)
    data = once.prepare(drawn())
    plain = SgdSimilarity(2.0, steps=1, more_than=1, weight=1e9, rescale=2.0, learning_rate=0.1)
    trials = streams(640)
    noise = (final(once, data, 0, trials) - final(plain, data, 0, trials)).ravel() / 0.2
    scale = 2 * 2 * 4 / 10 / 2
    # False failures: 1e-6.
    assert kstest(noise.astype(float), laplace(scale=scale).cdf).pvalue > 1e-6
    assert kstest(noise.astype(float), laplace(scale=1.2 * scale).cdf).pvalue < 1e-6


def batches(model: Model, data: SimilarityData, trials: Streams, t: int) -> Floats:
    """Which ratings, in the order of `data.places`, are in the mini-batch `(R, 16)`."""
    drawn = model.batches(data, trials)
    assert drawn is not None
    users = isinstance(model, SgdSimilarity) and model.variant == "corrected"
    return drawn.taken(t, data.raters.column if users else slice(None))


@pytest.mark.cases("share", [0.01, 0.3, 0.5])
def test_a_published_batch_has_exactly_its_share_of_the_ratings(share: float) -> None:
    model = SgdSimilarity(2.0, sampling_rate=share, more_than=3)
    data = model.prepare(drawn())
    count = len(data.places)
    assert 0 < count < len(drawn())
    taken = batches(model, data, streams(5), 1)
    assert set(np.unique(taken)) == {0, 1}
    assert (taken[:, :5].sum(0) == max(1, round(share * count))).all()
    again = batches(model, data, streams(5), 2)
    assert len({tuple(lane) for lane in np.hstack((taken[:, :5], again[:, :5])).T}) > 5
    # All ratings are drawn alike: five deviations of 400 batches.
    often = np.mean([batches(model, data, streams(16, seed), 1) for seed in range(25)], (0, 2))
    expected = max(1, round(share * count)) / count
    assert abs(often - expected).max() < 5 * math.sqrt(expected / 400) + 0.01


@pytest.mark.cases(("share", "size"), [(0.3, 3), (0.49, 5), (0.9999, 11)])
def test_a_corrected_batch_has_no_more_than_its_share_of_the_users(share: float, size: int) -> None:
    model = SgdSimilarity(2.0, "corrected", sampling_rate=share, more_than=1)
    data = model.prepare(drawn())
    taken = batches(model, data, streams(5), 1)
    for w in range(5):
        users = [set(np.unique(taken[data.raters.column == u, w])) for u in range(N)]
        assert all(len(shares) == 1 for shares in users)  # with all ratings or none
        assert sum(shares == {1.0} for shares in users) == size
        assert size / N <= share
    # Users who are not trained on are sampled as well.
    few = SgdSimilarity(2.0, "corrected", sampling_rate=0.5, more_than=4)
    learned = few.prepare(drawn())
    assert len(np.unique(learned.raters.column)) < N
    counts = set()
    for seed in range(8):
        part = batches(few, learned, streams(1, seed), 1)[:, 0]
        counts.add(len(np.unique(learned.raters.column[part == 1])))
    assert len(counts) > 1


def observe_uniform(monkeypatch: pytest.MonkeyPatch, see: Callable[..., None]) -> None:
    """Call `see` with the trials and the step of each uniform draw of both noise sources."""
    for source in (noise_source, exact_noise):

        def observed(out: Any, who: Any, step: int, key: Any, inner: Any = source.uniform) -> None:
            see(who, step)
            inner(out, who, step, key)

        monkeypatch.setattr(source, "uniform", observed)


@pytest.mark.cases("model", [m for m in models() if m.sampling_rate < 1], ids=repr)
def test_a_batch_is_drawn_once_for_all_rows(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    data, trials = model.prepare(drawn()), streams(18)
    calls: list[tuple[int, ...]] = []
    alone = np.stack([final(model, data, item, trials) for item in range(M)], 1)
    observe_uniform(monkeypatch, lambda trials, step: calls.append((step, *trials)))
    items = np.arange(M, dtype=np.int32)
    np.testing.assert_array_equal(model.train(data, trials).public(items).rows, alone)
    assert len(calls) == len(set(calls)) == 3 * 18


@pytest.mark.cases("size", [1, 3, 150, 299, 300])
def test_the_smallest_draws_are_those_that_sorting_finds(size: int) -> None:
    source = np.random.default_rng(size)
    for values in (2, 7, 100, 10**6):  # with many ties, and without
        draws = source.integers(0, values, 300) / values
        expected = np.zeros(300, bool)
        expected[np.argsort(draws, kind="stable")[:size]] = True
        np.testing.assert_array_equal(smallest(draws, size), expected)


def test_a_share_below_one_user_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"sampling_rate = 0\.05 .* 0\.0833"):
        SgdSimilarity(2.0, "corrected", sampling_rate=0.05, more_than=1).prepare(drawn())
    SgdSimilarity(2.0, sampling_rate=0.05, more_than=1).prepare(drawn())


@pytest.mark.parametrize("kind", [SgdSimilarity, SampledSimilarity])
def test_no_two_draws_share_a_coordinate_of_the_noise_source(
    kind: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    noised: list[tuple[int, int]] = []
    sampled: list[int] = []

    def observe(name: str, place: int) -> None:
        step = getattr(similarity_rows, name)

        def observed(*arguments: Any) -> None:
            row, first, number = arguments[0], arguments[place], arguments[place + 1]
            noised.extend((number, first + j) for j in range(len(row) // LANES))
            step(*arguments)

        monkeypatch.setattr(similarity_rows, name, observed)

    observe("descend", 6)
    observe("langevin_step", 5)
    observe_uniform(monkeypatch, lambda _, step: sampled.append(step))
    model = kind(2.0, steps=3, more_than=1, sampling_rate=0.5)
    data = model.prepare(drawn())
    for item in range(M):
        final(model, data, item, streams(1))
    assert len(set(noised)) == len(noised) == 3 * M * M
    assert len(sampled) == 3 * M
    assert len(set(sampled)) == 3  # every row has the same batches
    assert not {number for number, _ in noised} & set(sampled)


def test_a_sampled_batch_is_a_poisson_sample() -> None:
    model = SampledSimilarity(2.0, sampling_rate=0.3, more_than=1, cap=99)
    data = model.prepare(drawn(n_users=60, n_items=40))
    taken = batches(model, data, streams(16), 1)
    assert taken.mean() == pytest.approx(0.3, abs=5 * math.sqrt(0.21 / taken.size))
    assert len(set(taken.sum(0))) > 1


@pytest.mark.cases("share", [1.0, 0.3, 1e-3])
@pytest.mark.cases(("epsilon", "steps"), [(1e-3, 10), (1.0, 3), (30.0, 1), (150.0, 7)])
def test_the_corrected_noise_inverts_amplification(
    share: float, epsilon: float, steps: int
) -> None:
    model = SgdSimilarity(epsilon, "corrected", steps=steps, sampling_rate=share, clip_norm=0.7)
    one = 2 * 0.7 / model.noise_scale(3, STARS, 1)
    # K ln(1 + γ (e^{ε_0} − 1)), in logarithms where e^{ε_0} would overflow
    spent = np.logaddexp(math.log1p(-share) if share < 1 else -math.inf, math.log(share) + one)
    assert steps * spent == pytest.approx(epsilon, rel=1e-7)


profiles = st.dictionaries(st.integers(0, 5), st.integers(1, 5), min_size=1, max_size=6)


def moved(model: SgdSimilarity, before: Ratings, after: Ratings, rows: Floats) -> Exact:
    """L1 distance of the gradients of all rows, in 16 trials `(16,)`."""
    one, other = (model.prepare(ratings) for ratings in (before, after))
    total = np.zeros(LANES)
    for item in range(before.n_items):
        parts = [model.slope(data, 1).of(data, item, rows[item])[0] for data in (one, other)]
        total += abs(parts[0].astype(float) - parts[1]).sum(0)
    return total


@settings(deadline=None, max_examples=40, derandomize=True)
@given(profiles, profiles, st.sampled_from([0.05, 1.0, 50.0]), st.integers(0, 99))
def test_a_user_moves_the_whole_gradient_by_twice_the_clip_at_most(
    old: dict[int, int], new: dict[int, int], clip: float, seed: int
) -> None:
    others = [[(0, 5.0), (3, 1.0), (4, 2.0)], [(1, 2.0), (2, 2.0), (5, 5.0)]]
    before, after = (from_profiles([list(mine.items()), *others], 6, STARS) for mine in (old, new))
    model = SgdSimilarity(1.0, "corrected", clip_norm=clip, more_than=1, neighbors=3)
    rows = np.random.default_rng(seed).normal(0.2, 1, (6, 6, LANES)).astype(np.float32)
    assert (moved(model, before, after, rows) <= 2 * clip * (1 + 1e-5)).all()


def test_twice_the_clip_is_attained() -> None:
    mine = [1.0, 1.0, 5.0, 4.0]
    before, after = (
        from_profiles([[(first + j, r) for j, r in enumerate(mine)]], 8, STARS) for first in (0, 4)
    )
    model = SgdSimilarity(1.0, "corrected", clip_norm=0.01, more_than=1)
    rows = np.ones((8, 8, LANES), np.float32)
    np.testing.assert_allclose(moved(model, before, after, rows), 0.02, rtol=1e-4)


# Row 0 of one user who rated items 0, 1, 2; the means are 3, so x = (2, −1) and the target is 2.
TINY: dict[str, Any] = {
    "cap": 3, "more_than": 1, "decay": 4.0, "exponent": 0.0, "learning_rate": 0.004, "steps": 400,
}  # fmt: skip


def exact_statistics(k: float, prior: float) -> Exact:
    """Shares of the quadrants, `E e²` and `E ‖s‖²` under `exp(−½ (k e² + prior ‖s‖²))`."""
    grid = np.linspace(-7, 7, 500) / math.sqrt(prior)  # 0 is no point of it
    s, t = np.meshgrid(grid, grid, indexing="ij")
    e = (2 * s - t) / (abs(s) + abs(t)) - 2
    weight = np.exp(-(k * e**2 + prior * (s**2 + t**2)) / 2)
    return statistics(s, t, weight / weight.sum())


def statistics(s: Exact, t: Exact, weight: Exact) -> Exact:
    e = (2 * s - t) / (abs(s) + abs(t)) - 2
    parts = [((s > 0) == a) & ((t > 0) == b) for a in (True, False) for b in (True, False)]
    return np.array([(weight * part).sum() for part in [*parts, e**2, s**2 + t**2]])


@pytest.mark.parametrize(
    ("extra", "k", "prior"),
    [
        ({}, 0.25, 1.0),
        ({"likelihood": "squares"}, 0.5, 2.0),
        ({"temperature": 0.5}, 0.5, 2.0),
        ({"variant": "corrected"}, 0.25, 1.0),
        ({"sampling_rate": 0.5}, 0.25, 1.0),
    ],
)
@pytest.mark.long
def test_the_chain_reaches_its_law(extra: dict[str, Any], k: float, prior: float) -> None:
    # ε/4B = ¼ at ε = 48 and B = 48.
    model = SampledSimilarity(48.0, **extra, **TINY)
    ratings, public = (from_profiles([list(enumerate(p))], 3, STARS) for p in ((5, 5, 2), (3,) * 3))
    data, count = model.prepare(ratings, public), 640
    s, t = final(model, data, 0, streams(count))[:, 1:].astype(float).T
    got = statistics(s, t, np.full(count, 1 / count))

    def away(expected: Exact) -> float:
        """The largest deviation in standard errors, beyond 4 % of bias for the step's size."""
        e = (2 * s - t) / (abs(s) + abs(t)) - 2
        shares = expected[:4] * (1 - expected[:4])
        errors = np.sqrt([*shares, (e**2).var(), (s**2 + t**2).var()]) / math.sqrt(count)
        return float(((abs(got - expected) - 0.04 * np.maximum(expected, 0.3)) / errors).max())

    # False failures: 6 · 6e-7. The bias is 4 % of E e² at this step (the drift is singular at
    # s = 0), 3 % at half of it; that of the others is less.
    assert away(exact_statistics(k, prior)) < 5
    # Half the temperature and a drift without its factor 2 are noticed, as is a lost likelihood.
    assert away(exact_statistics(2 * k, 2 * prior)) > 5
    assert away(exact_statistics(k / 2, prior / 2)) > 5
    assert away(exact_statistics(0.0, prior)) > 5


def test_a_single_neighbour_has_no_gradient() -> None:
    model = SampledSimilarity(math.inf, "nonprivate", more_than=1)
    data = model.prepare(from_profiles([[(0, 5.0), (1, 1.0)], [(0, 2.0), (2, 4.0)]], 3, STARS))
    row = np.random.default_rng(0).normal(size=(3, LANES)).astype(np.float32)
    slope, weights = model.slope(data).of(data, 0, row)
    np.testing.assert_allclose(slope, 0, atol=1e-6)
    np.testing.assert_allclose(weights, abs(row[1:]).min(0))


def test_the_schedules_are_the_two_of_the_paper() -> None:
    assert step_sizes(2.0, 0.5, "text", 4) == pytest.approx([2, 2**0.5, 2 / 3**0.5, 1])
    printed = step_sizes(1.0, 0.3, "printed", 300)
    # η_t = η_1 ((t − 1)!)^−ξ
    for t in (1, 2, 3, 10):
        assert printed[t - 1] == pytest.approx(math.factorial(t - 1) ** -0.3)
    assert sum(printed) == pytest.approx(4.3197, abs=1e-4)
    assert sum(step_sizes(1.0, 0.3, "text", 1000)) == pytest.approx(179, abs=1)
    for schedule in ("text", "printed"):
        assert step_sizes(0.1, 0.0, schedule, 3) == [0.1] * 3


def test_claims_state_their_neighbours() -> None:
    cases: list[tuple[Model, float, str, str]] = [
        (SgdSimilarity(2.0), 2, "rating-replace", "iterates"),
        (SgdSimilarity(2.0, "corrected"), 2, "user-replace", "iterates"),
        (SampledSimilarity(2.0), 2, "user-replace", "public"),
        (SampledSimilarity(2.0, likelihood="squares"), 2, "user-replace", "public"),
        (SampledSimilarity(2.0, "corrected"), 0.5, "user-replace", "public"),
        (SampledSimilarity(2.0, "corrected", likelihood="squares"), 1, "user-replace", "public"),
    ]
    for model, epsilon, adjacency, observer in cases:
        claim = model.claim()
        assert claim is not None
        assert (claim.epsilon, claim.delta) == (epsilon, 0)
        assert (claim.adjacency, claim.observer) == (adjacency, observer)
        assert ("means" in claim.public) == (model.variant == "published")
    assert SgdSimilarity(math.inf, "nonprivate").claim() is None
    assert SampledSimilarity(math.inf, "nonprivate").claim() is None


@pytest.mark.parametrize(("likelihood", "share"), [("halves", 4), ("squares", 2)])
def test_no_profile_reaches_beyond_the_corrected_claim(likelihood: Any, share: int) -> None:
    model = SampledSimilarity(1.0, "corrected", likelihood=likelihood, more_than=1, cap=6)
    source = np.random.default_rng(1)

    def loss(values: Exact, rows: Exact) -> float:
        x, total = values - 3.0, 0.0
        for i in range(6):
            j = np.arange(6) != i
            total += float((rows[i, j] @ x[j] / abs(rows[i, j]).sum() - x[i]) ** 2)
        return model.factor(STARS) * total / 2

    # A user's loss lies in [0, ε'/2], so two users differ by ε' at most.
    for _ in range(300):
        values = source.integers(1, 6, 6).astype(float)
        assert loss(values, source.normal(size=(6, 6))) <= 1 / share / 2
    extreme = source.choice([1.0, 5.0], 6)
    opposed = -np.outer(extreme - 3, extreme - 3)
    assert loss(extreme, opposed) == pytest.approx(1 / share / 2)
    claim = model.claim()
    assert claim is not None
    assert claim.epsilon == 1 / share


def test_data_that_do_not_fit_are_refused() -> None:
    for kind in (SgdSimilarity, SampledSimilarity):
        with pytest.raises(ConfigError, match=r"params\.more_than = 20"):
            kind(1.0).prepare(drawn())
        none = Ratings.build(*(np.empty(0, int),) * 2, np.empty(0), 1, 1, STARS)
        with pytest.raises(ConfigError, match="no ratings to learn from"):
            kind(1.0).prepare(none)
    for variant in ("published", "corrected"):
        with pytest.raises(ConfigError, match=r"\d ratings and params\.cap = 3"):
            SampledSimilarity(1.0, variant, cap=3, more_than=1).prepare(drawn())
    SampledSimilarity(math.inf, "nonprivate", cap=3, more_than=1).prepare(drawn())


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(
    "model",
    [
        SgdSimilarity(math.inf, "nonprivate", learning_rate=1e3, decay=1.0, steps=500, more_than=1),
        SampledSimilarity(1.0, learning_rate=1e6, decay=1e6, exponent=0.0, more_than=1, cap=8),
    ],
)
def test_a_training_that_diverges_names_the_step_and_the_remedy(model: Model) -> None:
    with pytest.raises(
        NoModelError, match=rf"{model.name}: no finite .* step \d+: lower params\.learning_rate"
    ):
        model.train(model.prepare(drawn()), streams(2)).row(0, streams(2))


COMMON = [
    ("epsilon", 5e-4),
    ("epsilon", math.nan),
    ("epsilon", math.inf),
    ("epsilon", 2e6),
    ("variant", "private"),
    ("steps", 0),
    ("steps", 2.0),
    ("learning_rate", 0.0),
    ("learning_rate", 2e6),
    ("decay", -0.1),
    ("neighbors", 0),
    ("sampling_rate", 0.0),
    ("sampling_rate", 1.1),
    ("sampling_rate", math.nan),
    ("more_than", -1),
    ("unknown", 1),
]
SGD = [
    ("steps", 10_001),
    ("learning_rate", 2e3),
    ("decay", 1.1),
    ("rescale", 0.0),
    ("rescale", 2e6),
    ("start", 0.0),
    ("start", 2e6),
    ("weight", 0.0),
    ("weight", 2e9),
    ("clip_norm", 0.0),
    ("clip_norm", 2e9),
]
SAMPLED = [
    ("steps", 2_000_000),
    ("exponent", -0.1),
    ("exponent", 1.1),
    ("schedule", "none"),
    ("decay", 0.0),
    ("decay", 2e6),
    ("temperature", 0.0),
    ("temperature", 1.1),
    ("likelihood", "cubes"),
    ("start", 2e6),
    ("cap", 0),
]


@pytest.mark.cases(
    ("kind", "name", "value"),
    [(SgdSimilarity, *case) for case in COMMON + SGD]
    + [(SampledSimilarity, *case) for case in COMMON + SAMPLED],
)
def test_a_parameter_out_of_range_is_refused(
    kind: Callable[..., Any], name: str, value: object
) -> None:
    with pytest.raises(ValidationError):
        kind(**{"epsilon": 1.0} | {name: value})


def test_the_corrected_form_has_no_temperature() -> None:
    with pytest.raises(ValidationError, match="corrected form has temperature 1"):
        SampledSimilarity(1.0, "corrected", temperature=0.5)
