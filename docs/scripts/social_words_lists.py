"""What Meng et al. (2018) say in section 7.6 of lists and of selections of what is sensitive."""

from __future__ import annotations

import math
from collections.abc import Sequence

from social_numbers import Metric
from social_verdicts import Across, Differs, Larger, Sentence
from social_words import ERRORS, FEW, FULL, LEAKS, Said

from dpaudit.record.bases import BEYOND_MEANS, LEAK, RELEASED

BPR, SBPR, RANKING = ("BPR", math.inf), ("SBPR", math.inf), ("PrivSR", 0.1)
HITS: Sequence[Metric] = (("utility.precision", None), ("utility.recall", None))
# Beyond what the most popular items find in the same fold.
FOUND: Sequence[Metric] = (
    ("reconstruction.precision", BEYOND_MEANS),
    ("reconstruction.recall", BEYOND_MEANS),
)
# Of what is sensitive.
TAKEN: Sequence[Metric] = (
    ("reconstruction.precision", RELEASED),
    ("reconstruction.recall", RELEASED),
)
LEAKED: Sequence[Metric] = (("reconstruction.precision", LEAK), ("reconstruction.recall", LEAK))
# Four selections of Ciao's 28 categories, with 9 %, 40 %, 5 % and 3 % of all ratings.
CATEGORIES = ((8, 14, 23), (1, 3, 10), (9, 17, 18), (13, 16, 28))


def chosen(categories: Sequence[int], matched: bool) -> str:
    """Name the place of a selection of categories, or of as many ratings drawn at random."""
    return f"{' + '.join(map(str, categories))}{', as many at random' * matched}"


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


def _figure_14(differs: str, title: str, useful: Sequence[Metric], *rules: Across) -> Said:
    """Figure 14, by one form of the model; the last rule is about the leak."""
    similar = Across("similar: means within 5 %", useful, rules[0].point, PAIRS, 0.05)
    return Said(
        title,
        [
            Sentence(
                "compared to randomly selection, selection based on selected item types can "
                "achieve similar recommendation effective but obtain much better privacy "
                "protection",
                [similar, *rules[:-1]],
            )
        ],
        "This edition numbers its categories and does not name them, so that four selections of "
        f"three, large to small, stand for the paper's; {differs}.",
        [Sentence("much better privacy protection", rules[-1:])],
    )


_LESS = "they leak less than as many at random"
CATEGORY_LISTS = _figure_14(
    "and nobody shares a like of a category that is sensitive, so that the list of the most "
    "popular shared items has none of them (last column), and an attack finds them only as far as "
    "noise leaves something of their factors, which it does where they are many",
    "Figure 14: likes of three categories, or as many at random",
    HITS,
    Across("fewer of them are found than at random", TAKEN, RANKING, TURNED),
    Across(_LESS, LEAKED, RANKING, TURNED),
)
CATEGORY_RATINGS = _figure_14(
    "and the ratings of some categories are further apart than those of others, so that they are "
    "guessed worse without any model too (column of item means)",
    "Figure 14 by the rating form, which is not the paper's",
    ERRORS,
    Across(
        "they are recovered worse than at random",
        (("reconstruction.rmse", RELEASED), ("reconstruction.mae", RELEASED)),
        FULL,
        PAIRS,
    ),
    Across(_LESS, LEAKS, FULL, TURNED),
)
