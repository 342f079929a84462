"""Park & Acharya 2011, sections 2 and 3: noise on the predictions of item-item recommenders."""

from __future__ import annotations

from dpaudit.claims import laws
from dpaudit.claims.entry import PublishedClaim
from dpaudit.claims.games import ListGame, PredictionGame
from dpaudit.claims.park_acharya_2011 import data
from dpaudit.core.claim import RatingAdjacency
from dpaudit.data.ratings import STARS
from dpaudit.defenses.item_item.cosine import Cosine
from dpaudit.defenses.item_item.recommender import ItemItem
from dpaudit.defenses.item_item.slope_one import SlopeOne

_PAPER = "Park & Acharya 2011"
_THEOREM = f"{_PAPER}, Theorem 3.1, eq. (11), with Theorem 2.1"
_SLOPE_ONE = (
    "Laplace noise of scale Δf/ε, with Δf = max(Δr/T·(1 + 2/φ), Δr/φ), makes one Slope One "
    "prediction ε-differentially private"
)
_OWN_SCALE, _PAPERS_RUN = "Δr = 4, the scale's", "Δr = 5, as in the paper's run"


def _slope_one(
    make_pair: data.MakePair, epsilon: float = 1.0, adjacency: RatingAdjacency = "rating-add-remove"
) -> tuple[PredictionGame, ...]:
    """Return games on the published noise, with the scale's Δr and with that of the paper's run."""
    return (
        PredictionGame(_OWN_SCALE, SlopeOne(epsilon=epsilon, adjacency=adjacency), make_pair),
        PredictionGame(
            _PAPERS_RUN, SlopeOne(epsilon=epsilon, adjacency=adjacency, delta_r=5.0), make_pair
        ),
    )


_DAMPED = SlopeOne(epsilon=1.0, variant="corrected")
_SHRUNK = SlopeOne(epsilon=1.0, variant="corrected", similarity="shrunk")
_REPLACED = SlopeOne(epsilon=0.5, variant="corrected", adjacency="rating-replace")


def _together(outputs: int) -> ItemItem:
    return SlopeOne(epsilon=0.5, variant="corrected", adjacency="rating-replace", outputs=outputs)


CLAIMS = (
    PublishedClaim(
        id="pa11-thm3.1-threshold",
        sentence=f"{_SLOPE_ONE} when another user adds a rating.",
        source=_THEOREM,
        adjacency="rating-add-remove",
        observer="values",
        recorded="falsified",
        because="Eq. (14) bounds |s_jk − s'_jk| as if the number of co-raters were fixed. One more "
        "rating raises it from φ to φ + 1, which changes every s_jk from 0 to a mean of "
        "differences, by up to Δr: the prediction shifts by Δr, where Δf is 0.4 (0.5 in the "
        "paper's run). ε = Δr/Δf = 10 (8).",
        published=_slope_one(data.worst_pair("support-threshold", STARS)),
        corrected=(
            PredictionGame("damped", _DAMPED, data.worst_pair("support-threshold", STARS)),
            PredictionGame("damped, its worst pair", _DAMPED, data.worst_pair("tight", STARS)),
            PredictionGame("shrunk, its worst pair", _SHRUNK, data.worst_pair("opposite", STARS)),
        ),
        weak={
            "damped": "The damped form has no threshold, so its predictions on these two data sets "
            "agree: ε is 0 whatever the noise.",
        },
    ),
    PublishedClaim(
        id="pa11-thm3.1-threshold-list",
        sentence=f"{_SLOPE_ONE}, and so is the ranked list made of such predictions, when another "
        "user adds a rating.",
        source=f"{_THEOREM}, and section 3.4",
        adjacency="rating-add-remove",
        observer="list",
        recorded="falsified",
        basis="on a reading",
        because="The threshold pair shifts one prediction and no other, so the list shows it too: "
        "of two items, the one that is 4 behind draws level. With noise of scale 0.4 it is first "
        "with probability 1.4e-4 before and 1/2 after: ε = 8.2. The supremum over data is 10.",
        published=(
            ListGame(
                _OWN_SCALE,
                SlopeOne(epsilon=1.0, top_k=1),
                data.two_to_show,
                law=laws.first_of_two,
            ),
            ListGame(
                _PAPERS_RUN,
                SlopeOne(epsilon=1.0, top_k=1, delta_r=5.0),
                data.two_to_show,
                law=laws.first_of_two,
            ),
        ),
        corrected=(
            ListGame(
                "damped, two predictions covered",
                SlopeOne(epsilon=1.0, variant="corrected", top_k=1, outputs=2),
                data.two_to_show_anew,
                law=laws.first_of_two,
            ),
        ),
        reading="the guarantee of section 3.2 applies to the list of section 3.4",
    ),
    PublishedClaim(
        id="pa11-thm3.1-above-threshold",
        sentence=f"{_SLOPE_ONE} when another user adds a rating and no count of co-raters crosses "
        "the threshold.",
        source=_THEOREM,
        adjacency="rating-add-remove",
        observer="values",
        recorded="falsified",
        because="A twelfth difference x is added to eleven with mean a: s changes by |x − a|/12, "
        "up to 2Δr/12 = 2/3. Eq. (14) has Δr/φ, as if a were 0. ε = 1.667 (1.333).",
        published=_slope_one(data.above_threshold),
        corrected=(PredictionGame("damped", _DAMPED, data.above_threshold),),
    ),
    PublishedClaim(
        id="pa11-thm3.1-own",
        sentence=f"{_SLOPE_ONE} when the target adds a rating.",
        source=_THEOREM,
        adjacency="rating-add-remove",
        observer="values",
        recorded="falsified",
        because="The prediction is a mean of terms r_ik + s_jk in [r_min − Δr, r_max + Δr]. Eq. "
        "(12) bounds the similarities by Δr/φ, but a mean of differences may be Δr: adding a term "
        "of 9 to a mean of 20 terms of −3 changes it by 12/21. ε = 1.429 (1.143).",
        published=_slope_one(data.own_added),
        corrected=(PredictionGame("damped", _DAMPED, data.own_added),),
    ),
    PublishedClaim(
        id="pa11-thm3.1-replaced",
        sentence=f"{_SLOPE_ONE} when a rating's value is replaced.",
        source=_THEOREM,
        adjacency="rating-replace",
        observer="values",
        recorded="holds",
        because="The counts do not change. Another user's rating enters each s_jk with weight "
        "1/|Φ|, |Φ| > φ: a shift of at most Δr/(φ + 1). The target's own rating enters the "
        "prediction with weight 1/n: at most Δr/T. Both are at most Δf.",
        published=(
            *_slope_one(data.other_replaced, 0.5, "rating-replace"),
            PredictionGame(
                "the target's own rating, Δr = 4",
                SlopeOne(epsilon=0.5, adjacency="rating-replace"),
                data.own_replaced(1),
            ),
        ),
        corrected=(PredictionGame("damped", _REPLACED, data.other_replaced),),
    ),
    PublishedClaim(
        id="pa11-s3.4-joint",
        sentence="Every prediction shown to a user gets its own Laplace noise of scale Δf/ε, and "
        "all shown predictions together are ε-differentially private when a rating's value is "
        "replaced.",
        source=f"{_PAPER}, section 3.4, with Theorem 2.1 on the vector of outputs",
        adjacency="rating-replace",
        observer="values",
        recorded="falsified",
        basis="on a reading",
        because="Theorem 2.1 requires the L1 sensitivity of all outputs together. The target's own "
        "rating shifts each of M' predictions by Δr/n, so ε grows with M' without bound. At n = 20 "
        "and ε = 0.5 with the paper's Δf it is 0.2·M': 4 for 20 predictions, 20 for 100.",
        published=(
            PredictionGame(
                "5 predictions, ε = 2",
                SlopeOne(epsilon=2.0, delta_r=5.0, adjacency="rating-replace"),
                data.own_replaced(5),
            ),
            PredictionGame(
                "20 predictions, ε = 0.5",
                SlopeOne(epsilon=0.5, delta_r=5.0, adjacency="rating-replace"),
                data.own_replaced(20),
                trials=1_000_000,
            ),
            PredictionGame(
                "100 predictions, ε = 0.5",
                SlopeOne(epsilon=0.5, delta_r=5.0, adjacency="rating-replace"),
                data.own_replaced(100),
                trials=400_000,
            ),
        ),
        corrected=(PredictionGame("noise for 20 together", _together(20), data.own_replaced(20)),),
        reading="the guarantee of section 3.2 covers all predictions shown to a user together, not "
        "each one separately",
    ),
    PublishedClaim(
        id="pa11-s3.4-joint-list",
        sentence="Every prediction gets its own Laplace noise of scale Δf/ε, and the ranked list "
        "without values is ε-differentially private when the target's own rating is replaced.",
        source=f"{_PAPER}, section 3.4",
        adjacency="rating-replace",
        observer="list",
        recorded="holds",
        because="The target's own rating shifts all of the target's predictions by the same Δr/n, "
        "and a common shift changes no order: the list's ε is 0 where that of the values is 4.",
        published=(
            ListGame(
                "20 predictions, ε = 0.5",
                SlopeOne(epsilon=0.5, delta_r=5.0, top_k=10, adjacency="rating-replace"),
                data.own_replaced(20),
                law=laws.common_shift,
            ),
        ),
        reading="the rating that changes is the target's own",
        weak={
            "20 predictions, ε = 0.5": "All predictions shift by the same amount, so the list's ε "
            "is 0 whatever the noise: the verdict rests on the derivation.",
        },
    ),
    PublishedClaim(
        id="pa11-thm3.2",
        sentence="Laplace noise of scale (2/T)/ε makes one prediction from cosine similarities of "
        "purchases ε-differentially private.",
        source=f"{_PAPER}, Theorem 3.2, eq. (17), with Theorem 2.1",
        adjacency="rating-add-remove",
        observer="values",
        recorded="falsified",
        because="Eq. (19) assumes that another user's purchase changes one similarity by 1, over "
        "T. But a purchase of the predicted item changes its similarity to every item of the "
        "target: the first buyer, if they hold all of these, raises each from 0 to 1/√2. "
        "ε = (1/√2)/(2/20) = 7.07; 10 for a target whose own purchases are not in the data.",
        published=(
            PredictionGame("T = 20", Cosine(epsilon=1.0), data.worst_pair("tight", data.PURCHASES)),
        ),
        corrected=(
            PredictionGame(
                "damped",
                Cosine(epsilon=1.0, variant="corrected"),
                data.worst_pair("tight", data.PURCHASES),
            ),
        ),
    ),
)
