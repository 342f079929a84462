"""A finite population from a uniform subset of it: shares and independent draws, at every size.

The members of a training set S among randomly drawn targets are a uniform subset of S, whatever the
model does with its data and however these depend on each other. So what an attack reaches on S is
a share of a population of |S| numbers, of which a sample without replacement is seen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.outcomes import check_alpha
from dpaudit.core.errors import InputError


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


def independent(
    values: NDArray[np.float64], population: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return as many independent draws from a population as its uniform subset has values.

    Independent draws repeat one now and then: the i-th is one of the d different ones before it
    with probability d/N, and otherwise a new one, which the subset in random order provides.

    Args:
        values: the numbers of the subset, in any order `(n,)`, n ≥ 1.
        population: the size N ≥ n of the population.
        rng: orders the subset, and says which draws repeat.

    Raises:
        InputError: the population is smaller than the subset.
    """
    n = len(values)
    if population < n:
        raise InputError(f"population = {population} is less than the {n} values of its subset")
    drawn = rng.integers(population, size=n)
    _, first, which = np.unique(drawn, return_inverse=True, return_index=True)
    order = np.empty(len(first), np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    draws: NDArray[np.float64] = rng.permutation(values)[order[which]]
    return draws
