"""Social matrix factorisation under personal privacy settings (Meng et al. 2018).

With what is observed of a training: submissions and their sums, and messages to friends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.errors import ConfigError
from dpaudit.core.memory import check_memory
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import Learning, NoisedSteps, Observer, StepsPair, Submissions
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses import observers
from dpaudit.defenses.base import SubmittingDefense, Targets
from dpaudit.defenses.factors import FactorModels, Floats, Indices
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.defenses.social.training import PrivSRSettings, SocialTraining

Numbers = NDArray[np.float64]


class Counterfactual:
    """The target users with their ratings of one data set, trained beside the actual training."""

    def __init__(
        self, training: SocialTraining, rows: SocialRows, users: NDArray[np.bool_]
    ) -> None:
        """Copy the initial factors of the training.

        Args:
            training: the training whose V they learn from.
            rows: the data set.
            users: mask of the target users `(N,)`.
        """
        self.rows, self._training = rows.only(users[rows.users]), training
        self._order = np.arange(len(self.rows), dtype=np.int32)
        self._users = training.users.copy()

    def submissions(self) -> Floats:
        """Return what they would submit without noise, by row, `(n, size)`."""
        return self._training.gradients(self.rows, self._order, self._users)[0]

    def sum(self) -> Numbers:
        """Return the sum of these submissions for each item `(M, size)`."""
        return self._training.gradients(self.rows, self._order, self._users)[1]

    def messages(self, user: int, friend: int) -> Floats:
        """Return what this friend would send the user without noise `(d,)`."""
        factors = self._users[friend, : self._training.defense.dimensions]
        if self._training.noise.broadcast:
            return factors.copy()
        likeness: np.float32 = self._training.rows.similarity[user, friend]
        return -2 * likeness * factors

    def learn(self) -> None:
        """Update their factors from the current V."""
        self._training.move(self._users, self._training.slopes(self.rows, self._users))


def eligible(
    defense: PrivSRSettings, ratings: Ratings, able: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Mask of the users in `able` whose messages have a high signal-to-noise ratio `(N,)`.

    They must be somebody's friend. In the corrected form that suffices, as all receive the same
    broadcast. In the published form, their ratio must be at least half the largest ratio of the
    users in `able` who have two ratings or more and keep one private, if any rating is private.
    """
    rows = defense.prepare(ratings)
    links, signal = _signal_to_noise(rows)
    best = np.full(rows.n_users, -1.0)
    np.maximum.at(best, links[1], signal)
    best[~able] = -1
    if defense.noise(rows).broadcast:
        return best >= 0
    kept = rows.sensitive if rows.sensitive.any() else np.ones(len(rows), np.bool_)
    hides = (np.diff(rows.start) > 1) & (np.bincount(rows.users, kept, rows.n_users) > 0)
    eligible: NDArray[np.bool_] = (best > 0) & (best >= best[hides].max(initial=0) / 2)
    return eligible


def _signal_to_noise(rows: SocialRows) -> tuple[NDArray[np.int32], Numbers]:
    """Return the receiver and sender of each link `(2, L)`, and their ratio `S² |F|`, `(L,)`.

    Up to a constant, it is the squared change of a message over the variance of its noise.
    """
    links = rows.similarity.tocoo()
    signal = links.data.astype(np.float64) ** 2 * rows.friends[links.row]
    return np.stack([links.row, links.col]), signal


def _receiver(rows: SocialRows, users: NDArray[np.int64]) -> tuple[int, int]:
    """Return the receiver with the highest signal-to-noise ratio, and the user as sender.

    Raises:
        ConfigError: there are several users, or the user is nobody's friend.
    """
    (receivers, senders), signal = _signal_to_noise(rows)
    sent = np.isin(senders, users)
    if len(users) > 1 or not sent.any():
        raise ConfigError(
            "observe = 'friend' needs one target user who is somebody's friend: compare data sets "
            "that differ only in the ratings of such a user"
        )
    return int(receivers[np.argmax(np.where(sent, signal, -1))]), int(users[0])


class _ObservedMessages(observers.ObservedTraining[Counterfactual]):
    """One trial's training, with the messages of one friend on D and on D'."""

    def __init__(
        self,
        training: SocialTraining,
        counterfactuals: Sequence[Counterfactual],
        observed_link: tuple[int, int],
    ) -> None:
        self._training, self.counterfactuals = training, counterfactuals
        self._observed_link = observed_link

    def submit(self) -> observers.ObservedRound:
        """Run a round with its messages, and return what the receiver observes."""
        means = [
            counterfactual.messages(*self._observed_link) for counterfactual in self.counterfactuals
        ]
        self._training.run_round()
        message = self._training.message
        return observers.ObservedRound.of_trial(
            [message.shown, *means], message.deviations, message.steps
        )

    def learn(self) -> None:
        """Leave the training as it is: it learned in the round that was observed."""


def _learning(defense: PrivSRSettings) -> Learning:
    alike, cut = defense.start == "constant", defense.variant == "corrected"
    return Learning(
        rate=defense.learning_rate,
        decay=defense.decay,
        offset=defense.offset,
        start=defense.spread if alike else 0.0,
        spread=0.0 if alike else defense.spread,
        clip=defense.clip_norm if cut else math.inf,
        ball=1.0 if cut else math.inf,
    )


_FRIENDS = "all possible target users have friends, whose messages the observer does not see"
# Why there is no eligible target user, and the remedy, by observer of single rounds.
_ALONE = {
    "recommender": f"{_FRIENDS}; set params.social = 0",
    "iterates": f"{_FRIENDS}; set params.social = 0",
    "friend": "no user without friends of their own sends informative messages to a friend; "
    "use observe = 'recommender' and params.social = 0",
}


@parameters(frozen=True, config=STRICT)
class PrivSR(PrivSRSettings, SubmittingDefense[SocialRows]):
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

    training: ClassVar = SocialTraining
    counterfactual: ClassVar = Counterfactual

    def message_observers(self) -> Mapping[str, Observer[SocialRows]]:
        """Return the observer of the messages to a friend, if there are any."""
        if not self._talks:
            return {}
        return {"friend": observers.step_observer(self.observe_messages, "messages")}

    def submitted_items(self, rows: SocialRows, users: NDArray[np.bool_]) -> Indices:
        """Return the items that these users rated, increasing."""
        return np.unique(rows.items[users[rows.users]])

    @property
    def _talks(self) -> bool:
        """Whether friends send each other messages that anybody learns from."""
        return bool(self.social) and self.rounds > 1

    def _check_sums(self, friends: NDArray[np.int64]) -> None:
        """Refuse games on sums if messages of friends hide the law; `friends` counts them."""
        if self._talks and friends.any():
            raise ConfigError(
                "a game on sums of submissions needs users' factors that depend on their ratings "
                "and V alone: set params.social = 0"
            )

    def differing(
        self, before: SocialRows, after: SocialRows, *, sums: bool = False
    ) -> NDArray[np.bool_]:
        """Return the mask of the users in whom D and D' differ `(N,)`.

        Args:
            before: data set `D`.
            after: data set `D'`.
            sums: whether sums of submissions are observed, so that no user may have friends.

        Raises:
            ConfigError: D and D' differ in which items are rated or which ratings are sensitive, no
                user differs, or one whose factors have to be computed has friends.
        """
        if not (before.rates_as(after) and np.array_equal(before.sensitive, after.sensitive)):
            raise ConfigError(
                "the recommender sees who rates what and which ratings are sensitive: compare data "
                "sets that differ only in values of ratings"
            )
        users = np.zeros(before.n_users, np.bool_)
        users[before.users[before.values != after.values]] = True
        if not users.any():
            raise ConfigError("the two data sets are the same: one user must differ")
        if self._talks and before.friends[users].any():
            raise ConfigError(
                "the target user has friends, whose messages the recommender does not see: "
                "set params.social = 0"
            )
        if sums:
            self._check_sums(before.friends)
        return users

    def observe_messages(
        self, before: SocialRows, after: SocialRows, trained: SocialRows, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """Yield, round by round, the messages of the user in whom D and D' differ, `(W, C)`.

        The observer is the receiver for whom the user's messages have the highest signal-to-noise
        ratio. The receiver knows V and the h that they drew. Given these, a message is normal
        around what the user would send on D or on D', whatever was sent before: `q − 2 S u`, or `u`
        with noise if users broadcast. So the sum of the messages' log-likelihood ratios is a score
        that the receiver can compute. It leaves out what the changes of V and the messages to
        others reveal.

        Args:
            before: data set `D`.
            after: data set `D'`.
            trained: the one of the two that is trained on.
            streams: the trials.

        Raises:
            ConfigError: there is no noise, D and D' differ in more than values of ratings, or not
                at all, the user has friends of their own, or the user is nobody's friend.
            NoModelError: a training diverged.
        """
        self.check_observed("friend")
        users = self.differing(before, after)
        link = _receiver(before, np.flatnonzero(users))
        trials = []
        for trial in streams.blocks(1):
            training = SocialTraining(self, trained, trial, observed_link=link)
            both = [Counterfactual(training, rows, users) for rows in (before, after)]
            trials.append(_ObservedMessages(training, both, link))
        return observers.observed_steps(trials, self.rounds, gaussian=True)

    def submissions(
        self, rows: SocialRows, trial: Streams, users: NDArray[np.bool_]
    ) -> tuple[Submissions, FactorModels]:
        """Train once, and return all submissions of the users in the mask `(N,)`, and the model.

        Raises:
            ConfigError: the submissions do not fit the memory.
            NoModelError: the training diverged.
        """
        d, followed = self.dimensions, int(users[rows.users].sum())
        check_memory(
            "the submissions of the observed users in all rounds",
            f"params.rounds ({self.rounds:,}) times params.dimensions ({d}) times the number of "
            f"their ratings and of items ({followed + rows.n_items:,})",
            # Each as it is received and in one array: submissions and deviations, and V.
            2 * 4 * self.rounds * d * (2 * followed + rows.n_items),
            "lower the attack's params.users, lower params.rounds or params.dimensions",
        )
        training = SocialTraining(self, rows, trial, users)
        factors, shown, deviations = [], [], []
        for _ in range(self.rounds):
            factors.append(training.items[:, :d].copy())
            sent = training.submit()
            training.learn(sent.sums)
            shown.append(sent.shown[:, :d])
            known = np.broadcast_to(sent.deviations, (len(sent.shown), d))
            deviations.append(known.astype(np.float32))
        observed = training.observed
        ratings = np.where(
            rows.sensitive[observed], np.nan, rows.values[observed].astype(np.float64)
        )
        seen = Submissions(
            users=rows.users[observed],
            items=rows.items[observed],
            shared=ratings,
            shown=np.stack(shown),
            deviations=np.stack(deviations),
            usual=np.sqrt(training.noise.of_rows(rows)[observed]),
            factors=np.stack(factors),
            learning=_learning(self),
        )
        return seen, training.models()

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
        friends = np.zeros(ratings.n_users, np.int64)
        if self._talks and ratings.friends is not None:
            friends = np.diff(ratings.friends.start)
        if sums:
            self._check_sums(friends)
        users = friends == 0
        if observer == "friend":
            users = eligible(self, ratings, users)
        # With more raters of an item, each submission has a smaller share of the noise.
        return Targets(users[ratings.user], observer == "recommender", _ALONE[observer])
