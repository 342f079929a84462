"""Observers of training steps, whose noise has a known law given the steps before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from dpaudit.core.observation import Observer, PreparedPair, View
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.kernels.lanes import LANES

P = TypeVar("P")

# Maps the prepared D, D', the one of them that is trained on, and the streams of some trials to
# the noised steps and their laws under D and D'.
Steps = Callable[[P, P, P, Streams], Iterator[tuple[NoisedSteps, StepsPair]]]


def step_observer(steps: Steps[P], words: str) -> Observer[P]:
    """Build the observer of `steps`, with one view for each step or round that it yields."""

    def views(pair: PreparedPair[P], trained: P, streams: Streams) -> Iterator[View]:
        for release, law in steps(pair.before, pair.after, trained, streams):
            yield View(release, law)

    return Observer((NoisedSteps, StepsPair), views, words, purpose="steps", block=LANES)
