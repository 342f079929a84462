"""What a Sybil attack needs of a defense."""

from __future__ import annotations

from dpaudit.core.errors import ConfigError
from dpaudit.defenses.base import OnDemandDefense, Similarities


def similar(defense: OnDemandDefense) -> Similarities:
    """The similarities behind a defense's predictions.

    Raises:
        ConfigError: it has none.
    """
    found = defense.similarities()
    if found is None:
        raise ConfigError(
            "the attack 'campaign' works through item similarities, which this defense does not "
            "have: use an item-item recommender or top-k"
        )
    return found
