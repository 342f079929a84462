"""What a rating shows in a federation with fake gradients, in the limit of many other users."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.games.trained import DataPair
from dpaudit.bounds.model_based.gdp import gaussian_epsilon
from dpaudit.core.streams import Streams
from dpaudit.defenses.federated.fake_gradients import FakeGradients

# Nearly no noise: of what the server forms as means over users, none is left.
_CLEAR = 1e6


def many_others(defense: FakeGradients, pair: DataPair, seed: int) -> str | None:
    """(ε, δ) of all that a user submits whose rating is added, with no gradient longer than G.

    As more and more others stand beside her, the noise in the items' means vanishes and V_t and F_t
    tend to what they are without noise. The noise in her own submissions stays, so that the run
    tends to one normal vector against another, with

        μ² = Σ_t Σ_j ‖x_tj − x'_tj‖²/σ²

    over all that she would submit without noise in either data set. What is taken for the limit is
    a training with σ near 0.

    Args:
        defense: a published one with a σ.
        pair: the two data sets.
        seed: decides the initial factors.

    Returns:
        μ and ε if ε is larger than is claimed, else None.

    Raises:
        ValueError: a gradient or a fake is longer than the bound.
    """
    clear = replace(defense, epsilon=_CLEAR)
    before = clear.prepare(pair.before, pair.public)
    after = clear.prepare(pair.after, pair.public)
    world = Streams.first(seed, "many others", 1)
    # Hers in D, and those of all in D', where every candidate is rated.
    lengths, square = [0.0], 0.0
    for _, means in clear.watch(before, after, after, world):
        absent, present = (
            each.reshape(-1, defense.dimensions) for each in (means.absent, means.present)
        )
        square += float(((present - absent) ** 2).sum())
        lengths.append(_longest(absent))
    for seen, _ in clear.transcript(after, world).rounds():
        lengths += [_longest(seen.gradients), _longest(seen.fakes)]
    longest = max(lengths)
    if longest > defense.bound:
        raise ValueError(f"a submission of length {longest} is beyond the bound {defense.bound}")
    sigma = defense.sigma(after)
    mu, paid = math.sqrt(square) / sigma, math.sqrt(defense.rounds) * defense.bound / sigma
    epsilon = gaussian_epsilon(mu, defense.delta)
    if epsilon <= defense.epsilon:
        return None
    return (
        f"μ = {mu:.3f} where {paid:.3f} is paid for, ε = {epsilon:.3f} where {defense.epsilon:g} is"
        f" claimed, with no submission longer than {longest:.3f} for a bound of {defense.bound:g}"
    )


def _longest(rows: NDArray[np.floating]) -> float:
    return float(np.linalg.norm(rows, axis=1).max())
