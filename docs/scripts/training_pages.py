"""What papers say of their figures, and what stands beside ours: the texts of `make_training`.

The figures themselves are in no copy of the papers at hand; quoted is their text, word for word.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Said:
    """A sentence: models have a smaller error than others in a range of ε.

    Attributes:
        words: the sentence, in ours.
        pairs: each model that it is about, with those that it is said to be better than.
        least: from this ε on,
        most: up to this ε.
        by: who says so.
        slack: an error counts as smaller up to this share above the others'; a limit of ours.
    """

    words: str
    pairs: Mapping[str, tuple[str, ...]]
    least: float = 0.0
    most: float = math.inf
    by: str = "The paper"
    slack: float = 0.0


@dataclass(frozen=True)
class Page:
    """What is written of one figure.

    Attributes:
        example: the example whose record it is made from.
        title: its heading.
        quoted: what the paper's text says about its curve.
        ours: what ours shows and why it may differ.
        said: what the paper says of its figure, to be judged.
        floors: models without privacy, of which the best is named.
        models: the columns; all of the record unless given.
        shared: of defenses, the number of ratings of a user that their ε is divided by.
        note: what else is to be known.
        users: whether the ε and losses of single users are shown.
    """

    example: str
    title: str
    quoted: str
    ours: str
    said: tuple[Said, ...] = ()
    floors: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    shared: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    users: bool = False


RAW, CENTRED, BEST = "COS, raw ratings", "COS, centred", "neighbourhood, tuned"
BASELINES = ("PCC", RAW, CENTRED)
UNTRAINED, FREE_MF = "PNBM, not trained", "MF, no privacy, tuned"
SGD_PAPER, SGD_TUNED = "DPSGD-PNBM, the paper's grid", "DPSGD-PNBM, tuned"
SGD_START, SGD_TUNED_START = f"{SGD_PAPER} from 0.05", "DPSGD-PNBM, from 0.05, tuned"
MF_PAPER, MF_TUNED = "DPSGD-MF, the paper's grid", "DPSGD-MF, tuned"
PS_PAPER, PS_COLD, PS_WARM = (
    "DPPS-PNBM, the paper's η₁",
    "DPPS-PNBM, ϱ = 0.001, tuned",
    "DPPS-PNBM, ϱ = 1, tuned",
)
PSMF_PAPER, PSMF_COLD, PSMF_WARM = (
    "DPPS-MF, the paper's grid",
    "DPPS-MF, ϱ = 0.0001, tuned",
    "DPPS-MF, ϱ = 1, tuned",
)

FIXED_MF = "MF, the paper's grid"
LWS = ("published, any draw accepted", "corrected", "corrected, B = 1250")

# The models whose grid is within the paper's, and the ends of the paper's by defense and parameter,
# which are no choice of ours. Not DPPS-MF: the paper does not say how long its chains are.
OF_THE_PAPER = (SGD_PAPER, SGD_START, MF_PAPER)
PAPERS_ENDS: Mapping[tuple[str, str], tuple[float, float]] = {
    ("dpsgd-pnbm", "learning_rate"): (0.1, 0.4),
    ("dpsgd-pnbm", "steps"): (1, 20),
    ("dpsgd-pnbm", "decay"): (0.005, 0.05),
    ("dpsgd-mf", "learning_rate"): (6e-4, 8e-4),
    ("dpsgd-mf", "epochs"): (10, 50),
    ("dpsgd-mf", "decay"): (0.02, 0.2),
}
# Ends of our grids that need not be passed, by defense, parameter and value, and why.
STILL = "at so short a step the model stays at its start"
HARMLESS: Mapping[tuple[str, str, float], str] = {
    ("dpsgd-pnbm", "start", 1.0): "from a larger start it learns even less",
    ("dpsgd-pnbm", "learning_rate", 1e-4): STILL,
    ("dpps-pnbm", "learning_rate", 1e-9): STILL,
}


def _beaten(words: str, models: tuple[str, ...], least: float, most: float = math.inf) -> Said:
    """That models beat PCC and COS, with either reading of COS."""
    return Said(words, dict.fromkeys(models, BASELINES), least, most)


_TEXT = "The curve itself is not in the text at hand; it says"
_CODE = "the code that the paper links to (github.com/lux-jwang/Experiments, dpnbm, commit a477514)"
_FACTOR = (
    f"in {_CODE} it does, as that multiplies the sum of all gradients by twice their number once "
    "more, so that its noise is that of a temperature 10⁵ to 10⁶ times lower than it states"
)
_COLD_NOTE = (
    "A temperature ϱ multiplies the true ε by 1/ϱ, and a chain of so few steps is not at its law: "
    "the ε of the samplers' columns are the papers' own, which nothing here certifies."
)
_COLDEST = (
    "The temperatures 0.001 of DPPS-PNBM and 0.0001 of DPPS-MF are the least of the paper's: side "
    "by side at the same ε, the latter has ten times the true ε."
)
_OWN_FIT = (
    "Users of DPPS-MF fit their own side with a prior that allows for the noise of what is "
    "released ([posterior samplers](../methods/training.md#posterior-samplers))."
)
_ETA = (
    "The paper's η₁ is 8·10⁻⁶ at most: in the unit of `learning_rate`, (ε/4B) η₁/2, that is "
    "6·10⁻⁹ at ε = 20. Its column has what that is at the largest ε."
)


def _figure_1(example: str, data: str, starts: str = "") -> Page:
    return Page(
        example,
        title=f"A rating's value protected, {data} (Wang & Tang 2017, Figure 1)",
        quoted=f"{_TEXT} "
        "“When ε ≥ 20, DPSGD-MF does not lose much accuracy, and it is better than "
        "non-private PCC and COS. However, the accuracy drops quickly (or, the RMSE increase "
        "quickly) when the privacy loss ε is reduced. … In the contrast, DPSGD-PNBM maintains a "
        "promising accuracy when ε ≥ 1, and is better than non-private PCC and COS.”",
        ours="The start, which the paper does not give, "
        "[decides what DPSGD-PNBM learns](../claims/wt17.md#the-start-decides-what-is-learned): "
        "from 1 nothing, from 0.05, as in the authors' program, or less the more the larger ε is, "
        "with denominators below C; where steps only do harm, the model that is not trained is the "
        "best. So what is said of it at ε = 1 rests on the starts that are offered"
        f"{starts}. DPSGD-MF hardly moves by the paper's η·K of at most 0.04. Besides, "
        f"{_CODE} drops the clamped errors, takes them from raw ratings and divides the noise's "
        "scale by √2.",
        said=(
            _beaten("from ε = 20 on DPSGD-MF beats PCC and COS", (MF_PAPER, MF_TUNED), 20),
            _beaten(
                "from ε = 1 on DPSGD-PNBM beats PCC and COS", (SGD_PAPER, SGD_START, SGD_TUNED), 1
            ),
            Said(
                "at small ε DPSGD-PNBM beats DPSGD-MF",
                {SGD_PAPER: (MF_PAPER,), SGD_START: (MF_PAPER,), SGD_TUNED: (MF_TUNED,)},
                most=1,
            ),
        ),
        floors=(*BASELINES, BEST, FREE_MF, UNTRAINED),
    )


def _figure_2(example: str, data: str) -> Page:
    nbm, factors = (PS_PAPER, PS_COLD, PS_WARM), (PSMF_PAPER, PSMF_COLD, PSMF_WARM)
    return Page(
        example,
        title=f"Users protected, {data} (Wang & Tang 2017, Figure 2)",
        quoted=f"{_TEXT} "
        "“Both DPPS-PNBM and DPPS-MF allow accurate estimations when ε ≥ 0.1 × 200. … "
        "Besides the accuracy performance is better than the non-private PCC and COS”; in "
        "summary, “DPSGD-MF and DPPS-MF are more accurate when privacy loss is large. DPSGD-PNBM "
        "and DPPS-PNBM are better when we want to reduce the privacy loss to a meaningful range.”",
        ours="At the paper's η₁ the chain of DPPS-PNBM does not leave its start, so its column is "
        f"the model that is not trained; {_FACTOR}. At ϱ = 1 steps of no size help: a step's noise "
        "adds more error than its drift removes, and both grow with the step; and the bias of an "
        "item with n ratings in DPPS-MF has noise of the variance 6400/(ε (n + λ)).",
        said=(
            _beaten("from ε = 0.1 · 200 on DPPS-PNBM beats PCC and COS", nbm, 20),
            _beaten("from ε = 0.1 · 200 on DPPS-MF beats PCC and COS", factors, 20),
            Said(
                "at small ε DPPS-PNBM beats DPPS-MF",
                {mine: (other,) for mine, other in zip(nbm, factors, strict=True)},
                most=20,
            ),
        ),
        floors=(*BASELINES, BEST, UNTRAINED),
        models=(*BASELINES, BEST, UNTRAINED, *nbm, *factors),
        note=f"{_ETA} {_COLD_NOTE} {_COLDEST} {_OWN_FIT}",
    )


def _figure_3(example: str, data: str) -> Page:
    sgd, sampled = (SGD_PAPER, SGD_TUNED, SGD_TUNED_START), (PS_PAPER, PS_COLD, PS_WARM)
    return Page(
        example,
        title="The two neighbourhood models at the same ε a rating, "
        f"{data} (Wang & Tang 2017, Figure 3)",
        quoted=f"{_TEXT} "
        "“Fig. 3 shows that both solutions can obtain quite accurate predictions with a "
        "privacy guarantee (ε ≈ 1). With the same privacy guarantee, DPPS-PNBM seems to be more "
        "accurate.”",
        ours="Both are the same model before their first step, and where the noise outweighs what "
        "steps teach, that model is the best of both, so that they hardly differ. A start of 0.02 "
        "is ours, with more denominators below C than 0.05, that of the authors' program, so that "
        "DPSGD-PNBM is also shown tuned from 0.05 alone.",
        said=(
            Said(
                "at the same ε a rating DPPS-PNBM seems to be more accurate than DPSGD-PNBM",
                {
                    PS_PAPER: (SGD_PAPER,),
                    PS_COLD: (SGD_TUNED, SGD_TUNED_START),
                    PS_WARM: (SGD_TUNED, SGD_TUNED_START),
                },
            ),
            _beaten(
                "with ε ≈ 1 both are quite accurate, better than PCC and COS",
                (*sgd, *sampled),
                least=1,
                most=1,
            ),
        ),
        floors=(*BASELINES, BEST, UNTRAINED),
        models=(*BASELINES, BEST, UNTRAINED, *sgd, *sampled),
        shared={"dpps-pnbm": 200},
        note=f"The samplers' ε, a user's, is divided by τ = 200. {_COLD_NOTE}",
    )


PAGES = (
    _figure_1("ml-100k-wt17-figure-1", "MovieLens-100K", ", and one column has 0.05 alone"),
    _figure_1("ml-1m-wt17-figure-1", "MovieLens-1M"),
    _figure_2("ml-100k-wt17-figures-2-3", "MovieLens-100K"),
    _figure_2("ml-1m-wt17-figures-2-3", "MovieLens-1M"),
    _figure_3("ml-100k-wt17-figures-2-3", "MovieLens-100K"),
    _figure_3("ml-1m-wt17-figures-2-3", "MovieLens-1M"),
    Page(
        "ml-1m-lws15",
        title="Users protected, factorisation on MovieLens-1M (Liu, Wang & Smola 2015)",
        quoted=f"{_TEXT} "
        "“a modest decrease in accuracy affords a useful gain in privacy”, of curves on "
        "Netflix and Yahoo data; “we almost lose no accuracy at all while preserving rating "
        "differential privacy” at an ε a rating that the text has lost, which we take to be 1, a "
        "user's 200; and “a typical user's personal privacy loss” is a number that is lost too.",
        ours="Neither data set is to be had, and ours has 1 million ratings where theirs have 33 "
        "and 100 million. The likelihood's factor ε/4B is 0.01 at ε = 200; in the posterior of "
        "normal errors of 0.88, which is that of ε = 13 000, it is 0.65. So each rating weighs a "
        "sixty-fifth, and what is released of an item with few ratings is mostly prior.",
        said=(
            Said(
                "almost no accuracy is lost at an ε a rating of 1: the error is at most 1 % above "
                "that of the better model without privacy, a limit of ours",
                dict.fromkeys(LWS, ("MF, no privacy",)),
                200,
                200,
                slack=0.01,
            ),
        ),
        floors=("MF, no privacy", "the sampler's descent, no privacy"),
        users=True,
        note="ε is a user's, and ε = 200 is 1 a rating. The corrected form claims ε/2, and a "
        "quarter of ε_u where a user's ratings are removed; if any draw is accepted, predictions "
        "leave the range, and no ε bounds a user's loss. With B = 1250 a user with m "
        "ratings has ε_u = ε · min(1, m/50), else ε · m/200. A temperature of 0.01, as Wang & Tang "
        "2017 have it, is the law of a hundred times the ε. A chain of so few steps is not at its "
        f"law. {_OWN_FIT}",
    ),
    Page(
        "ml-100k-nonprivate",
        title="Without privacy, on the published divisions of MovieLens-100K",
        quoted="“the instantiation in [29] outperforms most other NBM systems and even the MF or "
        "probabilistic MF systems in many settings”; “Generally, MF is more accurate than NBM” "
        "(Wang & Tang 2017, section 1).",
        ours="No number of theirs stands beside these sentences, and of models without privacy no "
        "grid: “the paper's grid” is the end of that of DPSGD-MF at which most is learned.",
        said=(
            Said(
                "the learned neighbourhood model beats other neighbourhood models",
                {"PNBM": BASELINES},
            ),
            Said(
                "it beats the best neighbourhood model that was chosen on a tenth of u1's training",
                {"PNBM": ("neighbourhood, at its best",)},
                by="Beyond the paper",
            ),
            Said(
                "where nothing is private, factorisation is the more accurate",
                dict.fromkeys(("MF", FIXED_MF), (*BASELINES, "PNBM")),
            ),
        ),
        floors=(*BASELINES, "neighbourhood, at its best", "PNBM", "MF", FIXED_MF),
    ),
)
