"""The label test: one binomial test on the extreme scores, whose choice costs no confidence.

Flip a fair coin a trial, run data set D' for heads and D for tails, and score the outcome. Under
(ε, δ)-DP the released pair is a post-processing of randomised response: with probability δ the
label is revealed, otherwise the outcome is that of a signal that is right with the odds e^ε to 1
(Kairouz, Oh & Viswanath 2015, arXiv:1311.0776: Theorem 2.5, with the mechanism in the proof of
Theorem 3.3). So, given all the signals and scores, the labels of the trials are independent, and
a guess at one that is not revealed is right with probability at most

    θ = e^ε / (1 + e^ε).

Whichever s trials are picked and labels guessed, by any rule that looks at scores and at the labels
of *other* trials only, the number S of right guesses is therefore at most `R + Binomial(s − R, θ)`
in law, where R, the revealed among all m trials, is at most r but with probability
`β = P(Binomial(m, δ) > r)`. Hence a test at level α: reject when

    P(Binomial(s − r, θ) ≥ S − r) ≤ α − β.                                                  (1)

It needs neither a split of α between two error rates nor a correction for the choice of the
threshold: labels are revealed from the far end of the scores, or from their middle outwards, and
where to stop is decided before the labels beyond are seen. A random pilot chooses whether trials at
the top, at the bottom or at both ends are judged, and for which trial. Both ends count together:
high scores guessed as D' and low ones as D are twice the evidence of either.

Classes of fixed size n are turned into coin flips by drawing how many of each to use; that the
flips ask for more than there are has a probability that is taken off α. An event that leaves out
no trial certifies nothing: its labels are the coins alone. The level holds over these draws, so
their seed comes from the operating system's entropy where none is given; that of one seed in many
audits, or of one chosen after looking, may be larger.

The scores may depend on one another in any way that the labels do not decide: given all outputs the
labels are independent, and the scores are a function of the outputs, so a score may read the whole
batch of outputs of both trials at once.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from dpaudit.bounds import outcomes
from dpaudit.bounds.frequentist.revealing import Ends, Side, Tally, share_limit
from dpaudit.bounds.frequentist.seeds import settled
from dpaudit.bounds.outcomes import Scores
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import generator

# Shares of α for coin flips that ask for too many trials, and for more revealed labels than r.
_FLIPS, _REVEALED = 1 / 50, 1 / 5


@dataclass(frozen=True)
class LabelTest:
    """A chosen event and what its unseen labels said.

    Attributes:
        high: the event holds the trials with `score >= high`, if any;
        low: and those with `score <= low`, if any.
        present_high: whether D' is guessed at high scores and D at low ones, or the other way
            round.
        hits: how many of the event's trials are guessed rightly, S.
        size: the number of its trials, s.
        trials: the number of trials whose labels were not used for the choice of direction, m.
        pilot: the number of those whose labels were.
        rates: about how often `score >= high` (or else `score <= low`) happened in D and D'.
        seed: what decided the pilot and which scores were left out.
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
        """The event in words."""
        high, low = ("D'", "D") if self.present_high else ("D", "D'")
        parts = []
        if self.high is not None:
            parts.append(f"score >= {_shown(self.high)}, likelier in {high} than in {low}")
        if self.low is not None:
            parts.append(f"score <= {_shown(self.low)}, likelier in {low} than in {high}")
        return "; ".join(parts)

    def epsilon(self, delta: float, alpha: float) -> float:
        """The largest ε at which (ε, δ)-DP is refuted at level α, equation (1); 0 for none.

        ln(θ/(1 − θ)) of the lower Clopper-Pearson limit θ on the hits that were not all revealed.
        """
        if self.size == self.trials and (self.high is None or self.low is None):
            return 0.0
        revealed, spent = revealed_labels(self.trials, delta, alpha)
        share = float(share_limit(self.hits - revealed, self.size - revealed, alpha - spent))
        return max(0.0, _logit(share))

    def p_value(self, epsilon: float, delta: float, alpha: float) -> float:
        """The p-value of (ε, δ)-DP from this event, which was chosen for the level α.

        The left side of (1), plus β and what the coin flips may cost: the event's choice saw none
        of its labels, so the probability of a p-value of at most u is at most u for every u.
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
    """Certified lower bound on ε from the scores of D and D', with the event that shows it.

    Args:
        absent: scores of data set D, independent.
        present: scores of data set D', independent; as many or not.
        delta: the δ of the claim.
        alpha: the level of the bound.
        confidence: the confidence to state; 1 − α where none is given.
        coin_flipped: whether a fair coin decided each trial's trial. Otherwise the two sizes are
            taken as fixed, and some scores are left out.
        expected: the ends of the scores that are judged, high ones for D', where the pilot tells
            nothing; chosen without these scores.
        log_odds: whether the scores estimate the log-odds of D', but for a factor and a constant;
            the event is then chosen by them. A wrong estimate loses power, never the level.
        seed: decides the pilot and which scores are left out; None draws one from the operating
            system's entropy, and the test holds it. The level is that over the choice of the seed,
            not of one that was chosen after looking, nor of the best of several.

    Raises:
        InputError: scores that are not finite, an empty class, sizes that fair coins do not give,
            or δ or α out of range.
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
    estimate = outcomes.lower_bound(
        test.epsilon(delta, level),
        value=_logit(test.hits / max(test.size, 1)),
        alpha=alpha,
        confidence=confidence,
        n=test.trials + test.pilot,
        method="label test",
    )
    return estimate, test


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
    """Choose an event and count the labels that the choice did not see; see the module's text."""
    outcomes.check_delta(delta)
    outcomes.check_alpha(alpha)
    absent, present = outcomes.scores(absent, "absent"), outcomes.scores(present, "present")
    seed = settled(seed)
    # With a given seed alone, coins would fall alike in every audit of these sizes, and the pilot
    # at the same places: among equal scores, sorted by label, it would tell the others'.
    fresh = _digest(absent, present)
    rng = generator((seed, *b"labels", *fresh))
    if not coin_flipped:
        absent, present = _flip(absent, present, alpha * _FLIPS, rng)
    scores = np.concatenate((absent, present))
    order = np.argsort(-scores, kind="stable")
    scores, labels = scores[order], order >= len(absent)
    # A twentieth is enough to tell the direction.
    pilot = np.zeros(len(scores), bool)
    pilot[rng.choice(len(scores), len(scores) // 20, False, shuffle=False)] = True
    main = len(scores) - int(pilot.sum())
    revealed, spent = revealed_labels(main, delta, alpha)
    tally = Tally(scores, labels, pilot, log_odds)
    sides = [
        Side(tally, top, bottom, present_high, revealed, alpha - spent)
        for present_high in (True, False)
        for top, bottom in tally.sides()
    ]
    # High scores speak for D', at the ends that were expected, unless the pilot says otherwise.
    sides.sort(key=lambda side: (not side.present_high, side.ends_judged != expected))
    side = max(sides, key=lambda side: max(0.5, side.prospect))
    stop = side.choose()
    return _tested(tally, side, stop, main, len(scores) - main, seed)


def _tested(tally: Tally, side: Side, stop: int, main: int, pilot: int, seed: int) -> LabelTest:
    top, bottom = int(side.top[stop]), int(side.bottom[stop])
    # The rates are those of one end, from all its trials that are no pilot.
    end = (np.array([top]), np.array([0])) if top else (np.array([0]), np.array([bottom]))
    size, hits, of_pilot, hits_of_pilot = (
        int(counts[0]) for counts in tally.counts(*end, side.present_high)
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
    """The number r of revealed labels that is exceeded rarely, and how rarely: β in (1)."""
    if delta == 0:
        return 0, 0.0
    from scipy.stats import binom

    most = int(binom.isf(alpha * _REVEALED, trials, delta))
    return most, float(binom.sf(most, trials, delta))


def _flip(
    absent: Scores, present: Scores, alpha: float, rng: np.random.Generator
) -> tuple[Scores, Scores]:
    """As many of either class as fair coin flips ask for; beyond that with probability α at most.

    Raises nothing where the flips ask for too many: it then uses what there is, and the law of
    what is used differs from that of coin flips with probability at most α.
    """
    from scipy.special import bdtrc

    def short(trials: int) -> float:
        return sum(float(bdtrc(min(len(each), trials), trials, 0.5)) for each in (absent, present))

    low, high = 1, len(absent) + len(present)
    while low < high:  # the most trials for which the flips ask for too many rarely enough
        middle = (low + high + 1) // 2
        low, high = (middle, high) if short(middle) <= alpha else (low, middle - 1)
    heads = min(int(rng.binomial(low, 0.5)), len(present))
    return _some(absent, min(low - heads, len(absent)), rng), _some(present, heads, rng)


def _digest(absent: Scores, present: Scores) -> bytes:
    """A digest of how the scores of the two classes follow on one another."""
    pooled = np.concatenate((np.sort(absent), np.sort(present)))
    order = np.argsort(pooled, kind="stable").astype("<i8")
    return hashlib.blake2b(order.tobytes(), digest_size=16).digest()


def _some(scores: Scores, count: int, rng: np.random.Generator) -> Scores:
    """So many of the scores, drawn without replacement: the few that are left out are drawn."""
    return np.delete(scores, rng.choice(len(scores), len(scores) - count, False, shuffle=False))


def _shown(score: float) -> str:
    """A score in words; games put 1e300 for an output that only one trial can have."""
    return f"{score:g}" if abs(score) < 1e300 else "∞" if score > 0 else "−∞"


def _logit(share: float) -> float:
    return math.inf if share >= 1 else math.log(share / (1 - share)) if share > 0 else 0.0
