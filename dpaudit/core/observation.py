"""Who sees what of a mechanism on two neighbouring data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.releases import TargetUser
from dpaudit.core.streams import Streams

P = TypeVar("P")


class View(NamedTuple):
    """What one observer holds of some trials.

    Attributes:
        release: what is shown, of a type in `dpaudit.core.releases` or of a plug-in's own.
        knowledge: what the observer knows beside it: the laws in D and D', or the target user.
    """

    release: Any
    knowledge: Any


@dataclass(frozen=True, eq=False)
class PreparedPair(Generic[P]):
    """Two neighbouring data sets as a defense prepared them.

    Attributes:
        before: data set D.
        after: data set D'.
        items: the items whose predictions an observer is shown `(k,)`.
        target: the user in whom D and D' differ, and who watches; None where laws say all.
        unrated: the items that a list shown to the watching user may hold, increasing.
        top_k: the length of a list that is shown.
    """

    before: P
    after: P
    items: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    target: TargetUser | None = None
    unrated: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    top_k: int = 0


@dataclass(frozen=True, eq=False)
class Observer(Generic[P]):
    """One observer of a defense: what it sees of D or of D', trial by trial.

    Attributes:
        shows: the types of the release and of the knowledge in each view. Attacks that read this
            pair of types may play the game.
        views: maps the prepared pair, the data set that is learned from (`pair.before` or
            `pair.after`) and the streams of some trials to what the observer sees of each of
            them: one view of a single release, one a round of a training.
        words: what is seen, in a few words.
        purpose: names the random streams of a game.
        block: at most so many trials are released together.
    """

    shows: tuple[type, type]
    views: Callable[[PreparedPair[P], P, Streams], Iterator[View]]
    words: str
    purpose: str
    block: int
