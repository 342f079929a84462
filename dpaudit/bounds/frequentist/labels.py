"""The label test: one binomial test on the extreme scores, whose choice costs no confidence.

Flip a fair coin for each trial, run the mechanism on D' for heads and on D for tails, and score the
output. The label of a trial is its coin. Under (ε, δ)-DP the pair of output laws is a
post-processing of randomised response: with probability δ the label is revealed; otherwise the
output depends on a signal that is right with odds e^ε to 1 (Kairouz, Oh & Viswanath 2015,
arXiv:1311.0776: Theorem 2.5, with the mechanism in the proof of Theorem 3.3). So, given all signals
and scores, the labels are independent, and a guess at a label that is not revealed is right with
probability at most

    θ = e^ε / (1 + e^ε).

Let any rule that uses scores and the labels of *other* trials only select s trials and guess their
labels. The number S of right guesses is then stochastically at most `R + Binomial(s − R, θ)`. R,
the number of revealed labels among all m trials, exceeds r with probability
`β = P(Binomial(m, δ) > r)`. Hence a test at level α rejects if

    P(Binomial(s − r, θ) ≥ S − r) ≤ α − β.                                                  (1)

The test needs no split of α between two error rates and no correction for the choice of the
threshold. It reads labels from the far end of the scores inwards, or from the middle outwards, and
decides where to stop before it reads the remaining labels. A random pilot chooses whether the
event takes trials at the top, at the bottom or at both ends, and which label is guessed there. Both
ends count together: guessing D' at high and D at low scores doubles the evidence.

Classes of fixed size n are turned into coin flips by drawing how many trials of each to use. The
probability that the flips need more trials than there are is subtracted from α. An event of all
trials certifies nothing, since its labels are the coins only. The level holds over these random
draws. Their seed therefore comes from the operating system's entropy unless given. With one seed
for many audits, or one chosen by its result, the error probability may be larger.

Scores may depend on all outputs: given all outputs the labels are independent, and the scores are a
function of the outputs. So a score may use the whole batch of outputs on D and D' at once.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds import outcomes
from dpaudit.bounds.frequentist.event_choice import Ends, Events, Side, Tally, share_limit
from dpaudit.bounds.outcomes import Scores, settled
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import generator

# 1 for D', −1 for D, 0 for no guess.
Guesses = NDArray[np.int64]

# Shares of α for coin flips that need too many trials, and for more than r revealed labels.
_FLIPS, _REVEALED = 1 / 50, 1 / 5


@dataclass(frozen=True)
class LabelTest:
    """A chosen event, and the result of guessing its labels.

    Attributes:
        high: the event includes the trials with `score >= high`; None for none.
        low: the event includes the trials with `score <= low`; None for none.
        present_high: whether the guess is D' at high scores and D at low ones, or the reverse.
        hits: S, the number of right guesses in the event.
        size: s, the number of trials in the event.
        trials: m, the number of trials outside the pilot.
        pilot: the number of trials in the pilot, whose labels chose the direction.
        rates: estimated probabilities of `score >= high` (or `score <= low` if `high` is None) on
            D and on D'.
        seed: the seed of the pilot and of the omitted scores.
    """

    high: float | None
    low: float | None
    present_high: bool
    hits: int
    size: int
    trials: int
    pilot: int = 0
    rates: tuple[float, float] = (math.nan, math.nan)
    seed: int = 0

    def __str__(self) -> str:
        """Describe the event."""
        high, low = ("D'", "D") if self.present_high else ("D", "D'")
        parts = []
        if self.high is not None:
            parts.append(f"score >= {_shown(self.high)}, likelier in {high} than in {low}")
        if self.low is not None:
            parts.append(f"score <= {_shown(self.low)}, likelier in {low} than in {high}")
        return "; ".join(parts)

    def epsilon(self, delta: float, alpha: float) -> float:
        """Return the largest ε at which (1) refutes (ε, δ)-DP at level α; 0 for none.

        It is ln(θ/(1 − θ)) for the lower Clopper-Pearson limit θ on S − r hits of s − r.
        """
        if self.size == self.trials and (self.high is None or self.low is None):
            return 0.0
        revealed, spent = revealed_labels(self.trials, delta, alpha)
        share = float(share_limit(self.hits - revealed, self.size - revealed, alpha - spent))
        return max(0.0, _logit(share))

    def p_value(self, epsilon: float, delta: float, alpha: float) -> float:
        """Return the p-value of (ε, δ)-DP from this event, which was chosen for the level α.

        It is the left side of (1), plus β and the share of α for the coin flips. The choice of the
        event used none of its labels, so P(p-value ≤ u) ≤ u for every u.
        """
        if self.size == self.trials and (self.high is None or self.low is None):
            return 1.0
        from scipy.special import expit
        from scipy.stats import binom

        flips = alpha * _FLIPS
        revealed, spent = revealed_labels(self.trials, delta, alpha - flips)
        rest = max(self.size - revealed, 0)
        tail = float(binom.sf(self.hits - revealed - 1, rest, expit(epsilon)))
        return min(1.0, tail + spent + flips)


def label_epsilon(
    absent: Scores,
    present: Scores,
    *,
    delta: float = 0.0,
    alpha: float = 0.05,
    confidence: float | None = None,
    coin_flipped: bool = False,
    expected: Ends = "top",
    log_odds: bool = False,
    seed: int | None = None,
) -> tuple[Estimate, LabelTest]:
    """Return a certified lower bound on ε from scores of trials on D and D', and its event.

    Args:
        absent: scores of independent trials on data set D.
        present: scores of independent trials on data set D'; the number may differ.
        delta: the δ of the claim.
        alpha: the level of the bound.
        confidence: the confidence to state; default 1 − α.
        coin_flipped: whether a fair coin decided the data set of each trial. Otherwise the two
            sizes count as fixed, and some scores are left out.
        expected: the ends from which the event takes trials, with D' guessed at high scores, if the
            pilot is not informative; must not depend on these scores.
        log_odds: whether the scores estimate the log-odds of D' up to a factor and a constant; the
            event is then chosen by them. A wrong estimate costs power, never the level.
        seed: decides the pilot and which scores are left out; None draws one from the operating
            system's entropy, which the returned test holds. The level holds over the random choice
            of the seed, not for a seed chosen by its result.

    Raises:
        InputError: a score is not finite, a class is empty, the sizes contradict fair coins, or δ
            or α is out of range.
    """
    test = label_test(
        absent,
        present,
        delta=delta,
        alpha=alpha,
        coin_flipped=coin_flipped,
        expected=expected,
        log_odds=log_odds,
        seed=seed,
    )
    if coin_flipped:
        outcomes.check_coins(len(absent), len(present), "use coin_flipped=False")
    level = alpha if coin_flipped else alpha * (1 - _FLIPS)
    return _bounded(test, delta, level, alpha, confidence), test


def most_certified(trials: int, *, delta: float, alpha: float) -> float:
    """Return the largest ε that the label test can certify: that of all trials guessed right.

    Args:
        trials: the number of trials on D and D' together.
        delta: the δ of the claim.
        alpha: the level of the bound.
    """
    every = LabelTest(0.0, 0.0, present_high=True, hits=trials, size=trials, trials=trials)
    return every.epsilon(delta, alpha)


def guessed_epsilon(
    guesses: Guesses,
    present: NDArray[np.bool_],
    *,
    delta: float,
    alpha: float,
    confidence: float | None = None,
) -> tuple[Estimate, LabelTest]:
    """Return a certified lower bound on ε from guesses that were fixed before the trials.

    Args:
        guesses: 1 for D', −1 for D, 0 for no guess; a function of the outputs `(n,)`.
        present: whether each trial's fair coin chose D' `(n,)`.
        delta: the δ of the claim.
        alpha: the level of the bound.
        confidence: the confidence to state; default 1 − α.
    """
    high, low = guesses > 0, guesses < 0
    hits = int(present[high].sum() + (~present[low]).sum())
    shown, right = (high, present) if high.any() else (low, ~present)
    rates = float(shown[~right].mean()), float(shown[right].mean())
    test = LabelTest(
        high=1.0 if high.any() else None,
        low=-1.0 if low.any() else None,
        present_high=True,
        hits=hits,
        size=int(high.sum() + low.sum()),
        trials=len(guesses),
        rates=rates if high.any() else rates[::-1],
    )
    return _bounded(test, delta, alpha, alpha, confidence), test


def _bounded(
    test: LabelTest, delta: float, level: float, alpha: float, confidence: float | None
) -> Estimate:
    """Return the bound of a test at `level`, which is stated at `alpha`."""
    return outcomes.lower_bound(
        test.epsilon(delta, level),
        value=_logit(test.hits / max(test.size, 1)),
        alpha=alpha,
        confidence=confidence,
        n=test.trials + test.pilot,
        method="label test",
    )


def label_test(
    absent: Scores,
    present: Scores,
    *,
    delta: float,
    alpha: float,
    coin_flipped: bool,
    expected: Ends = "top",
    log_odds: bool = False,
    seed: int | None = None,
) -> LabelTest:
    """Choose an event and count the right guesses at its labels; see the module docstring."""
    outcomes.check_delta(delta)
    outcomes.check_alpha(alpha)
    absent, present = outcomes.scores(absent, "absent"), outcomes.scores(present, "present")
    seed = settled(seed)
    # The digest makes draws differ between audits with one seed. Otherwise every audit of these
    # sizes has the same coins and pilot places, and among equal scores, which are sorted by label,
    # the pilot would reveal the other labels.
    fresh = _digest(absent, present)
    rng = generator((seed, *b"labels", *fresh))
    if not coin_flipped:
        absent, present = _flip(absent, present, alpha * _FLIPS, rng)
    scores = np.concatenate((absent, present))
    order = np.argsort(-scores, kind="stable")
    scores, labels = scores[order], order >= len(absent)
    # A twentieth of the trials suffices to choose the direction.
    pilot = np.zeros(len(scores), bool)
    pilot[rng.choice(len(scores), len(scores) // 20, False, shuffle=False)] = True
    main = len(scores) - int(pilot.sum())
    revealed, spent = revealed_labels(main, delta, alpha)
    tally = Tally(scores, labels, pilot, log_odds)
    sides = [
        Side(tally, events, present_high, revealed, alpha - spent)
        for present_high in (True, False)
        for events in tally.sides()
    ]
    # The default, without a prospect above ½, is D' at high scores, at the expected ends.
    sides.sort(key=lambda side: (not side.present_high, side.events.side != expected))
    side = max(sides, key=lambda side: max(0.5, side.prospect))
    stop = side.choose()
    return _tested(tally, side, stop, main, len(scores) - main, seed)


def _tested(tally: Tally, side: Side, stop: int, main: int, pilot: int, seed: int) -> LabelTest:
    top, bottom = int(side.events.top[stop]), int(side.events.bottom[stop])
    # The rates are those of one end, from all its trials outside the pilot.
    one_end = Events("top" if top else "bottom", np.array([top]), np.array([0 if top else bottom]))
    size, hits, of_pilot, hits_of_pilot = (
        int(counts[0]) for counts in tally.counts(one_end, side.present_high)
    )
    right = 2 * (hits - hits_of_pilot) / main
    wrong = 2 * (size - of_pilot) / main - right
    for_present = side.present_high == (top > 0)
    return LabelTest(
        high=float(tally.scores[top - 1]) if top else None,
        low=float(tally.scores[-bottom]) if bottom else None,
        present_high=side.present_high,
        hits=int(side.hits[: stop + 1].sum()),
        size=int(side.size[: stop + 1].sum()),
        trials=main,
        pilot=pilot,
        rates=(wrong, right) if for_present else (right, wrong),
        seed=seed,
    )


def revealed_labels(trials: int, delta: float, alpha: float) -> tuple[int, float]:
    """Return r, a number of revealed labels that is rarely exceeded, and β of (1)."""
    if delta == 0:
        return 0, 0.0
    from scipy.stats import binom

    most = int(binom.isf(alpha * _REVEALED, trials, delta))
    return most, float(binom.sf(most, trials, delta))


def _flip(
    absent: Scores, present: Scores, alpha: float, rng: np.random.Generator
) -> tuple[Scores, Scores]:
    """Draw from either class the number of scores that fair coin flips ask for.

    The number of flips is the largest for which they ask for too many scores with probability at
    most α. If they do, all scores of the class are used. So the law of the drawn scores differs
    from that of coin flips with probability at most α.
    """
    from scipy.special import bdtrc

    def short(trials: int) -> float:
        return sum(
            float(bdtrc(min(len(sample), trials), trials, 0.5)) for sample in (absent, present)
        )

    flips = 1 + bisect(range(2, len(absent) + len(present) + 1), alpha, key=short)
    heads = min(int(rng.binomial(flips, 0.5)), len(present))
    return _some(absent, min(flips - heads, len(absent)), rng), _some(present, heads, rng)


def _digest(absent: Scores, present: Scores) -> bytes:
    """Return a digest of the order of the two classes' sorted scores."""
    pooled = np.concatenate((np.sort(absent), np.sort(present)))
    order = np.argsort(pooled, kind="stable").astype("<i8")
    return hashlib.blake2b(order.tobytes(), digest_size=16).digest()


def _some(scores: Scores, count: int, rng: np.random.Generator) -> Scores:
    """Draw `count` of the scores without replacement, by drawing the few that are left out."""
    return np.delete(scores, rng.choice(len(scores), len(scores) - count, False, shuffle=False))


def _shown(score: float) -> str:
    """Format a score; ±1e300 stands for an output that is possible on one data set only.

    2e300 stands for a training without a model.
    """
    if score > 1e300:
        return "that of no model (the training diverges)"
    return f"{score:g}" if abs(score) < 1e300 else "∞" if score > 0 else "−∞"


def _logit(share: float) -> float:
    return math.inf if share >= 1 else math.log(share / (1 - share)) if share > 0 else 0.0
