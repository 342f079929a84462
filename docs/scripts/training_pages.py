"""What papers say of their figures, and what stands beside ours: the texts of `make_training`.

The figures themselves are in no copy of the papers at hand; quoted is their text, word for word.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """A sentence: a model has a smaller error than others in a range of ε.

    Attributes:
        by: who says so.
        words: the sentence, in ours.
        models: the models that it is about.
        others: what they are said to be better than.
        least: from this ε on,
        most: up to this ε.
    """

    by: str
    words: str
    models: tuple[str, ...]
    others: tuple[str, ...]
    least: float = 0.0
    most: float = math.inf


@dataclass(frozen=True)
class Page:
    """What is written of one example.

    Attributes:
        title: its heading.
        quoted: what the paper's text says about its curve.
        differs: why ours is another, in one sentence.
        said: what the paper says of its figure, to be judged.
        floors: models without privacy that the others are held against: those of the paper, then
            the best.
        shared: of defenses, the number of ratings of a user that their ε is divided by.
        note: what else is to be known.
    """

    title: str
    quoted: str
    differs: str
    said: tuple[Said, ...] = ()
    floors: tuple[str, ...] = ()
    shared: Mapping[str, int] | None = None
    note: str = ""


PAPER, OURS = "The paper", "The same with our grid"
CLAIM = "The same at temperature 1, which the claim needs"
RAW, CENTRED, BEST = "COS, raw ratings", "COS, centred", "neighbourhood, tuned"
UNTRAINED, FREE_MF = "DPSGD-PNBM, not trained", "MF, no privacy, tuned"
SGD_MF, OUR_MF = "DPSGD-MF, the paper's grid", "DPSGD-MF, tuned"
COLD, WARM = "the paper's temperatures", "temperature 1"


def _beaten(
    by: str, words: str, models: tuple[str, ...], least: float, most: float = math.inf
) -> tuple[Said, ...]:
    """That models beat PCC and COS, with either reading of COS."""
    return tuple(
        Said(by, f"{words} ({cos})", models, ("PCC", cos), least, most) for cos in (RAW, CENTRED)
    )


_TEXT = "The curve itself is not in the text at hand; it says"
_CODE = "the code that the paper links to (github.com/lux-jwang/Experiments, dpnbm, commit a477514)"
_WARM_NOISE = (
    "at temperature 1 the noise of Algorithm 2 hides what is learned: that of the bias of an item "
    "with n ratings has the variance 6400/(ε (n + λ)) in DPPS-MF"
)
_COLD_NOTE = (
    "A temperature ϱ multiplies the true ε by 1/ϱ, and a chain of so few steps is not at its law: "
    "the ε of these columns are the papers' own, which nothing here certifies."
)
_OWN_FIT = (
    "Users of DPPS-MF fit their own side with a prior that allows for the noise of what is "
    "released ([posterior samplers](../methods/training.md#posterior-samplers))."
)
_PS_DIFFERS = (
    f"{_CODE} multiplies the sum of all gradients by twice their number once more, so its noise "
    "is that of a temperature 10⁵ to 10⁶ times lower than it states, while ours is Algorithm 2's; "
    f"and {_WARM_NOISE}."
)


def _figure_1(data: str) -> Page:
    return Page(
        title=f"A rating's value protected, {data} (Wang & Tang 2017, Figure 1)",
        quoted=f"{_TEXT} "
        "“When ε ≥ 20, DPSGD-MF does not lose much accuracy, and it is better than "
        "non-private PCC and COS. However, the accuracy drops quickly (or, the RMSE increase "
        "quickly) when the privacy loss ε is reduced. … In the contrast, DPSGD-PNBM maintains a "
        "promising accuracy when ε ≥ 1, and is better than non-private PCC and COS.”",
        differs="what is beaten depends on which COS is meant, which the text leaves open; a grid "
        "whose η·K is at most 0.04 leaves the factors of DPSGD-MF where they start, so larger "
        "steps and fewer passes do better; and the noise of Algorithm 1 leaves DPSGD-PNBM at its "
        f"start, while {_CODE} drops the clamped errors, takes them from raw ratings and divides "
        "the noise's scale by √2.",
        said=(
            *_beaten(PAPER, "from ε = 20 on DPSGD-MF beats PCC and COS", (SGD_MF,), 20),
            *_beaten(OURS, "from ε = 20 on DPSGD-MF beats PCC and COS", (OUR_MF,), 20),
            *_beaten(PAPER, "from ε = 1 on DPSGD-PNBM beats PCC and COS", ("DPSGD-PNBM",), 1),
            Said(PAPER, "at small ε DPSGD-PNBM beats DPSGD-MF", ("DPSGD-PNBM",), (SGD_MF,), most=1),
            Said(OURS, "at small ε DPSGD-PNBM beats DPSGD-MF", ("DPSGD-PNBM",), (OUR_MF,), most=1),
        ),
        floors=("PCC", RAW, CENTRED, BEST, FREE_MF, UNTRAINED),
    )


def _figure_2(data: str) -> Page:
    words, small = (
        "from ε = 0.1 · 200 on {} beats PCC and COS",
        "at small ε DPPS-PNBM beats DPPS-MF",
    )
    said: list[Said] = []
    for by, kind in ((PAPER, COLD), (CLAIM, WARM)):
        neighbours, factors = f"DPPS-PNBM, {kind}", f"DPPS-MF, {kind}"
        said += _beaten(by, words.format("DPPS-PNBM"), (neighbours,), 20)
        said += _beaten(by, words.format("DPPS-MF"), (factors,), 20)
        said.append(Said(by, small, (neighbours,), (factors,), most=20))
    return Page(
        title=f"Users protected, {data} (Wang & Tang 2017, Figure 2)",
        quoted=f"{_TEXT} "
        "“Both DPPS-PNBM and DPPS-MF allow accurate estimations when ε ≥ 0.1 × 200. … "
        "Besides the accuracy performance is better than the non-private PCC and COS”; in "
        "summary, “DPSGD-MF and DPPS-MF are more accurate when privacy loss is large. DPSGD-PNBM "
        "and DPPS-PNBM are better when we want to reduce the privacy loss to a meaningful range.”",
        differs=_PS_DIFFERS,
        said=tuple(said),
        floors=("PCC", RAW, CENTRED, BEST),
        note=f"{_COLD_NOTE} {_OWN_FIT}",
    )


def _figure_3(data: str) -> Page:
    words = "at the same ε a rating DPPS-PNBM seems to be more accurate than DPSGD-PNBM"
    return Page(
        title="The two neighbourhood models at the same ε a rating, "
        f"{data} (Wang & Tang 2017, Figure 3)",
        quoted=f"{_TEXT} "
        "“Fig. 3 shows that both solutions can obtain quite accurate predictions with a "
        "privacy guarantee (ε ≈ 1). With the same privacy guarantee, DPPS-PNBM seems to be more "
        "accurate.”",
        differs=_PS_DIFFERS,
        said=(
            Said(PAPER, words, (f"DPPS-PNBM, {COLD}",), ("DPSGD-PNBM",)),
            Said(CLAIM, words, (f"DPPS-PNBM, {WARM}",), ("DPSGD-PNBM",)),
            *_beaten(
                PAPER,
                "with ε ≈ 1 both are quite accurate, better than PCC and COS",
                ("DPSGD-PNBM", f"DPPS-PNBM, {COLD}"),
                least=1,
                most=1,
            ),
        ),
        floors=("PCC", RAW, CENTRED, BEST),
        shared={"dpps-pnbm": 200},
        note=f"The samplers' ε, a user's, is divided by τ = 200. {_COLD_NOTE}",
    )


PAGES = {
    "ml-100k-wt17-figure-1": _figure_1("MovieLens-100K"),
    "ml-1m-wt17-figure-1": _figure_1("MovieLens-1M"),
    "ml-100k-wt17-figure-2": _figure_2("MovieLens-100K"),
    "ml-1m-wt17-figure-2": _figure_2("MovieLens-1M"),
    "ml-100k-wt17-figure-3": _figure_3("MovieLens-100K"),
    "ml-1m-wt17-figure-3": _figure_3("MovieLens-1M"),
    "ml-1m-lws15": Page(
        title="Users protected, factorisation on MovieLens-1M (Liu, Wang & Smola 2015)",
        quoted=f"{_TEXT} "
        "“a modest decrease in accuracy affords a useful gain in privacy”, of curves on "
        "Netflix and Yahoo data.",
        differs="neither data set is to be had, and ours has 1 million ratings where theirs have "
        "33 and 100 million, so that noise weighs more on each item; what step and chain length "
        "their curves have is not in the text.",
        floors=("MF, no privacy", "the sampler's descent, no privacy"),
        note=f"With B = 1250 a user with m ratings has ε_u = ε · min(1, m/50). {_COLD_NOTE} "
        f"{_OWN_FIT}",
    ),
    "ml-100k-nonprivate": Page(
        title="Without privacy, on the published divisions of MovieLens-100K",
        quoted="The paper says "
        "“the instantiation in [29] outperforms most other NBM systems and even the MF or "
        "probabilistic MF systems in many settings”; “Generally, MF is more accurate than NBM” "
        "(Wang & Tang 2017, section 1).",
        differs="no number of theirs stands beside these sentences.",
        said=(
            *(
                Said(
                    PAPER,
                    f"the learned neighbourhood model beats other neighbourhood models ({cos})",
                    ("PNBM",),
                    ("PCC", cos),
                )
                for cos in (RAW, CENTRED)
            ),
            Said(
                "Beyond the paper",
                "it beats the best neighbourhood model that was chosen on a tenth of u1's training",
                ("PNBM",),
                ("neighbourhood, at its best",),
            ),
            Said(
                PAPER,
                "where nothing is private, factorisation is the more accurate",
                ("MF",),
                ("PCC", RAW, CENTRED, "PNBM"),
            ),
        ),
        floors=("PCC", RAW, CENTRED, "neighbourhood, at its best"),
    ),
}
