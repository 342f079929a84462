"""The catalogue's games on PrivSR (Meng et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing.likelihood_ratio import LikelihoodRatio
from dpaudit.auditor.games.certify import GameScores
from dpaudit.auditor.games.game import in_blocks
from dpaudit.bounds.accounting import laplace_vector_epsilon
from dpaudit.bounds.gdp import gaussian_epsilon
from dpaudit.claims.meng_2018.data import befriended, fitted
from dpaudit.claims.trained_games import DataGame, StepsGame, graded, scored
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import width
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.execution.executor import INLINE
from dpaudit.kernels import exact_noise
from dpaudit.kernels.lanes import LANES, aligned

Floats = NDArray[np.float64]

_SCALES, _NOISE = 0, 1


@dataclass(frozen=True, eq=False)
class FinalGame(StepsGame):
    """Observer `public` of Algorithm 1 with one factor: only the first item's final factor.

    The factor is a sum of Laplace draws plus a shift, and a lower rating makes it smaller.
    """

    defense: PrivSR

    def run(self, trials: int, seed: int) -> GameScores:
        """Train, and score by the negative final factor."""

        def score(rows: SocialRows, streams: Streams) -> Floats:
            def of_block(streams: Streams) -> NDArray[np.float32]:
                items = self.defense.train(rows, streams).public(np.zeros(1, np.int32))
                return items.factors[:, 0, 0]

            [first] = in_blocks([(of_block, streams)], LANES, INLINE)
            return graded(-first.astype(np.float64) / self.defense.learning_rate)

        return scored(score, self.prepared(), "final", trials, seed, self.truth)


@dataclass(frozen=True, eq=False)
class _FittedGame(DataGame):
    """Base of the games with one factor, a public V and users' factors fitted to their ratings.

        u_i = Σ_j v_j (r_ij − b) / (Σ_j v_j² + λ),

    the minimum of equation (8) for this V, without friends.

    The defense determines the noise and the clipping.

    Attributes:
        items: V `(M,)`.
    """

    trials: int = 50_000
    items: tuple[float, ...] = field(kw_only=True)

    def mechanism(self) -> str:
        """Description of the defense with its parameters, and of V."""
        shown = ", ".join(f"{factor:.4g}" for factor in self.items)
        return f"{super().mechanism()}; users' factors fitted to V = ({shown})"

    def users(self, rows: SocialRows) -> NDArray[np.float32]:
        """Return the fitted factors in the first column of the kernels' layout `(N, size)`."""
        factors = np.array(self.items)[rows.items]
        errors = self.defense.centred(rows).astype(np.float64)
        slope = np.bincount(rows.users, factors * errors, rows.n_users)
        weight = np.bincount(rows.users, factors**2, rows.n_users) + self.defense.decay
        fitted = _padded(slope / np.where(weight > 0, weight, 1.0))
        self.defense.project(fitted)
        return fitted


def _padded(factors: Floats) -> NDArray[np.float32]:
    """Return rows of the kernels' width with one factor each, in the first column."""
    rows = aligned(len(factors), width(1))
    rows[:, 0] = factors
    return rows


@dataclass(frozen=True, eq=False)
class SubmittedGame(_FittedGame):
    """Observer `public` of one round: the sum of the submissions for each item."""

    def run(self, trials: int, seed: int) -> GameScores:
        """Draw the sums and score them by their likelihood ratio."""
        before, after = self.prepared()
        absent, present = self.sums(before), self.sums(after)
        drawn = self.defense.noise(before)
        variance = np.bincount(before.items, drawn.of_rows(before), before.n_items)
        law = _Law(absent, present, np.sqrt(variance), "laplace" if drawn.shared else "normal")
        return law.run("submitted", trials, seed, self.claimed()[1])

    def sums(self, rows: SocialRows) -> Floats:
        """Return Σ_i 2 (u_i v_j − r_ij) u_i of each item, without noise `(M,)`."""
        users = self.users(rows)
        items = _padded(np.array(self.items))
        order = np.arange(len(rows), dtype=np.int32)
        factor = users[rows.users, 0].astype(np.float64)
        errors = factor * items[rows.items, 0] - self.defense.centred(rows)
        cut = self.defense.cuts(rows, order, users, items)
        return np.bincount(rows.items, 2 * errors * factor * cut, rows.n_items).astype(np.float64)


@dataclass(frozen=True, eq=False)
class MessagesGame(_FittedGame):
    """Observer `friend`: the messages that the last user receives from their friends.

    Attributes:
        alone: whether the observer sees the first friend's message and knows the noise's size h,
            which they drew; else the observer sees the sum of all messages and does not know h.
    """

    alone: bool = False

    def run(self, trials: int, seed: int) -> GameScores:
        """Draw the messages and score them by their likelihood ratio."""
        before, after = self.prepared()
        drawn, last = self.defense.noise(before), before.n_users - 1
        # The receiver multiplies broadcast factors, with their noise, by 2 S, and S is 1.
        variance = float(drawn.sent[last]) + 4 * drawn.broadcast
        variance *= 1 if self.alone else int(before.friends[last])
        kind: _Kind = "normal" if not drawn.shared else "shared" if self.alone else "laplace"
        law = _Law(self._sent(before), self._sent(after), np.sqrt([variance]), kind)
        return law.run("sent", trials, seed, self.claimed()[1])

    def _sent(self, rows: SocialRows) -> Floats:
        """Return 2 S u of the first friend, or the sum over all friends, without noise `(1,)`."""
        weights = rows.similarity[[rows.n_users - 1]].toarray()[0].astype(np.float64)
        messages = 2 * weights * self.users(rows)[:, 0]
        return np.array([messages[0] if self.alone else messages.sum()])


def on_fitted(label: str, defense: PrivSR, items: int) -> SubmittedGame:
    """Return the game on the pair of `fitted`, with its V."""
    pair, factors = fitted(items)
    return SubmittedGame(label, defense, pair, items=factors)


def between_friends(label: str, defense: PrivSR, friends: int, alone: bool = False) -> MessagesGame:
    """Return the game on the pair of `befriended`, with its V."""
    pair, factors = befriended(friends)
    return MessagesGame(label, defense, pair, items=factors, alone=alone)


_Kind = Literal["laplace", "normal", "shared"]


@dataclass(frozen=True)
class _Law:
    """The laws on D and D' of numbers with independent noise.

    Attributes:
        absent: the numbers without noise on D `(C,)`.
        present: the numbers without noise on D' `(C,)`.
        deviation: standard deviations of the noise `(C,)`.
        kind: `laplace`; `normal`; or `shared`: normal with the variance times an h ~ Exp(1) that
            the observer sees.
    """

    absent: Floats
    present: Floats
    deviation: Floats
    kind: _Kind

    def run(self, purpose: str, trials: int, seed: int, delta: float) -> GameScores:
        """Draw from both laws and score by their likelihood ratio."""
        sides = self.absent, self.present
        return scored(self._score, sides, purpose, trials, seed, self.truth(delta))

    def _score(self, exact: Floats, streams: Streams) -> Floats:
        draws = np.empty((len(streams), len(exact)), np.float64)
        scale = np.broadcast_to(self.deviation, draws.shape)
        if self.kind == "laplace":
            exact_noise.laplace(draws, streams.trials, _NOISE, streams.key)
            scale = scale / np.sqrt(2)
        elif self.kind == "shared":
            # The absolute value of a Laplace draw is exponential.
            exact_noise.laplace(draws, streams.trials, _SCALES, streams.key)
            scale = scale * np.sqrt(np.maximum(abs(draws), 1e-30))
        if self.kind != "laplace":
            exact_noise.normal(draws, streams.trials, _NOISE, streams.key)
        shown = NoisedSteps(exact + scale * draws)
        pair = StepsPair(self.absent, self.present, scale, gaussian=self.kind != "laplace")
        # The grid merges ratios of one event that differ by rounding.
        return graded(LikelihoodRatio().score(shown, pair))

    def truth(self, delta: float) -> Estimate:
        """Return the exact ε of this pair at `delta`."""
        shifts = (self.present - self.absent) / self.deviation
        if self.kind == "laplace":
            return laplace_vector_epsilon(shifts * np.sqrt(2), 1.0, delta=delta)
        if self.kind == "normal":
            mu = float(np.sqrt((shifts**2).sum()))
            return Estimate.exact(gaussian_epsilon(mu, delta), "normal noise")
        # As h → 0 the ratio has no bound.
        return Estimate.exact(np.inf, "normal noise, whose size is seen and may be near 0")


PARTS = (FinalGame, between_friends, on_fitted)
