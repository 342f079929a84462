"""Simulate searches of `dpaudit tune` among settings whose leaks and utilities are known.

The code that plans a search and lists the candidates is that of the command. What is simulated is
the trainings: the leak of one is a gamma variable whose deviation is a third of its mean, times the
strength of attackers with so many trainings of their own, as measured of ALS on MovieLens-100K.

    python bench/tune.py [--searches 500]
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpaudit.tuning.search import MORE, Trained, false_go, search, settings_for, shortlist

JUDGED, SETTINGS = 19, 40
# What attackers with so many trainings of their own find, as a share of what sixteen find.
STRENGTH = {1: 0.3, 2: 0.8, 5: 0.96, 6: 0.97, 23: 1.0}
SPREAD = 1 / 3


@dataclass
class World:
    """Settings with known laws."""

    means: np.ndarray
    useful: np.ndarray
    rng: np.random.Generator

    def leaks(self, setting: int, calibrating: int, count: int) -> np.ndarray:
        mean = STRENGTH[calibrating] * self.means[setting]
        return self.rng.gamma(1 / SPREAD**2, mean * SPREAD**2, count)

    def exceeding(self, setting: int) -> float:
        from scipy.stats import gamma

        mean = STRENGTH[MORE] * self.means[setting]
        return float(gamma.sf(1.0, 1 / SPREAD**2, scale=mean * SPREAD**2))

    def train(self, setting: int, trainings: int) -> Trained:
        leaks = self.leaks(setting, trainings - 1, trainings) if trainings > 1 else ()
        noise = self.rng.normal(0, 0.01 / np.sqrt(trainings))
        return Trained(tuple(leaks), self.useful[setting] * (1 + noise), trainings)


def some_pass(rng: np.random.Generator) -> World:
    """Leaks from a twentieth of the limit to five times; what is more useful often leaks more."""
    means = np.exp(rng.uniform(np.log(0.05), np.log(5), SETTINGS))
    useful = 0.2 * (0.4 + 0.6 * means**0.35 / 5**0.35) * rng.lognormal(0, 0.1, SETTINGS)
    return World(means, useful, rng)


def none_pass(rng: np.random.Generator) -> World:
    """All means are 5 % above the limit for attackers with six trainings."""
    world = some_pass(rng)
    return World(np.full(SETTINGS, 1.05 / STRENGTH[MORE]), world.useful, rng)


def at_eight(rng: np.random.Generator) -> World:
    """Every setting exceeds in 8 % of its trainings."""
    from scipy.stats import gamma

    mean = 1 / (gamma.isf(0.08, 1 / SPREAD**2) * SPREAD**2)
    world = some_pass(rng)
    return World(np.full(SETTINGS, mean / STRENGTH[MORE]), world.useful, rng)


@dataclass
class Search:
    chosen: int | None
    trainings: int
    candidates: int


def tuned(world: World, trainings: int) -> Search:
    """Search and judge as the command does."""
    used: Counter[int] = Counter()

    def train(setting: int, count: int) -> Trained:
        used[setting] = max(used[setting], count)
        return world.train(setting, count)

    count = min(len(world.means), settings_for(trainings, JUDGED))
    settings = world.rng.permutation(len(world.means))[:count].tolist()
    shown = search(settings, train, trainings, JUDGED)
    left, listed = trainings - sum(used.values()), shortlist(shown, JUDGED)
    for number, setting in enumerate(listed, 1):
        if left < JUDGED:
            break
        exceeds = np.flatnonzero(world.leaks(setting, MORE, JUDGED) > 1)
        left -= int(exceeds[0]) + 1 if len(exceeds) else JUDGED
        if not len(exceeds):
            return Search(setting, trainings - left, number)
    return Search(None, trainings - left, len(listed))


def by_hand(world: World, trainings: int) -> Search:
    """The most useful of all that pass, each by 5 calibrating and 19 judged trainings."""
    passing = [
        setting
        for setting in range(len(world.means))
        if (world.leaks(setting, 5, JUDGED) <= 1).all()
    ]
    best = max(passing, key=lambda setting: world.useful[setting], default=None)
    return Search(best, 24 * len(world.means), 0)


def grid(world: World, trainings: int) -> Search:
    """The most useful of all whose five trainings pass."""
    passing = [s for s in range(len(world.means)) if (world.leaks(s, 2, 3) <= 1).all()]
    best = max(passing, key=lambda setting: world.useful[setting], default=None)
    return Search(best, 5 * len(world.means), 0)


def simulate(
    make: Callable[[np.random.Generator], World],
    choose: Callable[[World, int], Search],
    trainings: int,
    searches: int,
) -> dict[str, float]:
    """Return shares of searches, and the mean number of trainings."""
    totals: Counter[str] = Counter()
    for seed in range(searches):
        world = make(np.random.default_rng([seed, trainings]))
        result = choose(world, trainings)
        totals["trainings"] += result.trainings
        sure = [s for s in range(len(world.means)) if world.exceeding(s) <= 0.005]
        best = max((world.useful[s] for s in sure), default=0.0)
        if result.chosen is None:
            totals["none"] += 1
            continue
        totals["go"] += 1
        totals["next"] += int(world.leaks(result.chosen, MORE, 1)[0] > 1)
        totals["above"] += world.exceeding(result.chosen) > 0.05
        totals["near"] += world.useful[result.chosen] >= 0.95 * best
    names = ("go", "next", "above", "none", "near", "trainings")
    return {name: totals[name] / searches for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searches", type=int, default=500)
    searches = parser.parse_args().searches
    print("false GO at most, for 1 to 4 candidates:", end=" ")
    print(", ".join(f"{false_go(m, JUDGED):.4f}" for m in range(1, 5)))
    header = ("settings", "search", "budget", "GO", "and next exceeds", "p > .05", "none found")
    print(" | ".join((*header, "within 5 % of the best", "trainings used")))
    rows = [
        *((some_pass, tuned, budget) for budget in (60, 100, 150, 200)),
        *((make, tuned, 200) for make in (none_pass, at_eight)),
        *((make, way, 0) for make in (some_pass, none_pass, at_eight) for way in (grid, by_hand)),
    ]
    for make, way, budget in rows:
        one = simulate(make, way, budget, searches)
        numbers = [f"{one[name]:.3f}" for name in ("go", "next", "above", "none", "near")]
        cells = (make.__name__, way.__name__, str(budget), *numbers, f"{one['trainings']:.0f}")
        print(" | ".join(cells))


if __name__ == "__main__":
    main()
