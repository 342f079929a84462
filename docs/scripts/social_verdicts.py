"""Verdicts of `make_social` on sentences of a paper: so, not so or undecided, from records alone.

A sentence is compared with ours at every place, such as every share of sensitive ratings. It holds
at a place if the intervals of two numbers lie apart as it says, fails if they lie apart the other
way, and is open if they overlap. A failure is open too if a setting of either model stands at the
end of a grid, past which it might have done better.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dpaudit.config.schema import Config
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports.render.markdown import escape
from dpaudit.reports.words import epsilon

# The results by place, such as "x = 10 %".
Results = Mapping[str, AuditResult]
# A model's label and its ε.
Point = tuple[str, float]
# A metric and its detail.
Metric = tuple[str, str | None]

EDGE = "†"
SO, NOT, OPEN = "so", "not so", "undecided"
# "Alike" allows for this part of the difference between two other models.
_PART = 0.25


@dataclass(frozen=True)
class Part:
    """One comparison: what is compared, at which place, and whether the sentence holds there."""

    what: str
    place: str
    holds: bool | None


class Rule(Protocol):
    """What a sentence says of numbers."""

    words: str

    def parts(self, results: Results) -> Iterator[Part]:
        """Yield its comparisons."""


@dataclass(frozen=True)
class Larger:
    """That numbers of one model are larger than those of another, for each pair."""

    words: str
    metrics: Sequence[Metric]
    pairs: Sequence[tuple[Point, Point]]

    def parts(self, results: Results) -> Iterator[Part]:
        """Yield a comparison for each pair and place that has the numbers."""
        for pair in self.pairs:
            for place, result in results.items():
                numbers = [estimates(result, *metric) for metric in self.metrics]
                if all(set(pair) <= set(each) for each in numbers):
                    holds = _both(_above(each[pair[0]], each[pair[1]]) for each in numbers)
                    yield Part(_pair(*pair), place, _beyond_edges(holds, result, pair))


@dataclass(frozen=True)
class Alike:
    """That numbers of two models differ by at most a quarter of the difference of two others."""

    words: str
    metrics: Sequence[Metric]
    pairs: Sequence[tuple[Point, Point]]
    scale: tuple[Point, Point]
    places: Sequence[str] | None = None

    def parts(self, results: Results) -> Iterator[Part]:
        """Yield a comparison for each pair and place that has the numbers."""
        for pair in self.pairs:
            for place, result in _at(results, self.places):
                numbers = [estimates(result, *metric) for metric in self.metrics]
                if all({*pair, *self.scale} <= set(each) for each in numbers):
                    near = [
                        _near(
                            each[pair[0]],
                            each[pair[1]],
                            _PART * abs(each[self.scale[0]].value - each[self.scale[1]].value),
                        )
                        for each in numbers
                    ]
                    holds = _beyond_edges(_both(near), result, pair)
                    larger = numbers[0][pair[0]].value > numbers[0][pair[1]].value
                    order = pair if larger else pair[::-1]
                    what = _pair(*(pair if holds else order), "above" if holds is False else "and")
                    yield Part(what, place, holds)


@dataclass(frozen=True)
class Differs:
    """That the paired difference from the model of `train.against` is above 0, or below it."""

    words: str
    kinds: Sequence[str]
    points: Sequence[Point]
    above: bool
    places: Sequence[str] | None = None

    def parts(self, results: Results) -> Iterator[Part]:
        """Yield a comparison for each point and place that has a difference."""
        zero = Estimate.exact(0.0, "no difference")
        for point in self.points:
            for place, result in _at(results, self.places):
                numbers = [measurements(result, "utility.difference", kind) for kind in self.kinds]
                if all(point in each for each in numbers):
                    found = [each[point].estimate for each in numbers]
                    holds = _both(
                        _above(each, zero) if self.above else _above(zero, each) for each in found
                    )
                    base = str(numbers[0][point].against)
                    compared = {at for at in edges_of(result) if at == point or at[0] == base}
                    holds = _beyond_edges(holds, result, compared)
                    yield Part(f"{name(point)} against {base}", place, holds)


@dataclass(frozen=True)
class Across:
    """That numbers of one model are larger at one place than at another, or about the same.

    Attributes:
        words: the sentence.
        metrics: the numbers.
        point: the model and ε.
        places: pairs of places.
        within: the part of the second number by which they may differ; if None, larger is meant.
    """

    words: str
    metrics: Sequence[Metric]
    point: Point
    places: Sequence[tuple[str, str]]
    within: float | None = None

    def parts(self, results: Results) -> Iterator[Part]:
        """Yield a comparison for each pair of places that were run, named by the shorter name."""
        for more, less in self.places:
            if more in results and less in results:
                pairs = [
                    [estimates(results[at], *metric)[self.point] for at in (more, less)]
                    for metric in self.metrics
                ]
                holds = _both(
                    _above(one, other)
                    if self.within is None
                    else _near(one, other, self.within * other.value)
                    for one, other in pairs
                )
                yield Part(name(self.point), min(more, less, key=len), holds)


@dataclass(frozen=True)
class Sentence:
    """A sentence of the paper, quoted, and the rules that it comes to."""

    quoted: str
    rules: Sequence[Rule] = field(default_factory=tuple)


def judged(sentence: Sentence, results: Results) -> str:
    """Judge a sentence and each of its rules, as a Markdown list."""
    found = [(rule.words, list(rule.parts(results))) for rule in sentence.rules]
    verdicts = [verdict(parts) for _, parts in found]
    whole = NOT if NOT in verdicts else SO if verdicts and set(verdicts) == {SO} else OPEN
    lines = [f"- “{escape(sentence.quoted)}”: **{whole}**."]
    for (words, parts), each in zip(found, verdicts, strict=True):
        lines.append(f"  - {escape(words)}: {each}{_where(parts)}.")
    return "\n".join(lines)


def verdict(parts: Iterable[Part]) -> str:
    """So if it holds everywhere; not so if it fails somewhere and holds nowhere."""
    states = {part.holds for part in parts}
    if states == {True}:
        return SO
    return NOT if False in states and True not in states else OPEN


def edges_of(result: AuditResult) -> set[Point]:
    """Return each model at an ε where a setting was chosen at an end of its grid."""
    grids = {model.label: model.grid for model in Config.model_validate(result.config).model}
    return {
        (point.model, point.epsilon)
        for point in result.points
        for key, value in point.chosen.items()
        if at_edge(value, grids[point.model].get(key, ()))
    }


def at_edge(value: object, offered: Sequence[object]) -> bool:
    """Whether a chosen number is the least, unless 0, or the largest of several offered."""
    numbers = [float(each) for each in offered if isinstance(each, int | float)]
    if len(numbers) < 2 or not isinstance(value, int | float):
        return False
    return value == max(numbers) or (value == min(numbers) and value != 0)


def measurements(
    result: AuditResult, metric: str, detail: str | None = None
) -> dict[Point, Measurement]:
    """Return the measurements of a metric by model and ε."""
    return {
        (each.model, each.epsilon): each
        for each in result.measurements
        if each.metric == metric and each.detail == detail
    }


def estimates(result: AuditResult, metric: str, detail: str | None = None) -> dict[Point, Estimate]:
    """Return the estimates of a metric by model and ε."""
    return {at: each.estimate for at, each in measurements(result, metric, detail).items()}


def name(point: Point) -> str:
    """Name a model and its ε, which is left out where there is no noise."""
    model, value = point
    return model if value == math.inf else f"{model}, ε = {epsilon(value)}"


def _at(results: Results, places: Sequence[str] | None) -> Iterator[tuple[str, AuditResult]]:
    return ((at, each) for at, each in results.items() if places is None or at in places)


def _above(one: Estimate, other: Estimate) -> bool | None:
    if one.lower > other.upper:
        return True
    return False if one.upper < other.lower else None


def _near(one: Estimate, other: Estimate, within: float) -> bool | None:
    low, high = one.lower - other.upper, one.upper - other.lower
    if -within <= low and high <= within:
        return True
    return False if low > within or high < -within else None


def _both(states: Iterable[bool | None]) -> bool | None:
    """Join what several metrics say of one comparison: open unless they agree."""
    found = set(states)
    return found.pop() if len(found) == 1 else None


def _beyond_edges(holds: bool | None, result: AuditResult, of: Iterable[Point]) -> bool | None:
    """Leave a failure open if one of these models stands at an end of its grid."""
    return None if holds is False and set(of) & edges_of(result) else holds


def _pair(one: Point, other: Point, word: str = "above") -> str:
    return f"{name(one)} {word} {name(other)}"


def _where(parts: Sequence[Part]) -> str:
    """Say where a rule holds, fails and is open; the places alone if it holds everywhere."""
    if not parts:
        return " (not run)"
    if all(part.holds for part in parts):
        return f" ({', '.join(dict.fromkeys(part.place for part in parts))})"
    said = []
    for state, word in ((True, "holds"), (False, "fails"), (None, "open")):
        by: dict[str, list[str]] = {}
        for part in parts:
            if part.holds is state:
                by.setdefault(part.what, []).append(part.place)
        if by:
            listed = "; ".join(f"{what} at {', '.join(places)}" for what, places in by.items())
            said.append(f"{word}: {escape(listed)}")
    return f" ({'. '.join(said)})"
