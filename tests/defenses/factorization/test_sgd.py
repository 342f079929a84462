"""Matrix factorisations: the noise they state, the laws they reach, the streams they draw from."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from dpaudit.core.claim import Variant
from dpaudit.core.errors import ConfigError, NoModelError
from dpaudit.core.streams import Streams
from dpaudit.data import Ratings, Scale
from dpaudit.data.neighbors import UserRemoved, UserReplaced, apply
from dpaudit.data.ratings import from_profiles
from dpaudit.defenses.factorization.sampled import SampledFactors
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.defenses.factorization.sgd_training import sum_clipped, taking_part
from dpaudit.defenses.factors import FactorRows
from dpaudit.defenses.precision import grid
from dpaudit.kernels import exact_noise, noise
from dpaudit.kernels.factorization import sixteen_models as factor_trials
from dpaudit.kernels.lanes import LANES

STARS = Scale()
NONE = np.empty(0, np.int32)
Exact = NDArray[np.float64]


def drawn(seed: int = 0, n_users: int = 12, n_items: int = 9) -> Ratings:
    source = np.random.default_rng(seed)
    user, item = np.nonzero(source.random((n_users, n_items)) < 0.6)
    value = source.integers(1, 6, len(user)).astype(np.float32)
    return Ratings.build(user, item, value, n_users, n_items, STARS)


def planted(noise: float) -> tuple[Ratings, Ratings]:
    """Ratings of rank 2 with noise, to learn from and to predict."""
    source = np.random.default_rng(3)
    left, right = source.normal(0, 0.7, (150, 2)), source.normal(0, 0.7, (60, 2))
    full = 3 + left @ right.T + source.normal(0, 0.3, (150, 1)) + source.normal(0, noise, (150, 60))
    pick = source.random(full.shape)
    parts = []
    for part in (pick < 0.6, pick > 0.9):
        user, item = np.nonzero(part)
        value = np.clip(full[part], 1, 5).astype(np.float32)
        parts.append(Ratings.build(user, item, value, 150, 60, STARS))
    return parts[0], parts[1]


@pytest.mark.cases(
    "model",
    [
        SgdFactors(math.inf, "nonprivate", dimensions=2, epochs=150, learning_rate=0.02),
        SampledFactors(
            math.inf,
            "nonprivate",
            dimensions=2,
            epochs=150,
            learning_rate=0.04,
            exponent=0.0,
            decay=1.0,
        ),
        SgdFactors(1e6, dimensions=2, epochs=150, learning_rate=0.02),
    ],
)
def test_it_learns_what_was_planted(model: SgdFactors | SampledFactors) -> None:
    train, test = planted(0.3)
    factor_models = model.train(model.prepare(train), Streams.first(1, "test", 2))  # type: ignore[arg-type]
    errors = factor_models.predict(test.user, test.item) - test.value
    assert (np.sqrt((errors**2).mean(1)) < 0.36).all()
    assert test.value.std() > 0.7


def models() -> list[SgdFactors | SampledFactors]:
    small: dict[str, Any] = {"dimensions": 3, "epochs": 4}
    wide: dict[str, Any] = small | {"cap": 20, "accept": "any"}
    return [
        SgdFactors(math.inf, "nonprivate", **small),
        SgdFactors(2.0, **small),
        SgdFactors(2.0, "corrected", **small),
        SampledFactors(math.inf, "nonprivate", **small),
        SampledFactors(2.0, **wide),
        SampledFactors(2.0, "corrected", **small, cap=20),
        SampledFactors(64.0, **small, cap=20, margin=3.0, decay=8.0, retries=500),
    ]


@pytest.mark.cases("model", models(), ids=lambda model: f"{model.name}-{model.variant}")
def test_a_trial_is_the_same_whatever_else_is_trained(model: SgdFactors | SampledFactors) -> None:
    prepared: Any = model.prepare(drawn())
    many = Streams.first(5, "test", 20)
    users, items = np.array([0, 3, 11], np.int32), np.array([8, 0, 4], np.int32)

    def shown(streams: Streams) -> tuple[Any, Any]:
        factor_models = model.train(prepared, streams)
        return factor_models.public(NONE).factors, factor_models.predict(users, items)

    factors, predictions = shown(many)
    assert factors.shape == (20, 9, 4)
    assert predictions.shape == (20, 3)
    for trials in ([17], [17, 2, 9], list(range(3, 20))):
        part = shown(Streams(many.key, np.array(trials)))
        np.testing.assert_array_equal(part[0], factors[trials])
        np.testing.assert_array_equal(part[1], predictions[trials])
    assert not np.isclose(shown(Streams.first(6, "test", 20))[0], factors).all()
    assert len(np.unique(factors[:, 0, 0])) == 20


def test_a_sampled_trial_is_the_same_whatever_else_is_trained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "dpaudit.defenses.factorization.sgd_training.noise_multiplier", lambda *_, **__: 1.0
    )
    model = SgdFactors(2.0, "corrected", dimensions=2, epochs=3, sampling_rate=0.5)
    rows, many = model.prepare(drawn()), Streams.first(5, "test", 20)
    whole = model.train(rows, many).public(NONE).factors
    part = model.train(rows, Streams(many.key, np.array([17]))).public(NONE).factors
    np.testing.assert_array_equal(part[0], whole[17])


def test_predictions_are_the_formula_cut_to_the_scale() -> None:
    model = SgdFactors(0.5, dimensions=3, epochs=2, learning_rate=0.2)
    ratings = drawn()
    factor_models = model.train(model.prepare(ratings), Streams.first(1, "test", 17))
    public = factor_models.public(NONE)
    assert public.mean == pytest.approx(ratings.value.mean(dtype=float))
    users = np.concatenate([np.moveaxis(block, 2, 0) for block in factor_models.users])[:17].astype(
        float
    )
    items = public.factors.astype(float)
    u, i = np.divmod(np.arange(12 * 9, dtype=np.int32), 9)
    exact = public.mean + users[:, u, -1] + items[:, i, -1]
    exact += (users[:, u, :-1] * items[:, i, :-1]).sum(2)
    np.testing.assert_allclose(factor_models.predict(u, i), np.clip(exact, 1, 5), atol=1e-5)
    assert (exact > 5).any()
    assert (exact < 1).any()


@pytest.mark.parametrize(("epsilon", "epochs"), [(1.0, 1), (0.5, 7)])
def test_the_published_noise_is_laplace_of_scale_k_width_by_epsilon(
    epsilon: float, epochs: int
) -> None:
    from scipy.stats import kstest, laplace

    model = SgdFactors(
        epsilon, epochs=epochs, error_bound=1e6, spread=0.0, learning_rate=0.5, decay=0.0
    )
    scale = epochs * 4 / epsilon
    assert model.noise_scale(STARS) == pytest.approx(scale)
    assert SgdFactors(math.inf, "nonprivate").noise_scale(STARS) == 0
    # The first epoch with one user who rated one item 5, b_0 = 1: b_i = η (4 + noise).
    once = SgdFactors(
        epsilon / epochs, epochs=1, error_bound=1e6, spread=0.0, learning_rate=0.5, decay=0.0
    )
    ratings, public = (from_profiles([[(0, r)]], 1, STARS) for r in (5.0, 1.0))
    release = once.train(once.prepare(ratings, public), Streams.first(2, "test", 6000)).public(NONE)
    seen = release.factors[:, 0, -1].astype(float) / 0.5 - 4
    # False failures: 1e-6.
    assert kstest(seen, laplace(scale=scale).cdf).pvalue > 1e-6
    assert kstest(seen, laplace(scale=1.2 * scale).cdf).pvalue < 1e-6


def test_the_published_errors_are_clamped_after_the_noise() -> None:
    model = SgdFactors(0.1, epochs=1, error_bound=1.5, spread=0.0, learning_rate=0.5, decay=0.0)
    ratings = from_profiles([[(0, 5.0)]], 1, STARS)
    factors = (
        model.train(model.prepare(ratings), Streams.first(2, "test", 200)).public(NONE).factors
    )
    assert abs(factors[:, 0, -1]).max() == 0.75
    assert (abs(factors[:, 0, -1]) == 0.75).mean() > 0.9


@pytest.mark.parametrize("model", [SgdFactors(1.0), SampledFactors(1.0)])
def test_neighbours_share_the_public_mean(model: SgdFactors | SampledFactors) -> None:
    before = drawn()
    change = UserReplaced(2, np.array([0, 5], np.int32), np.array([1, 1], np.float32))
    after = apply(before, change)

    def mean(ratings: Ratings, public: Ratings | None) -> float:
        prepared = model.prepare(ratings, public)
        return (prepared if isinstance(prepared, FactorRows) else prepared.rows).mean

    assert mean(after, before) == mean(before, before) == mean(before, None)
    assert mean(after, None) != mean(before, None)


@pytest.mark.parametrize("kind", [SgdFactors, SampledFactors])
def test_the_corrected_mean_is_the_middle_of_the_scale(kind: Callable[..., Any]) -> None:
    prepared = kind(1.0, "corrected").prepare(from_profiles([[(0, 5.0)], [(1, 5.0)]], 2, STARS))
    assert getattr(prepared, "rows", prepared).mean == 3


def sent(model: SgdFactors, ratings: Ratings, seed: int, repeats: int = 1) -> Exact:
    """Return a round's sum without noise, after some rounds of fitting, `(16, M (d + 1))`."""
    rows = model.prepare(ratings)
    block = model.drawn(rows, Streams.first(seed, "test", LANES))
    for _ in range(repeats):
        total = np.zeros(block.items.size)
        sum_clipped(model, rows, block, total)
    return total.reshape(-1, LANES).T.astype(float)


@pytest.mark.cases("clip", [0.3, 4.0])
@pytest.mark.cases("seed", range(6))
def test_a_user_moves_a_round_by_the_clip_at_most(clip: float, seed: int) -> None:
    source = np.random.default_rng(seed)
    model = SgdFactors(
        1.0, "corrected", dimensions=3, clip_norm=clip, spread=1.0, learning_rate=0.05
    )
    before = drawn(seed)
    items = np.flatnonzero(source.random(9) < 0.8).astype(np.int32)
    new = UserReplaced(4, items, source.choice([1, 5], len(items)).astype(np.float32))
    whole = sent(model, before, seed, 3)
    moved = np.linalg.norm(sent(model, apply(before, new), seed, 3) - whole, axis=1)
    without = np.linalg.norm(sent(model, apply(before, UserRemoved(4)), seed, 3) - whole, axis=1)
    assert (moved <= 2 * clip * (1 + 1e-5)).all()
    assert (without <= clip * (1 + 1e-5)).all()
    if clip < 1:  # it binds
        assert without.min() > 0.999 * clip


def test_a_replaced_user_can_move_a_round_by_twice_the_clip() -> None:
    model = SgdFactors(1.0, "corrected", dimensions=2, clip_norm=0.5, spread=0.0)
    five, one = (from_profiles([[(0, r)], [(1, 4.0)]], 2, STARS) for r in (5.0, 1.0))
    moved = np.linalg.norm(sent(model, five, 0) - sent(model, one, 0), axis=1)
    np.testing.assert_allclose(moved, 1.0, rtol=1e-4)


def test_a_round_adds_normal_noise_of_the_stated_deviation() -> None:
    from scipy.stats import kstest, norm

    model = SgdFactors(
        3.0,
        "corrected",
        dimensions=1,
        epochs=1,
        clip_norm=0.5,
        spread=0.0,
        item_learning_rate=0.5,
        decay=0.0,
    )
    rows = model.prepare(from_profiles([[(0, 5.0)]], 40, STARS))
    factors = model.train(rows, Streams.first(4, "test", 320)).public(NONE).factors.astype(float)
    deviation = model.noise_deviation(40)
    # δ of one round: Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), μ = c / deviation
    mu = 0.5 / deviation
    spent = norm.cdf(mu / 2 - 3 / mu) - math.exp(3) * norm.cdf(-mu / 2 - 3 / mu)
    assert spent == pytest.approx(1e-5, rel=2e-3)
    draws = factors[:, 1:].ravel() / 0.5
    # On a grid; within a step any place is as good as another.
    step = grid(deviation)
    np.testing.assert_allclose(draws, np.rint(draws / step) * step, rtol=1e-6)
    draws += step * np.random.default_rng(1).uniform(-0.5, 0.5, len(draws))
    assert kstest(draws, norm(0, deviation).cdf).pvalue > 1e-6
    assert kstest(draws, norm(0, 1.1 * deviation).cdf).pvalue < 1e-6
    # The rated item's bias has the user's part besides, of norm c.
    mean = factors[:, 0, 1].mean() / 0.5
    assert abs(mean - 0.5) < 5 * deviation / math.sqrt(320)


def test_a_poisson_sample_takes_the_stated_share_in_every_trial() -> None:
    model = SgdFactors(1.0, "corrected", sampling_rate=0.3)
    taken = taking_part(model, 4000, Streams.first(1, "test", 3), 0)
    assert set(np.unique(taken)) == {0.0, 1.0}
    # Five deviations of 4000 draws: 1e-6.
    assert (abs(taken.mean(0) - 0.3) < 5 * math.sqrt(0.21 / 4000)).all()
    assert len({tuple(lane) for lane in taken.T}) == 3  # the other lanes repeat the last
    assert (taking_part(model, 4000, Streams.first(1, "test", 3), 1) != taken).any()


def test_no_two_draws_share_a_step_of_the_noise_source(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []

    def observe(module: Any, name: str, place: int) -> None:
        inner = getattr(module, name)

        def observed(*arguments: Any) -> None:
            used.append(getattr(arguments[place], "step", arguments[place]))
            inner(*arguments)

        monkeypatch.setattr(module, name, observed)

    observe(factor_trials, "settle", 3)
    observe(factor_trials, "take_step", 6)
    observe(factor_trials, "descend", 3)
    observe(factor_trials, "sample", 4)
    observe(noise, "uniform", 2)
    observe(exact_noise, "uniform", 2)
    monkeypatch.setattr(
        "dpaudit.defenses.factorization.sgd_training.noise_multiplier", lambda *_, **__: 1.0
    )
    small: dict[str, Any] = {"dimensions": 2, "epochs": 3}
    never: dict[str, Any] = {"margin": 0.0, "cap": 9, "decay": 1e-3, "retries": 2}
    cases: list[tuple[SgdFactors | SampledFactors, int]] = [
        (SgdFactors(2.0, **small), 2 + 3),
        (SgdFactors(2.0, "corrected", sampling_rate=0.5, **small), 2 + 2 * 3),
        (SampledFactors(2.0, "corrected", **small), 2 + 3 + 2),
        (SampledFactors(1.0, **never, **small), 3 * (2 + 3 + 2)),
    ]
    for model, count in cases:
        used.clear()
        prepared: Any = model.prepare(drawn())
        with contextlib.suppress(NoModelError):
            model.train(prepared, Streams.first(1, "test", 2))
        assert len(set(used)) == len(used) == count


# One user rates one item 5. Factors are one-dimensional with biases; the log-density is
# −½ (k e² + ‖·‖²): ε/4B = k/2 at ε = 32 k and B = 16, and λ = 1/k.
TINY: dict[str, Any] = {
    "dimensions": 1, "cap": 1, "margin": 0.0, "exponent": 0.0, "learning_rate": 0.05, "epochs": 320,
}  # fmt: skip


def exact_moments(
    k: float, start: float, cut: bool, power: float = 1.0
) -> tuple[float, float, float]:
    """Mean and variance of the item's bias and variance of its factor under density^power."""
    v = np.linspace(-6, 6, 49)[:, None, None]
    b = np.linspace(-8, 8, 65)[:, None]
    z = np.linspace(-16, 16, 257)  # b_u + u v, normal of variance (1 + v²)/power
    shown = start + b + z
    error = 5 - (np.clip(shown, 1, 5) if cut else shown)
    penalty = z**2 / (1 + v**2)
    weight = np.exp(-power / 2 * (k * error**2 + v**2 + b**2 + penalty)) / np.sqrt(1 + v**2)
    weight /= weight.sum()
    mean = float((weight * b).sum())
    return mean, float((weight * b**2).sum()) - mean**2, float((weight * v**2).sum())


@pytest.mark.parametrize(
    ("variant", "extra", "k", "start", "power"),
    [
        ("published", {"accept": "any"}, 1.0, 1.0, 1.0),
        ("published", {"accept": "any", "temperature": 0.5}, 1.0, 1.0, 2.0),
        ("corrected", {}, 2.0, 3.0, 1.0),
    ],
)
@pytest.mark.long
def test_the_chain_reaches_its_law(
    variant: Any, extra: dict[str, Any], k: float, start: float, power: float
) -> None:
    model = SampledFactors(32.0 * k, variant, decay=1 / k, **TINY, **extra)
    ratings, public = (from_profiles([[(0, r)]], 1, STARS) for r in (5.0, 1.0))
    count, corrected = 2048, variant == "corrected"
    streams = Streams.first(8, "test", count)
    release = model.train(model.prepare(ratings, public), streams).public(NONE)
    v, b = release.factors[:, 0].astype(float).T
    fourth = ((b - b.mean()) ** 4).mean() / b.var() ** 2

    def away(moments: tuple[float, float, float]) -> float:
        """The largest deviation in standard errors, beyond 2 % of bias for the step's size."""
        mean, variance, spread = moments
        deviations = (
            (abs(b.mean() - mean) - 0.02) / math.sqrt(variance / count),
            (abs(b.var() / variance - 1) - 0.02) / math.sqrt((fourth - 1) / count),
            (abs((v**2).mean() / spread - 1) - 0.02) * spread / math.sqrt((v**2).var() / count),
        )
        return float(max(deviations))

    # False failures: 3 · 6e-7. Halving the step moves no moment by more than 2 %.
    assert away(exact_moments(k, start, corrected, power)) < 5
    # Half the temperature, and a drift without its factor 2, are noticed; so is a missing cut.
    assert away(exact_moments(k, start, corrected, 2 * power)) > 10
    assert away(exact_moments(k, start, corrected, power / 2)) > 10
    if corrected:
        assert away(exact_moments(k, start, False)) > 5


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_an_item_that_nobody_rated_has_the_law_of_the_prior(temperature: float) -> None:
    from scipy.stats import kstest, norm

    model = SampledFactors(
        2.0, epochs=3, dimensions=3, cap=5, margin=0.0, decay=40.0, accept="any",
        temperature=temperature, spread=3.0,
    )  # fmt: skip
    prepared = model.prepare(from_profiles([[(0, 5.0), (2, 1.0)]], 3, STARS))
    factors = (
        model.train(prepared, Streams.first(8, "test", 1600)).public(NONE).factors[:, 1].ravel()
    )
    # 2B/(ελ), B = 5 · 16
    deviation = math.sqrt(temperature * 2 * 80 / (2 * 40))
    assert kstest(factors.astype(float), norm(0, deviation).cdf).pvalue > 1e-6
    assert kstest(factors.astype(float), norm(0, 1.15 * deviation).cdf).pvalue < 1e-6
    plain = SampledFactors(math.inf, "nonprivate", epochs=3, dimensions=3)
    kept = plain.train(plain.prepare(prepared_ratings()), Streams.first(8, "test", 2)).public(NONE)
    assert not kept.factors[:, 1].any()
    assert kept.factors[:, 0].all()


def prepared_ratings() -> Ratings:
    return from_profiles([[(0, 5.0), (2, 1.0)]], 3, STARS)


def in_range(block: Any, mean: float, margin: float) -> NDArray[np.bool_]:
    """Whether a prediction is in range, for each user, item and trial."""
    dot = np.einsum("ufw,ifw->uiw", block.users[:, :-1], block.items[:, :-1])
    shown = mean + dot + block.users[:, None, -1] + block.items[None, :, -1]
    inside: NDArray[np.bool_] = abs(shown - 3) <= 2 + margin
    return inside[:, :, : block.count]


def test_a_draw_is_accepted_only_if_every_pair_is_in_range() -> None:
    ratings = from_profiles([[(0, 3.0), (1, 2.0)], [(1, 4.0), (2, 3.0)]], 4, STARS)
    shared: dict[str, Any] = {
        "epsilon": 30.0,
        "dimensions": 2,
        "cap": 2,
        "margin": 0.5,
        "decay": 1.0,
        "learning_rate": 0.5,
        "epochs": 60,
    }
    streams, masks = Streams.first(3, "test", LANES), {}
    for accept in ("all", "rated", "any"):
        model = SampledFactors(**shared, accept=accept, retries=1000)
        prepared = model.prepare(ratings)
        block = model._draw(prepared, streams)
        masks[accept] = in_range(block, prepared.rows.mean, 0.5)
    rated = np.zeros((2, 4), bool)
    rated[ratings.user, ratings.item] = True
    assert masks["all"].all()
    assert masks["rated"][rated].all()
    assert not masks["rated"][~rated].all()
    assert not masks["any"][rated].all()
    assert SampledFactors(**shared).accept is None  # which tests all pairs
    default = SampledFactors(**shared, retries=1000)
    block = default._draw(prepared, streams)
    assert in_range(block, prepared.rows.mean, 0.5).all()


def test_a_new_draw_begins_anew() -> None:
    model = SampledFactors(1.0, epochs=1, learning_rate=1e-9, spread=1.0)
    prepared, streams = model.prepare(drawn()), Streams.first(3, "test", 2)
    first, second = (model._chain(prepared, streams, attempt) for attempt in (0, 1))
    rated = np.unique(prepared.rows.items)
    assert abs(first.items[rated] - second.items[rated]).max() > 0.5
    assert abs(first.users[:, :-1, :2] - second.users[:, :-1, :2]).max() > 0.5


def test_a_run_without_an_accepted_draw_names_the_rate() -> None:
    model = SampledFactors(1.0, margin=0.0, retries=2, cap=20, decay=0.01)
    with pytest.raises(NoModelError, match=r"0 of 9 draws .* params\.retries = 2"):
        model.train(model.prepare(drawn()), Streams.first(1, "test", 3))


def test_the_weights_bound_every_users_loss() -> None:
    ratings = from_profiles([[(0, 5.0)], [(i, 3.0) for i in range(6)], []], 6, STARS)
    model = SampledFactors(1.0, cap=10, margin=1.0, loss_bound=75.0)
    # w_u = min(1, B / (25 m_u))
    np.testing.assert_allclose(model.prepare(ratings).weights, [1, 0.5, 1])
    np.testing.assert_allclose(SampledFactors(1.0, cap=10).prepare(ratings).weights, 1)
    assert SampledFactors(1.0, cap=10, margin=1.0).largest_loss(STARS) == 250
    plain = SampledFactors(math.inf, "nonprivate", cap=2, loss_bound=25.0)
    np.testing.assert_array_equal(plain.prepare(ratings).weights, 1)


@pytest.mark.parametrize("loss_bound", [250.0, 75.0])
def test_a_budget_bounds_what_its_user_can_change_whatever_they_rated(loss_bound: float) -> None:
    profiles = [[(i, 3.0) for i in range(count)] for count in (1, 2, 6, 10)] * 4
    budgets = np.repeat([1.0, 0.5, 0.1, 1e-3], 4)
    ratings = replace(from_profiles(profiles, 10, STARS), budgets=budgets)
    model = SampledFactors(8.0, "corrected", cap=10, loss_bound=loss_bound, budgets=True)
    counts = np.diff(ratings.by_user.start)
    # ε_u = ε w_u m_u c / B <= s_u ε, with equality where all ratings of weight 1 would cost more.
    epsilons = 8 * model.prepare(ratings).weights * counts * 25 / loss_bound
    np.testing.assert_allclose(epsilons, 8 * np.minimum(budgets, counts * 25 / loss_bound))
    plain = replace(model, budgets=False)
    np.testing.assert_array_equal(
        plain.prepare(ratings).weights, plain.prepare(replace(ratings, budgets=None)).weights
    )
    claim, whole = model.claim(), plain.claim()
    assert claim is not None
    assert whole is not None
    assert claim.public == f"{whole.public}, each user's budget"
    assert claim.epsilon == whole.epsilon == 4
    with pytest.raises(ConfigError, match=r"params\.budgets = true .* set data\.budgets"):
        model.prepare(replace(ratings, budgets=None))


@pytest.mark.parametrize("variant", ["published", "corrected"])
def test_losses_are_those_of_the_draws(variant: Variant) -> None:
    profiles: list[list[tuple[int, float]]] = [[(0, 5.0)], [(0, 5.0), (1, 3.0), (2, 1.0)], []]
    ratings = from_profiles(profiles, 3, STARS)
    accept: Any = "any" if variant == "published" else None
    model = SampledFactors(
        8.0, variant, dimensions=2, cap=3, mean=3.0, epochs=2, spread=2.0, accept=accept
    )
    losses = model.personal_losses(ratings, 0)
    # B = 75: ε_u = ε m_u/3, and 4 ℓ_u = (ε/B) Σ e²; the last user has no ratings.
    np.testing.assert_allclose(losses.epsilon, [8 / 3, 8])
    assert losses.loss.shape == (2, LANES)
    draw = model._draw(model.prepare(ratings), Streams.first(0, "personal", LANES))
    outside = 0
    for user, profile in enumerate(profiles[:2]):
        for w in range(LANES):
            u, total = draw.users[user, :, w].astype(float), 0.0
            for item, rating in profile:
                v = draw.items[item, :, w].astype(float)
                shown = 3 + u[0] * v[0] + u[1] * v[1] + u[2] + v[2]
                outside += not 0 <= shown <= 6
                kept = min(max(shown, 0), 6) if variant == "corrected" else shown
                total += (rating - kept) ** 2
            assert losses.loss[user, w] == pytest.approx(8 / 75 * total, rel=1e-5)
    assert outside


def test_losses_beyond_the_range_count_as_far_as_the_likelihood_counts_them() -> None:
    ratings = from_profiles([[(0, 5.0)]], 1, STARS)
    wild: dict[str, Any] = {"dimensions": 8, "cap": 1, "spread": 10.0, "epochs": 1, "mean": 3.0}
    still: dict[str, Any] = {"learning_rate": 1e-9}
    clipped = SampledFactors(8.0, "corrected", **wild, **still).personal_losses(ratings, 0)
    # b_0 = 3, range 0..6: the largest error is 5, and (Δr + κ)² = 25.
    assert clipped.loss.max() == pytest.approx(8)
    free = SampledFactors(8.0, accept="any", **wild, **still).personal_losses(ratings, 0)
    assert free.loss.max() > 80
    np.testing.assert_array_equal(free.epsilon, clipped.epsilon)
    warm = SampledFactors(8.0, accept="any", temperature=0.5, **wild, **still)
    np.testing.assert_allclose(warm.personal_losses(ratings, 0).epsilon, 2 * free.epsilon)


def test_bounds_and_data_beyond_the_cap_are_refused() -> None:
    ratings = from_profiles([[(i, 3.0) for i in range(6)]], 6, STARS)
    with pytest.raises(ConfigError, match=r"params\.loss_bound = 251 lies above .* = 250"):
        SampledFactors(1.0, cap=10, loss_bound=251.0).prepare(ratings)
    for variant in ("published", "corrected"):
        with pytest.raises(ConfigError, match=r"6 ratings and params\.cap = 5"):
            SampledFactors(1.0, variant, cap=5).prepare(ratings)
    SampledFactors(math.inf, "nonprivate", cap=5).prepare(ratings)
    empty = Ratings.build(*(np.empty(0, int),) * 2, np.empty(0), 1, 1, STARS)
    for model in (SampledFactors(1.0), SgdFactors(1.0)):
        with pytest.raises(ConfigError, match="no ratings to learn from"):
            model.prepare(empty)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.cases(
    ("model", "where"),
    [
        (
            SgdFactors(math.inf, "nonprivate", learning_rate=1.0, spread=10.0),
            r"epoch \d+: .* params\.learning_rate",
        ),
        (
            SgdFactors(1.0, learning_rate=1.0, spread=10.0, error_bound=1e6),
            r"epoch \d+: .* params\.learning_rate",
        ),
        (
            SampledFactors(1e6, accept="any", learning_rate=1e6),
            r"epoch \d+: .* params\.learning_rate",
        ),
    ],
)
def test_a_training_that_diverges_names_the_pass_and_the_remedy(
    model: SgdFactors | SampledFactors, where: str
) -> None:
    with pytest.raises(NoModelError, match=f"{model.name}: no finite numbers after {where}"):
        model.train(model.prepare(drawn()), Streams.first(1, "test", 2))  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_a_training_ends_without_an_error_whoever_is_in_it(epsilon: float) -> None:
    # One user of 200 ratings among 60 of 5 decided whether the training of version 1 diverged.
    source, size = np.random.default_rng(1), 400
    rows: list[list[tuple[int, float]]] = [
        [(int(i), float(source.integers(1, 6))) for i in source.choice(size, count, False)]
        for count in [5] * 60 + [200]
    ]
    model = SgdFactors(epsilon, "corrected", item_learning_rate=0.02)
    for present in ([*rows[:-1], []], rows):
        data = from_profiles(present, size, STARS)
        factor_models = model.train(model.prepare(data), Streams.first(3, "test", 3))
        assert abs(factor_models.users[0]).max() < 100
        assert abs(factor_models.items[0]).max() < 1e4


def test_by_default_it_learns_from_thousands_of_users() -> None:
    # The sum of 800 raters' gradients is a step that must not overshoot.
    source, n = np.random.default_rng(5), 2000
    user, item = np.nonzero(source.random((n, 200)) < np.geomspace(0.4, 0.01, 200))
    level = 3.5 + source.normal(0, 0.6, n)[user] + source.normal(0, 0.6, 200)[item]
    value = np.clip(np.rint(level + source.normal(0, 0.5, len(user))), 1, 5).astype(np.float32)
    ratings = Ratings.build(user, item, value, n, 200, STARS)
    test = source.random(len(ratings)) < 0.1
    model = SgdFactors(10.0, "corrected", dimensions=4)
    factor_models = model.train(model.prepare(ratings.only(~test)), Streams.first(1, "test", 1))
    values = ratings.value[test]
    away = factor_models.predict(ratings.user[test], ratings.item[test]) - values
    assert np.sqrt((away**2).mean()) < 0.85 * values.std()


def test_claims_state_their_neighbours() -> None:
    published, replaced = SgdFactors(2.0).claim(), SampledFactors(2.0).claim()
    assert published is not None
    assert replaced is not None
    assert (published.epsilon, published.delta) == (2, 0)
    assert (published.adjacency, published.observer) == ("rating-replace", "iterates")
    assert (replaced.epsilon, replaced.adjacency, replaced.observer) == (
        2,
        "user-replace",
        "public",
    )
    assert "b_0" in published.public
    assert "b_0" in replaced.public
    for adjacency in (None, "user-replace", "user-add-remove"):
        private = SgdFactors(2.0, "corrected", adjacency=adjacency, delta=1e-6).claim()
        assert private is not None
        assert (private.epsilon, private.delta, private.observer) == (2, 1e-6, "iterates")
        assert private.adjacency == (adjacency or "user-add-remove")
    corrected = SampledFactors(2.0, "corrected").claim()
    assert corrected is not None
    assert (corrected.epsilon, corrected.adjacency) == (1, "user-replace")
    assert SgdFactors(math.inf, "nonprivate").claim() is None
    assert SampledFactors(math.inf, "nonprivate").claim() is None


def test_a_replaced_user_needs_twice_the_noise() -> None:
    one, two = (
        SgdFactors(2.0, "corrected", adjacency=adjacency).noise_deviation(100)
        for adjacency in ("user-add-remove", "user-replace")
    )
    assert two == pytest.approx(2 * one, rel=2e-4)


COMMON = [
    ("epsilon", 5e-4), ("epsilon", math.nan), ("epsilon", math.inf), ("epsilon", 2e6),
    ("variant", "private"), ("dimensions", 0), ("dimensions", 130), ("dimensions", 2.0),
    ("epochs", 0), ("epochs", 100_001), ("decay", -1.0), ("spread", -0.1), ("spread", 11.0),
    ("unknown", 1),
]  # fmt: skip
SGD = [
    ("learning_rate", 0.0),
    ("learning_rate", 1.1),
    ("decay", 11.0),
    ("error_bound", 0.0),
    ("error_bound", 2e6),
    ("clip_norm", 0.0),
    ("clip_norm", math.nan),
    ("item_learning_rate", 0.0),
    ("item_learning_rate", 11.0),
    ("sampling_rate", 0.0),
    ("sampling_rate", 1.1),
    ("delta", 0.0),
    ("delta", 1.0),
    ("adjacency", "user-replace"),
    ("adjacency", "rating-add-remove"),
]
SAMPLED = [
    ("learning_rate", 0.0),
    ("learning_rate", 2e6),
    ("exponent", -0.1),
    ("exponent", 1.1),
    ("schedule", "none"),
    ("decay", 0.0),
    ("cap", 0),
    ("margin", -1.0),
    ("margin", 2e3),
    ("loss_bound", 0.0),
    ("temperature", 0.0),
    ("temperature", 1.5),
    ("retries", -1),
    ("retries", 1001),
    ("accept", "none"),
]


@pytest.mark.cases(
    ("kind", "name", "value"),
    [(SgdFactors, *case) for case in COMMON + SGD]
    + [(SampledFactors, *case) for case in COMMON + SAMPLED],
)
def test_a_parameter_out_of_range_is_refused(
    kind: Callable[..., Any], name: str, value: object
) -> None:
    with pytest.raises(ValidationError):
        kind(**{"epsilon": 1.0} | {name: value})


@pytest.mark.cases(
    "make",
    [
        lambda: SgdFactors(1.0, "corrected", adjacency="rating-replace"),
        lambda: SampledFactors(1.0, "corrected", temperature=0.5),
        lambda: SampledFactors(1.0, "corrected", accept="all"),
    ],
)
def test_what_contradicts_the_corrected_form_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValidationError, match="corrected form"):
        make()
