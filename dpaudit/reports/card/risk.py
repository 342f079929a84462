"""Tables of what guarantees and certified bounds mean for an attacker: derived, not measured."""

from __future__ import annotations

from collections.abc import Iterator

from dpaudit.core import rounding
from dpaudit.reports import words
from dpaudit.reports.card.document import DERIVED, Guarantee, PrivacyCard
from dpaudit.reports.table import NONE, Table

# Columns of limits, the last of the audited data; and columns of beliefs.
_LIMITS = (
    "advantage",
    "success from 1 in 10",
    "from 1 in 100, TPR at 1 % FPR",
    "from 1 in 1000, TPR at 0.1 % FPR",
    "from the data",
)
_BELIEFS = ("from 1 in 2", "from 1 in 10", "from 1 in 100", "from 1 in 1000")
NOTES = (
    "Success is that of re-identification, attribute inference or reconstruction. Without the "
    "release the attacker is right once in 10, 100, …; with it, at most this often, even if all "
    "other data are known (Kulynych et al. 2025, arXiv:2507.06969).",
    "Advantage is the true-positive rate (TPR) minus the false-positive rate (FPR) of a test that "
    "tells two neighbouring data sets apart, such as data with and without one unit.",
    "A certified ε says that in some data some outputs raise the belief at least to this. It does "
    "not say how often they occur, so it gives no success rate; those measured are under 'Attacks "
    "tried'.",
    "At δ > 0 a claim limits the success over all outputs, and not the belief after each.",
)


def tables(card: PrivacyCard) -> list[Table]:
    """Return the limits of attackers under the claims, and their beliefs after an output."""
    claimed = [guarantee for guarantee in card.guarantees if guarantee.epsilon]
    limits = Table(
        f"If the claim holds, an attacker reaches at most ({DERIVED})",
        ["model", "ε", "δ", *_LIMITS],
        [_limits(guarantee) for guarantee in claimed],
        {(i, 3) for i, guarantee in enumerate(claimed) if guarantee.derived.limits is None},
    )
    beliefs = Table(
        f"Belief in one of two neighbouring data sets after an output ({DERIVED})",
        ["model", "sweep ε", "by", *_BELIEFS],
        [row for guarantee in card.guarantees for row in _beliefs(guarantee)],
    )
    return [table for table in (limits, beliefs) if table.cells]


def groups(card: PrivacyCard) -> list[Table]:
    """Return what claims about one rating say of users with several, if there are any."""
    several = [guarantee for guarantee in card.guarantees if guarantee.derived.groups]
    if not several:
        return []
    sizes = [f"{group.ratings} ratings, {group.of}" for group in several[0].derived.groups]
    caption = f"The claim for all ratings of a user together: k ratings have k ε ({DERIVED})"
    return [Table(caption, ["model", "ε", *sizes], [*map(_groups, several)])]


def _groups(guarantee: Guarantee) -> list[str]:
    cells = [guarantee.model, words.epsilon(guarantee.epsilon or 0)]
    for limits in (group.limits for group in guarantee.derived.groups):
        delta = f", δ = {limits.delta:.3g}" if limits.delta else ""
        most = _most(limits.advantage)
        cells.append(f"ε = {limits.epsilon:.4g}{delta}: advantage at most {most}")
    return cells


def _limits(guarantee: Guarantee) -> list[str]:
    """Return the row of a claim; a claim that is false or in doubt limits nothing."""
    limits = guarantee.derived.limits
    start = [guarantee.model, words.epsilon(guarantee.epsilon or 0), f"{guarantee.delta or 0:g}"]
    if limits is None:
        why = "false" if guarantee.verdict == "false" else "in doubt"
        return [*start, f"void: the claim is {why}"] + [NONE] * (len(_LIMITS) - 1)
    row = [*start, _most(limits.advantage), *(_most(rate.bound) for rate in limits.success)]
    if len(row) < len(start) + len(_LIMITS):  # no data were audited
        return [*row, NONE]
    return [*row[:-1], f"{row[-1]} ({limits.success[-1].of})"]


def _beliefs(guarantee: Guarantee) -> Iterator[list[str]]:
    """Yield the rows of a claim at δ = 0 and of a certified ε above 0."""
    start = [guarantee.model, words.epsilon(guarantee.sweep_epsilon)]
    limits, certified = guarantee.derived.limits, guarantee.derived.certified_belief
    if limits and limits.belief:
        yield [*start, "claim: at most", *(_most(rate.bound) for rate in limits.belief)]
    if certified:
        yield [*start, "certified: at least", *(_least(rate.bound) for rate in certified)]


def _most(share: float) -> str:
    return f"{rounding.at_most(round(100 * share, 9), 1)} %"


def _least(share: float) -> str:
    return f"{rounding.at_least(round(100 * share, 9), 1)} %"
