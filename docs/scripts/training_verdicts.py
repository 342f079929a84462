"""The verdicts of `make_training`: a paper's sentences, judged by a record and its grids."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

# It stands beside this file.
from training_pages import AT, HARMLESS, OF_THE_PAPER, PAPERS_ENDS, READINGS, STILL, Page, Said

from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.core import registry
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import AuditResult
from dpaudit.reports.render.markdown import escape
from dpaudit.reports.words import listed

# The mark of an end past which the error may be smaller, and why the others are no such ends.
OPEN, PAPERS, NOTHING = "†", "the paper's", "none is beyond"
# Errors that differ by less decide nothing: a limit of ours.
CLOSE = 0.001
# The verdicts on comparisons, the one that decides first.
ORDER, UNTRIED = ("not so", "undecided", "so"), "not tested"
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
    """Quote a sentence, judge it by the numbers as shown, and say what of each model decides it."""
    open_ends = {(edge.model, edge.at) for edge in edges if edge.mark == OPEN}
    start = f"“{said.quote}”" if said.quote else "Beyond the paper"
    if not said.pairs:
        return f"{start}: **not tested**: {escape(said.words)}."
    whole, parts = set(), []
    for model, others in said.pairs.items():
        by_other = {
            other: compared(said, model, other, curves, open_ends)
            for other in others
            if {_name(model), _name(other)} <= curves.keys()
        }
        if by_other:  # else it is no model of this example
            # COS is of raw or of centred ratings: two readings.
            for left_out in READINGS:
                reading = [of for other, of in by_other.items() if other != left_out]
                worst = (verdict for verdict in ORDER if any(verdict in of for of in reading))
                whole.add(next(worst, UNTRIED))
            parts.append(f"{escape(model)}: {_details(by_other)}")
    verdict = whole.pop() if len(whole) == 1 else "undecided"
    return f"{start}: **{verdict}**. {escape(said.words)}. {'. '.join(parts)}."


def _details(by_other: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    grouped: dict[str, list[str]] = {}
    for other, verdicts in by_other.items():
        where = ", ".join(f"**{verdict}**{_at(at)}" for verdict, at in verdicts.items())
        grouped.setdefault(where or f"**{UNTRIED}**", []).append(escape(other))
    return "; ".join(f"{where} beside {' / '.join(of)}" for where, of in grouped.items())


def compared(
    said: Said,
    model: str,
    other: str,
    curves: Mapping[str, Curve],
    open_ends: set[tuple[str, float]],
) -> dict[str, list[float]]:
    """Return at which ε a model has the smaller error, at which it has not, by verdict.

    A comparison is undecided if the errors differ by less than `CLOSE`, or if its loser was tuned
    to an open end of a grid, past which its error may be smaller.
    """
    verdicts: dict[str, list[float]] = {}
    labels = [label for label in (model, other) if _name(label) == label]
    for at in sorted({at for label in labels for at in curves[label]}):
        (mine, my_place), (its, its_place) = (_shown(of, at, curves) for of in (model, other))
        if mine is None or its is None or not said.least <= at <= said.most:
            continue
        limit = its * (1 + said.slack)
        close = abs(mine - limit) < CLOSE - 1e-9
        undecided = close or (its_place if mine < limit else my_place) in open_ends
        verdict = "undecided" if undecided else "so" if mine < limit else "not so"
        verdicts.setdefault(verdict, []).append(at)
    return {verdict: verdicts[verdict] for verdict in ORDER if verdict in verdicts}


def _name(label: str) -> str:
    return label.partition(AT)[0]


def _shown(
    label: str, at: float, curves: Mapping[str, Curve]
) -> tuple[float | None, tuple[str, float]]:
    """Return an error as it is shown, and the model and the ε that it is of."""
    name, _, fixed = label.partition(AT)
    place = float(fixed) if fixed else at if at in curves[name] else math.inf
    error = curves[name].get(place)
    return None if error is None else round(error.value, 4), (name, place)


def _at(where: Sequence[float]) -> str:
    return f"{AT}{listed(where)}" if list(where) != [math.inf] else ""
