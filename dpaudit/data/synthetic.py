"""Generated ratings with marginals like those of MovieLens, and friends with similar taste."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import generator
from dpaudit.data.ratings import Friends, Ratings
from dpaudit.data.source_parts import SyntheticParams

# Shape constants, chosen to resemble the published MovieLens sets.
_POPULARITY_EXPONENT = 0.9
_POPULARITY_OFFSET = 10.0
_ACTIVITY_SD = 1.0
_CENTRE = 0.62
_USER_SD, _ITEM_SD, _SIGNAL_SD = 0.11, 0.12, 0.13
_LIKENESS = 2.0
_BLOCK_CELLS = 4_000_000


def generate(params: SyntheticParams) -> Ratings:
    """Draw ratings from a seeded model; the same parameters give the same ratings.

    The model, with `m` and `w` the minimum and the width of the scale:

    * popularity: a random permutation of the items has weights `p_k ∝ (k + 10)^-0.9`;
    * activity: user `u` rates `n_u = minimum + ⌊L_u⌉` items, `L_u` log-normal with log-sd 1 and
      mean `mean − minimum`, at most all items; they are drawn without replacement by weight;
    * rating: `m + w (0.62 + b_u + c_i + s⟨U_u, V_i⟩ / √rank) + noise · N(0, 1)` with normal biases
      of sd 0.11 and 0.12, standard normal factors and `s = 0.13`, rounded to the scale's steps and
      clipped to its ends;
    * friends, if `mean_friends` is above 0: user `u` names `n_u ~ Poisson(mean_friends)` others, at
      most all, drawn without replacement by weights `exp(2 cos(U_u, U_f))`. They use a separate
      random stream: the ratings are the same with and without friends.
    """
    rng = generator(params.seed)
    counts = _activity(params, rng)
    user = np.repeat(np.arange(params.n_users, dtype=np.int32), counts)
    item = _items(counts, params.n_items, rng)
    value, taste = _values(params, user, item, rng)
    scale = params.scale.to_scale()
    ratings = Ratings.build(user, item, value, params.n_users, params.n_items, scale)
    return replace(ratings, friends=_friends(params, taste)) if params.mean_friends else ratings


def _activity(params: SyntheticParams, rng: np.random.Generator) -> NDArray[np.int64]:
    excess = params.mean_per_user - params.minimum_per_user
    # exp(N(−sd²/2, sd)) has mean 1.
    drawn = excess * rng.lognormal(-(_ACTIVITY_SD**2) / 2, _ACTIVITY_SD, params.n_users)
    counts = params.minimum_per_user + np.rint(drawn).astype(np.int64)
    return np.minimum(counts, params.n_items)


def _items(counts: NDArray[np.int64], n_items: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Draw the items of each user, concatenated in the order of users."""
    log_weight = -_POPULARITY_EXPONENT * np.log(rng.permutation(n_items) + _POPULARITY_OFFSET)
    block = max(1, _BLOCK_CELLS // n_items)
    chosen = []
    for start in range(0, len(counts), block):
        sizes = counts[start : start + block]
        chosen.append(_sample(np.broadcast_to(log_weight, (len(sizes), n_items)), sizes, rng))
    return np.concatenate(chosen)


def _friends(params: SyntheticParams, taste: NDArray[np.float64]) -> Friends:
    """Draw links, more often to users whose factors `(N, rank)` have a similar direction."""
    n_users = len(taste)
    rng = generator(params.seed, "friends")
    counts = np.minimum(rng.poisson(params.mean_friends, n_users), n_users - 1)
    direction = taste / np.linalg.norm(taste, axis=1, keepdims=True)
    block = max(1, _BLOCK_CELLS // n_users)
    chosen = []
    for start in range(0, n_users, block):
        here = np.arange(start, min(start + block, n_users))
        # einsum instead of BLAS, whose last bits depend on the sizes.
        log_weight = _LIKENESS * np.einsum("uf,vf->uv", direction[here], direction)
        log_weight[here - start, here] = -np.inf  # no self-links
        chosen.append(_sample(log_weight, counts[here], rng))
    return Friends.build(np.repeat(np.arange(n_users), counts), np.concatenate(chosen), n_users)


def _sample(
    log_weight: NDArray[np.float64], sizes: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw `sizes` columns of each row without replacement by weight, concatenated by row.

    The `n` largest of `log p_i + Gumbel noise` are a weighted sample without replacement.
    """
    keys = log_weight + rng.gumbel(size=log_weight.shape)
    ranked = np.argsort(-keys, axis=1, kind="stable").astype(np.int32)
    return ranked[np.arange(keys.shape[1]) < sizes[:, None]]


def _values(
    params: SyntheticParams,
    user: NDArray[np.int32],
    item: NDArray[np.int32],
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw the ratings; also return the users' factors `(N, rank)`."""
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
    return scale.minimum + scale.step * np.clip(steps, 0, levels), user_factor
