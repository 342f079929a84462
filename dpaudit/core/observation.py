"""What each observer sees of a mechanism on two neighbouring data sets."""

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
    """What one observer sees and knows in some trials.

    Attributes:
        release: what is shown; its type is in `dpaudit.core.releases` or defined by a plug-in.
        knowledge: what else the observer knows: the laws in D and D', or the target user.
    """

    release: Any
    knowledge: Any


@dataclass(frozen=True, eq=False)
class PreparedPair(Generic[P]):
    """Two neighbouring data sets, prepared by a defense.

    Attributes:
        before: data set D.
        after: data set D'.
        items: the items whose predictions an observer is shown `(k,)`.
        target: the user in whom D and D' differ, and the observing user; None where the knowledge
            is given by laws.
        unrated: the items that a list shown to the observing user may contain, increasing.
        top_k: the length of a shown list.
    """

    before: P
    after: P
    items: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    target: TargetUser | None = None
    unrated: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    top_k: int = 0


@dataclass(frozen=True, eq=False)
class Observer(Generic[P]):
    """One observer of a defense: what they see of D or of D' in each trial.

    Attributes:
        shows: the types of the release and of the knowledge in each view. A game can use any attack
            that reads this pair of types.
        views: maps the prepared pair, the data set to learn from (`pair.before` or `pair.after`)
            and the streams of some trials to the views of these trials: one view for a single
            release, one view per round for a training.
        words: what is seen, in a few words.
        purpose: names the random streams of a game.
        block: the largest number of trials released together.
    """

    shows: tuple[type, type]
    views: Callable[[PreparedPair[P], P, Streams], Iterator[View]]
    words: str
    purpose: str
    block: int
