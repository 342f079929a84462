"""The label test: one binomial test on the most telling scores, whose choice costs no confidence.

Flip a fair coin a trial, play world D' for heads and D for tails, and score the outcome. Under
(ε, δ)-DP the released pair is a post-processing of randomised response: with probability δ the
label is revealed, otherwise the outcome is that of a signal that is right with the odds e^ε to 1
(Kairouz, Oh & Viswanath 2015, arXiv:1311.0776: Theorem 2.5, with the mechanism in the proof of
Theorem 3.3). So, given all the signals and scores, the labels of the trials are independent, and
each that is not revealed is "present" with probability at most

    θ = e^ε / (1 + e^ε).

Whichever s trials are picked, by any rule that looks at scores and at the labels of *other* trials
only, the number S of "present" among them is therefore at most `R + Binomial(s − R, θ)` in law,
where R is the number of revealed "present" among all m trials. The scores may tell whether more of
these or of the revealed "absent" there are, and they have a part in which label is counted; both
numbers are at most r but with probability `β = 2 P(Binomial(m, δ/2) > r)`. Hence a test at level α:
reject when

    P(Binomial(s − r, θ) ≥ S − r) ≤ α − β.                                                  (1)

It needs neither a split of α between two error rates nor a correction for the choice of the
threshold: labels are revealed from the middle of the scores outwards, and where to stop is decided
before the labels beyond are seen. A random pilot chooses the direction.

Classes of fixed size n are turned into coin flips by drawing how many of each to use; that the
flips ask for more than there are has a probability that is taken off α. An event that leaves out
no trial certifies nothing: its labels are the coins alone.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from dpaudit.bounds import outcomes
from dpaudit.bounds.estimate import Estimate
from dpaudit.bounds.outcomes import Scores
from dpaudit.bounds.revealing import Side, share_limit

# Shares of α for coin flips that ask for too many trials, and for more revealed labels than r.
_FLIPS, _REVEALED = 1 / 50, 1 / 5


@dataclass(frozen=True)
class LabelTest:
    """A chosen event and what its unseen labels said.

    Attributes:
        threshold: the event's last score.
        above: whether the event is `score >= threshold`, otherwise `score <= threshold`.
        likelier_present: whether its trials are counted for D', otherwise for D.
        hits: how many of its trials carry that label, S.
        size: the number of its trials, s.
        trials: the number of trials whose labels were not used for the choice of direction, m.
        pilot: the number of those whose labels were.
    """

    threshold: float
    above: bool
    likelier_present: bool
    hits: int
    size: int
    trials: int
    pilot: int = 0

    def __str__(self) -> str:
        """The event in words."""
        worlds = ("D'", "D") if self.likelier_present else ("D", "D'")
        sign = ">=" if self.above else "<="
        return f"score {sign} {self.threshold:g}, likelier in {worlds[0]} than in {worlds[1]}"

    def rates(self) -> tuple[float, float]:
        """How often the event happened, about, in worlds D and in worlds D'."""
        hits, others = 2 * self.hits / self.trials, 2 * (self.size - self.hits) / self.trials
        return (others, hits) if self.likelier_present else (hits, others)

    def epsilon(self, delta: float, alpha: float) -> float:
        """The largest ε at which (ε, δ)-DP is refuted at level α, equation (1); 0 for none.

        ln(θ/(1 − θ)) of the lower Clopper-Pearson limit θ on the hits that were not all revealed.
        """
        if self.size == self.trials:
            return 0.0
        revealed, spent = revealed_labels(self.trials, delta, alpha)
        share = float(share_limit(self.hits - revealed, self.size - revealed, alpha - spent))
        return max(0.0, _logit(share))


def label_epsilon(
    absent: Scores,
    present: Scores,
    *,
    delta: float = 0.0,
    alpha: float = 0.05,
    confidence: float | None = None,
    coin_flipped: bool = False,
    seed: int = 0,
) -> tuple[Estimate, LabelTest]:
    """Certified lower bound on ε from the scores of worlds D and D', with the event that shows it.

    Args:
        absent: scores of worlds D, independent.
        present: scores of worlds D', independent; as many or not.
        delta: the δ of the claim.
        alpha: the level of the bound.
        confidence: the confidence to state; 1 − α where none is given.
        coin_flipped: whether a fair coin decided each trial's world. Otherwise the two sizes are
            taken as fixed, and some scores are left out.
        seed: decides the pilot and which scores are left out, chosen before the scores are seen:
            the level is that of one seed, not of the best of several.

    Raises:
        InputError: scores that are not finite, an empty class, or δ or α out of range.
    """
    test = label_test(
        absent, present, delta=delta, alpha=alpha, coin_flipped=coin_flipped, seed=seed
    )
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
    seed: int,
) -> LabelTest:
    """Choose an event and count the labels that the choice did not see; see the module's text."""
    outcomes.check_delta(delta)
    outcomes.check_alpha(alpha)
    absent, present = outcomes.scores(absent, "absent"), outcomes.scores(present, "present")
    # With the seed alone, coins drawn here would fall alike in every audit of these sizes.
    fresh = b"" if coin_flipped else _digest(absent, present)
    rng = np.random.default_rng(np.random.SeedSequence([seed, *b"labels", *fresh]))
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
    sides = [
        Side(scores[::step], is_likelier[::step], pilot[::step], revealed, alpha - spent)
        for step in (1, -1)
        for is_likelier in (labels, ~labels)
    ]
    # High scores speak for D' unless the pilot says otherwise.
    best = max(range(4), key=lambda index: max(0.5, sides[index].prospect))
    side = sides[best]
    stop = side.choose()
    return LabelTest(
        threshold=float(side.scores[side.ends[stop] - 1]),
        above=best < 2,
        likelier_present=best % 2 == 0,
        hits=int(side.hits[: stop + 1].sum()),
        size=int(side.size[: stop + 1].sum()),
        trials=main,
        pilot=len(scores) - main,
    )


def revealed_labels(trials: int, delta: float, alpha: float) -> tuple[int, float]:
    """The number r that the revealed of either label exceed rarely, and how rarely: β in (1)."""
    if delta == 0:
        return 0, 0.0
    from scipy.stats import binom

    most = int(binom.isf(alpha * _REVEALED / 2, trials, delta / 2))
    return most, 2 * float(binom.sf(most, trials, delta / 2))


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
    """A digest of the order of all scores."""
    order = np.argsort(np.concatenate((absent, present)), kind="stable").astype("<i8")
    return hashlib.blake2b(order.tobytes(), digest_size=16).digest()


def _some(scores: Scores, count: int, rng: np.random.Generator) -> Scores:
    """So many of the scores, drawn without replacement: the few that are left out are drawn."""
    return np.delete(scores, rng.choice(len(scores), len(scores) - count, False, shuffle=False))


def _logit(share: float) -> float:
    return math.inf if share >= 1 else math.log(share / (1 - share)) if share > 0 else 0.0
