"""A finite population from a uniform subset of it: shares and means, exactly, at every size.

The members of a training set S among randomly drawn targets are a uniform subset of S, whatever the
model does with its data and however these depend on each other. So what an attack reaches on S is
the mean over a population of |S| numbers, of which a sample without replacement is seen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.frequentist.means import betting_mean
from dpaudit.bounds.outcomes import check_alpha
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate


def subset_share(
    least: int, most: int, n: int, population: int, *, alpha: float
) -> tuple[float, float]:
    """Return limits of the share of a population that has a property, from a uniform subset.

    The number in the subset is hypergeometric. A share K/N is below the lower limit if it makes at
    least as many probable with α/2 or less, and above the upper one likewise (Buonaccorsi 1987,
    doi:10.1080/00031305.1987.10475481).

    Args:
        least: how many of the subset surely have the property.
        most: how many may have it; as `least` if all is known.
        n: the size of the subset.
        population: the size N of the population.
        alpha: the level of the interval, half on either side.

    Raises:
        InputError: the numbers are not 0 ≤ least ≤ most ≤ n ≤ N and n ≥ 1, or alpha is not in
            (0, 1).
    """
    check_alpha(alpha)
    if not (0 <= least <= most <= n <= population and n >= 1):
        raise InputError(
            f"{least} to {most} of a subset of {n} from {population}: give counts in increasing "
            "order, and at least one of the subset"
        )
    lower = _least_total(least, n, population, alpha / 2)
    upper = population - _least_total(n - most, n, population, alpha / 2)
    return lower / population, upper / population


def _least_total(count: int, n: int, population: int, tail: float) -> int:
    """Return the least K with P(at least `count` of the subset | K of the population) > tail."""
    from scipy.stats import hypergeom

    low, high = count, population  # the probability rises with K, and is 1 at `population`
    while low < high:
        middle = (low + high) // 2
        if hypergeom.sf(count - 1, population, middle, n) > tail:
            high = middle
        else:
            low = middle + 1
    return low


def subset_mean(
    values: ArrayLike,
    population: int,
    *,
    alpha: float,
    confidence: float,
    rng: np.random.Generator,
) -> Estimate:
    """Estimate the mean of a population of numbers in [0, 1] from a uniform subset of it.

    Independent draws from the population repeat a number now and then: the i-th is one of the d
    different ones before it with probability d/N, and otherwise a new one, which the subset in
    random order provides. So the interval of `betting_mean` for independent draws is exact here.

    Args:
        values: the numbers of the subset, in any order `(n,)`.
        population: the size N ≥ n of the population.
        alpha: the level.
        confidence: the confidence to state.
        rng: orders the subset and says which draws repeat.

    Raises:
        InputError: there is no value, one is not in [0, 1], alpha is not in (0, 1), or the
            population is smaller than the subset.
    """
    numbers = np.asarray(values, np.float64)
    if population < len(numbers):
        raise InputError(
            f"population = {population} is less than the {len(numbers)} values of its subset"
        )
    shuffled = rng.permutation(numbers)
    draws = shuffled[_repeating(len(numbers), population, rng)] if len(numbers) else shuffled
    estimate = betting_mean(draws, alpha, confidence)
    value = float(numbers.mean())
    return estimate.changed(
        value=value,
        lower=min(value, estimate.lower),
        upper=max(value, estimate.upper),
        method="uniform subset, betting",
    )


def _repeating(n: int, population: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return which different number each of n independent draws is, by order of appearance."""
    draws = np.unique(rng.integers(population, size=n), return_inverse=True, return_index=True)
    _, first, which = draws
    order = np.empty(len(first), np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    return order[which]
