"""Tables of what guarantees and certified bounds mean for an attacker: derived, not measured."""

from __future__ import annotations

from collections.abc import Iterator

from dpaudit.core import rounding
from dpaudit.reports import words
from dpaudit.reports.card.document import DERIVED, Group, Guarantee, PrivacyCard
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
    claimed = [each for each in card.guarantees if each.epsilon]
    beliefs = [row for each in card.guarantees for row in _beliefs(each)]
    made = []
    if claimed:
        made.append(
            Table(
                f"If the claim holds, an attacker reaches at most ({DERIVED})",
                ["model", "ε", "δ", *_LIMITS],
                [_limits(each) for each in claimed],
                {(i, 3) for i, each in enumerate(claimed) if each.derived.limits is None},
            )
        )
    if beliefs:
        header = ["model", "sweep ε", "by", *_BELIEFS]
        made.append(
            Table(
                f"Belief in one of two neighbouring data sets after an output ({DERIVED})",
                header,
                beliefs,
            )
        )
    return made


def groups(card: PrivacyCard) -> Table | None:
    """Return what claims about one rating say of users with several, if there are any."""
    several = [each for each in card.guarantees if each.derived.groups]
    if not several:
        return None
    return Table(
        f"The claim for all ratings of a user together: k ratings have k ε ({DERIVED})",
        [
            "model",
            "ε",
            *(f"{each.ratings} ratings, {each.of}" for each in several[0].derived.groups),
        ],
        [
            [each.model, words.epsilon(each.epsilon or 0), *map(_group, each.derived.groups)]
            for each in several
        ],
    )


def _group(found: Group) -> str:
    limits = found.limits
    delta = f", δ = {limits.delta:.3g}" if limits.delta else ""
    return f"ε = {limits.epsilon:.4g}{delta}: advantage at most {_most(limits.advantage)}"


def _limits(found: Guarantee) -> list[str]:
    """Return the row of a claim; a claim that is broken or in doubt limits nothing."""
    limits = found.derived.limits
    if limits is None:
        void = "void: the claim is " + ("broken" if found.verdict == "broken" else "in doubt")
        numbers = [void] + [NONE] * (len(_LIMITS) - 1)
    else:
        numbers = [_most(each.bound) for each in limits.success]
        numbers.insert(0, _most(limits.advantage))
        if len(numbers) == len(_LIMITS):
            numbers[-1] += f" ({limits.success[-1].of})"
        else:
            numbers.append(NONE)
    return [found.model, words.epsilon(found.epsilon or 0), f"{found.delta or 0:g}", *numbers]


def _beliefs(found: Guarantee) -> Iterator[list[str]]:
    """Yield the rows of a claim at δ = 0 and of a certified ε above 0."""
    start = [found.model, words.epsilon(found.sweep_epsilon)]
    limits, certified = found.derived.limits, found.derived.certified_belief
    if limits and limits.belief:
        yield [*start, "claim: at most", *(_most(each.bound) for each in limits.belief)]
    if certified:
        yield [*start, "certified: at least", *(_least(each.bound) for each in certified)]


def _most(share: float) -> str:
    return f"{rounding.at_most(round(100 * share, 9), 1)} %"


def _least(share: float) -> str:
    return f"{rounding.at_least(round(100 * share, 9), 1)} %"
