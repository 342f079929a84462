"""Reconstruct hidden interactions of users from the factors that a recommender publishes.

The attacker knows a user's other interactions H, and lists k items that are not among them. Of the
hidden interactions that the model was trained on more are listed than of those that it was not
trained on; the latter show what generalisation alone gives. Three ways:

- **item factors**: a vector is fitted to what is known of the user, as the model itself would fit
  it (Hu, Koren & Volinsky 2008, doi:10.1109/ICDM.2008.22, equation 4, with α = 1). It minimises

      Σ_{j ∈ H} 2 (1 − u · v_j)² + Σ_{j ∉ H} (u · v_j)² + λ ‖u‖²,

  for items whose root mean square length is 1. So u = 2 (VᵀV + Σ_{j ∈ H} v_j v_jᵀ + λ)⁻¹ Σ_H v_j.
- **user factors**: the user's own published vector stands in its place.
- **holders**: of published vectors without names, each is ascribed to the user whose fitted vector
  has the largest cosine with it. A guess is right for one in n users.

Equal scores are ordered at random.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.membership.features import Known, Numbers, Pairs, length_of, of_length_one
from dpaudit.kernels.normal_equations import ridged, solved

# The ways, and what the two shares of each are of.
WAYS: Mapping[str, tuple[str, str]] = {
    "item factors": ("present targets", "absent targets"),
    "user factors": ("present targets", "absent targets"),
    "holders": ("named", "guessed"),
}
# λ.
_RIDGE = 0.1
# The most users who are attacked.
_MOST = 1000


def reconstructed(
    items: NDArray[np.float32],
    users: NDArray[np.float32] | None,
    known: Known,
    hidden: Pairs,
    present: NDArray[np.bool_],
    k: int,
) -> Numbers:
    """Return both shares of each of `WAYS` `(3, 2)`; NaN where there is nothing to take it of.

    Of more than 1000 users with hidden interactions so many are attacked, evenly spaced.

    Args:
        items: factors of the items `(M, d)`.
        users: factors of the users `(N, d)`; None if they are not published.
        known: what the attacker knows.
        hidden: the hidden interactions `(n,)`.
        present: whether the model was trained on each `(n,)`.
        k: the number of items that are listed of each user.
    """
    owners = np.unique(hidden.users)
    if len(owners) > _MOST:
        owners = owners[np.linspace(0, len(owners) - 1, _MOST).astype(np.int64)]
    vectors = items.astype(np.float64) / length_of(items.astype(np.float64))
    start, had = known.history.indptr, known.history.indices
    histories = [had[start[owner] : start[owner + 1]] for owner in owners]
    targets = [np.flatnonzero(hidden.users == owner) for owner in owners]
    coins = present[np.concatenate(targets)] if len(owners) else present[:0]

    def listed(wanted: Numbers) -> list[float]:
        """Return the shares of present and of absent targets on the lists of vectors `(u, d)`."""
        chances = [
            _listed(np.einsum("md,d->m", vectors, vector), seen, hidden.items[at], k)
            for vector, seen, at in zip(wanted, histories, targets, strict=True)
        ]
        on_list = np.concatenate(chances)
        return [float(on_list[isin].mean()) for isin in (coins, ~coins)]

    shares = np.full((len(WAYS), 2), np.nan)
    if coins.all() or not coins.any():
        return shares
    fitted = _fitted(vectors, histories)
    shares[0] = listed(fitted)
    if users is not None and users.shape[1] == items.shape[1]:
        published = users[owners].astype(np.float64)
        shares[1] = listed(published)
        alike = np.einsum("pd,qd->pq", of_length_one(published), of_length_one(fitted))
        named = [_chance(row, row[place], 1) for place, row in enumerate(alike)]
        shares[2] = np.mean(named), 1 / len(owners)
    return shares


def _fitted(items: Numbers, histories: list[NDArray[np.int32]]) -> Numbers:
    """Return the vector that is fitted to each history, but for its length `(u, d)`."""
    every = ridged(items[None], _RIDGE)
    fits = []
    for history in histories:
        rows = items[history]
        # (VᵀV + Σ_H v vᵀ + λ) u = Σ_H v
        fits.append(solved(every + ridged(rows[None], 0.0), rows.sum(0)[None, :, None])[0, :, 0])
    return np.array(fits)


def _listed(scores: Numbers, seen: NDArray[np.int32], wanted: NDArray[np.int32], k: int) -> Numbers:
    """Return how likely each wanted item is among the k best that are not seen `(n,)`."""
    scores[seen] = -np.inf
    return _chance(scores, scores[wanted], k)


def _chance(scores: Numbers, own: Numbers, k: int) -> Numbers:
    """Return how likely each of some scores is among the k largest, equal ones in random order."""
    ordered = np.sort(-scores)
    above, through = (np.searchsorted(ordered, -own, side) for side in ("left", "right"))
    return np.clip((k - above) / (through - above), 0.0, 1.0)
