"""The games of the catalogue on PrivSR (Meng et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing.likelihood_ratio import LikelihoodRatio
from dpaudit.auditor.games.game import in_blocks
from dpaudit.auditor.games.trained import DataPair
from dpaudit.bounds.accounting import laplace_vector_epsilon
from dpaudit.bounds.model_based.gdp import gaussian_epsilon
from dpaudit.claims.entry import Worlds
from dpaudit.claims.trained_games import DataGame, StepsGame, graded
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.factors import width
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.kernels import exact_noise
from dpaudit.kernels.lanes import LANES, aligned

Floats = NDArray[np.float64]

_SCALES, _NOISE = 0, 1


@dataclass(frozen=True, eq=False)
class ItemsGame(StepsGame):
    """Observers `public`, of one round, and `iterates`: V after each, told apart by its law."""

    observer: str = "iterates"


@dataclass(frozen=True, eq=False)
class FinalGame(StepsGame):
    """Observer `public` of Algorithm 1 with one factor: the first item's final factor alone.

    Its law is that of a sum of Laplace draws, and a rating that falls makes it smaller.
    """

    defense: PrivSR

    def play(self, trials: int, seed: int) -> Worlds:
        """Train, and score what falls."""

        def score(ratings: Ratings, world: str) -> Floats:
            rows = self.defense.prepare(ratings, self.data.public)

            def of_block(streams: Streams) -> NDArray[np.float32]:
                items = self.defense.train(rows, streams).public(np.zeros(1, np.int32))
                return items.factors[:, 0, 0]

            streams = Streams.first(seed, f"final/{world}", trials)
            return graded(
                -in_blocks(of_block, streams, LANES, 1).astype(np.float64) / self.defense.rate
            )

        return Worlds(
            score(self.data.before, "absent"), score(self.data.after, "present"), self.truth
        )


@dataclass(frozen=True, eq=False)
class _FittedGame(DataGame):
    """Games with one factor in which V is public and users' factors are fitted to their ratings.

        u_i = Σ_j v_j (r_ij − b) / (Σ_j v_j² + λ),

    the least of equation (8) for this V, without friends.

    Attributes:
        label: what sets it apart within its entry.
        defense: says how much noise there is, and what is cut.
        data: the two data sets.
        items: V `(M,)`.
        trials: worlds of either data set.
    """

    label: str
    defense: PrivSR
    data: DataPair
    items: tuple[float, ...]
    trials: int = 50_000

    def mechanism(self) -> str:
        """The defense with its parameters, and V."""
        shown = ", ".join(f"{factor:.4g}" for factor in self.items)
        return f"{super().mechanism()}; users' factors fitted to V = ({shown})"

    def _rows(self) -> tuple[SocialRows, SocialRows]:
        return (
            self.defense.prepare(self.data.before, self.data.public),
            self.defense.prepare(self.data.after, self.data.public),
        )

    def users(self, rows: SocialRows) -> NDArray[np.float32]:
        """The fitted factors, in the first of the columns that kernels want `(N, size)`."""
        factors = np.array(self.items)[rows.items]
        errors = self.defense.centred(rows).astype(np.float64)
        slope = np.bincount(rows.users, factors * errors, rows.n_users)
        weight = np.bincount(rows.users, factors**2, rows.n_users) + self.defense.decay
        found = _padded(slope / np.where(weight > 0, weight, 1.0))
        self.defense.project(found)
        return found


def _padded(factors: Floats) -> NDArray[np.float32]:
    """One factor each, as a row of the width that kernels want."""
    found = aligned(len(factors), width(1))
    found[:, 0] = factors
    return found


@dataclass(frozen=True, eq=False)
class SubmittedGame(_FittedGame):
    """Observer `public` of one round: the sum of what is submitted about each item."""

    def play(self, trials: int, seed: int) -> Worlds:
        """Draw what is submitted and score it by its law."""
        before, after = self._rows()
        absent, present = self.sums(before), self.sums(after)
        drawn = self.defense.noise(before)
        variance = np.bincount(before.items, drawn.of_rows(before), before.n_items)
        law = _Law(absent, present, np.sqrt(variance), "laplace" if drawn.shared else "normal")
        return law.play("submitted", trials, seed, self.claimed()[1])

    def sums(self, rows: SocialRows) -> Floats:
        """Σ_i 2 (u_i v_j − r_ij) u_i of each item, without noise `(M,)`."""
        users = self.users(rows)
        items = _padded(np.array(self.items))
        order = np.arange(len(rows), dtype=np.int32)
        own = users[rows.users, 0].astype(np.float64)
        errors = own * items[rows.items, 0] - self.defense.centred(rows)
        cut = self.defense.cuts(rows, order, users, items)
        return np.bincount(rows.items, 2 * errors * own * cut, rows.n_items).astype(np.float64)


@dataclass(frozen=True, eq=False)
class MessagesGame(_FittedGame):
    """Observer `friend`: what the last user is sent by her friends.

    Attributes:
        alone: whether she reads the first friend's message, whose noise she gave its size, or the
            sum of all, as if she did not know that size.
    """

    alone: bool = False

    def play(self, trials: int, seed: int) -> Worlds:
        """Draw what is sent and score it by its law."""
        before, after = self._rows()
        drawn, last = self.defense.noise(before), before.n_users - 1
        # What friends tell with noise of their own, she weighs by 2 S, S being 1.
        variance = float(drawn.sent[last]) + 4 * drawn.told
        variance *= 1 if self.alone else int(before.friends[last])
        kind: _Kind = "normal" if not drawn.shared else "shared" if self.alone else "laplace"
        law = _Law(self._sent(before), self._sent(after), np.sqrt([variance]), kind)
        return law.play("sent", trials, seed, self.claimed()[1])

    def _sent(self, rows: SocialRows) -> Floats:
        """2 S u of the first friend, or of all together, without noise `(1,)`."""
        weights = rows.similarity[[rows.n_users - 1]].toarray()[0].astype(np.float64)
        messages = 2 * weights * self.users(rows)[:, 0]
        return np.array([messages[0] if self.alone else messages.sum()])


_Kind = Literal["laplace", "normal", "shared"]


@dataclass(frozen=True)
class _Law:
    """Numbers with independent noise of these deviations in two worlds.

    Attributes:
        absent: the numbers without noise in D `(C,)`.
        present: the same in D'.
        deviation: of the noise `(C,)`.
        kind: `laplace`; `normal`; or `shared`: normal with the variance times h ~ Exp(1), which is
            seen.
    """

    absent: Floats
    present: Floats
    deviation: Floats
    kind: _Kind

    def play(self, purpose: str, trials: int, seed: int, delta: float) -> Worlds:
        """Draw and score by the ratio of the laws."""
        worlds = [
            self._score(exact, Streams.first(seed, f"{purpose}/{world}", trials))
            for exact, world in ((self.absent, "absent"), (self.present, "present"))
        ]
        return Worlds(worlds[0], worlds[1], self.truth(delta))

    def _score(self, exact: Floats, streams: Streams) -> Floats:
        draws = np.empty((len(streams), len(exact)), np.float64)
        scale = np.broadcast_to(self.deviation, draws.shape)
        if self.kind == "laplace":
            exact_noise.laplace(draws, streams.worlds, _NOISE, streams.key)
            scale = scale / np.sqrt(2)
        elif self.kind == "shared":
            # The size of a Laplace draw is exponential.
            exact_noise.laplace(draws, streams.worlds, _SCALES, streams.key)
            scale = scale * np.sqrt(np.maximum(abs(draws), 1e-30))
        if self.kind != "laplace":
            exact_noise.normal(draws, streams.worlds, _NOISE, streams.key)
        shown = NoisedSteps(exact + scale * draws)
        pair = StepsPair(self.absent, self.present, scale, gaussian=self.kind != "laplace")
        # On a grid: unlike ratios that are one event are not told apart.
        return graded(LikelihoodRatio().score(shown, pair))

    def truth(self, delta: float) -> Estimate:
        """The ε of this pair."""
        shifts = (self.present - self.absent) / self.deviation
        if self.kind == "laplace":
            return laplace_vector_epsilon(shifts * np.sqrt(2), 1.0, delta=delta)
        if self.kind == "normal":
            mu = float(np.sqrt((shifts**2).sum()))
            return Estimate.exact(gaussian_epsilon(mu, delta), "normal noise")
        # As h → 0 the ratio has no bound.
        return Estimate.exact(np.inf, "normal noise, whose size is seen and may be near 0")
