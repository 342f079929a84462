"""The single users' submissions that the recommender of a social training has at its end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.memory import check_memory
from dpaudit.core.streams import Streams
from dpaudit.core.transcripts import Learning, Submissions
from dpaudit.defenses.factors import FactorModels
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.defenses.social.training import SocialTraining

if TYPE_CHECKING:
    from dpaudit.defenses.social.settings import PrivSRSettings


def submitted(
    defense: PrivSRSettings, rows: SocialRows, trial: Streams, users: NDArray[np.bool_]
) -> tuple[Submissions, FactorModels]:
    """Train once, and return all submissions of the observed users, and the model.

    Args:
        defense: a mechanism whose recommender sees single submissions.
        rows: the training data.
        trial: the only trial.
        users: mask of the observed users `(N,)`.

    Raises:
        ConfigError: the submissions do not fit the memory.
        NoModelError: the training diverged.
    """
    d, followed = defense.dimensions, int(users[rows.users].sum())
    check_memory(
        "the submissions of the observed users in all rounds",
        f"params.rounds ({defense.rounds:,}) times params.dimensions ({d}) times the number of "
        f"their ratings and of items ({followed + rows.n_items:,})",
        # Each as it is received and in one array: submissions and deviations, and V.
        2 * 4 * defense.rounds * d * (2 * followed + rows.n_items),
        "lower the attack's params.users, lower params.rounds or params.dimensions",
    )
    training = SocialTraining(defense, rows, trial, users)
    factors, shown, deviations = [], [], []
    for _ in range(defense.rounds):
        factors.append(training.items[:, :d].copy())
        sent = training.submit()
        training.learn(sent.sums)
        shown.append(sent.shown[:, :d])
        known = np.broadcast_to(sent.deviations, (len(sent.shown), d))
        deviations.append(known.astype(np.float32))
    observed = training.observed
    ratings = np.where(rows.sensitive[observed], np.nan, rows.values[observed].astype(np.float64))
    seen = Submissions(
        users=rows.users[observed],
        items=rows.items[observed],
        shared=ratings,
        shown=np.stack(shown),
        deviations=np.stack(deviations),
        usual=np.sqrt(training.noise.of_rows(rows)[observed]),
        factors=np.stack(factors),
        learning=_learning(defense),
    )
    return seen, training.models()


def _learning(defense: PrivSRSettings) -> Learning:
    alike, cut = defense.start == "constant", defense.variant == "corrected"
    return Learning(
        rate=defense.learning_rate,
        decay=defense.decay,
        offset=defense.offset,
        start=defense.spread if alike else 0.0,
        spread=0.0 if alike else defense.spread,
        clip=defense.clip_norm if cut else math.inf,
        ball=1.0 if cut else math.inf,
    )
