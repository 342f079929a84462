"""`assert_satisfies_dp`: it fails on false claims with its witness, and seldom on kept ones."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_mechanisms import laplace, responses  # type: ignore[import-not-found]
from wald import claims_too_much  # type: ignore[import-not-found]

from dpaudit.audits.mechanism.audit import audit_pairs
from dpaudit.bounds.planning import detectable_epsilon
from dpaudit.core.errors import InputError
from dpaudit.testing import assert_satisfies_dp, sufficient

Rng = np.random.Generator


def itself(outputs: Any) -> Any:
    return outputs


def never(data: Any, rng: Rng) -> float:
    raise AssertionError("was run")


@pytest.mark.long
def test_a_kept_claim_passes_and_its_audit_is_returned() -> None:
    """False-failure rate 1e-6: the default false alarm."""
    audit = assert_satisfies_dp(laplace, (0.0, 1.0), 1.0, trials=2000, stop=None)
    assert audit == audit_pairs(
        laplace,
        [(0.0, 1.0)],
        confidence=1 - 1e-6,
        trials=2000,
        claim=1.0,
        detectable=None,
        seed=audit.seed,
    )
    assert audit.finds == detectable_epsilon(1.0, 1000, 1e-6)
    assert audit.seed != assert_satisfies_dp(laplace, (0.0, 1.0), 1.0, trials=400).seed
    assert audit.epsilon.lower <= 1


@pytest.mark.long
def test_a_false_claim_fails_with_its_witness() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_satisfies_dp(
            responses,
            (0, 1),
            0.5,
            1e-3,
            trials=20_000,
            stop=None,
            batched=True,
            score=itself,
            seed=0,
        )
    audit = audit_pairs(
        responses,
        [(0, 1)],
        delta=1e-3,
        confidence=1 - 1e-6,
        trials=20_000,
        batched=True,
        score=itself,
        seed=0,
    )
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("(ε = 0.5, δ = 0.001)-DP is false: ε at least ")
    assert f"Witness: {audit.event}; on pair 0" in message
    assert "probability at most 1e-06" in message
    assert (
        f"({audit.event.trials} trials in all; itself score; repeat with trials=20000, seed=0)"
        in message
    )
    certified = re.search(r"ε at least ([\d.]+) is certified", message)
    assert certified is not None
    # Rounded down, so that what is written is certified.
    assert audit.epsilon.lower - 0.001 < float(certified[1]) <= audit.epsilon.lower
    shown = re.search(r"in ([\d.]+)% of the trials on D' and in ([\d.]+)% of those on D ", message)
    assert shown is not None
    absent, present = audit.event.rates
    assert [float(rate) for rate in shown.groups()] == pytest.approx(
        [100 * present, 100 * absent], abs=0.001
    )
    # The rates of the law are e/(1 + e) and 1/(1 + e); high scores speak for D'.
    at_high = str(audit.event).startswith("score >=")
    rates = [0.731, 0.269] if at_high else [0.269, 0.731]
    assert [present, absent] == pytest.approx(rates, abs=0.03)


@pytest.mark.long
def test_the_failure_names_what_repeats_the_test() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_satisfies_dp(lambda data, rng: rng.random() + data, (0.0, 3.0), 1.0, stop=None)
    again = re.search(r"repeat with trials=(\d+), seed=(\d+)\)", str(caught.value))
    assert again is not None
    trials, seed = map(int, again.groups())
    assert 1_000 <= trials <= 20_000
    audit = audit_pairs(
        lambda data, rng: rng.random() + data,
        [(0.0, 3.0)],
        confidence=1 - 1e-6,
        trials=trials,
        seed=seed,
    )
    assert str(audit.event) in str(caught.value)


class Noisy:
    """A sum with Laplace noise of an ε, whose first calls may be slow."""

    def __init__(self, epsilon: float, seconds: float = 0.0) -> None:
        self.epsilon, self.seconds, self.calls = epsilon, seconds, 0

    def __call__(self, data: float, rng: Rng) -> float:
        self.calls += 1
        if self.calls <= 80:
            time.sleep(self.seconds)
        return round(data + rng.laplace(0, 1 / self.epsilon), 6)


@pytest.mark.long
@pytest.mark.parametrize("stop", ["when-decided", None])
def test_slow_calls_change_neither_the_trials_nor_the_result(
    monkeypatch: pytest.MonkeyPatch, stop: Any
) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(time, "sleep", sleep)
    for name in ("perf_counter", "monotonic", "process_time", "time"):
        monkeypatch.setattr(time, name, lambda: now[0])
    calls, audits = [], []
    for seconds in (0.0, 0.003, 0.011):
        mechanism = Noisy(1.0, seconds)
        audit = assert_satisfies_dp(mechanism, (0.0, 1.0), 1.0, stop=stop, seed=1)
        audits.append(replace(audit, repetition=None))  # it names what the mechanism holds
        calls.append(mechanism.calls)
    assert set(calls) == {calls[0]}
    assert audits == [audits[0]] * 3
    assert audits[0].finds is not None
    assert audits[0].finds < 1.5


@pytest.mark.long
@pytest.mark.parametrize(("claim", "delta"), [(0.5, 0.0), (1.0, 0.0), (1.0, 1e-3), (3.0, 0.0)])
def test_the_default_finds_what_it_states(claim: float, delta: float) -> None:
    # Laplace noise, which is found from less than Gaussian noise on.
    wrong = round(1.5 * claim, 2)  # a number of many digits could be noise
    for seed in range(3):
        with pytest.raises(AssertionError, match="DP is false"):
            assert_satisfies_dp(Noisy(wrong, 0.001), (0.0, 1.0), claim, delta, seed=seed)


@pytest.mark.cases(
    ("claim", "delta", "words"),
    [
        (0.01, 0.0, r"trials = 1000000 find a violation from ε = 0.0318 on, not from 1.5 times"),
        (0.01, 0.01, r"not from 3 times 0.01: use more trials, or pass trials = "),
        (0.0, 0.0, r"ε = 0.0224 on, not from 1.5 times 0:"),
        (11.0, 0.0, "trials = 1000000 certify at most ε = 10.5, so a claim of 11 can never fail"),
    ],
)
def test_a_claim_that_no_default_tests_is_refused(claim: float, delta: float, words: str) -> None:
    with pytest.raises(InputError, match=words):
        assert_satisfies_dp(never, (0, 1), claim, delta)


@pytest.mark.long
def test_the_informative_pair_of_a_list_is_named() -> None:
    pairs = [(0.0, 1e-9), (0.0, 2e-9), (0.0, 3.0), (0.0, 1e-9)]
    with pytest.raises(AssertionError, match=r"Witness: .*on pair 2 .*learned \("):
        assert_satisfies_dp(laplace, pairs, 0.5, trials=4000)
    assert assert_satisfies_dp(laplace, pairs[:2], 0.5, trials=400).epsilon.lower == 0


@pytest.mark.long
@pytest.mark.usefixtures("unrepeated")
def test_the_false_alarm_is_the_level_of_the_test() -> None:
    """Tests of an exact claim, at a false alarm of 0.1. False-failure rate 1e-6.

    A claim that is a quarter too small is detected.
    """

    def alarms(epsilon: float) -> Iterator[bool]:
        for seed in count():
            try:
                audit = assert_satisfies_dp(
                    responses,
                    (0, 1),
                    epsilon,
                    trials=400,
                    false_alarm=0.1,
                    score=itself,
                    batched=True,
                    seed=seed,
                )
            except AssertionError:
                yield True
            else:
                # Bets that may end the test have the rest.
                assert audit.epsilon.alpha == pytest.approx(0.09)
                yield False

    assert not claims_too_much(alarms(1.0), 1e-6, 0.1, noticed=0.18)
    assert claims_too_much(alarms(0.75), 1e-6, 0.1, noticed=0.18)


def test_too_few_trials_for_what_should_be_detected_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        assert_satisfies_dp(never, (0, 1), 1.0, trials=2000, detectable=1.5)
    least = detectable_epsilon(1.0, 1000, 1e-6)
    assert least > 1.5
    words = f"trials = 2000 find a violation from ε = {least:.3g} on, not from 1.5 times 1"
    assert words in str(caught.value)
    # A given score needs no training: all trials certify. More alarms find more.
    for enough, options in (
        (detectable_epsilon(1.0, 2000, 1e-6), {"score": itself}),
        (detectable_epsilon(1.0, 1000, 0.05), {"false_alarm": 0.05}),
    ):
        assert enough < least
        with pytest.raises(InputError, match="use more trials"):
            assert_satisfies_dp(
                never, (0, 1), 1.0, trials=2000, detectable=0.99 * enough, **options
            )


def test_a_delta_takes_the_trials_that_find_gaussian_noise() -> None:
    """Randomised response, the easiest leak of its size, is found by a tenth of them."""
    with pytest.raises(InputError, match=r"violation from ε = 3\.46 on, not from 1\.8"):
        assert_satisfies_dp(never, (0, 1), 1.0, 1e-5, trials=20_000, detectable=1.8)


@pytest.mark.long
def test_a_stated_power_is_measured_on_a_mutant() -> None:
    audit = assert_satisfies_dp(
        laplace, (0.0, 1.0), 1.0, trials=4000, detectable=1.8, score=itself, seed=0
    )
    control = audit.control
    assert control is not None
    assert control.found
    assert 1 < control.certified <= control.factor == 1.8
    assert "ε = 1.8 planted in the values" in control.mutant
    # Without a factor no power is stated.
    assert assert_satisfies_dp(laplace, (0.0, 1.0), 1.0, trials=400, seed=0).control is None


@pytest.mark.long
def test_a_score_that_sees_nothing_is_no_test() -> None:
    with pytest.raises(InputError) as caught:
        assert_satisfies_dp(
            laplace, (0.0, 1.0), 1.0, trials=4000, detectable=1.8, score=np.zeros_like, seed=0
        )
    said = str(caught.value)
    assert "ε = 1.8 planted in the values only ε at least 0 is certified (seed 0)" in said
    assert "leave out detectable" in said
    assert "\n" not in said


@pytest.mark.long
def test_equal_outputs_on_different_data_are_no_proof() -> None:
    """No noise, and a pair with equal sums: no violation can be found or planted."""
    for score in (itself, "learned"):
        with pytest.raises(InputError, match="on D are too much alike"):
            assert_satisfies_dp(
                lambda data, rng: float(sum(data)),
                ([1, 2], [2, 1]),
                1.0,
                trials=8000,
                detectable=1.8,
                score=score,
            )


@pytest.mark.cases(
    ("changes", "words"),
    [
        ({"epsilon": -1.0}, "epsilon = -1.0"),
        ({"epsilon": math.inf}, "epsilon = inf"),
        ({"epsilon": math.nan}, "epsilon = nan"),
        ({"delta": 1.0}, "delta = 1.0"),
        ({"false_alarm": 0.0}, "false_alarm = 0.0"),
        ({"false_alarm": 1.0}, "false_alarm = 1.0"),
        ({"false_alarm": 1e-20}, "1 - confidence"),
        ({"trials": 100}, "trials = 100"),
        ({"trials": 2e4}, "trials = "),
        ({"trials": "2000"}, "trials = '2000'"),
        ({"trials": 0}, "trials = 0"),
        ({"epsilon": 4.0, "trials": 1000}, "at most ε = 3.57, so a claim of 4 can never fail"),
        ({"epsilon": 20.0, "trials": 20_000}, "use more trials"),
        ({"detectable": 1.0}, "detectable = "),
        ({"detectable": math.nan}, "detectable = "),
        ({"pair": []}, "at least one pair"),
        ({"pair": (0, 1, 2)}, r"pairs\[0\] is not a tuple"),
        ({"pair": [0, 1]}, r"pairs\[0\] is not a tuple"),
        ({"score": "learnt"}, "score = 'learnt'"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(
    changes: dict[str, Any], words: str
) -> None:
    options: dict[str, Any] = {"mechanism": never, "pair": (0, 1), "epsilon": 1.0, **changes}
    with pytest.raises(InputError, match=words) as caught:
        assert_satisfies_dp(**options)
    assert "\n" not in str(caught.value)


USER = """
from dpaudit.testing import assert_satisfies_dp


def release(data, rng):
    return round(sum(data) + rng.laplace(), 6)


def test_kept():
    assert_satisfies_dp(release, ([1, 2], [1, 3]), epsilon=1.0, trials=1000)


def test_broken():
    assert_satisfies_dp(release, ([1, 2], [1, 7]), epsilon=1.0, trials=1000)


def test_too_few():
    assert_satisfies_dp(release, ([1, 2], [1, 3]), epsilon=1.0, trials=1000, detectable=1.1)
"""


@pytest.mark.long
def test_a_user_s_own_suite(tmp_path: Path) -> None:
    """Run with warnings as errors, as in many test suites, and without pytest plug-ins."""
    (tmp_path / "test_release.py").write_text(USER)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "test_release.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 failed, 1 passed" in done.stdout
    assert "test_broken - AssertionError" in done.stdout
    assert "test_too_few - dpaudit.core.errors.InputError" in done.stdout
    assert "(ε = 1, δ = 0)-DP is false" in done.stdout


@pytest.mark.long
def test_a_failure_shows_the_line_of_the_test_and_not_the_library(tmp_path: Path) -> None:
    case = tmp_path / "test_own.py"
    case.write_text(
        "from dpaudit.testing import assert_satisfies_dp\n"
        "def test_sum():\n"
        "    pair = ([0], [1])\n"
        "    assert_satisfies_dp(lambda d, rng: sum(d) + rng.normal() / 9, pair, 0.5, trials=400)\n"
    )
    options = ("-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path))
    command = [sys.executable, "-m", "pytest", *options, str(case)]
    process = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert process.returncode == 1
    assert "assert_satisfies_dp(lambda d, rng" in process.stdout
    assert "dpaudit/testing/__init__.py" not in process.stdout.partition("short test summary")[0]


def shifting(shift: int) -> Any:
    """A mechanism that holds a whole number, which may be its noise or a setting."""

    def mechanism(data: Any, rng: np.random.Generator) -> Any:
        return sum(data) + shift + rng.integers(0, 2)

    return mechanism


@pytest.mark.long
def test_an_accusation_names_what_counts_as_a_setting() -> None:
    with pytest.raises(AssertionError, match=r"is false: .*Beware: it holds shift from when"):
        assert_satisfies_dp(shifting(12), ([0, 0], [0, 9]), epsilon=1.0, seed=1)


def test_a_violation_has_enough_trials_and_not_many_more() -> None:
    def least(trials: int) -> float:
        return detectable_epsilon(1.0, trials, 1e-6)

    factors = (3.0, 2.0, 1.5, 1.1)
    counts = [sufficient(least, 1.0, factor) for factor in factors]
    assert counts == sorted(counts)
    for trials, factor in zip(counts, factors, strict=True):
        assert least(trials) < factor
        assert trials == 1000 or least(trials - 1000) > 1 + (factor - 1) / 2
    assert counts[0] < 20_000 < counts[-1]
    assert sufficient(lambda trials: math.inf, 1.0, 2.0) == 1_000_000
