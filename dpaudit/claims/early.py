"""An early end of a game of the catalogue: bets on its first trials refute the claim.

Looks at a growing part of the trials settle bets against the claimed (ε, δ), a round being a trial
on D and one on D' (`EProcess`). A game whose claim is refuted ends there; any other is run to its
end, and judged by the label test of all its trials.

**One error probability, two parts.** The label test of all trials reads the same scores as the
bets, so the two share the game's level a: the bets have c·a, with c = `SHARE`, and the label test
has (1 − c)·a. Under the claim the p-value of the bets at any time, q, and that of the label test,
p, are each at most u with probability at most u. So

    P(q/c ≤ u or p/(1 − c) ≤ u) ≤ c·u + (1 − c)·u = u,

whatever their dependence. A stopped game has the p-value q/c, any other p/(1 − c); either is at
least the smaller of the two, and therefore valid. Bets end a game only at q/c ≤ α/m of m games,
which Holm's procedure rejects whatever the other games show.

**Rounds are independent.** The noise of a trial has a stream of its own, by the trial's index, and
D and D' have different keys: so a longer look begins with the rounds of a shorter one, and so do
all trials. What a game computes once (gradients, normalisers, the fit of a learned attack) depends
on the data sets or on other trials only. Given these, the scores of all trials are independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dpaudit.bounds.frequentist.sequential import EProcess
from dpaudit.claims.entry import ClaimGame
from dpaudit.claims.verdicts import Outcome

# Each look has so many times the rounds of the one before, and all trials so many times those of
# the last: the looks at a game that is not refuted cost at most a third of its trials again.
_GROWTH = 4
# The fewest rounds of a look.
_FEWEST = 16


def refuted(game: ClaimGame, trials: int, alpha: float, seed: int) -> Outcome | None:
    """Bet on the first trials of a game, up to a quarter; None if its claim is not refuted.

    The wealth is looked at after every round. So neither the number of rounds nor the p-value
    depends on the sizes of the looks.

    Args:
        game: the game.
        trials: its number of trials on each data set.
        alpha: the level of the bets.
        seed: the seed of all trials.
    """
    process = EProcess(*game.claimed(), likelihood=True)
    for count in looks(trials):
        scores, settled = game.run(count, seed), process.rounds
        wealth = process.update(scores.absent[settled:], scores.present[settled:])
        enough = np.flatnonzero(wealth >= -math.log(alpha))
        if len(enough):
            rounds = settled + int(enough[0]) + 1
            return Outcome(
                truth=scores.truth,
                p_value=math.exp(-wealth[enough[0]]),
                event=f"bets win {math.exp(wealth[enough[0]]):.4g} for 1 on {2 * rounds} outputs",
                trials=rounds,
                early=True,
            )
    return None


def looks(trials: int) -> Iterator[int]:
    """Yield the numbers of rounds at which a game of so many trials is looked at, increasing."""
    most = trials // _GROWTH
    if most >= _FEWEST:
        yield from looks(most)
        yield most
