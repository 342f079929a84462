"""Federated matrix factorisation whose users submit fake gradients for unrated items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.errors import ConfigError
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemFactors, NoisedSteps, Observer, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.defenses.base import FederatedDefense
from dpaudit.defenses.factors import FactorModels, joined_models
from dpaudit.defenses.federated.candidates import Candidates
from dpaudit.defenses.federated.observation import (
    ObservedSubmissions,
    TargetUsers,
    TrainingTranscript,
)
from dpaudit.defenses.federated.settings import FakeGradientsSettings
from dpaudit.defenses.federated.training import FederatedTraining
from dpaudit.defenses.observers import observed_steps, release_observers, step_observer


@parameters(frozen=True, config=STRICT)
class FakeGradients(FakeGradientsSettings, FederatedDefense[Candidates]):
    """Federated matrix factorisation under local differential privacy, `r̂ = b + u · v`.

    The server keeps the item factors V and one vector F_j for each item; each user keeps their own
    factors u. A user's candidates are the n items that they rated and `n q/(1 − q)` other items,
    drawn once. In each of K rounds, the user submits for B of these candidates

        g_ij + N(0, σ² I),   g_ij = −(r_ij − r̂_ij) u_i,        for an item that they rated,
        F_j + N(0, σ² I)                                        for any other item.

    The server subtracts the fakes and takes an AdaDelta step. The user updates u_i with the
    gradient on all their ratings. `fakes` selects F:

    - `zero`: 0.
    - `delayed-mean`: the server's estimate of the previous round's mean real gradient,
      `(Σ x − (1 − π̂_j) n_j F_j)/(π̂_j n_j)`; 0 in the first round. π̂_j is the share of real
      candidates among item j's candidates, estimated by Warner's randomised response: every user
      answers once for every candidate, truthfully with probability p.
    - `rating`: the gradient of a made-up rating. The server does not subtract it.
    - `two-valued`: no normal noise. A submission is one coordinate, drawn at random, of the
      gradient clipped to [−1, 1], sent as plus or minus `d (e^ε' + 1)/(e^ε' − 1)` with ε' = ε/K.
      For a fake, the sign is a fair coin (Shin et al. 2018 after Nguyên et al. 2016).

    **Published**: σ is G times the least noise multiplier that satisfies (ε, δ) over K rounds,
    where G is taken as the largest norm of a gradient. Nothing enforces G. A fake is F_j where the
    analysis has 0. A rating changes u_i and, through it, all the user's other gradients.

    **Corrected** protects whole users. All that a user submits in a round, less the F_j, which are
    public, is clipped as one vector to the norm G:

        x_i = F + cut(g_i − F) + N(0, σ² I),   ‖cut(·)‖₂ ≤ G; cut(·) is 0 for a fake.

    Given all earlier submissions (from which V and F are computed), the submissions of two users
    with the same candidates differ by at most 2 G before noise. So K rounds are μ-GDP with
    `μ = 2 G √K/σ` (Dong, Roth, Su 2019, Corollary 3.3); σ is the least that satisfies (ε, δ).
    Which candidates are submitted is drawn independently of the ratings and seen by the server, so
    sampling gives no amplification. There is no randomised response: π̂ = 1 − q, which is public.
    As `ĝ = F + (mean(x) − F)/π̂`, a wrong π̂ only changes how fast F follows the mean.

    **Nonprivate**: users submit their gradients without noise, and no fakes.

    Attributes:
        epsilon: ε, 1e-3 to 1e6; `inf` only for `nonprivate`.
        variant: published, corrected or nonprivate, as described above.
        fakes: what is submitted for an item that the user has not rated.
        density: q, the share of fakes among a user's candidates.
        dimensions: d.
        rounds: K.
        batch_size: B, the number of candidates that a user submits in a round; all of them if
            None, or if the user has fewer.
        clip_norm: G, the gradient norm that the published claim assumes and the corrected form
            enforces.
        delta: δ.
        decay: λ.
        spread: the standard deviation of the initial factors.
        offset: b, a public constant; the paper has none.
        memory: ρ of AdaDelta.
        learning_rate: the factor on AdaDelta's steps; section 5 of the paper mentions one.
        truth: p, the probability of a truthful answer.
        least_share: the smallest π̂ that the server uses; smaller estimates are raised to it.
        fake_clip_norm: the largest norm of F_j that the server broadcasts.
        made_up: whether a made-up rating is drawn once or in each round.
        made_up_mean: the mean of made-up ratings, which are then normal with standard deviation 1
            (a reading of section 5). If None, they are uniform on the rating scale.
        delay: by how many rounds the server's steps lag behind submissions, as in Theorem 5.
        amplified: compute σ for rounds in which each candidate takes part with probability
            B/|C_i|, the largest over all users (a reading of Theorem 3).
        seed: decides which unrated items are candidates.
    """

    def train(self, candidates: Candidates, streams: Streams) -> FactorModels:
        """Return the models of these trials, without recording any submission.

        Raises:
            NoModelError: a training diverged.
        """
        models = []
        for trial in streams.blocks(1):
            training = FederatedTraining(self, candidates, trial)
            for _ in range(self.rounds):
                training.run_round()
            models.append(training.models())
        return joined_models(models)

    def observers(self) -> Mapping[str, Observer[Candidates]]:
        """Return the observers: the server sees submissions, everybody the item factors."""
        return {
            "recommender": step_observer(self.observe, "submissions"),
            **release_observers(self, ItemFactors),
        }

    def observe(
        self, before: Candidates, after: Candidates, trained: Candidates, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """Yield, round by round, the submissions of the users in whom D and D' differ, `(W, C)`.

        Given all earlier submissions, V and F are known. A user's factors are computed from their
        ratings and V, so what they would submit without noise on D and on D' is known too. All
        other users submit the same on D and D'.

        Args:
            before: data set `D`.
            after: data set `D'`.
            trained: the one of the two that is trained on.
            streams: the trials.

        Raises:
            ConfigError: submissions are not normal around known means, or the two data sets have
                different candidates.
            NoModelError: a training diverged.
        """
        self.check_observed("recommender")
        targets = TargetUsers.between(before, after)
        trials = [ObservedSubmissions(self, trained, targets, trial) for trial in streams.blocks(1)]
        return observed_steps(trials, self.rounds, gaussian=True)

    def check_observed(self, observer: str) -> None:
        """Refuse games on each round if submissions are not normal around known means.

        Raises:
            ConfigError: they are not; names the remedy.
        """
        if observer == "recommender" and (not self.noisy or self.fakes == "rating"):
            raise ConfigError(
                f"a game on each round needs submissions with normal noise around known means, "
                f"and variant = {self.variant!r}, fakes = {self.fakes!r} have none: use a "
                "private variant with fakes 'delayed-mean' or 'zero', or observe = 'public'"
            )

    def transcript(
        self, candidates: Candidates, trial: Streams, users: NDArray[np.bool_] | None = None
    ) -> TrainingTranscript:
        """Return what the server sees of a training.

        Args:
            candidates: each user's candidates.
            trial: the only trial.
            users: mask of the observed users `(N,)`; all users if None.
        """
        observed = np.ones(candidates.n_users, np.bool_) if users is None else users
        return TrainingTranscript(self, candidates, trial, observed)
