"""Tell real submissions from fakes by predicted gradients, and by how popular an item is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass as parameters
from scipy import special

from dpaudit.attacks.base import Form, SubmissionTest, TranscriptReader
from dpaudit.attacks.federated.residuals import Numbers
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import Round, UserItemPairs, Verdicts
from dpaudit.kernels.federated import transcripts as folds

# Memory lengths of a pair's mean projection, in submissions: all, and few enough to follow
# gradients that change during training. The real distribution is the equal mixture of both.
_MEMORIES = (1 << 29, 10)
# The weight of earlier rounds in a user's direction; the number of rounds of the mean fake.
_KEEP = 0.8
_USUAL = 50


@parameters(frozen=True, config=STRICT)
class GradientRatio(SubmissionTest):
    """Detect real submissions by the likelihood ratio of a gradient against the fake.

    **`gradient`** knows each round's `g_t`, which no server does. It is the most powerful test of
    one pair's submissions (Neyman & Pearson).

        Λ = Σ_t [(x_t − F_t)·(g_t − F_t) − ½‖g_t − F_t‖²]/σ²,    D = Σ_t ‖g_t − F_t‖²/σ²

    Its p-value uses `(Λ + D/2)/√D ~ N(0, 1)`. This assumes that `g_t − F_t` does not depend on the
    noise of the pair's earlier submissions. In fact these train the model, together with all other
    submissions for the item, so with few raters p is somewhat too small. If fakes are gradients of
    made-up ratings, the attack knows these gradients, and they take the place of F.

    **`model`** is feasible for the server. It knows F and σ, and that a real submission is
    `a_ij u_i` plus noise: all submissions of a user lie on one line. It estimates the direction û
    from all the user's submissions and a from the pair's projections on it. From **earlier rounds**
    it predicts

        real: x_t ~ N(ĝ_t, σ²I + v ûûᵀ),    ĝ_t = (1 − c) F̄_j + c a û

    `F̄_j`, the mean of the item's fakes over rounds, is the prediction before anything is known of
    the user; unlike a fake, a real submission does not follow the noise in the broadcast F_t. c
    is a shrinkage factor from the signal-to-noise ratio of projections, v the uncertainty about a
    (`kernels/federated/transcripts.py`, `fold_directions`). `Λ_m` is the sum over rounds of the
    log-ratio of this distribution to `N(F_t, σ²I)`, for two memory lengths m of a, and
    `Λ = ln ½(e^{Λ_1} + e^{Λ_2})`.

    *Its p-value* `min(1, e^{−Λ})` assumes nothing about real submissions. Let the pair be fake.
    Given all earlier rounds, F_t and the prediction for real submissions are fixed, and x_t is
    N(F_t, σ²I) in any case; so the ratio of the two densities at x_t has mean `∫ p_real = 1`. Then
    `e^{Λ_1}` and `e^{Λ_2}` are martingales of mean one and so is their average; by Markov's
    inequality `P(e^Λ ≥ 1/p) ≤ p`.

    For two-valued submissions both attacks use the exact log-ratio of the submitted coordinate,
    `ln (P(sign | clip(ĝ, ±1))/½)`, with ĝ the predicted or the known gradient. The ratio also has
    mean one given the past, so p is `min(1, e^{−Λ})` for both.

    Attributes:
        knows: see above.
    """

    knows: Literal["gradient", "model"] = "gradient"

    name: ClassVar[str] = "gradient-ratio"
    title: ClassVar[str] = "Likelihood ratio of gradients, known or predicted, against fakes"
    source: ClassVar[str] = (
        "Neyman & Pearson, On the Problem of the Most Efficient Tests of Statistical Hypotheses, "
        "1933, doi:10.1098/rsta.1933.0009; Dawid, Present Position and Potential Developments: "
        "Some Personal Views: Statistical Theory: The Prequential Approach, 1984, "
        "doi:10.2307/2981683; two-valued: Nguyên et al., Collecting and Analyzing Data from Smart "
        "Device Users with Local Differential Privacy, 2016, arXiv:1606.05053"
    )
    usual: ClassVar[tuple[Form, ...]] = (Form({"knows": "model"}), Form({"knows": "gradient"}))
    rank: ClassVar[int] = 5

    def reader(self, pairs: UserItemPairs) -> TranscriptReader:
        """Return a new reader of these pairs."""
        return (_KnownGradient if self.knows == "gradient" else _PredictedGradient)(pairs)


def _markov(log_ratio: Numbers) -> Verdicts:
    return Verdicts(log_ratio, np.exp(np.minimum(-log_ratio, 0.0)))


class _KnownGradient:
    def __init__(self, pairs: UserItemPairs) -> None:
        self.pairs = pairs
        self.product = np.zeros(len(pairs))  # for two-valued submissions, the log-ratio itself
        self.distance = np.zeros(len(pairs))

    def see(self, round_: Round) -> None:
        place, shown, gradients = round_.place, round_.shown, round_.gradients
        if self.pairs.level is not None:
            folds.fold_two_valued(place, shown, gradients, self.pairs.level, self.product)
            return
        rows, fakes = self.pairs.items, round_.fakes
        if round_.made_up is not None:
            rows, fakes = np.zeros(len(self.pairs), np.int32), round_.made_up
            rows[place] = np.arange(len(place))
        folds.fold_ratio(place, shown, fakes, rows, gradients, self.product, self.distance)

    def verdicts(self) -> Verdicts:
        if self.pairs.level is not None:
            return _markov(self.product.copy())
        variance = self.pairs.sigma**2 or 1.0
        # Λ + D/2 is the sum of the products.
        product, distance = self.product / variance, self.distance / variance
        scores = product - distance / 2
        if self.pairs.sigma == 0:
            return Verdicts(scores, None)
        standard = product / np.sqrt(np.maximum(distance, np.finfo(np.float64).tiny))
        return Verdicts(scores, np.where(distance > 0, special.ndtr(-standard), 1.0))


class _PredictedGradient:
    def __init__(self, pairs: UserItemPairs) -> None:
        users = int(pairs.users[-1]) + 1 if len(pairs) else 0
        size, memories = pairs.dimensions, len(_MEMORIES)
        self.pairs, self.rounds = pairs, 0
        self.known = pairs.sigma > 0 or pairs.level is not None
        self.memory = np.array(_MEMORIES, np.int32)
        self.count = np.zeros(len(pairs), np.int32)
        self.mean = np.zeros((len(pairs), size), np.float32)
        self.along = np.zeros((len(pairs), memories), np.float32)
        self.log_ratio = np.zeros((len(pairs), memories))
        self.spread = np.zeros(memories)
        self.usual = np.zeros((len(pairs.shares), size), np.float32)
        self.direction = np.full((users, size), size**-0.5, np.float32)
        self.pull = np.zeros_like(self.direction)

    def see(self, round_: Round) -> None:
        pairs = self.pairs
        self.known = self.known and round_.made_up is None
        self.rounds += 1
        self.usual += (round_.fakes - self.usual) / min(self.rounds, _USUAL)
        variance = pairs.sigma**2 or 1.0
        if pairs.level is not None:
            # A coordinate is sent in one of d submissions on average.
            variance = pairs.level**2 / pairs.dimensions
        folds.fold_directions(
            round_.place,
            round_.shown,
            round_.fakes,
            pairs.items,
            pairs.users,
            self.usual,
            variance,
            pairs.level or 0.0,
            self.memory,
            np.float32(_KEEP),
            self.count,
            self.mean,
            self.along,
            self.log_ratio,
            self.spread,
            self.direction,
            self.pull,
        )

    def verdicts(self) -> Verdicts:
        mixture = np.logaddexp.reduce(self.log_ratio, axis=1) - np.log(len(_MEMORIES))
        return _markov(mixture) if self.known else Verdicts(mixture, None)


@parameters(frozen=True, config=STRICT)
class Popularity(SubmissionTest):
    """Score a pair by what the server knows about its item before any round.

    It uses no submission, so the advantage of another attack over it is the leak of the rounds. It
    has no p-value. If users draw fakes uniformly but rate popular items, an item that many users
    may submit for is likely to be rated by each of them.

    Attributes:
        by: `candidates`, the number of users who may submit for the item, which the server sees; or
            `response`, the share of real submissions estimated by randomised response, if used.
    """

    by: Literal["candidates", "response"] = "candidates"

    baseline: ClassVar[bool] = True
    name: ClassVar[str] = "popularity"
    title: ClassVar[str] = "Popularity of the item, known before any round"
    source: ClassVar[str] = (
        "Luo, Zhang, Zhang, Liu & Wang, A Smart Privacy-Preserving Learning Method by Fake "
        "Gradients to Protect Users Items in Recommender Systems, 2020, "
        "doi:10.1155/2020/6683834, sections 4.2 and 4.4 (the randomised response)"
    )
    usual: ClassVar[tuple[Form, ...]] = (Form({"by": "candidates"}), Form({"by": "response"}))
    rank: ClassVar[int] = 1

    def reader(self, pairs: UserItemPairs) -> TranscriptReader:
        """Return a reader of these pairs; it ignores all rounds."""
        known = pairs.shares if self.by == "response" else pairs.candidates
        return _PopularityReader(known[pairs.items].astype(np.float64))


@dataclass(frozen=True)
class _PopularityReader:
    scores: Numbers

    def see(self, round_: Round) -> None:
        """Ignore the round."""

    def verdicts(self) -> Verdicts:
        return Verdicts(self.scores, None)
