"""Audits of any mechanism that can be called: nothing is known of it but its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpaudit.attacks.black_box.learned import LearnedScore
from dpaudit.auditor.black_box.calls import (
    MOST,
    Calls,
    Mechanism,
    Trials,
    same_data,
    unchanged,
)
from dpaudit.auditor.black_box.order import check_calls, drift
from dpaudit.auditor.black_box.planted import positive_control
from dpaudit.auditor.black_box.search_pairs import most_telling
from dpaudit.bounds import outcomes
from dpaudit.bounds.frequentist.labels import LabelTest, label_epsilon
from dpaudit.bounds.frequentist.likelihood import likelihood_epsilon
from dpaudit.bounds.frequentist.revealing import Ends
from dpaudit.bounds.frequentist.seeds import settled
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Control

__all__ = ["BlackBoxAudit", "Mechanism", "Score", "audit", "audit_pairs"]

Score = Callable[[Any], Any]

# A learned score is trained on half the trials, but on so many at most.
_TRAINING = 400_000
# Calls of a batched mechanism that make the outputs of a round of the search, which certifies
# nothing.
_SEARCH_CALLS = 256
_LEAST = 200


@dataclass(frozen=True)
class BlackBoxAudit:
    """What an audit of a mechanism on one pair of data sets found.

    Attributes:
        epsilon: certified lower bound on the mechanism's ε at `delta`.
        delta: the δ at which it holds.
        event: the event that shows it, with how often it happened.
        pair: the index of the pair that was audited, among those given.
        score: how outputs were scored.
        likelihood: the bound that holds if the given `log_ratio` is the true one; it judges
            nothing.
        seed: what decided the audit: given again, the same audit is played.
        drift: in words, where outputs change with the number of the call or depend on the one
            before; None where no such thing was found.
        control: what the same game found on a mutant with a planted violation; None where no
            claim was given, or the mechanism itself was found to break it.
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
    """Certify a lower bound on ε of a mechanism from its outputs on two neighbouring data sets.

    A fair coin decides which data set each call gets, so that what the mechanism keeps between
    calls cannot tell them apart; see `dpaudit.auditor.black_box.calls`. A learned score is trained
    on half of the trials, or 400 000 of them, and certified on the others; a given score is
    certified on all. The bound holds whatever the score; the closer that is to the likelihood ratio
    of the two output laws, the larger the bound.

    Args:
        mechanism: `mechanism(data, rng)` returns one output: a number, an array, a word, or a
            list, that depends on no other call's data; it must not change `data`. Randomness that
            is not from `rng` cannot be played again.
        d: a data set.
        d_prime: a neighbour of it.
        delta: the δ at which ε is bounded.
        confidence: of the bound.
        trials: outputs drawn in all.
        score: `score(outputs)` returns one number an output, large where `d_prime` is likelier; it
            must not have been chosen on these outputs. It is given the outputs on both data sets
            together, in the order of the calls, which coins decided: one that reads its whole
            batch cannot tell them apart by it. Or "learned".
        log_ratio: where the laws of the outputs are known, `log_ratio(outputs)`, the logarithm of
            their likelihood ratio, `d_prime`'s over `d`'s. It is the score then, and gives the
            likelihood form beside the certified bound, which holds even if it is wrong.
        batched: whether the mechanism is `mechanism(data, rng, n)` and returns n independent
            outputs, an array with leading axis n. Beyond 16 384 outputs n is larger than 1.
        fresh_process: make every call in a process of its own, so that no state in memory survives
            it: about a hundredth of a second a call. The mechanism must be picklable.
        claim: the ε that the mechanism is held to. Where it is not found to be broken, the same
            game is played on mutants of the mechanism with a violation planted in their outputs:
            the power of the audit, measured. See `dpaudit.auditor.black_box.planted`.
        detectable: the mutants' ε, as a multiple of the claim.
        seed: decides every stream: more trials extend the same sequence. None draws one from the
            operating system's entropy. The confidence is that over the choice of the seed, not of
            one chosen after looking.

    Raises:
        InputError: too few trials, equal data sets, outputs or scores that are not numbers, batches
            whose outputs are alike, or δ or the confidence out of range.
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
) -> BlackBoxAudit:
    """As `audit`, on the pair of neighbouring data sets that a search finds most telling.

    Each pair is given `search` outputs, the better half as many again, and so on; the pair that is
    left is audited with fresh ones, so that the search spends no confidence.

    Args:
        mechanism: see `audit`.
        pairs: pairs of neighbouring data sets, e.g. of `patterns.input_pairs`.
        delta: see `audit`.
        confidence: see `audit`.
        trials: outputs for the certificate.
        search: outputs for each pair in the first round of the search.
        score: see `audit`.
        log_ratio: see `audit`; of whichever pair is audited.
        batched: see `audit`.
        fresh_process: see `audit`.
        claim: see `audit`.
        detectable: see `audit`.
        seed: see `audit`.

    Raises:
        InputError: no pair, or as in `audit`.
    """
    _check_pairs(pairs)
    for name, value in (("trials", trials), ("search", search)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < _LEAST:
            raise InputError(f"{name} = {value!r} is not a whole number of at least {_LEAST}")
    if score != "learned" and not callable(score):
        raise InputError(f"score = {score!r} is neither 'learned' nor a function")
    if log_ratio is not None:
        if score != "learned":
            raise InputError("both score and log_ratio are given: the log-ratio is the score")
        score = log_ratio
    alpha = 1 - confidence
    outcomes.check_alpha(alpha)
    outcomes.check_delta(delta)
    if claim is not None:
        outcomes.check_epsilon(claim)
        if not detectable > 1:
            raise InputError(f"detectable = {detectable} is not above 1: use e.g. 1.5")
    seed = settled(seed)
    calls = Calls(mechanism, batched, seed, fresh_process, exact=score == "learned")
    game = _Game(calls, score, delta)

    def drawn(index: int, turn: int, each: int) -> tuple[Any, Any]:
        found = calls.play(pairs[index], f"search/{turn}/{index}", 2 * each, _SEARCH_CALLS)
        return found.of(False), found.of(True)

    given = None if score == "learned" else score
    best = most_telling(drawn, len(pairs), search, trials, seed % 2**32, given)
    pair = pairs[best]
    with unchanged(pair):
        played = game.play(pair, "certificate", trials, alpha)
    control = None
    if claim is not None and played.epsilon.lower <= claim:

        def certified(train: Trials, test: Trials) -> float:
            return game.certify(train, test, alpha).epsilon.lower

        sizes = game.sizes(trials)
        control = positive_control(
            lambda count: calls.of_one(pair[0], "control", count),
            certified,
            claim=claim,
            factor=detectable,
            sizes=sizes,
            alpha=alpha,
            delta=delta,
            rng=np.random.default_rng([seed, *b"planted"]),
            score=given,
        )
    likelihood = None
    if log_ratio is not None:
        likelihood = likelihood_epsilon(
            played.scores[played.trials.present], delta=delta, alpha=alpha
        )
    return BlackBoxAudit(
        epsilon=played.epsilon,
        delta=delta,
        event=played.event,
        pair=best,
        score=played.score,
        likelihood=likelihood,
        seed=seed,
        drift=drift(played.trials, played.scores),
        control=control,
    )


@dataclass(frozen=True)
class _Played:
    """The bound on one pair, its event, the score's name, and what it was certified on."""

    epsilon: Estimate
    event: LabelTest
    score: str
    trials: Trials
    scores: outcomes.Scores


@dataclass(frozen=True)
class _Game:
    """Learn a score on some trials, certify on others.

    Attributes:
        calls: how the mechanism is called.
        score: a function, or "learned".
        delta: the δ of the bound.
    """

    calls: Calls
    score: Score | Literal["learned"]
    delta: float

    def sizes(self, trials: int) -> tuple[int, int]:
        """How many of the trials train, and how many certify."""
        train = min(trials // 2, _TRAINING) if self.score == "learned" else 0
        return train, trials - train

    def play(
        self,
        pair: tuple[Any, Any],
        purpose: str,
        trials: int,
        alpha: float,
    ) -> _Played:
        """Draw outputs on both data sets, and certify."""
        train, test = (
            self.calls.play(pair, f"{purpose}/{part}", count, MOST) if count else None
            for part, count in zip(("train", "test"), self.sizes(trials), strict=True)
        )
        assert test is not None  # noqa: S101
        return self.certify(train or test, test, alpha)

    def certify(self, train: Trials, test: Trials, alpha: float) -> _Played:
        """Learn on trials where the score is learned, and certify on others."""
        expected: Ends = "top"
        if self.score == "learned":
            learned = LearnedScore.fit(
                train.of(False),
                train.of(True),
                self.calls.seed % 2**32,  # more than that scikit-learn refuses
                trials=len(test),
            )
            expected = learned.side
            score: Score = learned.score
            name = f"learned ({learned.name})"
        else:
            score, name = self.score, getattr(self.score, "__name__", "given")
        scores = _scored(score, test.outputs)
        check_calls(test, scores)
        estimate, event = label_epsilon(
            scores[~test.present],
            scores[test.present],
            delta=self.delta,
            alpha=alpha,
            coin_flipped=True,
            expected=expected,
            log_odds=self.score == "learned",
            seed=self.calls.seed,
        )
        return _Played(estimate, event, name, test, scores)


def _scored(score: Score, outputs: Any) -> outcomes.Scores:
    """One finite score an output: more of them would count one trial more than once."""
    found = outcomes.scores(score(outputs), "scores")
    if len(found) != len(outputs):
        raise InputError(f"score returned {len(found)} numbers for {len(outputs)} outputs")
    return found


def _check_pairs(pairs: Sequence[tuple[Any, Any]]) -> None:
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
