"""Black-box audits of any mechanism that can be called, from its outputs alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from dpaudit.auditor.games.certify import certify
from dpaudit.auditor.games.controls import Bar, reported
from dpaudit.audits.mechanism.arguments import (
    Stop,
    check_arguments,
    check_calls,
    check_claim,
    check_probability,
    check_stop,
)
from dpaudit.audits.mechanism.calls import Calls, Mechanism, Score
from dpaudit.audits.mechanism.control import PlantedGame
from dpaudit.audits.mechanism.early import SHARE
from dpaudit.audits.mechanism.game import OutputBound, exceptions, with_exceptions
from dpaudit.audits.mechanism.order import drift
from dpaudit.audits.mechanism.repetition import repeated
from dpaudit.audits.mechanism.result import BlackBoxAudit, Stopped
from dpaudit.audits.mechanism.search_pairs import most_informative
from dpaudit.bounds.frequentist.likelihood import likelihood_epsilon
from dpaudit.bounds.outcomes import settled
from dpaudit.bounds.power import detectable_epsilon
from dpaudit.core.errors import InputError
from dpaudit.execution.executor import INLINE, Executor

__all__ = ["BlackBoxAudit", "Mechanism", "Score", "audit", "audit_pairs"]

# Most calls of a batched mechanism in one round of the search. Fewer than `MOST` suffice, as the
# search certifies nothing.
_SEARCH_CALLS = 256


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
    stop: Stop | None = None,
    seed: int | None = None,
) -> BlackBoxAudit:
    """Certify a lower bound on a mechanism's ε from its outputs on two neighbouring data sets.

    A fair coin chooses the data set of each call, so that state kept between calls cannot reveal
    it; see `dpaudit.audits.mechanism.calls`. What the calls certify is repeated in fresh
    processes; see `dpaudit.audits.mechanism.repetition`. An exception is an output. A learned
    score is trained on half of the trials (at most 400 000) and certified on the others; a given
    score is certified on all. The bound is valid for any score; it is larger the closer the score
    is to the likelihood ratio of the two output distributions.

    Args:
        mechanism: `mechanism(data, rng)` returns one output: a number, an array, a word, or a
            list. It must not depend on other calls' data and must not change `data`. The audit is
            reproducible only if all randomness comes from `rng`, or from the generators of the
            process (`numpy.random`, `random`, torch), which are seeded for each call.
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
            costs about 0.02 s per call, and the import of the mechanism's modules.
        claim: the claimed ε. If it is not found to be false, the same game is run on copies of
            the mechanism with planted violations, which measures the power of the audit. See
            `dpaudit.audits.mechanism.planted`.
        detectable: ε of the planted violations, as a multiple of the claim.
        stop: "when-decided" ends the audit as soon as the claim is refuted, at any number of
            outputs up to `trials`; the bound then lies little above the claim.
            Bets on the calls' coins refute it; see `dpaudit.bounds.frequentist.coin_betting`. They
            spend a tenth of the error probability, and the certificate of all trials the rest.
            None makes all trials.
        seed: seed of every random stream: more trials extend the same sequence. None draws one from
            the operating system's entropy. The confidence is over the choice of the seed; it does
            not hold for a seed chosen after seeing results.

    Raises:
        InputError: too few trials, equal data sets, outputs or scores that are not numbers, batches
            with dependent outputs, or δ or the confidence out of range.
        RunError: every call raises an exception.
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
        stop=stop,
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
    detectable: float | None = 1.5,
    stop: Stop | None = None,
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
        detectable: see `audit`; None plants nothing.
        stop: see `audit`.
        seed: see `audit`.
        executor: its workers make the calls, if these depend on data and `rng` alone, and receives
            the progress; see `dpaudit.audits.mechanism.blocks`. None makes all calls in one
            sequence, in this thread.

    Raises:
        InputError: no pair is given, or as in `audit`.
        RunError: as in `audit`.
    """
    check_probability("confidence", confidence)
    alpha = 1 - confidence
    check_arguments(pairs, score, delta, alpha)
    for name, value in (("trials", trials), ("search", search)):
        check_calls(name, value)
    if log_ratio is not None:
        if score != "learned":
            raise InputError("both score and log_ratio are given: the log-ratio is the score")
        if not callable(log_ratio):
            raise InputError(f"log_ratio = {log_ratio!r} is not a function: give one of outputs")
        score = log_ratio
    check_claim(claim, detectable)
    check_stop(stop, claim)
    claim = None if claim is None else float(claim)
    calls = Calls(
        mechanism, batched, settled(seed), fresh_process, score == "learned", executor
    ).on_workers(pairs[0])
    progress = (executor or INLINE).progress
    if score != "learned":
        score = with_exceptions(score)
    game = OutputBound(calls, score, delta, confidence)

    def drawn(index: int, turn: int, count: int) -> tuple[Any, Any]:
        progress.expect(2 * count)
        outputs = calls.run(pairs[index], f"search/{turn}/{index}", 2 * count, _SEARCH_CALLS)
        return outputs.of(False), outputs.of(True)

    given = None if score == "learned" else score
    if len(pairs) > 1:
        progress.stage("search for the most informative pair")
    best = most_informative(drawn, len(pairs), search, trials, calls.seed % 2**32, given)
    pair = pairs[best]
    progress.stage("certificate")
    bettor = None
    if stop and claim is not None:
        bettor = game.bettor(claim, SHARE * alpha, log_odds=log_ratio is not None)
        alpha *= 1 - SHARE
    finds = None
    if claim is not None:
        finds = detectable_epsilon(claim, game.sizes(trials)[1], alpha, delta=delta)
    first = game.run(pair, "certificate", trials, alpha, bettor)
    first = game.lengthened(first, pair, trials)
    if first.epsilon.lower > 0:
        progress.stage("repetition in fresh processes")
    certificate, repetition = repeated(game, first, pair, alpha, claim)
    held: tuple[str, ...] = ()
    if repetition is None and not first.noiseless and certificate.epsilon.lower > (claim or 0.0):
        held = tuple(calls.may_be_noise(constant=True))
    planted = PlantedGame(game, pair, trials, alpha, claim, first, certificate)
    limits = () if claim is None or detectable is None else (Bar(claim, detectable),)
    control = reported(certify(planted, limits).controls)
    likelihood = None
    if log_ratio is not None and not first.early:
        likelihood = likelihood_epsilon(
            certificate.scores[certificate.trials.present], delta=delta, alpha=alpha
        )
    return BlackBoxAudit(
        epsilon=certificate.epsilon,
        delta=delta,
        event=certificate.event,
        pair=best,
        score=certificate.scorer.name,
        likelihood=likelihood,
        seed=calls.seed,
        drift=drift(first.trials, first.scores),
        control=control,
        noiseless=first.noiseless and certificate.noiseless,
        repetition=repetition,
        raised=exceptions(first.trials),
        doubtful=planted.doubtful,
        unread=certificate.scorer.unread,
        stopped=Stopped(bettor.outputs, bettor.p_value) if bettor and first.early else None,
        finds=finds,
        held=held,
    )
