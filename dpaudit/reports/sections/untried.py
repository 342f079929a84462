"""What a run did not try: a low number says nothing about it."""

from __future__ import annotations

from dpaudit.record.metrics import entry
from dpaudit.record.result import AuditResult
from dpaudit.reports.sections.base import sections_of

_ALWAYS = (
    "Other attacks on the same outputs, other data, other hyper-parameters, and models trained "
    "again over time on data that change.",
    "Everything outside the released outputs: running times, memory, logs, who may read the data, "
    "and whether the deployed code is the audited code.",
)


def sentences(result: AuditResult) -> list[str]:
    """Return what was not tried, the most specific first."""
    sections = sections_of(result)
    roles = {entry(measurement.metric).role for measurement in result.measurements}
    recovery = () if "recovery" in roles else ("Attacks that recover ratings or purchases.",)
    return [*sections.untried(), *recovery, *sections.beyond, *_ALWAYS]
