"""Observers of the steps of a training, whose noise has a known law given the steps before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from dpaudit.core.observation import Observer, PreparedPair, View
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.kernels.lanes import LANES

P = TypeVar("P")

# What the steps on one of two data sets show, with their law: of D, of D', of the one that is
# learned from, in some trials.
Steps = Callable[[P, P, P, Streams], Iterator[tuple[NoisedSteps, StepsPair]]]


def step_observer(steps: Steps[P], words: str) -> Observer[P]:
    """The observer of these steps, one view a step or a round."""

    def views(pair: PreparedPair[P], trained: P, streams: Streams) -> Iterator[View]:
        for release, law in steps(pair.before, pair.after, trained, streams):
            yield View(release, law)

    return Observer((NoisedSteps, StepsPair), views, words, purpose="steps", block=LANES)
