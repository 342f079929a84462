"""The exact law of a small factorisation: its draws and its density against quadrature."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from dpaudit.core.errors import ConfigError, NoModelError
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.defenses.factorization import exact_posterior as module
from dpaudit.defenses.factorization.exact_posterior import ExactFactors
from dpaudit.defenses.factorization.sampled import SampledFactors

RATE = 1e-6
STARS = Scale(1, 5, 1)
TWO = from_profiles([[(0, 5), (1, 1)], [(1, 4)]], 2, STARS)
ONE = from_profiles([[(0, 5)], [(0, 2)]], 1, STARS)
FORMS: dict[str, dict[str, Any]] = {
    "all": {"accept": "all"},
    "rated": {"accept": "rated"},
    "any": {"accept": "any"},
    "warm": {"accept": "any", "temperature": 0.3},
    "cut": {"variant": "corrected"},
}
every_form = pytest.mark.parametrize("form", FORMS)

Exact = NDArray[np.float64]


def law(form: str, ratings: Ratings, **parameters: Any) -> ExactFactors:
    chosen = {
        "epsilon": 6.0,
        "dimensions": 1,
        "biases": False,
        "cap": 2,
        "loss_bound": 30.0,
        "decay": 2.5,
        "mean": 2.0,
        "margin": 0.5,
        **FORMS[form],
        **parameters,
    }
    defense = SampledFactors(**chosen)
    return defense.law(defense.prepare(ratings))


def log_joint(form: str, ratings: Ratings, user: int, shown: Exact, weight: float) -> float:
    """−ℓ_u of one user's predictions of all items, −∞ out of range; the paper's terms anew."""
    temperature = FORMS[form].get("temperature", 1.0)
    factor: float = 6.0 / (4 * 30.0) / temperature
    profile = ratings.profile(user)
    rated = shown[profile.items]
    tested = {"all": shown, "rated": rated}.get(form, rated[:0])
    if (tested < 0.5).any() or (tested > 5.5).any():
        return -math.inf
    if form == "cut":
        rated = np.clip(rated, 0.5, 5.5)
    return -factor * weight * float(((profile.values - rated) ** 2).sum())


def weight_of(ratings: Ratings, user: int) -> float:
    return min(1.0, 30.0 / (len(ratings.profile(user)) * 4.5**2))


def prior(form: str) -> float:
    temperature: float = FORMS[form].get("temperature", 1.0)
    return math.sqrt(2 * 30.0 * temperature / (6.0 * 2.5))


def at_ends(*slopes: float) -> list[float]:
    """Where a prediction 2 + x t leaves the range."""
    return sorted((end - 2.0) / x for x in slopes for end in (0.5, 5.5))


@every_form
def test_the_density_integrates_the_users_out(form: str) -> None:
    rng, s = np.random.default_rng(1), prior(form)
    draws = np.zeros((6, 2, 2))
    draws[:, :, 0] = s * rng.standard_normal((6, 2))
    expected = []
    for v in draws[:, :, 0]:
        total = float(stats.norm.logpdf(v, scale=s).sum())
        for user in range(2):
            w = weight_of(TWO, user)

            def density(u: float, v: Exact = v, user: int = user, w: float = w) -> float:
                loss = log_joint(form, TWO, user, 2.0 + u * v, w)
                return (
                    math.exp(loss) * float(np.exp(-((u / s) ** 2) / 2)) / (s * 2.5066282746310002)
                )

            marks = [-12 * s, *(m for m in at_ends(*v) if abs(m) < 12 * s), 0.0, 12 * s]
            parts = [
                integrate.quad(density, *ends, epsabs=1e-12)[0] for ends in pairwise(sorted(marks))
            ]
            total += math.log(math.fsum(parts))
        expected.append(total)
    densities = law(form, TWO).log_density(draws)
    np.testing.assert_allclose(
        densities - densities[0], np.array(expected) - expected[0], atol=1e-7
    )
    # It would notice a weight of 1 for the user with two ratings, who has 30/40.5.
    assert weight_of(TWO, 0) < 0.8
    heavy = law(form, TWO, loss_bound=None, epsilon=6.0 * 40.5 / 30, decay=2.5).log_density(draws)
    assert abs((heavy - heavy[0]) - (densities - densities[0])).max() > 1e-3


@pytest.mark.cases("form", ["all", "cut", "any"])
def test_the_density_integrates_factor_and_bias_out(form: str) -> None:
    s = prior(form)
    draws = s * np.random.default_rng(2).standard_normal((3, 1, 2))
    # The same integral by the midpoint rule over the quantiles of factor and bias.
    nodes = s * stats.norm.ppf((np.arange(1500) + 0.5) / 1500)
    expected = []
    for v, bias in draws[:, 0]:
        shown = 2.0 + bias + nodes[:, None] * v + nodes
        total = float(stats.norm.logpdf([v, bias], scale=s).sum())
        for user, value in enumerate((5.0, 2.0)):
            factor = 6.0 / 120 * weight_of(ONE, user)
            near = np.clip(shown, 0.5, 5.5) if form == "cut" else shown
            g = np.exp(-factor * (value - near) ** 2)
            total += math.log(
                np.where((form != "all") | ((shown >= 0.5) & (shown <= 5.5)), g, 0).mean()
            )
        expected.append(total)
    densities = law(form, ONE, biases=True).log_density(draws)
    np.testing.assert_allclose(
        densities - densities[0], np.array(expected) - expected[0], atol=5e-3
    )
    bare = law(form, ONE).log_density(draws)
    assert abs((bare - bare[0]) - (densities - densities[0])).max() > 0.05


def cells(law_: ExactFactors, edges: Exact) -> Exact:
    """The probabilities of the cells of (v_1, v_2), from the density on a fine grid."""
    s, fine = law_.deviation, 48
    reach = np.concatenate(([-7 * s], edges, [7 * s]))
    points = np.concatenate(
        [a + (b - a) * (np.arange(fine) + 0.5) / (fine) for a, b in pairwise(reach)]
    )
    steps = np.repeat(np.diff(reach) / (fine), fine)
    grid = np.zeros((len(points) ** 2, 2, 2))
    grid[:, 0, 0], grid[:, 1, 0] = np.repeat(points, len(points)), np.tile(points, len(points))
    mass = np.exp(law_.log_density(grid)).reshape(len(points), -1) * np.outer(steps, steps)
    place = np.repeat(np.arange(len(reach) - 1), fine)
    masses = np.zeros((len(reach) - 1,) * 2)
    np.add.at(masses, (place[:, None], place), mass)
    law_of_cells: Exact = masses / masses.sum()
    return law_of_cells


def chance(draws: Exact, probabilities: Exact, edges: Exact) -> float:
    """The p-value of a chi-square test of draws of (v_1, v_2) in the cells."""
    one, other = (np.searchsorted(edges, draws[:, item, 0]) for item in (0, 1))
    counts = np.zeros(probabilities.shape)
    np.add.at(counts, (one, other), 1)
    expected = len(draws) * probabilities
    common = expected > 20
    rest = expected[~common].sum()
    seen = np.append(counts[common], counts[~common].sum())
    hoped = np.append(expected[common], max(rest, 1e-9))
    if rest < 20:
        seen, hoped = seen[:-1], hoped[:-1] * seen[:-1].sum() / hoped[:-1].sum()
    return float(stats.chi2.sf(((seen - hoped) ** 2 / hoped).sum(), len(seen) - 1))


@pytest.mark.long
@every_form
def test_draws_follow_the_density(form: str) -> None:
    exact = law(form, TWO)
    edges = exact.deviation * np.array([-1.2, -0.6, -0.2, 0.0, 0.2, 0.6, 1.2])
    probabilities = cells(exact, edges)
    # So many notice a deviation that is 2 % off, and one weight for both users.
    draws = exact.draw(Streams.first(0, form, 200_000))
    assert draws.shape == (200_000, 2, 2)
    assert not draws[:, :, 1].any()
    assert chance(draws, probabilities, edges) > RATE
    # It would notice the law of another form, and twice the losses.
    other = {"all": "rated", "rated": "all", "any": "cut", "warm": "any", "cut": "all"}[form]
    for wrong in (law(other, TWO), law(form, TWO, epsilon=12.0, decay=1.25)):
        assert chance(wrong.draw(Streams.first(0, form, 40_000)), probabilities, edges) < RATE


def test_both_sides_are_of_one_draw() -> None:
    exact = law("all", TWO)
    users, items = exact.draw_both(Streams.first(1, "both", 5000))
    assert users.shape == items.shape == (5000, 2, 2)
    assert exact.in_range(users, items).all()
    assert not exact.in_range(users, items[::-1]).all()
    assert (items == exact.draw(Streams.first(1, "both", 5000))).all()


def test_a_trial_depends_on_its_index_alone() -> None:
    exact, streams = law("rated", TWO), Streams.first(3, "alone", 1500)
    whole = exact.draw(streams)
    some = np.array([1400, 3, 700])
    assert (exact.draw(Streams(streams.key, streams.trials[some])) == whole[some]).all()
    assert len(np.unique(whole[:, 0, 0])) == 1500


def test_with_biases_the_last_coordinate_is_one() -> None:
    draws = law("any", ONE, biases=True, dimensions=3).draw(Streams.first(0, "bias", 2000))
    assert draws.shape == (2000, 1, 4)
    assert (draws.std(0) > 0.5).all()


def test_a_law_that_accepts_nothing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 200)
    with pytest.raises(NoModelError, match=r"dpps-mf: \d of 3 trials"):
        law("all", TWO, decay=1e-9).draw(Streams.first(0, "none", 3))


def test_what_has_no_exact_law_is_refused() -> None:
    plain = SampledFactors(epsilon=math.inf, variant="nonprivate")
    with pytest.raises(ConfigError, match="'nonprivate' draws from no law"):
        plain.law(plain.prepare(TWO))
    wide = law("cut", TWO, dimensions=2)
    with pytest.raises(ConfigError, match=r"dimensions = 2 with 2 items.*biases = False"):
        wide.log_density(wide.draw(Streams.first(0, "wide", 2)))


def test_the_fields_are_those_of_the_paper() -> None:
    exact = law("warm", TWO)
    # ε/4B = 0.05, over a temperature of 0.3; w = 30/40.5 and 1; s² = T B·2/(ε λ) = 0.3·4
    np.testing.assert_allclose(exact.weights, [0.05 / 0.3 * 30 / 40.5, 0.05 / 0.3])
    assert exact.deviation**2 == pytest.approx(0.3 * 2 * 30 / (6 * 2.5))
    assert exact.bounds == (0.5, 5.5)
    assert exact.rows.mean == 2.0
    middle = SampledFactors(epsilon=1.0, variant="corrected")
    assert middle.prepare(TWO).rows.mean == 3.0
    assert SampledFactors(epsilon=1.0).prepare(TWO).rows.mean == pytest.approx(10 / 3)


@pytest.mark.long
def test_the_chain_without_biases_tends_to_the_law() -> None:
    ratings = from_profiles([[(0, 5)]], 1, STARS)
    parameters: dict[str, Any] = {
        "epsilon": 6.0,
        "dimensions": 1,
        "biases": False,
        "cap": 2,
        "loss_bound": 30.0,
        "decay": 2.5,
        "mean": 2.0,
        "accept": "any",
        "learning_rate": 1.0,
        "exponent": 0.0,
        "epochs": 80,
        "spread": 1.0,
    }
    defense = SampledFactors(**parameters)
    prepared = defense.prepare(ratings)
    streams = Streams.first(0, "chain", 2048)
    items = defense.train(prepared, streams).public(np.array([0], np.int32)).factors
    assert not items[:, 0, 1].any()
    wanted = (defense.law(prepared).draw(Streams.first(0, "law", 20_000))[:, 0, 0] ** 2).mean()
    square = float((items[:, 0, 0].astype(float) ** 2).mean())
    assert square == pytest.approx(wanted, rel=0.2)
    assert (
        SampledFactors(**{**parameters, "biases": True})
        .train(prepared, streams)
        .public(np.array([0], np.int32))
        .factors[:, 0, 1]
        != 0
    ).all()
