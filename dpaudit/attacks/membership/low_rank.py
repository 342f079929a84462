"""What sticks out of the low-rank part of a model's own scores: membership without a training.

A model that generalises scores like rows alike. What it memorised sticks out of the low-rank part
of its scores. For the scores F of a set R of users on a set L of items, with the singular value
decomposition F[R, L] ≈ U diag(s) Vᵀ, the score of a user u for an item i leaves

    r_k(u, i) = F[u, i] − Σ_{j ≤ k} a_uj b_ji / s_j,    a_u = F[u, L] V,    b = Uᵀ F[R, :],

the residual of the skeleton decomposition F[:, L] F[R, L]_k⁺ F[R, :] (Goreinov, Tyrtyshnikov &
Zamarashkin 1997, doi:10.1016/S0024-3795(96)00301-1). With all users and all items it is what is
beyond the first k singular values. It is divided by the geometric mean of the root mean squares of
the residuals of its user and of its item.

**Log-odds.** A quadratic logistic regression on the score, the residuals, and the popularity of the
item and the activity of the user tells known members, interactions that are in every training, from
held-out ones. It needs no other training, and reads no coin of a target: popularity and activity
are counted without targets, and a member does not count itself. Where held-out interactions differ
from members in other ways, such as in time, it is weaker, and tells no coin for that.

It is fitted twice, to a half of the members and of the held-out interactions each. A held-out
interaction has the log-odds of the other fit, so that those of the population are no better fitted
than those of the targets, which have the mean of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.attacks.membership.features import Known, Pairs, Shown, below_all
from dpaudit.core.errors import InputError
from dpaudit.core.streams import generator

Indices = NDArray[np.int32]
Numbers = NDArray[np.float64]

# Numbers of singular values that are taken off, and places of those whose residuals are features.
_RANKS = np.array([2, 4, 8, 16, 24, 32, 48, 64])
_FEATURES = np.array([1, 3, 5, 7])
# Further directions of the randomised decomposition, and its iterations; with more of either, the
# attack finds the same in models of MovieLens-100K.
_FURTHER, _ITERATIONS = 10, 2
# The share of the mean square of all residuals that is added to those of a user and of an item, and
# the least mean square of residuals, relative to scores, that is no rounding.
_SHRUNK, _ROUNDING = 0.1, 1e-10
# λ of the regression on standardised columns, which are cut at so many standard deviations.
_RIDGE, _MOST = 3.0, 5.0
# The fewest members and held-out interactions of a fit.
_FEWEST = 5
# What is divided by at least.
_TINY = 1e-150


@dataclass(frozen=True, eq=False)
class Questions:
    """Whose scores are asked besides those of the targets' pairs, to find their low-rank part.

    Attributes:
        known: what the attacker knows.
        tested: the target interactions, then the held-out ones `(t,)`.
        histories: items of each target user's history, `h` a user, user by user `(m · h,)`.
        outside: the held-out interactions, as indices into `tested`, whose users are no targets.
        members: interactions of other users that are in every training `(q,)`.
        rows: the users R, whose scores of all columns are asked, increasing `(r,)`.
        columns: the items of all these pairs, and others, increasing `(c,)`.
        users: the users of all these pairs, whose scores of the items L are asked, increasing
            `(n,)`.
        landmarks: the items L, as indices into columns, increasing `(l,)`. If they are all
            columns, `users` are the rows.
        width: h.
    """

    known: Known
    tested: Pairs
    histories: Pairs
    outside: NDArray[np.int64]
    members: Pairs
    rows: Indices
    columns: Indices
    users: Indices
    landmarks: NDArray[np.int64]
    width: int

    @property
    def asked(self) -> tuple[Indices, Indices]:
        """The users and the items of the pairs whose scores are asked, in this order."""
        others = self.users[:0] if self._whole else self.users
        blocks = ((self.rows, self.columns), (others, self.columns[self.landmarks]))
        users = [np.repeat(users, len(items)) for users, items in blocks]
        items = [np.tile(items, len(users)) for users, items in blocks]
        members = self.members
        return np.concatenate((members.users, *users)), np.concatenate((members.items, *items))

    def features(self, shown: Shown, rated: bool) -> tuple[Numbers, Numbers]:
        """Return the log-odds, the score and four residuals of pairs.

        Args:
            shown: what the model shows, with the scores of the asked pairs.
            rated: whether scores are predicted ratings; then the ratings are covariates too.

        Returns:
            Those of the tested interactions `(t, 6)`, and their means over the history of each
            target user `(m, 6)`. A user or an item that the model does not know has log-odds and a
            score below all others.

        Raises:
            TypeError: the further scores were not asked.
        """
        if shown.further is None:
            raise TypeError("the scores of further pairs were not asked")
        tested, histories = len(self.tested.users), len(self.histories.users)
        asked = shown.further.astype(np.float64)
        cut = len(self.members.users)
        pairs: Numbers = np.concatenate((shown.scores[: tested + histories], asked[:cut]))
        unknown = np.isnan(pairs)
        scores = np.where(unknown, below_all(pairs), pairs)
        residuals = self._residuals(asked[cut:], scores)
        ratings = (self.pairs.values,) if rated else ()
        odds = self._log_odds(residuals, np.column_stack((scores, self.counts, *ratings)))
        odds = np.where(unknown, below_all(odds), odds)
        every = np.column_stack((odds, scores, residuals[:, _FEATURES]))
        of_users = every[tested : tested + histories].reshape(-1, self.width, every.shape[1])
        return every[:tested], of_users.mean(1)

    def _residuals(self, asked: Numbers, scores: Numbers) -> Numbers:
        """Return the relative residuals of pairs by rank `(p, 8)`.

        Args:
            asked: the scores of rows and of landmarks; NaN counts as their median.
            scores: the scores of the pairs `(p,)`.
        """
        unknown = np.isnan(asked)
        if unknown.any():
            asked = np.where(unknown, 0 if unknown.all() else np.median(asked[~unknown]), asked)
        cut = len(self.rows) * len(self.columns)
        right = asked[:cut].reshape(len(self.rows), -1)
        left = right if self._whole else asked[cut:].reshape(len(self.users), -1)
        core = right[:, self.landmarks]
        u, values, v = _decomposed(core, min(_RANKS[-1], *core.shape))
        a, b = left @ v.T, right.T @ u
        total = np.mean(core**2)
        rest = np.maximum(total - np.cumsum(values**2) / core.size, _ROUNDING * total)
        of_user = np.mean(left**2, 1)[:, None] - np.cumsum(a**2, 1) / core.shape[1]
        of_item = np.mean(right**2, 0)[:, None] - np.cumsum(b**2, 1) / core.shape[0]
        user = np.searchsorted(self.users, self.pairs.users)
        item = np.searchsorted(self.columns, self.pairs.items)
        inverse = 1 / np.maximum(values, math.sqrt(_ROUNDING) * max(values[0], _TINY))
        away = scores[:, None] - np.cumsum(a[user] * inverse * b[item], axis=1)
        squares = [np.maximum(part, 0) + _SHRUNK * rest for part in (of_user[user], of_item[item])]
        ranks = np.minimum(_RANKS, max(1, min(core.shape) // 2)) - 1
        return (away / np.maximum((squares[0] * squares[1]) ** 0.25, _TINY))[:, ranks]

    def _log_odds(self, residuals: Numbers, others: Numbers) -> Numbers:
        """Return the log-odds that pairs are members `(p,)`.

        Args:
            residuals: the residuals of pairs `(p, 8)`. Products of two of them are left out, as
                they are nearly collinear.
            others: the other covariates `(p, c)`.
        """
        first, second = _standardised(residuals), _standardised(others)
        linear = np.hstack((first, second))
        products = linear[:, :, None] * second[:, None]
        x = np.hstack((linear, first**2, products.reshape(len(linear), -1)))
        members = np.arange(len(x) - len(self.members.users), len(x))
        if min(len(members), len(self.outside)) < 2 * _FEWEST:
            return np.zeros(len(x))
        halves = [(self.outside[half::2], members[half::2]) for half in (0, 1)]
        odds = np.stack([_fitted(x, *half) for half in halves])
        both = odds.mean(0)
        for own, other in ((0, 1), (1, 0)):
            both[halves[own][0]] = odds[other, halves[own][0]]
        return both

    @property
    def _whole(self) -> bool:
        return len(self.landmarks) == len(self.columns)

    @cached_property
    def pairs(self) -> Pairs:
        """The tested interactions, the histories of target users, and the members `(p,)`."""
        parts = zip(self.tested, self.histories, self.members, strict=True)
        return Pairs(*(np.concatenate(part) for part in parts))

    @cached_property
    def counts(self) -> Numbers:
        """The logarithms of the popularity and the activity of pairs, without themselves `(p, 2)`.

        What the attacker knows counts; targets and held-out interactions are not in it.
        """
        history, pairs = self.known.history, self.pairs
        popularity = np.bincount(history.indices, minlength=history.shape[1])[pairs.items]
        activity = np.diff(history.indptr)[pairs.users]
        own = np.arange(len(pairs.users)) >= len(self.tested.users)
        return np.log1p(np.stack((popularity, activity), axis=1) - own[:, None])


def of_one_model(
    scores: NDArray[np.float32], members: NDArray[np.int64], others: NDArray[np.int64], seed: int
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], tuple[Numbers, Numbers]]:
    """Return the log-odds of members and of others by all scores of one model.

    A half of the members and of the others, drawn at random, is what the attacker knows, and fits
    the log-odds; the other halves are judged, so that no pair is judged by a fit to itself.

    Args:
        scores: the scores, users × items `(N, M)`; NaN where there is none.
        members: users and items of pairs that the model was trained on, each once `(n, 2)`.
        others: those of pairs that it was not trained on, each once `(n', 2)`.
        seed: draws the halves.

    Returns:
        The rows of members and of others that are judged, increasing, and their log-odds.

    Raises:
        InputError: there are fewer than 20 members or others, which are too few to fit.
    """
    if min(len(members), len(others)) < 4 * _FEWEST:
        raise InputError(
            f"{len(members)} members and {len(others)} others are too few: give {4 * _FEWEST} of "
            "each, as half of them fit the attack"
        )
    stream = generator(seed, "low-rank halves")
    drawn = [stream.permutation(len(pairs)) for pairs in (members, others)]
    fits = [order[: len(order) // 2] for order in drawn]
    judged = [np.sort(order[len(order) // 2 :]) for order in drawn]
    known, outside = _pairs(members[fits[0]]), others[fits[1]]
    tested = _pairs(np.concatenate((outside, members[judged[0]], others[judged[1]])))
    users, items = (np.arange(size, dtype=np.int32) for size in scores.shape)
    history = csr_array((known.values, (known.users, known.items)), shape=scores.shape)
    questions = Questions(
        Known(history, users[:0], users[:0]),
        tested,
        _pairs(others[:0]),
        np.arange(len(outside)),
        known,
        users,
        items,
        users,
        np.arange(len(items)),
        1,
    )
    asked, further = (scores[pairs.users, pairs.items] for pairs in (tested, known))
    further = np.concatenate((further, scores.reshape(-1)))
    shown = Shown(asked, np.empty((0, 0), np.int32), np.empty((0, 0), np.float32), further=further)
    odds = questions.features(shown, rated=False)[0][len(outside) :, 0]
    return (judged[0], judged[1]), (odds[: len(judged[0])], odds[len(judged[0]) :])


def _pairs(places: NDArray[np.int64]) -> Pairs:
    users, items = places.T.astype(np.int32)
    return Pairs(users, items, np.ones(len(places), np.float32))


def _standardised(columns: Numbers) -> Numbers:
    """Return columns with mean 0 and variance 1, cut at some standard deviations; 0 if constant."""
    spread = columns.std(0)
    away = (columns - columns.mean(0)) / np.where(spread > 0, spread, 1)
    return np.clip(away, -_MOST, _MOST)


def _fitted(x: Numbers, outside: NDArray[np.int64], members: NDArray[np.int64]) -> Numbers:
    """Return the log-odds of all rows of x by a fit to some; both kinds count half."""
    from sklearn.linear_model import LogisticRegression  # takes a second to import

    rows = np.concatenate((outside, members))
    model = LogisticRegression(C=1 / _RIDGE, class_weight="balanced", max_iter=1000)
    fitted = model.fit(x[rows], np.arange(len(rows)) >= len(outside))
    odds: Numbers = fitted.decision_function(x)
    return odds


def _decomposed(matrix: Numbers, rank: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return the first singular vectors and values of a matrix: U `(r, K)`, s `(K,)`, Vᵀ `(K, l)`.

    By a randomised range finder with power iterations (Halko, Martinsson & Tropp 2011,
    doi:10.1137/090771806, algorithm 4.4); the same matrix has the same ones.
    """
    size = min(rank + _FURTHER, *matrix.shape)
    start = generator(0, "low-rank sketch").standard_normal((matrix.shape[1], size))
    basis = np.linalg.qr(matrix @ start).Q
    for _ in range(_ITERATIONS):
        basis = np.linalg.qr(matrix @ np.linalg.qr(matrix.T @ basis).Q).Q
    u, values, v = np.linalg.svd(basis.T @ matrix, full_matrices=False)
    return basis @ u[:, :rank], values[:rank], v[:rank]
