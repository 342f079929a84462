"""Audits that end once bets refute the claim; levels of 1e-6 unless stated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from null_mechanisms import STATEFUL, itself  # type: ignore[import-not-found]
from plain_mechanisms import laplace  # type: ignore[import-not-found]
from sharing_mechanisms import cached  # type: ignore[import-not-found]

from dpaudit.audits.mechanism.audit import BlackBoxAudit, audit
from dpaudit.audits.mechanism.calls import Calls
from dpaudit.audits.mechanism.game import OutputBound, OutputCertificate, Scorer
from dpaudit.bounds.frequentist.sequential import CoinProcess, anytime_epsilon, block_ends
from dpaudit.core.errors import InputError
from dpaudit.execution.executor import Executor
from dpaudit.execution.workers import Pool, Workers
from dpaudit.testing import assert_satisfies_dp

Rng = np.random.Generator


def shifted(data: float, rng: Rng) -> float:
    """Adds so little noise to 0 or 1 that nearly every output tells them apart."""
    return round(float(data + rng.laplace(0.0, 0.1)), 6)


def many_shifted(data: float, rng: Rng, n: int) -> Any:
    return np.round(data + rng.laplace(0.0, 0.1, n), 6)


def sums(outputs: Any) -> Any:
    return np.asarray([np.sum(output) for output in outputs], np.float64)


def stopping(mechanism: Any = shifted, **options: Any) -> BlackBoxAudit:
    given: dict[str, Any] = {"trials": 4000, "claim": 1.0, "stop": "when-decided", "seed": 1}
    return audit(mechanism, 0.0, 1.0, **{**given, **options})


@pytest.mark.usefixtures("unrepeated")
@pytest.mark.cases(
    ("mechanism", "options"),
    [
        (shifted, {}),
        (shifted, {"score": itself}),
        (shifted, {"log_ratio": lambda x: 10 * (np.abs(x) - np.abs(x - 1))}),
        (many_shifted, {"batched": True}),
        (many_shifted, {"batched": True, "trials": 100_000}),
    ],
    ids=["learned", "given", "log-ratio", "batched", "several a call"],
)
def test_a_blatant_violation_ends_the_audit(mechanism: Any, options: dict[str, Any]) -> None:
    result = stopping(mechanism, **options)
    assert result.stopped is not None
    assert result.stopped.outputs <= 300
    assert result.stopped.p_value <= 0.1 * 0.05
    assert 1.0 <= result.epsilon.lower <= 10
    assert result.epsilon.n <= result.stopped.outputs
    assert "at any time" in result.epsilon.method
    assert result.epsilon.confidence == 0.95
    # No interval of a fixed number of trials is stated at a random one.
    assert result.likelihood is None
    assert result.control is None


@pytest.mark.usefixtures("unrepeated")
def test_an_audit_that_does_not_end_early_states_what_it_states_without_stop() -> None:
    """At nine tenths of its error probability."""
    result = stopping(laplace, trials=1000)
    plain = audit(laplace, 0.0, 1.0, trials=1000, confidence=1 - 0.9 * 0.05, claim=1.0, seed=1)
    assert result.stopped is None
    assert result.event == plain.event
    assert result.epsilon == plain.epsilon.changed(confidence=0.95)
    assert result.control == plain.control


@pytest.mark.parametrize("batched", [False, True])
def test_growing_outputs_are_those_of_one_run(batched: bool) -> None:
    calls = Calls(many_shifted if batched else shifted, batched, seed=5)
    whole = calls.run((0.0, 1.0), "here", 100)
    parts = list(calls.growing((0.0, 1.0), "here", block_ends(100)))
    assert [len(part) for part in parts] == block_ends(100)
    for part in parts:
        np.testing.assert_array_equal(part.outputs, whole.outputs[: len(part)])
        np.testing.assert_array_equal(part.present, whole.present[: len(part)])


@pytest.mark.long
@pytest.mark.usefixtures("unrepeated")
def test_the_same_on_any_number_of_workers() -> None:
    from dpaudit.audits.mechanism.audit import audit_pairs

    found = [
        audit_pairs(
            shifted,
            [(0.0, 1.0)],
            trials=2000,
            claim=1.0,
            stop="when-decided",
            seed=3,
            executor=executor,
        )
        for executor in (None, Executor(Pool(Workers(2))))
    ]
    assert found[0] == found[1]


@pytest.mark.long
@pytest.mark.usefixtures("unrepeated")
@pytest.mark.parametrize("name", STATEFUL)
def test_a_state_between_calls_refutes_nothing(name: str) -> None:
    options: dict[str, Any] = {"confidence": 1 - 1e-6, "trials": 400, "claim": 0.01}
    assert stopping(STATEFUL[name](), score=itself, **options).stopped is None
    assert stopping(STATEFUL[name](), **options).stopped is None


@pytest.mark.long
def test_what_calls_share_is_not_repeated() -> None:
    """A cache gives each data set one noise: bets end the audit, and it accuses nobody."""
    result = audit(cached, [0, 1], [1, 1], trials=400, claim=0.05, score=sums, stop="when-decided")
    assert result.stopped is not None
    assert result.epsilon.lower <= 0.05
    assert result.doubtful


def test_few_equal_outputs_are_not_called_constant() -> None:
    def certificate(flips: float) -> OutputCertificate:
        def answer(data: float, rng: Rng) -> float:
            return 1 - data if rng.random() < flips else data

        calls = Calls(answer, batched=False, seed=1)
        trials = calls.run((0.0, 1.0), "few", 40)
        scores = np.asarray(trials.outputs, np.float64)
        scorer = Scorer(itself, "itself", "top")
        process = CoinProcess(1.0)
        process.update(scores, trials.present)
        bound = anytime_epsilon(process, alpha=0.05)
        few = OutputCertificate(bound, process.witness(), scorer, trials, scores, early=True)
        assert few.noiseless
        return OutputBound(calls, itself, (0.0, 1.0), 4000, 0.0, 0.05, 0.95, None).lengthened(few)

    assert certificate(0.0).noiseless
    # Of 1 000 outputs none is flipped with a probability of 4e-5.
    assert not certificate(0.01).noiseless


@pytest.mark.long
def test_an_assertion_fails_after_some_hundred_outputs() -> None:
    with pytest.raises(AssertionError, match=r"after \d\d\d of at most 20000 "):
        assert_satisfies_dp(laplace, (0.0, 6.0), 1.0, trials=20_000, seed=1)


def test_errors() -> None:
    with pytest.raises(InputError, match=r"stop = 'soon' .*'when-decided'"):
        stopping(stop="soon")
    with pytest.raises(InputError, match="decides on a claim"):
        stopping(claim=None)
