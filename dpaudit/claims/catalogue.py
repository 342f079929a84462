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


# The papers by the first part of their entries' ids.
PAPERS = {
    "pa11": "Park & Acharya 2011",
    "wt17": "Wang & Tang 2017",
    "lws15": "Liu, Wang & Smola 2015",
    "berlioz15": "Berlioz et al. 2015",
    "mironov12": "Mironov 2012",
    "fg": "Luo et al. 2020",
    "privsr": "Meng et al. 2018",
}


def paper(entry: PublishedClaim) -> str:
    """Return the key of the entry's paper in `PAPERS`."""
    return entry.id.partition("-")[0]


def chosen(ids: Iterable[str]) -> list[PublishedClaim]:
    """Return the entries that `ids` name; all if `ids` is empty.

    An entry's id names that entry alone; another word names those whose ids start with it.

    Raises:
        ConfigError: an id matches no entry.
    """
    known = [entry.id for entry in CATALOGUE]
    named: set[str] = set()
    for word in (wanted := list(ids)):
        # The first dash-separated parts of ids: `pa11`, but not `pa`.
        matching = {word} if word in known else {one for one in known if one.startswith(f"{word}-")}
        if not matching:
            raise ConfigError(f"there is no claim {word!r}{suggestion(word, [*PAPERS, *known])}")
        named |= matching
    return [entry for entry in CATALOGUE if not wanted or entry.id in named]
