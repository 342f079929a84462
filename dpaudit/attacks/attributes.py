"""Guesses of users' attributes by logistic regression on what is seen of them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from dpaudit.attacks.membership.features import exposure

Classes = NDArray[np.int64]
Probabilities = NDArray[np.float64]
# What is seen of each user, a row each: an array of numbers, or sparse indicators of items.
Features: TypeAlias = Any


def indicators(lists: NDArray[np.int32], items: int) -> csr_array:
    """Return which items each list holds `(n, M)`.

    Args:
        lists: the lists; -1 pads `(n, k)`.
        items: the number of items M.
    """
    held = exposure(lists, items)
    held.data[:] = 1
    return held


def probabilities(known: Features, classes: Classes, asked: Features, count: int) -> Probabilities:
    """Return the probability of each class for each asked user `(n, C)`.

    Inputs are standardised by the known users; what is missing counts as their mean. The penalty is
    1/C = d for d inputs, so that the prior variance of the logit is about 1, however many there
    are. Another attacker may guess better.

    Args:
        known: what is seen of users whose class the attacker knows `(m, d)`.
        classes: their classes, 0 to C - 1 `(m,)`.
        asked: what is seen of the users whose class is guessed `(n, d)`.
        count: the number of classes C; one that no known user has gets the probability 0.
    """
    from sklearn.linear_model import LogisticRegression

    inputs, questions = _standardised(known, asked)
    model = LogisticRegression(C=1 / inputs.shape[1], max_iter=10_000)
    model.fit(inputs, classes)
    guesses = np.zeros((questions.shape[0], count))
    guesses[:, model.classes_] = model.predict_proba(questions)
    return guesses


def _standardised(known: Features, asked: Features) -> tuple[Features, Features]:
    """Return both with variance 1 among the known; indicators keep their zeros, so no mean of 0."""
    from sklearn.preprocessing import StandardScaler

    if issparse(known):
        scale = StandardScaler(with_mean=False).fit(known)
        return scale.transform(known), scale.transform(asked)
    scale = StandardScaler().fit(_finite(known))
    return (
        np.nan_to_num(scale.transform(known.astype(np.float64))),
        np.nan_to_num(scale.transform(asked.astype(np.float64))),
    )


def _finite(known: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the numbers, without columns of which none is known."""
    return np.where(np.isnan(known).all(0), 0.0, known.astype(np.float64))
