"""What has to be said beside the numbers of a record so that they are not misread."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TypeVar

from dpaudit.auditor.result import AuditResult
from dpaudit.reports import assumptions, campaigns, chains, intervals, recovery, transcripts, words
from dpaudit.reports.digest import POWER, Row, noised, rows

_Key = TypeVar("_Key")


def notes(result: AuditResult) -> list[str]:
    """What has to be said beside the numbers so that they are not misread."""
    family = result.family
    notes = []
    if intervals.judged(result):
        level = f"α = {family.alpha:.3g}{'' if family.size == 1 else ' (Bonferroni)'}"
        which = "it" if family.size == 1 else "each"
        notes.append(
            f"{intervals.together(family)}: {which} has the level {level}. "
            "Interval ends are rounded outwards."
        )
    notes.append(
        "A lower bound on ε is not a proof of privacy: other attacks or other data may reveal "
        "more. What was tried is listed."
    )
    if any(intervals.over_folds(found) for found in result.measurements):
        notes.append(
            "The error is a mean over the folds, with Student's interval over folds: each stands "
            "for itself. It shows scatter, assumes a normal law and independent folds, and gates "
            "nothing."
        )
    notes += assumptions.note(result)
    if any(found.theory for found in result.measurements):
        notes.append(
            f"Beside the certified ε stands the ε of the same pair by the law of {_drawn(result)}: "
            "computed, not measured. It needs no trials and sees no mistake in the code; the "
            "certified one sees both, and judges."
        )
    notes += _power(result)
    if any(found.metric == "attack.accuracy" for found in result.measurements):
        notes.append(
            "Attack accuracy is ε-Risk, the share of hidden ratings that the attack recovered."
        )
    if any(found.metric == "utility.overlap" for found in result.measurements):
        notes.append(
            "Overlap is ε-Utility, the share of the noiseless top-k list that the private list "
            "keeps; difference = 1 − overlap."
        )
    if result.campaigns:
        notes.append(campaigns.NOTE)
    notes += chains.note(result) + recovery.note(result) + transcripts.note(result)
    notes += _public(result)
    notes += _uncovered(result)
    if any(point.claim and point.noise_scale is not None for point in result.points):
        notes.append(
            "The claims are those of exact Laplace noise. Released values are rounded to a public "
            "grid, so that their low-order bits tell nothing; what finite precision leaves is an ε "
            "larger by about 0.001·max(1, ε) and a δ of about 5e-7, and beyond ε = 20 a claim is "
            "nominal."
        )
    return notes


def _drawn(result: AuditResult) -> str:
    """What the laws beside the certified ε are laws of."""
    known = [found for found in result.measurements if found.theory]
    noise = "the noise that the defense says it adds"
    lists = "the list that the defense says it draws"
    if all(noised(found) for found in known):
        return noise
    return f"{noise}, or of {lists}" if any(noised(found) for found in known) else lists


def _uncovered(result: AuditResult) -> Iterator[str]:
    """Attacks that see more than the claims cover."""
    lists = [label for label, attack in result.attacks.items() if attack.get("observe") == "list"]
    if lists and any(point.claim for point in result.points):
        yield (
            f"The list attacked by {', '.join(lists)} is chosen among all predictions: no claim "
            "here covers it unless its parameter outputs is the number of a user's unrated items."
        )


def _power(result: AuditResult) -> Iterator[str]:
    """The true ε that each game would have found; models with the same power share a sentence."""
    for (pair, found), models in _grouped(
        ((pair, _found(here, pair)), model)
        for model, here in rows(result).items()
        for pair in (here[0].games if here else ())
    ):
        if found:
            seen = [game for game in result.measurements if game.pair == pair]
            known = any(noised(game) for game in seen)
            what = "a noise so small that the true" if known else "a violation whose true"
            rest = (
                "A sensitivity that is too small for other pairs it does not show."
                if known
                else "That holds for a score as telling as can be, and for this pair alone."
            )
            yield (
                f"With {POWER} power, the game on pair {pair} ({models}) would have shown {what} "
                f"ε is {found}. {rest}"
            )


def _found(here: list[Row], pair: str) -> str:
    """The detectable ε beside the claimed one, at each point."""
    told, never = [], []
    for row in here:
        claim, least = row.point.claim, row.games[pair].detectable
        if claim is None or least is None:
            continue
        if least == math.inf:
            never.append(claim.epsilon)
        else:
            said = words.epsilon(claim.epsilon)
            told.append(f"{words.at_most(least)} where {said} is claimed")
    if never:
        remedy = "more trials, or a pair of which is known how much it shows"
        told.append(f"none (∞) where {words.listed(never)} is claimed: that needs {remedy}")
    return "; ".join(told)


def _public(result: AuditResult) -> Iterator[str]:
    """The statistics that the claims treat as public."""
    for public, models in _grouped(
        (public, model)
        for model, here in rows(result).items()
        for public in dict.fromkeys(row.point.claim.public for row in here if row.point.claim)
    ):
        yield f"Treated as public by the claims ({models}): {public}."


def _grouped(pairs: Iterable[tuple[_Key, str]]) -> Iterator[tuple[_Key, str]]:
    """Each key with the labels that share it."""
    groups: dict[_Key, list[str]] = {}
    for key, label in pairs:
        groups.setdefault(key, []).append(label)
    return ((key, ", ".join(labels)) for key, labels in groups.items())
