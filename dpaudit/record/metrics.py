"""The table of metrics: one entry has all that is printed, documented, judged or planned of one.

Each kind of audit registers its metrics under the entry point group `dpaudit.metrics`, and so do
packages. The order is that of columns in reports, of `dpaudit list metrics` and of the
documentation: each kind's own.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import pairwise
from typing import Annotated

from pydantic import StringConstraints

from dpaudit.core import registry
from dpaudit.core.messages import quoted
from dpaudit.record.fields import Field
from dpaudit.record.metric import NAME, Metric

# What a field holds that no installed package describes.
Scalar = str | int | float | bool
# A metric's name. A record may have one that no installed package describes.
MetricName = Annotated[str, StringConstraints(pattern=NAME)]


def table() -> Mapping[str, Metric]:
    """Return every metric by its name: dpaudit's own, then those of installed packages."""
    return _table(tuple(sys.path))[0]


def entry(name: str, given: Iterable[str] = ()) -> Metric:
    """Return the entry of a metric; one that says nothing if no installed package describes it.

    Args:
        name: the metric's name.
        given: the fields that a measurement of it has, for a metric that nobody describes.
    """
    known = table().get(name)
    if known:
        return known
    known_fields = _fields(tuple(sys.path))
    fields = tuple(
        known_fields.get(one) or Field(one, "", type=Scalar, place=f"{{{one}}}") for one in given
    )
    words = "a metric of a package that is not installed"
    return Metric(name, words, "–", optional=fields, described=False)


def ordered(names: Iterable[str]) -> list[Metric]:
    """Return the entries of some metrics, each once, in the order of the table."""
    # Metrics of other packages, which register each by itself, keep the order of measurement.
    entries = registry.every("metrics").values()
    foreign = {metric.name for metric in entries if isinstance(metric, Metric)}
    places = {name: place for place, name in enumerate(table()) if name not in foreign}
    some = dict.fromkeys(names)
    return [entry(name) for name in sorted(some, key=lambda name: places.get(name, len(places)))]


def field_names() -> Set[str]:
    """Return the names of the fields that measurements of some metric have."""
    return _fields(tuple(sys.path)).keys()


def traits() -> dict[str, tuple[str, ...]]:
    """Return the traits of models that some metric needs, with the values that they may have."""
    return {metric.trait: metric.states for metric in table().values() if metric.trait}


def gateable(name: str) -> str:
    """Return the name of a metric that a gate may use.

    Raises:
        ValueError: there is no such metric, or no gate may use it; names those that are meant.
    """
    able = [metric.name for metric in table().values() if metric.gateable]
    if name in able:
        return name
    said = (
        f"no gate may use {name!r}"
        if name in table()
        else f"there is no metric {quoted(name, 100)}"
    )
    # What its name ends with, such as auc, is close to no name as a whole.
    ends = [known for known in sorted(able) if known.rpartition(".")[2] == name.lower()]
    meant = f"; did you mean {' or '.join(map(repr, ends))}?" if ends else ""
    perhaps = "".join(f"; {fault}" for fault in faults())
    raise ValueError(f"{said}{meant or registry.suggestion(name, able)}{perhaps}")


def faults() -> list[str]:
    """Say which packages register metrics that cannot be used, and what to do about it."""
    return [*registry.broken("metrics"), *_table(tuple(sys.path))[1]]


@functools.cache
def _fields(path: tuple[str, ...]) -> Mapping[str, Field]:
    """Return every field of a metric by its name."""
    metrics, _ = _table(path)
    return {field.name: field for metric in metrics.values() for field in metric.known}


@functools.cache
def _table(path: tuple[str, ...]) -> tuple[Mapping[str, Metric], Sequence[str]]:
    """Return the table on this import path, and which entry points are left out of it.

    A metric that another package registers too has to be the same there; so has a field.
    """
    metrics: dict[str, Metric] = {}
    before: dict[str, set[str]] = {}
    fields: dict[str, Field] = {}
    left_out = []
    registrations = {
        point: [registered] if isinstance(registered, Metric) else list(registered)
        for point, registered in registry.every("metrics").items()
    }
    # What extends another kind of audit comes after it.
    for point in sorted(
        registrations,
        key=lambda point: all(point not in entry.audits for entry in registrations[point]),
    ):
        entries, their_metrics, their_fields = registrations[point], dict(metrics), dict(fields)
        other = ""
        for entry in entries:
            known = their_metrics.get(entry.name, entry)
            if replace(known, audits=entry.audits) != entry:
                other = other or f"the metric {entry.name!r}"
            their_metrics[entry.name] = replace(entry, audits={**known.audits, **entry.audits})
            for field in entry.known:
                if their_fields.setdefault(field.name, field) != field:
                    other = other or f"the field {field.name!r}"
        if other:
            left_out.append(
                f"the entry point {point!r} of dpaudit.metrics says otherwise what {other} is than "
                "another entry: rename it"
            )
            continue
        metrics, fields = their_metrics, their_fields
        for first, second in pairwise(entries):
            before.setdefault(second.name, set()).add(first.name)
    order: dict[str, Metric] = {}
    while len(order) < len(metrics):
        left = [name for name in metrics if name not in order]
        able = (name for name in left if before.get(name, set()) <= order.keys())
        name = next(able, left[0])
        order[name] = metrics[name]
    return order, left_out
