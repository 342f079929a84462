"""The verdict on each model in plain sentences, and what waivers accept of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dpaudit.core import rounding
from dpaudit.core.frequency import shares
from dpaudit.record.metrics import entry
from dpaudit.record.result import AuditResult, Measurement, ModelRecord, VerdictRecord, WaiverRecord
from dpaudit.record.verdicts import remedy
from dpaudit.reports import digest, palette, words
from dpaudit.reports.sections.base import sections_of
from dpaudit.reports.table import Table

# The roles of metrics that say what an attacker learns.
_LEARNT = ("recovery", "attack")
# Why a claim was not tested, for several ε; completed by what they are, and by what decides it.
_UNTESTED: Mapping[str, str] = {
    "missed": "too weak to tell {at}: the games also miss copies that leak more than is claimed, "
    "so they say nothing here; {decides}",
    "too few": "too weak to tell {at}: the games are too small to certify more than is claimed; "
    "{decides}",
    "law": "in doubt {at}: by the law of its noise it reveals more than is claimed, but these "
    "games do not certify it; {decides}",
    "doubt": "in doubt {at}: the right guesses are as frequent as if more than is claimed were "
    "revealed, but too few to certify it; {decides}",
    "finding": "left open {at}: a finding on the model leaves open what it reveals",
}


@dataclass(frozen=True)
class ModelVerdict:
    """The verdict on one model over its whole sweep.

    Attributes:
        model: the model's label.
        badge: what became of its claims; of a model without one what the kind of audit says of it,
            or whether anything was measured that an attacker learns.
        sentences: what was found, the worst first.
        judged: those that say what the badge is about, if the kind has such.
    """

    model: str
    badge: palette.Word
    sentences: Sequence[str]
    judged: Sequence[str] = ()

    @property
    def text(self) -> str:
        """Return the sentences as one text."""
        return " ".join(self.sentences)


def of(result: AuditResult) -> list[ModelVerdict]:
    """Return the verdict on each model, the worst first."""
    rows = []
    for model in result.models:
        sweep = sorted(
            (record for record in result.verdicts if record.model == model.label),
            key=lambda record: record.epsilon,
        )
        false = {record.id for record in sweep if record.verdict == "false"}
        waived = [waiver_line(waiver, result) for waiver in result.waivers if waiver.id in false]
        judged = [sentence for _, sentence in sections_of(result).judged(model)]
        leaks = _leaks(result, model, sweep)
        sentences = [*_claims(result, sweep), *waived, *judged, *leaks]
        rows.append(ModelVerdict(model.label, badge(result, [model]), sentences, judged))
    return sorted(rows, key=lambda row: palette.order(row.badge))


def badge(result: AuditResult, models: Sequence[ModelRecord]) -> palette.Word:
    """Return what became of claims; without one the worst that the kind says, or what was measured.

    Args:
        result: the record.
        models: the models that it is about.
    """
    labels = {model.label for model in models}
    sweep = [record for record in result.verdicts if record.model in labels]
    claims = [record.verdict for record in sweep if record.claimed is not None]
    if "false" in claims:
        return palette.CLAIM["false"]
    if "survived" in claims:
        return palette.survived(claims.count("survived"), len(claims))
    if claims:
        return palette.CLAIM["not tested"]
    sections = sections_of(result)
    judged = [word for model in models for word, _ in sections.judged(model)]
    if judged:
        return min(judged, key=palette.order)
    measured = [measurement for measurement in result.measurements if measurement.model in labels]
    attacked = any(entry(measurement.metric).role in _LEARNT for measurement in measured)
    return palette.LEAK_MEASURED if attacked else palette.NOT_ATTACKED


def on_claim(result: AuditResult, verdict: VerdictRecord) -> str:
    """Return the verdict on one claim of a model as text."""
    return " ".join(_claims(result, [verdict])) or "It makes no privacy claim."


def _claims(result: AuditResult, sweep: list[VerdictRecord]) -> Iterator[str]:
    """Yield the sentences about a model's claims."""
    claims = digest.claims(result)
    false = [record for record in sweep if record.verdict == "false"]
    if false:
        worst = max(false, key=lambda record: (record.certified or 0) / (record.claimed or 1))
        times = rounding.at_least((worst.certified or 0) / (worst.claimed or 1), 2)
        sure = words.percent(result.family.confidence)
        yield (
            f"The claim is false {_at(false)}: an attack shows a leak of at least {times} times "
            "what is claimed."
        )
        yield (
            f"Where ε = {words.epsilon(worst.claimed or 0)} is claimed, "
            f"ε at least {rounding.at_least(worst.certified or 0, 2)} is certified with {sure} "
            f"confidence over the whole run. {_game(worst, claims)}"
        )
    kept = [record for record in sweep if record.verdict == "survived"]
    if kept:
        games = [_game(record, claims) for record in kept]
        yield (
            f"No violation found {_at(kept)}. The same attack catches leaks of "
            f"{words.caught(kept)}; it may miss smaller ones. This is no proof of privacy: other "
            "attacks may find more."
        )
        yield " ".join(dict.fromkeys(games))
    uncovered = [record for record in sweep if record.reason == "no game"]
    if uncovered:
        stated = [claims[record.model, record.epsilon] for record in uncovered]
        covered = " or ".join(dict.fromkeys(words.claim(claim) for claim in stated if claim))
        yield (
            f"Claim never tested {_at(uncovered)}: no attack of this run is about what it covers. "
            f"It covers: {covered}."
        )
    reasons = [_reason(result, record, claims) for record in sweep]
    for reason, sentence in _UNTESTED.items():
        untested = [record for record, why in zip(sweep, reasons, strict=True) if why == reason]
        if untested:
            # A claim that games leave open has one.
            of_model = _games(result, untested[0].model)
            decides = remedy(result.kind, of_model[0]) if of_model else ""
            yield _capital(f"{sentence.format(at=_at(untested), decides=decides)}.")


def _games(result: AuditResult, model: str) -> list[Measurement]:
    return [game for game in digest.of(result, "epsilon") if game.model == model]


def _reason(result: AuditResult, record: VerdictRecord, claims: digest.Claims) -> str | None:
    """Return why a claim is not tested, as a key of the sentences; None if it is."""
    if record.reason == "doubt":
        return "doubt" if record.law is None else "law"
    if record.reason == "finding":
        return "finding"
    claim = claims[record.model, record.epsilon]
    if record.reason != "no power" or claim is None:
        return None
    games = [game for game in _games(result, record.model) if game.epsilon == record.epsilon]
    tried = any(game.controls for game in games if game.tests(claim))
    return "missed" if tried else "too few"


def _leaks(result: AuditResult, model: ModelRecord, sweep: list[VerdictRecord]) -> Iterator[str]:
    """Yield the sentences about points without a claim, and about who sees most."""
    free = [record for record in sweep if record.reason == "no claim"]
    if free:
        which = "" if len(free) == len(sweep) else f" {_at(free)}"
        noise = " and adds no noise, so no ε bounds what it reveals" if free[0].noiseless else ""
        yield f"It makes no privacy claim{which}{noise}."
    yield from sections_of(result).leaks(model)
    if not free:
        return
    certified = [record for record in free if record.certified]
    if certified:
        most = max(certified, key=lambda record: record.certified or 0)
        where = f" {_at([most])}" if len(sweep) > 1 else ""
        yield (
            f"ε at least {rounding.at_least(most.certified or 0, 2)} is certified{where}. "
            f"{_game(most, digest.claims(result))}"
        )
    points = {(record.model, record.epsilon) for record in free}
    accuracies = digest.of(result, "attack.accuracy")
    attacks = [attack for attack in accuracies if (attack.model, attack.epsilon) in points]
    if attacks:
        best = max(attacks, key=lambda attack: attack.estimate.lower)
        yield (
            f"The attack {best.attack!r} recovers {shares(best.estimate)} of the hidden "
            f"ratings at ε = {words.epsilon(best.epsilon)}."
        )


def _at(verdicts: Sequence[VerdictRecord]) -> str:
    return f"at ε = {words.listed(verdict.epsilon for verdict in verdicts)}"


def _game(record: VerdictRecord, claims: digest.Claims) -> str:
    """Return who saw what in the game that decided, by which attack and data, as a sentence."""
    name, claim = record.decided_by, claims[record.model, record.epsilon]
    if name is None:
        return "No game decided it."
    observer = name.observer or (claim.observer if claim else None)
    seen = f"the attacker sees {words.observer(observer)}; " if observer else ""
    how = (
        f"the target is one {name.unit}"
        if name.unit
        else f"the attack is {name.attack} on the pair {name.pair}"
    )
    return _capital(f"{seen}{how}.")


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


_NOW = {
    "false": "its claim is false",
    "survived": "its claim was tested and not found to be false",
    "not tested": "its claim was not tested",
    "pass": "its gate passes",
    "fail": "its gate fails",
    "inconclusive": "its gate is inconclusive",
}


def waiver_table(result: AuditResult) -> Table | None:
    """Return the table of all waivers; None without any."""
    if not result.waivers:
        return None
    header = ["finding", "state", "owner", "until", "statement"]
    cells = [
        [waiver.id, waiver.state, waiver.owner, str(waiver.expires), waiver.statement]
        for waiver in result.waivers
    ]
    expired = {(row, 1) for row, waiver in enumerate(result.waivers) if waiver.state == "expired"}
    return Table(f"Waivers on {result.waivers[0].judged}", header, cells, expired)


def waiver_line(waiver: WaiverRecord, result: AuditResult) -> str:
    """Return what a waiver does and what to do about it, as a sentence that names its finding."""
    clause = waiver_sentence(waiver, result)
    if waiver.state == "active":
        return f"{waiver.id} is {clause}."
    return f"{_capital(clause)}."


def waiver_sentence(waiver: WaiverRecord, result: AuditResult) -> str:
    """Return what a waiver does and what to do about it, as the end of a sentence.

    That of an active waiver does not name its finding.
    """
    now = _now(waiver.id, result)
    if waiver.state == "active":
        return (
            f"waived until {waiver.expires} by {waiver.owner}: {waiver.statement.removesuffix('.')}"
        )
    if waiver.state == "unused":
        return f"the waiver of {waiver.id} is unused, as {now}: remove it if that lasts"
    return (
        f"the waiver of {waiver.id} by {waiver.owner} expired after {waiver.expires}, and {now}: "
        "remove the waiver, or review and renew it"
    )


def _now(name: str, result: AuditResult) -> str:
    """Return what became of a waived finding."""
    states: dict[str, str] = {verdict.id: verdict.verdict for verdict in result.verdicts}
    # Gates may share an id: one that does not pass counts.
    gates = sorted(result.gates, key=lambda gate: gate.outcome != "pass")
    states |= {gate.id: gate.outcome for gate in gates}
    return _NOW.get(states.get(name, ""), "its gate is not judged here")
