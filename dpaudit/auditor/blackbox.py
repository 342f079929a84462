"""Audits of any mechanism that can be called: nothing is known of it but its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.learned import LearnedScore
from dpaudit.bounds import outcomes
from dpaudit.bounds.estimate import Estimate
from dpaudit.bounds.labels import LabelTest, label_epsilon
from dpaudit.bounds.likelihood import likelihood_epsilon
from dpaudit.errors import InputError

# mechanism(data, rng), or mechanism(data, rng, n) for n independent outputs at once.
Mechanism = Callable[..., Any]
Score = Callable[[Any], Any]

# A learned score is trained on half the trials, but on so many at most.
_TRAINING = 400_000
# The level at which pairs are compared in the search; it certifies nothing.
_SEARCH_ALPHA = 0.3
# Outputs drawn at a time from a mechanism that makes many: fixed, so that a world's noise depends
# on its index alone.
_BLOCK = 4096
_LEAST = 200
# What a learned score reads.
_ENTRY = str | bytes | int | float | np.integer | np.floating | np.bool_ | None


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
    """

    epsilon: Estimate
    delta: float
    event: LabelTest
    pair: int
    score: str
    likelihood: Estimate | None = None


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
    seed: int = 0,
) -> BlackBoxAudit:
    """Certify a lower bound on ε of a mechanism from its outputs on two neighbouring data sets.

    Half of the trials are drawn on either data set. A learned score is trained on half of the
    trials, or 400 000 of them, and certified on the others; a given score is certified on all. The
    bound holds whatever the score; the closer that is to the likelihood ratio of the two output
    laws, the larger the bound.

    Args:
        mechanism: `mechanism(data, rng)` returns one output: a number, an array, a word, or a
            list. It must draw all its randomness from `rng`, and outputs must be independent.
        d: a data set.
        d_prime: a neighbour of it.
        delta: the δ at which ε is bounded.
        confidence: of the bound.
        trials: outputs drawn in all.
        score: `score(outputs)` returns one number an output, from that output alone, large where
            `d_prime` is likelier; it must not have been chosen on these outputs. Or "learned".
        log_ratio: where the laws of the outputs are known, `log_ratio(outputs)`, the logarithm of
            their likelihood ratio, `d_prime`'s over `d`'s. It is the score then, and gives the
            likelihood form beside the certified bound, which holds even if it is wrong.
        batched: whether the mechanism is `mechanism(data, rng, n)` and returns n independent
            outputs, an array with leading axis n; many times faster.
        seed: decides every stream: more trials extend the same sequence.

    Raises:
        InputError: too few trials, outputs or scores that are not numbers, or δ or the confidence
            out of range.
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
    seed: int = 0,
) -> BlackBoxAudit:
    """As `audit`, on the pair of neighbouring data sets that a search finds most telling.

    Each pair is audited with `search` outputs, the better quarter with four times as many, and so
    on; the pair that is left is audited with fresh ones, so that the search spends no confidence.

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
        seed: see `audit`.

    Raises:
        InputError: no pair, or as in `audit`.
    """
    _check_pairs(pairs)
    for name, value, least in (
        ("trials", trials, _LEAST),
        ("search", search, _LEAST),
        ("seed", seed, 0),
    ):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name} = {value!r} is not a whole number of at least {least}")
    if score != "learned" and not callable(score):
        raise InputError(f"score = {score!r} is neither 'learned' nor a function")
    if log_ratio is not None:
        if score != "learned":
            raise InputError("both score and log_ratio are given: the log-ratio is the score")
        score = log_ratio
    outcomes.check_alpha(1 - confidence)
    outcomes.check_delta(delta)
    game = _Game(mechanism, score, batched, delta, seed)
    left, budget, stage = list(range(len(pairs))), search, 0
    while len(left) > 1:
        stage += 1
        found = {}
        for index in left:
            purpose = f"search/{stage}/{index}"
            played = game.play(pairs[index], purpose, budget, _SEARCH_ALPHA, quick=True)
            found[index] = played.epsilon.lower
        # Ties, such as bounds of 0, keep the order of the pairs.
        left = sorted(left, key=lambda index: -found[index])[: max(1, len(left) // 4)]
        budget = min(4 * budget, trials)
    played = game.play(pairs[left[0]], "certificate", trials, 1 - confidence)
    likelihood = None
    if log_ratio is not None:
        likelihood = likelihood_epsilon(played.present, delta=delta, alpha=1 - confidence)
    return BlackBoxAudit(played.epsilon, delta, played.event, left[0], played.score, likelihood)


@dataclass(frozen=True)
class _Played:
    """The bound on one pair, its event, the score's name, and the scores of worlds D'."""

    epsilon: Estimate
    event: LabelTest
    score: str
    present: outcomes.Scores


@dataclass(frozen=True)
class _Game:
    mechanism: Mechanism
    score: Score | Literal["learned"]
    batched: bool
    delta: float
    seed: int

    def play(
        self,
        pair: tuple[Any, Any],
        purpose: str,
        trials: int,
        alpha: float,
        *,
        quick: bool = False,
    ) -> _Played:
        if self.score == "learned":
            each = min(trials // 2, _TRAINING) // 2
            learned = LearnedScore.fit(
                self._outputs(pair[0], f"{purpose}/train/d", each),
                self._outputs(pair[1], f"{purpose}/train/d_prime", each),
                self.seed % 2**32,  # more than that scikit-learn refuses
                quick=quick,
            )
            trials -= 2 * each
            score: Score = learned.score
            name = f"learned ({learned.name})"
        else:
            score, name = self.score, getattr(self.score, "__name__", "given")
        scores = [
            _scored(score, self._outputs(data, f"{purpose}/{world}", trials // 2), world)
            for data, world in zip(pair, ("absent", "present"), strict=True)
        ]
        estimate, event = label_epsilon(
            scores[0],
            scores[1],
            delta=self.delta,
            alpha=alpha,
            seed=self.seed,
        )
        return _Played(estimate, event, name, scores[1])

    def _outputs(self, data: Any, purpose: str, count: int) -> Any:
        """So many independent outputs, of which a learned score can read each."""
        outputs = self._made(data, purpose, count)
        if self.score == "learned" and not _numeric(outputs):
            for output in outputs:
                _check_output(output)
        return outputs

    def _made(self, data: Any, purpose: str, count: int) -> Any:
        """So many outputs: an array where they are numbers of one shape, or a list."""
        if not self.batched:
            streams = _stream(self.seed, purpose).spawn(count)
            made = [self.mechanism(data, np.random.default_rng(stream)) for stream in streams]
            return _array(made)
        blocks = _stream(self.seed, purpose).spawn(-(-count // _BLOCK))
        parts = []
        for stream in blocks:
            made = self.mechanism(data, np.random.default_rng(stream), _BLOCK)
            try:
                part = np.asarray(made)
            except ValueError:
                part = np.empty(())
            if part.shape[:1] != (_BLOCK,):
                raise InputError(
                    f"the mechanism returned {type(made).__name__} where an array of {_BLOCK} "
                    "outputs was asked for: its first axis must be n, or leave out batched"
                )
            parts.append(part)
        return np.concatenate(parts)[:count]


def _array(made: list[Any]) -> NDArray[Any] | list[Any]:
    """Outputs as an array where all are numbers or arrays of one shape, else as they are."""
    try:
        array = np.asarray(made)
    except ValueError:  # of several shapes
        return made
    return array if _numeric(array) else made


def _numeric(output: Any) -> bool:
    return isinstance(output, np.ndarray) and output.dtype.kind in "biuf"


def _check_output(output: Any) -> None:
    """Refuse what has no entries to learn from; how an object is written may tell anything."""
    if _numeric(output):
        return
    flat = isinstance(output, list | tuple) or (isinstance(output, np.ndarray) and output.ndim == 1)
    for entry in output if flat else (output,):
        if not isinstance(entry, _ENTRY):
            of = f" with a {type(entry).__name__}" if flat else ""
            raise InputError(
                f"the mechanism returned a {type(output).__name__}{of}: make it a number, a word, "
                "an array, or a flat list, or give a score that reads it"
            )


def _scored(score: Score, outputs: Any, world: str) -> outcomes.Scores:
    """One finite score an output: more of them would count one trial more than once."""
    found = outcomes.scores(score(outputs), f"scores of {world} worlds")
    if len(found) != len(outputs):
        raise InputError(f"score returned {len(found)} numbers for {len(outputs)} outputs")
    return found


def _check_pairs(pairs: Sequence[tuple[Any, Any]]) -> None:
    if not len(pairs):
        raise InputError("pairs are empty: give at least one pair of neighbouring data sets")
    for index, pair in enumerate(pairs):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(f"pairs[{index}] is not a tuple (d, d_prime): make it one")


def _stream(seed: int, purpose: str) -> np.random.SeedSequence:
    return np.random.SeedSequence([seed, *purpose.encode()])
