"""What is deployed: its privacy card, as a page and as YAML, and the evidence for standards."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from textwrap import shorten

from dpaudit.core import rounding
from dpaudit.record.result import AuditResult
from dpaudit.reports import palette, words
from dpaudit.reports.card.build import card_of, deployed_part
from dpaudit.reports.card.document import Guarantee, PrivacyCard
from dpaudit.reports.card.requirements import STANDARDS
from dpaudit.reports.card.sections import Fact, Section, appendix, audited, results, statement
from dpaudit.reports.render import page
from dpaudit.reports.sections import footnotes, outcome, screen, verdicts
from dpaudit.reports.table import Table

# A card without these says so; all other statements of the owner may be left out.
_REQUIRED = ("system", "owner", "contact")
# What fits on the page: the appendix has all.
_LETTERS = 80
_ATTACKERS = 6
# Rows of results that a kind of audit adds; and what then fits of attackers and of the untried.
_RESULTS = 4
_FEWER = 3
_UNTRIED = 5


def render(result: AuditResult) -> str:
    """Render the privacy card as one HTML file that loads nothing."""
    card, part = card_of(result), deployed_part(result)
    return page.render(
        "card.html.j2",
        card=card,
        sheet=sheet(card),
        appendix=appendix(card),
        outcome=palette.run(result),
        badge=verdicts.badge(part, part.models),
    )


def render_yaml(result: AuditResult) -> str:
    """Render the privacy card as YAML, in the layout of `PrivacyCard`."""
    import yaml

    values = card_of(result).model_dump()
    text: str = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100)
    return text


def render_evidence(result: AuditResult) -> str:
    """Render what the audit answers to each requirement as one HTML file that loads nothing."""
    deployed, part = card_of(result).deployment, deployed_part(result)
    answered = [
        (standard, [(asked, asked.answer(part)) for asked in standard.requirements])
        for standard in STANDARDS
    ]
    counts = Counter[str](answer.status for _, rows in answered for _, answer in rows)
    return page.render(
        "evidence.html.j2",
        system=screen.system(result),
        audited=screen.audited(result),
        decision=outcome.decision_of(result),
        deployed=deployed.choice or deployed.named,
        counts=", ".join(f"{counts[word]} {word}" for word in palette.ANSWER if counts[word]),
        standards=answered,
        words=palette.ANSWER,
    )


def sheet(card: PrivacyCard) -> list[Section]:
    """Return the sections of the page: what is deployed, found, protected and not tried."""
    deployment = card.deployment
    most_untried = _FEWER if deployment.results else _UNTRIED
    untried = deployment.untried[:most_untried]
    if left := len(deployment.untried) - len(untried):
        untried = [*untried, f"{left} more, in the file of this card."]
    sections = [Section("", list(_who(card)))]
    if facts := audited(card):
        table = _first(results(card), _RESULTS, "results are no worse than these")
        sections.append(Section(deployment.about, facts, [table]))
    attackers = _attackers(card)
    return [
        *sections,
        Section("Numbers", tables=[attackers] if attackers.cells else []),
        Section("", list(_numbers(card))),
        Section("Threat model", list(_threat(card))),
        Section("Not tried", notes=untried),
        Section("What next", notes=deployment.steps),
    ]


def _who(card: PrivacyCard) -> Iterator[Fact]:
    for name in _REQUIRED:
        yield _short(statement(card, name))
    yield from _stated(card, "version", "intended_use")
    yield Fact("Deployed", card.deployment.choice or card.deployment.named)
    data = card.data
    if data:
        sizes = f"{data.ratings:,} ratings by {data.users:,} users of {data.items:,} items"
        yield Fact("Audited data", f"about {sizes}")
    sure = words.percent(card.audit.confidence)
    audit = f"dpaudit {card.audit.tool}, {card.audit.started[:10]}"
    yield Fact("Audit", f"{audit}; {sure} confidence, for {footnotes.APART}")


def _chosen(card: PrivacyCard) -> Guarantee | None:
    """Return the guarantee of the deployed model; None if that is not chosen."""
    points = {
        (guarantee.model, guarantee.sweep_epsilon): guarantee for guarantee in card.guarantees
    }
    deployed = card.deployment
    return points.get((deployed.model or "", deployed.epsilon or 0.0))


def _attackers(card: PrivacyCard) -> Table:
    rows = card.deployment.found
    named = len({row["model"] for row in rows}) > 1
    cells = [list(row.values())[not named :] for row in rows]
    header = list(rows[0])[not named :] if rows else []
    table = Table(f"How many {card.deployment.counted}", header, cells)
    most = _FEWER if card.deployment.results else _ATTACKERS
    return _first(table, most, "attackers find no more than these")


def _first(table: Table, most: int, others: str) -> Table:
    """Return the first rows of a table, with a note on the others."""
    left = len(table.cells[most:])
    note = f"{left} more {others}." if left else ""
    return replace(table, cells=table.cells[:most], note=note)


def _numbers(card: PrivacyCard) -> Iterator[Fact]:
    chosen = _chosen(card)
    if chosen:
        yield Fact("Claim", _claim(chosen))
    elif claims := card.deployment.claims:
        counts = ", ".join(f"{count} {verdict}" for verdict, count in claims.items())
        yield Fact("Claims", f"{counts}.")
    if card.deployment.violated:
        yield Fact("Not as assumed", screen.assumed(card.deployment.violated))
    if chosen and (limit := _limit(chosen)):
        yield Fact("If the claim holds", limit)
    for sentence in card.deployment.certain:
        yield Fact("For certain", sentence)
    if card.deployment.utility:
        yield Fact("Utility", card.deployment.utility)


def _claim(guarantee: Guarantee) -> str:
    """Return the verdict on a claim with the numbers that it rests on."""
    certified = guarantee.certified
    least = "" if certified is None else f"a leak of at least ε = {rounding.at_least(certified, 2)}"
    if guarantee.epsilon is None:
        return f"None is made.{f' The attacks show {least}.' if certified else ''}"
    if guarantee.verdict == "false":
        return f"False: the attacks show {least}."
    if guarantee.reason:
        word, meaning = palette.UNTESTED[guarantee.reason]
        return f"{word.capitalize()}: {meaning}."
    factor = f"{guarantee.power or math.nan:.3g}"
    return (
        f"Survived: the attacks show {least}, no more than is claimed. They catch copies that leak "
        f"{factor} times what is claimed{guarantee.condition}."
    )


def _limit(guarantee: Guarantee) -> str:
    """Return what a claim allows an attacker, as natural frequencies; empty if it limits nothing.

    The limit is rounded up, so that it is still a limit.
    """
    limits = guarantee.derived.limits
    if limits is None:
        return ""
    rate = next(rate for rate in limits.success if rate.of == "1 in 100")
    most = math.ceil(round(100 * rate.bound, 9))
    often = f"at most {most} times" if most < 100 else "up to every time: it sets no limit here"
    return (
        f"An attacker who is right once in 100 by guessing is right {often}, about "
        f"{guarantee.unit}. (Derived, not measured.)"
    )


def _threat(card: PrivacyCard) -> Iterator[Fact]:
    deployment, chosen = card.deployment, _chosen(card)
    yield Fact("Attacker", deployment.attacker)
    if deployment.protected:
        yield Fact("Protected", deployment.protected)
    yield from _stated(card, "privacy_unit")
    if chosen and chosen.observers:
        seen = [observer.partition(": ")[2] or observer for observer in chosen.observers]
        yield _short(Fact("Claim covers", "; ".join(seen)))
    if chosen and chosen.epsilon:
        yield _short(Fact("Claim leaves out", chosen.unprotected))
    yield from _stated(card, "trust_model", "release", "access")


def _stated(card: PrivacyCard, *names: str) -> Iterator[Fact]:
    """Yield what the owner states of these, and nothing for what is not stated."""
    facts = (statement(card, name) for name in names)
    yield from (_short(fact) for fact in facts if not fact.missing)


def _short(fact: Fact) -> Fact:
    text = shorten(fact.text, _LETTERS, placeholder=" …")
    return replace(fact, text=text)
