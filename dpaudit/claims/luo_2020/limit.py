"""Privacy loss of a rating under fake gradients, in the limit of many other users."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.trained.trained_game import DataPair
from dpaudit.bounds.gdp import gaussian_epsilon
from dpaudit.core.streams import Streams
from dpaudit.defenses.federated.fake_gradients import FakeGradients

# An ε with nearly no noise, as in the limit of the server's means over many users.
_CLEAR = 1e6


def many_others(defense: FakeGradients, pair: DataPair, seed: int) -> str | None:
    """Test the claim for the submissions of a user who adds a rating, with no gradient above G.

    As the number of other users grows, the noise in the items' means vanishes, and V_t and F_t tend
    to their values without noise. The noise in the user's own submissions stays, so distinguishing
    the data sets tends to distinguishing two normal vectors, with

        μ² = Σ_t Σ_j ‖x_tj − x'_tj‖²/σ²

    over the user's submissions without noise on D and D'. A training with σ near 0 approximates the
    limit.

    Args:
        defense: a published defense that has a σ.
        pair: the two data sets.
        seed: decides the initial factors.

    Returns:
        a description with μ and ε if ε exceeds the claim, else None.

    Raises:
        ValueError: a gradient or a fake is longer than the bound.
    """
    clear = replace(defense, epsilon=_CLEAR)
    before = clear.prepare(pair.before, pair.public)
    after = clear.prepare(pair.after, pair.public)
    trial = Streams.first(seed, "many others", 1)
    # Lengths of the user's submissions on D, and of everybody's on D', where every candidate is
    # rated.
    lengths, square = [0.0], 0.0
    for _, means in clear.observe(before, after, after, trial):
        absent, present = (
            rows.reshape(-1, defense.dimensions) for rows in (means.absent, means.present)
        )
        square += float(((present - absent) ** 2).sum())
        lengths.append(_longest(absent))
    for seen, _ in clear.transcript(after, trial).rounds():
        lengths += [_longest(seen.gradients), _longest(seen.fakes)]
    longest = max(lengths)
    if longest > defense.clip_norm:
        raise ValueError(
            f"a submission has length {longest}, which is beyond the bound {defense.clip_norm}"
        )
    sigma = defense.sigma(after)
    mu, paid = math.sqrt(square) / sigma, math.sqrt(defense.rounds) * defense.clip_norm / sigma
    epsilon = gaussian_epsilon(mu, defense.delta)
    if epsilon <= defense.epsilon:
        return None
    return (
        f"μ = {mu:.3f} where {paid:.3f} is covered, ε = {epsilon:.3f} where {defense.epsilon:g} is "
        f"claimed; the longest submission has length {longest:.3f}, and the bound is "
        f"{defense.clip_norm:g}"
    )


def _longest(rows: NDArray[np.floating]) -> float:
    return float(np.linalg.norm(rows, axis=1).max())
