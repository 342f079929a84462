"""The probabilities that a mini-batch has a pair of items (Wang & Tang 2017), in closed form."""

from __future__ import annotations

# Six ratings, of which three are drawn; each of the two items has two of them, and one user both.
RATINGS, SIZE, OF_AN_ITEM = 6, 3, 2


def left_out(ratings: int) -> float:
    """Return the probability that a mini-batch contains none of so many ratings."""
    return (1 - ratings / RATINGS) ** SIZE


# By the names of the meanings in `dpaudit.claims.wang_tang_2017.data`.
INCLUSION = {
    "both items are drawn": 1 - 2 * left_out(OF_AN_ITEM) + left_out(2 * OF_AN_ITEM),
    "i is drawn from a user of both": 1 - left_out(1),
    "either is drawn from a user of both": 1 - left_out(2),
    "both are drawn from one user": 1 - 2 * left_out(1) + left_out(2),
    "i is drawn": 1 - left_out(OF_AN_ITEM),
}
