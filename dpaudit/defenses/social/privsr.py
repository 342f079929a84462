"""Social matrix factorisation under personal privacy settings (Meng et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.errors import ConfigError
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import NoisedSteps, Observer, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.core.transcripts import Submissions
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import SubmittingDefense, Targets
from dpaudit.defenses.factors import FactorModels, Indices, joined_models
from dpaudit.defenses.observers import step_observer
from dpaudit.defenses.social.observation import (
    Counterfactual,
    differing_users,
    eligible,
    followed,
    observed_messages,
    submitted,
)
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.defenses.social.settings import PrivSRSettings
from dpaudit.defenses.social.shared_training import SocialDefense
from dpaudit.defenses.social.training import SocialTraining

_FRIENDS = "all possible target users have friends, whose messages the observer does not see"
# Why there is no eligible target user, and the remedy, by observer of single rounds.
_ALONE = {
    "recommender": f"{_FRIENDS}; set params.social = 0",
    "iterates": f"{_FRIENDS}; set params.social = 0",
    "friend": "no user without friends of their own sends informative messages to a friend; "
    "use observe = 'recommender' and params.social = 0",
}


@parameters(frozen=True, config=STRICT)
class PrivSR(PrivSRSettings, SocialDefense[SocialRows], SubmittingDefense[SocialRows]):
    """Social matrix factorisation, `r̂ = b + u · v`, that pulls friends' factors together.

    Everybody has the item factors V. Each user keeps their own factors u and chooses which of
    their ratings are sensitive. In each of T rounds, the user submits for every item they rated

        s_ij = 2 (u_i · v_j − r_ij) u_i + noise,      v_j ← v_j − γ (Σ_i s_ij + 2λ v_j).

    Then friends send each other their factors. These are weighted by S, the cosine similarity of
    the ratings of the items that both rated and neither keeps private. The user updates

        u_i ← u_i − γ (2 Σ_j (u_i · v_j − r_ij) v_j + Σ_f α (2 S_if (u_i − u_f) + q_if) + 2λ u_i)

    (equations (8) to (10), Algorithm 1).

    **Published**: for each item and round, the recommender draws `h_j ~ Exp(1)^d`, which all users
    who submit for the item share. A sensitive rating gets the noise `(2Δ √(2d h_j)/ε_s) c`,
    `c ~ N(0, I/n)`, where n is the number of users who submit a sensitive rating of the item. Other
    ratings get the same noise with ε_n and with their own number n. So the noise of the two kinds
    adds up to `Lap(2Δ√d/ε_s)` and `Lap(2Δ√d/ε_n)` (Lemma 1), with `ε_s = (1 + β) ε` and
    `ε_n = (1 + 1/β) ε`. In the same way, the noise on all messages to user i adds up to
    `Lap(2√d/ε)`. The claim is ε for one rating against the recommender and friends (Theorem 3). Its
    proof treats V as seen once, after convergence; the two noises as adding up to `Lap(2Δ√d/ε)`; h
    as unknown to the recommender; and ‖u‖ as at most 1. With `equal` noise there is one kind, with
    ε: the baseline that the paper calls DPMF (Hua, Xia, Zhong 2015).

    **Corrected** protects all of a user's ratings.

    - Submissions: all that a user submits in a round, for all items together, is clipped as one
      vector to the L2 norm c. Given all that was published before, it moves by at most 2c, however
      the user's ratings change. The noise is `N(0, σ²)` on each coordinate. Either each user adds
      noise of this variance (`local`), or users add shares of it under a secure summation, which
      shows the recommender only sums (`secure`).
    - Shares: V reveals the sums to everybody, and each user knows the share that they drew. If k
      users may reveal theirs (`insiders`), the shares of an item's n_j raters are
      `N(0, σ²/max(n_j − k, 1))`, so that σ² remains without the insiders' shares.
    - Messages: u is kept in the unit ball, so that it moves by at most 2. The user broadcasts it
      once a round with noise `N(0, σ_u²)`: all whose friend they are receive the same message and
      weight it themselves. What the receivers submit afterwards is computed from the message, so
      it reveals nothing more about the user than the message does.

    So all that the recommender and friends see in T rounds, together, is μ-GDP with

        μ² = (2c/σ)² T + (2/σ_u)² T

    (Dong, Roth, Su 2019, Corollary 3.3). μ is the largest that satisfies (ε, δ), and the share
    `friends_share` of μ² is spent on the messages. Who rates what, who is whose friend, and S are
    public.

    **Nonprivate** has no noise: SoReg, or plain matrix factorisation if `social` is 0.

    Attributes:
        epsilon: ε, 1e-3 to 1e6; `inf` only for `nonprivate`.
        variant: published, corrected or nonprivate, as described above.
        noise_kind: for the published form: `personal`, or `equal` noise for all ratings.
        beta: β, the ratio ε_s/ε_n.
        dimensions: d.
        rounds: T.
        learning_rate: γ.
        decay: λ.
        social: α, the weight of friends.
        spread: the standard deviation of the initial factors, or their value if constant.
        start: whether initial factors are drawn from a normal law or all have the same value. In
            one dimension, the latter makes a training exact.
        offset: b, a public constant; the paper has none.
        clip_norm: c, the largest norm of all that a user submits in a round.
        summation: for the corrected form: `local` shows the recommender each submission, `secure`
            only sums.
        insiders: under a secure summation, how many raters of an item, friends or not, may pool
            their shares of noise. A user whom the claim protects is not among them.
        friends_share: the share of μ² that is spent on messages to friends.
        delta: δ of the corrected claim, at least 1e-60: normal draws end at 21 standard deviations.
    """

    def training(
        self, rows: SocialRows, trial: Streams, observed: NDArray[np.bool_] | None = None
    ) -> SocialTraining:
        """Start the training of one trial; `observed` is the mask of the observed users `(N,)`."""
        return SocialTraining(self, rows, trial, observed)

    def train(self, rows: SocialRows, streams: Streams) -> FactorModels:
        """Return the models of these trials.

        Raises:
            NoModelError: a training diverged.
        """
        return joined_models(
            [self.training(rows, trial).run().models() for trial in streams.blocks(1)]
        )

    def message_observers(self) -> Mapping[str, Observer[SocialRows]]:
        """Return the observer of the messages to a friend, if there are any."""
        if not self.social or self.rounds == 1:
            return {}
        return {"friend": step_observer(self.observe_messages, "messages")}

    def counterfactual(
        self, training: SocialTraining, rows: SocialRows, users: NDArray[np.bool_]
    ) -> Counterfactual:
        """Return users with their ratings of `rows`, trained beside the actual training."""
        return Counterfactual(rows, users, training)

    def submitted_items(self, rows: SocialRows, users: NDArray[np.bool_]) -> Indices:
        """Return the items that these users rated, increasing."""
        return np.unique(rows.items[users[rows.users]])

    def differing(self, before: SocialRows, after: SocialRows, *, sums: bool) -> NDArray[np.bool_]:
        """Return the mask of the users in whom D and D' differ; see `differing_users`."""
        return differing_users(self, before, after, sums=sums)

    def observe_messages(
        self, before: SocialRows, after: SocialRows, trained: SocialRows, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """Yield the messages to a friend, round by round; the arguments are those of `observe`."""
        self.check_observed("friend")
        return observed_messages(self, before, after, trained, streams)

    def submissions(
        self, rows: SocialRows, trial: Streams, users: NDArray[np.bool_]
    ) -> tuple[Submissions, FactorModels]:
        """Train once, and return all submissions of the users in the mask `(N,)`, and the model.

        Raises:
            NoModelError: the training diverged.
        """
        return submitted(self, rows, trial, users)

    def check_submissions(self) -> None:
        """Refuse to read single submissions if the recommender sees only sums.

        Raises:
            ConfigError: it does; names the remedy.
        """
        if self.summed:
            raise ConfigError(
                "params.summation = 'secure' shows the recommender only sums of submissions: audit "
                "it with 'reconstruction' in a config of its own, or set 'local'"
            )

    def targets(self, ratings: Ratings, observer: str) -> Targets:
        """Return the ratings of users who may be target users.

        For an observer of single rounds, these are the users without friends, whose factors can be
        computed exactly. For a `friend`, they must also be eligible: their messages have a high
        signal-to-noise ratio.

        Raises:
            ConfigError: the observer sees sums, and messages of friends hide the law of sums.
        """
        if observer not in _ALONE:
            return Targets()
        sums = observer == "iterates" or (self.summed and observer == "recommender")
        users = followed(self, ratings, sums)
        if observer == "friend":
            users = eligible(self, ratings, users)
        # With more raters of an item, each submission has a smaller share of the noise.
        return Targets(users[ratings.user], observer == "recommender", _ALONE[observer])
