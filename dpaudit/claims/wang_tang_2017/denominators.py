"""Count denominators of Algorithm 1 (Wang & Tang 2017) below the bound that Theorem 1 assumes."""

from __future__ import annotations

from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.data.source import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.neighborhood.denominators import Shortfall, shortfalls
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity

# Number of trainings for the counts, which noise hardly changes.
_TRIALS = 4


def short_weights(ratings: Ratings, defense: SgdSimilarity, seed: int) -> str | None:
    """`Σ_j |s_ij| ≥ C` in every prediction of the first and the last step."""
    streams = Streams.first(seed, "weights", _TRIALS)
    first, last = shortfalls(defense, defense.prepare(ratings), streams)
    counted = [first, last] if defense.steps > 1 else [first]
    if not any(shortfall.below.any() for shortfall in counted):
        return None
    return "; ".join(map(_words, counted))


def _words(shortfall: Shortfall) -> str:
    below = f"{shortfall.below.mean():.4g} of {shortfall.of} predictions ({shortfall.share:.2%})"
    return f"step {shortfall.step}: {below} below C, the least is {shortfall.least.min():.3g}"


def generated() -> Ratings:
    """Return ratings of a hundred users, some of whom have just over 20."""
    return generate(SyntheticParams(n_users=100, n_items=120, mean_per_user=30, seed=1))
