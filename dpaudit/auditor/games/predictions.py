"""The distinguishing game between two neighbouring data sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing.float_bits import FloatBits
from dpaudit.attacks.distinguishing.item_place import ItemPlace
from dpaudit.attacks.distinguishing.likelihood_ratio import LikelihoodRatio
from dpaudit.core.errors import DataError
from dpaudit.core.releases import LaplacePair, ListPair
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import check
from dpaudit.defenses.base import EntryPair, ListDefense, WorldPair
from dpaudit.defenses.item_item.recommender import ItemItem
from dpaudit.defenses.item_model import ExactScores, ItemModel

# The score of an output that only one world can have.
CERTAIN = 1e300
# Worlds released at a time, so that memory does not grow with the trials.
_BLOCK = 2**16


@dataclass(frozen=True, eq=False)
class GameScores:
    """The outcome of a distinguishing game.

    Attributes:
        absent: the attack's score in each world D `(T,)`.
        present: its score in each world D' `(T,)`.
        shifts: by how much each shown prediction differs between D and D', without noise `(k,)`.
        noise_scale: the scale of the Laplace noise on each.
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]
    shifts: NDArray[np.float64]
    noise_scale: float

    @property
    def shift(self) -> float:
        """The L1 distance of the exact predictions."""
        return float(self.shifts.sum())


@dataclass(frozen=True, eq=False)
class ListScores:
    """The attack's scores in a game of lists.

    Attributes:
        absent: in each world D `(T,)`.
        present: in each world D' `(T,)`.
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]


def play_game(
    defense: ItemItem,
    model: ItemModel,
    pair: WorldPair,
    attack: LikelihoodRatio | FloatBits,
    *,
    trials: int,
    seed: int,
) -> GameScores:
    """Release the pair's predictions in `trials` worlds D and as many D', and score each.

    Every world draws its own noise; D and D' share no stream.

    Raises:
        DataError: the pair's change changes nothing, so that D and D' are one data set.
    """
    check(pair.ratings, pair.change)
    items = np.array(pair.items, np.int32)
    before = defense.exact(model, pair.ratings.profile(pair.target))
    after = defense.exact_after(model, pair.change, pair.target)
    knowledge = LaplacePair(
        before.scores[items].astype(np.float64),
        after.scores[items].astype(np.float64),
        defense.noise_scale(pair.ratings.scale),
        defense.grid(pair.ratings.scale),
    )

    def score(exact: ExactScores, world: str) -> NDArray[np.float64]:
        found = np.empty(trials)
        for streams in Streams.first(seed, f"game/{world}", trials).blocks(_BLOCK):
            shown = np.repeat(items[None], len(streams), axis=0)
            release = defense.release_items(exact, streams, shown)
            found[streams.worlds] = attack.score(release, knowledge)
        # Without noise an output is impossible in the other world; bounds take finite scores.
        return np.clip(found, -CERTAIN, CERTAIN)

    return GameScores(
        absent=score(before, "absent"),
        present=score(after, "present"),
        shifts=abs(knowledge.present - knowledge.absent),
        noise_scale=knowledge.noise_scale,
    )


def play_list_game(
    defense: ItemItem,
    model: ItemModel,
    pair: WorldPair,
    attack: ItemPlace,
    *,
    trials: int,
    seed: int,
) -> ListScores:
    """Show the target's list without values in `trials` worlds D and as many D', and score each.

    Raises:
        DataError: the pair's change changes nothing, so that D and D' are one data set.
    """
    check(pair.ratings, pair.change)

    def score(exact: ExactScores, world: str) -> NDArray[np.float64]:
        return np.concatenate(
            [
                attack.score(defense.release_list(exact, streams), pair.items[0])
                for streams in Streams.first(seed, f"list/{world}", trials).blocks(_BLOCK)
            ]
        )

    return ListScores(
        score(defense.exact(model, pair.ratings.profile(pair.target)), "absent"),
        score(defense.exact_after(model, pair.change, pair.target), "present"),
    )


def play_entry_game(
    defense: ListDefense,
    pair: EntryPair,
    attack: LikelihoodRatio,
    *,
    trials: int,
    seed: int,
) -> ListScores:
    """Release a list in `trials` worlds D and as many D' that differ in an entry; score each.

    Raises:
        DataError: no entry differs, so that D and D' are one.
    """
    if np.array_equal(pair.before.scores, pair.after.scores):
        raise DataError(f"no entry of the two rows differs ({pair.summary}): change one")
    knowledge = ListPair(defense.law(pair.before), defense.law(pair.after))

    def score(exact: ExactScores, world: str) -> NDArray[np.float64]:
        found = [
            attack.score(defense.release_list(exact, streams), knowledge)
            for streams in Streams.first(seed, f"entry/{world}", trials).blocks(_BLOCK)
        ]
        return np.clip(np.concatenate(found), -CERTAIN, CERTAIN)

    return ListScores(score(pair.before, "absent"), score(pair.after, "present"))
