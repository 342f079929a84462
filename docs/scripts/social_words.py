"""What Meng et al. (2018) say of their figures, and why ours differ: the texts of `make_social`.

The figures themselves are in no copy of the paper at hand; quoted is their text, word for word.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """One figure.

    Attributes:
        quoted: what the paper's text says of its curve.
        differs: why ours is another, in one sentence.
    """

    quoted: str
    differs: str

    def text(self) -> str:
        """Both, as a paragraph."""
        return (
            f"*The paper.* The curve itself is not in the text at hand; it says: {self.quoted}\n\n"
            f"*Why ours differs.* {self.differs}"
        )


ERRORS = Said(
    "“When x = 0, PrivSR with ε = 0.1 can perform almost as good as SoReg”; “SoReg consistently "
    "provides the best recommendation effectiveness”; PrivSR with ε = 0.1 is “slightly "
    "inferior than "
    "SoReg but outperforms other methods”, MF among them; and PrivSR with ε = 0.05 “is better than "
    "DPMF when the percentage of private ratings is not too large”, DPMF's ε being 0.1.",
    "MF and SoReg are tuned here with as many settings as PrivSR and start where biases can be "
    "learned, so that friends add next to nothing to what is learned without them, and noise is a "
    "loss against MF too; of the paper's tuning the text gives γ, λ, α and d, the same for "
    "all, and "
    "neither the start nor the number of rounds.",
)
RECOVERED = Said(
    "“Noise perturbation helps increase the level of privacy protection against reconstruction "
    "attacks”; “with the similar privacy budget, the level of privacy protection provided by "
    "PrivSR "
    "and DPMF are similar”; and a lower ε “can significantly increase the level of privacy "
    "protection”.",
    "The error of an attack mixes what a model tells of a rating with how good the model is, so "
    "the two tables after it set the released model against one that never saw the ratings; "
    "and the "
    "attack is solved exactly here, by gradient descent there.",
)
FRIENDS = Said(
    "“within an appropriate range, the difference between similarity calculated by the whole "
    "datasets and by only non-sensitive data is acceptable”.",
    "What is acceptable is not said; links that lose all that both rated, which a mean of "
    "differences hides, are counted here by themselves.",
)
ROUNDS = Said(
    "“the iterations help the model converge and offer smaller prediction errors”.",
    "The noise is new in each round and adds up, so that errors fall while there is more to learn "
    "than noise to gain, and rise after that; which rounds the paper shows is not said.",
)
LISTS = Said(
    "“social relationships help increase top k recommendation effectiveness but involve in more "
    "potential privacy leakage”; PrivSR “can even achieve better recommendation effectiveness” "
    "than "
    "BPR “when percentage of sensitive feedbacks is less than 30%”, and compared to SBPR “can "
    "outperform on privacy protection but not on recommendation performance”.",
    "BPR and SBPR choose among as many settings as PrivSR here, and all are held against the list "
    "of the most popular items, which the paper does not have and which noise leaves of PrivSR.",
)
PARAMETERS = Said(
    "a larger ε gives “better recommendation effectiveness and worse privacy protection”; “with "
    "fixed ε, the recommendation effectiveness stays the same, while larger β indicates larger "
    "privacy budget for sensitive data and smaller for the non-sensitive, which makes the privacy "
    "protection decrease on the sensitive ratings”.",
    "The rate is chosen anew at each point, and where noise is that large (ε = 0.01) the best one "
    "is so small that little more than who rates high is learned: what is recovered then follows "
    "the rate more than β.",
)
CATEGORIES = Said(
    "with ratings of “health”, “adult products” and “family” sensitive, against as many at random, "
    "one “can achieve similar recommendation effective but obtain much better privacy protection”.",
    "This edition numbers its categories and does not name them, so the paper's three cannot be "
    "found in it: four selections of three stand for them, from the largest categories to "
    "small ones.",
)
