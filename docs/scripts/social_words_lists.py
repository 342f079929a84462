"""What Meng et al. (2018) say in section 7.6 of lists and of selections of what is sensitive."""

from __future__ import annotations

import math
from collections.abc import Sequence

from social_verdicts import Across, Differs, Larger, Metric, Sentence
from social_words import ERRORS, FEW, FULL, LEAKS, RECOVERED, Said

from dpaudit.record.bases import LEAK, RELEASED

BPR, SBPR, RANKING = ("BPR", math.inf), ("SBPR", math.inf), ("PrivSR", 0.1)
HITS: Sequence[Metric] = (("utility.precision", None), ("utility.recall", None))
FOUND: Sequence[Metric] = (
    ("reconstruction.precision", RELEASED),
    ("reconstruction.recall", RELEASED),
)
LEAKED: Sequence[Metric] = (("reconstruction.precision", LEAK), ("reconstruction.recall", LEAK))
# Four selections of Ciao's 28 categories, with 9 %, 40 %, 5 % and 3 % of all ratings.
CATEGORIES = ((8, 14, 23), (1, 3, 10), (9, 17, 18), (13, 16, 28))


def chosen(categories: Sequence[int], matched: bool) -> str:
    """Name the place of a selection of categories, or of as many ratings drawn at random."""
    return f"{', '.join(map(str, categories))}{', as many at random' * matched}"


PAIRS = [(chosen(three, False), chosen(three, True)) for three in CATEGORIES]
TURNED = [(random, own) for own, random in PAIRS]


LISTS = Said(
    "Figures 12 and 13: lists",
    [
        Sentence(
            "social relationships help increase top k recommendation effectiveness but involve in "
            "more potential privacy leakage",
            [
                Differs(
                    "SBPR hits more than BPR, paired", ("precision", "recall"), [SBPR], above=True
                ),
                Larger("more private items are found by SBPR", FOUND, [(SBPR, BPR)]),
            ],
        ),
        Sentence(
            "Compared to BPR, the extended PrivSR can effectively increase the level of privacy "
            "protection while can even achieve better recommendation effectiveness when percentage "
            "of sensitive feedbacks is less than 30%",
            [
                Larger("fewer private items are found by PrivSR", FOUND, [(BPR, RANKING)]),
                Differs(
                    "it hits more than BPR, paired, where x is below 30 %",
                    ("precision", "recall"),
                    [RANKING],
                    above=True,
                    places=FEW,
                ),
            ],
        ),
        Sentence(
            "Compared to SBPR, the extended PrivSR can outperform on privacy protection but not on "
            "recommendation performance",
            [
                Larger("fewer private items are found by PrivSR", FOUND, [(SBPR, RANKING)]),
                Larger("SBPR hits more", HITS, [(SBPR, RANKING)]),
            ],
        ),
    ],
    "BPR and SBPR choose among as many settings as PrivSR here, and all are held against the list "
    "of the most popular items, which the paper does not have and which noise leaves of PrivSR.",
    [
        Sentence(
            "social relationships … involve in more potential privacy leakage",
            [Larger("SBPR leaks more than BPR", LEAKED, [(SBPR, BPR)])],
        ),
        Sentence(
            "Compared to BPR [and to SBPR] … increase the level of privacy protection",
            [Larger("PrivSR leaks less", LEAKED, [(BPR, RANKING), (SBPR, RANKING)])],
        ),
    ],
)


def _figure_14(
    title: str, baseline: str, useful: Sequence[Metric], protected: Across, leaks: Sequence[Metric]
) -> Said:
    """Figure 14, by one form of the model."""
    similar = Across("similar: means within 5 %", useful, protected.point, PAIRS, 0.05)
    less = Across("they leak less than as many at random", leaks, protected.point, TURNED)
    return Said(
        title,
        [
            Sentence(
                "compared to randomly selection, selection based on selected item types can "
                "achieve similar recommendation effective but obtain much better privacy "
                "protection",
                [similar, protected],
            )
        ],
        "This edition numbers its categories and does not name them, so the paper's three cannot "
        "be found in it: four selections of three stand for them, from the largest categories to "
        "small ones, and they differ in how well what is private is guessed without any model "
        f"({baseline}).",
        [Sentence("much better privacy protection", [less])],
    )


CATEGORY_LISTS = _figure_14(
    "Figure 14: likes of three categories, or as many at random",
    "the last column",
    HITS,
    Across("fewer of them are found than at random", FOUND, RANKING, TURNED),
    LEAKED,
)
CATEGORY_RATINGS = _figure_14(
    "Figure 14 by the rating form, which is not the paper's",
    "the column of item means",
    ERRORS,
    Across("they are recovered worse than at random", RECOVERED, FULL, PAIRS),
    LEAKS,
)
