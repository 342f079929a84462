"""Prints the speed of one large factorisation beside its peers, and the bytes an update moves.

    python -m pip install '.[bench]' && python bench/large_models.py

Every figure is of one thread on the ratings of MovieLens-1M, the best of some passes. cornac and
Surprise do the same updates; implicit's BPR moves a user by a rated and an unrated item. Caches are
modelled: rows of factors that were not among the last used that fit, times their bytes, read and
written back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

# One thread for every peer, before any of them is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numba
import numpy as np
from bench_peers import ml_1m_ratings, surprise_trainset
from numpy.typing import NDArray

from dpaudit.core.streams import stream_key
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.factors import TOGETHER, FactorRows, visits
from dpaudit.kernels.factorization import single_model as factor_model
from dpaudit.kernels.factorization.sixteen_models import Descent, Langevin, Pending, Visits
from dpaudit.kernels.lanes import aligned

SIZES = (16, 64, 256, 1024)
CACHES = {"32 KiB": 2**15, "1 MiB": 2**20}
MEAN, RATE, DECAY = np.float32(3.58), np.float32(0.002), np.float32(0.05)


def best(call: Callable[[], Any], rounds: int = 5) -> float:
    """Seconds of the fastest of some calls, after one that compiles."""
    call()
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def interleaved(rows: FactorRows, together: int) -> Visits:
    """A rating of each of so many users in turn: neighbouring rows do not wait for each other."""
    rank = np.arange(len(rows)) - rows.start[rows.users]
    order = np.lexsort((rows.users, rank, rows.users // together))
    return Visits(rows.users[order], rows.items[order], rows.values[order])


def ours(rows: FactorRows, size: int, visited: Visits, key: NDArray[np.uint32]) -> list[float]:
    """Million updates a second: plain, with Laplace noise, and Langevin."""
    draws = np.random.default_rng(0)
    sides = [aligned(n * size) for n in (rows.n_users, rows.n_items)]
    for side in sides:
        side[:] = draws.normal(0, 0.1 / np.sqrt(size / 16), side.size)
    biases = [np.zeros(n, np.float32) for n in (rows.n_users, rows.n_items)]
    infinite = np.float32(np.inf)
    parts = factor_model.Model(*sides, *biases, size, MEAN)

    def descend(scale: float, bound: np.float32) -> None:
        factor_model.descend(visited, parts, Descent(RATE, DECAY, scale, 0.125, bound), 1, 0, key)

    few = Visits(*(part[: len(rows) * 16 // max(size, 16)] for part in visited))
    still = [np.zeros(n, np.float32) for n in (rows.n_users, rows.n_users, rows.n_items)]
    due = Pending(*(np.zeros(n) for n in (rows.n_users, rows.n_items)))
    langevin = Langevin(*still, (-infinite, infinite), 1e-9)

    def sample() -> None:
        factor_model.sample(few, parts, langevin, due, 1, 0, key)

    return [
        len(rows) / best(lambda: descend(0, infinite)) / 1e6,
        len(rows) / best(lambda: descend(1, np.float32(2))) / 1e6,
        len(few[0]) / best(sample) / 1e6,
    ]


def model(rows: FactorRows, size: int) -> list[NDArray[np.float32]]:
    """Factors and biases at the start of a training: of users, of items."""
    draws = np.random.default_rng(0)
    sides = [
        draws.normal(0, 0.01, (n, size)).astype(np.float32) for n in (rows.n_users, rows.n_items)
    ]
    return [*sides, *(np.zeros(n, np.float32) for n in (rows.n_users, rows.n_items))]


def cornac_pass(rows: FactorRows, parts: Sequence[NDArray[np.float32]]) -> Callable[[], Any]:
    """A pass of cornac's MF, which changes the model in place."""
    from cornac.models.mf import backend_cpu

    users, items = rows.users.astype(np.int64), rows.items.astype(np.int64)
    # Copies: cornac takes no read-only array.
    values, own = rows.values.copy(), (float(RATE), float(DECAY), float(MEAN), 1, 1)
    return lambda: backend_cpu.fit_sgd(users, items, values, *parts, *own, True, False, False)


def cornac(rows: FactorRows, size: int) -> float:
    """Million updates a second of cornac's MF."""
    return len(rows) / best(cornac_pass(rows, model(rows, size)), 2) / 1e6


def agree(rows: FactorRows, size: int, key: NDArray[np.uint32]) -> None:
    """Check that our pass and cornac's, user by user, change a model alike."""
    theirs = model(rows, size)
    sides = [aligned(part.size) for part in theirs]
    for side, part in zip(sides, theirs, strict=True):
        side[:] = part.reshape(-1)
    descent = Descent(RATE, DECAY, 0.0, 0.125, np.float32(np.inf))
    parts = factor_model.Model(*sides, size, MEAN)
    factor_model.descend(rows.visits, parts, descent, 1, 0, key)
    cornac_pass(rows, theirs)()
    for side, part in zip(sides, theirs, strict=True):
        np.testing.assert_allclose(side, part.reshape(-1), rtol=1e-3, atol=1e-6)


def surprise(ratings: Ratings, size: int) -> float:
    """Million updates a second of Surprise's SVD."""
    from surprise import SVD

    trainset = surprise_trainset(ratings)
    model = SVD(n_factors=size, n_epochs=1, random_state=0)
    return len(ratings) / best(lambda: model.fit(trainset), 1) / 1e6


def implicit(rows: FactorRows, size: int) -> float:
    """Million pairs a second of implicit's BPR."""
    from implicit.cpu.bpr import BayesianPersonalizedRanking
    from scipy import sparse

    table = sparse.csr_matrix((np.ones(len(rows), np.float32), (rows.users, rows.items)))

    def seconds(passes: int) -> float:
        model = BayesianPersonalizedRanking(
            factors=size - 1, iterations=passes, num_threads=1, random_state=0
        )
        return best(lambda: model.fit(table, show_progress=False), 2)

    return 2 * len(rows) / (seconds(3) - seconds(1)) / 1e6


@numba.njit
def misses(users: NDArray[np.int32], items: NDArray[np.int32], n_users: int, room: int) -> int:
    """Rows of factors that are not among the last `room` used, of all that a pass reads."""
    count = n_users + items.max() + 1
    before, after = np.full(count + 1, -1), np.full(count + 1, -1)  # the last: the oldest, newest
    inside, held, missed = np.zeros(count, np.bool_), 0, 0
    end = count
    before[end] = after[end] = end
    for k in range(2 * len(users)):
        row = users[k // 2] if k % 2 == 0 else n_users + items[k // 2]
        if inside[row]:
            after[before[row]], before[after[row]] = after[row], before[row]
        else:
            missed += 1
            if held == room:
                oldest = after[end]
                inside[oldest] = False
                after[end] = after[oldest]
                before[after[oldest]] = end
            else:
                held += 1
        inside[row] = True
        newest = before[end]
        after[newest], before[row], after[row], before[end] = row, newest, end, row
    return missed


def moved(visited: Visits, n_users: int, size: int, cache: int) -> float:
    """KiB that an update moves between the cache and what lies beyond."""
    bytes_of_row = 4 * size
    found = misses(visited[0], visited[1], n_users, cache // bytes_of_row)
    return 2 * bytes_of_row * found / len(visited[0]) / 1024


def main(ratings: Ratings, sizes: Sequence[int] = SIZES) -> None:
    """Compare, print."""
    rows = FactorRows.of(ratings, float(MEAN))
    key = stream_key(1, "bench")
    agree(rows, sizes[0], key)
    print("million updates a second")
    head = ("d", "plain", "laplace", "langevin", "G normals/s", "cornac", "Surprise", "implicit")
    print("".join(f"{text:>12}" for text in head))
    for size in sizes:
        visited = visits(rows, size) if size > TOGETHER else interleaved(rows, 512 // size)
        found = ours(rows, size, visited, key)
        found.insert(3, found[2] * (2 * size + 2) / 1000)
        found += [cornac(rows, size), surprise(ratings, size), implicit(rows, size)]
        print(f"{size:12}" + "".join(f"{number:12.3g}" for number in found), flush=True)
    print("\nKiB that an update moves beyond a cache of the size")
    shuffled = np.random.default_rng(0).permutation(rows.n_items)[rows.items]
    chance = np.random.default_rng(1).permutation(len(rows))
    for size in sizes[2:]:
        near = 2**17 // size
        groups = np.argsort(shuffled // near, kind="stable")
        orders = {
            "popular items first, in groups": visits(rows, size),
            "items in groups at random": tuple(
                part[groups] for part in (rows.users, rows.items, rows.values)
            ),
            "user by user": (rows.users, rows.items, rows.values),
            "rows at random": tuple(part[chance] for part in (rows.users, rows.items, rows.values)),
        }
        for text, order in orders.items():
            found = [moved(order, rows.n_users, size, cache) for cache in CACHES.values()]
            speed = ours(rows, size, order, key)[0]
            print(
                f"d = {size:4}  {text:32}"
                + "".join(f"{k:8.2f} beyond {c}" for k, c in zip(found, CACHES, strict=True))
                + f"{speed:8.3g} M updates/s",
                flush=True,
            )


if __name__ == "__main__":
    main(ml_1m_ratings())
