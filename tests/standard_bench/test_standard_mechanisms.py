"""The laws of the standard bench's mechanisms and their true ε, by closed forms and quadrature.

Stochastic assertions: each compares the counts of its events with their exact probabilities at a
false-failure rate of 1e-6 in all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats
from standard_mechanisms import (  # type: ignore[import-not-found]
    BELOW,
    BITS,
    EPSILON,
    GEOMETRIC_RATIO,
    GEOMETRIC_TOP,
    STOPPED,
    Outputs,
    bit_log_ratio,
    bloom,
    laplace,
    noisy_max,
    prefix_sum,
    rappor,
    sparse_vector,
    truncated_geometric,
)
from standard_records import MECHANISMS, Mechanism  # type: ignore[import-not-found]

Floats = NDArray[np.float64]
N = 100_000
BY_NAME = {mechanism.name: mechanism for mechanism in MECHANISMS}


def agree(events: Sequence[NDArray[np.bool_]], probabilities: Sequence[float]) -> bool:
    """Whether each event happened as often as its probability lets it, all together at 1e-6."""
    rate = 1e-6 / len(events)
    p = np.array(probabilities)
    counts = np.array([event.sum() for event in events])
    n = len(events[0])
    low, high = stats.binom.ppf(rate / 2, n, p), stats.binom.isf(rate / 2, n, p)
    return bool(((low <= counts) & (counts <= high)).all())


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def data(*values: float) -> Floats:
    return np.array(values)


# The bench.


def test_the_records_are_of_one_mind() -> None:
    assert len(MECHANISMS) == len(BY_NAME) == 21
    for mechanism in MECHANISMS:
        assert mechanism.correct == (mechanism.truth <= mechanism.claimed_epsilon), mechanism.name
    wrong = {mechanism.name for mechanism in MECHANISMS if not mechanism.correct}
    assert wrong == {
        *("noisy-hist-2", "noisy-max-3", "noisy-max-4", "prefix-sum-all"),
        *("svt-3", "svt-4", "svt-5", "svt-6", "svt-34-parallel"),
    }
    parts = [BY_NAME[name].truth for name in ("svt-3", "svt-4")]
    assert BY_NAME["svt-34-parallel"].truth == pytest.approx(sum(parts))


@pytest.mark.cases("mechanism", MECHANISMS, ids=lambda m: m.name)
def test_outputs_are_finite_numbers_that_the_seed_decides(mechanism: Mechanism) -> None:
    length = 1 if mechanism.neighbours == "any-value" else mechanism.length
    start = np.ones(length)
    first, again, other = (mechanism.run(start, rng(seed), 50) for seed in (1, 1, 2))
    assert len(first) == 50
    assert first.dtype == np.float64
    assert np.isfinite(first).all()
    assert (first == again).all()
    assert (first != other).any()
    assert (start == 1).all()


# Laplace noise.


def laplace_events(outputs: Outputs, centres: Floats, scale: float) -> bool:
    """Whether each coordinate has Laplace's distribution at five points."""
    points = scale * np.array([-2.0, -0.5, 0, 0.5, 2.0])
    return agree(
        [outputs[:, j] <= centre + x for j, centre in enumerate(centres) for x in points],
        [stats.laplace.cdf(x, scale=scale) for _ in centres for x in points],
    )


@pytest.mark.cases(
    ("name", "centres", "scale"),
    [
        ("laplace", [1.0], 10.0),
        ("laplace-parallel", [1.0] * 20, 200.0),
        ("noisy-hist-1", [1.0, 2, 3, 4, 5], 10.0),
        ("noisy-hist-2", [1.0, 2, 3, 4, 5], 0.1),
    ],
)
def test_laplace_law(name: str, centres: list[float], scale: float) -> None:
    start = data(*centres) if "hist" in name else data(1.0)
    outputs = BY_NAME[name].run(start, rng(), N)
    assert outputs.shape == (N, len(centres))
    assert laplace_events(outputs, np.array(centres), scale)
    assert not laplace_events(outputs, np.array(centres), 1.06 * scale)
    # One coordinate moves by 1, in all its copies: ε = copies/scale.
    copies = len(centres) // len(start)
    assert BY_NAME[name].truth == pytest.approx(copies / scale)
    # Independent: the chance that the first and the last are above their centres is ¼.
    if len(centres) > 1:
        assert agree([(outputs[:, [0, -1]] > np.array(centres)[[0, -1]]).all(1)], [0.25])


def test_prefix_sum_law() -> None:
    start = data(1, 0, 2)
    outputs = prefix_sum(start, rng(), N)
    steps = np.diff(outputs, axis=1, prepend=0.0)
    assert laplace_events(steps, start, 10.0)
    assert not laplace_events(outputs, start.cumsum(), 10.0)
    # Below all values of both neighbours every factor of the density moves by e^ε.
    low = np.full(10, -5.0)
    moved = stats.laplace.logpdf(low, 0, 10).sum() - stats.laplace.logpdf(low, 1, 10).sum()
    assert moved == pytest.approx(BY_NAME["prefix-sum-all"].truth)


# Truncated geometric.


def geometric_law(count: int) -> Floats:
    """The probabilities of 0..5 by the distribution function of the two-sided geometric law."""
    a, z = GEOMETRIC_RATIO, np.arange(GEOMETRIC_TOP)
    below = np.where(z < count, a ** (count - z * 1.0), 1 + a - a ** (z - count + 1.0)) / (1 + a)
    return np.diff(np.r_[0.0, below, 1.0])


def test_truncated_geometric_law() -> None:
    for count in range(GEOMETRIC_TOP + 1):
        law = geometric_law(count)
        outputs = truncated_geometric(data(count), rng(count), N)
        assert agree([outputs == z for z in range(6)], law.tolist())
        assert not agree([outputs == z for z in range(6)], geometric_law((count + 1) % 6).tolist())
    ratios = [
        np.abs(np.log(geometric_law(c) / geometric_law(c + 1))).max() for c in range(GEOMETRIC_TOP)
    ]
    assert ratios == pytest.approx([BY_NAME["truncated-geometric"].truth] * 5)
    assert geometric_law(2).sum() == pytest.approx(1)


# Report noisy max.


def first_wins(answers: Floats, noise: str, i: int) -> float:
    """P(answer i is the largest) by quadrature over its noise of scale 20."""
    law = stats.laplace(scale=20) if noise == "laplace" else stats.expon(scale=20)
    others = np.delete(answers, i)
    kinks = sorted({0.0, *(others - answers[i]).tolist()})

    def density(x: float) -> float:
        return float(law.pdf(x) * law.cdf(answers[i] + x - others).prod())

    ends = [-600.0, *kinks, 800.0]
    parts = (integrate.quad(density, *part, limit=200)[0] for part in itertools.pairwise(ends))
    return float(sum(parts))


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
def test_noisy_max_law(noise: str) -> None:
    answers = data(0, 2, 10, 1, 5)
    law = [first_wins(answers, noise, i) for i in range(5)]
    assert sum(law) == pytest.approx(1, abs=1e-7)
    index = noisy_max(answers, rng(), N, noise)
    assert agree([index == i for i in range(5)], law)
    assert not agree([index == i for i in range(5)], law[::-1])
    value = noisy_max(answers, rng(), N, noise, value=True)
    shape = stats.laplace if noise == "laplace" else stats.expon
    points = [-10.0, 5.0, 12.0, 30.0, 60.0, 90.0]
    # P(max ≤ x) = Π F(x − q_j)
    expected = [float(shape.cdf(x - answers, scale=20).prod()) for x in points]
    assert agree([value <= x for x in points], expected)
    assert not agree([value <= x + 2 for x in points], expected)


def test_noisy_max_truth() -> None:
    # Index: exponential noise attains ε at a gap of 2, Laplace noise tends to it.
    attained = math.log(first_wins(data(1, 1), "exponential", 0))
    attained -= math.log(first_wins(data(0, 2), "exponential", 0))
    assert attained == pytest.approx(BY_NAME["noisy-max-2"].truth)
    gap = 400.0
    near = math.log(first_wins(data(1, gap - 1), "laplace", 0))
    near -= math.log(first_wins(data(0, gap), "laplace", 0))
    expected = EPSILON + math.log((1 + gap / 40 - 1 / 20) / (1 + gap / 40))
    assert near == pytest.approx(expected, abs=1e-6)
    assert near < BY_NAME["noisy-max-1"].truth
    # Value: P(max ≤ 0) of answers 0 and of answers 1.
    low = [stats.laplace.cdf(0, loc=q, scale=20) ** 5 for q in (0, 1)]
    assert math.log(low[0] / low[1]) == pytest.approx(BY_NAME["noisy-max-3"].truth)
    values = [noisy_max(data(q, q - 50), rng(), N, "exponential", True) for q in (0.0, 1.0)]
    assert (values[0] < 1).any()
    assert not (values[1] < 1).any()


# Sparse vector: quadrature over the noise of the threshold.


def pattern(
    below: Floats, above: Floats, threshold: float, threshold_scale: float, query_scale: float
) -> float:
    """P(`below` are said to be below and `above` to be above), without a stop in between."""
    far = 60 * threshold_scale + abs(np.r_[below, above]).max()
    step = threshold_scale / 400
    rho = step * np.arange(-math.ceil(far / step), math.ceil(far / step) + 1)
    density = stats.laplace.pdf(rho, scale=threshold_scale)
    for answers, law in ((below, stats.laplace.cdf), (above, stats.laplace.sf)):
        for answer, count in zip(*np.unique(answers, return_counts=True), strict=True):
            density = density * law(threshold + rho - answer, scale=query_scale) ** count
    return float(integrate.trapezoid(density, rho))


# Name: T, scale of ρ, scale of ν, cutoff.
BINARY = {
    "svt-1": (0.5, 20.0, 40.0, 1),
    "svt-2": (1.0, 20.0, 40.0, 1),
    "svt-4": (1.0, 40.0, 40 / 3, 1),
    "svt-6": (1.0, 20.0, 20.0, None),
}


@pytest.mark.cases("name", BINARY)
def test_sparse_vector_law(name: str) -> None:
    threshold, s, t, cutoff = BINARY[name]
    q = data(-3, 10)
    outputs = BY_NAME[name].run(q, rng(), N)
    none = np.empty(0)
    law = {
        (0.0, 0.0): pattern(q, none, threshold, s, t),
        (0.0, 1.0): pattern(q[:1], q[1:], threshold, s, t),
    }
    if cutoff == 1:
        law[1.0, STOPPED] = pattern(none, q[:1], threshold, s, t)
    else:
        law[1.0, 0.0] = pattern(q[1:], q[:1], threshold, s, t)
        law[1.0, 1.0] = pattern(none, q, threshold, s, t)
    assert sum(law.values()) == pytest.approx(1, abs=1e-5)
    events = [(outputs == np.array(output)).all(1) for output in law]
    assert agree(events, list(law.values()))
    # Half the noise of the answers would be seen.
    halved = pattern(q, none, threshold, s, t / 2), pattern(q[:1], q[1:], threshold, s, t / 2)
    assert not agree(events[:2], halved)


def test_sparse_vector_without_noise_on_the_answers() -> None:
    run = BY_NAME["svt-5"].run
    outputs = run(data(0, 1), rng(), N)
    law = {
        (0.0, 0.0): stats.laplace.sf(0, scale=20),
        (0.0, 1.0): 0.5 - stats.laplace.cdf(-1, scale=20),
        (1.0, 1.0): stats.laplace.cdf(-1, scale=20),
    }
    events = [(outputs == np.array(output)).all(1) for output in law]
    assert agree(events, list(law.values()))
    assert sum(event.sum() for event in events) == N
    assert not (run(data(1, 0), rng(), N) == np.array([0.0, 1.0])).all(1).any()


def test_sparse_vector_that_draws_a_new_threshold() -> None:
    """After an answer above, the next is compared with a new threshold: they are independent."""
    q, none = data(3, 3), np.empty(0)
    both = [
        sparse_vector(
            q, rng(), N, threshold_scale=40.0, query_scale=10.0, cutoff=2, redraw=redraw
        ).all(1)
        for redraw in (True, False)
    ]
    one, joint = pattern(none, q[:1], 1, 40, 10), pattern(none, q, 1, 40, 10)
    assert agree([both[0]], [one**2])
    assert agree([both[1]], [joint])
    assert not agree([both[0]], [joint])


def test_sparse_vector_stops_after_its_cutoff() -> None:
    outputs = sparse_vector(
        data(*[5.0] * 6), rng(), 2000, threshold_scale=1.0, query_scale=5.0, cutoff=2
    )
    counts = (outputs == 1).sum(1)
    assert counts.max() == 2
    for row in outputs:
        said = np.flatnonzero(row == 1)
        stop = said[1] + 1 if len(said) == 2 else 6
        assert (row[stop:] == STOPPED).all()
        assert (row[:stop] >= 0).all()


def test_sparse_vector_values() -> None:
    """svt-3 shows the noised answer that it compared, the numerical one a new one."""
    q = data(4, 8)
    outputs = BY_NAME["svt-3"].run(q, rng(), N)
    points = [-10.0, 0.0, 6.0, 20.0]

    def density(y: float) -> float:
        return float(stats.laplace.pdf(y, 4, 20) * stats.laplace.cdf(y - 1, scale=20))

    law = [
        sum(
            integrate.quad(density, *part)[0]
            for part in itertools.pairwise([-600.0, *(k for k in (1.0, 4.0) if k < y), y])
        )
        for y in points
    ]
    shown = outputs[:, 0] > BELOW
    events = [shown & (outputs[:, 0] <= y) for y in points]
    assert agree(events, law)
    assert (outputs[shown, 1] == STOPPED).all()
    one, none = pattern(np.empty(0), q[:1], 1, 20, 20), np.empty(0)
    independent = [one * float(stats.laplace.cdf(y, 4, 20)) for y in points]
    assert not agree(events, independent)

    outputs = BY_NAME["svt-numerical"].run(q, rng(), N)
    above = outputs > BELOW
    joint = pattern(none, q, 1, 30, 120)
    assert agree([above[:, 0], above.all(1)], [pattern(none, q[:1], 1, 30, 120), joint])
    below_both = (outputs <= q).all(1) & above.all(1)
    assert agree([below_both], [joint / 4])
    assert not agree([below_both], [joint / 3])


def shifted(
    below: Floats, above: Floats, moves: tuple[Floats | float, Floats | float], *law: float
) -> float:
    """The log-ratio of a pattern's probability to that after the moves."""
    after = pattern(below + moves[0], above + moves[1], *law)
    return math.log(pattern(below, above, *law) / after)


@pytest.mark.cases(
    ("name", "below", "above", "far", "law"),
    [
        ("svt-1", 9, 1, 200, (0.5, 20, 40)),
        ("svt-2", 9, 1, 200, (1, 20, 40)),
        ("svt-4", 9, 1, 100, (1, 40, 40 / 3)),
        ("svt-6", 5, 5, 200, (1, 20, 20)),
        # With the two values, each ε/6.
        ("svt-numerical", 8, 2, 900, (1, 30, 120)),
    ],
)
def test_sparse_vector_truth_is_attained_in_the_limit(
    name: str, below: int, above: int, far: float, law: tuple[float, ...]
) -> None:
    high, low = np.full(below, far), np.full(above, -far if name == "svt-6" else 0.0)
    found = shifted(high, low, (1, -1), *law)
    extra = 2 * EPSILON / 6 if name == "svt-numerical" else 0.0
    assert found + extra == pytest.approx(BY_NAME[name].truth, abs=1e-4)
    # Nearer to the threshold it is less.
    near = shifted(high / far, low / far, (1, -1), *law) + extra
    assert near < min(found + extra, BY_NAME[name].truth) - 5e-5


@pytest.mark.long
@pytest.mark.parametrize("name", BINARY)
def test_sparse_vector_never_exceeds_its_truth(name: str) -> None:
    """All patterns of three answers, for 9 neighbours at random."""
    threshold, s, t, cutoff = BINARY[name]
    # Of length 3, svt-6 has ε = 3/t.
    truth = 3 / t if name == "svt-6" else BY_NAME[name].truth
    generator, worst = rng(3), 0.0
    for scale in [1.0, 20.0, 100.0] * 3:
        q, move = scale * generator.normal(size=3), generator.choice([-1.0, 0.0, 1.0], 3)
        for said in itertools.product([False, True], repeat=3):
            above = np.array(said)
            seen = np.ones(3, np.bool_)
            if cutoff == 1 and above.any():
                seen = np.arange(3) <= above.argmax()
                above &= seen
            below = seen & ~above
            ratio = shifted(q[below], q[above], (move[below], move[above]), threshold, s, t)
            worst = max(worst, abs(ratio))
    assert 0.3 * truth < worst <= truth + 1e-9


def test_sparse_vector_with_its_value_has_half_epsilon_for_each_answer() -> None:
    """svt-3: the density of nine answers below and a low value, for answers 0 and 1."""
    value, rho = -5.0, -np.linspace(0, 1200, 200_001)
    densities = []
    for q in (0.0, 1.0):
        # The threshold 1 + ρ is at most the value: ρ ≤ value − 1.
        inside = stats.laplace.pdf(value - 1 + rho, scale=20)
        inside *= stats.laplace.cdf(value + rho - q, scale=20) ** 9
        densities.append(integrate.trapezoid(inside, rho) * stats.laplace.pdf(value, q, 20))
    assert math.log(densities[0] / densities[1]) == pytest.approx(BY_NAME["svt-3"].truth)


# RAPPOR.


@pytest.mark.parametrize(
    ("name", "one", "zero"), [("rappor", 0.5125, 0.4875), ("rappor-one-time", 0.525, 0.475)]
)
def test_rappor_law(name: str, one: float, zero: float) -> None:
    bits = bloom(3)
    assert 0 < bits.sum() <= 4
    outputs = BY_NAME[name].run(data(3), rng(), N)
    rates = np.where(bits, one, zero)
    assert agree(list((outputs == 1).T), rates.tolist())
    assert not agree(list((outputs == 1).T), rates[::-1].tolist())
    assert agree([(outputs[:, :2] == 1).all(1)], [float(rates[:2].prod())])
    # Every bit in which two filters differ adds ln(one/zero).
    filters = [bloom(value) for value in range(1, BY_NAME[name].length + 1)]
    most = max(int((a != b).sum()) for a in filters for b in filters)
    assert most * math.log(one / zero) == pytest.approx(BY_NAME[name].truth)
    # Erlingsson et al., Theorem 1 and the bound of one report.
    paper = 4 * math.log(one * (1 - zero) / (zero * (1 - one)))
    assert BY_NAME[name].truth == pytest.approx(paper)


def test_rappor_steps() -> None:
    assert bit_log_ratio(0.95) == pytest.approx(math.log(0.525 / 0.475))
    # Without randomness it shows the filter; with f = 1 a coin that ignores the value.
    assert (rappor(data(3), rng(), 5, 0.0) == bloom(3)).all()
    fair = rappor(data(3), rng(), N, 1.0)
    assert agree(list((fair == 1).T), [0.5] * BITS)
    assert len({bloom(value).tobytes() for value in range(1, 11)}) == 10
    assert laplace(data(1.0), rng(), 3).shape == (3, 1)
