"""Verdicts of `make_social` on sentences of a paper: so, not so or undecided, from records alone.

A sentence is compared with ours at every place, such as every share of sensitive ratings. It holds
at a place if the intervals of two numbers lie apart as it says, fails if they lie apart the other
way, and is open if they overlap. A failure is open too if a setting of either model stands at the
end of a grid, past which it might have done better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from social_numbers import Metric, Numbers, Point, name

from dpaudit.core.estimate import Estimate
from dpaudit.reports.render.markdown import escape

SO, NOT, OPEN = "so", "not so", "undecided"
# The place of what was run with the paper's settings.
_FIRST = ", first fold"
PAPERS = f"x = 10 %{_FIRST}"
# "Alike" allows for this part of the difference between two other models.
_PART = 0.25


Places = Mapping[str, Numbers]


@dataclass(frozen=True)
class Part:
    """One comparison: what is compared, at which place, and whether the sentence holds there."""

    what: str
    place: str
    holds: bool | None


class Rule(Protocol):
    """What a sentence says of numbers."""

    words: str

    def parts(self, places: Places) -> Iterator[Part]:
        """Yield its comparisons."""


@dataclass(frozen=True)
class Larger:
    """That numbers of one model are larger than those of another, for each pair."""

    words: str
    metrics: Sequence[Metric]
    pairs: Sequence[tuple[Point, Point]]

    def parts(self, places: Places) -> Iterator[Part]:
        """Yield a comparison for each pair and place that has the numbers."""
        for pair in self.pairs:
            for place, numbers in places.items():
                found = [numbers.of(metric) for metric in self.metrics]
                if all(set(pair) <= set(each) for each in found):
                    holds = _both(_above(each[pair[0]], each[pair[1]]) for each in found)
                    yield Part(_pair(*pair), place, _beyond_edges(holds, numbers, pair))


@dataclass(frozen=True)
class Grows:
    """That numbers grow along a chain of models, from each that was run to the next."""

    words: str
    metrics: Sequence[Metric]
    chain: Sequence[Point]

    def parts(self, places: Places) -> Iterator[Part]:
        """Yield a comparison for each step and place."""
        for place, numbers in places.items():
            run = [each for each in self.chain if each in numbers.of(self.metrics[0])]
            steps = [(more, less) for less, more in pairwise(run)]
            yield from Larger(self.words, self.metrics, steps).parts({place: numbers})


@dataclass(frozen=True)
class Alike:
    """That numbers of two models differ by at most a quarter of the difference of two others."""

    words: str
    metrics: Sequence[Metric]
    pairs: Sequence[tuple[Point, Point]]
    scale: tuple[Point, Point]
    places: Sequence[str] | None = None

    def parts(self, places: Places) -> Iterator[Part]:
        """Yield a comparison for each pair and place that has the numbers."""
        for pair in self.pairs:
            for place, numbers in _at(places, self.places):
                found = [numbers.of(metric) for metric in self.metrics]
                if all({*pair, *self.scale} <= set(each) for each in found):
                    near = [
                        _near(
                            each[pair[0]],
                            each[pair[1]],
                            _PART * abs(each[self.scale[0]].value - each[self.scale[1]].value),
                        )
                        for each in found
                    ]
                    holds = _beyond_edges(_both(near), numbers, pair)
                    larger = found[0][pair[0]].value > found[0][pair[1]].value
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

    def parts(self, places: Places) -> Iterator[Part]:
        """Yield a comparison for each point and place that has a difference."""
        zero = Estimate.exact(0.0, "no difference")
        for point in self.points:
            for place, numbers in _at(places, self.places):
                found = [numbers.of(("utility.difference", kind)) for kind in self.kinds]
                if all(point in each for each in found):
                    holds = _both(
                        _above(each[point], zero) if self.above else _above(zero, each[point])
                        for each in found
                    )
                    of = {at for at in numbers.edges if at == point or at[0] == numbers.against}
                    what = f"{name(point)} against {numbers.against}"
                    yield Part(what, place, _beyond_edges(holds, numbers, of))


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

    def parts(self, places: Places) -> Iterator[Part]:
        """Yield a comparison for each pair of places that were run, named by the shorter name."""
        for ends in self.places:
            columns = [
                [places[at].of(metric) for at in ends if at in places] for metric in self.metrics
            ]
            if all(len(by) == 2 and all(self.point in at for at in by) for by in columns):
                pairs = [[at[self.point] for at in by] for by in columns]
                holds = _both(
                    _above(one, other)
                    if self.within is None
                    else _near(one, other, self.within * other.value)
                    for one, other in pairs
                )
                yield Part(name(self.point), min(ends, key=len), holds)


@dataclass(frozen=True)
class Sentence:
    """A sentence of the paper, quoted, and the rules that it comes to."""

    quoted: str
    rules: Sequence[Rule] = field(default_factory=tuple)


def judged(sentence: Sentence, places: Places, paper: Places | None = None) -> str:
    """Judge a sentence and each of its rules, as a Markdown list.

    Args:
        sentence: the sentence.
        places: our numbers.
        paper: those of one training with the paper's settings at each place that has one.
    """
    lines, verdicts = [], []
    for rule in sentence.rules:
        parts = list(rule.parts(places))
        verdicts.append(verdict(parts))
        lines.append(f"  - {escape(rule.words)}: {verdicts[-1]}{_where(parts)}.")
        theirs = list(rule.parts(paper)) if paper else []
        if theirs:
            lines[-1] += f" With the paper's settings: {verdict(theirs)}."
    whole = NOT if NOT in verdicts else SO if verdicts and set(verdicts) == {SO} else OPEN
    return "\n".join([f"- “{escape(sentence.quoted)}”: **{whole}**.", *lines])


def verdict(parts: Iterable[Part]) -> str:
    """So if it holds everywhere; not so if it fails somewhere and holds nowhere."""
    states = {part.holds for part in parts}
    if states == {True}:
        return SO
    return NOT if False in states and True not in states else OPEN


def _at(places: Places, wanted: Sequence[str] | None) -> Iterator[tuple[str, Numbers]]:
    return (
        (at, each)
        for at, each in places.items()
        if wanted is None or at.removesuffix(_FIRST) in wanted
    )


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


def _beyond_edges(holds: bool | None, numbers: Numbers, of: Iterable[Point]) -> bool | None:
    """Leave a failure open if one of these models stands at an end of its grid."""
    return None if holds is False and numbers.edges & set(of) else holds


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
            listed = "; ".join(f"{what}{_at_places(places, parts)}" for what, places in by.items())
            said.append(f"{word}: {escape(listed)}")
    return f" ({'. '.join(said)})"


def _at_places(places: Sequence[str], parts: Sequence[Part]) -> str:
    """Name places, unless there is only one."""
    return f" at {', '.join(places)}" if len({part.place for part in parts}) > 1 else ""
