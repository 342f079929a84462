"""Infer one hidden rating from noised predictions or lists, knowing everything else."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import Inference, ListInference
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import Predictions, SideInformation, TopList
from dpaudit.kernels.exact_noise import top_list_log_likelihood

Indices = NDArray[np.int64]


@parameters(frozen=True, config=STRICT)
class LinearIdeal(Inference):
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

    def _read(self, x: NDArray[np.float64], terms: NDArray[np.float64]) -> Indices:
        if self.combine == "mean":
            first = terms[..., 0]
            return self._nearest((x - first).mean(1), (terms - first[..., None]).mean(1))
        middle = np.sort(self._nearest(x, terms, outside=(-1, terms.shape[-1])), axis=1)
        guess: Indices = middle[:, (x.shape[1] - 1) // 2]
        return np.where(guess == terms.shape[-1], -1, guess)

    def _nearest(
        self,
        x: NDArray[np.float64],
        terms: NDArray[np.float64],
        outside: tuple[int, int] = (-1, -1),
    ) -> Indices:
        """Index of the term nearest to `x`; `round` returns `outside` for values off the scale."""
        middle = (terms[..., 1:] + terms[..., :-1]) / 2
        index: Indices = (x[..., None] > middle).sum(-1)
        if self.reader == "round":
            low, high = 2 * terms[..., 0] - middle[..., 0], 2 * terms[..., -1] - middle[..., -1]
            index = np.where(x < low, outside[0], np.where(x > high, outside[1], index))
        return index


def most_probable(
    log_likelihood: NDArray[np.float64], prior: NDArray[np.float64] | None
) -> Indices:
    """Return the most probable candidate of each trial `(W,)`; None is the uniform prior."""
    if prior is not None:
        with np.errstate(divide="ignore"):
            log_likelihood = log_likelihood + np.log(prior)
    return log_likelihood.argmax(1)


def _list_log_likelihood(
    release: TopList, side: SideInformation, noise_scale: float
) -> NDArray[np.float64]:
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
class ListIdeal(ListInference):
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

    def infer(
        self, log_likelihood: NDArray[np.float64], frequency: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Guess an index of the possible values in each trial `(W,)`."""
        return most_probable(log_likelihood, frequency if self.prior == "population" else None)
