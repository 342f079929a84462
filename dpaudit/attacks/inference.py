"""Infer a hidden rating or purchase: of predictions or lists, by accounts, and of public lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks import base
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemList, Predictions, SideInformation, TopList
from dpaudit.kernels.exact_noise import top_list_log_likelihood

Indices = NDArray[np.int64]


@parameters(frozen=True, config=STRICT)
class LinearIdeal(base.Inference):
    """Recover one hidden rating from a user's noised predictions, knowing everything else.

    Theorems 3.3 and 3.4 invert `A_j = (known_j + term_j(v))/n + noise`:

        x_j = n · A_j − known_j = term_j(v) + n · noise

    to estimate `v` from `x_j`. Without noise every rating with distinct terms is recovered. With
    `b = nΔf/ε` and one prediction of Slope One, let `q = exp(−step/(2b))`. The accuracy of `round`
    is `1 − q`; that of `round-clip` is `1 − q` inside the scale and `1 − q/2` at its ends. For
    cosine it is `1 − ½ exp(−s/(2b))`, s the similarity, if `n` is published in either case and the
    adversary does not compare it with the number of known purchases. Neither reader tends to random
    guessing as ε → 0, as the paper's Definition 3 requires; `bayes` does.

    Attributes:
        reader: `round` takes the nearest rating on the unbounded scale, `round-clip` the nearest
            rating of the scale, `bayes` the rating with the largest posterior probability.
        observe: `one` prediction of a random unrated item, or the top-k `list` with its values.
        combine: how `round` and `round-clip` combine the predictions of a list: the median of the
            estimates, or the mean of the `x_j`. The list was selected by noised values, so their
            noise is not centred; `bayes` uses the distribution of the selected list.
        prior: the prior of `bayes`: `uniform`, or the `population` frequency of each rating.
    """

    reader: Literal["round", "round-clip", "bayes"] = "round-clip"
    observe: Literal["one", "list"] = "one"
    combine: Literal["median", "mean"] = "median"
    prior: Literal["uniform", "population"] = "uniform"

    name: ClassVar[str] = "linear-ideal"
    title: ClassVar[str] = "Linear ideal adversary: algebraic inversion of noised predictions"
    source: ClassVar[str] = (
        "Park & Acharya, Differentially Private Recommendation Systems: Practical Implementation "
        "and Interpretation, 2011, Definitions 3-5, Theorems 3.3 and 3.4, eqs (23) and (26)"
    )

    @property
    def shown(self) -> Literal["one", "list"]:
        """`observe`."""
        return self.observe

    def infer(
        self, release: Predictions | TopList, side: SideInformation, noise_scale: float
    ) -> Indices:
        """Guess an index into `side.candidates` in each trial `(W,)`, −1 for none of them."""
        row = side.place[:, None]
        # x_j = n A_j − known_j, eqs (23) and (26)
        x = side.ratings * release.values.astype(np.float64) - side.known[row, release.items]
        terms = side.terms[row, release.items]
        # If the hidden item is shown, values under which it could not be shown are impossible.
        possible: NDArray[np.bool_] = np.all(side.shown[row, release.items], axis=1)
        if self.reader == "bayes" and noise_scale > 0:
            if isinstance(release, TopList):
                likelihood = _list_log_likelihood(release, side, noise_scale)
            else:
                # ln Π_j (1/2b) exp(−|A_j − f_j(v)|/b), up to a constant
                distance = np.abs(x[..., None] - terms).sum(1)
                likelihood = np.where(possible, -distance / (side.ratings * noise_scale), -np.inf)
            return most_probable(likelihood, side.frequency if self.prior == "population" else None)
        guess = self._read(x, terms)
        excluded = (guess >= 0) & ~possible[np.arange(len(guess)), guess]
        return np.where(excluded, possible.argmax(1), guess)

    def _read(self, x: base.Numbers, terms: base.Numbers) -> Indices:
        if self.combine == "mean":
            first = terms[..., 0]
            return self._nearest((x - first).mean(1), (terms - first[..., None]).mean(1))
        middle = np.sort(self._nearest(x, terms, outside=(-1, terms.shape[-1])), axis=1)
        guess: Indices = middle[:, (x.shape[1] - 1) // 2]
        return np.where(guess == terms.shape[-1], -1, guess)

    def _nearest(
        self, x: base.Numbers, terms: base.Numbers, outside: tuple[int, int] = (-1, -1)
    ) -> Indices:
        """Index of the term nearest to `x`; `round` returns `outside` for values off the scale."""
        middle = (terms[..., 1:] + terms[..., :-1]) / 2
        index: Indices = (x[..., None] > middle).sum(-1)
        if self.reader == "round":
            low, high = 2 * terms[..., 0] - middle[..., 0], 2 * terms[..., -1] - middle[..., -1]
            index = np.where(x < low, outside[0], np.where(x > high, outside[1], index))
        return index


def most_probable(log_likelihood: base.Numbers, prior: base.Numbers | None) -> Indices:
    """Return the most probable candidate of each trial `(W,)`; None is the uniform prior."""
    if prior is not None:
        with np.errstate(divide="ignore"):
            log_likelihood = log_likelihood + np.log(prior)
    return log_likelihood.argmax(1)


def _list_log_likelihood(
    release: TopList, side: SideInformation, noise_scale: float
) -> base.Numbers:
    exact = (side.known[..., None] + side.terms) / side.ratings
    out = np.empty((len(side.place), exact.shape[-1]))
    for trial, row in enumerate(side.place):
        top_list_log_likelihood(
            release.items[trial],
            release.values[trial].astype(np.float64),
            exact[row],
            side.shown[row],
            noise_scale,
            out[trial],
        )
    return out


@parameters(frozen=True, config=STRICT)
class ListIdeal(base.ListInference):
    """Recover one hidden rating from the items of a user's list, knowing everything else.

    The adversary knows the recommender, the data and the user's other ratings, as the linear ideal
    adversary does (Park & Acharya 2011, Definition 4), and so the law of the list under each value
    v of the hidden rating. It takes the most probable value,

        argmax_v  prior(v) · P(list | v).

    No attacker who reads the list recovers a rating that is drawn from the prior more often. Of
    equal values the smallest is taken. As ε → 0 the list has one law, and what is left is a guess
    by the prior.

    Attributes:
        prior: the prior: the `population` frequency of each rating, or `uniform`. A list leaves
            many values equally probable, so the frequencies matter.
    """

    prior: Literal["population", "uniform"] = "population"

    name: ClassVar[str] = "list-ideal"
    title: ClassVar[str] = "Ideal adversary on a list: the most probable hidden rating"
    source: ClassVar[str] = (
        "Park & Acharya, Differentially Private Recommendation Systems: Practical Implementation "
        "and Interpretation, 2011, Definitions 3-5, for the lists of section 4"
    )

    def infer(self, log_likelihood: base.Numbers, frequency: base.Numbers) -> NDArray[np.int64]:
        """Guess an index of the possible values in each trial `(W,)`."""
        return most_probable(log_likelihood, frequency if self.prior == "population" else None)


# Log-likelihoods with a relative difference below this are equal up to rounding.
_SAME = 1e-9


@parameters(frozen=True, config=STRICT)
class Averaging(base.SybilAttack):
    """Recover one hidden rating of a target from releases to accounts that the attacker controls.

    The attacker knows everything but the hidden rating. So they can compute the noiseless
    predictions of their accounts for each candidate value, and guess the most likely value. Every
    release has fresh noise, which many releases average out.

    The paper's categories: in the `immediate` attack the accounts add ratings before the learning
    phase; in the `dynamic` attack one account changes its own row of the completed matrix after the
    learning phase and gets a fresh release after each change; the `combined` attack does both.

    Attributes:
        category: see above.
        observe: `values` reads the noised prediction of the hidden item, `list` only the list.
        reads: what is read from a list: the `place` of the hidden item, or only its `membership`. A
            set always gives only membership.
        fake_accounts: the largest number of accounts created before the learning phase.
        calibration: trials per candidate value for learning the distribution of a list.
    """

    category: base.Category = "dynamic"
    observe: Literal["values", "list"] = "values"
    reads: Literal["place", "membership"] = "place"
    fake_accounts: Annotated[int, Field(ge=0, le=1000)] = 20
    calibration: Annotated[int, Field(ge=10, le=1_000_000)] = 1000

    name: ClassVar[str] = "sybil"
    title: ClassVar[str] = "Fake accounts before or after the learning phase, maximum likelihood"
    source: ClassVar[str] = (
        "Park & Acharya, Differentially Private Recommendation Systems: Practical Implementation "
        "and Interpretation, 2011, §4.1 (the categories; the inference is ours)"
    )

    @property
    def creates_accounts(self) -> bool:
        """Whether fake accounts may be created before the learning phase."""
        return self.category != "dynamic"

    def on_sets(self) -> Self:
        """Return the attack on lists without order, of which it reads only membership."""
        return replace(self, reads="membership")

    def outcomes(self, items: NDArray[np.int32], item: int) -> Indices:
        """Return the place of `item` in each list `(W, k)`, k if absent, `(W,)`.

        With `membership`, return 0 if it is present and 1 if absent.
        """
        place = base.places(items, item)
        return place if self.reads == "place" else (place == items.shape[1]).astype(np.int64)

    def row(
        self,
        scores: NDArray[np.float32],
        item: int,
        threshold: float,
        count: int,
        ends: tuple[float, float],
    ) -> NDArray[np.float32]:
        """Return a row of the completed matrix in which `item` competes with rivals at `threshold`.

        To read the place, `count` rivals have the entry `threshold`. To read membership,
        `count − 1` entries at the upper end fill all places but the last, for which the item has
        one rival. All other entries are at the lower end.

        Args:
            scores: the account's row `(M,)`, `−inf` where it rated the item.
            item: the hidden item; its entry is unchanged, as it is to be inferred.
            threshold: the rivals' entry.
            count: the length of the list.
            ends: the lowest and the highest entry.
        """
        others = np.flatnonzero(np.isfinite(scores) & (np.arange(len(scores)) != item))
        row = scores.copy()
        row[others] = ends[0]
        sure = count - 1 if self.reads == "membership" else 0
        row[others[:sure]] = ends[1]
        row[others[sure:count]] = np.clip(threshold, *ends)
        return row

    def guess(self, log_likelihood: base.Numbers, releases: Indices, draw: float) -> Indices:
        """Return the most likely candidate after each number of releases `(E,)`.

        Ties are broken uniformly at random; after 0 releases all candidates tie.

        Args:
            log_likelihood: log-likelihood of each release under each candidate `(W, C)`.
            releases: numbers of releases, each 0 to W, `(E,)`.
            draw: a uniform draw in [0, 1).
        """
        width = log_likelihood.shape[1]
        total = np.vstack([np.zeros(width), np.cumsum(log_likelihood, 0)])[releases]
        best = total.max(1, keepdims=True)
        # −inf, an impossible candidate, never ties with a finite maximum.
        tied = total >= best - _SAME * (1 + abs(best))
        rank = (draw * tied.sum(1)).astype(np.int64)
        return (np.cumsum(tied, 1) > rank[:, None]).argmax(1)

    @staticmethod
    def thresholds(exact: base.Numbers) -> base.Numbers:
        """Return the midpoints between adjacent distinct noiseless predictions of the candidates.

        The shape is `(C − 1,)` if all C differ. If all are equal, return their common value `(1,)`.
        """
        values = np.unique(exact)
        return values if len(values) == 1 else (values[1:] + values[:-1]) / 2

    @staticmethod
    def laplace_log_likelihood(
        shown: base.Numbers, exact: base.Numbers, noise_scale: float
    ) -> base.Numbers:
        """Return `−|A − f(v)|/b` of each shown value under each candidate `(W, C)`.

        Up to a constant. Without noise the nearest candidates get 0 and the others `−inf`.

        Args:
            shown: noised predictions of one item `(W,)`.
            exact: its noiseless prediction under each candidate `(C,)`.
            noise_scale: the Laplace scale `b`.
        """
        distance = abs(shown[:, None] - exact)
        if noise_scale > 0:
            return -distance / noise_scale
        nearest = distance <= distance.min(1, keepdims=True) * (1 + _SAME)
        return np.where(nearest, 0.0, -np.inf)

    @staticmethod
    def learned_log_likelihood(seen: Indices, trials: Indices) -> base.Numbers:
        """Return log-likelihoods of observed outcomes under each candidate, from trials `(W, C)`.

        Outcomes are ordinal. They are grouped into at most 2C bins of about equal frequency over
        all candidates, since more bins reduce accuracy; each bin's count has ½ added.

        Args:
            seen: the outcomes `(W,)`.
            trials: outcomes of the known mechanism under each candidate `(C, N)`. Candidates use
                the same noise, which reduces the variance of their likelihood ratios.
        """
        pooled, bins = np.sort(trials, axis=None), 2 * len(trials)
        # Upper ends of the bins: the k/(2C)-quantiles, k < 2C.
        at = np.arange(1, bins) * len(pooled) // bins - 1
        edges = np.unique(pooled[np.maximum(at, 0)])
        counts = np.stack(
            [np.bincount(np.searchsorted(edges, row), minlength=len(edges) + 1) for row in trials]
        )
        law = np.log(counts + 0.5) - np.log(counts.sum(1, keepdims=True) + 0.5 * counts.shape[1])
        return law.T[np.searchsorted(edges, seen)]


@parameters(frozen=True, config=STRICT)
class PassiveLists(base.PassiveAttack):
    """Infer a purchase from the related-items lists of items that the target is known to have.

    The attacker creates no account and changes nothing. When the target buys x, x becomes more
    similar to all items that the target has, so x tends to enter or rise in several of their lists
    at once. Purchases by other users move x in the lists of other items. The score of x is the
    number of observed lists that x entered, or in which it moved up, between two times.
    """

    name: ClassVar[str] = "passive-lists"
    title: ClassVar[str] = "Items that enter or rise in public related-items lists"
    source: ClassVar[str] = (
        "Calandrino, Kilzer, Narayanan, Felten & Shmatikov, You might also like: privacy risks of "
        "collaborative filtering, 2011, doi:10.1109/SP.2011.40, the attack on related-items lists"
    )

    def moves(self, before: ItemList, after: ItemList, item: int) -> NDArray[np.bool_]:
        """Mask of the observed lists that `item` entered or in which it moved up `(A,)`.

        Args:
            before: the observed lists at the first time `(A, N)`, best first.
            after: the same lists at the second time.
            item: the candidate.
        """
        # An absent item has place N, behind all others.
        return base.places(after.items, item) < base.places(before.items, item)

    def scores(self, before: ItemList, after: ItemList, item: int) -> Indices:
        """Score `item` from the first 0, 1, …, A observed lists `(A + 1,)`."""
        return np.append(0, np.cumsum(self.moves(before, after, item)))

    def guess(self, first: Indices, second: Indices, draw: float) -> NDArray[np.bool_]:
        """Whether to guess the first of two candidates, given their scores.

        Args:
            first: scores of the first candidate, of any shape.
            second: scores of the second.
            draw: a uniform draw in [0, 1) that breaks ties.
        """
        return (first > second) | ((first == second) & (draw < 0.5))
