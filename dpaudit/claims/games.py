"""The catalogue's games: on predictions, top-k lists, trained recommenders and on one number."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Distinguisher
from dpaudit.attacks.distinguishing import FloatBits, ItemPlace, LikelihoodRatio
from dpaudit.auditor.games import CERTAIN, GameScores, mutant_of
from dpaudit.audits.on_demand.games import entry_game, entry_truth, prediction_game, shifts
from dpaudit.audits.trained.pairs import DataPair, trained_game
from dpaudit.bounds.accounting import laplace_vector_epsilon
from dpaudit.core.claim import Claim
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import LaplacePair, Predictions, PreparedPair
from dpaudit.core.streams import Streams, generator
from dpaudit.defenses.base import EntryPair, ExactScores, PredictionPair
from dpaudit.defenses.item_item.recommender import ItemItem
from dpaudit.defenses.precision import grid, rounded
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.kernels import exact_noise, noise

# Default number of trials on each data set.
TRIALS = 100_000


D = TypeVar("D")
P = TypeVar("P", PredictionPair, EntryPair)


@dataclass(frozen=True, eq=False)
class DefenseGame(Generic[D]):
    """Base of the games on a defense.

    Attributes:
        label: name of the game within its entry.
        defense: the mechanism.
    """

    label: str
    defense: D

    # What runs in place of the defense's own training, for the description.
    instead: ClassVar[str] = ""

    def claimed(self) -> tuple[float, float]:
        """The ε and δ that the defense claims.

        Raises:
            ValueError: the defense makes no claim.
        """
        defense: Any = self.defense
        claim: Claim | None = defense.claim()
        if claim is None:
            raise ValueError("a game of the catalogue needs a defense with a claim")
        return claim.epsilon, claim.delta

    def mechanism(self) -> str:
        """The defense with its parameters."""
        return described(self.defense) + self.instead


@dataclass(frozen=True, eq=False)
class _MadePairGame(DefenseGame[D], Generic[D, P]):
    """Base of the games on a pair that is made for the defense.

    Attributes:
        make_pair: builds the pair for the defense.
        trials: number of trials on each data set.
    """

    make_pair: Callable[[D], P]
    trials: int = TRIALS

    @cached_property
    def made(self) -> P:
        """The pair."""
        return self.make_pair(self.defense)

    def pair(self) -> str:
        """Description of the pair in one sentence."""
        return self.made.summary

    def mutant(self, factor: float) -> Self:
        """The same game on the same pair, with noise calibrated to `factor` times ε."""
        pair = self.made
        return replace(self, defense=mutant_of(self.defense, factor), make_pair=lambda _: pair)


@dataclass(frozen=True, eq=False)
class PredictionGame(_MadePairGame[ItemItem, PredictionPair]):
    """Observer `values`: noised predictions, scored by their likelihood ratio."""

    attack: ClassVar[Distinguisher] = LikelihoodRatio()
    observer: ClassVar[str] = "values"

    def digest(self) -> str:
        """Digest of the ratings, their change, the target and the predicted items."""
        pair = self.made
        return text_digest(pair.ratings.digest, repr((pair.change, pair.target, pair.items)))

    def run(self, trials: int, seed: int) -> GameScores:
        """Release and score."""
        model = self.defense.prepare(self.made.ratings)
        game = prediction_game(self.defense, model, self.made, self.attack, self.observer)
        scores = game.run(trials=trials, seed=seed)
        scale = self.defense.noise_scale(self.made.ratings.scale)
        return GameScores(scores.absent, scores.present, self.truth(game.pair, scale))

    def truth(self, pair: PreparedPair[ExactScores], scale: float) -> Estimate | None:
        """The exact ε of Laplace noise of this scale on the predictions' shifts."""
        return laplace_vector_epsilon(shifts(pair), scale)


@dataclass(frozen=True, eq=False)
class ListGame(PredictionGame):
    """Observer `list`: the ranked items of the same pair, scored by the rank of its first item.

    Attributes:
        law: function of the exact predictions on D and on D' and the noise's scale that returns the
            pair's ε; None if no closed form is known.
    """

    attack: ClassVar[Distinguisher] = ItemPlace()
    observer: ClassVar[str] = "list"
    law: Callable[[NDArray[np.float64], NDArray[np.float64], float], float] | None = None

    def truth(self, pair: PreparedPair[ExactScores], scale: float) -> Estimate | None:
        """The exact ε by the law, if it is known."""
        if self.law is None:
            return None
        before, after = pair.before.scores, pair.after.scores
        shown = np.isfinite(before) & np.isfinite(after)
        epsilon = self.law(before[shown].astype(float), after[shown].astype(float), scale)
        return Estimate.exact(epsilon, "law of the list")


@dataclass(frozen=True, eq=False)
class EntryGame(_MadePairGame[TopK, EntryPair]):
    """Observer `list`: lists from a row of the completed matrix in which one entry changes."""

    def digest(self) -> str:
        """Digest of the two rows."""
        pair = self.made
        return text_digest(pair.before.scores.tobytes().hex(), pair.after.scores.tobytes().hex())

    def run(self, trials: int, seed: int) -> GameScores:
        """Release lists, and score by their likelihood ratio."""
        game = entry_game(self.defense, self.made, LikelihoodRatio())
        scores = game.run(trials=trials, seed=seed)
        return GameScores(scores.absent, scores.present, entry_truth(self.defense, self.made))


def described(defense: Any) -> str:
    """Describe a defense by the parameters that differ from its defaults."""
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


def text_digest(*parts: str) -> str:
    """Return a digest of these strings."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


_GRID = 2.0**-8

S = TypeVar("S")


@dataclass(frozen=True, eq=False)
class DataGame(DefenseGame[Any]):
    """Base of the games on a defense and two data sets.

    Attributes:
        data: the two data sets.
        truth: the exact ε of this pair, from the mechanism's law, if known.
        trials: number of trials on each data set.
    """

    data: DataPair
    truth: Estimate | None = None
    trials: int = TRIALS

    def pair(self) -> str:
        """Description of the pair in one sentence."""
        return self.data.summary

    def digest(self) -> str:
        """Digest of the two data sets and of the public data."""
        pair = self.data
        public = pair.public.digest if pair.public else "each its own"
        return text_digest(pair.before.digest, pair.after.digest, public)

    def mutant(self, factor: float) -> Self:
        """The same game on the same data sets, with noise calibrated to `factor` times ε."""
        return replace(self, defense=mutant_of(self.defense, factor))

    def prepared(self) -> tuple[Any, Any]:
        """Return the defense's prepared training data of D and of D'."""
        prepare, public = self.defense.prepare, self.data.public
        return prepare(self.data.before, public), prepare(self.data.after, public)


@dataclass(frozen=True, eq=False)
class StepsGame(DataGame):
    """The noised training steps that an observer sees, scored by their likelihood ratio.

    Attributes:
        observer: who sees the steps; empty for the defense's first observer.
    """

    observer: str = ""

    def run(self, trials: int, seed: int) -> GameScores:
        """Train and score."""
        observer = self.observer or next(iter(self.defense.observers()))
        game = trained_game(self.defense, self.data, LikelihoodRatio(), observer)
        scores = game.run(trials=trials, seed=seed)
        return GameScores(scores.absent, scores.present, self.truth)


class PosteriorLaw(Protocol):
    """A law that can be drawn from exactly, with a density known up to its normaliser."""

    def draw(self, streams: Streams) -> NDArray[np.float64]:
        """Return one draw for each trial, `(W, ...)`."""
        ...

    def log_density(self, draws: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithm of the density, up to an additive constant, `(W,)`."""
        ...


@dataclass(frozen=True, eq=False)
class PosteriorGame(DataGame):
    """Observer `public` of a posterior sampler: exact draws, scored by their density ratio.

    The defense's `law(prepared)` is the law that its Markov chain approximates.

    Attributes:
        claim: the ε that is tested; None for the one that the defense claims.
    """

    claim: float | None = None

    instead: ClassVar[str] = "; exact draws of its law"
    purpose: ClassVar[str] = "posterior"

    def claimed(self) -> tuple[float, float]:
        """The ε that is tested, with δ = 0, or the ε and δ that the defense claims."""
        return super().claimed() if self.claim is None else (self.claim, 0.0)

    def laws(self) -> Iterable[PosteriorLaw]:
        """Return the laws on D and on D'."""
        return map(self.defense.law, self.prepared())

    def run(self, trials: int, seed: int) -> GameScores:
        """Draw from both laws, and score each draw by the log-density ratio, on a grid."""
        before, after = self.laws()

        def score(law: PosteriorLaw, streams: Streams) -> NDArray[np.float64]:
            draws = law.draw(streams)
            return graded(after.log_density(draws) - before.log_density(draws))

        return scored(score, (before, after), self.purpose, trials, seed, self.truth)


def scored(
    score: Callable[[S, Streams], NDArray[np.float64]],
    sides: Iterable[S],
    purpose: str,
    trials: int,
    seed: int,
    truth: Estimate | None,
) -> GameScores:
    """Return the scores of what stands for D and for D', each with streams of its own."""
    absent, present = (
        score(side, Streams.first(seed, f"{purpose}/{dataset}", trials))
        for side, dataset in zip(sides, ("absent", "present"), strict=True)
    )
    return GameScores(absent, present, truth)


def graded(ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round log-ratios to a grid; infinite ones, of draws that only one law allows, are clipped."""
    return np.clip(np.rint(ratio / _GRID) * _GRID, -CERTAIN, CERTAIN)


# Mironov 2012: samplers that add noise in floating point; one is that of dpaudit 0.1.

Reals = NDArray[np.float64]

# Function of the exact number, the noise's scale and the streams that returns the released numbers.
Sampler = Callable[[float, float, Streams], Reals]
Score = Callable[[Reals], Reals]

_ABSENT, _PRESENT = 0.0, 1.0


def by_numpy(exact: float, scale: float, streams: Streams) -> Reals:
    """`f + rng.laplace(scale=s)`, in double precision."""
    rng = generator((*streams.key.tolist(), int(streams.trials[0])))
    draws: Reals = exact + rng.laplace(scale=scale, size=len(streams))
    return draws


def by_first_edition(exact: float, scale: float, streams: Streams) -> Reals:
    """`f + s z` in single precision, z from 31 bits: the noise of dpaudit 0.1 in training."""
    words = np.empty(-(-len(streams) // 4) * 4, np.uint32)
    noise.philox_words(words, 0, 0, int(streams.trials[0]), streams.key)
    k = ((words[: len(streams)] >> 1) | 1).astype(np.float32).astype(np.float64)
    z = (-np.log(k / 2.0**31)).astype(np.float32)
    z = np.where(words[: len(streams)] & 1, -z, z)
    return (exact + scale * z.astype(np.float64)).astype(np.float32).astype(np.float64)


def on_a_grid(exact: float, scale: float, streams: Streams) -> Reals:
    """`g · round((f + s z)/g)`, z of high resolution in body and tail: dpaudit's present noise."""
    draws = np.empty((len(streams), 1))
    exact_noise.laplace(draws, streams.trials, 0, streams.key)
    return rounded(exact + scale * draws[:, 0], grid(scale)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class FloatGame:
    """One number, 0 on D and 1 on D', with Laplace noise of scale 1/ε, released by a sampler.

    Attributes:
        label: name of the game within its entry.
        sampler: adds the noise.
        score: scores outputs; larger on D'.
        words: description of the mechanism.
        law: the exact ε of the sampler.
        epsilon: ε.
        trials: number of trials on each data set.
    """

    label: str
    sampler: Sampler
    score: Score
    words: str
    law: Estimate
    epsilon: float = 1.0
    trials: int = TRIALS

    def claimed(self) -> tuple[float, float]:
        """ε, and δ = 0."""
        return self.epsilon, 0.0

    def mechanism(self) -> str:
        """Description of the sampler, its scale and ε."""
        return f"{self.words}, scale 1/ε, ε = {self.epsilon:g}"

    def pair(self) -> str:
        """Description of the two numbers."""
        return "a count is 0 in D and 1 in D'"

    def digest(self) -> str:
        """Digest of the two numbers."""
        return text_digest(repr((_ABSENT, _PRESENT)))

    def mutant(self, factor: float) -> FloatGame:
        """The same game with noise calibrated to `factor` times ε."""
        return replace(self, epsilon=self.epsilon * factor)

    def run(self, trials: int, seed: int) -> GameScores:
        """Release and score."""

        def score(exact: float, streams: Streams) -> Reals:
            return self.score(self.sampler(exact, 1 / self.epsilon, streams))

        return scored(score, (_ABSENT, _PRESENT), "float", trials, seed, self.law)


def known(attack: FloatBits | LikelihoodRatio, rounded_to_grid: bool = False) -> Score:
    """Return an attack's score for who knows both numbers, the scale and, if any, the grid."""
    step = grid(1.0) if rounded_to_grid else 0.0
    pair = LaplacePair(np.array([_ABSENT]), np.array([_PRESENT]), 1.0, step)

    def score(shown: Reals) -> Reals:
        values = shown[:, None].astype(np.float32)
        return attack.score(Predictions(np.zeros(values.shape, np.int32), values), pair)

    return score
