"""Assertions for your own test suite: does a mechanism satisfy its claim?"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, Literal

from dpaudit.audits.mechanism.audit import (
    BlackBoxAudit,
    Stop,
    audit_pairs,
    check_arguments,
    check_calls,
    check_probability,
)
from dpaudit.audits.mechanism.calls import Mechanism, Score
from dpaudit.audits.mechanism.game import SHARE
from dpaudit.bounds import outcomes
from dpaudit.bounds.frequentist.labels import most_certified
from dpaudit.bounds.planning import found_from
from dpaudit.core.errors import InputError
from dpaudit.core.rounding import at_least

# The violation that the default number of trials finds, as a multiple of the claim: at δ = 0, and
# at δ > 0, where the noise may be Gaussian.
_FACTOR, _GAUSSIAN = 1.5, 3.0
# A failure shows the line of the user's test, and none of this module.
__tracebackhide__ = True
# The numbers to choose from.
_SIZES = range(1_000, 1_000_001, 1_000)
# The part of the stated excess over the claim that a forecast has to find: measured power is less.
_MARGIN = 0.7


def assert_satisfies_dp(
    mechanism: Mechanism,
    pair: tuple[Any, Any] | Sequence[tuple[Any, Any]],
    epsilon: float,
    delta: float = 0.0,
    *,
    trials: int | None = None,
    false_alarm: float = 1e-6,
    detectable: float | None = None,
    stop: Stop | None = "when-decided",
    score: Score | Literal["learned"] = "learned",
    batched: bool = False,
    fresh_process: bool = False,
    seed: int | None = None,
) -> BlackBoxAudit:
    """Fail if a mechanism is certified to break (ε, δ)-DP on a pair of neighbouring data sets.

    A mechanism that satisfies its claim fails with probability at most `false_alarm`, over the
    choice of the seed. Passing is no proof, and applies only to this pair. With `detectable`, the
    power of the test is measured: the same game is run on mutants of the mechanism with a violation
    planted in their outputs, and it is an error if a mutant is not found to break the claim.
    `result.control` contains the bounds certified on the mutants.

    Example:
        def test_release_is_private():
            assert_satisfies_dp(release, (data, neighbour), epsilon=1.0, detectable=1.5)

    Args:
        mechanism: `mechanism(data, rng)`, see `dpaudit.audit`.
        pair: a pair of neighbouring data sets, or a list of pairs, of which the test searches for
            the most informative.
        epsilon: the claimed ε.
        delta: the claimed δ.
        trials: outputs drawn for the test, at most that many with `stop`; half of them train a
            learned score. None chooses the least number, up to 1 000 000, that is forecast to find
            a violation of `detectable` times the claim with 95 % power: the same on every machine,
            however long calls take. The default is 1.5 times at δ = 0, and 3 times at δ > 0, where
            Gaussian noise takes far more trials than its ε lets expect. `result.finds` is the least
            ε that they find.
        false_alarm: the probability of failing although the claim holds.
        detectable: the factor by which mutants break the claim; all must be found. None skips this
            measurement of power and is faster.
        stop: "when-decided" fails the test as soon as the claim is refuted, which for a blatant
            violation takes some hundred outputs; see `dpaudit.audit`. None draws all trials, and
            states the largest ε that these certify.
        score: see `dpaudit.audit`.
        batched: see `dpaudit.audit`.
        fresh_process: see `dpaudit.audit`.
        seed: see `dpaudit.audit`. None draws a new seed in every run. The failure message states
            the trials and the seed that repeat the test; `result.seed` contains the seed.

    Raises:
        AssertionError: the claim is false; the message states the event that shows it and its
            frequency on each data set.
        InputError: an argument is out of range, the data sets are equal, the trials are too few for
            `detectable` or for any failure, no default number of trials is enough, a planted
            violation was not found, a learned score does not read all of the outputs, or calls of
            one process break the claim and calls in fresh processes do not repeat that.
        RunError: every call raises an exception.
    """
    outcomes.check_epsilon(epsilon)
    pairs = [pair] if isinstance(pair, tuple) else pair
    check_probability("false_alarm", false_alarm)
    confidence = 1 - false_alarm
    check_arguments(pairs, score, delta, 1 - confidence, epsilon, detectable, stop)
    if trials is not None:
        check_calls("trials", trials)
    # The level of the certificate of all trials.
    level = false_alarm * (1 - SHARE) if stop else false_alarm
    wanted = _enough(epsilon, delta, level, trials, detectable, learned=score == "learned")
    audit = audit_pairs(
        mechanism,
        pairs,
        delta=delta,
        confidence=confidence,
        trials=wanted,
        score=score,
        batched=batched,
        fresh_process=fresh_process,
        claim=epsilon,
        detectable=detectable,
        stop=stop,
        seed=seed,
    )
    if audit.epsilon.lower > epsilon:
        raise AssertionError(_accusation(audit, epsilon, false_alarm, wanted))
    _check_decided(audit, epsilon, wanted, measured=detectable is not None)
    return audit


def _enough(
    epsilon: float,
    delta: float,
    level: float,
    trials: int | None,
    detectable: float | None,
    *,
    learned: bool,
) -> int:
    """Return the number of trials: the given one, or one that finds a violation by a factor.

    Args:
        epsilon: ε of the claim.
        delta: its δ.
        level: the level of the certificate.
        trials: the given number; None for none.
        detectable: the violation to be found, as a multiple of the claim; None for any.
        learned: whether half of the trials train a score.

    Raises:
        InputError: they can show nothing, or not what they have to.
    """

    def certifying(count: int) -> int:
        return count - count // 2 if learned else count

    def finds(count: int) -> float:
        return found_from(epsilon, certifying(count), level, delta=delta)

    factor = detectable or (_GAUSSIAN if delta else _FACTOR)
    wanted = trials or sufficient(finds, epsilon, factor)
    most = most_certified(certifying(wanted), delta=delta, alpha=level)
    if most <= epsilon:
        raise InputError(
            f"trials = {wanted} certify at most ε = {most:.3g}, so a claim of {epsilon:g} "
            "can never fail: use more trials"
        )
    if trials is not None and detectable is None:
        return wanted
    least = finds(wanted)
    if not least <= factor * epsilon:
        raise InputError(
            f"trials = {wanted} find a violation from ε = {least:.3g} on, not from "
            f"{factor:g} times {epsilon:g}: use more trials"
            + ("" if detectable else f", or pass trials = {wanted} to look for no smaller one")
        )
    return wanted


def _check_decided(audit: BlackBoxAudit, epsilon: float, trials: int, *, measured: bool) -> None:
    """Check that the test would have found a violation.

    Raises:
        InputError: it does not repeat, reads too little, or missed what was planted.
    """
    if audit.doubtful:
        raise InputError(
            f"whether (ε = {epsilon:g}, δ = {audit.delta:g})-DP is false cannot be decided: "
            f"{audit.repetition} (repeat with trials={trials}, seed={audit.seed})"
        )
    if audit.unread:
        raise InputError(
            f"this test does not read {', '.join(audit.unread)} in the outputs: return them as "
            "numbers, words, arrays, lists or dicts, or give a score"
        )
    if measured and (audit.control is None or not audit.control.found):
        control, missed = audit.control, "no violation could be planted"
        if control is not None:
            missed = (
                f"of {control.mutant} only ε at least {at_least(control.certified)} is certified"
            )
        raise InputError(
            f"on pair {audit.pair} this test finds no violation of ε = {epsilon:g}: {missed} (seed "
            f"{audit.seed}); use more trials, another pair or score, or leave out detectable to "
            "state no power"
        )


def _accusation(audit: BlackBoxAudit, epsilon: float, false_alarm: float, trials: int) -> str:
    event, stopped = audit.event, audit.stopped
    rates = event.rates
    ended = ""
    if stopped:
        ended = (
            f", after {stopped.outputs} of at most {trials} outputs (p = {stopped.p_value:.2g} at "
            "any time)"
        )
    return (
        f"(ε = {epsilon:g}, δ = {audit.delta:g})-DP is false: ε at least "
        f"{at_least(audit.epsilon.lower)} is certified{ended} (a true claim fails with probability "
        f"at most {false_alarm:g}). Witness: {event}; on pair "
        f"{audit.pair} it happened in {rates[1]:.3%} of the trials on D' and in "
        f"{rates[0]:.3%} of those on D ({event.trials} trials in all; {audit.score} score; "
        f"repeat with trials={trials}, seed={audit.seed})"
        + "".join(
            f". Beware: {words}" for words in (audit.raised, audit.drift, audit.settings) if words
        )
    )


def sufficient(least: Callable[[int], float], epsilon: float, factor: float) -> int:
    """Return the number of trials that finds a violation of the claim by a factor.

    Args:
        least: maps a number of trials to the smallest ε that a test is forecast to find.
        epsilon: the claimed ε.
        factor: the violation, as a multiple of the claim.

    Returns:
        A number from 1 000 to 1 000 000; the latter even if it does not suffice.
    """
    wanted = epsilon * (1 + _MARGIN * (factor - 1))
    place = bisect_left(_SIZES, True, key=lambda size: least(size) <= wanted)
    return _SIZES[min(place, len(_SIZES) - 1)]
