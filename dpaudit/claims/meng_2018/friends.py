"""PrivSR, rating form (Meng et al. 2018): claims about messages between friends."""

from __future__ import annotations

from dpaudit.claims.entry import PublishedClaim
from dpaudit.claims.meng_2018 import data
from dpaudit.claims.meng_2018.data import corrected, published
from dpaudit.claims.meng_2018.games import MessagesGame

_PAPER = "Meng et al. 2018"

FRIENDS = (
    PublishedClaim(
        id="privsr-thm2-friends",
        sentence="The sum of the messages that a user receives from friends is ε-differentially "
        "private.",
        source=f"{_PAPER}, Theorem 2, section 6.2",
        adjacency="rating-replace",
        observer="friend",
        recorded="falsified",
        because="Within the unit ball u_f changes by up to 2, and 2 S u_f by up to 4, but section "
        "6.2 bounds Σ 2 S (u_f − ũ_f) by 2. The noise, Lap(2√K/ε), covers a change of 2: "
        "ε' = 2 ε, with K = 1, S = 1, u_f = ±1. One rating of the friend suffices if factors are "
        "fitted to ratings.",
        published=(
            MessagesGame(
                "K = 1, S = 1, u_f from 1 to −1",
                published(social=0.01),
                *data.befriended(1),
            ),
        ),
        corrected=(
            MessagesGame(
                "whole users, nine tenths of μ² for friends",
                corrected(social=0.01, friends_share=0.9, offset=0.0),
                *data.befriended(1),
            ),
        ),
        reading="as in the proof: the observer sees the sum once, knows V and does not know h; the "
        "noise is that of section 5.2",
    ),
    PublishedClaim(
        id="privsr-thm2-message",
        sentence="The message that a friend sends to a user is ε-differentially private against "
        "that user.",
        source=f"{_PAPER}, section 5.2, Theorem 2; Theorem 3 with sections 5.3 and 6.3",
        adjacency="rating-replace",
        observer="friend",
        recorded="falsified",
        because="The user receives each friend's message separately, and drew h. Given h, the "
        "message's noise is normal with the share 1/|F| of the variance. ε' = ∞.",
        published=(
            MessagesGame(
                "one friend",
                published(social=0.01),
                *data.befriended(1),
                alone=True,
            ),
            MessagesGame(
                "three friends",
                published(social=0.01),
                *data.befriended(3),
                alone=True,
            ),
        ),
        corrected=(
            MessagesGame(
                "whole users, one of three friends",
                corrected(social=0.01, friends_share=0.9, offset=0.0),
                *data.befriended(3),
                alone=True,
            ),
        ),
        reading="messages are seen once; users' factors are fitted to their ratings",
    ),
)
