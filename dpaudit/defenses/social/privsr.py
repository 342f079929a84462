"""Social matrix factorisation under personal privacy settings (Meng et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.assumption import Assumption, AssumptionMetric
from dpaudit.core.errors import ConfigError
from dpaudit.core.observation import Observer
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemFactors, NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.core.transcripts import Submissions
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import SubmittingDefense, Targets
from dpaudit.defenses.factors import FactorModels, joined
from dpaudit.defenses.release_observation import release_observers
from dpaudit.defenses.social.friend_observation import audible, watched_messages
from dpaudit.defenses.social.lengths import length_assumptions
from dpaudit.defenses.social.observation import followed, watched_rounds, watched_sums
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.defenses.social.settings import PrivSRSettings
from dpaudit.defenses.social.submissions import submitted
from dpaudit.defenses.social.training import Society
from dpaudit.defenses.step_observation import step_observer

_FRIENDS = "all who may be in doubt have friends, whose messages the observer does not see"
# What to do where nobody's factors can be followed by an observer of steps.
_ALONE = {
    "recommender": f"{_FRIENDS}; set params.social = 0",
    "iterates": f"{_FRIENDS}; set params.social = 0",
    "friend": "nobody without friends of their own is somebody's friend who reads anything of "
    "them; use observe = 'recommender' and params.social = 0",
}


@parameters(frozen=True, config=STRICT)
class PrivSR(PrivSRSettings, SubmittingDefense[SocialRows]):
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

    counts: ClassVar[tuple[AssumptionMetric, ...]] = ("assumption.norm",)

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

    def observers(self) -> Mapping[str, Observer[SocialRows]]:
        """The recommender, everybody, and friends, who receive what was learned in a round."""
        found = {
            "recommender": step_observer(self.watch, "submissions"),
            "iterates": step_observer(self.watch_items, "the items' factors after each round"),
        }
        if self.social and self.rounds > 1:
            found["friend"] = step_observer(self.watch_messages, "messages")
        return {**found, **release_observers(self, ItemFactors)}

    def assumptions(self, ratings: Ratings, seed: int) -> Iterator[Assumption]:
        """How many users' factors end longer than 1."""
        return length_assumptions(self, self.rounds, ratings, seed)

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
        self.check_observed("recommender")
        seen = watched_sums if self.summed else watched_rounds
        return seen(self, before, after, trained, streams)

    def watch_items(
        self, before: SocialRows, after: SocialRows, trained: SocialRows, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """What everybody sees, V after each round; the arguments are those of `watch`."""
        self.check_observed("iterates")
        return watched_sums(self, before, after, trained, streams)

    def watch_messages(
        self, before: SocialRows, after: SocialRows, trained: SocialRows, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """What a friend is sent, round by round; the arguments are those of `watch`."""
        self.check_observed("friend")
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
        if self.summed:
            raise ConfigError(
                "params.summation = 'secure' shows the recommender sums of submissions and none by "
                "itself: audit it with 'reconstruction' in a config of its own, or set 'local'"
            )

    def check_observed(self, observer: str) -> None:
        """Refuse games that see each round where there is no noise.

        Raises:
            ConfigError: with the remedy.
        """
        if self.variant == "nonprivate" and observer in _ALONE:
            raise ConfigError(
                "games that see each round compare noised submissions, and variant = 'nonprivate' "
                "has none: use a private variant, or observe = 'public'"
            )

    def targets(self, ratings: Ratings, observer: str) -> Targets:
        """Users whose factors can be followed, as friends send them nothing.

        For a `friend`, those whose messages show it much.

        Raises:
            ConfigError: the observer sees sums, whose law friends hide.
        """
        if observer not in _ALONE:
            return Targets()
        sums = observer == "iterates" or (self.summed and observer == "recommender")
        users = followed(self, ratings, sums)
        if observer == "friend":
            users = audible(self, ratings, users)
        # The more submit, the smaller the share of the noise that a recommender sees on each.
        return Targets(users[ratings.user], observer == "recommender", _ALONE[observer])
