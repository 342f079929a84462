"""The first thing a reader sees: one row a model with its verdict in a plain sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dpaudit.core import rounding
from dpaudit.record.result import (
    AuditResult,
    ClaimRecord,
    GameName,
    Measurement,
    ModelRecord,
    Verdict,
    VerdictRecord,
)
from dpaudit.reports import words
from dpaudit.reports.sections import waivers
from dpaudit.reports.sections.base import sections_of

# The worst first.
VERDICTS: tuple[Verdict, ...] = ("broken", "not tested", "not broken")
# Why a claim was not tested, for several ε; completed by what they are.
_UNTESTED: Mapping[str, str] = {
    "missed": "not tested {at}: the games also miss copies that leak more than is claimed, so they "
    "say nothing here; use more trials",
    "too few": "not tested {at}: the trials are too few for any game to certify more than is "
    "claimed; use more trials",
    "law": "undecided {at}: by the law of its noise it reveals more than is claimed, but these "
    "trials do not certify it; use more trials",
    "doubt": "undecided {at}: the right guesses are as frequent as if more than is claimed were "
    "revealed, but too few to certify it; use more trainings or targets",
    "finding": "undecided {at}: a finding on the model leaves open what it reveals",
}


@dataclass(frozen=True)
class ModelVerdict:
    """The verdict on one model over its whole sweep.

    Attributes:
        model: the model's label.
        verdict: `broken` if any claim is; else `not broken` if any was tested.
        claims: whether it claims anything.
        sentences: what was found, the worst first.
    """

    model: str
    verdict: Verdict
    claims: bool
    sentences: Sequence[str]

    @property
    def text(self) -> str:
        """Return the sentences as one text."""
        return " ".join(self.sentences)


def of(result: AuditResult) -> list[ModelVerdict]:
    """Return the verdict on each model, the worst first."""
    claims = {(point.model, point.epsilon): point.claim for point in result.points}
    found = []
    for model in result.models:
        here = sorted(
            (each for each in result.verdicts if each.model == model.label),
            key=lambda each: each.epsilon,
        )
        words_of = {each.verdict for each in here}
        verdict: Verdict = "not tested"
        if words_of & {"broken", "not broken"}:
            verdict = "broken" if "broken" in words_of else "not broken"
        stated = [claims[each.model, each.epsilon] for each in here]
        said = [
            *_claims(result, here, stated),
            *_waived(result, here),
            *_leaks(result, model, here),
        ]
        found.append(ModelVerdict(model.label, verdict, any(stated), said))
    return sorted(found, key=lambda each: VERDICTS.index(each.verdict))


def on_claim(result: AuditResult, found: VerdictRecord, claim: ClaimRecord | None) -> str:
    """Return the verdict on one claim of a model as text.

    Args:
        result: the record.
        found: the verdict.
        claim: the claim at its ε.
    """
    return " ".join(_claims(result, [found], [claim])) or "It makes no privacy claim."


def _claims(
    result: AuditResult, here: list[VerdictRecord], claims: list[ClaimRecord | None]
) -> Iterator[str]:
    """Yield the sentences about a model's claims."""
    by_epsilon = {each.epsilon: claim for each, claim in zip(here, claims, strict=True)}
    broken = [each for each in here if each.verdict == "broken"]
    if broken:
        worst = max(broken, key=lambda each: (each.certified or 0) / (each.claimed or 1))
        sure = words.percent(result.family.confidence)
        yield (
            f"The claim is false {_at(broken)}: where ε = {words.epsilon(worst.claimed or 0)} is "
            f"claimed, ε ≥ {rounding.at_least(worst.certified or 0, 2)} is certified with {sure} "
            f"confidence over the whole run {_game(worst.decided_by, by_epsilon[worst.epsilon])}."
        )
    kept = [each for each in here if each.verdict == "not broken"]
    if kept:
        factors = sorted({each.factor for each in kept if each.factor is not None})
        ends = dict.fromkeys(f"{factor:.3g}" for factor in (factors[0], factors[-1]))
        games = dict.fromkeys(_game(each.decided_by, by_epsilon[each.epsilon]) for each in kept)
        yield (
            f"No game certifies more than is claimed {_at(kept)}. As a check, copies that leak "
            f"{' to '.join(ends)} times what is claimed were found {' and '.join(games)}; smaller "
            "leaks may be missed. This is no proof of privacy: other attacks may find more."
        )
    yield from _uncovered(here, by_epsilon)
    reasons = [_reason(result, each, by_epsilon[each.epsilon]) for each in here]
    for reason, said in _UNTESTED.items():
        those = [each for each, why in zip(here, reasons, strict=True) if why == reason]
        if those:
            yield _capital(f"{said.format(at=_at(those))}.")


def _waived(result: AuditResult, here: list[VerdictRecord]) -> Iterator[str]:
    """Yield who accepts the broken claims of a model, until when and why."""
    own = {each.id for each in here if each.verdict == "broken"}
    for waiver in result.waivers:
        if waiver.id in own:
            yield waivers.line(waiver, result)


def _uncovered(
    here: list[VerdictRecord], claims: Mapping[float, ClaimRecord | None]
) -> Iterator[str]:
    """Yield what the claims cover that no game tests."""
    those = [each for each in here if each.reason == "no game"]
    if not those:
        return
    stated = [claim for each in those if (claim := claims[each.epsilon])]
    covered = " or ".join(dict.fromkeys(words.claim(claim) for claim in stated))
    yield f"Not tested {_at(those)}: no game of this run is about what is claimed ({covered})."


def _games(result: AuditResult, model: str) -> list[Measurement]:
    return [each for each in result.measurements if (each.metric, each.model) == ("epsilon", model)]


def _reason(result: AuditResult, found: VerdictRecord, claim: ClaimRecord | None) -> str | None:
    """Return why a claim is not tested, as a key of the sentences; None if it is."""
    if found.reason == "doubt":
        return "doubt" if found.law is None else "law"
    if found.reason == "finding":
        return "finding"
    if found.reason != "no power" or claim is None:
        return None
    games = [each for each in _games(result, found.model) if each.epsilon == found.epsilon]
    tried = any(each.controls for each in games if each.tests(claim))
    return "missed" if tried else "too few"


def _leaks(result: AuditResult, model: ModelRecord, here: list[VerdictRecord]) -> Iterator[str]:
    """Yield the sentences about points without a claim, and about who sees most."""
    free = [each for each in here if each.reason == "no claim"]
    if free:
        which = "" if len(free) == len(here) else f" {_at(free)}"
        noise = " and adds no noise, so no ε bounds what it reveals" if free[0].noiseless else ""
        yield f"It makes no privacy claim{which}{noise}."
    yield from sections_of(result).leaks(model)
    if not free:
        return
    games = [each for each in free if each.certified]
    if games:
        most = max(games, key=lambda each: each.certified or 0)
        where = f" {_at([most])}" if len(here) > 1 else ""
        yield (
            f"ε ≥ {rounding.at_least(most.certified or 0, 2)} is certified{where} "
            f"{_game(most.decided_by, None)}."
        )
    yield from _recovered(result, free)


def _recovered(result: AuditResult, free: list[VerdictRecord]) -> Iterator[str]:
    epsilons = {each.epsilon for each in free}
    attacks = [
        each
        for each in result.measurements
        if each.metric == "attack.accuracy"
        and each.model == free[0].model
        and each.epsilon in epsilons
    ]
    if attacks:
        most = max(attacks, key=lambda each: each.estimate.lower)
        yield (
            f"The attack {most.attack!r} recovers {words.shares(most.estimate)} of the hidden "
            f"ratings at ε = {words.epsilon(most.epsilon)}."
        )


def _at(found: Sequence[VerdictRecord]) -> str:
    return f"at ε = {words.listed(each.epsilon for each in found)}"


def _game(name: GameName | None, claim: ClaimRecord | None) -> str:
    """Return who observed what in a game, by which attack and on which data, in parentheses."""
    if name is None:
        return "(no game)"
    observer = name.observer or (claim.observer if claim else None)
    seen = f"seen: {words.observer(observer)}; " if observer else ""
    how = f"target: one {name.unit}" if name.unit else f"attack: {name.attack}; pair: {name.pair}"
    return f"({seen}{how})"


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
