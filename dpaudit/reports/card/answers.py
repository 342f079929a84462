"""What a record answers to a requirement: numbers and statements, or what is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from dpaudit.core import rounding
from dpaudit.record.bases import GAINS
from dpaudit.record.result import STRONGEST, AuditResult, GateRecord, Measurement, VerdictRecord
from dpaudit.record.verdicts import remedy
from dpaudit.reports import columns, digest, palette, words
from dpaudit.reports.card.build import card_of, guarantees_of, of_roles, statements_of
from dpaudit.reports.sections import meter, screen, verdicts
from dpaudit.reports.sections.base import not_tried

Status = Literal["met", "not met", "undecided", "to judge", "gap"]
# The AUC that the research notes of OWASP AISVS 1.0 take for guessing.
GUESSING = 0.55
# What stands on the page; the record has all.
_MOST = 4
_MEMBERSHIP = "[membership], with the model as a [[recommender]] or a trained [[model]]"
_GATES = (
    f"a [[gate]] on attack.auc with max = {GUESSING:g}, and one on attack.tpr at the lowest rate, "
    "for each observer"
)
_ATTRIBUTES = (
    "[attributes] and columns of [data.users], in a config of its own with the [[recommender]]"
)
_ATTACK = "an [[attack]] on a [[model]], such as 'linear-ideal'"
_RECONSTRUCTION = "an [[attack]] 'reconstruction' on a trained [[model]]"
_NO_RECONSTRUCTION = (
    "no key: dpaudit reconstructs from a [[model]] alone, so test a [[recommender]] otherwise"
)


_OTHERWISE = "no key: test it by other means"
_OF_MECHANISM = (
    "no key: a [defense] is audited by its outputs alone; if it recommends, audit it as a "
    "[[recommender]] in a config of its own"
)


@dataclass(frozen=True)
class RecordAnswer:
    """What a record says to a requirement.

    Attributes:
        status: `met` or `not met`: a number or statement is on that side of what counts as met;
            `undecided`: it may be on either; `to judge`: there is one, and the text sets no bar;
            `gap`: something is missing.
        lines: the numbers with their intervals and limits, and the statements.
        fill: the keys of the config that fill the gap; empty if nothing is missing.
    """

    status: Status
    lines: Sequence[str]
    fill: str = ""


# From the part of a record that is about the deployed model.
Answering = Callable[[AuditResult], RecordAnswer]


def private_training(part: AuditResult) -> RecordAnswer:
    """Answer whether training is differentially private, by the claims and their verdicts."""
    without = [verdict.model for verdict in part.verdicts if verdict.claimed is None]
    if without:
        models = ", ".join(dict.fromkeys(without))
        return RecordAnswer("gap", [f"No ε is claimed: {models}."], _claimed(part))
    return auditing(part)


def auditing(part: AuditResult) -> RecordAnswer:
    """Answer whether claims were put to the test, and whether they survived."""
    claims = [verdict for verdict in part.verdicts if verdict.claimed is not None]
    if not claims:
        nothing = "No ε is claimed, so there is nothing to test."
        return RecordAnswer("gap", [nothing], _claimed(part))
    order = ("false", "doubt", "finding", "no power", "no game", "survived")
    claims = sorted(claims, key=lambda claim: order.index(claim.reason or claim.verdict))
    lines = _few(map(_claim, claims))
    if claims[0].verdict == "false":
        return RecordAnswer("not met", lines)
    if claims[0].verdict == "survived":
        return RecordAnswer("met", lines)
    if claims[0].reason == "no game":
        covered = "membership.units and membership.observers that the claim covers"
        game = covered if "membership" in part.config else "a [[game]] about the claim"
        return RecordAnswer("gap", lines, _fill(part, covered, game))
    if claims[0].reason == "finding":
        return RecordAnswer("undecided", lines, "what the finding in the report asks")
    games = [game for game in digest.of(part, "epsilon") if game.model == claims[0].model]
    return RecordAnswer("undecided", lines, remedy(part.kind, games[0]))


def _claim(verdict: VerdictRecord) -> str:
    """Return a claim with its certified bound, its verdict and the smallest leak that is caught."""
    claimed = f"{verdict.model}: ε = {words.epsilon(verdict.claimed or 0)} is claimed"
    bound = verdict.certified
    certified = "" if bound is None else f", ε at least {rounding.at_least(bound, 2)} is certified"
    power = ""
    if verdict.factor is not None and verdict.verdict != "false":
        power = f", copies that leak {words.caught([verdict])} are caught"
    return f"{claimed}{certified}{power}; claim {palette.became(verdict)}."


def guessing(part: AuditResult) -> RecordAnswer:
    """Answer whether membership inference does no better than guessing.

    The gates decide: their confidence is that of the run, for all that pass together, and for all
    that fail. A gate on true positives has the limit that its owner takes for near.
    """
    areas = _strongest(part, "attack.auc")
    rates = _strongest(part, "attack.tpr")
    if not areas or not rates:
        return RecordAnswer("gap", ["Membership inference was not tried."], _MEMBERSHIP)
    lowest = min(rate.at or 0.0 for rate in rates)
    rates = [rate for rate in rates if rate.at == lowest]
    lines = [
        *_numbers(areas, part, f"below {GUESSING:g}"),
        *_numbers(rates, part, f"near {words.percent(lowest)}"),
    ]
    judged = [_by_gates(measurement, part, GUESSING) for measurement in areas]
    judged += [_by_gates(measurement, part, math.inf) for measurement in rates]
    gates = {gate.id: gate for records in judged for gate in records}.values()
    lines += _few(f"Gate {gate.rule}: {gate.outcome}." for gate in gates)
    if any(gate.outcome == "fail" for gate in gates):
        return RecordAnswer("not met", lines)
    if any(gate.outcome == "inconclusive" for gate in gates):
        return RecordAnswer("undecided", lines)
    return RecordAnswer("met", lines) if all(judged) else RecordAnswer("to judge", lines, _GATES)


def _by_gates(measurement: Measurement, part: AuditResult, bar: float) -> list[GateRecord]:
    """Return the gates that decide whether a number is at most a bar.

    A gate with a lower limit may pass for that, and one with a higher limit may fail for it. With
    an infinite bar the limits of the gates are the bar.
    """
    speaking = []
    for gate, record in meter.limiting(meter.gates(part), measurement, part.points):
        speaks = {"pass": gate <= bar, "fail": gate >= bar, "inconclusive": True}
        if bar == math.inf or speaks[record.outcome]:
            speaking.append(record)
    return speaking


def _strongest(part: AuditResult, metric: str) -> list[Measurement]:
    numbers = digest.of(part, metric)
    return [number for number in numbers if number.unit and number.attack == STRONGEST]


def _numbers(measurements: Iterable[Measurement], part: AuditResult, bar: str = "") -> list[str]:
    """Return measurements with their intervals and what these are, the largest first."""
    limit = f"; the bar is {bar}" if bar else ""
    lines = []
    for number in sorted(measurements, key=lambda number: -number.estimate.lower):
        estimate, of = number.estimate, columns.details(number, ("attack",))
        count = f", {estimate.n} trainings" if estimate.kind == "range" and estimate.n > 1 else ""
        lines.append(
            f"{number.model}{digest.swept_at(part, number)}, {number.metric}"
            f"{f' ({of})' if of else ''}: {words.interval(estimate)} ({estimate.method}{count})"
            f"{limit}."
        )
    return _few(lines)


def membership(part: AuditResult) -> RecordAnswer:
    """Answer how often membership in the training data is inferred."""
    lines = _frequencies(part, of_membership=True)
    return _judged(lines, "Membership inference was not tried.", _MEMBERSHIP)


def attributes(part: AuditResult) -> RecordAnswer:
    """Answer how often attributes, or hidden ratings, of known people are inferred."""
    fill = _fill(part, _ATTRIBUTES, _alone(part, _ATTACK))
    lines = _frequencies(part, of_membership=False)
    return _judged(lines, "Attribute inference was not tried.", fill)


def extraction(part: AuditResult) -> RecordAnswer:
    """Answer how often anything about people is found, by the attacks that find most."""
    most = [
        *_frequencies(part, of_membership=True)[:1],
        *_frequencies(part, of_membership=False)[:1],
        *_numbers(_reconstructed(part), part)[:1],
    ]
    lines = [f"The most: {line}" for line in most]
    return _judged(lines, "No attack on what people keep was tried.", _any(part))


def _frequencies(part: AuditResult, *, of_membership: bool) -> list[str]:
    rows = [row for row in meter.rows(part) if bool(row.measurement.unit) == of_membership]
    return _few(map(screen.sentence, rows))


def reconstruction(part: AuditResult) -> RecordAnswer:
    """Answer how well ratings are reconstructed from a model or from submissions."""
    fill = _fill(part, _NO_RECONSTRUCTION, _alone(part, _RECONSTRUCTION))
    return _judged(_numbers(_reconstructed(part), part), "Reconstruction was not tried.", fill)


def _reconstructed(part: AuditResult) -> list[Measurement]:
    """Return the gains of reconstructions over what is known without the model, if any."""
    sources = ("reconstruction", "submissions")
    gains = (number for number in part.measurements if number.basis in GAINS)
    return [number for number in gains if number.metric.partition(".")[0] in sources]


def calibrated(part: AuditResult) -> RecordAnswer:
    """Answer how well membership is told by scores, which calibration is to flatten."""
    areas = [area for area in _strongest(part, "attack.auc") if area.observer == "scores"]
    fill = f"{_MEMBERSHIP}; 'scores' among the observers"
    return _judged(_numbers(areas, part), "Nobody who sees scores was tried.", fill)


def breadth(part: AuditResult) -> RecordAnswer:
    """Answer how many attacks were tried, on whom, and on how much of what is released."""
    if not _strongest(part, "attack.auc"):
        return RecordAnswer("gap", ["Membership inference was not tried."], _MEMBERSHIP)
    groups = dict.fromkeys(number.group for number in part.measurements if number.group)
    observers = dict.fromkeys(number.observer for number in part.measurements if number.observer)
    lines = [
        f"Several attacks: {'; '.join(part.attacks)}.",
        f"Subpopulations: {'; '.join(groups) or 'none'}.",
        f"What is released: {'; '.join(map(words.observer, observers))}.",
    ]
    named = part.config.get("membership", {}).get("groups")
    missing = "membership.groups, with columns of [data.users] that name people's groups"
    return RecordAnswer("to judge" if groups else "gap", lines, "" if named else missing)


def erasure(part: AuditResult) -> RecordAnswer:
    """Answer whether the model still tells who was deleted, for each model that forgets."""
    forgetting = {point.model for point in part.points if point.traits.get("forget")}
    if not forgetting:
        own = "a second [[recommender]] with forget, as 'dpaudit init --audit deletion' writes it"
        fill = _fill(part, own, "a [[recommender]] with forget, as a [[model]] has none")
        return RecordAnswer("gap", ["No deletion was audited."], fill)
    lines = [
        f"{verdict.model}: {sentence}"
        for verdict in verdicts.of(part)
        if verdict.model in forgetting
        for sentence in verdict.judged
    ]
    return RecordAnswer("to judge", _few(lines))


def outside(part: AuditResult) -> RecordAnswer:
    """Answer to what the endpoint does, of which an audit of a model sees nothing."""
    return RecordAnswer("gap", ["dpaudit audits a model, not its endpoint."], _OTHERWISE)


def untested(part: AuditResult) -> RecordAnswer:
    """Answer to what dpaudit has no attack for."""
    return RecordAnswer("gap", ["dpaudit has no such attack."], _OTHERWISE)


def documented(part: AuditResult) -> RecordAnswer:
    """Answer that the record documents who tested what, when and how."""
    if not of_roles(part, "recovery", "attack") and not columns.within(part, "games"):
        nothing = "Nothing was attacked, so there is no test to document."
        return RecordAnswer("gap", [nothing], _any(part))
    missing, count = not_tried(part), len(part.measurements)
    counted = (
        "1 number with its interval" if count == 1 else f"{count} numbers with their intervals"
    )
    lines = [
        f"record.json has the config, the seed, versions and {counted}; dpaudit {part.tool}, "
        f"{part.timing.started[:10]}.",
        f"Attacks: {'; '.join([*part.attacks, *part.sybil_attacks]) or 'those of games'}.",
        f"Not tried: {missing[0]} {len(missing) - 1} more are in the report.",
    ]
    return RecordAnswer("met", lines)


def parameters(part: AuditResult) -> RecordAnswer:
    """Answer which ε and δ are claimed."""
    claims = [(point.model, point.claim) for point in part.points]
    lines = _few(
        f"{model}: ε = {words.epsilon(claim.epsilon)}, δ = {claim.delta:g} ({claim.source})."
        if claim
        else f"{model}: none."
        for model, claim in claims
    )
    missing = any(claim is None for _, claim in claims)
    return RecordAnswer("gap", lines, _claimed(part)) if missing else RecordAnswer("met", lines)


def unit(part: AuditResult) -> RecordAnswer:
    """Answer what one unit of privacy is, and what that says of users."""
    claims = [claim for claim in guarantees_of(part) if claim.epsilon]
    if not claims:
        return RecordAnswer("gap", ["No ε is claimed."], _claimed(part))
    lines = [f"{claim.model}: {claim.unit}." for claim in claims]
    for claim in claims:
        lines += [
            f"{claim.model}: all {group.ratings} ratings of the {group.of} together have "
            f"ε = {group.limits.epsilon:.4g} (derived)."
            for group in claim.derived.groups
        ]
    whole = all(claim.adjacency.startswith("user-") for claim in claims)
    return RecordAnswer("met" if whole else "to judge", _few(dict.fromkeys(lines)))


def trust(part: AuditResult) -> RecordAnswer:
    """Answer who is trusted with what, and who sees what is released."""
    seen = [
        f"{claim.model}: the claim covers who sees {'; '.join(claim.observers)}."
        for claim in guarantees_of(part)
        if claim.epsilon
    ]
    return _owner(part, dict.fromkeys(seen), "trust_model", "release", "access")


def composition(part: AuditResult) -> RecordAnswer:
    """Answer how the losses of several releases add up."""
    return _owner(part, (), "composition")


def implementation(part: AuditResult) -> RecordAnswer:
    """Answer what is known about the implementation."""
    return _owner(part, card_of(part).correctness, "correctness", "side_channels", "security")


def _fill(part: AuditResult, own: str, defense: str) -> str:
    """Return the keys for the user's own recommenders, for defenses of dpaudit, or for both.

    A mechanism that is audited by its outputs alone takes none of them.
    """
    if "defense" in part.config:
        return _OF_MECHANISM
    whose = {model.variant == "own" for model in part.models}
    return "; ".join(keys for keys, kind in ((own, True), (defense, False)) if kind in whose)


def _alone(part: AuditResult, keys: str) -> str:
    """Return keys that a config with some table does not take, with where they go instead."""
    other = next((name for name in ("membership", "attributes") if name in part.config), None)
    return f"{keys}, in a config without [{other}]" if other else keys


def _any(part: AuditResult) -> str:
    attack = _alone(part, _ATTACK)
    return _fill(part, _MEMBERSHIP, f"{_MEMBERSHIP}; or {attack}")


def _claimed(part: AuditResult) -> str:
    own = "[recommender.claim] of the [[recommender]]"
    return _fill(part, own, "variant = 'corrected' of the [[model]]")


def _owner(part: AuditResult, known: Iterable[str], *keys: str) -> RecordAnswer:
    """Return what the audit knows and the owner states; a gap if something is not stated."""
    card = statements_of(part)
    stated = {key: getattr(card, key) for key in keys}
    lines = [f"{key} (owner, not checked): {text}" for key, text in stated.items() if text]
    missing = [f"card.{key}" for key, text in stated.items() if not text]
    return RecordAnswer(
        "gap" if missing else "to judge", _few([*known, *lines]), ", ".join(missing)
    )


def _judged(lines: Sequence[str], missing: str, fill: str) -> RecordAnswer:
    """Return lines to judge; without any a gap, with what is missing and what fills it."""
    return RecordAnswer("to judge", lines) if lines else RecordAnswer("gap", [missing], fill)


def _few(lines: Iterable[str]) -> list[str]:
    every = list(lines)
    left = len(every) - _MOST
    return [*every[:_MOST], f"{left} more in the record."] if left > 1 else every
