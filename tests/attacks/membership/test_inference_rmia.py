"""The robust attack against a literal double loop of equations 2 to 4 of arXiv:2312.03262."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from dpaudit.attacks.base import Signals
from dpaudit.attacks.membership.inference import Rmia

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
T, R, M, P = 4, 12, 6, 9


def signals(seed: int = 0, population: int = P) -> tuple[Signals, Signals, Mask]:
    rng = np.random.default_rng(seed)
    present = rng.random((R, M)) < 0.5
    parts = []
    for count, shift in ((T, 0.0), (R, present.astype(float))):
        fit = 3 + 2 * rng.normal(size=(count, M)) + shift
        parts.append(Signals(fit[:, :, None], fit, 3 + 2 * rng.normal(size=(count, population))))
    return parts[0], parts[1], present


def literal(
    seen: Signals, reference: Signals, present: Mask, gamma: float, a: float | None
) -> Numbers:
    """Σ_z 1[(p(x|θ)/p(x)) / (p(z|θ)/p(z)) ≥ γ] / P; offline with the weight a."""
    center, spread = reference.fit.mean(), reference.fit.std()

    def p(fit: float) -> float:
        return float(expit((fit - center) / spread))

    scores = np.zeros((T, M))
    for t in range(T):
        for x in range(M):
            inside = [p(reference.fit[r, x]) for r in range(R) if present[r, x]]
            outside = [p(reference.fit[r, x]) for r in range(R) if not present[r, x]]
            if a is None:
                p_x = (np.mean(inside) + np.mean(outside)) / 2
            else:
                p_x = ((1 + a) * np.mean(outside) + (1 - a)) / 2
            ratio_x = p(seen.fit[t, x]) / p_x
            for z in range(P):
                p_z = np.mean([p(reference.population[r, z]) for r in range(R)])
                ratio_z = p(seen.population[t, z]) / p_z
                scores[t, x] += (ratio_x / ratio_z >= gamma) / P
    return scores


@pytest.mark.cases("gamma", [1.0, 1.3, 3.0])
@pytest.mark.cases("seed", range(3))
def test_online_counts_the_population_that_is_beaten(gamma: float, seed: int) -> None:
    arguments = signals(seed)
    expected = literal(*arguments, gamma, None)
    assert Rmia(gamma=gamma).score(*arguments) == pytest.approx(expected)
    assert len(np.unique(expected)) > 2


@pytest.mark.cases("a", [0.0, 0.3, 1.0])
def test_offline_estimates_the_models_with_the_target(a: float) -> None:
    arguments = signals(4)
    scores = Rmia(online=False, a=a).score(*arguments)
    assert scores == pytest.approx(literal(*arguments, 1.0, a))
    seen, reference, present = arguments
    moved = reference.fit.copy()
    # Swapping the values of models with a target among themselves is not seen.
    for x in range(M):
        moved[present[:, x], x] = moved[present[:, x], x][::-1]
    other = Signals(reference.features, moved, reference.population)
    assert Rmia(online=False, a=a).score(seen, other, present) == pytest.approx(scores)


def test_equal_ratios_count_as_beaten_at_factor_1() -> None:
    seen, reference, present = signals(5)
    for of in (seen, reference):
        of.fit[:], of.population[:] = 0.0, 0.0
    assert (Rmia().score(seen, reference, present) == 1).all()
    assert (Rmia(gamma=1.01).score(seen, reference, present) == 0).all()


def test_without_a_population_the_score_is_the_ratio_itself() -> None:
    seen, reference, present = signals(6, population=0)
    scores = Rmia().score(seen, reference, present)
    center, spread = reference.fit.mean(), reference.fit.std()
    p = expit((reference.fit - center) / spread)
    for x in range(M):
        p_x = (p[present[:, x], x].mean() + p[~present[:, x], x].mean()) / 2
        probability = expit((seen.fit[:, x] - center) / spread)
        assert scores[:, x] == pytest.approx(np.log(probability / p_x))


@pytest.mark.cases("online", [False, True])
@pytest.mark.cases("every", [False, True])
@pytest.mark.cases("population", [0, P])
def test_targets_that_all_or_no_trainings_have_get_finite_scores(
    online: bool, every: bool, population: int
) -> None:
    seen, reference, present = signals(7, population)
    present[:, 0] = every
    assert np.isfinite(Rmia(online=online).score(seen, reference, present)).all()
    none = np.full_like(present, every)
    assert np.isfinite(Rmia(online=online).score(seen, reference, none)).all()


@pytest.mark.cases("online", [False, True])
@pytest.mark.cases("a", [0.0, 1.0])
@pytest.mark.cases("population", [0, P])
@pytest.mark.cases("scale", [0.0, 1e-45, 1e38])
def test_extreme_fits_give_finite_scores(
    online: bool, a: float, population: int, scale: float
) -> None:
    seen, reference, present = signals(8, population)
    for of in (seen, reference):
        for signal in of[:3]:
            signal *= scale  # noqa: PLW2901
    seen.fit[1, 2] = -3e38
    reference.fit[:, 1] = -1e4 * scale
    scores = Rmia(online=online, a=a).score(seen, reference, present)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("online", [False, True])
def test_units_and_offsets_of_the_fit_change_nothing(online: bool) -> None:
    seen, reference, present = signals(9)
    moved = [
        Signals(of.features * 1e10 + 3e9, of.fit * 1e10 + 3e9, of.population * 1e10 + 3e9)
        for of in (seen, reference)
    ]
    expected = Rmia(online=online).score(seen, reference, present)
    assert Rmia(online=online).score(moved[0], moved[1], present) == pytest.approx(expected)


def test_the_weight_is_chosen_by_the_attackers_trainings_alone() -> None:
    seen, reference, present = signals(10)
    # Fits of about expit: presence scales p, so a weight of 1 undoes p_out best.
    chosen = Rmia(online=False).score(seen, reference, present)
    every = [
        Rmia(online=False, a=tenth / 10).score(seen, reference, present) for tenth in range(11)
    ]
    assert any(np.array_equal(chosen, one) for one in every)
    other = Rmia(online=False).score(seen, reference, ~present)
    again = Rmia(online=False).score(seen, reference, present)
    np.testing.assert_array_equal(chosen, again)
    assert not np.array_equal(chosen, other)


def test_offline_chooses_a_weight_where_one_training_outweighs_all_others() -> None:
    """What the others leave of a mean rounds to nothing, or to less."""
    rng = np.random.default_rng(0)
    present = rng.random((3, 4000)) < 0.5
    fit, others = rng.normal(size=(3, 4000)), rng.normal(size=(3, P))
    present[:, 0], fit[1:, 0] = False, -1e4
    seen, reference = (Signals(fit[:n, :, None], fit[:n], others[:n]) for n in (1, 3))
    assert np.isfinite(Rmia(online=False).score(seen, reference, present)).all()
