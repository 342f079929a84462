"""Social matrix factorisation under personal privacy settings (Meng et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.bounds.model_based.gdp import gaussian_mu
from dpaudit.core.claim import Claim, ObserverName, Variant
from dpaudit.core.errors import ConfigError
from dpaudit.core.plugin import STRICT, Part
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.core.transcripts import Submissions
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.factors import FactorModels, Floats, Indices, joined
from dpaudit.defenses.precision import kept_budget
from dpaudit.defenses.social.friend_observation import audible, watched_messages
from dpaudit.defenses.social.observation import followed, watched_rounds, watched_sums
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.defenses.social.shared_noise import Summation, check_summation, honest_raters
from dpaudit.defenses.social.submissions import submitted
from dpaudit.defenses.social.training import Noise, Society
from dpaudit.defenses.training import Watch, check_epsilon, check_rated
from dpaudit.kernels.federated import submissions as kernels


@parameters(frozen=True, config=STRICT)
class PrivSR(Part):
    """Matrix factorisation that draws friends together, `r̂ = b + u · v`, by gradient descent.

    Everybody has the items' factors V; each user keeps her u, and which of her ratings are
    sensitive is her choice. In each of T rounds she submits for every item that she rated

        s_ij = 2 (u_i · v_j − r_ij) u_i + noise,      v_j ← v_j − γ (Σ_i s_ij + 2λ v_j),

    then friends send each other their factors, weighed by the cosine S of what both rated and
    neither keeps to herself, and she moves

        u_i ← u_i − γ (2 Σ_j (u_i · v_j − r_ij) v_j + Σ_f α (2 S_if (u_i − u_f) + q_if) + 2λ u_i)

    (equations (8) to (10), Algorithm 1).

    **Published**: for each item and round the recommender draws `h_j ~ Exp(1)^d`, which all share
    who submit for it. A rating that is sensitive has the noise `(2Δ √(2d h_j)/ε_s) c`,
    `c ~ N(0, I/n)`, n being how many submit a sensitive one, others the same with ε_n and their own
    number: so that the noise of either kind adds up to `Lap(2Δ√d/ε_s)` and `Lap(2Δ√d/ε_n)`
    (Lemma 1), with `ε_s = (1 + β) ε`, `ε_n = (1 + 1/β) ε`. In the same way what friends send user i
    has noise that adds up to `Lap(2√d/ε)`. It claims ε for one rating against the recommender and
    friends (Theorem 3), as if V were seen once, after convergence; as if its noises added up to
    `Lap(2Δ√d/ε)`; as if the recommender did not know h; and as if ‖u‖ were at most 1. With `equal`
    noise there is one kind, with ε: the baseline that the paper calls DPMF (Hua, Xia, Zhong 2015).

    **Corrected** protects all of a user's ratings. What she submits in a round, of all items
    together, is cut to the L2 norm c as one vector, so that it moves by 2c at most however her
    ratings change, given what was published before; the noise is `N(0, σ²)` on each coordinate,
    drawn by each user for herself (`local`), or in shares under a secure summation that shows the
    recommender sums alone (`secure`). V tells everybody the sums, and a user knows her own share:
    with k of them who may tell (`insiders`) the shares of an item's n_j raters are
    `N(0, σ²/max(n_j − k, 1))`, so that σ² is left without theirs. u is kept in the unit ball, so
    that it moves by 2 at most, and is told with noise `N(0, σ_u²)`: once a round, and the same to
    all whose friend she is, who weigh it themselves. What they submit after that shows no more of
    her than what she told. So all that recommender and friends see of T rounds together is μ-GDP
    with

        μ² = (2c/σ)² T + (2/σ_u)² T

    (Dong, Roth, Su 2019, Corollary 3.3); μ is the largest that keeps (ε, δ), and `friends_share` of
    μ² is the friends'. Who rates what, who is whose friend and S are public.

    **Nonprivate** has no noise: SoReg, or without `social` plain matrix factorisation.

    Attributes:
        epsilon: ε, 1e-3 to 1e6; `inf` only of `nonprivate`.
        variant: whose mechanism it is.
        noise_kind: of the published form: `personal`, or `equal` noise for all ratings.
        beta: β, the share ε_s/ε_n.
        dimensions: d.
        rounds: T.
        rate: γ.
        decay: λ.
        social: α, the weight of friends.
        spread: the standard deviation of the initial factors, or all of them.
        start: whether initial factors are drawn from a normal law, or are the same constant, which
            in one dimension makes a training exact.
        offset: b, a public constant; the paper has none.
        clip: c, the largest norm of what a user submits in a round.
        summation: of the corrected form: who sees what is submitted.
        insiders: under a secure summation, how many raters of an item, friends or not, may put
            together what noise they drew; a user of whom the claim speaks is none of them.
        friends_share: the share of μ² that is spent on what friends see.
        delta: δ of the corrected claim, 1e-60 at least: normal draws end at 21 deviations.
    """

    epsilon: Annotated[float, Field(ge=1e-3)]
    variant: Variant = "published"
    noise_kind: Literal["personal", "equal"] = "personal"
    beta: Annotated[float, Field(ge=1e-3, le=1)] = 0.1
    dimensions: Annotated[int, Field(ge=1, le=128)] = 10
    rounds: Annotated[int, Field(ge=1, le=100_000)] = 400
    rate: Annotated[float, Field(ge=1e-12, le=10)] = 1e-4
    decay: Annotated[float, Field(ge=0, le=10)] = 1e-3
    social: Annotated[float, Field(ge=0, le=10)] = 1e-2
    spread: Annotated[float, Field(ge=0, le=10)] = 0.1
    start: Literal["normal", "constant"] = "normal"
    offset: Annotated[float, Field(ge=-1e6, le=1e6)] = 0.0
    clip: Annotated[float, Field(ge=1e-12, le=1e6)] = 1.0
    summation: Summation = "local"
    insiders: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    friends_share: Annotated[float, Field(ge=1e-12, lt=1)] = 0.1
    delta: Annotated[float, Field(ge=1e-60, lt=1)] = 1e-5

    name: ClassVar[str] = "privsr"
    title: ClassVar[str] = "Social matrix factorisation under personal privacy settings"
    source: ClassVar[str] = (
        "Meng, Wang, Shu, Li, Chen, Liu, Zhang, Towards privacy preserving social recommendation "
        "under personalized privacy settings, 2018, doi:10.1007/s11280-018-0620-z, equations (5) "
        "to (10), Algorithm 1; Hua, Xia, Zhong, Differentially private matrix factorization, IJCAI "
        "2015, pages 1763 to 1770; Ma et al. 2011, doi:10.1145/1935826.1935877"
    )

    @model_validator(mode="after")
    def _check(self) -> PrivSR:
        check_epsilon(self.epsilon, self.variant, "noise")
        check_summation(self.summation, self.variant)
        return self

    def claim(self) -> Claim | None:
        """ε for a rating, or (ε, δ) for all of a user's."""
        if self.variant == "nonprivate":
            return None
        if self.variant == "published":
            return Claim(
                epsilon=self.epsilon,
                delta=0.0,
                adjacency="rating-replace",
                observer="recommender",
                public="who rates what and which ratings are sensitive, those that are not "
                "sensitive but for the one in doubt, who is whose friend, the factors that "
                "training starts from",
                assumes=("no user's factors longer than 1, not enforced",),
                source="Meng et al. 2018, Theorems 1 to 3",
                also=("friend",),
            )
        return Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency="user-replace",
            observer="recommender",
            public="who rates what, who is whose friend and how alike they are, the factors that "
            "training starts from, the scale",
            source="class docstring; Dong, Roth, Su 2019, Corollary 3.3, arXiv:1905.02383",
            # A friend may rate the same items.
            also=() if self._sums and not self.insiders else ("friend",),
        )

    def noise(self, rows: SocialRows) -> Noise:
        """The noise on what is submitted and sent.

        Raises:
            ConfigError: finite precision would take too much of ε.
        """
        if self.variant == "nonprivate":
            return Noise.none(rows)
        if self.variant == "corrected":
            return self._corrected(rows)
        # (2Δ √(2d)/ε)² of all who share a kind.
        whole = 8 * self.dimensions * (rows.scale.width / np.array(self._epsilons)[:, None]) ** 2
        raters = rows.raters
        if self.noise_kind == "equal":
            raters = np.broadcast_to(raters.sum(0), raters.shape)
        return Noise(
            submitted=whole / np.maximum(raters, 1),
            sent=8 * self.dimensions / self.epsilon**2 / np.maximum(rows.friends, 1),
            shared=True,
        )

    @property
    def _epsilons(self) -> tuple[float, float]:
        """ε_n and ε_s."""
        if self.noise_kind == "equal":
            return self.epsilon, self.epsilon
        return (1 + 1 / self.beta) * self.epsilon, (1 + self.beta) * self.epsilon

    def _corrected(self, rows: SocialRows) -> Noise:
        # Finite precision takes its part of ε and δ.
        numbers = self.rounds * (rows.n_items + 1) * self.dimensions
        mu = gaussian_mu(*kept_budget(self.epsilon, self.delta, numbers))
        share = self.friends_share
        if not self.social:
            share = 0.0
        # σ = 2c √(T/(1 − share))/μ,  σ_u = 2 √(T/share)/μ
        own = (2 * self.clip / mu) ** 2 * self.rounds / (1 - share)
        among = honest_raters(rows.raters.sum(0), self.insiders) if self._sums else 1
        return Noise(
            submitted=np.broadcast_to(own / among, (2, rows.n_items)),
            sent=np.zeros(rows.n_users),
            shared=False,
            told=4 / mu**2 * self.rounds / share if share else 0.0,
        )

    def centred(self, rows: SocialRows) -> Floats:
        """The ratings less the offset `(R,)`."""
        return rows.values - np.float32(self.offset)

    def project(self, users: Floats) -> None:
        """Keep users' factors in the unit ball, in place, where the form does."""
        if self.variant == "corrected":
            norms = np.sqrt(np.einsum("nf,nf->n", users, users, dtype=np.float64))
            users /= np.maximum(norms, 1.0).astype(np.float32)[:, None]

    def cuts(self, rows: SocialRows, order: Indices, users: Floats, items: Floats) -> Floats:
        """What the submissions of each row are multiplied by `(R,)`."""
        if self.variant != "corrected":
            return np.ones(len(rows), np.float32)
        # ‖s_i‖² = 4 ‖u_i‖² Σ_j e_ij²
        squares = np.zeros(rows.n_users)
        kernels.deviations(
            order, rows.users, rows.items, self.centred(rows), np.ones(len(rows), np.float32),
            users.reshape(-1), items.reshape(-1), np.zeros(items.size, np.float32), items.shape[1],
            squares,
        )  # fmt: skip
        # A hair less, as the cut vector is rounded.
        most = self.clip * (1 - 1e-5)
        cuts: Floats = (most / np.maximum(2 * np.sqrt(squares), most)).astype(np.float32)
        return cuts[rows.users]

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> SocialRows:
        """The rows, and how alike friends are.

        Args:
            ratings: what is learned from.
            public: the data whose links, and what friends share in them, count as public.

        Raises:
            ConfigError: there is nothing to learn from, or friends weigh and are not known.
            DataError: these are purchases and no ratings.
        """
        check_rated(self.name, ratings)
        return SocialRows.of(ratings, ratings if public is None else public, self.social > 0)

    def train(self, rows: SocialRows, streams: Streams) -> FactorModels:
        """The models of these worlds.

        Raises:
            RunError: a training diverged.
        """
        found = []
        for world in streams.blocks(1):
            society = Society(self, rows, world)
            for _ in range(self.rounds):
                society.play()
            found.append(society.models())
        return joined(found)

    @property
    def watchers(self) -> dict[ObserverName, Watch[SocialRows]]:
        """How each observer watches; friends receive something of what was learned in a round."""
        found: dict[ObserverName, Watch[SocialRows]] = {
            "recommender": self.watch, "iterates": self.watch_items,
        }  # fmt: skip
        if self.social and self.rounds > 1:
            found["friend"] = self.watch_messages
        return found

    def watch(
        self, before: SocialRows, after: SocialRows, trained: SocialRows, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """What the recommender sees of users in whom two data sets differ, round by round.

        Args:
            before: world `D`.
            after: world `D'`.
            trained: which of the two is learned from.
            streams: the worlds.

        Raises:
            ConfigError: the two data sets are no such neighbours, or friends hide the law.
            RunError: a training diverged.
        """
        self.check_watched()
        seen = watched_sums if self._sums else watched_rounds
        return seen(self, before, after, trained, streams)

    def watch_items(
        self, before: SocialRows, after: SocialRows, trained: SocialRows, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """What everybody sees, V after each round; the arguments are those of `watch`."""
        self.check_watched()
        return watched_sums(self, before, after, trained, streams)

    def watch_messages(
        self, before: SocialRows, after: SocialRows, trained: SocialRows, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """What a friend is sent, round by round; the arguments are those of `watch`."""
        self.check_watched()
        return watched_messages(self, before, after, trained, streams)

    def submissions(
        self, rows: SocialRows, world: Streams, users: NDArray[np.bool_]
    ) -> tuple[Submissions, FactorModels]:
        """What the recommender has of these users `(N,)` after a training, and the model.

        Raises:
            RunError: the training diverged.
        """
        return submitted(self, rows, world, users)

    def check_submissions(self) -> None:
        """Refuse to read single submissions where the recommender sees sums alone.

        Raises:
            ConfigError: with the remedy.
        """
        if self._sums:
            raise ConfigError(
                "params.summation = 'secure' shows the recommender sums of submissions and none by "
                "itself: audit it with 'reconstruction' in a config of its own, or set 'local'"
            )

    def check_watched(self) -> None:
        """Refuse games that see each round where there is no noise.

        Raises:
            ConfigError: with the remedy.
        """
        if self.variant == "nonprivate":
            raise ConfigError(
                "games that see each round compare noised submissions, and variant = 'nonprivate' "
                "has none: use a private variant, or observe = 'public'"
            )

    def watchable(self, ratings: Ratings, observer: ObserverName) -> NDArray[np.bool_]:
        """The users whose factors can be followed, as friends send them nothing `(N,)`.

        Where a `friend` watches, those whose messages show her much.

        Raises:
            ConfigError: the observer sees sums, whose law friends hide.
        """
        sums = observer == "iterates" or (self._sums and observer == "recommender")
        alone = followed(self, ratings, sums)
        return audible(self, ratings, alone) if observer == "friend" else alone

    @property
    def _sums(self) -> bool:
        """Whether the recommender sees sums of submissions alone."""
        return self.variant == "corrected" and self.summation == "secure"
