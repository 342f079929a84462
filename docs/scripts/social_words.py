"""What Meng et al. (2018) say of their figures, and why ours differ: the texts of `make_social`.

The figures themselves are in no copy of the paper at hand; quoted is their text, word for word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from social_numbers import Metric, Point, Results, numbers_of
from social_verdicts import Alike, Differs, Grows, Larger, Places, Sentence, judged

from dpaudit.record.bases import BEYOND_MEANS, LEAK

# The points of the paper's Figures 6 to 9. ε_s = (1 + β) ε is DPMF's 0.1 at ε = 1/11, β = 0.1.
MF, SOREG, DPMF = ("MF", math.inf), ("SoReg", math.inf), ("DPMF", 0.1)
LOW, EQUAL, FULL = (("PrivSR", value) for value in (0.05, 0.09090909, 0.1))

ERRORS: Sequence[Metric] = (("utility.rmse", None), ("utility.mae", None))
# How much less an attack errs than item means on the same fold: the difference of two such gains is
# that of the attack's errors, without how hard the ratings of a fold are.
RECOVERED: Sequence[Metric] = (
    ("reconstruction.rmse", BEYOND_MEANS),
    ("reconstruction.mae", BEYOND_MEANS),
)
LEAKS: Sequence[Metric] = (("reconstruction.rmse", LEAK), ("reconstruction.mae", LEAK))


def x(share: float) -> str:
    """Name the place of a share of sensitive ratings."""
    return f"x = {100 * share:.0f} %"


FEW = (x(0), x(0.1), x(0.2))
SOME = tuple(x(share) for share in (0.1, 0.2, 0.3, 0.4, 0.5))


@dataclass(frozen=True)
class Said:
    """One figure.

    Attributes:
        title: its heading.
        sentences: what the paper's text says of its curve, and how that is judged.
        differs: why ours is another, in one sentence.
        second: judged by a measure of ours after the paper's own.
    """

    title: str
    sentences: Sequence[Sentence]
    differs: str
    second: Sequence[Sentence] = ()

    def head(self) -> str:
        """The heading, and what the paper says without numbers that could be compared."""
        quoted = "; ".join(f"“{each.quoted}”" for each in self.sentences if not each.rules)
        said = f" it says: {quoted}." if quoted else " what it says is judged below the tables."
        return (
            f"### {self.title}\n\n*The paper.* The curve itself is not in the text at hand;{said}"
        )

    def judged(self, results: Results, paper: Places | None = None) -> str:
        """The verdict on each sentence, and why ours differs."""
        places = {place: numbers_of(result) for place, result in results.items()}
        parts = [judged(each, places, paper) for each in self.sentences if each.rules]
        if parts:
            parts.insert(0, "*Sentence by sentence, by the paper's metric.*")
        if self.second:
            parts.append("*By the leak, which is not in the paper.*")
            parts += [judged(each, places) for each in self.second]
        return "\n\n".join([*parts, f"*Why ours may differ.* {self.differs}"])


def _noise(words: str, metrics: Sequence[Metric]) -> Larger:
    pairs = [(MF, DPMF), (SOREG, FULL), (SOREG, LOW)]
    return Larger(f"{words} with noise than without", metrics, pairs)


def _lower(words: str, metrics: Sequence[Metric]) -> Larger:
    return Larger(f"{words} at ε = 0.05 than at 0.1", metrics, [(FULL, LOW)])


def _similar(what: str, metrics: Sequence[Metric]) -> Alike:
    return Alike(
        f"at ε_s = 0.1 in both, {what} differs by at most a quarter of what noise does to it on MF",
        metrics,
        [(EQUAL, DPMF)],
        (DPMF, MF),
    )


TEST_RATINGS = Said(
    "Figures 6 and 7: errors on test ratings",
    [
        Sentence(
            "When x = 0, PrivSR with ε = 0.1 can perform almost as good as SoReg",
            [
                Alike(
                    "they differ by at most a quarter of what noise does to MF",
                    ERRORS,
                    [(FULL, SOREG)],
                    (DPMF, MF),
                    (x(0),),
                )
            ],
        ),
        Sentence(
            "SoReg consistently provides the best recommendation effectiveness",
            [
                Larger("MF errs more", ERRORS, [(MF, SOREG)]),
                Larger("what has noise errs more", ERRORS, [(DPMF, SOREG), (FULL, SOREG)]),
            ],
        ),
        Sentence(
            "PrivSR with ε = 0.1 slightly inferior than SoReg but outperforms other methods",
            [
                Larger("MF errs more", ERRORS, [(MF, FULL)]),
                Differs("it errs less than DPMF, paired", ("rmse", "mae"), [FULL], above=False),
            ],
        ),
        Sentence(
            "the corresponding recommendation effectiveness of PrivSR [with ε = 0.05] is better "
            "than DPMF [with ε = 0.1] when the percentage of private ratings is not too large",
            [
                Differs(
                    "it errs less, paired, where x is at most 20 %",
                    ("rmse", "mae"),
                    [LOW],
                    above=False,
                    places=FEW,
                )
            ],
        ),
    ],
    "MF and SoReg are tuned here with as many settings as PrivSR and start where biases can be "
    "learned, so that friends add next to nothing to what is learned without them, and noise is a "
    "loss against MF too; of the paper's tuning the text gives γ, λ, α and d, the same for all, "
    "and neither the start nor the number of rounds, nor an offset.",
)
SENSITIVE = Said(
    "Figures 8 and 9: errors of sensitive ratings that are recovered",
    [
        Sentence(
            "Noise perturbation helps increase the level of privacy protection against "
            "reconstruction attacks",
            [_noise("the attack gains less on item means", RECOVERED)],
        ),
        Sentence(
            "With the similar privacy budget, the level of privacy protection provided by PrivSR "
            "and DPMF are similar. However, PrivSR can achieve better recommendation effectiveness "
            "… We perform t-test on recommendation effectiveness of PrivSR and DPMF with the same "
            "privacy budgets for sensitive ratings. The test results show that the improvement is "
            "statistically significant",
            [
                _similar("what the attack gains on item means", RECOVERED),
                Differs(
                    "at ε_s = 0.1 in both, PrivSR errs less on test ratings (paired t test)",
                    ("rmse", "mae"),
                    [EQUAL],
                    above=False,
                    places=SOME,
                ),
            ],
        ),
        Sentence(
            "PrivSR with a lower privacy budget can significantly increase the level of privacy "
            "protection while being able to retain a good recommendation effectiveness, especially "
            "when the percentage of private ratings x is smaller than 20%",
            [
                _lower("the attack gains less on item means", RECOVERED),
                Differs(
                    "read as in section 7.3: at ε = 0.05 it still errs less on test ratings than "
                    "DPMF at 0.1, paired, where x is below 20 %",
                    ("rmse", "mae"),
                    [LOW],
                    above=False,
                    places=(x(0.1),),
                ),
            ],
        ),
    ],
    "The error of an attack mixes what a model reveals of a rating with how good the model is, so "
    "two tables set the released model against one that never saw the ratings; the attack is "
    "solved exactly here, by gradient descent there; and a rate that is chosen anew at each x and "
    "ε moves what is recovered as much as the noise does.",
    [
        Sentence("Noise perturbation helps", [_noise("the leak is smaller", LEAKS)]),
        Sentence("With the similar privacy budget … similar", [_similar("the leak", LEAKS)]),
        Sentence("A lower privacy budget", [_lower("the leak is smaller", LEAKS)]),
    ],
)
FRIENDS = Said(
    "Figure 4: friends' similarity",
    [
        Sentence(
            "within an appropriate range, the difference between similarity calculated by the "
            "whole datasets and by only non-sensitive data is acceptable"
        )
    ],
    "What is acceptable is not said; links that lose all that both rated, which a mean of "
    "differences hides, are counted here by themselves.",
)
ROUNDS = Said(
    "Figure 5: errors by rounds",
    [Sentence("the iterations help the model converge and offer smaller prediction errors")],
    "The noise is new in each round and adds up, so that errors fall while there is more to learn "
    "than noise to gain, and rise after that; which rounds the paper shows is not said.",
)
SWEEP: Sequence[Point] = [("β = 1", value) for value in (0.01, 0.05, 0.1, 0.5, 1.0)]
BETAS: Sequence[Point] = [(f"β = {beta:g}", 0.01) for beta in (0.01, 0.05, 0.1, 0.5, 1)]
PARAMETERS = Said(
    "Figures 10 and 11: by ε and β",
    [
        Sentence(
            "Larger privacy budget indicates less noise, resulting in better recommendation "
            "effectiveness and worse privacy protection",
            [
                Grows("test errors fall with ε", ERRORS, SWEEP[::-1]),
                Grows("what the attack gains on item means grows with ε", RECOVERED, SWEEP),
            ],
        ),
        Sentence(
            "With fixed ε, the recommendation effectiveness stays the same, while larger β "
            "indicates larger privacy budget for sensitive data and smaller for the non-sensitive, "
            "which makes the privacy protection decrease on the sensitive ratings",
            [
                Alike(
                    "test errors differ by at most a quarter of what ε does to them",
                    ERRORS,
                    [(each, BETAS[-1]) for each in BETAS[:-1]],
                    (SWEEP[0], SWEEP[-1]),
                ),
                Grows("what the attack gains on item means grows with β", RECOVERED, BETAS),
            ],
        ),
    ],
    "The rate is chosen anew at each point, and where another β gets another rate, what is "
    "recovered follows the rate more than β.",
)
