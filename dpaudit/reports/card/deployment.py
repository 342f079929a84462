"""What a privacy card says of the deployed model: the page that is printed and signed."""

from __future__ import annotations

from collections import Counter

from dpaudit.record.result import AuditResult
from dpaudit.reports import deployed, palette
from dpaudit.reports.card.document import Deployment, Found
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections import meter, screen, verdicts
from dpaudit.reports.sections.base import not_tried, sections_of
from dpaudit.reports.sections.outcome import reason_of


def deployment(result: AuditResult) -> Deployment:
    """Return what is deployed, and what the audit says of it."""
    part = deployed.alone(result)
    printed = sections_of(part).printed()
    results, why = [dict(row) for row in printed.results], reason_of(result)
    # A table says each of several results.
    single = len(results) == 1 and printed.result not in why
    chosen = part.points[0] if len(part.points) == 1 else None
    return Deployment(
        outcome=result.outcome,
        reason=why,
        model=chosen and chosen.model,
        epsilon=chosen and chosen.epsilon,
        named=deployed.named(part) if chosen else "",
        choice=deployed.choice(part),
        badge=verdicts.badge(part, part.models).text,
        claims=Counter(palette.became(one) for one in part.verdicts if one.claimed is not None),
        attacker=sections_of(part).attacker(),
        protected=screen.protected(part),
        found=[_attack(row) for row in meter.rows(part)],
        violated=screen.violated(part),
        utility=screen.utility(part),
        about=printed.about,
        audited={**({"Result": printed.result} if single else {}), **printed.facts},
        results=results,
        untried=not_tried(part),
    )


def _attack(row: Frequency) -> Found:
    found, guess, limit = row.counts
    return Found(
        model=row.measurement.model,
        attacker=row.attacker,
        what=row.what,
        found=found,
        interval=row.between,
        guess=guess,
        limit=limit,
    )
