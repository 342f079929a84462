"""Access to the item similarities that a Sybil attack needs."""

from __future__ import annotations

from dpaudit.core.errors import ConfigError
from dpaudit.defenses.base import OnDemandDefense, Similarities


def similar(defense: OnDemandDefense) -> Similarities:
    """Return the item similarities behind a defense's predictions.

    Raises:
        ConfigError: the defense has none.
    """
    similarities = defense.similarities()
    if similarities is None:
        raise ConfigError(
            "the attack 'sybil' works through item similarities, which this defense does not "
            "have: use an item-item recommender or top-k"
        )
    return similarities
