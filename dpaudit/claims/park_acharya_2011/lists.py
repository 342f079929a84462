"""Park & Acharya 2011, section 4: top-k lists by a Markov chain."""

from __future__ import annotations

from collections.abc import Callable

from dpaudit.claims.entry import PublishedClaim
from dpaudit.claims.games import EntryGame, ListGame
from dpaudit.claims.park_acharya_2011 import data
from dpaudit.data.ratings import STARS
from dpaudit.defenses.base import EntryPair
from dpaudit.defenses.item_item.slope_one import SlopeOne
from dpaudit.defenses.top_k.defense import TopK

_PAPER = "Park & Acharya 2011"


def _named(name: str) -> Callable[[TopK], EntryPair]:
    return lambda defense: defense.pair(name, STARS)


_JOINT = TopK(epsilon=1.0, variant="corrected")
_PEELING = TopK(epsilon=1.0, variant="corrected", mechanism="peeling")

LISTS = (
    PublishedClaim(
        id="pa11-s3.4-own-listed",
        sentence="A list made of noised predictions is ε-differentially private when the target "
        "adds a rating.",
        source=f"{_PAPER}, section 3.4, with Theorem 3.1",
        adjacency="rating-add-remove",
        observer="list",
        recorded="falsified",
        basis="on a reading",
        because="Only unrated items are shown. An item that is listed on one data set has been "
        "rated in the other, and then cannot be listed: an observer of the listed items has ε = ∞. "
        "Theorem 3.1 is not affected, since its item is unrated in both. Under rating-replace, or "
        "if the rated items are public, this loss does not occur.",
        published=(
            ListGame(
                "top-10",
                SlopeOne(epsilon=1.0, top_k=10),
                data.own_listed,
                law=lambda before, after, scale: float("inf"),
            ),
        ),
        reading="the guarantee of section 3.2 applies to the list of section 3.4",
    ),
    PublishedClaim(
        id="pa11-s4-chain",
        sentence="A top-k list drawn by the birth-death chain over the sets of section 4.4 is "
        "ε-differentially private (up to the chain's distance from its limit) when one entry of "
        "the completed matrix changes.",
        source=f"{_PAPER}, sections 4.1, 4.2 and 4.4, eqs (28)-(36)",
        adjacency="entry-replace",
        observer="list",
        recorded="falsified",
        because="Every listed set is the best one with at most one item swapped, so the possible "
        "sets depend on the data. When the last-ranked item becomes the best, the chain draws sets "
        "that are two swaps from the old best one and had probability 0. From k = 2 on, the "
        "probability of some set changes from 0 to a positive value, after any number of steps and "
        "in the limit law, for both enumerations and at every ε.",
        published=(
            EntryGame("1000 steps, sets as meant", TopK(epsilon=1.0), _named("last-ranked")),
            EntryGame(
                "1000 steps, sets as printed",
                TopK(epsilon=1.0, enumeration="printed"),
                _named("last-ranked"),
            ),
            EntryGame(
                "the limit's law", TopK(epsilon=1.0, mechanism="exact"), _named("last-ranked")
            ),
            EntryGame(
                "the limit's law, eq. (28)",
                TopK(epsilon=1.0, mechanism="exact", rates="halved"),
                _named("last-ranked"),
            ),
        ),
        corrected=(
            EntryGame("joint law of all sets", _JOINT, _named("last-ranked")),
            EntryGame("joint law, its worst pair", _JOINT, _named("among-best")),
            EntryGame("peeling", _PEELING, _named("last-ranked")),
            EntryGame("peeling, its worst pair", _PEELING, _named("among-best")),
            EntryGame(
                "joint law, one rating in the data",
                TopK(epsilon=1.0, variant="corrected", adjacency="rating-replace"),
                _named("own-rating"),
            ),
        ),
        weak={
            "joint law, one rating in the data": "A rating in the data changes its user's "
            "predictions by a small part of what the noise covers.",
        },
    ),
    PublishedClaim(
        id="pa11-s4.1-eq28",
        sentence="Drawing a set with probability ∝ φ^{ε/2} from all sets of k items is "
        "ε-differentially private when one entry of the completed matrix changes.",
        source=f"{_PAPER}, eq. (28), with Theorem 2.2 and Proposition 4.2",
        adjacency="entry-replace",
        observer="list",
        recorded="holds",
        because="Theorem 2.2 with φ = exp(f/U_r), whose logarithm changes by Δr/U_r ≤ 1. One entry "
        "changes all sets that contain it in the same direction, so the loss is at most "
        "ε Δr/(2 U_r) ≤ ε/2.",
        held_by="tests/papers/test_park_acharya_2011.py",
    ),
)
