"""Wang & Tang 2017: neighbouring data sets, on the scale 1..5, and mathematical statements.

The data sets differ in the ratings of user 0. Item means are public and come from a separate data
set, unless stated otherwise. A check takes a seed and describes an instance on which its statement
fails, or returns None.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.trained.pairs import DataPair
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import Change, RatingAdded, RatingReplaced, UserReplaced, apply
from dpaudit.data.ratings import STARS, Ratings, from_profiles
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.neighborhood.sampled import SampledSimilarity
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity, Shortfall, shortfalls
from dpaudit.defenses.training_checks import step_sizes
from dpaudit.kernels.lanes import LANES

Profile = Mapping[int, float]
# Profiles, each with the number of users who share it.
Crowd = Sequence[tuple[Profile, int]]


def _ratings(profiles: Sequence[Profile], items: int) -> Ratings:
    return from_profiles([list(profile.items()) for profile in profiles], items)


def _pair(
    victim: Profile, others: Crowd, change: Change, items: int, public: Ratings | None, summary: str
) -> DataPair:
    crowd = [profile for profile, count in others for _ in range(count)]
    before = _ratings([victim, *crowd], items)
    return DataPair(before, apply(before, change), public, summary)


def replaced(profile: Profile) -> UserReplaced:
    """Return the change that replaces user 0's ratings by `profile`."""
    items = np.array(list(profile), np.int32)
    return UserReplaced(0, items, np.array(list(profile.values()), np.float32))


def means_of(*profile: float) -> Ratings:
    """Return public data whose item means are these ratings."""
    return _ratings([dict(enumerate(profile))], len(profile))


def near_one(items: int) -> Ratings:
    """Return public data with all item means 1.05: nineteen users rate 1 and one rates 2."""
    return _ratings([dict.fromkeys(range(items), value) for value in [1.0] * 19 + [2.0]], items)


def _split(size: int) -> dict[int, float]:
    """Return a profile of items 1 to n: the first half rated lowest, the second half highest."""
    return {item: 1.0 if item <= size // 2 else 5.0 for item in range(1, size + 1)}


def one_rating(size: int) -> DataPair:
    """Return P1: a single user whose rating of item 0 moves from end to end; the means are 3."""
    return _pair(
        {0: 1.0, **_split(size)},
        (),
        RatingReplaced(0, 0, 5.0),
        size + 1,
        means_of(*[3] * (size + 1)),
        f"a user has rated {size} items, half lowest and half highest, and one more, whose rating "
        "changes from lowest to highest; the means are 3",
    )


def sampled(size: int) -> DataPair:
    """Return P2: P1 with other users, whose gradients are 0, so that there are 10 ratings."""
    flat = dict.fromkeys(range(size + 1), 3.0)
    others: Crowd = ((flat, 1),)
    if size == 2:
        others = ((flat, 1), (dict.fromkeys(range(4), 3.0), 1))
    items = 4 if size == 2 else size + 1
    return _pair(
        {0: 1.0, **_split(size)},
        others,
        RatingReplaced(0, 0, 5.0),
        items,
        means_of(*[3] * items),
        f"a user has rated {size} items, half lowest and half highest, and one more, whose rating "
        "changes from lowest to highest; with others, who rate everything 3, there are 10 ratings, "
        "of which one is drawn; the means are 3",
    )


def recomputed(size: int, raters: int) -> DataPair:
    """Return P1 with `raters` other raters of item 0, where each data set has its own means."""
    mine = _split(size)
    opposite = {item: 6 - value for item, value in mine.items()}
    return _pair(
        {0: 1.0, **mine},
        (({0: 3.0, **opposite}, raters), ({**mine, size + 1: 3.0}, raters - 1)),
        RatingReplaced(0, 0, 5.0),
        size + 2,
        None,
        f"a rating changes from lowest to highest, and with it the mean of the item, which has "
        f"{raters} other raters; all other means are 3",
    )


def whole_user(others: int) -> DataPair:
    """Return the worst pair of the corrected steps: opposite gradients, all others as in D'.

    With three items, an item's row of the gradient is its error times the difference of the other
    two ratings, with opposite signs. Swapping two ratings reverses all three rows: a shift of 2c on
    six coordinates, the fewest possible.
    """
    mine, theirs = {0: 1.0, 1: 2.0, 2: 5.0}, {0: 1.0, 1: 5.0, 2: 2.0}
    return _pair(
        mine,
        ((theirs, others),),
        replaced(theirs),
        3,
        means_of(*[3] * 3),
        "a user with the ratings 1, 2, 5 of three items is replaced by one with 1, 5, 2, as "
        f"{others} {'other has' if others == 1 else 'others have'}: every gradient is reversed",
    )


def signs(against: int, for_it: int) -> DataPair:
    """Return P3: two items rated 5 are replaced by two others; other users make the signs rare.

    Args:
        against: number of users who rate items 0 and 1 at opposite ends.
        for_it: number of users who rate items 2 and 3 highest.
    """
    half = against // 2
    crowd: Crowd = (
        ({0: 5.0, 1: 1.0}, against - half),
        ({0: 1.0, 1: 5.0}, half),
        ({2: 5.0, 3: 5.0}, for_it),
    )
    return _pair(
        {0: 5.0, 1: 5.0},
        crowd,
        replaced({2: 5.0, 3: 5.0}),
        4,
        near_one(4),
        f"a user who rates two items 5 is replaced by one who rates two others 5; {against} users "
        f"rate the first two at opposite ends and {for_it} the other two 5; the means are 1.05",
    )


def signs_alone(for_it: int) -> DataPair:
    """Return P3 without means, which needs no other raters of the first two items."""
    return _pair(
        {0: 5.0, 1: 5.0},
        (({2: 5.0, 3: 5.0}, for_it),),
        replaced({2: 5.0, 3: 5.0}),
        4,
        means_of(3, 3, 3, 3),
        "a user who rates two items 5 is replaced by one who rates two others 5, as "
        f"{for_it} others do",
    )


def three_items(for_it: int) -> DataPair:
    """Return the pair with three items in place of two, which a chain of small steps can learn."""
    mine, theirs = dict.fromkeys(range(3), 5.0), dict.fromkeys(range(3, 6), 5.0)
    return _pair(
        mine,
        ((theirs, for_it),),
        replaced(theirs),
        6,
        means_of(*[3] * 6),
        f"a user who rates three items 5 is replaced by one who rates three others 5, as {for_it} "
        "others do",
    )


def opposite(means: Sequence[float]) -> DataPair:
    """Return P4: a single user, all of whose three ratings move from end to end."""
    return _pair(
        {0: 5.0, 1: 1.0, 2: 5.0},
        (),
        replaced({0: 1.0, 1: 5.0, 2: 1.0}),
        3,
        means_of(*means),
        "the only user, with the ratings 5, 1, 5, is replaced by one with 1, 5, 1",
    )


def one_of_two(against: int) -> DataPair:
    """Return P5: one of two ratings changes from 5 to 1; others rate both at opposite ends."""
    half = against // 2
    crowd: Crowd = (({0: 5.0, 1: 1.0}, against - half), ({0: 1.0, 1: 5.0}, half))
    return _pair(
        {0: 5.0, 1: 5.0},
        crowd,
        RatingReplaced(0, 0, 1.0),
        2,
        near_one(2),
        f"one of a user's two ratings changes from 5 to 1; {against} others rate the two items at "
        "opposite ends; the means are 1.05",
    )


# Other users with ratings of up to three items, who make the loss of P5 with three items visible.
_PINS: Crowd = (
    ({1: 1.0, 2: 5.0}, 101),
    ({1: 5.0, 2: 1.0}, 13),
    ({0: 1.0, 2: 1.0}, 60),
    ({0: 1.0, 2: 5.0}, 43),
    ({0: 1.0, 1: 1.0}, 1),
    ({0: 1.0, 1: 1.0, 2: 1.0}, 60),
    ({0: 1.0, 1: 1.0, 2: 5.0}, 85),
    ({0: 1.0, 1: 5.0}, 44),
    ({0: 1.0, 1: 5.0, 2: 1.0}, 47),
    ({0: 5.0, 1: 1.0}, 11),
)


def one_of_three() -> DataPair:
    """Return P5 with three items; the other users were found by search."""
    return _pair(
        dict.fromkeys(range(3), 5.0),
        _PINS,
        RatingReplaced(0, 0, 1.0),
        3,
        near_one(3),
        "one of a user's three ratings changes from 5 to 1; 465 others have rated two or three of "
        "the items; the means are 1.05",
    )


_ROUNDING = 1e-5
_EXPONENT = 0.3  # ξ of the paper's run
# Number of trainings for the counts, which noise hardly changes.
_TRIALS = 4


def uneven_sensitivity(seed: int) -> str | None:
    """`‖G − G'‖_1 ≤ ΔF` wherever `|S_i| I_u ≥ C`, for one rating replaced.

    All of a user's other ratings are equal, and the replaced rating has nearly the whole weight in
    their predictions. So no other rating has an error before the change, and each has the largest
    error after it.
    """
    size, near = 8, 0.01
    defense = SgdSimilarity(epsilon=1.0, steps=1, more_than=0)
    before = from_profiles([[(item, 1.0) for item in range(size + 1)]], size + 1)
    after = apply(before, RatingReplaced(0, 0, 5.0))
    public = means_of(*[3] * (size + 1))
    similarity = np.full((size + 1, size + 1), near * defense.weight / (size - 1), np.float32)
    similarity[:, 0] = (1 - near) * defense.weight
    similarity[0] = defense.weight / size
    moved, least = 0.0, math.inf
    for item in range(size + 1):
        row = np.repeat(similarity[item][:, None], LANES, axis=1)
        gradients = []
        for ratings in (before, after):
            data = defense.prepare(ratings, public)
            gradient, weights = defense.slope(data, 1).of(data, item, row)
            gradients.append(gradient[:, 0].astype(np.float64))
            least = min(least, float(weights[0]))
        moved += float(abs(gradients[1] - gradients[0]).sum())
    bound = 2 * defense.largest_error(1, STARS) * STARS.width / defense.weight
    if least < defense.weight * (1 - _ROUNDING) or moved <= bound * (1 + _ROUNDING):
        return None
    return f"one rating from 1 to 5 changes the gradient by {moved / bound:.2f} ΔF in L1"


def negative_similarities(seed: int) -> str | None:
    """`|∂r̂_ui/∂s_ij| ≤ φ/(|S_i| I_u)` also for s_ij < 0, if |x_uj − f| ≤ φ for every rating.

    `∂r̂/∂s_ij = (x_uj − sign(s_ij) f)/Σ|s|`, computed by differences of r̂. All ratings are 5, the
    items' means are 1 (centred) or left out (raw), and one small similarity is negative.
    """
    findings = []
    for means, name in ((1.0, "centred ratings"), (0.0, "raw ratings")):
        x = np.full(8, STARS.maximum - means)
        s = np.array([-1e-3, *[1.0] * 7])

        def predicted(s: NDArray[np.float64], x: NDArray[np.float64] = x) -> float:
            return float(s @ x / abs(s).sum())

        if abs(x - predicted(s)).max() > STARS.width:
            continue
        step = 1e-6 * (np.arange(8) == 0)
        slope = (predicted(s + step) - predicted(s - step)) / 2e-6
        reached = abs(slope) * float(abs(s).sum()) / STARS.width
        if reached > 1 + _ROUNDING:
            findings.append(f"{name}: {reached:.2f} φ/(|S_i| I_u)")
    return "; ".join(findings) or None


def touched_coordinates(seed: int) -> str | None:
    """An added rating touches only coordinates of the gradient that other ratings touch too."""
    before = from_profiles([[(0, 3.0), (2, 4.0)], [(1, 3.0), (2, 2.0)]], 3)
    after = apply(before, RatingAdded(0, 1, 5.0))
    touched = [
        {
            (int(i), int(j))
            for user in range(ratings.n_users)
            for i, j in itertools.permutations(ratings.profile(user).items, 2)
        }
        for ratings in (before, after)
    ]
    new = sorted(touched[1] - touched[0])
    if not new:
        return None
    i, j = new[0]
    return (
        f"the coordinate ({i}, {j}) is noised in every run with the added rating and in no run "
        f"without it: ε = ∞"
    )


def squared_steps(seed: int) -> str | None:
    """`Σ η_t² < ∞` for the steps `t^−ξ`, by blocks that are each as long as all before it."""
    sizes = np.array(step_sizes(1.0, _EXPONENT, "text", 2**16))
    blocks = [float((sizes[2**k : 2 ** (k + 1)] ** 2).sum()) for k in range(4, 16)]
    # The sums increase: a block's sum is 2^{k(1−2ξ)} times a factor that converges.
    if any(later <= earlier for earlier, later in itertools.pairwise(blocks)):
        return None
    return f"Σ η_t² over steps 2^k to 2^(k+1) grows with k: {blocks[0]:.2f} … {blocks[-1]:.1f}"


# Ratings as (user, item): user 0 has rated both items 0 and 1, users 1 and 2 one of them each.
_DRAWN = ((0, 0), (0, 1), (1, 0), (2, 1), (3, 2), (4, 2))
_BATCH = 3


def meanings() -> dict[str, float]:
    """Return what “a mini-batch has the pair of items 0 and 1” can mean.

    Each meaning has the share of all mini-batches for which it is true.
    """
    batches = list(itertools.product(_DRAWN, repeat=_BATCH))

    def share(*wanted: set[tuple[int, int]]) -> float:
        """Return the share of mini-batches that contain a rating of each set."""
        return sum(all(ratings & set(batch) for ratings in wanted) for batch in batches) / len(
            batches
        )

    of_0, of_1 = ({(user, item) for user, item in _DRAWN if item == i} for i in (0, 1))
    shared_0, shared_1 = {(0, 0)}, {(0, 1)}
    return {
        "both items are drawn": share(of_0, of_1),
        "i is drawn from a user of both": share(shared_0),
        "either is drawn from a user of both": share(shared_0 | shared_1),
        "both are drawn from one user": share(shared_0, shared_1),
        "i is drawn": share(of_0),
    }


def printed_h(a: float, b: float, size: int) -> float:
    """Return H of section 4.2 for items with the shares a and b of the ratings."""
    return float(1 - a * b * (1 - b) ** (size - 1) * (1 - a) ** (size - 1))


def printed_inclusion(seed: int) -> str | None:
    """The printed H is the probability of some meaning of “a mini-batch has the pair”."""
    a, b = (sum(item == i for _, item in _DRAWN) / len(_DRAWN) for i in (0, 1))
    printed, probabilities = printed_h(a, b, _BATCH), meanings()
    if any(math.isclose(printed, share, abs_tol=_ROUNDING) for share in probabilities.values()):
        return None
    shares = ", ".join(f"{name}: {share:.3f}" for name, share in probabilities.items())
    return f"{len(_DRAWN)} ratings, L = {_BATCH}: H = {printed:.3f}, but {shares}"


def short_weights(seed: int, ratings: Ratings, defense: SgdSimilarity) -> str | None:
    """`Σ_j |s_ij| ≥ C` in every prediction of the first and the last step."""
    streams = Streams.first(seed, "weights", _TRIALS)
    first, last = shortfalls(defense, defense.prepare(ratings), streams)
    counted = [first, last] if defense.steps > 1 else [first]
    if not any(shortfall.below.any() for shortfall in counted):
        return None
    return "; ".join(map(_words, counted))


def _words(shortfall: Shortfall) -> str:
    below = f"{shortfall.below.mean():.4g} of {shortfall.of} predictions ({shortfall.share:.2%})"
    return f"step {shortfall.step}: {below} below C, the least is {shortfall.least.min():.3g}"


def generated_weights(seed: int, defense: SgdSimilarity) -> str | None:
    """`Σ_j |s_ij| ≥ C` on generated ratings of users with more than 20, as in the paper."""
    return short_weights(seed, generated(), replace(defense, more_than=20))


def generated() -> Ratings:
    """Return ratings of a hundred users, some of whom have just over 20."""
    return generate(SyntheticParams(n_users=100, n_items=120, mean_per_user=30, seed=1))


def half(epsilon: float, cap: int = 2, **params: Any) -> SampledSimilarity:
    """Return the defense with Algorithm 2's likelihood, ½ Σ e²."""
    return SampledSimilarity(epsilon=epsilon, cap=cap, more_than=0, **params)


def full(epsilon: float, cap: int = 2, **params: Any) -> SampledSimilarity:
    """Return the defense with eq. (6)'s likelihood, Σ e²."""
    return half(epsilon, cap, likelihood="squares", **params)
