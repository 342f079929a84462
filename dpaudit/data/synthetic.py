"""Generated ratings with marginals like those of MovieLens, and friends with similar taste."""

from __future__ import annotations

from collections.abc import Callable
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
    excess = params.mean_per_user - params.minimum_per_user
    # exp(N(−sd²/2, sd)) has mean 1.
    drawn = excess * rng.lognormal(-(_ACTIVITY_SD**2) / 2, _ACTIVITY_SD, params.n_users)
    counts = params.minimum_per_user + np.rint(drawn).astype(np.int64)
    counts = np.minimum(counts, params.n_items)
    user = np.repeat(np.arange(params.n_users, dtype=np.int32), counts)
    shape = rng.permutation(params.n_items) + _POPULARITY_OFFSET
    popularity = (-_POPULARITY_EXPONENT * np.log(shape))[None]
    item = _sampled(counts, params.n_items, rng, lambda users: popularity.repeat(len(users), 0))
    value, taste = _values(params, user, item, rng)
    scale = params.scale.to_scale()
    ratings = Ratings.build(user, item, value, params.n_users, params.n_items, scale)
    return replace(ratings, friends=_friends(params, taste)) if params.mean_friends else ratings


def _friends(params: SyntheticParams, taste: NDArray[np.float64]) -> Friends:
    """Draw links, more often to users whose factors `(N, rank)` have a similar direction."""
    n_users = len(taste)
    rng = generator(params.seed, "friends")
    counts = np.minimum(rng.poisson(params.mean_friends, n_users), n_users - 1)
    direction = taste / np.linalg.norm(taste, axis=1, keepdims=True)

    def log_weight(users: NDArray[np.int64]) -> NDArray[np.float64]:
        # einsum instead of BLAS, whose last bits depend on the sizes.
        likeness = _LIKENESS * np.einsum("uf,vf->uv", direction[users], direction)
        likeness[np.arange(len(users)), users] = -np.inf  # no self-links
        return likeness

    friend = _sampled(counts, n_users, rng, log_weight)
    return Friends.build(np.repeat(np.arange(n_users), counts), friend, n_users)


def _sampled(
    sizes: NDArray[np.int64],
    width: int,
    rng: np.random.Generator,
    log_weight: Callable[[NDArray[np.int64]], NDArray[np.float64]],
) -> NDArray[np.int32]:
    """Draw `sizes` of `width` columns for each row without replacement, concatenated by row.

    The `n` largest of `log p_i + Gumbel noise` are a weighted sample without replacement.

    Args:
        sizes: how many are drawn for each row `(N,)`.
        width: the number of columns.
        rng: the source of noise.
        log_weight: returns the logarithms of the weights of some rows `(n, width)`.
    """
    block, drawn = max(1, _BLOCK_CELLS // width), []
    for start in range(0, len(sizes), block):
        rows = np.arange(start, min(start + block, len(sizes)))
        weights = log_weight(rows)
        ranked = np.argsort(-(weights + rng.gumbel(size=weights.shape)), axis=1, kind="stable")
        drawn.append(ranked.astype(np.int32)[np.arange(width) < sizes[rows, None]])
    return np.concatenate(drawn)


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
