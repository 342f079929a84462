"""Black-box audits of any mechanism that can be called, from its outputs alone.

The arguments are checked first. Among several pairs of data sets the most informative one is
searched for, and the game is run on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box.encoding import joined_batches
from dpaudit.attacks.black_box.learned import LearnedScore
from dpaudit.attacks.black_box.prospects import prospect
from dpaudit.auditor.games import Bar, certify, reported
from dpaudit.audits.mechanism.calls import Calls, Mechanism, Score, same_data
from dpaudit.audits.mechanism.game import SHARE, OutputBound, drift, exceptions, with_exceptions
from dpaudit.audits.mechanism.planted import PlantedGame, repeated
from dpaudit.bounds import outcomes
from dpaudit.bounds.frequentist.labels import LabelTest
from dpaudit.bounds.frequentist.likelihood import likelihood_epsilon
from dpaudit.bounds.outcomes import settled
from dpaudit.bounds.planning import detectable_epsilon
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate
from dpaudit.execution.executor import Executor
from dpaudit.record.values import Control

# What ends an audit before its last trial: that the claim is refuted.
Stop = Literal["when-decided"]
# `draw(pair, round, count)` draws `count` outputs on either data set of a pair.
_Draw = Callable[[int, int, int], tuple[Any, Any]]
# The least and the largest number of trials, and of outputs in the search.
_LEAST, _MOST = 200, 100_000_000
# The largest factor of a planted violation.
_STRONGEST = 1e6
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
    processes; see `dpaudit.audits.mechanism.planted`. An exception is an output. A learned
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
            Bets on the calls' coins refute it; see `dpaudit.bounds.frequentist.sequential`. They
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
        pairs: pairs of neighbouring data sets, e.g. from `input_pairs`.
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
            the progress; see `dpaudit.audits.mechanism.calls`. None makes all calls in one
            sequence, in this thread.

    Raises:
        InputError: no pair is given, or as in `audit`.
        RunError: as in `audit`.
    """
    check_probability("confidence", confidence)
    alpha = 1 - confidence
    check_arguments(pairs, score, delta, alpha, claim, detectable, stop)
    for name, value in (("trials", trials), ("search", search)):
        check_calls(name, value)
    score = _given_score(score, log_ratio)
    claim = None if claim is None else float(claim)
    calls = Calls(
        mechanism, batched, settled(seed), fresh_process, score == "learned", executor
    ).on_workers(pairs[0])
    best = _best_pair(calls, score, pairs, search, trials)
    calls.progress.stage("certificate")
    # Bets spend a part of the error probability.
    level = alpha * (1 - SHARE) if stop else alpha
    game = OutputBound(calls, score, pairs[best], trials, delta, level, confidence, claim)
    bettor = finds = None
    if stop and claim is not None:
        bettor = game.bettor(claim, SHARE * alpha, log_odds=log_ratio is not None)
    if claim is not None:
        finds = detectable_epsilon(claim, game.sizes(trials)[1], level, delta=delta)
    first = game.lengthened(game.run(bettor))
    if first.epsilon.lower > 0:
        calls.progress.stage("repetition in fresh processes")
    certificate, repetition = repeated(game, first)
    held: tuple[str, ...] = ()
    if repetition is None and not first.noiseless and certificate.epsilon.lower > (claim or 0.0):
        held = tuple(calls.may_be_noise(constant=True))
    planted = PlantedGame(game, first, certificate)
    limits = () if claim is None or detectable is None else (Bar(claim, detectable),)
    control = reported(certify(planted, limits).controls)
    likelihood = None
    if log_ratio is not None and not first.early:
        likelihood = likelihood_epsilon(
            certificate.scores[certificate.trials.present], delta=delta, alpha=level
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
        stopped=EarlyEnd(bettor.outputs, bettor.process.p_value)
        if bettor and first.early
        else None,
        finds=finds,
        held=held,
    )


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
        noiseless: whether each call on D gave the same output, and each on D' the same other one.
        repetition: a sentence if the calls of one process alone certify nothing, as their outputs
            depend on more than the data and `rng`; says what fresh processes repeat. Else None.
        raised: a sentence if calls raised exceptions, which are outputs; else None.
        doubtful: whether the calls of one process break the claim, and fresh processes do not
            repeat that: neither is it false, nor does the audit speak for it.
        unread: what the learned score does not read in the outputs, in words.
        stopped: where it ended early; the bound then holds at any time. Else None.
        finds: the least true ε above the claim that all trials find with 95 % power, as forecast
            for Laplace noise, see `bounds.planning.detectable_epsilon`; infinite if they find
            none, None without a claim.
        held: the names of values from when the mechanism was made that count as settings, where
            more than the claim is certified: were one of them noise, it would hold for this noise.
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
    repetition: str | None = None
    raised: str | None = None
    doubtful: bool = False
    unread: tuple[str, ...] = ()
    stopped: EarlyEnd | None = None
    finds: float | None = None
    held: tuple[str, ...] = ()

    @property
    def settings(self) -> str | None:
        """Return a sentence on the values that count as settings; None without such."""
        if not self.held:
            return None
        return (
            f"it holds {', '.join(self.held)} from when it was made, which looks like a setting: "
            "if it is noise, the bound is that of this noise alone, so draw it from rng in each "
            "call"
        )


@dataclass(frozen=True)
class EarlyEnd:
    """An audit that ended early, as it had refuted the claim.

    Attributes:
        outputs: the number of outputs so far.
        p_value: the p-value of the claim, which holds at any time.
    """

    outputs: int
    p_value: float


def check_arguments(
    pairs: Sequence[tuple[Any, Any]],
    score: Score | Literal["learned"],
    delta: float,
    alpha: float,
    claim: Any,
    detectable: Any,
    stop: Any,
) -> None:
    """Refuse the arguments of `audit_pairs` that no audit can use, before the mechanism is called.

    Args:
        pairs: pairs of data sets.
        score: a function, or "learned".
        delta: the δ at which ε is bounded.
        alpha: the level of the bound.
        claim: the claimed ε; None claims nothing.
        detectable: the factor of planted violations; None plants nothing.
        stop: "when-decided", or None.

    Raises:
        InputError: an argument is out of range, or a pair is none or holds equal data sets.
    """
    outcomes.check_alpha(alpha)
    outcomes.check_delta(delta)
    if score != "learned" and not callable(score):
        raise InputError(f"score = {score!r} is neither 'learned' nor a function")
    if not isinstance(pairs, Sized):
        raise InputError(f"pairs = {pairs!r} is no list: give a list of pairs (d, d_prime)")
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
    if claim is not None:
        outcomes.check_epsilon(claim, "claim")
    if detectable is not None:
        outcomes.check_number("detectable", detectable)
        if not 1 < detectable <= _STRONGEST:
            raise InputError(
                f"detectable = {detectable} is not above 1 and at most {_STRONGEST:g}: use e.g. 1.5"
            )
    if stop not in (None, "when-decided"):
        raise InputError(f"stop = {stop!r} is neither 'when-decided' nor None: use one of these")
    if stop and claim is None:
        raise InputError("stop = 'when-decided' decides on a claim: give one, or leave out stop")


def check_calls(name: str, value: Any) -> None:
    """Refuse a number of calls that is no whole number, too small for any audit, or too large.

    Raises:
        InputError: it is.
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not _LEAST <= value <= _MOST:
        raise InputError(f"{name} = {value!r} is not a whole number from {_LEAST} to {_MOST}")


def check_probability(name: str, value: Any) -> None:
    """Refuse what is no number in (0, 1).

    Raises:
        InputError: it is none.
    """
    outcomes.check_number(name, value)
    if not 0 < value < 1:
        raise InputError(f"{name} = {value!r} is not in (0, 1): use e.g. 0.95 or 0.05")


def _given_score(
    score: Score | Literal["learned"], log_ratio: Score | None
) -> Score | Literal["learned"]:
    """Return the score to use, a given one with exceptions above all other outputs.

    Raises:
        InputError: a score is given beside the log-ratio, or this is no function.
    """
    if log_ratio is not None:
        if score != "learned":
            raise InputError("both score and log_ratio are given: the log-ratio is the score")
        if not callable(log_ratio):
            raise InputError(f"log_ratio = {log_ratio!r} is not a function: give one of outputs")
        score = log_ratio
    return score if score == "learned" else with_exceptions(score)


def _best_pair(
    calls: Calls,
    score: Score | Literal["learned"],
    pairs: Sequence[tuple[Any, Any]],
    search: int,
    trials: int,
) -> int:
    """Return the index of the most informative pair."""

    def drawn(index: int, turn: int, count: int) -> tuple[Any, Any]:
        calls.progress.expect(2 * count)
        outputs = calls.run(pairs[index], f"search/{turn}/{index}", 2 * count, _SEARCH_CALLS)
        return outputs.of(False), outputs.of(True)

    if len(pairs) > 1:
        calls.progress.stage("search for the most informative pair")
    given = None if score == "learned" else score
    return most_informative(drawn, len(pairs), search, trials, calls.seed % 2**32, given)


def most_informative(
    draw: _Draw, pairs: int, budget: int, trials: int, seed: int, score: Score | None
) -> int:
    """Return the index of the pair with the largest forecast of the certified bound.

    Successive halving (Karnin, Koren & Somekh 2013): each pair gets `budget` outputs, the better
    half as many again as it has, and so on; all outputs of a pair are kept. A quick score is
    learned on half of a pair's outputs, and its bound is forecast from the others; ties, such as
    forecasts of 0, are broken by the AUC.

    Args:
        draw: draws fresh outputs.
        pairs: number of pairs.
        budget: outputs of each pair in the first round.
        trials: number of outputs that the certificate will use.
        seed: seed of the scores.
        score: the given score; None if it is learned.
    """
    left = list(range(pairs))
    held: dict[int, tuple[Any, Any]] = {}
    turn = 0
    while len(left) > 1:
        turn += 1
        worth = {}
        for index in left:
            absent, present = draw(index, turn, budget // 2)
            if index in held:
                absent = joined_batches([held[index][0], absent])
                present = joined_batches([held[index][1], present])
            held[index] = absent, present
            worth[index] = _promise(held[index], trials, seed, score)
        left = sorted(left, key=lambda index: worth[index], reverse=True)[: -(-len(left) // 2)]
        # Double each pair's outputs, with at most `trials` new ones in a round.
        budget = min(budget * (2 if turn > 1 else 1), trials)
        held = {index: held[index] for index in left}
    return left[0]


def _promise(
    outputs: tuple[Any, Any], trials: int, seed: int, score: Score | None
) -> tuple[float, float]:
    """Return a pair's forecast bound, and the distance of its AUC from ½."""
    from scipy.stats import rankdata

    judged = outputs
    if score is None:
        half = len(outputs[0]) // 2
        score = LearnedScore.fit(outputs[0][:half], outputs[1][:half], seed, quick=True).score
        judged = outputs[0][half:], outputs[1][half:]
    absent, present = (np.asarray(score(batch), np.float64) for batch in judged)
    scores, labels = np.r_[absent, present], np.repeat([0, 1], [len(absent), len(present)])
    excess = rankdata(scores)[len(absent) :].mean() - (len(scores) + 1) / 2
    promise = prospect(scores, labels, trials, calibrated=True)
    return promise.epsilon, abs(float(excess)) / len(absent)


Neighbours = Literal["all-differ", "one-differs", "any-value"]
Data = NDArray[np.float64]


def input_pairs(
    neighbours: Neighbours, length: int, *, base: float = 1.0, step: float = 1.0
) -> list[tuple[Data, Data]]:
    """List pairs (d, d') that are likely to show a violation.

    Each pair appears in one order only, as audits test both directions. Violations seldom depend on
    special values, so a few patterns of change from a constant vector find them. A mechanism that
    reads its input in order treats a change at the first coordinate and one at the last
    differently, so each pattern's mirror image is added if it is new.

    Ding et al. 2018, arXiv:1805.10277 (the table of database categories); the mirrored patterns
    are added here.

    Args:
        neighbours: the adjacency: vectors of query answers that differ by at most `step` in every
            coordinate (`all-differ`); vectors that differ by `step` in one coordinate
            (`one-differs`); any two values of one user (`any-value`).
        length: the number of coordinates (at least 1); for `any-value` the number of values (at
            least 2), which are `base`, `base + step` and so on.
        base: the entry of the constant vector.
        step: by how much neighbours may differ in a coordinate.

    Returns:
        Pairs of vectors `(length,)`; for `any-value` all pairs of vectors `(1,)`.

    Raises:
        InputError: the adjacency is unknown, `length` is too small, `base` is not finite, or `step`
            is not positive.
    """
    _check(neighbours, length, base, step)
    if neighbours == "any-value":
        values = [np.array([base + step * i]) for i in range(length)]
        return list(combinations(values, 2))
    first = np.arange(length) == 0
    half = np.arange(length) < length // 2
    up, down, same = step, -step, 0.0
    # Changes from the constant vector d to d'.
    changes = [np.where(first, up, same), np.where(first, down, same)]
    if neighbours == "all-differ":
        changes += [
            np.where(first, up, down),  # one above, the rest below
            np.where(first, down, up),
            np.where(half, up, down),  # one half above, the other below
            np.full(length, up),
            np.full(length, down),
        ]
    start = np.full(length, base)
    pairs = [(start, start + change) for change in changes]
    if neighbours == "all-differ":  # the X shape of Ding et al., where d changes as well
        pairs.append((start - step * half, start - step * ~half))
    mirrored = [(a[::-1], b[::-1]) for a, b in pairs]
    # A dict removes duplicates and keeps the order.
    distinct = {frozenset((a.tobytes(), b.tobytes())): (a, b) for a, b in pairs + mirrored}
    return [(a.copy(), b.copy()) for a, b in distinct.values()]


def _check(neighbours: str, length: int, base: float, step: float) -> None:
    """Refuse arguments that give no pair of different, finite inputs."""
    if neighbours not in get_args(Neighbours):
        raise InputError(
            f"neighbours = {neighbours!r} is not known: use {', '.join(get_args(Neighbours))}"
        )
    least = 2 if neighbours == "any-value" else 1
    if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < least:
        raise InputError(f"length = {length!r} gives no pair: use a whole number from {least} on")
    if not np.isfinite(base):
        raise InputError(f"base = {base} is not a finite number: use e.g. 1")
    if not (np.isfinite(step) and step > 0):
        raise InputError(f"step = {step} is not a positive number: use e.g. 1")
