"""Deletion: a model is trained with what is to be forgotten, forgets it, and then shows itself.

With one model for the users of each shard, few models are trained anew. A trained factorisation
forgets by a Newton step, or by the ascent of a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.core.errors import ConfigError
from dpaudit.core.membership import Unlearning
from dpaudit.core.streams import generator
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings
from dpaudit.recommenders.base import Answer, Deletion, Indices, Query, Trainable


@runtime_checkable
class Forgets(Protocol):
    """A trained model that can forget."""

    def forget(self, interactions: Indices, seed: int) -> Any:
        """Return the model without some interactions.

        Args:
            interactions: the pairs (user, item) to forget `(n, 2)`.
            seed: decides everything that is random.
        """
        ...


@runtime_checkable
class ForgetsUsers(Protocol):
    """A trained model that can forget whole users."""

    def forget_users(self, users: Indices, seed: int) -> Any:
        """Return the model without some users.

        Args:
            users: the users whose whole histories are forgotten, increasing `(n,)`.
            seed: decides everything that is random.
        """
        ...


@dataclass(frozen=True, eq=False)
class _Wrapper(Trainable):
    """What trains something else, and shows what that does.

    Attributes:
        trainable: what is trained.
    """

    trainable: Trainable

    @property
    def predicts_ratings(self) -> bool:
        """Whether scores are predicted ratings."""
        return self.trainable.predicts_ratings

    @property
    def leaves_out(self) -> Collection[str]:
        """What it cannot show."""
        return self.trainable.leaves_out

    @property
    def answers_histories(self) -> bool:
        """Whether what is trained may be able to score what follows a history."""
        return self.trainable.answers_histories


@dataclass(frozen=True, eq=False)
class Forgetting(_Wrapper):
    """Train on all that is given, let the model forget the targets among it, and ask it then.

    If the deletion is exact, what it shows has the law of a training without the targets, whatever
    targets were there: so no attacker tells which were.

    Attributes:
        method: how it forgets.
        targets: users × items, nonzero where an interaction is to be forgotten `(N, M)`.
        requests: the number of requests, among which these are divided at random, one after the
            other. A user of whom nothing stays is in one of them as a whole, so there are at most
            as many requests as such users and other interactions.
    """

    method: Unlearning
    targets: csr_array
    requests: int = 1

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        """Train, forget, and show what is asked; see `Trainable.answer`.

        Raises:
            ConfigError: the model cannot forget by this method, or as `answer` of what is trained.
            RunError: the training fails, or what the model shows cannot be used.
        """
        rows = interactions.ratings
        gone = self.gone(rows)
        if gone.any() and self.method != "retrain":
            turns, left = self.turns(rows, seed), np.ones(len(rows), np.bool_)
            requests = []
            for turn in range(int(turns.max()) + 1):
                here = turns == turn
                left[here] = False
                pairs = np.stack((rows.user[here], rows.item[here]), axis=1)
                requests.append(Deletion(self.method, Interactions.of(rows, left.copy()), pairs))
            return self.trainable.answer_without(interactions, requests, seed, query)
        after = replace(query, before=False)
        answer = self.trainable.answer(Interactions.of(rows, ~gone), seed, after)
        if not query.before:
            return answer
        before = self.trainable.scored(interactions, seed, query) if gone.any() else answer.scores
        return answer._replace(before=before)

    def gone(self, rows: Ratings) -> NDArray[np.bool_]:
        """Mark the interactions that are forgotten `(R,)`."""
        return np.asarray(self.targets[rows.user, rows.item]).reshape(-1) != 0

    def turns(self, rows: Ratings, seed: int) -> NDArray[np.int64]:
        """Return the request, from 0, that has each interaction of a training, or -1 `(R,)`."""
        gone = self.gone(rows)
        stays = np.bincount(rows.user[~gone], minlength=rows.n_users) > 0
        row = np.flatnonzero(gone)
        user = rows.user[row]
        # A user of whom nothing stays asks once, and for other interactions one by one.
        _, part = np.unique(np.where(stays[user], rows.n_users + row, user), return_inverse=True)
        count = int(part.max(initial=-1)) + 1
        order = np.arange(count) * min(self.requests, count) // max(count, 1)
        turns = np.full(len(rows), -1)
        turns[row] = generator(seed, "deletion requests").permutation(order)[part]
        return turns


@dataclass(frozen=True, eq=False)
class Sharded(_Wrapper):
    """Train a model on the users of each shard, and let a user's own one answer.

    Users are divided at random, by their index alone: neither the data nor the seed of a training
    decide a user's shard, and it is public. The division is that of SISA (Bourtoule et al. 2021,
    arXiv:1912.03817), by users; RecEraser (Chen et al. 2022, arXiv:2201.06820) puts like users
    together. Both aggregate all models; a factorisation has no factors of a user whom it was not
    trained on, so here no model but the user's own answers.

    To forget by `own`, the models of the shards concerned are trained anew on what stays, with
    their seed. Since a training is a function of its data and seed, this is bit by bit the training
    without what is forgotten, and is computed as such.

    Attributes:
        shards: the number of shards.
    """

    shards: int

    @property
    def leaves_out(self) -> Collection[str]:
        """What a model cannot show, and factors, which several do not have in common."""
        return {*self.trainable.leaves_out, "factors"}

    @property
    def answers_histories(self) -> bool:
        """A history that is sent belongs to no shard."""
        return False

    def of_users(self, count: int) -> NDArray[np.int64]:
        """Return the shard of each user `(N,)`; that of an index does not depend on their number.

        Args:
            count: the number of users.
        """
        return generator(0, "shards of users").integers(self.shards, size=count)

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        """Train a model a shard, and show what is asked; see `Trainable.answer`.

        Raises:
            ConfigError: factors are asked, a shard has no interactions, or as in `answer` of what
                is trained.
            RunError: as in `answer` of what is trained.
        """
        if query.factors:
            raise ConfigError(
                f"{self.shards} shards publish no common factors: remove the observers 'factors' "
                "and 'nearest-items', or recommender.shards"
            )
        scores = np.empty(len(query.users), np.float32)
        lists = np.empty((len(query.listed), query.k), np.int32)
        shard, rows = self.of_users(interactions.shape[0]), interactions.ratings
        for index in range(self.shards):
            among = shard == index
            kept = among[rows.user]
            if not kept.any():
                known = len(np.unique(rows.user))
                raise ConfigError(
                    f"recommender.shards = {self.shards}: one of them has no interactions, as "
                    f"{known} users have some: give fewer, such as {max(2, known // 10)}"
                )
            pairs, listed = among[query.users], among[query.listed]
            users, items = query.users[pairs], query.items[pairs]
            asked = replace(query, users=users, items=items, listed=query.listed[listed])
            answer = self.trainable.answer(Interactions.of(rows, kept), seed, asked)
            scores[pairs], lists[listed] = answer.scores, answer.lists
        return Answer(scores, lists, None)

    def answer_without(
        self, interactions: Interactions, requests: Sequence[Deletion], seed: int, query: Query
    ) -> Answer:
        """Train, forget, and show what is asked; see `Trainable.answer_without`.

        Raises:
            ConfigError: the method is not `own`, or as in `answer`.
            RunError: as in `answer`.
        """
        if requests[0].method != "own":
            return super().answer_without(interactions, requests, seed, query)
        answer = self.answer(requests[-1].kept, seed, query)
        if not query.before:
            return answer
        return answer._replace(before=self.scored(interactions, seed, query))


Array = NDArray[np.float64]
Index = NDArray[np.integer]

# Steps of an ascent, and by which share of its length each of them moves a row.
ASCENTS, STEP = 5, 0.01
# Iterations that solve for a Newton step. More of them follow directions in which the Hessian of a
# model that has not converged is nearly 0, and lead further away from a new training.
ITERATIONS = 10
# The number of inner products at a time.
_TOGETHER = 2**16


class Pair(NamedTuple):
    """A row for each user `(N, d)` and for each item `(M, d)`."""

    users: Array
    items: Array


# Returns the derivative of a loss by the score of each pair (user, item), given the factors.
Slopes = Callable[[Pair], csr_array]


def products(factors: Pair, users: Index, items: Index) -> Array:
    """Return the scores of pairs (user, item) `(n,)`: the inner products of their factors."""
    scores = np.empty(len(users))
    for start in range(0, len(users), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        rows = factors.users[users[part]], factors.items[items[part]]
        scores[part] = np.einsum("nd,nd->n", *rows)
    return scores


def ascended(factors: Pair, slopes: Slopes, trained: tuple[Index, Index]) -> Pair:
    """Follow the gradient of a loss upwards, for `ASCENTS` steps.

    This is the negative gradient that Golatkar et al. 2020, arXiv:1911.04933, compare with. Each
    step moves a row of factors in the direction of its gradient by `STEP` of its length, and a row
    whose gradient is 0 not at all. The length of a gradient decides nothing, since it is not a
    property of the model: all scores are the same if the factors of users are divided and those of
    items multiplied by a number.

    Args:
        factors: the factors.
        slopes: the derivative of the sum of the losses of what is forgotten by each score.
        trained: 1 for the columns of users and of items that are trained, 0 for those that are
            constant `(d,)`.
    """
    for _ in range(ASCENTS):
        slope = slopes(factors)
        # For the scores S = X Y^T: dl/dX = (dl/dS) Y, and dl/dY = (dl/dS)^T X.
        gradients = slope @ factors.items, slope.T @ factors.users
        factors = Pair(*map(_moved, factors, gradients, trained))
    return factors


def _moved(rows: Array, gradient: Array, trained: Index) -> Array:
    direction = gradient * trained
    length, norm = (np.linalg.norm(part, axis=1, keepdims=True) for part in (rows, direction))
    return rows + STEP * length * direction / np.where(norm > 0, norm, 1)


def newton_step(factors: Pair, seen: csr_array, kept: csr_array, regularization: float) -> Pair:
    """Move the factors of alternating least squares towards the optimum without some pairs.

    The loss of Hu, Koren & Volinsky 2008 on confidences c is, with the factors X and Y,

        L = sum_ui w_ui (p_ui - x_u . y_i)^2 + lambda (|X|^2 + |Y|^2)

    in which w is |c| and p is whether c > 0 where there is an interaction, and 1 and 0 elsewhere.
    At an optimum of L on all data, the optimum on what stays is nearly

        (X, Y) - H^-1 grad (L_kept - L_seen)

    in which H is the Hessian of L_kept by all factors together. This is the influence function of
    Koh & Liang 2017, arXiv:1703.04730, with the Hessian of what stays (Guo et al. 2020,
    arXiv:1911.03030), and for recommenders that of Zhang et al. 2023, arXiv:2307.02147,
    without its pruning. MINRES solves for the step in `ITERATIONS` iterations, since H may have
    negative eigenvalues where a training did not converge. It is preconditioned by the blocks of
    H that belong to single users and items.

    Args:
        factors: trained factors.
        seen: the confidences that they were trained on `(N, M)`.
        kept: those that stay `(N, M)`.
        regularization: lambda.
    """
    from scipy.sparse.linalg import LinearOperator, minres

    (x, y), (n, d) = factors, factors.users.shape
    inverse = _blocks(kept, y, regularization), _blocks(csr_array(kept.T), x, regularization)
    residual = _residual(factors, kept)
    users, items, weight = _rows(kept), kept.indices, np.abs(kept.data) - 1
    squares_x, squares_y = (z.T @ z + regularization * np.eye(d) for z in (x, y))

    def parts(vector: Array) -> Pair:
        return Pair(vector[: n * d].reshape(n, d), vector[n * d :].reshape(-1, d))

    def hessian(vector: Array) -> Array:
        # Half the gradient by X is X (Y^T Y + lambda) + R Y, with the residuals R at interactions.
        # Its derivative in the direction (dx, dy), and likewise by Y:
        dx, dy = parts(vector)
        scores = products(Pair(dx, y), users, items) + products(Pair(x, dy), users, items)
        change = csr_array((weight * scores, items, kept.indptr), shape=kept.shape)
        by_x = dx @ squares_y + x @ (dy.T @ y + y.T @ dy) + change @ y + residual @ dy
        by_y = dy @ squares_x + y @ (dx.T @ x + x.T @ dx) + change.T @ x + residual.T @ dx
        return np.concatenate((by_x, by_y), axis=None)

    def preconditioned(vector: Array) -> Array:
        blocks = (
            np.einsum("nij,nj->ni", block, part)
            for block, part in zip(inverse, parts(vector), strict=True)
        )
        return np.concatenate(tuple(blocks), axis=None)

    difference = residual - _residual(factors, seen)
    gradient = np.concatenate((difference @ y, difference.T @ x), axis=None)
    shape = len(gradient), len(gradient)
    step, _ = minres(
        LinearOperator(shape, matvec=hessian, dtype=np.float64),
        gradient,
        M=LinearOperator(shape, matvec=preconditioned, dtype=np.float64),
        maxiter=ITERATIONS,
    )
    dx, dy = parts(step)
    return Pair(x - dx, y - dy)


def _residual(factors: Pair, confidences: csr_array) -> csr_array:
    """Return by how much half of dL/ds at each interaction is more than the score s itself."""
    scores = products(factors, _rows(confidences), confidences.indices)
    # w (s - p) - s = (w - 1) s - w p
    data = (np.abs(confidences.data) - 1) * scores - np.maximum(confidences.data, 0)
    return csr_array((data, confidences.indices, confidences.indptr), shape=confidences.shape)


def _rows(matrix: csr_array) -> Index:
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _blocks(confidences: csr_array, columns: Array, regularization: float) -> Array:
    """Return the inverses of the blocks of half the Hessian that belong to rows `(N, d, d)`."""
    base = columns.T @ columns + regularization * np.eye(columns.shape[1])
    blocks = np.empty((confidences.shape[0], *base.shape))
    for row, block in enumerate(blocks):
        place = slice(*confidences.indptr[row : row + 2])
        liked = columns[confidences.indices[place]]
        # Y^T W Y + lambda, in which W is 1 where there is no interaction.
        block[:] = base + (liked.T * (np.abs(confidences.data[place]) - 1)) @ liked
    return np.linalg.inv(blocks)
