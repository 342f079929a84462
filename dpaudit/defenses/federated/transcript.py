"""What the server of a federated training sees of its users, and what is true beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import Streams
from dpaudit.core.transcripts import Pairs, Round
from dpaudit.defenses.factors import FactorModels
from dpaudit.defenses.federated.candidates import Candidates, Floats
from dpaudit.defenses.federated.training import Federation, Submitted

if TYPE_CHECKING:
    from dpaudit.defenses.federated.settings import FakeGradientsSettings


@dataclass(frozen=True)
class Distances:
    """Mean squared distances over all ratings, from what a fake is in one round.

    With `ḡ_j` the mean gradient of item j's raters, `E‖g − F‖² = scatter + apart`.

    Attributes:
        scatter: `‖g_ij − ḡ_j‖²`: no choice of one F for all users makes it less.
        apart: `‖ḡ_j − F_j‖²`.
        delay: `‖ḡ_j(t) − ḡ_j(t − 1)‖²`, of `apart` what is due to the mean's delay; 0 at first.
        estimate: `‖F_j(t) − ḡ_j(t − 1)‖²`, what is due to the noise in the estimate of the mean; 0
            at first. Both are 0 where F is no estimate of the round before.
    """

    scatter: float
    apart: float
    delay: float
    estimate: float


class Transcript:
    """One training as its server sees it: `pairs`, then round after round.

    Attributes:
        pairs: the pairs of a user and an item that are watched.
        real: which of them were rated, `(P,)`: the truth.
        floored: how many items' shares were estimated below the least that is used.
    """

    def __init__(
        self,
        defense: FakeGradientsSettings,
        candidates: Candidates,
        world: Streams,
        users: NDArray[np.bool_],
    ) -> None:
        """Begin a training in which these users' submissions are watched `(N,)`."""
        self._federation = Federation(defense, candidates, world, apart=users)
        rows = users[candidates.users]
        server = self._federation.server
        self.pairs = Pairs(
            users=candidates.users[rows],
            items=candidates.items[rows],
            dimensions=defense.dimensions,
            sigma=self._federation.sigma,
            level=defense.level if defense.fakes == "two-valued" else None,
            shares=server.shares,
            candidates=np.bincount(candidates.items, minlength=candidates.n_items),
        )
        self.real = candidates.real[rows]
        self.floored = server.floored
        self._watched = rows
        # The place of each candidate among the pairs.
        self._place = (np.cumsum(rows) - 1).astype(np.int32)
        self._raters = np.bincount(candidates.items[candidates.real], minlength=candidates.n_items)
        self._mean: NDArray[np.float64] | None = None

    def models(self) -> FactorModels:
        """The model as it stands after the rounds that were played."""
        return self._federation.models()

    def rounds(self) -> Iterator[tuple[Round, Distances | None]]:
        """Play the training to its end; `models` are those after the round that was yielded.

        The distances are None where a fake is no F, a submission is cut, or users submit some of
        their candidates.

        Raises:
            RunError: it diverged.
        """
        federation, server = self._federation, self._federation.server
        d = federation.defense.dimensions
        for _ in range(federation.defense.rounds):
            sent = federation.submit()
            mine = self._watched[sent.apart]
            if not mine.all():  # two-valued submissions are all drawn one by one
                sent = replace(sent, apart=sent.apart[mine], shown=sent.shown[mine])
            seen = Round(
                place=self._place[sent.apart],
                shown=_cut(sent.shown, d),
                factors=server.factors[:, :d].copy(),
                fakes=server.fakes[:, :d].copy(),
                gradients=_cut(self._gradients(sent), d),
                made_up=self._made_up(sent),
            )
            distances = self._distances()
            federation.learn(sent)
            yield seen, distances

    def _gradients(self, sent: Submitted) -> Floats:
        """What each would submit without noise if she had rated the item `(n, size)`."""
        devices, server = self._federation.devices, self._federation.server
        found = devices.gradients(sent.apart, devices.values, server.factors)
        if self._federation.defense.variant == "corrected":
            own = self._federation.candidates
            fakes = server.fakes[own.items[sent.apart]]
            apart = found - fakes
            # A pair that is real is in her norm already.
            more = np.where(own.real[sent.apart], 0, np.square(apart, dtype=np.float64).sum(1))
            squares = devices.squares(sent.order, server.factors, server.fakes)
            cuts = devices.cut(squares[own.users[sent.apart]] + more)
            found = fakes + cuts[:, None] * apart
        return found

    def _made_up(self, sent: Submitted) -> Floats | None:
        """What each would submit without noise if she had not, where that is not F `(n, d)`."""
        federation = self._federation
        if federation.defense.fakes != "rating":
            return None
        found = federation.devices.gradients(
            sent.apart, federation.made_up(), federation.server.factors
        )
        return _cut(found, federation.defense.dimensions)

    def _distances(self) -> Distances | None:
        defense = self._federation.defense
        if defense.variant == "corrected" or defense.fakes not in {"zero", "delayed-mean"}:
            return None
        if not self._federation.all_submit:
            return None
        server, raters = self._federation.server, self._raters
        sums, squares = self._federation.devices.moments(server.factors)
        mean = sums / np.maximum(raters, 1)[:, None]

        def averaged(vectors: NDArray[np.floating]) -> float:
            return float(np.einsum("m,mf,mf->", raters, vectors, vectors) / max(raters.sum(), 1))

        before, self._mean = self._mean, mean
        # Of other fakes, and of steps that lag, F is no estimate of the round before.
        follows = defense.fakes == "delayed-mean" and not defense.delay
        return Distances(
            scatter=float(squares.sum() / max(raters.sum(), 1)) - averaged(mean),
            apart=averaged(mean - server.fakes),
            delay=0.0 if before is None or not follows else averaged(mean - before),
            estimate=0.0 if before is None or not follows else averaged(server.fakes - before),
        )


def _cut(rows: Floats, dimensions: int) -> Floats:
    """The coordinates of the model, without those that fill the lanes."""
    return np.ascontiguousarray(rows[:, :dimensions])
