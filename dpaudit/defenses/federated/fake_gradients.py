"""Federated matrix factorisation whose users submit fake gradients for items not rated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.bounds.accounting import noise_multiplier
from dpaudit.core.claim import Claim, ObserverName, Variant
from dpaudit.core.errors import ConfigError
from dpaudit.core.plugin import STRICT, Part
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.factors import FactorModels, joined
from dpaudit.defenses.federated.candidates import Candidates, Floats
from dpaudit.defenses.federated.observation import watched_rounds
from dpaudit.defenses.federated.sides import AdaDelta
from dpaudit.defenses.federated.training import Federation
from dpaudit.defenses.federated.transcript import Transcript
from dpaudit.defenses.precision import kept_budget
from dpaudit.defenses.training import Watch, check_epsilon


@parameters(frozen=True, config=STRICT)
class FakeGradients(Part):
    """Federated matrix factorisation under local differential privacy, `r̂ = b + u · v`.

    The server keeps the items' factors V and a vector F_j for each item; each user keeps her u. A
    user's candidates are the n items that she rated and `n q/(1 − q)` others, drawn once. In each
    of K rounds she submits, for B of them,

        g_ij + N(0, σ² I),   g_ij = −(r_ij − r̂_ij) u_i,        of an item that she rated,
        F_j + N(0, σ² I)                                        of another,

    the server takes the fakes off and steps by AdaDelta, and she moves u_i by the gradient on all
    her ratings. `fakes` says what F is:

    - `zero`: 0.
    - `delayed-mean`: the server's estimate of the mean real gradient of the round before,
      `(Σ x − (1 − π̂_j) n_j F_j)/(π̂_j n_j)`, 0 at first. π̂_j is the share of real ones among item
      j's candidates by Warner's randomised response, for which every user answers about every
      candidate once, truly with probability p.
    - `rating`: the gradient of a rating made up, which nothing takes off.
    - `two-valued`: no normal noise; one coordinate of a gradient cut to [−1, 1], drawn at random,
      as plus or minus `d (e^ε' + 1)/(e^ε' − 1)` with ε' = ε/K; of a fake a fair coin (Shin et al.
      2018 after Nguyên et al. 2016).

    **Published**: σ is `bound` times the least noise multiplier that keeps (ε, δ) over K rounds,
    where `bound` is taken for the largest gradient's norm: nothing enforces it, F_j stands where
    the analysis has 0, and a rating moves u_i and so all her other gradients.

    **Corrected** protects whole users: all that she submits in a round, less the F_j that
    everybody knows, is cut to the norm `bound` as one vector,

        x_i = F + cut(g_i − F) + N(0, σ² I),   ‖cut(·)‖₂ ≤ bound, 0 of a fake.

    Given what was submitted before (from which V and F are computed), two users with the same
    candidates differ by 2 bound at most, so K rounds are μ-GDP with `μ = 2 bound √K/σ` (Dong, Roth,
    Su 2019, Corollary 3.3); σ is the least that keeps (ε, δ). Which candidates submit is drawn
    without regard to ratings and seen by the server: it amplifies nothing. There is no response:
    π̂ = 1 − q, which is public; as `ĝ = F + (mean(x) − F)/π̂`, a wrong π̂ only changes how fast F
    follows.

    **Nonprivate**: users submit their gradients without noise and no fakes.

    Attributes:
        epsilon: ε, 1e-3 to 1e6; `inf` only of `nonprivate`.
        variant: whose mechanism it is.
        fakes: what is submitted for an item that is not rated.
        density: q, the share of fakes among a user's candidates.
        dimensions: d.
        rounds: K.
        batch: B, the candidates that a user submits in a round; all of them where it is None or she
            has fewer.
        bound: G, the norm that the claim assumes of a gradient, or the corrected form enforces.
        delta: δ.
        decay: λ.
        spread: the standard deviation of the initial factors.
        offset: b, a public constant; the paper has none.
        memory: ρ of AdaDelta.
        rate: what AdaDelta's steps are multiplied by; section 5 names a learning rate beside it.
        truth: p, the probability of a true answer.
        least_share: the least π̂ that is used.
        fake_bound: the largest norm of F_j that the server broadcasts.
        made_up: whether a made-up rating is drawn once or in each round.
        made_up_mean: a reading of section 5, which draws what is made up from a normal law: the
            mean of made-up ratings, with a deviation of 1. Uniform from the scale where it is None.
        delay: by how many rounds the server's steps lag behind submissions, as in Theorem 5.
        amplified: a reading of Theorem 3: σ is that of rounds in which each candidate takes part
            with probability B/|C_i|, the largest of all users.
        draw: decides which items that users have not rated are candidates.
    """

    epsilon: Annotated[float, Field(ge=1e-3)]
    variant: Variant = "published"
    fakes: Literal["zero", "rating", "delayed-mean", "two-valued"] = "delayed-mean"
    density: Annotated[float, Field(ge=0, le=0.99)] = 0.5
    dimensions: Annotated[int, Field(ge=1, le=128)] = 16
    rounds: Annotated[int, Field(ge=1, le=100_000)] = 400
    batch: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    bound: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    delta: Annotated[float, Field(ge=1e-60, lt=1)] = 1e-5
    decay: Annotated[float, Field(ge=0, le=10)] = 0.1
    spread: Annotated[float, Field(ge=0, le=10)] = 0.1
    offset: Annotated[float, Field(ge=-1e6, le=1e6)] = 0.0
    memory: Annotated[float, Field(ge=0, lt=1)] = 0.95
    rate: Annotated[float, Field(ge=1e-6, le=100)] = 1.0
    truth: Annotated[float, Field(gt=0.5, le=1)] = 0.75
    least_share: Annotated[float, Field(ge=1e-12, le=1)] = 0.05
    fake_bound: Annotated[float, Field(ge=1e-12, le=1e6)] = 5.0
    made_up: Literal["once", "each-round"] = "once"
    made_up_mean: Annotated[float, Field(ge=-1e6, le=1e6)] | None = None
    delay: Annotated[int, Field(ge=0, le=500)] = 0
    amplified: bool = False
    draw: Annotated[int, Field(ge=0, lt=2**64)] = 0

    name: ClassVar[str] = "fake-gradients"
    title: ClassVar[str] = "Federated matrix factorisation with fake gradients"
    source: ClassVar[str] = (
        "Luo, Zhang, Zhang, Liu, Wang, A smart privacy-preserving learning method by fake "
        "gradients, 2020, doi:10.1155/2020/6683834, Algorithms 1 and 2; "
        "Shin, Kim, Shin, Xiao 2018, doi:10.1109/TKDE.2018.2805356; Warner 1965, "
        "doi:10.1080/01621459.1965.10480775"
    )

    @model_validator(mode="after")
    def _check(self) -> FakeGradients:
        check_epsilon(self.epsilon, self.variant, "noise")
        if self.variant == "corrected" and self.fakes in {"rating", "two-valued"}:
            raise ValueError(
                f"the corrected form cuts distances from a fake that everybody knows, and "
                f"fakes = {self.fakes!r} are none: use 'delayed-mean' or 'zero'"
            )
        if self.made_up_mean is not None and self.fakes != "rating":
            raise ValueError(
                "made_up_mean is of fakes = 'rating', which alone makes ratings up: remove it"
            )
        if self.amplified and (self.variant != "published" or self.fakes == "two-valued"):
            raise ValueError(
                "amplified is a reading of the published form with normal noise: remove it"
            )
        return self

    def claim(self) -> Claim | None:
        """(ε, δ) for one item of a user, or for all of them."""
        if self.variant == "nonprivate":
            return None
        if self.variant == "corrected":
            return Claim(
                epsilon=self.epsilon,
                delta=self.delta,
                adjacency="user-replace",
                observer="recommender",
                public="each user's candidates and when she submits them, the factors that "
                "training starts from, the scale",
                source="class docstring; Dong, Roth, Su 2019, Corollary 3.3, arXiv:1905.02383",
            )
        if self.fakes == "two-valued":
            return Claim(
                epsilon=self.epsilon,
                delta=0.0,
                adjacency="rating-add-remove",
                observer="recommender",
                public="each user's candidates and when she submits them",
                source="Shin et al. 2018; ε/K a round, composed as in Luo et al. 2020, section 1",
            )
        return Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency="rating-add-remove",
            observer="recommender",
            public="each user's candidates and when she submits them, the factors that training "
            "starts from, the response's estimates",
            assumes=(f"no gradient longer than {self.bound:g}, not enforced",),
            source="Luo et al. 2020, Theorem 3 and section 4.4",
        )

    @property
    def noisy(self) -> bool:
        """Whether submissions have normal noise."""
        return self.variant != "nonprivate" and self.fakes != "two-valued"

    @property
    def public_share(self) -> float | None:
        """What the server takes for the share of real submissions; None where it asks."""
        if self.variant == "nonprivate" or self.fakes == "rating":
            return 1.0
        if self.variant == "corrected" or self.fakes != "delayed-mean":
            return 1 - self.density
        return None

    @cached_property
    def level(self) -> float:
        """The size of a two-valued submission, `d (e^ε' + 1)/(e^ε' − 1)`, ε' = ε/K."""
        return self.dimensions / math.tanh(self.epsilon / self.rounds / 2)

    def sigma(self, candidates: Candidates) -> float:
        """σ, the standard deviation of each coordinate's noise; 0 where there is none.

        Raises:
            ConfigError: finite precision would take too much of ε.
        """
        if not self.noisy:
            return 0.0
        counts = candidates.counts[candidates.counts > 0]
        share = 1.0
        if self.amplified and self.batch is not None:
            share = float(np.minimum(1.0, self.batch / counts).max())
        kept, delta = self.epsilon, self.delta
        if self.variant == "corrected":
            # Finite precision takes its part of ε and δ.
            numbers = self.rounds * int(counts.max()) * self.dimensions
            kept, delta = kept_budget(kept, delta, numbers)
        return self.bound * noise_multiplier(
            kept,
            delta=delta,
            compositions=self.rounds,
            sampling=share,
            neighbors="replace" if self.variant == "corrected" else "add-remove",
        )

    def adaptive(self, factors: Floats) -> AdaDelta:
        """The steps of these factors."""
        return AdaDelta.like(factors, self.memory, 1e-6, self.rate)

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> Candidates:
        """Who may submit for what.

        Args:
            ratings: what is learned from.
            public: the data whose rated items are candidates; an item of them that `ratings` has
                not is faked.

        Raises:
            ConfigError: there is nothing to learn from, or a rating's item is no candidate.
        """
        if not len(ratings):
            raise ConfigError("there are no ratings to learn from: use more data")
        density = 0.0 if self.variant == "nonprivate" else self.density
        known = ratings if public is None else public
        return Candidates.of(ratings, known, density, self.draw, self.made_up_mean)

    def train(self, candidates: Candidates, streams: Streams) -> FactorModels:
        """The models of these worlds, of which no submission is looked at.

        Raises:
            RunError: a training diverged.
        """
        found = []
        for world in streams.blocks(1):
            federation = Federation(self, candidates, world)
            for _ in range(self.rounds):
                federation.play()
            found.append(federation.models())
        return joined(found)

    @property
    def watchers(self) -> dict[ObserverName, Watch[Candidates]]:
        """The server sees what is submitted."""
        return {"recommender": self.watch}

    def watch(
        self, before: Candidates, after: Candidates, trained: Candidates, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """What users in whom two data sets differ submit, round by round.

        Args:
            before: world `D`.
            after: world `D'`.
            trained: which of the two is learned from.
            streams: the worlds.

        Raises:
            ConfigError: the fakes' law given what they see is no normal one, or the two data sets
                have other candidates.
            RunError: a training diverged.
        """
        self.check_watched()
        return watched_rounds(self, before, after, trained, streams)

    def check_watched(self) -> None:
        """Refuse games that see each round where what is seen has no normal law of known mean.

        Raises:
            ConfigError: with the remedy.
        """
        if not self.noisy or self.fakes == "rating":
            raise ConfigError(
                f"games that see each round compare submissions whose noise is normal around known "
                f"means, and variant = {self.variant!r}, fakes = {self.fakes!r} have none: use a "
                "private variant with fakes 'delayed-mean' or 'zero', or observe = 'public'"
            )

    def transcript(
        self, candidates: Candidates, world: Streams, users: NDArray[np.bool_] | None = None
    ) -> Transcript:
        """What the server sees of a training.

        Args:
            candidates: who may submit for what.
            world: the only world.
            users: who is watched `(N,)`; everybody unless given.
        """
        watched = np.ones(candidates.n_users, np.bool_) if users is None else users
        return Transcript(self, candidates, world, watched)
