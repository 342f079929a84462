"""The JSON record: the one file of a run from which every report is rendered.

A record that is read is checked for consistency as a whole, beyond the validity of its parts.
Reports and gates rely on these checks and do not repeat them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dpaudit.core.errors import ConfigError
from dpaudit.core.files import nested, read_text
from dpaudit.core.messages import escaped
from dpaudit.execution.store import NAME as STORE
from dpaudit.record.bases import GAINS
from dpaudit.record.metrics import entry, ordered
from dpaudit.record.result import SCHEMA, AuditResult, judged
from dpaudit.record.verdicts import decided, verdicts, waivable

NAME = "record.json"
_LARGEST = 12 * 2**20
# Far deeper than any config, which has tables of tables of lists.
_DEPTH = 20


def render(result: AuditResult) -> str:
    """Return the record as JSON with every invisible character escaped."""
    lines = result.model_dump_json(indent=1).split("\n")
    return "".join(f"{escaped(line, lambda letter: json.dumps(letter)[1:-1])}\n" for line in lines)


def load(path: Path) -> AuditResult:
    """Read a record.

    Args:
        path: the record file, or the folder that contains it.

    Raises:
        ConfigError: the file is missing, is not a record of this layout, or contradicts itself.
    """
    if path.is_dir():
        path = path / NAME
    text = _read(path)
    try:
        values = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        remedy = (
            "run the audit again"
            if path.name == NAME
            else f"name the folder or the {NAME} that 'dpaudit run' wrote"
        )
        raise ConfigError(f"{path} is not JSON ({error}): {remedy}") from error
    version = values.get("schema_version") if isinstance(values, dict) else None
    if version is None:
        raise ConfigError(
            f"{path} is not a record of an audit: name the folder or the {NAME} that 'dpaudit run' "
            "wrote"
        )
    if version != SCHEMA:
        raise ConfigError(
            f"{path} has schema_version {version} and this dpaudit reads {SCHEMA}: run the audit "
            "again, or use the dpaudit that wrote it"
        )
    try:
        result = AuditResult.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise ConfigError(f"{path}: {place}: {problem['msg']}; run the audit again") from error
    fault = contradiction(result)
    if fault:
        raise ConfigError(f"{path} contradicts itself ({fault}): run the audit again")
    return result


def _no_number(name: str) -> float:
    """Refuse bare NaN and infinities, which are not JSON; they are recorded as strings."""
    raise ValueError(f"{name} is not a JSON number")


def _read(path: Path) -> str:
    try:
        return read_text(path, _LARGEST)
    except FileNotFoundError as error:
        raise ConfigError(_absent(path)) from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _absent(path: Path) -> str:
    """Say what to do where a record is missing: in a folder of tasks a run did not end."""
    folder = path.parent
    if path.name != NAME or not folder.is_dir():
        shown = folder if path.name == NAME else path
        return f"{shown} does not exist: name the folder that 'dpaudit run' wrote"
    if list(folder.glob("tasks-*-of-*.sqlite")):
        return (
            f"{path} does not exist, as {folder} holds shards of a run: 'dpaudit merge {folder}' "
            "makes the record when all are done"
        )
    if (folder / STORE).exists():
        return (
            f"{path} does not exist, as the run in {folder} has not ended: give its command "
            "'dpaudit run' again, which goes on after the finished tasks"
        )
    return f"{path} does not exist: name the folder that 'dpaudit run' wrote"


def contradiction(result: AuditResult) -> str | None:
    """Describe the first contradiction in a record; None if there is none."""
    return next(_contradictions(result), None)


def _contradictions(result: AuditResult) -> Iterator[str]:
    asked = result.config.get("gate", [])
    if not isinstance(asked, list) or len(asked) != len(result.gates):
        yield f"it has {len(result.gates)} gates, and its config has a different number"
    yield from _points(result)
    yield from _measurements(result)
    yield from _sides(result)
    if result.verdicts != verdicts(result):
        yield "its verdicts are not those of its measurements"
    yield from _waivers(result)
    known = {verdict.id for verdict in result.verdicts} | {gate.id for gate in result.gates}
    yield from (
        f"there is no claim or gate {name!r}" for name in result.origin if name not in known
    )
    expected = decided(result)
    if result.outcome != expected:
        yield f"outcome is {result.outcome!r}, but its gates and verdicts give {expected!r}"
    parts = [result.config, result.attacks, result.sybil_attacks]
    parts += [model.params for model in result.models]
    parts += [point.chosen for point in result.points]
    if any(nested(part, _DEPTH) for part in parts):
        yield f"its settings are nested more than {_DEPTH} deep"


def _points(result: AuditResult) -> Iterator[str]:
    labels = [model.label for model in result.models]
    yield from (f"two models have the label {label!r}" for label in _twice(labels))
    points = [(point.model, point.epsilon) for point in result.points]
    yield from (f"model {model!r} has ε = {at:g} twice" for model, at in _twice(points))
    named = {point.model for point in result.points} | {pair.model for pair in result.pairs}
    yield from (f"there is no model {label!r}" for label in sorted(named - set(labels)))


def _measurements(result: AuditResult) -> Iterator[str]:
    points = {(point.model, point.epsilon) for point in result.points}
    for measurement in result.measurements:
        what = f"{measurement.metric} of {measurement.model!r}"
        if (measurement.model, measurement.epsilon) not in points:
            yield f"{what} is at ε = {measurement.epsilon:g}, which is not in the sweep"
        metric = entry(measurement.metric)
        is_share = metric.unit == "share" and metric.gateable and measurement.basis not in GAINS
        if is_share and not 0 <= measurement.estimate.value <= 1:
            yield f"{what} is {measurement.estimate.value:g}, which is not in [0, 1]"
    yield from (
        f"{key[0]} of {key[1]!r} at ε = {key[2]:g} is recorded twice"
        for key in _twice(measurement.key for measurement in result.measurements)
    )


def _sides(result: AuditResult) -> Iterator[str]:
    """Yield models whose points do not all have the same attacks or the same games.

    Points that lack them because of a finding, as trainings diverged, do not count.
    """
    for metric, name in (
        (metric.name, metric.by)
        for metric in ordered(measurement.metric for measurement in result.measurements)
        if metric.by
    ):
        at: dict[str, dict[float, set[Any]]] = {}
        for point in result.points:
            key = (metric, point.model, point.epsilon)
            if not any(finding.lacks(*key) for finding in result.findings):
                at.setdefault(point.model, {})[point.epsilon] = set()
        for measurement in result.measurements:
            if measurement.metric == metric and measurement.epsilon in at.get(
                measurement.model, {}
            ):
                at[measurement.model][measurement.epsilon].add(measurement.fields.get(name))
        for model, by_epsilon in at.items():
            if len({frozenset(names) for names in by_epsilon.values()}) > 1:
                yield f"model {model!r} does not have the same {name}s at every ε"


def _waivers(result: AuditResult) -> Iterator[str]:
    needed = waivable(result)
    for waiver in result.waivers:
        [expected] = judged([waiver], needed, waiver.judged)
        if waiver.state != expected.state:
            yield f"the waiver of {waiver.id!r} is {waiver.state}, and should be {expected.state}"
    waivers = [
        waiver.model_dump(mode="json", exclude={"judged", "state"}) for waiver in result.waivers
    ]
    if result.config.get("waiver", []) != waivers:
        yield "its waivers are not those of its config"


def _twice(keys: Iterable[Any]) -> list[Any]:
    """Return the keys that occur more than once."""
    return [key for key, count in Counter(keys).items() if count > 1]
