"""Social ranking of items under personal privacy settings (Meng et al. 2018, section 5.4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.errors import ConfigError
from dpaudit.core.plugin import STRICT
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import Targets
from dpaudit.defenses.factors import Floats, Indices, RankingModels, joined_rankings
from dpaudit.defenses.social.ranking_training import NONE, RankingTraining
from dpaudit.defenses.social.rows import PreferenceSets, RankingRows, offered
from dpaudit.defenses.social.settings import RankingSettings
from dpaudit.defenses.social.shared_training import CounterfactualUsers, SocialDefense


@parameters(frozen=True, config=STRICT)
class PrivSRRanking(RankingSettings, SocialDefense[RankingRows]):
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

    def training(
        self, rows: RankingRows, trial: Streams, observed: Indices | None = None
    ) -> RankingTraining:
        """Start the training of one trial, in which these users are observed `(n,)`."""
        return RankingTraining(self, rows, trial, observed)

    def train(self, rows: RankingRows, streams: Streams) -> RankingModels:
        """Return the models of these trials.

        Raises:
            NoModelError: a training diverged.
        """
        return joined_rankings(
            [self.training(rows, trial).run().models() for trial in streams.blocks(1)]
        )

    def counterfactual(
        self, training: RankingTraining, rows: RankingRows, users: Indices
    ) -> CounterfactualUsers:
        """Return users with their sets of `rows`, trained beside the actual training."""
        return _Counterfactual(rows, users, training)

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
        users = _changed(before.sets, after.sets)
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


def _changed(before: PreferenceSets, after: PreferenceSets) -> Indices:
    """The users whose sets differ, increasing."""
    users = [
        user
        for user in range(len(before))
        for former, other in zip(before.of_user(user), after.of_user(user), strict=True)
        if not np.array_equal(former, other)
    ]
    return np.unique(users).astype(np.int32)


class _Counterfactual:
    """The target users with their sets of one data set, trained beside the actual training."""

    def __init__(self, rows: RankingRows, targets: Indices, training: RankingTraining) -> None:
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
        both = NONE, NONE
        return self._training.gradients(self._sets, self._order, self._users, both, shows)

    def learn(self) -> None:
        """Update their factors from the current V."""
        slopes = self._training.slopes(self._sets, self._users, (NONE, NONE))
        self._training.move(self._users, slopes)
