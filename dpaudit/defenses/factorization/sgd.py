"""Matrix factorisation by noised stochastic gradient descent (Berlioz et al. 2015)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.observation import Observer
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemFactors, NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.factorization.sgd_observation import watched_errors, watched_rounds
from dpaudit.defenses.factorization.sgd_settings import SgdSettings
from dpaudit.defenses.factorization.sgd_training import play_rounds
from dpaudit.defenses.factorization.single_model import (
    TOGETHER,
    SingleModel,
    check_small,
    visits,
)
from dpaudit.defenses.factors import FIRST, STEPS_GROW, FactorBlock, FactorModels, FactorRows
from dpaudit.defenses.precision import grid
from dpaudit.defenses.release_observation import release_observers
from dpaudit.defenses.step_observation import step_observer
from dpaudit.defenses.training import check_finite, lane_blocks
from dpaudit.kernels.factorization import model as factor_model

_NOBODY = np.empty(0, np.int32)
_NOTHING = np.empty(0, np.float32)


@parameters(frozen=True, config=STRICT)
class SgdFactors(SgdSettings, TrainedDefense[FactorRows]):
    """Matrix factorisation with biases, trained by stochastic gradient descent with noise.

    **Published** (Berlioz et al. 2015, as wt17 uses it): K passes over the ratings in a fixed
    order; the error of each is noised, then clamped, and drives the updates,

        e = clamp(r − r̂ + Lap(K Δr/ε), ±e_max),   u ← u + η (e v − λ u),   v ← v + η (e u − λ v).

    Its claim, ε for one rating's value, holds against an observer of every iterate, the users'
    factors too: a rating enters through its own K errors alone, each of which moves by at most Δr
    given all that was seen before, and everything else is computed from them. Who rates what, the
    order and `b_0` are public by assumption.

    **Corrected** protects whole users. In each of K rounds every user fits her own factors, which
    she keeps, to the items' factors published so far; her gradient for the items' side, as one
    vector, is cut to the L2 norm c, and the sum is published with Gaussian noise on every
    coordinate:

        v ← (1 − η_v λ) v + η_v (Σ_u cut_c(g_u) + N(0, σ² c²)).

    What a user sends is a function of her own ratings and of what was published, and of norm c at
    most, so K rounds are K Gaussian mechanisms of sensitivity c where a user joins or leaves, 2c
    where she is replaced, each on a Poisson sample of the users with rate q; σ is the least whose
    privacy loss, composed, keeps (ε, δ). `b_0` is the middle of the scale. The sum of squares needs
    no second pass: ‖g_u‖² = (‖u‖² + 1) Σ_i e_ui². It is cut to a hair less than c, sums are formed
    in double precision, and the noised sum is rounded to a public grid before anything is computed
    from it (`precision`).

    Attributes:
        epsilon: ε, 1e-3 to 1e6; `inf` only of `nonprivate`.
        variant: `nonprivate` is plain descent.
        dimensions: d, 1 to 1024. Models of more than 127, a multiple of 16, are trained one at a
            time and visit the popular items first; they have no corrected form here.
        passes: K, passes over the ratings, or rounds.
        rate: η of the descent; in the corrected form of each user's own factors.
        decay: λ.
        spread: the standard deviation of the initial factors.
        bound: e_max, the largest error; `nonprivate` has none.
        clip: c, the largest norm of a user's part in a round.
        item_rate: η_v, the step of a round.
        sampling: q, the share of the users who take part in a round.
        delta: δ of the corrected claim, 1e-60 at least: normal draws end at 21 deviations.
        adjacency: the neighbours that the corrected claim is about.
    """

    def train(self, rows: FactorRows, streams: Streams) -> FactorModels:
        """The models of these worlds.

        Raises:
            RunError: a training diverged.
        """
        if self.dimensions > TOGETHER:
            blocks = [self._single(rows, world).joined() for world in streams.blocks(1)]
        else:
            found = [self._together(rows, part) for part in lane_blocks(streams)]
            blocks = [(block.users, block.items) for block in found]
        return FactorModels(
            users=[users for users, _ in blocks],
            items=[items for _, items in blocks],
            worlds=len(streams),
            mean=rows.mean,
            scale=rows.scale,
        )

    def _single(self, rows: FactorRows, streams: Streams) -> SingleModel:
        model = SingleModel.drawn(rows, self.dimensions, self.spread, streams)
        visited = visits(rows, self.dimensions)
        for t in range(self.passes):
            factor_model.descend(
                *visited,
                *model.parts(),
                self.dimensions,
                np.float32(rows.mean),
                np.float32(self.rate),
                np.float32(self.decay),
                self.noise_scale(rows.scale),
                grid(self.noise_scale(rows.scale)),
                np.float32(self._largest_error),
                FIRST + t,
                int(streams.worlds[0]),
                streams.key,
            )
            check_finite(self.name, t + 1, "pass", STEPS_GROW, *model.parts())
        return model

    def _together(self, rows: FactorRows, streams: Streams) -> FactorBlock:
        block = self.drawn(rows, streams)
        if self.variant == "corrected":
            play_rounds(self, rows, block, streams)
        else:
            for t in range(self.passes):
                self.descend(rows, block, streams, t, _NOBODY, _NOTHING)
        return block

    def observers(self) -> Mapping[str, Observer[FactorRows]]:
        """Everybody sees each iterate, and the final model."""
        return {
            "iterates": step_observer(self.watch, "each iterate"),
            **release_observers(self, ItemFactors),
        }

    def check_observed(self, observer: str) -> None:
        """Refuse to observe every step of a model that is trained alone.

        Raises:
            ConfigError: it is.
        """
        if observer == "iterates":
            check_small(self.dimensions, "games that see each step play")

    def separates_ratings(self) -> bool:
        """Whether each rating has noise of its own: in the published form."""
        return self.variant == "published"

    def watch(
        self, before: FactorRows, after: FactorRows, trained: FactorRows, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """What the steps on one of two data sets show where these differ, in up to 16 worlds.

        Args:
            before: world `D`.
            after: world `D'`.
            trained: which of the two is learned from.
            streams: the worlds.

        Raises:
            ConfigError: the data sets are no neighbours of the claim, or the model is large.
            RunError: a training diverged.
        """
        check_small(self.dimensions, "an observer of every iterate watches")
        if self.variant == "corrected":
            yield from watched_rounds(self, before, after, trained, streams)
        else:
            yield watched_errors(self, before, after, trained, streams)
