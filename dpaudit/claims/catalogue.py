"""All published guarantees with their verdicts."""

from __future__ import annotations

from collections.abc import Iterable

from dpaudit.claims.berlioz_2015 import entries as berlioz15
from dpaudit.claims.entry import PublishedClaim
from dpaudit.claims.liu_wang_smola_2015 import entries as lws15
from dpaudit.claims.luo_2020 import entries as fg
from dpaudit.claims.meng_2018 import entries as privsr
from dpaudit.claims.meng_2018 import ranking as privsr_ranking
from dpaudit.claims.mironov_2012 import entries as mironov12
from dpaudit.claims.park_acharya_2011 import checks as pa11_checks
from dpaudit.claims.park_acharya_2011 import lists as pa11_lists
from dpaudit.claims.park_acharya_2011 import predictions as pa11
from dpaudit.claims.wang_tang_2017 import chain as wt17_chain
from dpaudit.claims.wang_tang_2017 import entries as wt17
from dpaudit.claims.wang_tang_2017 import sampled as wt17_sampled
from dpaudit.core.errors import ConfigError
from dpaudit.core.registry import suggestion

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
    """Return the entries whose ids equal, or start with, one of `ids`; all if `ids` is empty.

    Raises:
        ConfigError: an id matches no entry.
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
    """Whether `word` is the entry's id or its first dash-separated parts: `pa11`, but not `pa`."""
    return entry.id == word or entry.id.startswith(f"{word}-")
