"""All published guarantees with their verdicts."""

from __future__ import annotations

from collections.abc import Iterable

from dpaudit.claims import (
    berlioz15,
    fg,
    lws15,
    mironov12,
    pa11,
    pa11_checks,
    pa11_lists,
    privsr,
    privsr_ranking,
    wt17,
    wt17_chain,
    wt17_sampled,
)
from dpaudit.claims.entry import PublishedClaim
from dpaudit.errors import ConfigError
from dpaudit.registry import suggestion

CATALOGUE: tuple[PublishedClaim, ...] = (
    *pa11.CLAIMS,
    *pa11_lists.LISTS,
    *pa11_checks.CHECKS,
    *wt17.DESCENT,
    *wt17_sampled.POSTERIOR,
    *wt17_chain.CHAIN,
    *lws15.CLAIMS,
    *berlioz15.CLAIMS,
    *mironov12.CLAIMS,
    *fg.CLAIMS,
    *privsr.CLAIMS,
    *privsr_ranking.CLAIMS,
)


def chosen(ids: Iterable[str]) -> list[PublishedClaim]:
    """The entries with these ids, or whose ids begin with them; all if there are none.

    Raises:
        ConfigError: an id fits no entry.
    """
    wanted = list(ids)
    for word in wanted:
        if not any(_fits(entry, word) for entry in CATALOGUE):
            known = [entry.id for entry in CATALOGUE]
            raise ConfigError(f"there is no claim {word!r}{suggestion(word, known)}")
    return [
        entry for entry in CATALOGUE if not wanted or any(_fits(entry, word) for word in wanted)
    ]


def _fits(entry: PublishedClaim, word: str) -> bool:
    """`pa11` fits `pa11-thm3.2`, and so does `pa11-thm3.2`; `pa` does not."""
    return entry.id == word or entry.id.startswith(f"{word}-")
