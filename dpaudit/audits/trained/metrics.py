"""What audits of trained recommenders measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dpaudit.core.claim import LONGER, LONGEST
from dpaudit.record import shared
from dpaudit.record.bases import OF_MODELS, OF_SUBMISSIONS
from dpaudit.record.fields import ATTACK, BASIS, PAIR, PART, STEP, Field
from dpaudit.record.metric import Column, Metric
from dpaudit.record.shared import BY_LAW

AGAINST = Field("against", "the label of the model compared with")
KIND = Field("kind", "the error or share that is compared")
ESTIMATOR = Field("estimator", "how a divergence was estimated")
_ASSUMED = {"trained": "whose claim assumes it"}
_PERSONAL = {"trained": "whose users have an ε of their own"}
_RECOVERED = {"trained": "with [[attack]] on sensitive ratings"}
_RANKING = "that rank"
_RATED = "that predict ratings"
_GAME = "with [[game]]"
_OF_A_USER = (
    "'ε of a user' is ε_u of Liu, Wang & Smola 2015, which depends on the user's budget and "
    "number of ratings. By an exact draw whose predictions stay in the range or are clipped to "
    "it, removing all ratings of the user costs at most a quarter of ε_u, and replacing them "
    "by those of x a quarter of ε_u + ε_x, which is at most half of the user's budget times ε "
    "if models use budgets. A temperature below 1 is counted.",
    "'loss of a user' is four times what the ratings of a user change in the log-density at "
    "the drawn models, so on the scale of ε_u. It is what happened, not what may happen: no "
    "claim covers a user by it. It lies above ε_u where predictions leave the range that the "
    "claim assumes.",
)

# Scores of what attacks recover: their words, units, what is larger, and what is scored.
_RECOVERIES: Mapping[str, tuple[str, str, Literal["worse", "better"], str]] = {
    "rmse": ("error of sensitive ratings recovered from {}", "rating", "better", "ratings"),
    "mae": ("mean absolute error of the same ratings", "rating", "better", "ratings"),
    "precision": ("share of recovered items that are sensitive", "share", "worse", "items"),
    "recall": ("share of sensitive items that are recovered", "share", "worse", "items"),
}


def _recovery(kind: str, group: str, sources: str, bases: tuple[str, ...]) -> Metric:
    """Return the metric of one score of what attacks recover from some sources."""
    words, unit, larger, scored = _RECOVERIES[kind]
    source = "a released model" if sources == "models" else sources
    return Metric(
        f"{group}.{kind}", f"{words.format(source)}, or its improvement on a baseline", unit,
        _RECOVERED, (ATTACK, BASIS), detail="basis", larger=larger, bases=bases, signed=True,
        role="recovery", section=f"recovery from {sources}",
        quantity=f"{kind} of sensitive {scored} by")  # fmt: skip


METRICS = (
    shared.EPSILON.of("trained", _GAME),
    shared.ATTACK_ACCURACY.of("trained", "with [[attack]] on sensitive ratings"),
    Metric("assumption.denominator", "share of a training's denominators below the bound that a "
           "published claim assumes, counted", "share", _ASSUMED, (STEP,), role="assumption",
           columns=(Column("below C, step {step}", "percent", brief=False),),
           quantity="share of denominators below C",
           note=("The claim of Wang & Tang 2017 assumes Σ_j |s_ij| ≥ C in every prediction of "
                 "training, which nothing enforces. 'below C' is the share of predictions that "
                 "violate this, counted in some rows. 0 % says nothing about other rows, noise or "
                 "data.",)),
    Metric("assumption.norm", "share of users whose factors have a norm above the one a published "
           "claim assumes, and the largest norm, counted", "share or norm", _ASSUMED,
           (STEP, PART), detail="part", role="assumption",
           columns=(Column("users longer than 1", "percent", LONGER, brief=False),
                    Column("longest user", "number", LONGEST, brief=False)),
           quantity="length of users' factors,",
           note=("The claims of Meng et al. 2018 assume that no user's factors are longer than 1, "
                 "which nothing enforces. 'users longer than 1' is the share of users with ratings "
                 "whose factors are longer than 1 at the end of one training, and 'longest user' "
                 "is the greatest length. 0 % says nothing about earlier rounds, other noise or "
                 "data.",)),
    Metric("personal.epsilon", "quantile over users of the ε that a user's own budget and number "
           "of ratings leave", "ε", _PERSONAL, (PART,), detail="part",
           columns=(Column("ε of a user", "number", brief=False),), quantity="ε of a user,",
           note=_OF_A_USER),
    Metric("personal.loss", "quantile over users and draws of four times what a user's ratings "
           "change in the log-density of the drawn model", "ε", _PERSONAL, (PART,), detail="part",
           columns=(Column("loss of a user", "number", brief=False),), quantity="loss of a user,",
           note=_OF_A_USER),
    shared.UTILITY_NDCG.of("trained", _RANKING),
    shared.UTILITY_PRECISION.of("trained", _RANKING),
    shared.UTILITY_RECALL.of("trained", _RANKING),
    shared.UTILITY_RMSE.of("trained", _RATED),
    shared.UTILITY_MAE.of("trained", _RATED),
    Metric("utility.difference", "difference of an error or a share from that of another model",
           "rating", {"trained": "with train.against"}, (AGAINST, KIND), detail="kind", signed=True,
           role="utility", section="comparison", quantity="difference from"),
    *(_recovery(kind, "reconstruction", "models", OF_MODELS) for kind in _RECOVERIES),
    *(_recovery(kind, "submissions", "submissions", OF_SUBMISSIONS) for kind in ("rmse", "mae")),
    shared.ATTACK_ADVANTAGE.of("trained", _GAME),
    shared.LEAK.of("trained", _GAME),
    Metric("game.kl", "divergence of a game's observations on D' from those on D", "nats",
           {"trained": _GAME}, (ATTACK, PAIR, ESTIMATOR), detail="estimator",
           larger="worse", assumes=BY_LAW, alone=True, section="divergence of games",
           quantity="divergence by"),
)  # fmt: skip
