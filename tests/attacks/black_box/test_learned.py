"""Test the learned score: near-optimal if the optimum is known, equal on atoms, reproducible.

Seeds are fixed, so that no assertion fails by chance; rates are given for a change of seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpaudit.attacks.black_box.encoding import Outputs
from dpaudit.attacks.black_box.learned import LearnedScore
from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.core.errors import InputError

Floats = NDArray[np.float64]
N = 20_000


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def advantage(absent: Floats, present: Floats) -> float:
    """The largest P(score > t) − Q(score > t)."""
    pooled = np.concatenate((absent, present))
    above = [1 - np.searchsorted(np.sort(s), pooled, "right") / len(s) for s in (absent, present)]
    return float((above[1] - above[0]).max())


def laplace_log_ratio(values: Floats, absent: Floats, present: Floats, scale: float) -> Floats:
    ratios: Floats = ((abs(values - absent) - abs(values - present)) / scale).sum(1)
    return ratios


@pytest.mark.long
def test_laplace_has_nearly_the_best_power() -> None:
    # 100 000 fresh outputs a trial: deviations of 0.01 have the rate 1e-6.
    generator = rng(1)

    def outputs(at: float, n: int) -> Floats:
        """Rounding: the low bits of a floating-point sum reveal the summand."""
        return generator.laplace(at, 1, n).round(6)

    score = LearnedScore.fit(outputs(0, N), outputs(1, N), 0)
    fresh = [outputs(at, 100_000) for at in (0, 1)]
    absent, present = (score.score(values) for values in fresh)
    best = 1 - np.exp(-0.5)
    assert best - 0.015 < advantage(absent, present) < best + 0.01
    # The tail: the events of the largest ratio, which is e.
    rates = label_epsilon(absent, present, seed=0)[1].rates
    assert abs(np.log(rates[1] / rates[0])) == pytest.approx(1, abs=0.05)
    # A score in the wrong order does not reach it.
    assert advantage(-absent, -present) < 0.01


@pytest.mark.long
def test_differences_of_running_sums() -> None:
    """Every step of a running sum is shifted by 1; the sums alone reveal far less."""
    generator = rng(2)
    steps = [generator.laplace(at, 2, (2 * N, 6)) for at in (0, 1)]
    absent, present = (step.cumsum(1) for step in steps)
    score = LearnedScore.fit(absent[:N], present[:N], 0)
    achieved = advantage(score.score(absent[N:]), score.score(present[N:]))
    zero, one = np.zeros(6), np.ones(6)
    best = advantage(*(laplace_log_ratio(step[N:], zero, one, 2) for step in steps))
    total = advantage(absent[N:, -1], present[N:, -1])
    assert achieved > best - 0.02
    assert achieved > total + 0.03


def marked(generator: np.random.Generator, at: float, n: int) -> Floats:
    """Six entries, all but one a mark; the value of the other one distinguishes D and D'."""
    values = np.full((n, 6), -1000.0)
    values[np.arange(n), generator.integers(6, size=n)] = generator.laplace(at, 1, n).round(6)
    return values


@pytest.mark.long
def test_answers_among_marks() -> None:
    generator = rng(3)
    absent, present = (marked(generator, at, 2 * N) for at in (0, 1))
    score = LearnedScore.fit(absent[:N], present[:N], 0)
    achieved = advantage(score.score(absent[N:]), score.score(present[N:]))
    assert 1 - np.exp(-0.5) - 0.02 < achieved < 1 - np.exp(-0.5) + 0.02


@pytest.mark.long
def test_patterns_of_bits_by_their_frequencies() -> None:
    """Parity: single bits and pairs of bits carry no information."""
    generator = rng(4)
    bits = generator.integers(0, 2, (8 * N, 4))
    odd = bits.sum(1) % 2 == 1
    keep = generator.random(len(bits)) < np.where(odd, 0.75, 0.25)
    absent, present = bits[~keep][: 2 * N], bits[keep][: 2 * N]
    score = LearnedScore.fit(absent[:N], present[:N], 0)
    scores = score.score(np.array([[0, 0, 0, 1], [0, 0, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]]))
    assert advantage(score.score(absent[N:]), score.score(present[N:])) == pytest.approx(
        0.5, abs=0.02
    )
    assert (scores > 0).tolist() == [True, False, True, False]
    # P/Q = 3 for odd, 1/3 for even patterns, each of 1/16 of 2N outputs: 5 deviations are 0.25.
    assert np.abs(scores) == pytest.approx(np.log(3), abs=0.25)


def test_words_and_unseen_words() -> None:
    absent = ["no"] * 300 + ["maybe"] * 100
    present = ["no"] * 100 + ["yes"] * 300
    score = LearnedScore.fit(absent, present, 0)
    no, maybe, yes, again, unseen = score.score(["no", "maybe", "yes", "no", "hm"])
    assert maybe < no < yes
    assert no == again
    assert np.isfinite([no, maybe, yes, unseen]).all()
    assert no == pytest.approx(np.log(1 / 3), abs=0.2)
    # An array of words holds words.
    assert score.score(np.array(["yes"]))[0] == yes


@pytest.mark.long
def test_sequences_of_varying_length() -> None:
    generator = rng(5)

    def outputs(mean: float) -> list[list[float]]:
        return [[1.0] * length for length in generator.poisson(mean, 2000)]

    score = LearnedScore.fit(outputs(2), outputs(4), 0)
    scores = score.score([[1.0] * length for length in (0, 2, 4, 6, 40)])
    assert scores[0] < scores[1] < scores[2] < scores[3]
    # ln(e^(−2)·2^k), for k = 0, 2, 4: two hundred outputs or more of either data set.
    assert scores[1:3] == pytest.approx(np.log(2) * np.array([2, 4]) - 2, abs=0.35)
    assert np.isfinite(scores).all()
    words = LearnedScore.fit([["a"], ["a", "b"]] * 20, [["b"], ["b", "a"]] * 20, 0)
    assert words.score([("a",), ("a", "b")]).max() < words.score([("b",), ("b", "a")]).min()


CASES: dict[str, tuple[Outputs, Outputs]] = {
    "laplace": (rng(6).laplace(0, 1, (3000, 3)), rng(7).laplace(1, 1, (3000, 3))),
    "integers": (rng(6).poisson(3, 3000), rng(7).poisson(4, 3000)),
    "marks": (marked(rng(6), 0, 3000), marked(rng(7), 1, 3000)),
    "wide": (rng(6).normal(0, 1, (1500, 4, 5)), rng(7).normal(0.2, 1, (1500, 4, 5))),
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_equal_outputs_have_equal_scores(case: str) -> None:
    """However they are batched, and in both trials."""
    absent, present = (np.asarray(outputs) for outputs in CASES[case])
    score = LearnedScore.fit(absent, present, 0)
    scores = score.score(absent)
    assert scores.shape == (len(absent),)
    assert np.isfinite(scores).all()
    assert (score.score(absent[::-1])[::-1] == scores).all()
    assert (score.score(np.concatenate((present[:7], absent)))[7:] == scores).all()
    assert [score.score(absent[i : i + 1])[0] for i in range(40)] == scores[:40].tolist()
    assert len(np.unique(scores)) > 5


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_the_seed_alone_decides(case: str) -> None:
    absent, present = CASES[case]
    first = LearnedScore.fit(absent, present, 3)
    with threadpool_limits(2):
        second = LearnedScore.fit(absent, present, 3)
    assert first.name == second.name
    assert (first.score(present) == second.score(present)).all()
    # Integers have few outputs, whose frequencies are the same for all splits; trees are fitted to
    # all outputs.
    if case not in {"integers", "laplace"}:
        other = LearnedScore.fit(absent, present, 4)
        assert (first.score(present) != other.score(present)).any()


@pytest.mark.long
def test_equal_trials_certify_nothing() -> None:
    # Rate 1e-6: the level of the bound.
    generator = rng(8)
    outputs = generator.normal(size=(4, N, 3))
    score = LearnedScore.fit(outputs[0], outputs[1], 0)
    bound, _ = label_epsilon(score.score(outputs[2]), score.score(outputs[3]), alpha=1e-6)
    assert bound.lower == 0
    # Constant outputs carry no information, which is not an error.
    same = LearnedScore.fit(np.ones(20), np.ones(20), 0)
    assert same.score([1.0, 1.0, 5.0]).tolist() == [0.0, 0.0, 0.0]
    assert LearnedScore.fit([[]] * 20, [[]] * 20, 0).score([[], [3.0]]).tolist() == [0.0, 0.0]


GOOD = np.arange(20.0)


@pytest.mark.cases(
    ("absent", "present", "problem"),
    [
        (np.empty(0), GOOD, "absent are empty"),
        ([], GOOD, "absent are empty"),
        (np.array(1.0), GOOD, "absent are empty"),
        (GOOD[:9], GOOD, "absent has 9 outputs: give at least 10"),
        (GOOD, GOOD[:9], "present has 9 outputs"),
        (
            [object()] * 20,
            [object()] * 20,
            "returned objects of type object, in which nothing can be read",
        ),
    ],
)
def test_bad_outputs_are_refused(absent: Any, present: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        LearnedScore.fit(absent, present, 0)


def test_no_output_has_no_score() -> None:
    score = LearnedScore.fit(GOOD, GOOD + 5, 0)
    nothing: list[Any] = [np.empty(0), [], np.array(1.0)]
    for bad in nothing:
        with pytest.raises(InputError, match="outputs are empty"):
            score.score(bad)
