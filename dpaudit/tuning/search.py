"""Which settings to train how often, and which to judge: the search decides nothing else.

A setting's leak is measured in units of its limit, so that 1 is at the limit: of several gates it
is the largest in each training. So is a utility that a gate limits, which varies less.

**Schedule.** Each setting is trained once and ranked by utility alone: with one training the order
of leaks tells next to nothing of that with many. At most 40 % are dropped, of ten or fewer none if
there are trainings for all, and never the one with the least utility, which is the safe one where
leaks grow with utility. The others get 3 trainings, of which each is attacked with the help of the
two others, and of all settings the best 30 %, and at least three, get 6.

**Shortlist.** With the mean leak l, the deviation s and n trainings the next training exceeds with
the probability p(m) = P(m + s z > 1), z standard normal, if the mean of all trainings is m. For m
the law is l + (s/√n) z′, so J new trainings pass with

    P(pass) = E (1 − p(l + (s/√n) z′))^J.

A list of settings with the utilities u_1 ≥ u_2 ≥ … that are judged one after the other until one
passes has the expected utility u_1 P_1 + (1 − P_1)(u_2 P_2 + (1 − P_2) …), and of all orders of the
same settings this one has most: exchanging neighbours i, j changes it by P_i P_j (u_i − u_j). So
the riskier come first. The last is safe, l + 2.6 s ≤ 1, if any setting is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

# The numbers of trainings of a setting: for utility alone, for its leak, and of the best ones.
ONCE, SOME, MORE = 1, 3, 6
# The largest share of settings that utility alone drops, and that of those that get most trainings.
_DROPPED, _BEST = 0.4, 0.3
# So many settings are never dropped if there are enough trainings, as that would save little.
_FEW = 10
# The most settings that are judged.
MOST_JUDGED = 3
# Deviations by which the mean leak of a safe setting is below the limit.
SAFE = 2.6
# The deviation of a training's leak from the mean, as a share of it: as measured .2 to .6; and that
# of a utility, as measured .02 to .1. The weight of these guesses is that of one training.
_SPREAD, _STEADY, _GUESSED = 1 / 3, 0.05, 1.0
# A chance to pass that is not worth trainings.
_HOPELESS = 0.02
# How many settings are searched for the best list.
_LISTED = 16


class Numbers(NamedTuple):
    """A number in units of its limit, in each training of a setting.

    Attributes:
        values: the numbers, at least one.
        usual: the usual deviation of one from their mean, as a share of it.
        drawn: the deviation of the mean between runs that hold out other interactions, likewise.
    """

    values: tuple[float, ...]
    usual: float
    drawn: float = 0.0

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(np.mean(self.values))

    @property
    def spread(self) -> float:
        """The standard deviation of one.

        Of few trainings it is a mean of their variance and of that which is usual.
        """
        own = float(np.sum((np.array(self.values) - self.mean) ** 2))
        usual = (self.usual * self.mean) ** 2
        return math.sqrt((own + _GUESSED * usual) / (len(self.values) - 1 + _GUESSED))

    def passing(self, judged: int) -> float:
        """Return P(pass): that none of so many new ones exceeds the limit."""
        from scipy.stats import norm

        nodes, weights = np.polynomial.hermite_e.hermegauss(41)
        weights = weights / weights.sum()
        spread = max(self.spread, 1e-12)
        away = math.hypot(spread / math.sqrt(len(self.values)), self.drawn * self.mean)
        means = self.mean + away * nodes
        return float(weights @ norm.cdf((1 - means) / spread) ** judged)


@dataclass(frozen=True)
class Trained:
    """What the trainings of a setting show.

    Attributes:
        leaks: the leak of each, in units of the limit; none while utility alone is read.
        utility: the mean utility over the trainings, larger is better.
        trainings: how many there are.
        steady: as `leaks`, of utilities that gates limit.
        drawn: the deviation of these between runs that hold out other interactions, as a share.
    """

    leaks: tuple[float, ...]
    utility: float
    trainings: int
    steady: tuple[float, ...] = ()
    drawn: float = 0.0

    @cached_property
    def numbers(self) -> list[Numbers]:
        """What gates limit: leaks, and utilities."""
        both = Numbers(self.leaks, _SPREAD), Numbers(self.steady, _STEADY, self.drawn)
        return [numbers for numbers in both if numbers.values]

    @property
    def leak(self) -> float:
        """The larger mean; infinite if none is known."""
        return max((numbers.mean for numbers in self.numbers), default=math.inf)

    def beyond(self, deviations: float) -> float:
        """Return how far so many deviations above a mean are beyond the limit."""
        ends = (numbers.mean + deviations * numbers.spread for numbers in self.numbers)
        return max(ends, default=math.inf) - 1

    @property
    def safe(self) -> bool:
        """Whether the means are so far below the limits that a pass is likely."""
        return self.beyond(SAFE) <= 0

    def passing(self, judged: int) -> float:
        """Return P(pass): that in none of so many new trainings anything exceeds its limit."""
        chances = [numbers.passing(judged) for numbers in self.numbers]
        return math.prod(chances) if chances else 0.0


# Trains a setting up to so many times, and says what these trainings show.
Train = Callable[[int, int], Trained]


def false_go(candidates: int, judged: int) -> float:
    """Bound the probability that GO is said and the next training of that setting exceeds.

    Given the search, the judged trainings and the next one of a setting that exceeds in a share p
    of its trainings are independent. It passes with (1 − p)^J, and then the next exceeds with p;
    else the next candidate is judged. So the largest probability with m candidates is

        V_m = max_p (1 − p)^J p + (1 − (1 − p)^J) V_{m−1} = V_{m−1} + max_p (1 − p)^J (p − V_{m−1}),

    with V_0 = 0. The derivative is zero at p = (1 + J V)/(J + 1), so the maximum is
    (1 − V)^{J+1} J^J / (J + 1)^{J+1}.

    Args:
        candidates: the number of candidates m.
        judged: the number of judged trainings J of each, at least 1.
    """
    value, power = 0.0, judged * math.log(judged) - (judged + 1) * math.log(judged + 1)
    for _ in range(candidates):
        value += (1 - value) ** (judged + 1) * math.exp(power)
    return value


def reserved(trainings: int, judged: int) -> int:
    """Return how many of all trainings the search leaves for judging."""
    return min(2 * judged + 2, max(judged + 3, math.ceil(0.3 * trainings)))


def settings_for(trainings: int, judged: int) -> int:
    """Return how many settings so many trainings can search, at least 1."""
    share = ONCE + (SOME - ONCE) * (1 - _DROPPED) + (MORE - SOME) * _BEST
    return max(1, int((trainings - reserved(trainings, judged)) / share))


def fewest(settings: int, judged: int) -> int:
    """Return the fewest trainings with which so many settings are searched and one is judged.

    The unchanged one and another have most trainings in any case.
    """
    return judged + max(2 * MORE, settings * ONCE + MORE - ONCE)


def search(
    settings: Sequence[int], train: Train, trainings: int, judged: int
) -> Mapping[int, Trained]:
    """Train the settings by the schedule, and return what each shows.

    Args:
        settings: their numbers; the first is the unchanged one, which has most trainings in any
            case, as all others are compared with it.
        train: trains a setting up to 1, 3 or 6 times; the first training shows no leak.
        trainings: the number of trainings of all, with those for judging.
        judged: how many trainings judge a candidate.
    """
    count, unchanged = len(settings), settings[0]
    left = trainings - reserved(trainings, judged) - count * ONCE
    shown = {setting: train(setting, ONCE) for setting in settings}
    ranked = sorted(settings, key=lambda setting: -shown[setting].utility)
    # Of what is left a third each would go to the best ones, which have 3 trainings already.
    step = SOME - ONCE
    share = step + (MORE - SOME) * _BEST / (1 - _DROPPED)
    wanted = max(math.ceil((1 - _DROPPED) * count), min(count, _FEW))
    keep = max(1, min(wanted, int(left / share)))
    others = [one for one in ranked if one != unchanged]
    kept = [*others[:-1][: max(0, keep - 2)], *others[-1:], unchanged]
    for setting in kept:
        shown[setting] = train(setting, SOME)
    return refine(kept, shown, train, left - step * len(kept), judged, count)


def proposals(trainings: int, judged: int) -> int:
    """Return how many settings so many trainings can search if each has 3 at once, at least 2."""
    more = MORE - SOME
    return max(2, int((trainings - reserved(trainings, judged) - more) / (SOME + more * _BEST)))


def refine(
    kept: Sequence[int], shown: dict[int, Trained], train: Train, left: int, judged: int, count: int
) -> Mapping[int, Trained]:
    """Train the best settings most often, and return what each shows.

    Args:
        kept: those with 3 trainings; the unchanged one, which has most in any case, is the last.
        shown: what each setting shows; changed.
        train: as in `search`.
        left: how many trainings are left, without those for judging.
        judged: how many trainings judge a candidate.
        count: the number of all settings.
    """
    shown[kept[-1]] = train(kept[-1], MORE)
    more = MORE - SOME
    left -= more
    most = max(1, min(max(math.ceil(_BEST * count), MOST_JUDGED), left // more))
    for setting in _hopeful({one: shown[one] for one in kept}, judged)[:most]:
        if shown[setting].trainings < MORE:
            shown[setting] = train(setting, MORE)
    return shown


def _hopeful(shown: Mapping[int, Trained], judged: int) -> list[int]:
    """Return the settings by expected utility that have a chance; the nearest one if none has.

    What is less useful than four safe ones takes no list's place.
    """
    chance = {one: trained.passing(judged) for one, trained in shown.items()}
    ranked = sorted(shown, key=lambda one: -shown[one].utility * chance[one])
    safe = sorted((shown[one].utility for one in ranked if shown[one].safe), reverse=True)
    least = safe[3] if len(safe) > 3 else -math.inf
    able = [one for one in ranked if chance[one] > _HOPELESS and shown[one].utility >= least]
    return able or sorted(shown, key=lambda one: shown[one].leak)[:1]


def shortlist(shown: Mapping[int, Trained], judged: int) -> list[int]:
    """Return the settings to judge one after the other, at most three, the most useful first.

    Of the settings with most trainings it is the list with the largest expected utility that ends
    with a safe one; without a safe one any may be last. It is empty if none has a chance.

    Args:
        shown: what the trainings of each setting show.
        judged: how many trainings judge a candidate.
    """
    able = [one for one, trained in shown.items() if trained.trainings >= MORE]
    chance = {one: shown[one].passing(judged) for one in able}
    able = sorted(able, key=lambda one: -shown[one].utility * chance[one])[:_LISTED]
    able = [one for one in able if chance[one] > _HOPELESS]
    safe = {one for one in able if shown[one].safe}
    best: tuple[float, list[int]] = (-math.inf, [])
    for size in range(1, MOST_JUDGED + 1):
        for some in combinations(able, size):
            order = sorted(some, key=lambda one: -shown[one].utility)
            if safe and order[-1] not in safe:
                continue
            value = 0.0
            for one in reversed(order):
                value = chance[one] * shown[one].utility + (1 - chance[one]) * value
            best = max(best, (value, order), key=lambda pair: pair[0])
    return best[1]
