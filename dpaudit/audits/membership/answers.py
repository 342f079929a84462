"""What a training's answers leave open: what has no answer, and what another training shows too."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.membership.known import Shown
from dpaudit.audits.membership.design import Design
from dpaudit.core.membership import OF_FACTORS, WITNESS, Observer, Unit

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Columns that `beside` adds to features.
BESIDE = 2
# Lists that differ less between users may be the same in two trainings by chance.
_PERSONAL = 10
# Scores that differ by less, relatively to their size, are equal up to rounding.
_ROUNDING = 8 * float(np.finfo(np.float32).eps)
# Scores of a training whose rounding is a larger share of their range are compared at this one.
_MOST = 0.01
# The least mean correlation of scores, or share of equal lists, that is no chance.
_FIXED = 0.1


def beside(
    features: Numbers, shown: Shown, design: Design, unit: Unit, observer: Observer, kept: Mask
) -> Numbers:
    """Return what each target has no answer for, and a mark of what is shown of it `(n, 2)`.

    The first number is the share of the scores or lists asked that are missing, 0 to 1. A user or
    item without interactions in the training may go without an answer. The second is a score, or
    a digest of a list.

    Args:
        features: the features `(n, F)`.
        shown: what the model shows.
        design: the targets.
        unit: what a target is.
        observer: who observes the model.
        kept: the rows of the training that it has not forgotten `(R,)`.
    """
    data = design.ratings
    user_there = np.bincount(data.user[kept], minlength=data.n_users) > 0
    item_there = np.bincount(data.item[kept], minlength=data.n_items) > 0
    count = len(features)
    if observer in (*OF_FACTORS, WITNESS):
        return np.stack((np.zeros(count), features[:, 0]), axis=1)
    if observer == "scores":
        query = design.query
        lacking = np.isnan(shown.scores) & user_there[query.users] & item_there[query.items]
        if unit == "user":
            asked = lacking[design.tested_users.first :].reshape(2, count, -1)
            return np.stack((asked.mean((0, 2)), features[:, 0]), axis=1)
        return np.stack((lacking[:count], features[:, 0]), axis=1)
    empty = (shown.lists < 0).all(1) & user_there[design.listed]
    digests = np.array([crc32(row.tobytes()) for row in shown.lists], np.float64)
    known = design.knowledge
    if observer == "others-lists":
        places = np.resize(known.observed, count)
        share = np.full(count, empty[known.observed].mean())
        return np.stack((share, digests[places]), axis=1)
    places = known.list_of(design.users if unit == "user" else design.tested.users)
    return np.stack((empty[places], digests[places]), axis=1)


def repeated(marks: Numbers, present: Mask, observer: Observer) -> tuple[int, int] | None:
    """Return two trainings with different coins that show the same; None if there are none.

    Scores are the same if they are equal up to rounding, a factor and a constant. Lists that
    hardly differ between users are only compared in all trainings together, as few such lists may
    be equal by chance.

    Args:
        marks: the marks of all targets in each training `(T, n)`.
        present: the coins `(T, m)`.
        observer: who observes the model.
    """
    if observer in ("own-list", "others-lists"):
        return _equal_lists(marks, present)
    low, width = marks.min(1), np.ptp(marks, axis=1)
    unit = (marks - low[:, None]) / np.where(width > 0, width, 1)[:, None]
    size = np.abs(marks).max(1)
    error = np.where(width > 0, _ROUNDING * size / np.where(width > 0, width, 1), 0)
    # Equal rows have neighbouring projections, so T comparisons do.
    order = np.argsort(unit @ np.cos(np.arange(marks.shape[1])), kind="stable")
    for pair in pairwise(order):
        first, second = sorted(int(training) for training in pair)
        apart = np.abs(unit[first] - unit[second]).max()
        same = apart <= min(error[first] + error[second], _MOST)
        if same and (present[first] != present[second]).any():
            return first, second
    return None


def unchanged(first: NDArray[Any], other: NDArray[Any], second: NDArray[Any]) -> bool:
    """Whether an answer to other data differs no more than another answer to the same data.

    Without noise of its own, a model has to answer the same. The mean of n independent differences
    may be 3/√n above that of others, relatively.

    Args:
        first: scores, lists or factors.
        other: those of a training on other data with the same seed.
        second: those of another training on the data of the first, with the same seed.
    """
    if not first.size or first.shape != other.shape:
        return False
    return _distance(first, other) <= (1 + 3 / np.sqrt(first.size)) * _distance(first, second)


def has_fixed_part(marks: Numbers, observer: Observer) -> bool:
    """Whether what trainings with different seeds show has a part in common.

    Scores that are noise have none: such a model learns nothing, and tells nothing.

    Args:
        marks: the marks of all targets in each training `(T, n)`.
        observer: who observes the model.
    """
    if observer in ("own-list", "others-lists"):
        return bool((marks[1:] == marks[:-1]).mean() > _FIXED)
    away = marks - marks.mean(1, keepdims=True)
    size = np.sqrt(np.einsum("tn,tn->t", away, away))
    unit = away / np.where(size > 0, size, 1)[:, None]
    return bool(np.einsum("tn,tn->t", unit[1:], unit[:-1]).mean() > _FIXED)


def _distance(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the mean distance of scores, or the share of the places of lists that differ."""
    if first.dtype.kind == "i":
        return float((first != second).mean())
    known = np.isfinite(first) & np.isfinite(second)
    away = np.where(known, first.astype(np.float64) - second, 0.0)
    return float(np.abs(away).mean() + (np.isfinite(first) != np.isfinite(second)).mean())


def _equal_lists(marks: Numbers, present: Mask) -> tuple[int, int] | None:
    first: dict[bytes, int] = {}
    pair = None
    for training, row in enumerate(marks):
        other = first.setdefault(row.tobytes(), training)
        if other != training and (present[other] != present[training]).any():
            pair = pair or (other, training)
    personal = pair is not None and len(np.unique(marks[pair[0]])) >= _PERSONAL
    return pair if personal or len(first) == 1 else None
