"""Numbers of trainings: their means, what their lists show, and those that end without a model.

Whether a training ends without a model may depend on the data, so it is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.frequentist.means import betting_mean
from dpaudit.core.errors import InputError, NoModelError, RunError
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import discounts
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.record.result import Family, FindingRecord

Indices = NDArray[np.int32]
Numbers = NDArray[np.float64]
# Trials, or the indices of trainings.
Part = TypeVar("Part", Streams, tuple[int, ...])
T = TypeVar("T")
U = TypeVar("U")


def attempted(training: Callable[[], T], without: U) -> T | U:
    """Return what a training returns, or `without` if it ends without a model.

    numpy does not warn of the infinite numbers of a training that diverges.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return training()
    except NoModelError:
        return without


def outcomes(
    work: Callable[[Part], NDArray[Any]], part: Part, without: NDArray[Any]
) -> NDArray[Any]:
    """Return what `work` returns for some trainings, one entry each.

    Args:
        work: trains each model, and returns an array whose numbers for a training do not depend on
            the other trainings.
        part: the trainings.
        without: the array for one training that ends without a model; if it has fewer columns than
            those of the others, its last number is repeated.
    """
    entries = attempted(partial(work, part), None)
    if entries is not None:
        return entries
    if len(part) == 1:
        return without
    singles: Any = part.blocks(1) if isinstance(part, Streams) else [(index,) for index in part]
    return joined([outcomes(work, single, without) for single in singles])


def joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate arrays along the trainings; rows with fewer columns repeat their last number."""
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    width = max(part.shape[1] for part in parts)
    return np.concatenate(
        [np.pad(part, ((0, 0), (0, width - part.shape[1])), "edge") for part in parts]
    )


def diverged(
    count: int,
    trainings: int,
    purpose: str,
    model: str,
    epsilon: float,
    metrics: Sequence[str] = (),
) -> Iterator[FindingRecord]:
    """Yield a finding if trainings ended without a model.

    What is measured on models has no value where there is none, and a mean over the other
    trainings would be that of a choice. So no gate on such a number passes.

    Args:
        count: the number of trainings without a model.
        trainings: the number of all.
        purpose: what the trainings are for, in words.
        model: the model's label.
        epsilon: the ε of the sweep.
        metrics: the metrics that this leaves open; all by default.
    """
    if not count:
        return
    it = "It" if math.isinf(epsilon) else f"At ε = {epsilon:g} it"
    where = f"{count} of {trainings} trainings" if trainings > 1 else "a training"
    yield FindingRecord(
        model=model,
        about="diverged",
        text=f"{it} diverged in {where} for {purpose}: there were no finite numbers, or no draw "
        "was accepted.",
        remedy="Take smaller steps (a lower learning rate) or less noise, so that every training "
        f"ends with finite numbers; until then no gate on {purpose} passes.",
        undecided=True,
        epsilon=epsilon,
        metrics=tuple(metrics),
    )


# Relative rounding error of a number computed from single precision.
_ROUNDING = 1e-6


def joint_mean(values: Numbers, family: Family, least: float = 0.0, most: float = 1.0) -> Estimate:
    """Estimate the mean over trainings of a number from `least` to `most`, jointly with all others.

    The sample are the trainings, which are independent given the data. Nothing is assumed of the
    law of the number, so the interval may gate. It is about trainings on these data, tested on
    these data, and not about other data.

    Args:
        values: the number in each training `(T,)`, or in a training on each of F folds `(T, F)`;
            the mean over the folds of their means is estimated, with T F independent trainings.
        family: the family of the run's intervals.
        least: the least possible number.
        most: the largest possible number.

    Raises:
        RunError: a number is larger.
    """
    width = most - least or 1.0
    unit = (values.reshape(-1) - least) / width
    if unit.max() > 1 + _ROUNDING:
        raise RunError(
            f"a training gives numbers of up to {values.max():g}, and {most:g} is the largest for "
            "predictions on the rating scale: correct the model's predict"
        )
    folds = values.size // len(values)
    bet = betting_mean(np.clip(unit, 0, 1), family.alpha, family.confidence, together=folds)
    return bet.mapped(lambda share: least + width * share).changed(
        method="betting over trainings" + (f" on {folds} folds" if folds > 1 else "")
    )


def precision_and_recall(
    lists: Indices, users: Indices, liked_by: Indices, liked: Indices
) -> tuple[Numbers, Numbers]:
    """Compute precision@k and recall@k in each trial, averaged over users with items to find.

        precision = hits/k,    recall = hits/(number of the user's items to find)

    A list shorter than k counts as one of length k.

    Args:
        lists: the items of each list `(W, n, k)`; −1 in empty places.
        users: the user of each list, each once `(n,)`.
        liked_by: the user of each item to find `(m,)`.
        liked: the items to find `(m,)`; each pair of user and item once.

    Returns:
        Both `(W,)`, in [0, 1].

    Raises:
        InputError: there are no items to find, a user with items to find has no list, or a user
            has two lists.
    """
    hits, counts = _hits(lists, users, liked_by, liked)
    hit_counts = hits.sum(2)
    return hit_counts.mean(1) / lists.shape[2], (hit_counts / counts).mean(1)


def hit_rate_and_mrr(
    lists: Indices, users: Indices, liked_by: Indices, liked: Indices
) -> tuple[Numbers, Numbers]:
    """Compute the share of users whose list hits, and the mean reciprocal rank of its first hit.

    A list without a hit has the reciprocal rank 0. Both are over users with items to find.
    Arguments, results and errors as in `precision_and_recall`.
    """
    hits, _ = _hits(lists, users, liked_by, liked)
    some = hits.any(2)
    return some.mean(1), (some / (1 + hits.argmax(2))).mean(1)


def ndcg(lists: Indices, users: Indices, liked_by: Indices, liked: Indices) -> Numbers:
    """Compute nDCG@k in each trial, averaged over users with items to find `(W,)`, in [0, 1].

    The gain of a hit at place p = 0, 1, … is 1/log2(2 + p), and their sum is divided by that of
    the best list (Järvelin & Kekäläinen 2002, doi:10.1145/582415.582418). Arguments and errors as
    in `precision_and_recall`.
    """
    hits, counts = _hits(lists, users, liked_by, liked)
    gains = discounts(lists.shape[2])
    best = np.cumsum(gains)[np.minimum(counts, len(gains)) - 1]
    values: Numbers = ((hits * gains).sum(2) / best).mean(1)
    return values


def _hits(
    lists: Indices, users: Indices, liked_by: Indices, liked: Indices
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which places hit `(W, n, k)`, and the numbers of items to find, if there are any."""
    if not len(liked):
        raise InputError("there is no item to find: hold out, or keep private, at least one")
    if len(np.unique(users)) < len(users):
        raise InputError("a user has two lists: give each user once")
    missing = np.setdiff1d(liked_by, users)
    if len(missing):
        raise InputError(f"{len(missing)} users have items to find but no list: add their lists")
    n_items = int(max(lists.max(initial=0), liked.max())) + 1
    wanted = np.unique(liked_by.astype(np.int64) * n_items + liked)
    counts = np.bincount(wanted // n_items, minlength=int(users.max()) + 1)[users]
    pairs = users.astype(np.int64)[:, None] * n_items + lists
    hits = np.isin(pairs, wanted) & (lists >= 0)
    return hits[:, counts > 0], counts[counts > 0]


def most_popular(ratings: Ratings, users: Indices, k: int) -> Indices:
    """Return the items rated most often that each user has not rated `(n, k)`, best first.

    Ties are broken by the lower item index; −1 fills what is left of a short list.
    """
    counts = np.bincount(ratings.item, minlength=ratings.n_items)
    popular = np.argsort(-counts, kind="stable").astype(np.int32)
    start, items, _ = ratings.by_user
    lists = np.full((len(users), k), -1, np.int32)
    for row, user in zip(lists, users, strict=True):
        others = np.ones(ratings.n_items, np.bool_)
        others[items[start[user] : start[user + 1]]] = False
        best = popular[others[popular]][:k]
        row[: len(best)] = best
    return lists
