"""Accounted ε against integrals of the densities, known figures and the closed forms."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting import (
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from dpaudit.bounds import accounting
from dpaudit.bounds.accounting import (
    Neighbors,
    gaussian_mechanism_epsilon,
    laplace_epsilon,
    laplace_vector_epsilon,
)
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

ORACLE = json.loads(
    (Path(__file__).parents[1] / "oracles" / "epsilon_bounds.json").read_text("utf-8")
)["accounting"]


def is_exact(estimate: Estimate) -> bool:
    same = estimate.lower == estimate.value == estimate.upper
    return estimate.kind == "exact" and same and estimate.confidence == 1


def laplace_profile(epsilon: float, shift: float) -> float:
    """δ(ε) of Lap(shift, 1) against Lap(0, 1) by quadrature of (p − e^ε q)+."""

    def excess(x: float) -> float:
        p, q = math.exp(-abs(x - shift)) / 2, math.exp(-abs(x)) / 2
        return max(0.0, p - math.exp(epsilon) * q)

    # Beyond 0 and `shift` the loss is constant: the excess is that of the edge, times a tail of 1.
    middle: float = integrate.quad(excess, 0, shift, points=[(shift + epsilon) / 2])[0]
    return middle + excess(0.0) + excess(shift)


@pytest.mark.cases("shift", [0.1, 1.0, 6.0])
@pytest.mark.cases("share", [0.0, 0.3, 0.9])
def test_laplace_epsilon_inverts_the_hockey_stick(shift: float, share: float) -> None:
    delta = laplace_profile(share * shift, shift)
    epsilon = laplace_epsilon(-2.5 * shift, 2.5, delta=delta)
    assert is_exact(epsilon)
    assert epsilon.value == pytest.approx(share * shift, abs=1e-7)


def test_laplace_epsilon_at_its_ends() -> None:
    assert laplace_epsilon(0.4, 0.5).value == 0.8
    # At ε = 0, δ is the total variation 1 − e^{−d/2}.
    total_variation = -math.expm1(-0.4)
    assert laplace_epsilon(0.4, 0.5, delta=total_variation * 1.001).value == 0
    assert laplace_epsilon(0.4, 0.5, delta=total_variation * 0.999).value > 0
    assert laplace_epsilon(0.0, 0.5).value == 0
    assert laplace_epsilon(0.0, 0.0).value == 0
    assert is_exact(laplace_epsilon(0.1, 0.0, delta=0.5))
    assert laplace_epsilon(0.1, 0.0, delta=0.5).value == math.inf


def pair_profile(epsilon: float, first: float, second: float) -> float:
    """δ(ε) of two coordinates: the mean over the first's loss of the second's δ(ε − loss)."""

    def rest(level: float) -> float:
        if level >= second:
            return 0.0
        return -math.expm1(level if level < -second else (level - second) / 2)

    # Under Lap(first, 1): loss `first` above first, −first below 0, else 2x − first.
    atoms = rest(epsilon - first) / 2 + math.exp(-first) / 2 * rest(epsilon + first)
    kinks = [(epsilon + first + sign * second) / 2 for sign in (-1, 1)]
    inside: float = integrate.quad(
        lambda x: math.exp(x - first) / 2 * rest(epsilon - 2 * x + first),
        0,
        first,
        points=[kink for kink in kinks if 0 < kink < first],
        epsabs=1e-13,
    )[0]
    return atoms + inside


@pytest.mark.long
@pytest.mark.parametrize(
    ("shifts", "delta"), [((0.5, 0.5), 1e-3), ((0.3, 2.0), 0.05), ((2.0, 3.0), 1e-6)]
)
def test_laplace_vector_encloses_the_truth(shifts: tuple[float, float], delta: float) -> None:
    truth = optimize.brentq(lambda e: pair_profile(e, *shifts) - delta, 0, sum(shifts))
    estimate = laplace_vector_epsilon(np.array(shifts) * [1.5, -1.5], 1.5, delta=delta)
    assert estimate.kind == "assumes-law"
    assert estimate.lower <= truth + 1e-9
    assert truth <= estimate.upper + 1e-9
    assert estimate.value == estimate.upper
    assert estimate.upper - estimate.lower < 1e-4 * sum(shifts)


def test_laplace_vector_exact_cases() -> None:
    shifts = [0.1, -0.7, 0.0, 2.2]
    pure = laplace_vector_epsilon(shifts, 0.5)
    assert is_exact(pure)
    assert pure.value == pytest.approx(6.0)
    alone = laplace_vector_epsilon([0.0, 0.7, 0.0], 0.5, delta=0.01)
    assert alone == laplace_epsilon(0.7, 0.5, delta=0.01)
    assert laplace_vector_epsilon([0.0, 0.0], 0.5).value == 0
    assert laplace_vector_epsilon([1.0, 2.0], 0.0, delta=0.1).value == math.inf


@pytest.mark.long
def test_laplace_vector_counts_equal_shifts() -> None:
    # 20 equal shifts are composed at once; 20 that differ in the 12th digit one by one.
    equal = laplace_vector_epsilon(np.full(20, 0.1), 1.0, delta=0.01)
    apart = laplace_vector_epsilon(0.1 + 1e-13 * np.arange(20), 1.0, delta=0.01)
    assert equal.value == pytest.approx(apart.value, abs=1e-6)
    assert equal.lower == pytest.approx(apart.lower, abs=20 * 2 / 5e4)  # a step each
    assert equal.lower < equal.upper < 1  # far from the pure 2


@pytest.mark.long
def test_laplace_vector_of_huge_losses() -> None:
    # e^−800 is 0 in floats. Adding 799 to two large shifts adds 799 to ε at a fixed δ.
    near = laplace_vector_epsilon([20.0, 20.0], 1.0, delta=0.1)
    far = laplace_vector_epsilon([420.0, 419.0], 1.0, delta=0.1)
    assert far.lower <= near.upper + 799
    assert near.lower + 799 <= far.upper
    assert far.upper - far.lower < 839 / 5e4 * 2  # two coordinates, a step each


def hockey_stick(p: stats.rv_continuous, q: stats.rv_continuous, epsilon: float) -> float:
    """δ(ε) of two densities on a line by the trapezoidal rule."""
    x = np.linspace(-20, 20, 100_001)
    return float(np.trapezoid(np.maximum(0.0, p(x) - math.exp(epsilon) * q(x)), x))


@pytest.mark.long
@pytest.mark.parametrize("row", ORACLE)
def test_gaussian_oracle(row: dict[str, Any]) -> None:
    estimate = gaussian_mechanism_epsilon(
        row["sigma"] / row["sensitivity"],
        delta=row["delta"],
        compositions=row["T"],
        sampling=row["q"],
        neighbors="replace" if "REPLACE" in row["method"] else "add-remove",
    )
    assert estimate.value == pytest.approx(row["eps"], rel=1e-4)
    assert is_exact(estimate) == (row["q"] == 1)
    assert estimate.lower > 0.9 * row["eps"]


@pytest.mark.parametrize(("sigma", "rounds", "delta"), [(0.7, 1, 1e-3), (3.0, 9, 1e-9)])
def test_gaussian_closed_form(sigma: float, rounds: int, delta: float) -> None:
    estimate = gaussian_mechanism_epsilon(sigma, delta=delta, compositions=rounds)
    mu, epsilon = math.sqrt(rounds) / sigma, estimate.value
    cdf = stats.norm.cdf
    profile = cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * cdf(-mu / 2 - epsilon / mu)
    assert profile == pytest.approx(delta, rel=1e-6)
    # Replacing a record moves the sum twice as far.
    replaced = gaussian_mechanism_epsilon(
        2 * sigma, delta=delta, compositions=rounds, neighbors="replace"
    )
    assert replaced.value == pytest.approx(epsilon)


@pytest.mark.long
@pytest.mark.parametrize(
    ("neighbors", "sigma", "sampling", "delta"),
    [("add-remove", 0.6, 0.2, 1e-3), ("replace", 2.0, 0.5, 1e-2)],
)
def test_subsampled_gaussian_encloses_the_truth(
    neighbors: Neighbors, sigma: float, sampling: float, delta: float
) -> None:
    def mixture(shift: float) -> Callable[[Any], Any]:
        pdf = stats.norm.pdf
        return lambda x: (1 - sampling) * pdf(x, 0, sigma) + sampling * pdf(x, shift, sigma)

    other = mixture(-1.0) if neighbors == "replace" else mixture(0.0)
    pairs = [(mixture(1.0), other), (other, mixture(1.0))]

    def truth(epsilon: float) -> float:
        return max(hockey_stick(*pair, epsilon) for pair in pairs) - delta

    epsilon = optimize.brentq(truth, 0, 20, xtol=1e-9) if truth(0.0) > 0 else 0.0
    estimate = gaussian_mechanism_epsilon(
        sigma, delta=delta, sampling=sampling, neighbors=neighbors
    )
    assert epsilon > 0.1
    assert estimate.lower <= epsilon + 1e-6
    assert epsilon <= estimate.upper + 1e-6
    assert estimate.upper - estimate.lower < 1e-3


@pytest.mark.cases(("sampling", "gamma"), [(0.1, 1.0), (0.1, 1.3), (0.5, 2.0), (0.9, 4.0)])
def test_opposite_parts_dominate_a_replaced_record(sampling: float, gamma: float) -> None:
    # Of any two parts of norm at most 1, on a grid of the plane that holds them and the origin.
    axis = np.linspace(-7, 7, 281)
    z = np.stack(np.meshgrid(axis, axis))
    cell = (axis[1] - axis[0]) ** 2

    def law(length: float, angle: float) -> Any:
        centre = length * np.array([math.cos(angle), math.sin(angle)])[:, None, None]
        normal = np.exp(-((z - centre) ** 2).sum(0) / 2)
        return ((1 - sampling) * np.exp(-(z**2).sum(0) / 2) + sampling * normal) / (2 * math.pi)

    def divergence(first: Any, second: Any) -> float:
        return float(np.maximum(first - gamma * second, 0).sum() * cell)

    opposite = divergence(law(1, 0), law(1, math.pi))
    divergences = [
        divergence(law(one, 0), law(other, angle))
        for one in (0.0, 0.5, 1.0)
        for other in (0.0, 0.5, 1.0)
        for angle in np.linspace(0, math.pi, 7)
    ]
    assert max(divergences) == pytest.approx(opposite, abs=1e-6)
    # Each step of the proof: turning away, then growing longer.
    turned = [divergence(law(1, 0), law(1, angle)) for angle in np.linspace(0, math.pi, 13)]
    assert np.all(np.diff(turned) > 0)


SMALL = (1e-3, 1e-8, 1e-11, 1e-12, 1e-15, 1e-30, 1e-60)


@pytest.mark.long
@pytest.mark.parametrize("neighbors", ["add-remove", "replace"])
def test_epsilon_is_the_least_of_renyi_and_losses_at_any_delta(
    neighbors: Neighbors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounting, "_STEPS", 5e3)
    sigma, q, rounds = 1.0, 0.05, 40
    one = from_gaussian_mechanism(
        sigma,
        value_discretization_interval=1e-3,
        sampling_prob=q,
        neighboring_relation=NeighboringRelation.REPLACE_ONE
        if neighbors == "replace"
        else NeighboringRelation.ADD_OR_REMOVE_ONE,
    )
    losses, moments = one.self_compose(rounds), RdpAccountant()
    event = PoissonSampledDpEvent(q, GaussianDpEvent(sigma))
    moments.compose(SelfComposedDpEvent(event, rounds))
    before = 0.0
    for delta in SMALL:
        estimate = gaussian_mechanism_epsilon(
            sigma, delta=delta, compositions=rounds, sampling=q, neighbors=neighbors
        )
        if delta >= 1e-11:
            composed = losses.get_epsilon_for_delta(delta)
            assert estimate.upper < 1.02 * composed
            assert 0.95 * composed < estimate.lower
        else:
            # The shift is twice as large for a replaced record, but at such δ the rounds that
            # include it dominate, and these are alike.
            most = 1.002 if neighbors == "add-remove" else 1.4
            assert estimate.upper < most * moments.get_epsilon(delta)
        assert before <= estimate.lower <= estimate.upper
        # Without sampling it would be up to 124 or 285.
        assert estimate.upper < 30
        before = estimate.lower


@pytest.mark.long
@given(
    sigma=st.floats(0.4, 20), more=st.floats(1.05, 3), q=st.floats(1e-3, 0.5),
    rounds=st.integers(1, 100), neighbors=st.sampled_from(["add-remove", "replace"]),
    logs=st.tuples(st.floats(-138, -2), st.floats(-138, -2)),
)  # fmt: skip
@settings(deadline=None, max_examples=8)
def test_epsilon_falls_with_delta_and_with_noise(
    sigma: float,
    more: float,
    q: float,
    rounds: int,
    neighbors: Neighbors,
    logs: tuple[float, float],
) -> None:
    def upper(noise: float, log_delta: float) -> float:
        return gaussian_mechanism_epsilon(
            noise, delta=math.exp(log_delta), compositions=rounds, sampling=q, neighbors=neighbors
        ).upper

    low, high = sorted(logs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accounting, "_STEPS", 5e2)
        assert upper(sigma, high) <= upper(sigma, low) * (1 + 1e-9)
        # The grid depends on the noise, which a coarse one shows by a few percent.
        assert upper(sigma * more, high) <= upper(sigma, high) * 1.05 + 1e-6


@pytest.mark.long
def test_epsilon_of_a_laplace_vector_at_any_delta() -> None:
    # At most as large as without the composition, 8 (Proposition 6 of Mironov 2017 at order ∞).
    uppers = [laplace_vector_epsilon(np.full(400, 0.02), 1.0, delta=delta).upper for delta in SMALL]
    assert np.all(np.diff(uppers) > 0)
    assert uppers[3] == pytest.approx(uppers[2], rel=0.15)
    assert uppers[-1] < 7


@pytest.mark.cases("delta", SMALL)
def test_a_lower_end_at_any_delta_is_at_least_that_of_one_round(delta: float) -> None:
    # (1 − q) N(0, σ²) + q N(1, σ²) against N(0, σ²), by the sets {x ≥ c}.
    q, sigma = 0.1, 0.8
    c = np.linspace(0, 30, 30_001)
    ahead, behind = stats.norm.logsf((c - 1) / sigma), stats.norm.logsf(c / sigma)
    present = np.logaddexp(math.log1p(-q) + behind, math.log(q) + ahead)
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = present + np.log1p(-delta / np.exp(present)) - behind
    bound = accounting._one_round(sigma, delta, q)
    assert bound == pytest.approx(np.nanmax(bounds), rel=1e-6)


@pytest.mark.long
def test_sampling_of_nearly_all_is_no_sampling() -> None:
    whole = gaussian_mechanism_epsilon(2.0, delta=1e-5)
    almost = gaussian_mechanism_epsilon(2.0, delta=1e-5, sampling=1 - 1e-9)
    assert almost.value == pytest.approx(whole.value, rel=1e-5)
    assert almost.upper <= whole.value


def test_gaussian_ends() -> None:
    assert gaussian_mechanism_epsilon(1.0, delta=0.0).value == math.inf
    assert gaussian_mechanism_epsilon(1.0, delta=0.0, sampling=0.1).value == math.inf
    total_variation = 2 * stats.norm.cdf(0.5) - 1
    assert gaussian_mechanism_epsilon(1.0, delta=total_variation + 1e-9).value == 0
    assert gaussian_mechanism_epsilon(1.0, delta=total_variation - 1e-3).value > 0
    assert gaussian_mechanism_epsilon(1e200, delta=1e-5).value == 0


@pytest.mark.cases(
    ("call", "field"),
    [
        (lambda: laplace_epsilon(math.nan, 1.0), "shifts[0]"),
        (lambda: laplace_epsilon(1.0, -1.0), "scale"),
        (lambda: laplace_epsilon(1.0, math.nan), "scale"),
        (lambda: laplace_epsilon(1.0, math.inf), "scale"),
        (lambda: laplace_epsilon(1.0, 1.0, delta=1.0), "delta"),
        (lambda: laplace_epsilon(1.0, 1.0, delta=math.nan), "delta"),
        (lambda: laplace_vector_epsilon([0.1, math.inf], 1.0), "shifts[1]"),
        (lambda: laplace_vector_epsilon([], 1.0), "shifts"),
        (lambda: laplace_vector_epsilon([[1.0]], 1.0), "shifts"),
        (lambda: laplace_vector_epsilon(["a"], 1.0), "shifts"),
        (lambda: gaussian_mechanism_epsilon(0.0, delta=1e-5), "noise_multiplier"),
        (lambda: gaussian_mechanism_epsilon(math.nan, delta=1e-5), "noise_multiplier"),
        (lambda: gaussian_mechanism_epsilon(1e-7, delta=1e-5), "noise_multiplier"),
        (lambda: gaussian_mechanism_epsilon(1.0, delta=-0.1), "delta"),
        (lambda: gaussian_mechanism_epsilon(1.0, delta=0.1, compositions=0), "compositions"),
        (lambda: gaussian_mechanism_epsilon(1.0, delta=0.1, compositions=True), "compositions"),
        (lambda: gaussian_mechanism_epsilon(1.0, delta=0.1, sampling=0.0), "sampling"),
        (lambda: gaussian_mechanism_epsilon(1.0, delta=0.1, sampling=math.nan), "sampling"),
        (
            lambda: gaussian_mechanism_epsilon(1.0, delta=0.1, neighbors="user"),  # type: ignore[arg-type]
            "neighbors",
        ),
    ],
)
def test_bad_input_is_refused(call: Callable[[], Estimate], field: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value).startswith(field)
