"""The ε of a choice among private models, where the choice is private itself.

A setting that is chosen by looking at private data is no post-processing of one private model, so
no model's claim covers it. It is covered if the settings are drawn at random, independently, a
secret random number of times; if what chooses is computed from public data or from what the models
release; and if the best model itself is released, and nothing of the others (Papernot & Steinke
2022, arXiv:2110.03620, Theorems 2 and 6). A search that trains settings again, halves their number
or shows a picture of them is none of these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpaudit.audits.models.subject import points_of
from dpaudit.data.ratings import Ratings
from dpaudit.tuning.settings import Setting, Tuned

# Mean numbers of runs that are shown.
_RUNS = (10, 40, 200)


def of_choice(epsilon: float, delta: float) -> Mapping[int, float]:
    """Return the ε of a private choice at δ, by the mean number of runs (logarithmic law).

    Each run is taken for a Gaussian mechanism with exactly this ε at δ. A pure guarantee has three
    times the ε with a geometric number of runs, whatever its mean (Liu & Talwar 2019,
    arXiv:1811.07971).

    Args:
        epsilon: the ε of each model, above 0 and finite.
        delta: its δ, 0 to 1.
    """
    if delta <= 0:
        return dict.fromkeys(_RUNS, 3 * epsilon)
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    from dpaudit.bounds.gdp import gaussian_mu

    event = dp_event.GaussianDpEvent(1 / gaussian_mu(epsilon, delta))
    covered = {}
    for runs in _RUNS:
        accountant = RdpAccountant()
        accountant.compose(dp_event.RepeatAndSelectDpEvent(event, runs, 0))
        covered[runs] = float(accountant.get_epsilon(delta))
    return covered


def claimed(
    tuned: Tuned, settings: Sequence[Setting], ratings: Ratings, chosen: int
) -> dict[str, Any]:
    """Return what `Tuning` says of claims: that of one setting, and the ε of a private choice.

    Args:
        tuned: the model.
        settings: the settings; the choice among them is covered by the largest ε and δ.
        ratings: the data.
        chosen: the place of the setting whose claim is shown.

    Returns:
        `claim` and `covered`; empty if a setting states no claim.
    """
    models = [tuned.with_setting(setting).audited[0] for setting in settings]
    claims = [points_of(model, ratings)[0].claim for model in models]
    stated = [(one.epsilon, one.delta) for one in claims if one and math.isfinite(one.epsilon)]
    if len(stated) < len(claims):
        return {}
    epsilon, delta = map(max, zip(*stated, strict=True))
    return {"claim": stated[chosen], "covered": of_choice(epsilon, delta)}
