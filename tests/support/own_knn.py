"""A command that trains item-item cosine similarity in numpy: python own_knn.py TASK."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def trained(seen: Array) -> Array:
    """Return the similarities of the columns of the ratings `(N, M)`."""
    norm = np.maximum(np.linalg.norm(seen, axis=0), 1e-12)
    return seen.T @ seen / np.outer(norm, norm)


def best(seen: Array, scores: Array, k: int) -> NDArray[np.int64]:
    """Return the k best unseen items of each row, the first of equal ones."""
    found: NDArray[np.int64] = np.argsort(
        -np.where(seen > 0, -np.inf, scores), axis=1, kind="stable"
    )[:, :k]
    return found


def read(path: str) -> Array:
    if path.endswith(".csv"):
        return np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    import pyarrow.parquet

    return np.column_stack([column.to_numpy() for column in pyarrow.parquet.read_table(path)])


def write(path: str, names: list[str], columns: list[Array]) -> None:
    if path.endswith(".csv"):
        table = np.column_stack(columns)
        np.savetxt(path, table, "%.9g", ",", header=",".join(names), comments="")
        return
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(dict(zip(names, columns, strict=True))), path)


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text())
    user, item, rating = read(task["interactions"]).T
    seen = np.zeros((task["n_users"], task["n_items"]))
    seen[user.astype(int), item.astype(int)] = rating
    similar = trained(seen)
    scores = seen @ similar
    pairs = read(task["pairs"]).astype(int)
    write(task["scores"], ["user", "item", "score"], [*pairs.T, scores[tuple(pairs.T)]])
    listed = read(task["users"]).astype(int)[:, 0]
    items = best(seen, scores, task["k"])[listed]
    users, ranks = np.indices(items.shape)
    columns = [listed[users].ravel(), ranks.ravel() + 1, items.ravel()]
    write(task["lists"], ["user", "rank", "item"], columns)
    for name, factors in (("items", similar.T), ("users", seen)):
        if task["factors"]:
            names = [f"factor_{n}" for n in range(factors.shape[1])]
            write(task["factors"][name], names, list(factors.T))


if __name__ == "__main__":
    main()
