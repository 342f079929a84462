"""Social ranking of items under personal privacy settings (Meng et al. 2018, section 5.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.claim import Claim, Variant
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.memory import check_memory
from dpaudit.core.plugin import STRICT
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import Targets
from dpaudit.defenses.factors import Floats, Indices, RankingModels, width
from dpaudit.defenses.precision import grids, rounded
from dpaudit.defenses.social.rows import PreferenceSets, RankingNoise, RankingRows, offered
from dpaudit.defenses.social.shared_training import Sent, SharedTraining, SocialDefense, Summation
from dpaudit.kernels import exact_noise
from dpaudit.kernels.lanes import aligned
from dpaudit.kernels.social import preferences
from dpaudit.kernels.social.preferences import draw

# Steps of the noise source in a round.
_DRAWS = _TRIPLES, _SCALES, _OTHERS, _OWN = range(4)

# Stands for all triples, instead of drawn ones.
NONE: Indices = np.empty((0, 0), np.int32)


class RankingTraining(SharedTraining):
    """One training: the recommender and its users, who send each other no messages."""

    defense: PrivSRRanking
    rows: RankingRows
    noise: RankingNoise
    sign = 1
    draws = len(_DRAWS)
    diverged = "its steps grow instead of shrinking; lower params.learning_rate, or raise epsilon"

    def __init__(
        self,
        defense: PrivSRRanking,
        rows: RankingRows,
        trial: Streams,
        observed: Indices | None = None,
    ) -> None:
        """Draw the initial factors.

        Args:
            defense: the mechanism.
            rows: the training data.
            trial: the only trial.
            observed: the users whose noise is drawn individually, increasing `(n,)`; none if
                None. The noise of all other users is drawn as one sum for each item, which has
                the same law as the sum that the recommender forms.

        Raises:
            ConfigError: the factors or the observed users' submissions do not fit the memory.
        """
        super().__init__(defense, rows, trial)
        self.observed = np.empty(0, np.int32) if observed is None else observed
        check_memory(
            "the submissions of the observed users",
            f"their number ({len(self.observed):,}) times that of items ({rows.n_items:,}) times "
            f"params.dimensions ({defense.dimensions})",
            # One in single precision with padding; its noise, deviation and mean in double.
            len(self.observed)
            * rows.n_items
            * (4 * width(defense.dimensions) + 48 * defense.dimensions),
            "lower params.dimensions, raise data.least_raters",
        )
        self._own = self.noise.of_users(rows, self.observed)
        others = np.setdiff1d(np.arange(rows.n_users), self.observed)
        self._others = others.astype(np.int32)
        # Without other users, a nonzero difference is only a rounding error.
        self.summed = self.noise.summed(rows)
        rest = self.summed - self._own.sum(0)
        self._rest = np.maximum(rest, 0.0) if len(others) else np.zeros(rows.n_items)
        self._triples = NONE, NONE
        # The recommender rounds sums to a grid that is as coarse as their noise allows.
        self.steps = grids(np.sqrt(self.summed))

    def _drawn(self) -> tuple[Indices, Indices]:
        """Draw this round's triples of all users; `NONE` if all triples are used.

        Raises:
            ConfigError: they do not fit the memory.
        """
        if self.defense.triples == "all":
            return NONE, NONE
        shape = (self.rows.n_users, 2 * self.defense.triples)
        check_memory(
            "the triples of a round",
            f"the number of users ({self.rows.n_users:,}) times params.triples "
            f"({self.defense.triples:,})",
            2 * 4 * shape[0] * shape[1],
            "lower params.triples",
        )
        better, worse = np.empty(shape, np.int32), np.empty(shape, np.int32)
        draw(
            *self.rows.sets.columns, self.rows.sets.places, self.rows.n_items, self._step(_TRIPLES),
            int(self._trial.trials[0]), self._trial.key, better, worse,
        )  # fmt: skip
        return better, worse

    def submit(self) -> Sent:
        """Compute the users' submissions of this round from the current V."""
        d = self.defense.dimensions
        self._triples = self._drawn()
        sums = self.gradients(self.rows.sets, self._others, self.users, self._triples, False)[0]
        observed_sums, shown = self.gradients(
            self.rows.sets, self.observed, self.users, self._triples
        )
        sums += observed_sums
        exact, scales = sums.copy(), None
        deviations = np.sqrt(self._own)[:, :, None]
        steps = grids(deviations)
        if len(self.observed):
            scales = self._noise.scales(self.rows.n_items, self._step(_SCALES))
            deviations = deviations * np.sqrt(scales)
            draws = self._noise.draws(exact_noise.normal, shown[:, :, 0].size, self._step(_OWN))
            before = shown[:, :, :d].astype(np.float64)
            added = deviations * draws.reshape(deviations.shape)
            shown[:, :, :d] = rounded(before + added, steps)
            sums[:, :d] += (shown[:, :, :d] - before).sum(0)
        sums[:, :d] += self._noise.sums(self._rest, scales, self._step(_OTHERS))
        return Sent(shown, deviations, steps, exact, rounded(sums, self.steps[:, None]))

    def gradients(
        self,
        sets: PreferenceSets,
        order: Indices,
        users: Floats,
        triples: tuple[Indices, Indices],
        shows: bool = True,
    ) -> tuple[NDArray[np.float64], Floats]:
        """Compute submissions without noise from the current V, clipped if the defense clips.

        Args:
            sets: the users' sets.
            order: the indices of the users who submit `(n,)`.
            users: the users' factors.
            triples: the users' drawn triples, or `NONE` twice for all triples.
            shows: whether to return single submissions, and not only the sums.

        Returns:
            The sum for each item `(M, size)`, and each submission `(n, M, size)`, with n = 0 unless
            `shows`.
        """
        items, size = self.items, self.items.shape[1]
        sums = np.zeros(items.shape)
        shown = aligned(len(order) if shows else 0, *items.shape)
        preferences.submit(
            order, *triples, *sets.columns, users.reshape(-1), items.reshape(-1), size,
            self.defense.most, sums.reshape(-1), shown.reshape(-1),
        )  # fmt: skip
        return sums, shown

    def _learn_users(self) -> None:
        self.move(self.users, self.slopes(self.rows.sets, self.users, self._triples))

    def slopes(
        self, sets: PreferenceSets, users: Floats, triples: tuple[Indices, Indices]
    ) -> Floats:
        """Return `Σ_j a_ij v_j` of each user for the current V `(n, size)`."""
        slopes = aligned(*users.shape)
        preferences.learn(
            *triples, *sets.columns, users.reshape(-1), self.items.reshape(-1), users.shape[1],
            slopes.reshape(-1),
        )  # fmt: skip
        return slopes

    def models(self) -> RankingModels:
        """Return the current model."""
        return RankingModels([self.users], [self.items], self.defense.dimensions)


class _Counterfactual:
    """The target users with their sets of one data set, trained beside the actual training."""

    def __init__(self, training: RankingTraining, rows: RankingRows, targets: Indices) -> None:
        self._sets, self._training = rows.sets.of_users(targets), training
        self._order = np.arange(len(targets), dtype=np.int32)
        self._users = training.users[targets]

    def submissions(self) -> Floats:
        """Return what each would submit without noise `(n, M, size)`."""
        return self._gradients(shows=True)[1]

    def sum(self) -> NDArray[np.float64]:
        """Return the sum of their noiseless submissions for each item `(M, size)`."""
        return self._gradients(shows=False)[0]

    def _gradients(self, shows: bool) -> tuple[NDArray[np.float64], Floats]:
        return self._training.gradients(self._sets, self._order, self._users, (NONE, NONE), shows)

    def learn(self) -> None:
        """Update their factors from the current V."""
        slopes = self._training.slopes(self._sets, self._users, (NONE, NONE))
        self._training.move(self._users, slopes)


@parameters(frozen=True, config=STRICT)
class PrivSRRanking(SocialDefense[RankingRows]):
    """A factorisation that ranks items by `u · v`, by gradient ascent on users' preferences.

    Everybody has the item factors V; each user keeps their own factors u. P_i is the set of items
    that user i holds. F_i is the set of items that their friends hold and share and that user i
    does not hold. N_i is the set of all other items. User i prefers P_i to F_i, and F_i to N_i. A
    triple (i, j, k) says that user i prefers item j to item k. With
    ψ_ijk = 1/(1 + e^(u_i · v_j − u_i · v_k)) for the triples of user i, the user submits in each of
    T rounds, for **every** item,

        s_ij = a_ij u_i + noise,    a_ij = Σ ψ_ijk − Σ ψ_ikj,      v_j ← v_j + γ (Σ_i s_ij − 2λ v_j)

    (only noise if no triple has the item), then updates `u_i ← u_i + γ (Σ_j a_ij v_j − 2λ u_i)`
    (equations (11) to (14), Algorithm 2). Friends send each other nothing but what they share.

    The paper leaves some points open. The choices here are:

    - Triples: a user draws `triples` of each kind, uniformly among their own, with replacement, new
      in each round, the same for V and u. Sums are not scaled up to all triples.
    - A user whose F_i is empty, a case that (11) does not cover, prefers P_i to N_i, as in BPR and
      SBPR.
    - `+ λΩ` is taken to pull towards 0.

    **Published**: for each item and round, the recommender draws `h_j ~ Exp(1)^d`, which all users
    share. A user to whom the item is sensitive adds `(√(2d h_j)/ε_s) c`, `c ~ N(0, I/n)`, where n
    is the number of these users. All other users do the same with ε_n and their own number n. So
    the noise of the two kinds adds up to `Lap(√d/ε_s)` and `Lap(√d/ε_n)` (Lemma 1), with
    `ε_s = (1 + β) ε` and `ε_n = (1 + 1/β) ε`. For this form, the paper has no baseline with equal
    noise.

    The claim is ε (Theorem 4). Its proof has these gaps:

    - The proof (section 6.4) lets one feedback change while the sets P_i, F_i, N_i stay the same.
      But a feedback is only present or absent, so no such change exists. Data sets that differ in
      one feedback differ by what Definition 1 calls removal or addition, and those are the
      neighbours here. Between them, an item j moves from N_i or F_i to P_i.
    - The proof bounds the change of s_ij by `|ψ̃ − ψ| ‖u‖ < 1`. But a_ij is a sum of many ψ. As
      ψ_ijk + ψ_ikj = 1, an item that leaves N_i changes a_ij by |F_i| and the a of each item of F_i
      by −1, whatever the scores: by 2|F_i| in all.
    - The proof treats V as seen once, but it is seen in each round. The two noises do not add up to
      `Lap(√d/ε)`. The recommender knows h. Nothing keeps ‖u‖ at most 1.

    What friends share counts as public, and so do the privacy settings: an item that a user keeps
    private has noise with ε_s whether the user holds it or not. Then a purchase changes neither
    other users' sets nor any noise. This choice favours the claim.

    **Corrected** protects all that a user holds.

    - All that a user submits in a round, for all items together, is clipped as one vector to the L2
      norm c. Given all that was published before, it moves by at most 2c, however the user's
      purchases and triples change.
    - The noise is `N(0, σ²)` on each coordinate of each item. Either each user adds noise of this
      variance (`local`), or users add shares of it under a secure summation, which shows the
      recommender only sums (`secure`). A share is `N(0, σ²/max(N − k, 1))`, so that σ² remains even
      if k users reveal their shares (`insiders`).

    T rounds are μ-GDP with

        μ = 2c√T/σ

    (Dong, Roth, Su 2019, Corollary 3.3) for any fixed triples. The same holds for drawn triples,
    because the δ(ε) of two mixtures is at most the largest δ(ε) of their parts. μ is the largest
    that satisfies (ε, δ). What a user shares enters the F of all whose friend they are; so the
    claim treats as public what users share and who is whose friend. All users submit about all
    items, so that submitting does not reveal what a user holds.

    **Nonprivate** has no noise: SBPR, or BPR without `social`.

    Attributes:
        epsilon: ε, 1e-3 to 1e6; `inf` only for `nonprivate`.
        variant: published, corrected or nonprivate, as described above.
        beta: β, the ratio ε_s/ε_n.
        dimensions: d.
        rounds: T.
        learning_rate: γ.
        decay: λ.
        social: whether to use what friends share; otherwise F_i is empty.
        triples: how many triples of each kind a user draws in a round; `all` uses every triple,
            which gives the exact gradients (12) and (13), in time Σ_i |F_i| (|P_i| + |N_i|) a
            round.
        spread: the standard deviation of the initial factors, or their value if constant.
        start: whether initial factors are drawn from a normal law or all have the same value.
        clip_norm: c, the largest norm of all that a user submits in a round.
        summation: for the corrected form: `local` shows the recommender each submission, `secure`
            only sums.
        insiders: under a secure summation, how many users may pool their shares of noise. A user
            whom the claim protects is not among them.
        delta: δ of the corrected claim, at least 1e-60: normal draws end at 21 standard deviations.
    """

    epsilon: Annotated[float, Field(ge=1e-3)]
    variant: Variant = "published"
    beta: Annotated[float, Field(ge=1e-3, le=1)] = 1.0
    dimensions: Annotated[int, Field(ge=1, le=128)] = 10
    rounds: Annotated[int, Field(ge=1, le=100_000)] = 400
    learning_rate: Annotated[float, Field(ge=1e-12, le=10)] = 1e-4
    decay: Annotated[float, Field(ge=0, le=10)] = 1e-3
    social: bool = True
    triples: Annotated[int, Field(ge=1, le=100_000)] | Literal["all"] = 10
    spread: Annotated[float, Field(ge=0, le=10)] = 0.1
    start: Literal["normal", "constant"] = "normal"
    clip_norm: Annotated[float, Field(ge=1e-12, le=1e6)] = 1.0
    summation: Summation = "local"
    insiders: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    delta: Annotated[float, Field(ge=1e-60, lt=1)] = 1e-5

    messages: ClassVar[int] = 0
    training: ClassVar = RankingTraining
    counterfactual: ClassVar = _Counterfactual
    quick: ClassVar[Mapping[str, Any]] = {"dimensions": 2, "rounds": 3, "triples": "all"}
    # The models rank items and do not predict ratings.
    ranks: ClassVar[bool] = True
    name: ClassVar[str] = "privsr-ranking"
    title: ClassVar[str] = "Social ranking under personal privacy settings"
    source: ClassVar[str] = (
        "Meng, Wang, Shu, Li, Chen, Liu, Zhang, Towards privacy preserving social recommendation "
        "under personalized privacy settings, 2018, doi:10.1007/s11280-018-0620-z, section 5.4, "
        "equations (11) to (14), Algorithm 2; Zhao, McAuley, King 2014, "
        "doi:10.1145/2661829.2661998; Rendle et al. 2009, arXiv:1205.2618"
    )

    @model_validator(mode="after")
    def _check(self) -> PrivSRRanking:
        self.check_social()
        return self

    def claim(self) -> Claim | None:
        """The claim: ε for one purchase (published), or (ε, δ) for all of a user's (corrected)."""
        if self.variant == "nonprivate":
            return None
        public = (
            "who is whose friend, what users share with friends (so what the target user shares "
            "is the same in both data sets), the initial factors"
        )
        if self.variant == "published":
            return Claim(
                epsilon=self.epsilon,
                delta=0.0,
                adjacency="rating-add-remove",
                observer="recommender",
                public=f"{public}, which items each user keeps private, held or not",
                assumes=("no user's factors longer than 1, not enforced",),
                source="Meng et al. 2018, Theorem 4",
            )
        return self.whole_claim(public)

    def noise(self, rows: RankingRows) -> RankingNoise:
        """Return the noise on submissions.

        Raises:
            ConfigError: finite precision would use up too much of ε.
        """
        if self.variant == "nonprivate":
            return RankingNoise(np.zeros((2, rows.n_items)), False)
        if self.variant == "corrected":
            # σ = 2c√T/μ
            sigma = 2 * self.clip_norm * math.sqrt(self.rounds) / self.steps_mu(rows)
            return RankingNoise(self.split(sigma**2, rows.keepers), False)
        # The total variance (√(2d)/ε)² of each kind, for ε_n and then ε_s.
        whole = 2 * self.dimensions / np.array(self.personal_epsilons)[:, None] ** 2
        return RankingNoise(whole / np.maximum(rows.keepers, 1), True)

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> RankingRows:
        """Prepare the items that users hold and that their friends offer.

        Args:
            ratings: the purchases to train on.
            public: the data whose friends, settings and shared purchases are public; `ratings` if
                None.

        Raises:
            ConfigError: there are no purchases, or `social` is set and the data have no friends.
            DataError: the data are ratings, not purchases.
        """
        if not len(ratings):
            raise ConfigError("there are no ratings to learn from: use more data")
        if ratings.scale.width != 0:
            raise DataError(
                f"privsr-ranking needs purchases and these are ratings on "
                f"{ratings.scale.minimum:g}..{ratings.scale.maximum:g}: set data.binarize to the "
                "least rating that counts as a purchase"
            )
        return RankingRows.of(ratings, ratings if public is None else public, self.social)

    def public_statistics(self, prepared: RankingRows) -> Any:
        """Return what each user keeps private, held or not."""
        return np.stack([prepared.kept_users, prepared.kept_items])

    def check_observed(self, observer: str) -> None:
        """Refuse games on each round if there is no noise, or its law is a mixture.

        Raises:
            ConfigError: the game is refused; names the remedy.
        """
        super().check_observed(observer)
        if self.triples != "all" and observer in {"recommender", "iterates"}:
            raise ConfigError(
                "a game on each round needs the law of the submissions, and that is a mixture over "
                f"unobserved triples, as params.triples = {self.triples}: set params.triples = "
                "'all', or observe = 'public'"
            )

    def submitted_items(self, rows: RankingRows, users: Indices) -> Indices:
        """Return all items, as users submit for all."""
        return np.arange(rows.n_items, dtype=np.int32)

    def targets(self, ratings: Ratings, observer: str) -> Targets:
        """Return the informative purchases; see `informative`."""
        return Targets(self.informative(ratings))

    def differing(self, before: RankingRows, after: RankingRows, *, sums: bool) -> Indices:
        """Find the users in whom D and D' differ, increasing `(n,)`.

        Raises:
            ConfigError: no user differs, or the noise does.
        """
        changed = [
            user
            for user in range(before.n_users)
            for former, other in zip(
                before.sets.of_user(user), after.sets.of_user(user), strict=True
            )
            if not np.array_equal(former, other)
        ]
        users = np.unique(changed).astype(np.int32)
        if not len(users):
            raise ConfigError("the two data sets are the same: one user must differ")
        first, second = (
            noise.summed(rows) if sums else noise.of_users(rows, users)
            for noise, rows in ((self.noise(rows), rows) for rows in (before, after))
        )
        if not np.allclose(first, second, rtol=1e-9, atol=0):
            raise ConfigError(
                "the two data sets differ in which items users keep private, which is public: "
                "prepare both with the same public data"
            )
        return users

    def informative(self, ratings: Ratings) -> NDArray[np.bool_]:
        """Mask of the purchases whose removal is most informative `(R,)`.

        These are the purchases that a friend also holds and shares; all, if there are none. On
        removal, such an item moves from P_i to F_i and is preferred to every item of N_i, so that
        the a of all these items change.
        """
        if not self.social or ratings.friends is None:
            return np.ones(len(ratings), np.bool_)
        informative = offered(ratings)
        # A game removes a purchase of a user who has others, and prefers a private purchase.
        able = np.bincount(ratings.user, minlength=ratings.n_users)[ratings.user] > 1
        if ratings.kept_private.any():
            able &= ratings.kept_private
        return informative if (informative & able).any() else np.ones(len(ratings), np.bool_)
