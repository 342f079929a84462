"""Generated ratings with the marginals of a film-rating site."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.data.ratings import Ratings
from dpaudit.data.source import SyntheticParams

# Shape constants, chosen to resemble the published MovieLens sets.
_POPULARITY_EXPONENT = 0.9
_POPULARITY_OFFSET = 10.0
_ACTIVITY_SD = 1.0
_CENTRE = 0.62
_USER_SD, _ITEM_SD, _SIGNAL_SD = 0.11, 0.12, 0.13
_BLOCK_CELLS = 4_000_000


def generate(params: SyntheticParams) -> Ratings:
    """Draw ratings from a seeded model; the same parameters give the same ratings.

    The model, with `m` and `w` the minimum and the width of the scale:

    * popularity: a random permutation of the items has weights `p_k ∝ (k + 10)^-0.9`;
    * activity: user `u` rates `n_u = minimum + ⌊L_u⌉` items, `L_u` log-normal with log-sd 1 and
      mean `mean − minimum`, at most all items; her items are drawn without replacement by weight;
    * rating: `m + w (0.62 + b_u + c_i + s⟨U_u, V_i⟩ / √rank) + noise · N(0, 1)` with normal biases
      of sd 0.11 and 0.12, standard normal factors and `s = 0.13`, rounded to the scale's steps and
      clipped to its ends.
    """
    rng = np.random.default_rng(np.random.SeedSequence(params.seed))
    counts = _activity(params, rng)
    user = np.repeat(np.arange(params.n_users, dtype=np.int32), counts)
    item = _items(counts, params.n_items, rng)
    value = _values(params, user, item, rng)
    scale = params.scale.to_scale()
    return Ratings.build(user, item, value, params.n_users, params.n_items, scale)


def _activity(params: SyntheticParams, rng: np.random.Generator) -> NDArray[np.int64]:
    excess = params.mean_per_user - params.minimum_per_user
    # exp(N(−sd²/2, sd)) has mean 1.
    drawn = excess * rng.lognormal(-(_ACTIVITY_SD**2) / 2, _ACTIVITY_SD, params.n_users)
    counts = params.minimum_per_user + np.rint(drawn).astype(np.int64)
    return np.minimum(counts, params.n_items)


def _items(counts: NDArray[np.int64], n_items: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Each user's items, user after user.

    The `n` largest of `log p_i + Gumbel noise` are a weighted sample without replacement.
    """
    log_weight = -_POPULARITY_EXPONENT * np.log(rng.permutation(n_items) + _POPULARITY_OFFSET)
    block = max(1, _BLOCK_CELLS // n_items)
    chosen = []
    for start in range(0, len(counts), block):
        sizes = counts[start : start + block]
        keys = log_weight + rng.gumbel(size=(len(sizes), n_items))
        ranked = np.argsort(-keys, axis=1, kind="stable").astype(np.int32)
        chosen.append(ranked[np.arange(n_items) < sizes[:, None]])
    return np.concatenate(chosen)


def _values(
    params: SyntheticParams,
    user: NDArray[np.int32],
    item: NDArray[np.int32],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    scale = params.scale.to_scale()
    user_bias = _USER_SD * rng.standard_normal(params.n_users)
    item_bias = _ITEM_SD * rng.standard_normal(params.n_items)
    user_factor = rng.standard_normal((params.n_users, params.rank))
    item_factor = rng.standard_normal((params.n_items, params.rank)) / np.sqrt(params.rank)
    signal = np.zeros(len(user))
    for left, right in zip(user_factor.T, item_factor.T, strict=True):
        signal += left[user] * right[item]
    share = _CENTRE + user_bias[user] + item_bias[item] + _SIGNAL_SD * signal
    noise = params.noise * rng.standard_normal(len(user))
    steps = np.rint((scale.width * share + noise) / scale.step)
    levels = len(scale.values) - 1
    return scale.minimum + scale.step * np.clip(steps, 0, levels)
