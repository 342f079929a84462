"""The games that the catalogue's entries are played as, on the product's own defenses."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing.item_place import ItemPlace
from dpaudit.attacks.distinguishing.likelihood_ratio import LikelihoodRatio
from dpaudit.auditor.games.controls import mutant_of
from dpaudit.auditor.games.list_truth import entry_truth
from dpaudit.auditor.games.predictions import entry_game, prediction_game, shifts
from dpaudit.bounds.accounting import laplace_vector_epsilon
from dpaudit.claims.entry import Worlds
from dpaudit.core.claim import Claim
from dpaudit.core.estimate import Estimate
from dpaudit.defenses.base import EntryPair, WorldPair
from dpaudit.defenses.item_item.recommender import ItemItem
from dpaudit.defenses.top_k.defense import TopK

# Worlds of either data set, unless an entry asks for more.
TRIALS = 100_000


D = TypeVar("D", ItemItem, TopK)
P = TypeVar("P", WorldPair, EntryPair)


@dataclass(frozen=True, eq=False)
class _DefenseGame(Generic[D, P]):
    """What all games on a defense say of themselves.

    Attributes:
        label: what sets it apart within its entry.
        defense: the mechanism.
        worlds: makes the pair for it.
        trials: worlds of either data set.
    """

    label: str
    defense: D
    worlds: Callable[[D], P]
    trials: int = TRIALS

    def claimed(self) -> tuple[float, float]:
        """What the defense claims."""
        return claim_of(self.defense)

    def mechanism(self) -> str:
        """The defense with its parameters."""
        return described(self.defense)

    def pair(self) -> str:
        """The pair in one sentence."""
        return self.worlds(self.defense).summary

    def mutant(self, factor: float) -> Self:
        """The same game on the same pair with the noise of so many times the ε."""
        pair = self.worlds(self.defense)
        return replace(self, defense=mutant_of(self.defense, factor), worlds=lambda _: pair)


@dataclass(frozen=True, eq=False)
class PredictionGame(_DefenseGame[ItemItem, WorldPair]):
    """Observer `values`: the noised predictions that a pair shows, told apart by their law."""

    def digest(self) -> str:
        """Of the ratings, their change, and who is shown what."""
        pair = self.worlds(self.defense)
        return digest_of(pair.ratings.digest, repr((pair.change, pair.target, pair.items)))

    def play(self, trials: int, seed: int) -> Worlds:
        """Release and score; the truth is that of Laplace noise on the shifts."""
        pair = self.worlds(self.defense)
        model = self.defense.prepare(pair.ratings)
        game = prediction_game(self.defense, model, pair, LikelihoodRatio())
        found = game.run(trials=trials, seed=seed)
        scale = self.defense.noise_scale(pair.ratings.scale)
        truth = laplace_vector_epsilon(shifts(game.pair), scale)
        return Worlds(found.absent, found.present, truth)


@dataclass(frozen=True, eq=False)
class ListGame(PredictionGame):
    """Observer `list`: the same pair, of which only the ranked items are shown.

    Attributes:
        law: the ε of the pair from the exact predictions in D and D' and the noise's scale, where
            it is known.
    """

    law: Callable[[NDArray[np.float64], NDArray[np.float64], float], float] | None = None

    def play(self, trials: int, seed: int) -> Worlds:
        """Release lists and score the place of the pair's first item."""
        pair = self.worlds(self.defense)
        model = self.defense.prepare(pair.ratings)
        game = prediction_game(self.defense, model, pair, ItemPlace(), "list")
        found = game.run(trials=trials, seed=seed)
        if self.law is None:
            return Worlds(found.absent, found.present, None)
        before, after = game.pair.before.scores, game.pair.after.scores
        shown = np.isfinite(before) & np.isfinite(after)
        scale = self.defense.noise_scale(pair.ratings.scale)
        epsilon = self.law(before[shown].astype(float), after[shown].astype(float), scale)
        return Worlds(found.absent, found.present, Estimate.exact(epsilon, "law of the list"))


@dataclass(frozen=True, eq=False)
class EntryGame(_DefenseGame[TopK, EntryPair]):
    """Observer `list` of a row of the completed matrix, one of whose entries changes."""

    def digest(self) -> str:
        """Of the two rows."""
        pair = self.worlds(self.defense)
        return digest_of(pair.before.scores.tobytes().hex(), pair.after.scores.tobytes().hex())

    def play(self, trials: int, seed: int) -> Worlds:
        """Release and score by the two laws of the list."""
        pair = self.worlds(self.defense)
        found = entry_game(self.defense, pair, LikelihoodRatio()).run(trials=trials, seed=seed)
        return Worlds(found.absent, found.present, entry_truth(self.defense, pair))


def described(defense: Any) -> str:
    """A defense with the parameters that differ from its defaults."""
    plain = asdict(type(defense)(epsilon=defense.epsilon))
    set_ = {key: value for key, value in asdict(defense).items() if value != plain[key]}
    variant = defense.variant
    rest = {"epsilon": defense.epsilon, **set_}
    rest.pop("variant", None)
    words = ", ".join(
        f"{key} = {value:g}" if isinstance(value, float) else f"{key} = {value}"
        for key, value in rest.items()
    )
    return f"{defense.name}, {variant}: {words}"


def digest_of(*parts: str) -> str:
    """Tells these words from all others."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def claim_of(defense: Any) -> tuple[float, float]:
    """The claimed ε and δ."""
    claim: Claim | None = defense.claim()
    if claim is None:
        raise ValueError("a game of the catalogue needs a defense with a claim")
    return claim.epsilon, claim.delta
