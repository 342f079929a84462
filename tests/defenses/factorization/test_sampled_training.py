"""Precisions that are drawn with the factors: their laws against closed forms and quadrature.

Stochastic checks use fixed seeds and a false-failure rate of 1e-6 each, the probability over seeds
that a correct sampler fails, by Massart's inequality. The bias of a chain of finite steps, at most
half of the failing deviation, is added.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy import integrate, stats

from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.defenses.factorization.sampled import SampledFactors
from dpaudit.defenses.factorization.sampled_training import FactorChain, FactorDraw, SampledRows
from dpaudit.defenses.factors import FactorBlock, FactorRows
from dpaudit.kernels import noise
from dpaudit.kernels.factorization import sixteen_models as factor_trials
from dpaudit.kernels.lane_noise import trial_words
from dpaudit.kernels.lanes import LANES

Exact = NDArray[np.float64]
RATE = 1e-6
STARS = Scale()
# The last user and the last item have no rating.
RATINGS = from_profiles([[(0, 4.0), (1, 2.0)], [(0, 1.0)], [(1, 5.0)], []], 3, STARS)


def apart(sample: Exact, law: Any) -> float:
    """How far the sample's distribution is from the law, in units of what fails at 1e-6."""
    z = law(np.sort(sample.ravel()))
    steps = np.arange(len(z)) / len(z)
    distance = max((z - steps).max(), (steps + 1 / len(z) - z).max())
    return float(distance / math.sqrt(math.log(2 / RATE) / (2 * len(z))))


def test_precisions_have_their_law_given_the_factors() -> None:
    source = np.random.default_rng(0)
    users = source.normal(0, 2, (4, 3, LANES)).astype(np.float32)
    items = source.normal(0, 3.0, (3, 3, LANES)).astype(np.float32)
    # Lanes are alike, so that all trials share one law.
    users[:], items[:] = users[:, :, :1], items[:, :, :1]
    data = SampledRows(FactorRows.of(RATINGS, 3.0), np.ones(4))
    chain = FactorChain(
        data, factor=0.8, temperature=0.4, decay=1.0, gamma=(1.3, 2.5), dimensions=2, spread=1.0,
        sizes=[], bounds=(-math.inf, math.inf), biases=True, variant="published", name="test",
    )  # fmt: skip
    parts = []
    for streams in Streams.first(3, "test", 4096).blocks(LANES):
        block = FactorBlock(users, items, trial_words(streams.trials), LANES)
        parts.append(chain._precisions(block, (1.3, 2.5), 7, streams))
    draws = np.concatenate(parts, axis=2)
    for place, (side, rated) in enumerate(((users, 3), (items, 2))):
        # c = 0.8/0.4, and those without ratings, the last, are not counted.
        squares = (side[:rated, :, 0].astype(float) ** 2).sum(0)
        for k, square in enumerate(squares):
            right = stats.gamma(1.3 + rated / 2, scale=1 / (2.5 + 2 * square))
            assert apart(draws[place, k], right.cdf) < 1
            for shape, factor in ((1.3, 2.0), (1.3 + (rated + 1) / 2, 2.0), (1.3 + rated / 2, 1.0)):
                wrong = stats.gamma(shape, scale=1 / (2.5 + factor * square))
                assert apart(draws[place, k], wrong.cdf) > 1
    # Coordinates, sides and neighbouring data sets are independent: 5.6 errs at 1e-6 over all 51.
    flat = draws.reshape(6, -1)
    with_next = np.concatenate([flat[:, 1:], flat[:, :-1]])
    correlations = np.concatenate(
        [
            np.asarray(np.corrcoef(flat))[np.triu_indices(6, 1)],
            np.asarray(np.corrcoef(with_next))[:6, 6:].ravel(),
        ]
    )
    assert abs(correlations).max() * math.sqrt(flat.shape[1]) < 5.6


def drawn(model: SampledFactors, ratings: Ratings, count: int) -> tuple[Exact, Exact, Exact]:
    """Users, items and precisions of many trials, the trials last."""
    prepared = model.prepare(ratings)
    draws: list[FactorDraw] = [
        model._draw(prepared, part) for part in Streams.first(5, "test", count).blocks(LANES)
    ]
    return tuple(  # type: ignore[return-value]
        np.concatenate([getattr(draw, name) for draw in draws], axis=-1).astype(float)
        for name in ("users", "items", "precisions")
    )


# ε/4B = 1. Predictions near 1000 are far out of range, where the corrected likelihood is flat.
FLAT = SampledFactors(
    128.0, "corrected", dimensions=2, epochs=90, learning_rate=0.8, exponent=0.7, spread=1.0, cap=2,
    margin=0.0, mean=1000.0, prior_shape=2.0, prior_rate=3.0,
)  # fmt: skip


@pytest.mark.long
def test_without_information_factors_are_students_and_precisions_gamma() -> None:
    users, items, precisions = drawn(FLAT, RATINGS, 2048)
    gamma = stats.gamma(2.0, scale=1 / 3.0)
    # 2cλ_k u_k² = z²: u_k = √(β/(2αc)) t_2α
    student = stats.t(4.0, scale=math.sqrt(3.0 / 4.0))
    for side, place in ((users, 0), (items, 1)):
        for k in range(3):
            assert apart(precisions[place, k], gamma.cdf) < 1
            for row in side[:, k]:  # with a rating or without
                assert apart(row, student.cdf) < 1
                assert apart(math.sqrt(2) * row, student.cdf) > 1  # twice the precision
    # One precision for all users of a coordinate, and none for two coordinates: the logarithms of
    # squares, whose moments exist, are correlated in the one case alone.
    logs = np.log(users[:, :2] ** 2)
    one, other = logs[:2].mean(0), logs[2:].mean(0)

    def correlated(x: Exact, y: Exact) -> float:
        return float(np.asarray(np.corrcoef(x, y))[0, 1]) * math.sqrt(len(x))

    assert min(correlated(one[k], other[k]) for k in (0, 1)) > 4.9
    assert max(abs(correlated(one[k], other[1 - k])) for k in (0, 1)) < 4.9
    # Half more of a shape would be noticed, and half more of the rate.
    for wrong in (replace(FLAT, prior_shape=2.5), replace(FLAT, prior_rate=4.5)):
        assert apart(drawn(replace(wrong, epochs=30), RATINGS, 2048)[2][0, 0], gamma.cdf) > 1


def quadrature(alpha: float, beta: float, error: float) -> tuple[Any, Any]:
    """The distributions of |v| and of λ for one rating, one factor and c = 1.

    p(u, v) ∝ (β + u²)^−(α+½) (β + v²)^−(α+½) e^−(error − uv)²
    p(λ) ∝ λ^(α−½) e^−βλ ∫ e^−λu² h(u) du,  h(u) = ∫ (β + v²)^−(α+½) e^−(error − uv)² dv
    """
    x = np.linspace(-40, 40, 1601)
    tail = (beta + x**2) ** -(alpha + 0.5)
    h = np.array([(tail * np.exp(-((error - u * x) ** 2))).sum() for u in x])
    positive = x >= 0
    size = integrate.cumulative_trapezoid((tail * h)[positive], x[positive], initial=0)
    grid = np.linspace(1e-4, 12, 1000)
    inner = np.array([(np.exp(-g * x**2) * h).sum() for g in grid])
    weight = grid ** (alpha - 0.5) * np.exp(-beta * grid) * inner
    total = integrate.cumulative_trapezoid(weight, grid, initial=0)
    return (
        lambda v: np.interp(abs(v), x[positive], size / size[-1]),
        lambda g: np.interp(g, grid, total / total[-1]),
    )


@pytest.mark.long
def test_one_rating_moves_factors_and_precisions_to_their_law() -> None:
    ratings = from_profiles([[(0, 5.0)]], 1, STARS)
    # Temperature 1/2 doubles ε/4B = 1/2.
    model = SampledFactors(
        32.0,
        dimensions=1,
        epochs=120,
        learning_rate=0.05,
        exponent=0.0,
        spread=1.6,
        cap=1,
        margin=0.0,
        mean=2.0,
        biases=False,
        accept="any",
        temperature=0.5,
        prior_shape=2.0,
        prior_rate=3.0,
    )
    users, items, precisions = drawn(model, ratings, 1536)
    assert not users[:, 1].any()
    assert not items[:, 1].any()
    size, precision = quadrature(2.0, 3.0, 3.0)
    for side in (users, items):
        assert apart(abs(side[0, 0]), size) < 1
    for k in (0, 1):
        assert apart(precisions[k, 0], precision) < 1
    # Half more or less of a shape, and the law without the rating, would be noticed.
    for alpha, error in ((2.5, 3.0), (1.5, 3.0), (2.0, 0.0)):
        others = quadrature(alpha, 3.0, error)
        assert max(apart(abs(items[0, 0]), others[0]), apart(precisions[1, 0], others[1])) > 1


def test_a_step_that_is_large_for_a_precision_of_one_may_fit_the_one_that_is_drawn() -> None:
    # η (ε/4B)/n is 8, and precisions are near 0.05. At a user's only row u is multiplied by
    # 1 − 0.4, and an epoch adds noise of variance 8 · 0.01, on average half of it since that row.
    ratings = from_profiles([[(0, 3.0)] for _ in range(200)], 1, Scale())
    defense = SampledFactors(
        1e-3,
        dimensions=1,
        learning_rate=8.0,
        exponent=0.0,
        loss_bound=2.5e-4,
        cap=1,
        margin=0.0,
        mean=3.0,
        biases=False,
        temperature=0.01,
        accept="any",
        prior_shape=5e4,
        prior_rate=1e6,
        epochs=20,
    )
    prepared = defense.prepare(ratings)
    chain = defense._chain(prepared, Streams.first(1, "test", 16), 0)
    users = chain.users[:, 0].astype(float)

    def variance(drift: float) -> float:
        kept = (1 - drift) ** 2
        return 0.08 * (kept / (1 - kept) + 1 / 2)

    low, high = (stats.chi2.ppf(p, users.size) / users.size for p in (5e-7, 1 - 5e-7))
    assert low < (users**2).mean() / variance(0.4) < high
    # A step that is cut before it is multiplied by the precision would be noticed.
    assert not low < (users**2).mean() / variance(0.05) < high


def test_draws_are_a_function_of_the_trial() -> None:
    model = replace(FLAT, epochs=3, mean=None)
    prepared = model.prepare(RATINGS)
    streams = Streams.first(1, "test", 20)
    whole = model.train(prepared, streams).public(np.empty(0, np.int32)).factors
    assert len(np.unique(whole[:, 0, 0])) == 20
    for trials in ([3], [17, 2, 16]):
        part = model.train(prepared, Streams(streams.key, np.array(trials, np.int64)))
        np.testing.assert_array_equal(part.public(np.empty(0, np.int32)).factors, whole[trials])


def test_a_draw_that_is_made_again_brings_its_precisions() -> None:
    model = SampledFactors(
        20.0, dimensions=1, epochs=5, cap=2, margin=1.0, prior_shape=2.0, prior_rate=40.0,
        accept="rated", retries=1000, spread=5.0, learning_rate=0.02,
    )  # fmt: skip
    prepared = model.prepare(RATINGS)
    streams = Streams.first(2, "test", LANES)
    draw, first = model._draw(prepared, streams), model._chain(prepared, streams, 0)
    again = (draw.items != first.items).any((0, 1))
    assert again.any()
    assert not again.all()
    np.testing.assert_array_equal((draw.precisions != first.precisions).all((0, 1)), again)
    np.testing.assert_array_equal((draw.precisions != first.precisions).any((0, 1)), again)
    bounds = (0.0, 6.0)
    assert draw.in_range(prepared.rows, bounds, True).all()
    assert not first.in_range(prepared.rows, bounds, True).all()


def test_no_two_draws_share_a_step_of_the_noise_source(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    for module, name, place in (
        (factor_trials, "settle", 3), (factor_trials, "sample", 4), (noise, "uniform", 2),
    ):  # fmt: skip
        inner = getattr(module, name)

        def observed(*arguments: Any, inner: Any = inner, place: int = place) -> None:
            used.append(getattr(arguments[place], "step", arguments[place]))
            inner(*arguments)

        monkeypatch.setattr(module, name, observed)
    model = replace(FLAT, epochs=3)
    prepared = model.prepare(RATINGS)
    for attempt in (0, 1):
        model._chain(prepared, Streams.first(1, "test", 2), attempt)
    # Two draws at the start, four in each of three epochs, and two at the end.
    assert len(set(used)) == len(used) == 2 * (2 + 3 * 4 + 2)


@pytest.mark.cases(
    ("parameters", "words"),
    [
        ({"prior_shape": 1.0}, "give both, or neither"),
        ({"prior_rate": 1.0}, "give both, or neither"),
        (
            {"variant": "nonprivate", "prior_shape": 1.0, "prior_rate": 1.0},
            "'nonprivate' draws nothing",
        ),
        ({"prior_shape": 0.0, "prior_rate": 1.0}, "greater than or equal to 0"),
        ({"prior_shape": 1.0, "prior_rate": math.inf}, "less than or equal"),
    ],
)
def test_priors_that_are_none_are_refused(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        SampledFactors(**{"epsilon": 1.0} | parameters)


def test_the_exact_law_has_no_precisions_that_are_drawn() -> None:
    with pytest.raises(ConfigError, match=r"remove params\.prior_shape and params\.prior_rate"):
        FLAT.law(FLAT.prepare(RATINGS))
