"""Gates on trainings: how often their outcomes are false, and what they say."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from dpaudit.audits.membership.config import default_calibrating
from dpaudit.audits.membership.trainings import (
    JudgedTrainings,
    certified,
    least_certified,
    trainings_for,
)
from dpaudit.config.gate import Gate
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Measurement
from dpaudit.record.values import Census

Numbers = NDArray[np.float64]
Law = Callable[[np.random.Generator, int], Numbers]
LIMIT, ALPHA, AUDITS = 0.55, 0.05, 400


def measured(census: Census, metric: str = "attack.auc", at: float | None = None) -> Measurement:
    mean = sum(census.values) / len(census.values)
    return Measurement(
        metric=metric,
        model="m",
        epsilon=np.inf,
        estimate=Estimate.exact(mean, "census"),
        attack="strongest",
        observer="scores",
        unit="interaction",
        at=at,
        census=census,
    )


def census(values: Numbers, width: float = 0.02, alpha: float = ALPHA) -> Census:
    return Census(
        values=tuple(values.tolist()),
        lower=tuple(np.clip(values - width, 0, 1).tolist()),
        upper=tuple(np.clip(values + width, 0, 1).tolist()),
        alpha=alpha,
    )


def gate(**fields: object) -> Gate:
    return Gate.model_validate({"metric": "attack.auc", "max": LIMIT, **fields})


def outcome(*censuses: Census, one: Gate | None = None) -> str:
    """The worst outcome of one gate on all these."""
    chosen = one or gate()
    picked = [measured(census) for census in censuses]
    together = JudgedTrainings.of([(chosen, picked)], ALPHA)
    outcomes = [
        together.judge(chosen, measurement, measurement.census)[0]
        for measurement in picked
        if measurement.census is not None
    ]
    return next(word for word in ("fail", "inconclusive", "pass") if word in outcomes)


def null(rng: np.random.Generator, count: int) -> Numbers:
    return rng.normal(0.5, 0.012, count)


def borderline(rng: np.random.Generator, count: int) -> Numbers:
    """A twentieth of the trainings exceed."""
    return np.where(rng.random(count) < ALPHA, 0.6, 0.5)


def seldom(rng: np.random.Generator, count: int) -> Numbers:
    """A leak in one training of thirty."""
    return np.where(rng.random(count) < 1 / 30, 1.0, rng.normal(0.5, 0.01, count))


def cluster(rng: np.random.Generator, count: int) -> Numbers:
    """Targets that are all remembered or all not, so a training's number scatters."""
    return 0.5 + 0.5 * rng.beta(0.2, 2, count)


def memoriser(rng: np.random.Generator, count: int) -> Numbers:
    return rng.uniform(0.95, 1, count)


def parity(rng: np.random.Generator, count: int) -> Numbers:
    """The parity of all coins decides whether everything is shown."""
    return np.where(rng.random(count) < 0.5, 1.0, 0.5)


@pytest.mark.long
@pytest.mark.parametrize("law", [null, borderline, seldom, cluster, memoriser, parity])
@pytest.mark.parametrize("trainings", [1, 2, 8, 19, 32])
def test_no_outcome_is_false_more_often_than_its_level(law: Law, trainings: int) -> None:
    rng = np.random.default_rng(trainings)
    share = float((law(np.random.default_rng(0), 200_000) > LIMIT).mean())
    passes = fails = 0
    for _ in range(AUDITS):
        values = law(rng, trainings + 1)
        # Own intervals of no width: they are exact, and never the reason.
        word = outcome(census(values[:-1], width=0.0, alpha=0.0))
        passes += word == "pass" and values[-1] > LIMIT
        fails += word == "fail" and share <= ALPHA and trainings > 1
    assert max(passes, fails) <= binom.isf(1e-6, AUDITS, ALPHA)


def stopped(law: Law, rng: np.random.Generator, count: int, numbers: int) -> tuple[str, Numbers]:
    """The outcome of trainings that end when a gate fails, and the next training of each number.

    At the first look other attacks judge, so its numbers are drawn by themselves.
    """
    chosen = gate()
    values = np.array([law(rng, count + 1) for _ in range(numbers)])
    first = np.array([law(rng, count + 1) for _ in range(numbers)])
    least = least_certified(ALPHA, numbers)
    looks = [least, *(least * 2**times for times in range(1, 7))]
    for rows, size in zip(itertools.chain([first], itertools.repeat(values)), looks, strict=False):
        if size >= count:
            break
        some = [census(row[:size], width=0.0, alpha=0.0) for row in rows]
        if any(certified(chosen, one, ALPHA, numbers) for one in some):
            return "fail", values[:, -1]
    return outcome(*(census(row[:-1], width=0.0, alpha=0.0) for row in values)), values[:, -1]


@pytest.mark.long
@pytest.mark.parametrize("law", [null, borderline, seldom, cluster, memoriser, parity])
@pytest.mark.parametrize(("trainings", "numbers"), [(1, 1), (2, 1), (8, 1), (19, 1), (32, 4)])
def test_no_outcome_of_a_run_that_stops_is_false_more_often_than_its_level(
    law: Law, trainings: int, numbers: int
) -> None:
    rng = np.random.default_rng(trainings)
    share = float((law(np.random.default_rng(0), 200_000) > LIMIT).mean())
    passes = fails = 0
    for _ in range(AUDITS // numbers):
        word, following = stopped(law, rng, trainings, numbers)
        passes += word == "pass" and bool((following > LIMIT).any())
        fails += word == "fail" and share <= ALPHA and trainings > 1
    assert max(passes, fails) <= binom.isf(1e-6, AUDITS // numbers, ALPHA)


def test_two_gates_on_one_number_share_its_intervals() -> None:
    sure, chosen = census(np.full(3, 0.9), alpha=ALPHA / 2 / 3), (gate(), gate(max=0.6))
    coming = JudgedTrainings.of([(one, [measured(sure)]) for one in chosen], ALPHA)
    assert [coming.judge(one, measured(sure), sure)[0] for one in chosen] == ["fail", "fail"]


def test_nineteen_trainings_without_one_above_the_limit_pass_and_eighteen_do_not() -> None:
    low = np.full(19, 0.5)
    assert outcome(census(low)) == "pass"
    assert outcome(census(low[1:])) == "inconclusive"
    assert outcome(census(np.append(low, 0.6))) == "inconclusive"
    assert outcome(census(np.append(np.full(38, 0.5), 0.6))) == "pass"


def test_the_reverse_of_an_attack_counts_for_a_pass_and_not_for_a_failure() -> None:
    wrong = np.full(40, 0.3)
    assert outcome(census(wrong)) == "inconclusive"
    assert outcome(census(wrong), one=gate(max=0.7)) == "pass"


def test_several_numbers_share_one_vector_of_trainings() -> None:
    low, once = np.full(24, 0.5), np.full(24, 0.5)
    once[3] = 0.6
    assert outcome(census(low), census(low), census(low)) == "pass"
    # Another number of the same trainings exceeds: both together may in the next one.
    assert outcome(census(low), census(once)) == "inconclusive"


def test_a_leak_in_every_training_fails_by_own_intervals_from_one_training_on() -> None:
    for count in (1, 2, 3):
        sure = census(np.full(count, 0.9), alpha=ALPHA / 2 / count)
        assert outcome(sure) == "fail"
        # Intervals at a level that is not paid decide nothing.
        assert outcome(sure.model_copy(update={"alpha": ALPHA})) == "inconclusive"
    assert outcome(census(np.full(1, 0.56), alpha=ALPHA / 2)) == "inconclusive"


def test_chance_with_few_targets_fails_no_gate() -> None:
    """Half of the numbers exceed, and no interval does."""
    values = np.tile([0.45, 0.6], 20)
    assert outcome(census(values, width=0.1, alpha=ALPHA / 2 / 40)) == "inconclusive"


def test_missing_answers_count_against_a_pass_alone() -> None:
    values = np.full(24, 0.5)
    some = census(values).model_copy(update={"most": (0.9, *values[1:].tolist())})
    assert outcome(some) == "inconclusive"
    all_ = census(values).model_copy(update={"most": (0.9,) * 24})
    assert outcome(all_) == "inconclusive"


def test_a_gate_from_below_fails_where_trainings_are_below() -> None:
    least = Gate.model_validate({"metric": "utility.ndcg", "min": 0.2})
    for value, word in ((0.3, "pass"), (0.1, "fail")):
        numbers = census(np.full(24, value), width=0.0, alpha=0.0)
        one = Measurement(
            metric="utility.ndcg",
            model="m",
            epsilon=np.inf,
            estimate=Estimate.exact(value, "census"),
            census=numbers,
        )
        together = JudgedTrainings.of([(least, [one])], ALPHA)
        assert together.judge(least, one, numbers)[0] == word


def test_a_gate_that_fails_keeps_no_other_from_passing() -> None:
    low, high = census(np.full(19, 0.5)), census(np.full(19, 0.9), alpha=ALPHA / 4 / 19)
    gates = gate(where={"observer": "a"}), gate(where={"observer": "b"})
    coming = JudgedTrainings.of([(gates[0], [measured(low)]), (gates[1], [measured(high)])], ALPHA)
    assert coming.judge(gates[0], measured(low), low)[0] == "pass"
    assert coming.judge(gates[1], measured(high), high)[0] == "fail"


@pytest.mark.parametrize("draws", [4, 5])
def test_sets_of_gates_pass_wrongly_at_most_at_their_level_in_every_order(draws: int) -> None:
    """Every pattern of two gates in so many draws, of which each is the next with the same odds."""
    alpha, chosen = 2.0 / draws, (gate(where={"observer": "a"}), gate(where={"observer": "b"}))
    for pattern in itertools.product(itertools.product((0.5, 0.6), repeat=draws), repeat=2):
        wrong = 0
        for last in range(draws):
            rest = [[value for at, value in enumerate(row) if at != last] for row in pattern]
            censuses = [census(np.array(row), 0.0, 1.0) for row in rest]
            coming = JudgedTrainings.of(
                [(one, [measured(census)]) for one, census in zip(chosen, censuses, strict=True)],
                alpha,
            )
            outcomes = [
                coming.judge(one, measured(census), census)[0]
                for one, census in zip(chosen, censuses, strict=True)
            ]
            wrong += any(
                word == "pass" and row[last] > LIMIT
                for word, row in zip(outcomes, pattern, strict=True)
            )
        assert wrong <= alpha * draws + 1e-9, pattern


@pytest.mark.long
@pytest.mark.parametrize(("gates", "trainings"), [(1, 39), (3, 39), (3, 119), (6, 399)])
def test_gates_on_many_numbers_pass_wrongly_at_most_at_their_level(
    gates: int, trainings: int
) -> None:
    """Independent numbers, each of which exceeds as seldom as a gate by itself allows."""
    rng, numbers = np.random.default_rng(gates), 4
    share = ALPHA / (2 * gates * numbers)
    wrong = 0
    for _ in range(AUDITS):
        broken = rng.random((gates, numbers, trainings + 1)) < share
        picked = [
            (
                gate(where={"observer": f"o{index}"}),
                [measured(census(np.where(row[:-1], 0.6, 0.5), 0.0, 0.0)) for row in rows],
            )
            for index, rows in enumerate(broken)
        ]
        coming = JudgedTrainings.of(picked, ALPHA)
        passed = [
            all(
                coming.judge(one, measurement, measurement.census)[0] == "pass"
                for measurement in measurements
                if measurement.census
            )
            for one, measurements in picked
        ]
        wrong += any(ok and rows[:, -1].any() for ok, rows in zip(passed, broken, strict=True))
    assert wrong <= binom.isf(1e-6, AUDITS, ALPHA)


def test_thresholds_that_are_set_afterwards_share_the_level() -> None:
    chosen, low = gate(), [measured(census(np.full(24, 0.5))) for _ in range(2)]
    assert low[0].census is not None
    for beforehand, word in ((True, "pass"), (False, "inconclusive")):
        coming = JudgedTrainings.of([(chosen, low)], ALPHA, beforehand=beforehand)
        assert coming.judge(chosen, low[0], low[0].census)[0] == word


@pytest.mark.cases(
    ("values", "word"), [((0.5, 0.52), "pass"), ((0.5, 0.6), "fail"), ((0.5, 0.54), "inconclusive")]
)
def test_trainings_at_hand_are_judged_by_their_own_intervals(
    values: tuple[float, float], word: str
) -> None:
    observed, chosen = census(np.array(values), alpha=ALPHA / 2), gate(of="this-model")
    one = measured(observed)
    said, reason, *_ = JudgedTrainings.of([], ALPHA).judge(chosen, one, observed)
    assert said == word
    assert "with the sampling of targets" in reason
    said, reason, *_ = JudgedTrainings.of([], ALPHA, hold=False).judge(chosen, one, observed)
    assert (said, "do not hold together" in reason) == ("inconclusive", True)


def test_the_reverse_of_an_attack_keeps_trainings_at_hand_from_passing() -> None:
    observed, chosen = census(np.array([0.05, 0.06])), gate(of="this-model")
    said, reason, *_ = JudgedTrainings.of([], ALPHA).judge(chosen, measured(observed), observed)
    assert (said, "the reverse attack may have 97 of 100" in reason) == ("inconclusive", True)


def test_reasons_name_counts_the_range_and_what_would_decide() -> None:
    chosen, one = gate(), measured(census(np.linspace(0.48, 0.52, 12)))
    coming = JudgedTrainings.of([(chosen, [one])], ALPHA)
    assert one.census is not None
    _, said, remedy, _ = coming.judge(chosen, one, one.census)
    assert said.startswith("50 of 100 (48 to 52 in 12 trainings): none of 12 judged trainings")
    assert said.endswith("19 judged trainings")
    assert remedy == "raise membership.trainings"


@pytest.mark.cases("judged", [1, 2, 19, 39, 200])
def test_so_many_trainings_are_the_fewest_of_which_so_many_are_judged(judged: int) -> None:
    least = trainings_for(judged)
    assert least - default_calibrating(least) >= judged
    assert least == 1 or (least - 1) - default_calibrating(least - 1) < judged
    assert trainings_for(judged, 10) == judged + 10
