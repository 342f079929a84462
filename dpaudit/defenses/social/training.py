"""The rating form of a social recommender: its parameters, its claim, and its training.

Trials are trained one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.claim import Claim, Variant
from dpaudit.core.plugin import STRICT
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.factors import FactorModels, Floats, Indices
from dpaudit.defenses.precision import grids, rounded
from dpaudit.defenses.social.rows import Noise, SocialRows
from dpaudit.defenses.social.shared_training import Sent, SharedTraining, SocialDefense, Summation
from dpaudit.defenses.training_checks import check_rated
from dpaudit.kernels import exact_noise
from dpaudit.kernels.federated import submissions as kernels
from dpaudit.kernels.lanes import aligned

# Steps of the noise source in a round.
_DRAWS = _ITEM_SCALES, _OTHERS, _OWN, _USER_SCALES, _FRIENDS = range(5)

# Passed to the kernel if single submissions are not needed.
_NOT_KEPT = np.empty(0, np.float32)


@parameters(frozen=True, config=STRICT)
class PrivSRSettings(SocialDefense[SocialRows]):
    """Parameters and claim of `PrivSR`, whose docstring describes them."""

    epsilon: Annotated[float, Field(ge=1e-3)]
    variant: Variant = "published"
    noise_kind: Literal["personal", "equal"] = "personal"
    beta: Annotated[float, Field(ge=1e-3, le=1)] = 0.1
    dimensions: Annotated[int, Field(ge=1, le=128)] = 10
    rounds: Annotated[int, Field(ge=1, le=100_000)] = 400
    learning_rate: Annotated[float, Field(ge=1e-12, le=10)] = 1e-4
    decay: Annotated[float, Field(ge=0, le=10)] = 1e-3
    social: Annotated[float, Field(ge=0, le=10)] = 1e-2
    spread: Annotated[float, Field(ge=0, le=10)] = 0.1
    start: Literal["normal", "constant"] = "normal"
    offset: Annotated[float, Field(ge=-1e6, le=1e6)] = 0.0
    clip_norm: Annotated[float, Field(ge=1e-12, le=1e6)] = 1.0
    summation: Summation = "local"
    insiders: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    friends_share: Annotated[float, Field(ge=1e-12, lt=1)] = 0.1
    delta: Annotated[float, Field(ge=1e-60, lt=1)] = 1e-5

    messages: ClassVar[int] = 1
    quick: ClassVar[Mapping[str, Any]] = {"dimensions": 2, "rounds": 3}
    name: ClassVar[str] = "privsr"
    title: ClassVar[str] = "Social matrix factorisation under personal privacy settings"
    source: ClassVar[str] = (
        "Meng, Wang, Shu, Li, Chen, Liu, Zhang, Towards privacy preserving social recommendation "
        "under personalized privacy settings, 2018, doi:10.1007/s11280-018-0620-z, equations (5) "
        "to (10), Algorithm 1; Hua, Xia, Zhong, Differentially private matrix factorization, IJCAI "
        "2015, pages 1763 to 1770; Ma et al. 2011, doi:10.1145/1935826.1935877"
    )

    @model_validator(mode="after")
    def _check(self) -> PrivSRSettings:
        self.check_social()
        return self

    def claim(self) -> Claim | None:
        """The claim: ε for one rating (published), or (ε, δ) for all of a user's (corrected)."""
        if self.variant == "nonprivate":
            return None
        if self.variant == "published":
            return Claim(
                epsilon=self.epsilon,
                delta=0.0,
                adjacency="rating-replace",
                observer="recommender",
                public="who rates what and which ratings are sensitive, the ratings that are not "
                "sensitive except the one that differs, who is whose friend, the initial factors",
                assumes=("no user's factors longer than 1, not enforced",),
                source="Meng et al. 2018, Theorems 1 to 3",
                also=("friend",),
            )
        return self.whole_claim(
            "who rates what, who is whose friend and how similar friends are, the initial "
            "factors, the rating scale",
            # A friend may rate the same items, and so know a share of a secure sum's noise.
            () if self.summed and not self.insiders else ("friend",),
        )

    def noise(self, rows: SocialRows) -> Noise:
        """Return the noise on submissions and messages.

        Raises:
            ConfigError: finite precision would use up too much of ε.
        """
        if self.variant == "nonprivate":
            return Noise(np.zeros((2, rows.n_items)), np.zeros(rows.n_users), False)
        if self.variant == "corrected":
            return self._corrected(rows)
        raters, epsilons = rows.raters, self.personal_epsilons
        if self.noise_kind == "equal":
            raters = np.broadcast_to(raters.sum(0), raters.shape)
            epsilons = self.epsilon, self.epsilon
        # The total variance (2Δ √(2d)/ε)² of each kind, for ε_n and then ε_s.
        whole = 8 * self.dimensions * (rows.scale.width / np.array(epsilons)[:, None]) ** 2
        return Noise(
            submitted=whole / np.maximum(raters, 1),
            sent=8 * self.dimensions / self.epsilon**2 / np.maximum(rows.friends, 1),
            shared=True,
        )

    def _corrected(self, rows: SocialRows) -> Noise:
        mu = self.steps_mu(rows)
        share = self.friends_share
        if not self.social:
            share = 0.0
        # σ = 2c √(T/(1 − share))/μ,  σ_u = 2 √(T/share)/μ
        variance = (2 * self.clip_norm / mu) ** 2 * self.rounds / (1 - share)
        return Noise(
            submitted=self.split(variance, rows.raters),
            sent=np.zeros(rows.n_users),
            shared=False,
            broadcast=4 / mu**2 * self.rounds / share if share else 0.0,
        )

    def centred(self, rows: SocialRows) -> Floats:
        """The ratings less the offset `(R,)`."""
        return rows.values - np.float32(self.offset)

    def project(self, users: Floats) -> None:
        """Project users' factors onto the unit ball, in place, in the corrected form."""
        if self.variant == "corrected":
            norms = np.sqrt(np.einsum("nf,nf->n", users, users, dtype=np.float64))
            users /= np.maximum(norms, 1.0).astype(np.float32)[:, None]

    def cuts(self, rows: SocialRows, order: Indices, users: Floats, items: Floats) -> Floats:
        """Return the clipping factor of each row's submission `(R,)`; 1 without clipping."""
        if self.variant != "corrected":
            return np.ones(len(rows), np.float32)
        # ‖s_i‖² = 4 ‖u_i‖² Σ_j e_ij²
        squares = np.zeros(rows.n_users)
        kernels.deviations(
            order, rows.users, rows.items, self.centred(rows), np.ones(len(rows), np.float32),
            users.reshape(-1), items.reshape(-1), np.zeros(items.size, np.float32), items.shape[1],
            squares,
        )  # fmt: skip
        cuts: Floats = (self.most / np.maximum(2 * np.sqrt(squares), self.most)).astype(np.float32)
        return cuts[rows.users]

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> SocialRows:
        """Prepare the rows and the similarities of friends.

        Args:
            ratings: the training data.
            public: the data whose friends and shared ratings count as public; `ratings` if None.

        Raises:
            ConfigError: there are no ratings, or `social` is set and the data have no friends.
            DataError: the data are purchases, not ratings.
        """
        check_rated(self.name, ratings)
        return SocialRows.of(ratings, ratings if public is None else public, self.social > 0)

    def public_statistics(self, prepared: SocialRows) -> Any:
        """Return how similar friends are."""
        return prepared.similarity.toarray()


@dataclass(frozen=True, eq=False)
class Message:
    """A message from one friend in a round, and what the receiver knows about its noise.

    Attributes:
        shown: `q − 2 S u_f`, or `u_f` with noise if users broadcast, `(d,)`.
        deviations: the standard deviation of the noise, given the receiver's draws, `(d,)`.
        steps: the steps of the grid to which the message is rounded `(d,)`.
    """

    shown: Floats
    deviations: NDArray[np.float64]
    steps: NDArray[np.float64]


class SocialTraining(SharedTraining):
    """One training: the recommender, its users and their friends.

    Attributes:
        message: the last message over the observed link.
    """

    defense: PrivSRSettings
    rows: SocialRows
    noise: Noise
    sign = -1
    draws = len(_DRAWS)
    diverged = (
        "its steps grow instead of shrinking; lower params.learning_rate or social, or raise "
        "epsilon"
    )
    message: Message

    def __init__(
        self,
        defense: PrivSRSettings,
        rows: SocialRows,
        trial: Streams,
        observed: NDArray[np.bool_] | None = None,
        observed_link: tuple[int, int] | None = None,
    ) -> None:
        """Draw the initial factors.

        Args:
            defense: the mechanism.
            rows: the training data.
            trial: the only trial.
            observed: mask of the users whose noise is drawn individually and whose submissions
                `submit` returns `(N,)`; no user if None. The noise of all other users is drawn as
                one sum for each item, which has the same law as the sum that the recommender forms.
            observed_link: the receiver and the sender of the messages whose noise is drawn
                individually, so that `message` is known.
        """
        super().__init__(defense, rows, trial)
        self._observed_link = observed_link
        defense.project(self.users)
        apart = np.zeros(rows.n_users, np.bool_) if observed is None else observed
        self.observed = np.flatnonzero(apart[rows.users]).astype(np.int32)
        self._others = np.flatnonzero(~apart[rows.users]).astype(np.int32)
        variances = self.noise.of_rows(rows)
        self._own = np.sqrt(variances[self.observed])[:, None]
        # The recommender rounds sums to a grid that is as coarse as their noise allows.
        self.summed = np.asarray(np.bincount(rows.items, variances, rows.n_items), np.float64)
        self.steps = grids(np.sqrt(self.summed))
        # The total variances of the noise that is drawn as sums, for each item and for each user.
        self._submitted: NDArray[np.float64] = np.bincount(
            rows.items[self._others], variances[self._others], rows.n_items
        ).astype(np.float64)
        self._sent = self.noise.sent * rows.friends
        self._no_fakes = np.zeros(self.items.size, np.float32)
        # Σ_f S_if `(N, 1)`.
        self._likeness: Floats = np.asarray(rows.similarity.sum(1), np.float32)[:, None]

    def submit(self) -> Sent:
        """Compute the users' submissions of this round from the current V."""
        d, rows = self.defense.dimensions, self.rows
        sums = np.zeros(self.items.shape)
        self._gradients(rows, self._others, self.users, sums, _NOT_KEPT)
        shown = aligned(len(self.observed), self.items.shape[1])
        self._gradients(rows, self.observed, self.users, sums, shown)
        exact, scales = sums.copy(), None
        deviations, steps = self._own, grids(self._own)
        if len(self.observed):
            scales = self._noise.scales(rows.n_items, self._step(_ITEM_SCALES))
        sums[:, :d] += self._noise.sums(self._submitted, scales, self._step(_OTHERS))
        if scales is not None:
            deviations = deviations * np.sqrt(scales[rows.items[self.observed]])
            draws = self._noise.draws(exact_noise.normal, len(self.observed), self._step(_OWN))
            before = shown[:, :d].astype(np.float64)
            shown[:, :d] = rounded(before + deviations * draws, steps)
            np.add.at(sums[:, :d], rows.items[self.observed], shown[:, :d] - before)
        return Sent(shown, deviations, steps, exact, rounded(sums, self.steps[:, None]))

    def gradients(
        self, rows: SocialRows, order: Indices, users: Floats
    ) -> tuple[Floats, NDArray[np.float64]]:
        """Return `2 (u_i · v_j − r_ij) u_i` for the current V, clipped if the defense clips.

        Args:
            rows: the ratings.
            order: the rows to use `(n,)`: all of a user's, or none.
            users: `U`, `(N, size)`.

        Returns:
            Each gradient `(n, size)`, and the sum for each item `(M, size)`.
        """
        shown, sums = aligned(len(order), self.items.shape[1]), np.zeros(self.items.shape)
        self._gradients(rows, order, users, sums, shown)
        return shown, sums

    def _gradients(
        self,
        rows: SocialRows,
        order: Indices,
        users: Floats,
        sums: NDArray[np.float64],
        shown: Floats,
    ) -> None:
        """Add the gradients to `sums`, and write each to `shown` unless that is empty."""
        if not len(order):
            return
        weights = 2 * self.defense.cuts(rows, order, users, self.items)
        kernels.submit(
            order, rows.users, rows.items, self.defense.centred(rows), weights, users.reshape(-1),
            self.items.reshape(-1), self._no_fakes, self.items.shape[1], 0.0, 0.0, 0, 0,
            self._trial.key, sums.reshape(-1), shown.reshape(-1),
        )  # fmt: skip

    def _learn_users(self) -> None:
        slopes = self.slopes(self.rows, self.users)
        if self.defense.social:
            slopes += np.float32(self.defense.social) * self._pull()
        self.move(self.users, slopes)

    def move(self, users: Floats, slopes: Floats) -> None:
        """Update users' factors in place with the gradients `slopes`, and project them.

        Raises:
            NoModelError: the training diverged.
        """
        super().move(users, slopes)
        self.defense.project(users)

    def slopes(self, rows: SocialRows, users: Floats) -> Floats:
        """Return `2 Σ_j (u_i · v_j − r_ij) v_j` of each user for the current V `(N, size)`."""
        slopes = aligned(*users.shape)
        kernels.learn(
            rows.start, rows.items, self.defense.centred(rows), users.reshape(-1),
            self.items.reshape(-1), self.items.shape[1], slopes.reshape(-1),
        )  # fmt: skip
        # The kernel returns the mean over j, without the factor 2.
        slopes *= (2 * np.diff(rows.start)).astype(np.float32)[:, None]
        return slopes

    def _pull(self) -> Floats:
        """Return `2 Σ_f S_if (u_i − u_f) + q_i` of each user, from the messages `(N, size)`."""
        d, broadcast = self.defense.dimensions, self.users
        if self.noise.broadcast:
            broadcast = broadcast.copy()
            variances = np.full(len(broadcast), self.noise.broadcast)
            added = self._noise.sums(variances, None, self._step(_FRIENDS))
            broadcast[:, :d] = rounded(broadcast[:, :d] + added, grids(np.sqrt(variances))[:, None])
        pull: Floats = 2 * (self._likeness * self.users - self.rows.similarity @ broadcast)
        added = self._noise.sums(self._sent, None, self._step(_FRIENDS))
        if self._observed_link and self.noise.broadcast:
            deviations = np.full(d, np.sqrt(self.noise.broadcast))
            self.message = Message(
                broadcast[self._observed_link[1], :d], deviations, grids(deviations)
            )
        elif self._observed_link:
            added[self._observed_link[0]] = self._hear(*self._observed_link)
        pull[:, :d] += added
        return pull

    def _hear(self, user: int, friend: int) -> NDArray[np.float64]:
        """Draw one friend's noise individually, and return the noise of all messages to the user.

        Sets `message`. The returned noise `(d,)` includes the rounding of the message.
        """
        d, share = self.defense.dimensions, self.noise.sent[user]
        scales = self._noise.scales(1, self._step(_USER_SCALES))[0]
        deviations = np.sqrt(share * scales)
        # The first draws of this step belong to the observed submissions.
        drawn = self._noise.draws(exact_noise.normal, len(self.observed) + 2, self._step(_OWN))
        one, others = drawn[-2:]
        exact = -2 * np.float32(self.rows.similarity[user, friend]) * self.users[friend, :d]
        steps = grids(np.full(d, np.sqrt(share)))
        shown = rounded(exact + deviations * one, steps)
        self.message = Message(shown, deviations, steps)
        rest = np.sqrt(self.rows.friends[user] - 1)
        whole: NDArray[np.float64] = shown - exact + deviations * rest * others
        return whole

    def models(self) -> FactorModels:
        """Return the current model."""
        defense = self.defense
        return FactorModels.single(
            self.users, self.items, defense.dimensions, defense.offset, self.rows.scale
        )
