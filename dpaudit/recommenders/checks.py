"""Checks of what a recommender shows, each with one sentence on what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import NoModelError, RunError
from dpaudit.recommenders.base import Answer, Factors, Query


def checked_answer(answer: Answer, query: Query, shape: tuple[int, int]) -> Answer:
    """Return the answer with its final types.

    Args:
        answer: what a recommender shows.
        query: what was asked.
        shape: number of users and of items.

    Raises:
        NoModelError: no score, or not every factor, is a finite number.
        RunError: a shape, type or number is wrong; names it and the remedy.
    """
    scores = checked_scores(answer.scores, len(query.users))
    if len(scores) and np.isnan(scores).all():
        raise NoModelError(
            f"all {len(scores)} scores are NaN: the training diverged, or it knows no user or item"
        )
    listed = answer.lists
    if isinstance(listed, np.ma.MaskedArray):
        listed = np.ma.filled(listed, -1)
    lists = _array(listed, "lists", (len(query.listed), query.k), "iu")
    wrong = (lists < -1) | (lists >= shape[1])
    if wrong.any():
        raise RunError(
            f"a list holds the item {lists[wrong][0]}: use 0 to {shape[1] - 1}, or -1 for no item"
        )
    ordered = np.sort(lists, axis=1)
    if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != -1)).any():
        raise RunError("a list holds an item twice: list every item once")
    if query.factors and answer.factors is None:
        raise RunError("factors are missing: return those of the items")
    if query.before and answer.before is None:
        raise RunError(
            "scores before the deletion are missing: return them, or remove the observer "
            "'before-and-after'"
        )
    if query.after is not None and answer.after is None:
        raise RunError(
            "scores after histories are missing: return them, or remove the observer "
            "'asked-histories'"
        )
    published = answer.factors
    if published is not None:
        users = None if published.users is None else _rows(published.users, "users", shape[0])
        published = Factors(_rows(published.items, "items", shape[1]), users)
    before = None if answer.before is None else checked_scores(answer.before, len(query.users))
    after = None if query.after is None else _after(answer.after, query.after.items.shape)
    return Answer(scores, lists.astype(np.int32), published, before, answer.took, after)


def checked_scores(returned: object, count: int) -> NDArray[np.float32]:
    """Return the scores of `count` pairs as float32 `(count,)`; NaN for what a model does not know.

    What is masked has no score, and -inf, by which many models leave out what a user has seen, is
    none either.

    Raises:
        NoModelError: scores are infinite and none is finite.
        RunError: the shape or type is wrong, or a score is infinite.
    """
    if isinstance(returned, np.ma.MaskedArray):
        returned = np.ma.filled(returned.astype(np.float64), np.nan)
    given = _array(returned, "scores", (count,), "biuf")
    with np.errstate(over="ignore"):
        scores = given.astype(np.float32)
    scores[given == -np.inf] = np.nan
    if np.isinf(scores).any():
        pair = int(np.flatnonzero(np.isinf(scores))[0])
        kind = RunError if np.isfinite(scores).any() else NoModelError
        raise kind(
            f"scores[{pair}] = {scores[pair]} is no finite number: return a number, or NaN for a "
            "user or item that the model does not know"
        )
    return scores


def _after(returned: Any, shape: tuple[int, ...]) -> NDArray[np.float32]:
    if np.shape(returned) != shape:
        raise RunError(
            f"scores after histories have shape {np.shape(returned)}, and {shape} was asked: "
            f"return a row for each of {shape[0]} histories, with the scores of its {shape[1]} "
            "items"
        )
    return checked_scores(np.reshape(returned, -1), shape[0] * shape[1]).reshape(shape)


def _rows(returned: object, name: str, count: int) -> NDArray[np.float32]:
    rows = np.asarray(returned)
    if rows.ndim != 2 or len(rows) != count or rows.dtype.kind not in "iuf":
        raise RunError(
            f"factors of {name} have shape {rows.shape} and type {rows.dtype}: return numbers with "
            f"one row for each of {count} {name}"
        )
    with np.errstate(over="ignore"):
        single = rows.astype(np.float32)
    if not np.isfinite(single).all():
        raise NoModelError(f"factors of {name} hold NaN or infinity: the training diverged")
    return single


def _array(returned: object, name: str, shape: tuple[int, ...], kinds: str) -> NDArray[Any]:
    try:
        array = np.asarray(returned)
    except ValueError as error:
        raise RunError(
            f"{name} have rows of different lengths, and shape {shape} was asked: "
            f"{_remedy((shape[0], 0), shape)}"
        ) from error
    if array.dtype == object and array.shape != shape:  # such as None or a sparse matrix
        raise RunError(
            f"{name} are of type {type(returned).__name__}: return an array of shape {shape}"
        )
    if array.shape != shape:
        raise RunError(
            f"{name} have shape {array.shape}, and {shape} was asked: {_remedy(array.shape, shape)}"
        )
    if array.dtype.kind not in kinds:
        wanted = "numbers" if "f" in kinds else "whole numbers"
        raise RunError(f"{name} have type {array.dtype}: return {wanted}")
    return array


def _remedy(shape: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """Say what to return instead of scores `(n,)` or lists `(n, k)` of another shape."""
    if len(wanted) == 1:
        if shape in {(*wanted, 1), (1, *wanted)}:
            return "return one dimension, as .ravel() does"
        return f"return one score for each of the {wanted[0]} pairs of users[i] and items[i]"
    rows, k = wanted
    if len(shape) == 3:
        return "return the ids alone, without their scores"
    if len(shape) != 2 or shape[0] != rows:
        return f"return one list of k = {k} items for each of the {rows} users that are asked"
    if shape[1] < k:
        return f"fill up shorter lists with -1 to k = {k}"
    return f"cut the lists to k = {k}"
