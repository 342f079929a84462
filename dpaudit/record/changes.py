"""Compare a number of a run with that of an earlier one.

**Ranges of trainings.** Given what its calibrating trainings taught the attacker, a run's judged
trainings are independent. Let both runs have the same coins, and let L_j ~ F_j for j in A, and
L'_j ~ F'_j for j in B, be the numbers of their J₁ and J₂ judged trainings, where F_j depends on the
coins of training j, which are independent and alike. If F_j = F'_j for all j, each range lies above
the other with a probability of at most J₁! J₂!/(J₁ + J₂)!, also where A and B share trainings. With
s > 0 in both, a in A alone and b in B alone, x = E F_j(t) and h(x) = x − E F_j(t)² the probability
is, by parts,

    ½ ∫₀¹ [a x^(a−1) (1−x)^b h^s + b x^a (1−x)^(b−1) h^s + s x^a (1−x)^b h^(s−1)] dx

for continuous laws, and ties lessen it. It grows with h, and as E F² ≥ (E F)², h ≤ x(1 − x): the
value for J₁ + J₂ independent numbers of one law, which are exchangeable. So shared coins do no
harm.

This certifies that not all F_j are equal. For utility F_j is the model's alone, and runs may have
other numbers of trainings. For an attack F_j is that of the model *and* its attacker, who learned
from other trainings of it:

- With other calibrating trainings F_j differs for one model, so these have to be the same ones.
- A model that is a function of data and seed shows the same in both runs, bit for bit. So whatever
  is certified, it is not that model. One that differs with the same data and seed has two attackers
  even so, and no attack on it is compared.
- The attacks that do best in calibration may be others in each run, which the ranges would tell
  apart. So the attack that is the strongest on the worse model has to have ranges apart itself.

What is certified to be worse is therefore: the attack that is chosen on the one model, calibrated
by the same coins, reaches more in every judged training than on the other model in any. A changed
model of the very same law (another generator, say) has yet another attacker by the luck of its
calibration, which no judged training shows. In simulations of 150 pairs of runs of such a model, in
eleven settings, two pairs at most were told apart with three to five calibrating trainings, and
eight at most with two, most often by the advantage, whose threshold is calibrated.
"""

from __future__ import annotations

import math
from typing import Literal

from dpaudit.core.estimate import Estimate, Number
from dpaudit.record.differences import Difference, Part, apart
from dpaudit.record.metrics import MetricName, entry
from dpaudit.record.result import AuditResult, Measurement

# How many keys that differ a sentence names.
_NAMED = 3
# With how many orders of the trainings of two runs, for each number compared, ranges that lie apart
# by chance add 1/1000 at most to the error probability of all.
_ORDERS = 2000
# Why no attack on a model that data and seed do not decide is compared.
DRIFTING = "trainings with the same data and seed differ, and so do the attackers"
Judgement = Literal["worse", "better", "cannot tell", "not comparable"]


class NumberChange(Part):
    """A number that both runs measured.

    Attributes:
        metric: its metric.
        place: the model, the ε, and what else distinguishes it.
        before: its estimate in the baseline.
        after: its estimate in the run.
        lower: lower end of the interval of its change; infinite if they are not comparable.
        upper: upper end of it.
        judgement: `worse` or `better` if the interval excludes 0; `not comparable` if the numbers
            are not about the same; else `cannot tell`.
        reason: what keeps them apart, or why no estimates could show that it got worse; empty if
            some could.
    """

    metric: MetricName
    place: str
    before: Estimate
    after: Estimate
    lower: Number
    upper: Number
    judgement: Judgement
    reason: str


def change(before: Estimate, after: Estimate) -> tuple[float, float]:
    """Return the interval of a change from both intervals; an end that is unknown is infinite."""
    lower = after.lower - before.upper
    if math.inf in (before.upper, -after.lower):
        lower = -math.inf
    upper = after.upper - before.lower
    if math.inf in (-before.lower, after.upper):
        upper = math.inf
    return lower, upper


def number_change(
    before: AuditResult, after: AuditResult, old: Measurement, new: Measurement, *, compared: int
) -> NumberChange:
    """Compare a number of two runs.

    Args:
        before: the record of the baseline.
        after: the record of the run.
        old: the number in the baseline.
        new: the number in the run.
        compared: how many numbers are compared.
    """
    lower, upper = change(old.estimate, new.estimate)
    judgement: Judgement = "cannot tell"
    unlike = apart(before, after, old, new)
    reason = listed(unlike) or _drifting(before, after, new) or _unfit(old, new, compared=compared)
    grows_worse = new.larger == "worse"
    if unlike:
        judgement, lower, upper = "not comparable", -math.inf, math.inf
    elif not reason and (lower > 0 or upper < 0):
        reason = _other_attack(before, after, old, new, rises=lower > 0)
        if not reason:
            judgement = "worse" if (lower > 0) == grows_worse else "better"
    elif not reason and grows_worse and old.estimate.upper == math.inf:
        reason = "the baseline has only a lower bound"
    return NumberChange(
        metric=new.metric,
        place=new.place,
        before=old.estimate,
        after=new.estimate,
        lower=lower,
        upper=upper,
        judgement=judgement,
        reason=reason,
    )


def listed(unlike: list[Difference]) -> str:
    """Return the first keys that differ, with their values."""
    more = [f"and {len(unlike) - _NAMED} more"] if len(unlike) > _NAMED else []
    return ", ".join([*(f"{one.key} {one.before} → {one.after}" for one in unlike[:_NAMED]), *more])


def _unfit(before: Measurement, after: Measurement, *, compared: int) -> str:
    """Return why no comparison may rest on the estimates; empty if one may.

    Ranges of trainings lie apart by chance with a probability of 2 J₁! J₂!/(J₁ + J₂)! (see above),
    which has to be so small that the comparisons of all numbers add nothing to the error
    probability. Of runs that stopped early, those that stopped at one look are compared; the looks
    have twice as many trainings each, so that their sum is hardly more than the first.
    """
    if before.census and after.census and before.estimate.kind == after.estimate.kind == "range":
        sizes = len(before.census.values), len(after.census.values)
        if math.comb(sum(sizes), sizes[0]) < _ORDERS * compared:
            return "the runs have too few judged trainings to tell their ranges apart"
        return ""
    for measurement, run in ((before, "baseline"), (after, "run")):
        if measurement.estimate.kind != "frequentist":
            return f"the estimate of the {run} is of kind {measurement.estimate.kind}"
    return ""


def _drifting(before: AuditResult, after: AuditResult, new: Measurement) -> str:
    """Return that each run has attackers of its own, if data and seed do not decide the model."""
    drifts = any(
        finding.about == "seed" and finding.model == new.model
        for run in (before, after)
        for finding in run.findings
    )
    return DRIFTING if drifts and new.census and new.attack else ""


def _other_attack(
    before: AuditResult, after: AuditResult, old: Measurement, new: Measurement, *, rises: bool
) -> str:
    """Return why the attack on trainings, and not the model, may be another; empty if it is not.

    A model that has the same law, with the same data and seed, may be attacked by another attack.
    """
    if not new.census or not new.attack:
        return ""
    best = new if rises else old
    if best.event is None:
        return ""
    if new.estimate.kind != "range":
        return "" if old.event == new.event else "another attack is the strongest"
    metric = "attack.advantage" if entry(new.metric).derived else new.metric
    wanted = (metric, best.model, best.epsilon, best.event, best.observer, best.unit, best.at)
    ends = [
        one.estimate
        for run in (before, after)
        for one in run.measurements
        if (one.metric, one.model, one.epsilon, one.attack, one.observer, one.unit, one.at)
        == wanted
    ]
    if len(ends) == 2 and (change(*ends)[0] > 0 if rises else change(*ends)[1] < 0):
        return ""
    return f"another attack is the strongest, and the ranges of {best.event} overlap"
