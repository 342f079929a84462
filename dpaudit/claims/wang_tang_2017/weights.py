"""How often the denominators of Algorithm 1 (Wang & Tang 2017) lie below what Theorem 1 assumes."""

from __future__ import annotations

from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.data.source import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.neighborhood.checks import Shortfall, shortfalls
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity

# GameScores that are trained for a count: their noise moves it little.
_TRIALS = 4


def short_weights(ratings: Ratings, defense: SgdSimilarity, seed: int) -> str | None:
    """`Σ_j |s_ij| ≥ C` in every prediction of the first step and of the last."""
    streams = Streams.first(seed, "weights", _TRIALS)
    first, last = shortfalls(defense, defense.prepare(ratings), streams)
    found = [first, last] if defense.steps > 1 else [first]
    if not any(each.below.any() for each in found):
        return None
    return "; ".join(map(_words, found))


def _words(found: Shortfall) -> str:
    below = f"{found.below.mean():.4g} of {found.of} predictions ({found.share:.2%})"
    return f"step {found.step}: {below} below C, the least is {found.least.min():.3g}"


def generated() -> Ratings:
    """Ratings of a hundred users, some of whom have few more than 20."""
    return generate(SyntheticParams(n_users=100, n_items=120, mean_per_user=30, seed=1))
