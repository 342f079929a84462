"""Gates on trainings: how often their outcomes are false, and what they say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from dpaudit.auditor.trainings import NextTraining, judge_at_hand
from dpaudit.config.schema import Gate
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Census, Measurement

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
    picked = [measured(each) for each in censuses]
    together = NextTraining.of([(chosen, picked)], ALPHA)
    assert together is not None
    outcomes = [
        together.judge(chosen, each, each.census)[0] for each in picked if each.census is not None
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
        word = outcome(census(values[:-1], width=0.0))
        passes += word == "pass" and values[-1] > LIMIT
        fails += word == "fail" and share <= ALPHA and trainings > 1
    assert max(passes, fails) <= binom.isf(1e-6, AUDITS, ALPHA)


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


def test_a_leak_in_every_training_fails_after_two_and_an_own_interval_after_one() -> None:
    assert outcome(census(np.full(2, 0.9))) == "fail"
    assert outcome(census(np.full(1, 0.9))) == "fail"
    assert outcome(census(np.full(1, 0.56), width=0.02)) == "inconclusive"


def test_missing_answers_count_against_a_pass_alone() -> None:
    values = np.full(24, 0.5)
    some = census(values).model_copy(update={"most": (0.9, *values[1:].tolist())})
    assert outcome(some) == "inconclusive"
    all_ = census(values).model_copy(update={"most": tuple([0.9] * 24)})
    assert outcome(all_) == "inconclusive"


def test_a_gate_from_below_fails_where_trainings_are_below() -> None:
    least = Gate.model_validate({"metric": "utility.ndcg", "min": 0.2})
    for value, word in ((0.3, "pass"), (0.1, "fail")):
        numbers = census(np.full(24, value))
        one = Measurement(
            metric="utility.ndcg",
            model="m",
            epsilon=np.inf,
            estimate=Estimate.exact(value, "census"),
            census=numbers,
        )
        together = NextTraining.of([(least, [one])], ALPHA)
        assert together is not None
        assert together.judge(least, one, numbers)[0] == word


@pytest.mark.parametrize(
    ("values", "word"),
    [((0.5, 0.52), "pass"), ((0.5, 0.6), "fail"), ((0.5, 0.54), "inconclusive")],
)
def test_trainings_at_hand_are_judged_by_their_own_intervals(
    values: tuple[float, float], word: str
) -> None:
    own = census(np.array(values), alpha=ALPHA / 2)
    said, reason = judge_at_hand(gate(of="this-model"), own, ALPHA)
    assert said == word
    assert "on all data of each training" in reason
    wide = own.model_copy(update={"alpha": ALPHA})
    said, reason = judge_at_hand(gate(of="this-model"), wide, ALPHA)
    assert (said, "run a config that has this gate" in reason) == ("inconclusive", True)


def test_reasons_name_counts_the_range_and_what_would_decide() -> None:
    chosen, one = gate(), measured(census(np.linspace(0.48, 0.52, 12)))
    together = NextTraining.of([(chosen, [one])], ALPHA)
    assert together is not None
    assert one.census is not None
    assert together.judge(chosen, one, one.census)[1] == (
        "0.5 (0.48 to 0.52 in 12 trainings): none of 12 judged trainings is above 0.55, too "
        "few to say it of the next one: it takes 19 judged trainings: set membership.trainings = 23"
    )
