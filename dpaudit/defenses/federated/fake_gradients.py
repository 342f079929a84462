"""Federated matrix factorisation whose users submit fake gradients for unrated items.

With what the server sees of one training, and of two data sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.errors import ConfigError
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import (
    ItemFactors,
    NoisedSteps,
    Observer,
    Round,
    StepsPair,
    UserItemPairs,
)
from dpaudit.core.streams import Streams
from dpaudit.defenses import observers, precision
from dpaudit.defenses.base import FederatedDefense
from dpaudit.defenses.factors import FactorModels, joined
from dpaudit.defenses.federated.settings import Candidates, FakeGradientsSettings, Floats, Indices
from dpaudit.defenses.federated.training import Clients, FederatedTraining, Submitted
from dpaudit.kernels.federated import submissions as kernels
from dpaudit.kernels.lanes import aligned


@dataclass(frozen=True)
class Distances:
    """Mean squared distances of real gradients from the fakes in one round, over all ratings.

    With `ḡ_j` the mean gradient of item j's raters, `E‖g − F‖² = scatter + apart`.

    Attributes:
        scatter: `‖g_ij − ḡ_j‖²`, which no choice of one F for all users reduces.
        apart: `‖ḡ_j − F_j‖²`.
        delay: `‖ḡ_j(t) − ḡ_j(t − 1)‖²`, the part of `apart` due to the delay of the mean; 0 in
            the first round.
        estimate: `‖F_j(t) − ḡ_j(t − 1)‖²`, the part due to the noise in the estimated mean; 0 in
            the first round. `delay` and `estimate` are 0 if F does not estimate the previous
            round's mean.
    """

    scatter: float
    apart: float
    delay: float
    estimate: float


class TrainingTranscript:
    """One training as its server sees it: `pairs`, then one `Round` after the other.

    Attributes:
        pairs: the observed pairs of a user and an item.
        real: the ground truth: whether each pair was rated `(P,)`.
        floored: the number of items whose estimated share was below `least_share`.
    """

    def __init__(
        self,
        defense: FakeGradientsSettings,
        candidates: Candidates,
        trial: Streams,
        users: NDArray[np.bool_],
    ) -> None:
        """Start a training in which the users in the mask `users` `(N,)` are observed."""
        self._training = FederatedTraining(defense, candidates, trial, apart=users)
        rows = users[candidates.users]
        server = self._training.server
        self.pairs = UserItemPairs(
            users=candidates.users[rows],
            items=candidates.items[rows],
            dimensions=defense.dimensions,
            sigma=self._training.sigma,
            level=defense.level if defense.fakes == "two-valued" else None,
            shares=server.shares,
            candidates=np.bincount(candidates.items, minlength=candidates.n_items),
        )
        self.real = candidates.real[rows]
        self.floored = server.floored
        self._observed = rows
        # The index of each candidate among the pairs.
        self._place = (np.cumsum(rows) - 1).astype(np.int32)
        self._raters = np.bincount(candidates.items[candidates.real], minlength=candidates.n_items)
        self._mean: NDArray[np.float64] | None = None

    @property
    def most(self) -> float:
        """The largest mean of the real pairs' divergences from fakes, in nats, whatever is learned.

        **Clipped distances (corrected).** All that a user submits in a round is at most G from F,
        as one vector. So the divergences `‖g − F‖²/(2σ²)` of a user's real pairs add up to at most
        `G²/(2σ²)` in each of K rounds, and I users with n real pairs have a mean of at most
        `K G² I/(2σ² n)`.

        **Two-valued.** A coordinate is clipped to [−1, 1], so its coin has a bias of at most
        `t = d/level`, and a round a divergence of at most `½ Σ_± (1 ± t) ln(1 ± t)`.

        Otherwise nothing is clipped, and it is infinite.
        """
        from scipy.special import xlog1py

        defense, rounds = self._training.defense, self._training.defense.rounds
        if self.pairs.level is not None:
            tilts = self.pairs.dimensions / self.pairs.level * np.array([1.0, -1.0])
            return rounds * float(xlog1py(1 + tilts, tilts).sum()) / 2
        if defense.variant != "corrected":
            return math.inf
        users = len(np.unique(self.pairs.users[self.real]))
        whole = rounds * (defense.clip_norm / self.pairs.sigma) ** 2 / 2
        return whole * users / max(int(self.real.sum()), 1)

    def models(self) -> FactorModels:
        """Return the current model."""
        return self._training.models()

    def rounds(self) -> Iterator[tuple[Round, Distances | None]]:
        """Run the training, and yield each round after its update of the model.

        The distances are None if fakes are not F, submissions are clipped, or users submit only
        some of their candidates.

        Raises:
            NoModelError: the training diverged.
        """
        training, server = self._training, self._training.server
        d = training.defense.dimensions
        for _ in range(training.defense.rounds):
            sent = training.submit()
            observed = self._observed[sent.apart]
            if not observed.all():  # two-valued submissions are drawn individually for all users
                sent = replace(sent, apart=sent.apart[observed], shown=sent.shown[observed])
            seen = Round(
                place=self._place[sent.apart],
                shown=_cut(sent.shown, d),
                factors=server.factors[:, :d].copy(),
                fakes=server.fakes[:, :d].copy(),
                gradients=_cut(self._gradients(sent), d),
                made_up=self._made_up(sent),
            )
            distances = self._distances()
            training.learn(sent)
            yield seen, distances

    def _gradients(self, sent: Submitted) -> Floats:
        """The noiseless submission of each pair if the user had rated the item `(n, size)`."""
        clients, server = self._training.clients, self._training.server
        gradients = clients.gradients(sent.apart, clients.values, server.factors)
        if self._training.defense.variant == "corrected":
            candidates = self._training.candidates
            fakes = server.fakes[candidates.items[sent.apart]]
            apart = gradients - fakes
            # The user's norm already includes a real pair, but not a hypothetical one.
            more = np.where(
                candidates.real[sent.apart], 0, np.square(apart, dtype=np.float64).sum(1)
            )
            squares = clients.squares(sent.order, server.factors, server.fakes)
            cuts = clients.cut(squares[candidates.users[sent.apart]] + more)
            gradients = fakes + cuts[:, None] * apart
        return gradients

    def _made_up(self, sent: Submitted) -> Floats | None:
        """The noiseless submission of each pair as a fake `(n, d)`; None if that is F."""
        training = self._training
        if training.defense.fakes != "rating":
            return None
        gradients = training.clients.gradients(
            sent.apart, training.made_up(), training.server.factors
        )
        return _cut(gradients, training.defense.dimensions)

    def _distances(self) -> Distances | None:
        defense = self._training.defense
        if defense.variant == "corrected" or defense.fakes not in {"zero", "delayed-mean"}:
            return None
        if not self._training.all_submit:
            return None
        server, raters = self._training.server, self._raters
        sums, squares = self._training.clients.moments(server.factors)
        mean = sums / np.maximum(raters, 1)[:, None]

        def averaged(vectors: NDArray[np.floating]) -> float:
            return float(np.einsum("m,mf,mf->", raters, vectors, vectors) / max(raters.sum(), 1))

        before, self._mean = self._mean, mean
        # With other fakes or delayed steps, F does not estimate the previous round's mean.
        follows = defense.fakes == "delayed-mean" and not defense.delay
        return Distances(
            scatter=float(squares.sum() / max(raters.sum(), 1)) - averaged(mean),
            apart=averaged(mean - server.fakes),
            delay=0.0 if before is None or not follows else averaged(mean - before),
            estimate=0.0 if before is None or not follows else averaged(server.fakes - before),
        )


def _cut(rows: Floats, dimensions: int) -> Floats:
    """The first `dimensions` coordinates, without the padding of the kernels' lanes."""
    return np.ascontiguousarray(rows[:, :dimensions])


@dataclass(frozen=True, eq=False)
class TargetUsers:
    """The users in whom two data sets differ.

    Attributes:
        users: mask of these users `(N,)`.
        place: for each of their candidates, its index among their candidates; undefined for
            other users' candidates `(P,)`.
        before: their candidates in data set `D`.
        after: their candidates in data set `D'`.
    """

    users: NDArray[np.bool_]
    place: Indices
    before: Candidates
    after: Candidates

    @classmethod
    def between(cls, before: Candidates, after: Candidates) -> TargetUsers:
        """Find the users in whom D and D' differ.

        Raises:
            ConfigError: the candidates differ, or no user does.
        """
        if not before.rates_as(after):
            raise ConfigError(
                "the two data sets have different candidates, which are public: prepare both with "
                "the same public data"
            )
        differs = (before.real != after.real) | (before.real & (before.values != after.values))
        users = np.zeros(before.n_users, np.bool_)
        users[before.users[differs]] = True
        if not users.any():
            raise ConfigError("the two data sets are the same: one user must differ")
        rows = users[before.users]
        place = (np.cumsum(rows) - 1).astype(np.int32)
        return cls(users, place, before.only(rows), after.only(rows))


class ObservedSubmissions(observers.ObservedTraining["_Counterfactual"]):
    """One trial's training, with the counterfactual target users on D and on D'."""

    def __init__(
        self,
        defense: FakeGradientsSettings,
        trained: Candidates,
        targets: TargetUsers,
        trial: Streams,
    ) -> None:
        self.training = FederatedTraining(defense, trained, trial, apart=targets.users)
        drawn = self.training.clients.factors
        self._place = targets.place
        self.counterfactuals = [
            _Counterfactual(self.training, candidates, np.where(targets.users[:, None], drawn, 0))
            for candidates in (targets.before, targets.after)
        ]

    def submit(self) -> observers.ObservedRound:
        """Return the target users' submissions."""
        d = self.training.defense.dimensions
        self._sent = self.training.submit()
        places = self._place[self._sent.apart]
        means = [counterfactual.means(places) for counterfactual in self.counterfactuals]
        seen = [vectors[:, :d] for vectors in (self._sent.shown, *means)]
        sigma = self.training.sigma
        return observers.ObservedRound.of_trial(seen, sigma, precision.grid(sigma))

    def learn(self) -> None:
        """Update the training with the last submissions."""
        self.training.learn(self._sent)


class _Counterfactual:
    """The target users with their ratings of one data set, trained beside the actual training."""

    def __init__(self, training: FederatedTraining, candidates: Candidates, drawn: Floats) -> None:
        factors = aligned(*drawn.shape)
        factors[:] = drawn
        self.clients, self._server = Clients(training.defense, candidates, factors), training.server

    def learn(self) -> None:
        """Update their factors from the current V."""
        self.clients.learn(self._server.factors)

    def means(self, order: Indices) -> Floats:
        """What they would submit without noise for their candidates in `order`, `(n, size)`."""
        items, fakes = self._server.factors, self._server.fakes
        candidates, size = self.clients.candidates, items.shape[1]
        shown = aligned(len(order), size)
        kernels.submit(
            order, candidates.users, candidates.items, self.clients.values,
            self.clients.weights(order, items, fakes), self.clients.factors.reshape(-1),
            items.reshape(-1), fakes.reshape(-1), size, 0.0, 0.0, 0, 0,
            np.zeros(2, np.uint32), aligned(items.size), shown.reshape(-1),
        )  # fmt: skip
        return shown


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
        return joined(models)

    def observers(self) -> Mapping[str, Observer[Candidates]]:
        """Return the observers: the server sees submissions, everybody the item factors."""
        return {
            "recommender": observers.step_observer(self.observe, "submissions"),
            **observers.release_observers(self, ItemFactors),
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
        return observers.observed_steps(trials, self.rounds, gaussian=True)

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
