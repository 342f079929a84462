"""Federated matrix factorisation whose users submit fake gradients for items not rated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.errors import ConfigError
from dpaudit.core.observation import Observer
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemFactors, NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.defenses.base import FederatedDefense
from dpaudit.defenses.factors import FactorModels, joined
from dpaudit.defenses.federated.candidates import Candidates
from dpaudit.defenses.federated.observation import watched_rounds
from dpaudit.defenses.federated.settings import FakeGradientsSettings
from dpaudit.defenses.federated.training import Federation
from dpaudit.defenses.federated.transcript import Transcript
from dpaudit.defenses.release_observation import release_observers
from dpaudit.defenses.step_observation import step_observer


@parameters(frozen=True, config=STRICT)
class FakeGradients(FakeGradientsSettings, FederatedDefense[Candidates]):
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

    def observers(self) -> Mapping[str, Observer[Candidates]]:
        """The server sees what is submitted; everybody has the items' side of the model."""
        return {
            "recommender": step_observer(self.watch, "submissions"),
            **release_observers(self, ItemFactors),
        }

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
        self.check_observed("recommender")
        return watched_rounds(self, before, after, trained, streams)

    def check_observed(self, observer: str) -> None:
        """Refuse games that see each round where what is seen has no normal law of known mean.

        Raises:
            ConfigError: with the remedy.
        """
        if observer == "recommender" and (not self.noisy or self.fakes == "rating"):
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
