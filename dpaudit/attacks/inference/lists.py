"""The ideal adversary on shown lists without values."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import ListInference
from dpaudit.attacks.inference.linear import most_probable
from dpaudit.core.plugin import STRICT


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
