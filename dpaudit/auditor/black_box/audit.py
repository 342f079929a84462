"""Black-box audits of any mechanism that can be called, from its outputs alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpaudit.auditor.black_box.calls import Calls, Mechanism, Score, Trials
from dpaudit.auditor.black_box.game import Game
from dpaudit.auditor.black_box.order import drift
from dpaudit.auditor.black_box.planted import positive_control
from dpaudit.auditor.black_box.same import same_data
from dpaudit.auditor.black_box.search_pairs import most_informative
from dpaudit.bounds import outcomes
from dpaudit.bounds.frequentist.labels import LabelTest
from dpaudit.bounds.frequentist.likelihood import likelihood_epsilon
from dpaudit.bounds.frequentist.seeds import settled
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import generator
from dpaudit.execution.executor import Executor
from dpaudit.execution.progress import Progress
from dpaudit.record.result import Control

__all__ = ["BlackBoxAudit", "Mechanism", "Score", "audit", "audit_pairs"]

# Most calls of a batched mechanism in one round of the search. Fewer than `MOST` suffice, as the
# search certifies nothing.
_SEARCH_CALLS = 256
# The least number of trials, and of outputs in the search.
_LEAST = 200


@dataclass(frozen=True)
class BlackBoxAudit:
    """The result of an audit of a mechanism on one pair of data sets.

    Attributes:
        epsilon: certified lower bound on the mechanism's ε at `delta`.
        delta: the δ at which it holds.
        event: the event that certifies it, with its frequencies.
        pair: the index of the audited pair among those given.
        score: name of the score.
        likelihood: the bound that holds if the given `log_ratio` is the true one; for information
            only.
        seed: the seed, with which the same audit can be repeated.
        drift: a sentence if outputs change with the number of the call or depend on the previous
            call's; None if neither was found.
        control: the positive control: what the same game certified where a violation was planted;
            None if no claim was given, the mechanism itself was found to break it, or there are
            too few trials.
        unread: what the learned score does not read in the outputs, in words.
        noiseless: whether each call on D gave the same output, and each on D' the same other one.
    """

    epsilon: Estimate
    delta: float
    event: LabelTest
    pair: int
    score: str
    likelihood: Estimate | None = None
    seed: int = 0
    drift: str | None = None
    control: Control | None = None
    noiseless: bool = False
    unread: tuple[str, ...] = ()


def audit(
    mechanism: Mechanism,
    d: Any,
    d_prime: Any,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    trials: int = 20_000,
    score: Score | Literal["learned"] = "learned",
    log_ratio: Score | None = None,
    batched: bool = False,
    fresh_process: bool = False,
    claim: float | None = None,
    detectable: float = 1.5,
    seed: int | None = None,
) -> BlackBoxAudit:
    """Certify a lower bound on a mechanism's ε from its outputs on two neighbouring data sets.

    A fair coin chooses the data set of each call, so that state kept between calls cannot reveal
    it; see `dpaudit.auditor.black_box.calls`. A learned score is trained on half of the trials (at
    most 400 000) and certified on the others; a given score is certified on all. The bound is valid
    for any score; it is larger the closer the score is to the likelihood ratio of the two output
    distributions.

    Args:
        mechanism: `mechanism(data, rng)` returns one output: a number, an array, a word, or a
            list. It must not depend on other calls' data and must not change `data`. The audit is
            reproducible only if all randomness comes from `rng`.
        d: a data set.
        d_prime: a neighbour of it.
        delta: the δ at which ε is bounded.
        confidence: confidence of the bound.
        trials: total number of outputs.
        score: `score(outputs)` returns one number per output, large where `d_prime` is likelier; it
            must not have been chosen on these outputs. It receives the outputs on both data sets
            together, in the order of the calls. As coins decided that order, even a score that
            reads its whole batch learns nothing from it. Or "learned".
        log_ratio: if the output distributions are known, `log_ratio(outputs)` returns the logarithm
            of their likelihood ratio, `d_prime`'s over `d`'s. It replaces the score and also gives
            the likelihood bound. The certified bound holds even if it is wrong.
        batched: whether the mechanism is `mechanism(data, rng, n)` and returns n independent
            outputs, an array with leading axis n. Up to 16 384 outputs, n is 1.
        fresh_process: run every call in its own process, so that no state in memory survives it;
            costs about 0.01 s per call. The mechanism must be picklable.
        claim: the claimed ε. If it is not found to be broken, the same game is run on copies of
            the mechanism with planted violations, which measures the power of the audit. See
            `dpaudit.auditor.black_box.planted`.
        detectable: ε of the planted violations, as a multiple of the claim.
        seed: seed of every random stream: more trials extend the same sequence. None draws one from
            the operating system's entropy. The confidence is over the choice of the seed; it does
            not hold for a seed chosen after seeing results.

    Raises:
        InputError: too few trials, equal data sets, outputs or scores that are not numbers, batches
            with dependent outputs, or δ or the confidence out of range.
    """
    return audit_pairs(
        mechanism,
        [(d, d_prime)],
        delta=delta,
        confidence=confidence,
        trials=trials,
        score=score,
        log_ratio=log_ratio,
        batched=batched,
        fresh_process=fresh_process,
        claim=claim,
        detectable=detectable,
        seed=seed,
    )


def audit_pairs(
    mechanism: Mechanism,
    pairs: Sequence[tuple[Any, Any]],
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    trials: int = 20_000,
    search: int = 4_000,
    score: Score | Literal["learned"] = "learned",
    log_ratio: Score | None = None,
    batched: bool = False,
    fresh_process: bool = False,
    claim: float | None = None,
    detectable: float = 1.5,
    seed: int | None = None,
    executor: Executor | None = None,
) -> BlackBoxAudit:
    """Search for the most informative pair of neighbouring data sets, and run `audit` on it.

    Each pair gets `search` outputs, the better half as many again, and so on. The remaining pair is
    audited with fresh outputs, so that the search costs no confidence.

    Args:
        mechanism: see `audit`.
        pairs: pairs of neighbouring data sets, e.g. from `patterns.input_pairs`.
        delta: see `audit`.
        confidence: see `audit`.
        trials: outputs for the certificate.
        search: outputs for each pair in the first round of the search.
        score: see `audit`.
        log_ratio: see `audit`; must hold for whichever pair is audited.
        batched: see `audit`.
        fresh_process: see `audit`.
        claim: see `audit`.
        detectable: see `audit`.
        seed: see `audit`.
        executor: its workers make the calls, if these depend on data and `rng` alone, and receives
            the progress; see `dpaudit.auditor.black_box.blocks`. None makes all calls in one
            sequence, in this thread.

    Raises:
        InputError: no pair is given, or as in `audit`.
    """
    alpha = 1 - confidence
    check_arguments(pairs, score, delta, alpha)
    for name, value in (("trials", trials), ("search", search)):
        check_calls(name, value)
    if log_ratio is not None:
        if score != "learned":
            raise InputError("both score and log_ratio are given: the log-ratio is the score")
        score = log_ratio
    if claim is not None:
        outcomes.check_epsilon(claim)
        if not detectable > 1:
            raise InputError(f"detectable = {detectable} is not above 1: use e.g. 1.5")
    seed = settled(seed)
    exact, progress = score == "learned", executor.progress if executor else Progress()
    calls = Calls(mechanism, batched, seed, fresh_process, exact, executor)
    calls = calls.on_workers(pairs[0], trials)
    game = Game(calls, score, delta)

    def drawn(index: int, turn: int, each: int) -> tuple[Any, Any]:
        progress.expect(2 * each)
        found = calls.run(pairs[index], f"search/{turn}/{index}", 2 * each, _SEARCH_CALLS)
        return found.of(False), found.of(True)

    given = None if score == "learned" else score
    if len(pairs) > 1:
        progress.stage("search for the most informative pair")
    best = most_informative(drawn, len(pairs), search, trials, seed % 2**32, given)
    pair = pairs[best]
    progress.stage("certificate")
    certificate = game.run(pair, "certificate", trials, alpha)
    control = None
    if claim is not None and certificate.epsilon.lower <= claim:

        def certified(train: Trials, test: Trials) -> float:
            return game.certify(train, test, alpha).epsilon.lower

        def on_d(count: int) -> Any:
            progress.expect(count)
            return calls.of_one(pair[0], "control", count)

        progress.stage("positive control")
        sizes = game.sizes(trials)
        control = positive_control(
            on_d,
            certified,
            claim=claim,
            factor=detectable,
            sizes=sizes,
            alpha=alpha,
            delta=delta,
            rng=generator(seed, "planted"),
            score=given,
            unread=certificate.unread,
        )
    likelihood = None
    if log_ratio is not None:
        likelihood = likelihood_epsilon(
            certificate.scores[certificate.trials.present], delta=delta, alpha=alpha
        )
    return BlackBoxAudit(
        epsilon=certificate.epsilon,
        delta=delta,
        event=certificate.event,
        pair=best,
        score=certificate.score,
        likelihood=likelihood,
        seed=seed,
        drift=drift(certificate.trials, certificate.scores),
        control=control,
        noiseless=certificate.noiseless,
        unread=certificate.unread,
    )


def check_calls(name: str, value: Any) -> None:
    """Refuse a number of calls that is no whole number, or too small for any audit.

    Raises:
        InputError: it is.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < _LEAST:
        raise InputError(f"{name} = {value!r} is not a whole number of at least {_LEAST}")


def check_arguments(
    pairs: Sequence[tuple[Any, Any]],
    score: Score | Literal["learned"],
    delta: float,
    alpha: float,
) -> None:
    """Refuse the arguments of `audit_pairs` that no audit can use, before the mechanism is called.

    Args:
        pairs: pairs of data sets.
        score: a function, or "learned".
        delta: the δ at which ε is bounded.
        alpha: the level of the bound.

    Raises:
        InputError: an argument is out of range, or a pair is none or holds equal data sets.
    """
    outcomes.check_alpha(alpha)
    outcomes.check_delta(delta)
    if score != "learned" and not callable(score):
        raise InputError(f"score = {score!r} is neither 'learned' nor a function")
    if not len(pairs):
        raise InputError("pairs are empty: give at least one pair of neighbouring data sets")
    for index, pair in enumerate(pairs):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(f"pairs[{index}] is not a tuple (d, d_prime): make it one")
        if same_data(*pair):
            raise InputError(
                f"pairs[{index}] holds the same data set twice, which no mechanism tells apart: "
                "give two neighbouring data sets"
            )
