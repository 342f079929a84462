"""Social ranking of items under personal privacy settings (Meng et al. 2018, section 5.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.assumption import Assumption, AssumptionMetric
from dpaudit.core.observation import Observer
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemFactors, NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import Targets, TrainedDefense
from dpaudit.defenses.release_observation import release_observers
from dpaudit.defenses.social.lengths import length_assumptions
from dpaudit.defenses.social.ranking_models import RankingModels, joined
from dpaudit.defenses.social.ranking_observation import watched_rounds, watched_sums
from dpaudit.defenses.social.ranking_rows import RankingRows, offered
from dpaudit.defenses.social.ranking_settings import RankingSettings
from dpaudit.defenses.social.ranking_training import RankingSociety
from dpaudit.defenses.step_observation import step_observer


@parameters(frozen=True, config=STRICT)
class PrivSRRanking(RankingSettings, TrainedDefense[RankingRows]):
    """A factorisation that ranks items by `u · v`, by gradient ascent on what users prefer.

    Everybody has the items' factors V; each user keeps her u. P_i is what she holds, F_i what her
    friends hold and share and she does not hold, N_i all else. She prefers P_i to F_i and F_i to
    N_i: with ψ_ijk = 1/(1 + e^(u_i · v_j − u_i · v_k)) of her triples (i, j, k), in each of T
    rounds she submits for **every** item

        s_ij = a_ij u_i + noise,    a_ij = Σ ψ_ijk − Σ ψ_ikj,      v_j ← v_j + γ (Σ_i s_ij − 2λ v_j)

    (0 and noise of an item in none of them), then moves `u_i ← u_i + γ (Σ_j a_ij v_j − 2λ u_i)`
    (equations (11) to (14), Algorithm 2). Friends send each other nothing but what they share.

    The paper leaves open, and this is chosen: how many triples are sampled (`triples` of each kind,
    uniform on a user's own and with replacement, fresh in each round, the same for V and u, not
    scaled up); a user whose F_i is empty, of whom (11) says nothing (P_i before N_i, as in BPR and
    SBPR); and that `+ λΩ` is meant to pull to 0.

    **Published**: for each item and round the recommender draws `h_j ~ Exp(1)^d` for all users. One
    to whom the item is sensitive adds `(√(2d h_j)/ε_s) c`, `c ~ N(0, I/n)`, n being how many these
    are, others the same with ε_n and their own number, so that the noise of either kind adds up to
    `Lap(√d/ε_s)` and `Lap(√d/ε_n)` (Lemma 1), `ε_s = (1 + β) ε`, `ε_n = (1 + 1/β) ε`. The paper
    compares this form with no equal noise.

    It claims ε (Theorem 4), after a proof (section 6.4) in which one feedback changes and the sets
    P_i, F_i, N_i do not. A feedback that is only there or not leaves no such change: what differs
    by one is what Definition 1 calls removal or addition, and those are the neighbours here. Then
    an item j moves from N_i or F_i to P_i. The proof has s_ij move by `|ψ̃ − ψ| ‖u‖ < 1`; but a_ij
    is a sum of many ψ, and as ψ_ijk + ψ_ikj = 1, an item from N_i moves a_ij by |F_i| and the a of
    each item of F_i by −1, whatever the scores: by 2|F_i| in all. Besides, V is seen in each round
    and taken for seen once, the noises do not add up to `Lap(√d/ε)`, the recommender knows h, and
    nothing keeps ‖u‖ at most 1. What friends share counts as public, and so do the settings: an
    item that a user keeps private has ε_s's noise whether she holds it or not. Then neither other
    users' sets nor any noise changes with a purchase, which is the better for the claim.

    **Corrected** protects all that a user holds. What she submits in a round, of all items
    together, is cut to the L2 norm c as one vector, so that it moves by 2c at most however her
    purchases and triples change, given what was published before; the noise is `N(0, σ²)` on each
    coordinate of each item, drawn by each user for herself (`local`), or in shares under a secure
    summation that shows the recommender sums alone (`secure`): `N(0, σ²/max(N − k, 1))`, so that σ²
    is left though k users tell what they drew (`insiders`). T rounds are μ-GDP with

        μ = 2c√T/σ

    (Dong, Roth, Su 2019, Corollary 3.3) for any fixed triples, so also for drawn ones, as no
    δ(ε) of two mixtures is above the largest of their parts; μ is the largest that keeps (ε, δ).
    What a user shares reaches the F of whoever calls her a friend, so that and who is whose friend
    are public in the claim. All submit about all items, so nobody is seen to hold anything.

    **Nonprivate** has no noise: SBPR, or without `social` BPR.

    Attributes:
        epsilon: ε, 1e-3 to 1e6; `inf` only of `nonprivate`.
        variant: whose mechanism it is.
        beta: β, the share ε_s/ε_n.
        dimensions: d.
        rounds: T.
        rate: γ.
        decay: λ.
        social: whether friends' items count; without them F_i is empty.
        triples: how many of each kind a user draws in a round, or `all` that there are: the exact
            slopes (12) and (13), in time Σ_i |F_i| (|P_i| + |N_i|) a round.
        spread: the standard deviation of the initial factors, or all of them.
        start: whether initial factors are drawn from a normal law, or are the same constant.
        clip: c, the largest norm of what a user submits in a round.
        summation: of the corrected form: who sees what is submitted.
        insiders: under a secure summation, how many users may put together what noise they drew;
            one of whom the claim speaks is none of them.
        delta: δ of the corrected claim, 1e-60 at least: normal draws end at 21 deviations.
    """

    counts: ClassVar[tuple[AssumptionMetric, ...]] = ("assumption.norm",)
    ranks: ClassVar[bool] = True

    def train(self, rows: RankingRows, streams: Streams) -> RankingModels:
        """The models of these worlds.

        Raises:
            RunError: a training diverged.
        """
        found, noise = [], self.noise(rows)
        for world in streams.blocks(1):
            society = RankingSociety(self, rows, noise, world)
            for _ in range(self.rounds):
                society.play()
            found.append(society.models())
        return joined(found)

    def observers(self) -> Mapping[str, Observer[RankingRows]]:
        """The recommender sees what is submitted; everybody sees V after each round."""
        return {
            "recommender": step_observer(self.watch, "submissions"),
            "iterates": step_observer(self.watch_items, "the items' factors after each round"),
            **release_observers(self, ItemFactors),
        }

    def assumptions(self, ratings: Ratings, seed: int) -> Iterator[Assumption]:
        """How many users' factors end longer than 1."""
        return length_assumptions(self, self.rounds, ratings, seed)

    def targets(self, ratings: Ratings, observer: str) -> Targets:
        """`telling` purchases."""
        return Targets(self.telling(ratings))

    def watch(
        self, before: RankingRows, after: RankingRows, trained: RankingRows, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """What the recommender sees of users in whom two data sets differ, round by round.

        Args:
            before: world `D`.
            after: world `D'`.
            trained: which of the two is learned from.
            streams: the worlds.

        Raises:
            ConfigError: there is no noise or it differs, triples are drawn, or nobody differs.
            RunError: a training diverged.
        """
        self.check_observed("recommender")
        sums = self.variant == "corrected" and self.summation == "secure"
        return (watched_sums if sums else watched_rounds)(self, before, after, trained, streams)

    def watch_items(
        self, before: RankingRows, after: RankingRows, trained: RankingRows, streams: Streams
    ) -> Iterator[tuple[NoisedSteps, StepsPair]]:
        """What everybody sees, V after each round; the arguments are those of `watch`."""
        return watched_sums(self, before, after, trained, streams)

    def telling(self, ratings: Ratings) -> NDArray[np.bool_]:
        """The purchases whose loss tells most: those that a friend offers too, or all, `(R,)`.

        Such an item goes from P_i to F_i, where it comes before each of N_i: all of these move.
        """
        if not self.social or ratings.friends is None:
            return np.ones(len(ratings), np.bool_)
        found = offered(ratings)
        # In doubt is a purchase of who has others, and before any other one that is kept private.
        able = np.bincount(ratings.user, minlength=ratings.n_users)[ratings.user] > 1
        if ratings.kept_private.any():
            able &= ratings.kept_private
        return found if (found & able).any() else np.ones(len(ratings), np.bool_)
