"""The verdicts of `make_training`: a paper's sentences, judged by a record and its grids."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

# It stands beside this file.
from training_pages import HARMLESS, OF_THE_PAPER, PAPERS_ENDS, STILL, Page, Said

from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.core import registry
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import AuditResult
from dpaudit.reports.render.markdown import escape
from dpaudit.reports.words import listed, measured

# The mark of an end past which the error may be smaller, and why the others are no such ends.
OPEN, PAPERS, NOTHING = "†", "the paper's", "none is beyond"
# The error of a model by ε; infinite without privacy.
Curve = Mapping[float, Estimate]


@dataclass(frozen=True)
class Edge:
    """A setting that was chosen at an end of its grid.

    Attributes:
        model: the model's label.
        at: the ε of the page at which it was chosen.
        name: the parameter.
        value: its value.
        why: why no better setting is cut off by this end; empty if one may be.
    """

    @property
    def mark(self) -> str:
        """The mark of the model's cell: an end of ours that may do harm, or one of the paper's."""
        return {"": OPEN, PAPERS: "‡"}.get(self.why, "")

    model: str
    at: float
    name: str
    value: float
    why: str


def edges_of(page: Page, result: AuditResult) -> list[Edge]:
    """List the settings of a record that were chosen at an end of their grid."""
    models = {model.label: model for model in TrainedConfig.model_validate(result.config).model}
    found = []
    for point in result.points:
        model = models[point.model]
        at = point.epsilon / page.shared.get(model.defense, 1)
        ends = {
            name: harmless(model.label, model.defense, name, value)
            for name, value in point.chosen.items()
            if at_end(value, model.grid[name])
        }
        # Nothing else matters to a model that stays at its start.
        still = STILL in ends.values()
        found += [
            Edge(model.label, at, name, point.chosen[name], STILL if still else why)
            for name, why in ends.items()
        ]
    return found


def at_end(value: Any, offered: Sequence[Any]) -> bool:
    """Whether a number is the least or the largest of several numbers that a grid offers."""
    numbers = all(isinstance(each, int | float) for each in offered)
    return numbers and len(offered) > 1 and value in (min(offered), max(offered))


def harmless(label: str, defense: str, name: str, value: float) -> str:
    """Say why nothing better lies past an end of a grid; empty if something may."""
    if label in OF_THE_PAPER and value in PAPERS_ENDS.get((defense, name), ()):
        return PAPERS
    schema = TypeAdapter(registry.load("defenses", defense)).json_schema()
    bounds = schema["properties"][name]
    if value in (bounds.get("minimum"), bounds.get("maximum")):
        return NOTHING
    return HARMLESS.get((defense, name, value), "")


def judged(said: Said, curves: Mapping[str, Curve], edges: Sequence[Edge]) -> str:
    """Judge a sentence of the paper by the record, for each model of it that it is about."""
    open_ends = {(edge.model, edge.at) for edge in edges if edge.mark == OPEN}
    parts = [
        f"{escape(model)}: {'; '.join(_verdicts(said, model, others, curves, open_ends))}"
        for model, others in said.pairs.items()
        if model in curves
    ]
    return f"{said.by}: {escape(said.words)}. {'. '.join(parts)}."


def _verdicts(
    said: Said,
    model: str,
    others: Sequence[str],
    curves: Mapping[str, Curve],
    open_ends: set[tuple[str, float]],
) -> Iterator[str]:
    """Yield each verdict on a model with those of the others that it is about."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for other in others:
        verdict = compared(said, model, other, curves, open_ends)
        grouped.setdefault(verdict, []).append(escape(other))
    for (verdict, where), names in grouped.items():
        yield f"**{verdict}** beside {' / '.join(names)}{where}"


def compared(
    said: Said,
    model: str,
    other: str,
    curves: Mapping[str, Curve],
    open_ends: set[tuple[str, float]],
) -> tuple[str, str]:
    """Say whether a model has the smaller error at every ε of a sentence, and where it has not.

    A comparison is undecided if both errors are equal as they are shown, or if its loser was tuned
    to an open end of a grid, past which its error may be smaller.
    """
    against, undecided, looked = [], [], []
    constant = curves[other].get(math.inf)
    for at, mine in sorted(curves[model].items()):
        its = constant or curves[other].get(at)
        if its is None or not said.least <= at <= said.most:
            continue
        looked.append(at)
        limit = its.value * (1 + said.slack)
        wins = mine.value < limit
        loser = (other, math.inf if constant else at) if wins else (model, at)
        if loser in open_ends or measured(mine.value, 4) == measured(limit, 4):
            undecided.append(at)
        elif not wins:
            against.append(at)
    if not looked:
        return "not tested", ""
    for verdict, where in (("not so", against), ("undecided", undecided), ("so", looked)):
        if where:
            return verdict, f" at ε = {listed(where)}"
    raise AssertionError(looked)
