"""The games of a config: what a pair shows of a model, played at each of its ε."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit import config as configs
from dpaudit.auditor import result as records
from dpaudit.auditor.game import play_entry_game, play_game, play_list_game
from dpaudit.auditor.list_truth import entry_truth, place_epsilon
from dpaudit.auditor.search import search_pair
from dpaudit.bounds.accounting import laplace_vector_epsilon
from dpaudit.bounds.estimate import Estimate
from dpaudit.bounds.labels import label_epsilon
from dpaudit.bounds.power import detectable_epsilon
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import Claim, Defense, EntryPair, WorldPair, shows_lists
from dpaudit.defenses.item_item import ItemItem
from dpaudit.defenses.item_model import ItemModel
from dpaudit.defenses.top_k import TopK
from dpaudit.errors import ConfigError, DataError
from dpaudit.sweep import Sweep


@dataclass(frozen=True, eq=False)
class Round:
    """A game at one ε.

    Attributes:
        absent: the attack's score in each world D `(T,)`.
        present: its score in each world D' `(T,)`.
        theory: the ε of what is shown, by its law, where that is known.
        shift: by how much the exact predictions shown differ; None of lists.
        share: how much of the mechanism's ε the pair shows, in [0, 1].
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]
    theory: Estimate | None
    shift: float | None
    share: float

    def detectable(self, claim: Claim, trials: int, alpha: float) -> float:
        """The least ε of the mechanism for which a defect would be found, with 95 % power."""
        least = detectable_epsilon(claim.epsilon, trials, alpha, delta=claim.delta)
        return least / self.share if self.share > 0 else math.inf


class Match(Protocol):
    """A pair with those who tell its worlds apart."""

    @property
    def summary(self) -> str:
        """The pair in one sentence."""
        ...

    def play(self, index: int, trials: int, seed: int) -> Round:
        """Play so many worlds of either data set at the model's ε of that index."""
        ...


@dataclass(frozen=True, eq=False)
class _Values:
    """Predictions are shown."""

    defenses: list[ItemItem]
    model: ItemModel
    pair: WorldPair
    attack: Any

    @property
    def summary(self) -> str:
        return self.pair.summary

    def play(self, index: int, trials: int, seed: int) -> Round:
        defense = self.defenses[index]
        found = play_game(defense, self.model, self.pair, self.attack, trials=trials, seed=seed)
        sensitivity = defense.sensitivity(self.pair.ratings.scale)
        return Round(
            found.absent,
            found.present,
            theory=laplace_vector_epsilon(found.shifts, found.noise_scale, delta=_delta(defense)),
            shift=found.shift,
            share=_shift_share(found.shift, sensitivity),
        )


@dataclass(frozen=True, eq=False)
class _PredictedList(_Values):
    """The list of the best predictions is shown without their values."""

    def play(self, index: int, trials: int, seed: int) -> Round:
        defense, pair = self.defenses[index], self.pair
        found = play_list_game(defense, self.model, pair, self.attack, trials=trials, seed=seed)
        before = defense.exact(self.model, pair.ratings.profile(pair.target))
        after = defense.exact_after(self.model, pair.change, pair.target)
        scale = defense.noise_scale(pair.ratings.scale)
        item, k = pair.items[0], defense.top_k
        theory = place_epsilon(before.scores, after.scores, item, k, scale)
        shift = float(abs(after.scores[item] - before.scores[item]))
        share = _shift_share(shift, defense.sensitivity(pair.ratings.scale))
        return Round(
            found.absent,
            found.present,
            theory=theory,
            shift=None,
            # The list shows no more than the prediction.
            share=share if theory is None else min(share, _share(theory, defense.claim())),
        )


@dataclass(frozen=True, eq=False)
class _DrawnList:
    """A list is shown whose law is known."""

    defenses: list[Defense]
    pair: EntryPair
    attack: Any

    @property
    def summary(self) -> str:
        return self.pair.summary

    def play(self, index: int, trials: int, seed: int) -> Round:
        defense = self.defenses[index]
        if not shows_lists(defense):
            raise TypeError(f"{defense.name} shows no list of a known law")
        found = play_entry_game(defense, self.pair, self.attack, trials=trials, seed=seed)
        theory = entry_truth(defense, self.pair) if isinstance(defense, TopK) else None
        share = 1.0 if theory is None else _share(theory, defense.claim())
        return Round(found.absent, found.present, theory, None, share)


def match_of(sweep: Sweep, game: configs.Game, seed: int) -> Match:
    """The neighbouring data sets of a game, prepared, and its attack.

    Raises:
        ConfigError: a list is to be seen on a pair of which the claim does not speak.
        DataError: the data are too few for a pair.
    """
    attack, first = game.create("game"), sweep.defenses[0]
    if shows_lists(first):
        return _DrawnList(sweep.defenses, first.pair(game.pair, sweep.train.scale), attack)
    pair, model = _pair_of(sweep, game, seed)
    if game.observe != "list":
        return _Values(sweep.predicting, model, pair, attack)
    defense = sweep.predicting[0]
    wider = _widened(pair, defense.top_k)
    if wider is not pair:
        pair, model = wider, defense.prepare(wider.ratings)
    before = defense.exact(model, pair.ratings.profile(pair.target)).scores
    moved = int((defense.exact_after(model, pair.change, pair.target).scores != before).sum())
    if moved > defense.outputs:
        raise ConfigError(
            f"game.observe = 'list': on pair {game.pair!r} {moved} predictions move and the claim "
            f"of model {sweep.model.label!r} covers {defense.outputs}: remove observe, or set "
            "params.outputs"
        )
    return _PredictedList(sweep.predicting, model, pair, attack)


def _pair_of(sweep: Sweep, game: configs.Game, seed: int) -> tuple[WorldPair, ItemModel]:
    defense = sweep.predicting[0]
    if game.pair != "data":
        pair = defense.pair(game.pair, sweep.train.scale)
        return pair, defense.prepare(pair.ratings)
    counts = np.diff(sweep.train.by_user.start)
    users = np.flatnonzero(counts >= defense.min_ratings)
    if len(users) < 2:
        raise DataError(
            f"{len(users)} of the users that the similarity is built from have "
            f"{defense.min_ratings} ratings and a pair needs 2: use more data"
        )
    pair = search_pair(defense, sweep.prepared, users, candidates=game.candidates, seed=seed)
    return pair, sweep.prepared


def _widened(pair: WorldPair, k: int) -> WorldPair:
    """The pair with so many items that nobody has rated that a list of k leaves one out."""
    ratings = pair.ratings
    more = k + 1 - (ratings.n_items - len(ratings.profile(pair.target)))
    if more <= 0:
        return pair
    wider = Ratings.build(
        ratings.user,
        ratings.item,
        ratings.value,
        ratings.n_users,
        ratings.n_items + more,
        ratings.scale,
    )
    items = "item that nobody has rated is" if more == 1 else "items that nobody has rated are"
    return replace(pair, ratings=wider, summary=f"{pair.summary}; {more} {items} listed too")


def measure(
    sweep: Sweep, game: configs.Game, family: records.Family, seed: int
) -> tuple[records.PairRecord, list[records.Measurement]]:
    """The certified lower bound on ε of one pair at every ε of a model."""
    match = match_of(sweep, game, seed)
    measurements = []
    for index, defense in enumerate(sweep.defenses):
        found = match.play(index, game.trials, seed)
        claim = defense.claim()
        estimate, event = label_epsilon(
            found.absent,
            found.present,
            delta=_delta(defense),
            alpha=family.alpha,
            confidence=family.confidence,
            seed=seed,
        )
        measurements.append(
            records.Measurement(
                metric="epsilon",
                model=sweep.model.label,
                epsilon=defense.epsilon,
                attack=game.attack,
                pair=game.label,
                estimate=estimate,
                detectable=claim and found.detectable(claim, estimate.n, family.alpha),
                event=str(event),
                shift=found.shift,
                theory=found.theory,
            )
        )
    label = sweep.model.label
    return records.PairRecord(model=label, pair=game.label, summary=match.summary), measurements


def _delta(defense: Defense) -> float:
    claim = defense.claim()
    return claim.delta if claim else 0.0


def _shift_share(shift: float, sensitivity: float) -> float:
    return min(1.0, shift / sensitivity) if sensitivity else 0.0


def _share(theory: Estimate, claim: Claim | None) -> float:
    """Of noise that gives what is claimed."""
    return min(1.0, theory.value / claim.epsilon) if claim else 1.0
